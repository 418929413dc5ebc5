"""Loading a causal model: what it is then, and what goes wrong said in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from openended.harness.core.errors import DataError
from openended.harness.models.spec import ModelSpec
from openended.harness.models.tokenizer import load_tokenizer
from openended.harness.models.transformers import load_model
from tests.helpers import copy_without, tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny model folder: GPT-2 shape, byte-level tokenizer."""
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def test_load_encode_and_decode(folder):
    spec = ModelSpec(path=str(folder))
    lm = load_model(spec)
    assert (lm.vocab_size, lm.context_length, lm.eos_ids) == (257, 64, (0,))
    assert lm.model.generation_config.top_k != 7  # the model's own generation settings are put aside
    assert not lm.model.training
    for text in ("Hello, wörld  with\nlines", "", " leading"):
        assert lm.decode(lm.encode(text)) == text
        assert load_tokenizer(spec).encode(text) == lm.encode(text)
    assert lm.continuation(lm.encode("a"), lm.encode(" b")) == " b"


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (("model.safetensors",), "no weights"),
        (("config.json",), "no config.json"),
        (("tokenizer.json",), "no tokenizer"),
    ],
)
def test_what_is_missing_is_named(folder, tmp_path, missing, said):
    spec = copy_without(folder, tmp_path, *missing)
    for call in (spec.check_ready, lambda: load_model(spec), spec.identity):
        with pytest.raises(DataError, match=said) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_broken_weights_are_one_line(folder, tmp_path):
    spec = copy_without(folder, tmp_path)
    (Path(spec.path) / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(DataError, match="cannot be loaded") as caught:
        load_model(spec)
    assert "\n" not in str(caught.value)


def test_a_device_that_is_not_there(folder):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(DataError, match="CUDA"):
        load_model(ModelSpec(path=str(folder)), device="cuda")
