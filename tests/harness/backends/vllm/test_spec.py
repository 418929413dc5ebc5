"""Options of `model=vllm`, what it refuses while a run is planned, and what identifies it."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from openended.harness.backends.vllm import spec as spec_module
from openended.harness.backends.vllm.spec import VllmSpec
from openended.harness.core.errors import ExtraNotInstalled, SpecError
from openended.harness.core.registry import load_members
from openended.harness.decoders.base import QDecoder
from openended.harness.decoders.sampling import Nucleus
from openended.harness.models.embedder import EmbedderSpec

PATH = "bundled:docs-s"


def test_decoders_that_draw_from_q_are_taken_and_others_refused_by_name():
    spec = VllmSpec(path=PATH)
    for name, cls in load_members("decoder").items():
        if issubclass(cls, QDecoder):
            assert spec.cannot("generate", cls()) is None
        elif name in ("beam", "contrastive"):
            with pytest.raises(SpecError, match=f"{name} does not draw.*use model=transformers"):
                spec.demand("generate", cls())


def test_an_embedder_has_vllms_identity_and_needs_the_package(monkeypatch):
    plain = EmbedderSpec(path=PATH)
    spec = EmbedderSpec(path=PATH, backend="vllm")
    assert spec.model_spec() == VllmSpec(path=PATH)
    assert (plain.title, spec.title) == ("docs-s", "docs-s (vLLM)")
    assert spec.identity()["backend"] == "vllm"
    assert "backend" not in plain.identity()
    for change in ({"kind": "masked"}, {"kind": "sentence"}, {"layer": 2}):
        with pytest.raises(SpecError, match=r"embedder.backend=vllm"):
            EmbedderSpec(path=PATH, backend="vllm", **change)
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ExtraNotInstalled, match="vllm"):
        spec.check_options()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": {"speculative_config": {}}}, "speculative decoding is refused"),
        ({"engine": {"spec_method": "ngram"}}, "speculative decoding is refused"),
        ({"engine": {"dtype": "float16"}}, "model.dtype"),
        ({"engine": {"seed": 3}}, "fixed"),
        ({"gpu_memory_utilization": 1.5}, r"a number in \(0, 1\]"),
        ({"max_num_seqs": 0}, "1 or more"),
        ({"check_texts": -1}, "0 .off. or more"),
    ],
)
def test_options_out_of_range_are_one_line(options, message):
    with pytest.raises(SpecError, match=message):
        VllmSpec(path=PATH, **options)


def test_what_can_move_a_logit_is_in_the_identity(monkeypatch):
    base = VllmSpec(path=PATH)
    for change in ({"quantization": "fp8"}, {"tensor_parallel_size": 2}, {"engine": {"block_size": 32}}):
        assert VllmSpec(path=PATH, **change).identity() != base.identity()
    for change in ({"max_num_seqs": 1}, {"gpu_memory_utilization": 0.5}, {"check_texts": 0}):
        assert VllmSpec(path=PATH, **change).identity() == base.identity()
    before = base.identity()
    monkeypatch.setattr(spec_module, "find_version", lambda: "9.9")
    assert base.identity() != before
    assert base.mark == "vLLM 9.9"
    assert base.tokenizer_spec().identity().items() <= base.identity().items()


def test_the_context_is_the_smaller_one():
    whole = VllmSpec(path=PATH).context_length()
    assert whole is not None
    assert VllmSpec(path=PATH, max_model_len=32).context_length() == 32
    assert VllmSpec(path=PATH, max_model_len=10**6).context_length() == whole


def test_without_vllm_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ExtraNotInstalled, match=r"openended\[vllm\]"):
        VllmSpec(path=PATH).check_ready()


def test_specs_can_be_keys_of_a_plan():
    specs = {VllmSpec(path=PATH), VllmSpec(path=PATH, engine={"block_size": 32}), VllmSpec(path=PATH)}
    assert len(specs) == 2
    assert VllmSpec(path=PATH).title == "docs-s (vLLM)"
    assert Nucleus() in {Nucleus()}
