"""Linear layers multiplied by oneDNN: right, the same in any company, and never with weights of yesterday."""

import copy

import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from openended.harness.models import onednn
from openended.harness.models.onednn import pack_layers

KINDS = {"linear": lambda: nn.Linear(96, 200), "no bias": lambda: nn.Linear(96, 200, bias=False),
         "conv": lambda: Conv1D(200, 96)}  # fmt: skip


@pytest.fixture(params=KINDS)
def layer(request):
    torch.manual_seed(0)
    made = KINDS[request.param]().requires_grad_(requires_grad=False)
    nn.init.normal_(made.weight)
    return made


def apply(layer, rows):
    with torch.inference_mode():
        return layer(rows)


def test_a_packed_layer_gives_the_product_to_rounding(layer):
    rows = torch.randn(3, 5, 96)
    plain = apply(layer, rows)
    pack_layers(layer)
    torch.testing.assert_close(apply(layer, rows), plain, atol=1e-4, rtol=1e-5)
    assert torch.equal(layer(rows), plain)  # gradients are recorded here


def test_a_row_gets_the_same_bits_in_any_company(layer):
    pack_layers(layer)
    rows = torch.randn(300, 96)
    together = apply(layer, rows)
    for first, count in [(0, 1), (7, 2), (100, 3), (3, 64), (150, 150)]:
        assert torch.equal(apply(layer, rows[first : first + count]), together[first : first + count])
    assert torch.equal(apply(layer, rows[5]), together[5])


@pytest.mark.parametrize("change", ["in place", "new data", "new parameter", "a copy"])
def test_changed_weights_are_packed_again(layer, change):
    pack_layers(layer)
    rows = torch.randn(4, 96)
    before = apply(layer, rows)
    if change == "a copy":
        first, layer = layer, copy.deepcopy(layer)
    if change == "in place":
        layer.weight.mul_(2)
    elif change == "new parameter":
        layer.weight = nn.Parameter(layer.weight * 2, requires_grad=False)
    else:
        layer.weight.data = layer.weight.data * 2
    bias = 0 if layer.bias is None else layer.bias
    torch.testing.assert_close(apply(layer, rows) - bias, 2 * (before - bias), atol=1e-3, rtol=1e-4)
    if change == "a copy":
        assert torch.equal(apply(first, rows), before)


def test_only_float32_models_that_fit_are_packed(monkeypatch):
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    mixed = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8, dtype=torch.bfloat16))
    pack_layers(mixed)
    monkeypatch.setattr(onednn, "MOST_WEIGHTS", 127)
    pack_layers(model)
    assert {type(layer) for layer in (*model, *mixed)} == {nn.Linear}
    monkeypatch.setattr(onednn, "MOST_WEIGHTS", 128)
    pack_layers(model)
    assert {type(layer) for layer in model} == {onednn.OnednnLinear}


def test_a_layer_that_fails_the_trial_keeps_its_own_product(layer, monkeypatch):
    """A processor whose kernel sums otherwise for many rows, or wrongly."""
    rows = torch.randn(64, 96)
    plain, real = apply(layer, rows), onednn._multiply
    for wrong in (lambda rows, *rest: real(rows, *rest) + 1e-6 * (len(rows) > 8), lambda *given: real(*given) * 1.01):
        monkeypatch.setattr(onednn, "_TRIALS", {})
        monkeypatch.setattr(onednn, "_multiply", wrong)
        tried = copy.deepcopy(layer)
        pack_layers(tried)
        assert torch.equal(apply(tried, rows), plain)
