"""How large a model is, without loading it."""

from __future__ import annotations

import pytest

from openended.harness.models.spec import ModelSpec
from tests.helpers import tiny_model


def test_a_folder_is_measured_by_the_header_of_its_weights(tmp_path):
    from transformers import GPT2LMHeadModel

    folder = tiny_model(tmp_path / "m")
    size = ModelSpec(path=str(folder)).describe_size()
    counted = sum(p.numel() for p in GPT2LMHeadModel.from_pretrained(folder).parameters())
    assert size.parameters == counted
    assert (size.here, size.get, size.memory) == (True, "", 4 * counted)
    assert ModelSpec(path=str(folder), dtype="bfloat16").describe_size().memory == 2 * counted


def test_a_model_of_the_hub_that_is_not_here_is_as_large_as_our_yaml_says(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    size = ModelSpec(path="openai-community/gpt2-xl", revision="0" * 40).describe_size()
    assert (size.parameters, size.here, size.gated) == (1_600_000_000, False, None)
    assert size.get == f"hf download openai-community/gpt2-xl --revision {'0' * 40}"
    llama = ModelSpec(path="meta-llama/Llama-3.1-8B-Instruct", revision="1" * 40).describe_size()
    assert (llama.parameters, llama.gated) == (None, True)


def test_an_empty_folder_has_no_size(tmp_path):
    size = ModelSpec(path=str(tmp_path)).describe_size()
    assert (size.parameters, size.here, size.memory) == (None, False, None)


@pytest.mark.parametrize("name", ["docs-s", "docs-m", "docs-mlm"])
def test_the_bundled_models_are_here(name):
    assert ModelSpec(path=f"bundled:{name}").describe_size().here
