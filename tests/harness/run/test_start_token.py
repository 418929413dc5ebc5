"""Prompts of no tokens: the start token, scoring, and texts that go on after an end token."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from openended.harness.backends.transformers import load_backend
from openended.harness.core.errors import SpecError
from openended.harness.core.types import Generation
from openended.harness.decoders.base import GenerationRequest, Prompt
from openended.harness.decoders.sampling import Temperature
from openended.harness.models.backend import ScoringRequest
from openended.harness.models.spec import ModelSpec
from openended.harness.run.generate import check_start_token
from tests.helpers import copy_without, ragged, tiny_model


def test_a_model_without_a_start_token_is_refused_with_what_to_set(tmp_path: Path) -> None:
    spec = copy_without(tiny_model(tmp_path / "tiny"), tmp_path)
    check_start_token(spec)
    for name in ("config.json", "generation_config.json"):
        path = Path(spec.path) / name
        config = {k: v for k, v in json.loads(path.read_text()).items() if k not in ("bos_token_id", "eos_token_id")}
        path.write_text(json.dumps(config))
    with pytest.raises(SpecError, match=r"no start token for an empty prompt; set bos_token_id") as caught:
        check_start_token(ModelSpec(path=spec.path))
    assert "\n" not in str(caught.value)


def test_the_first_token_is_scored_only_after_a_start_token(tmp_path: Path) -> None:
    lm = load_backend(ModelSpec(path=str(tiny_model(tmp_path / "tiny"))))
    prompts, texts = ragged([[], []]), ragged([[5, 6, 7], [8]])
    request = ScoringRequest(prompts=prompts, continuations=texts, batch_size=2)
    assert lm.score(request).lengths.tolist() == [2, 0]
    with_start = lm.score(ScoringRequest(prompts=prompts, continuations=texts, bos=True, batch_size=2))
    assert with_start.lengths.tolist() == [3, 1]
    # The start token as a prompt gives the same losses.
    as_prompt = ScoringRequest(prompts=ragged([[0], [0]]), continuations=texts, batch_size=2)
    np.testing.assert_allclose(with_start.values, lm.score(as_prompt).values, atol=1e-6)


def test_texts_go_on_after_an_end_token(tmp_path: Path) -> None:
    lm = load_backend(ModelSpec(path=str(tiny_model(tmp_path / "tiny"))))
    prompts = [Prompt(f"t/{i}", 0, (), "") for i in range(40)]

    def generate(*, continues: bool) -> dict[str, Generation]:
        out: list[Generation] = []
        request = GenerationRequest(
            prompts=prompts, decoder=Temperature(temperature=1.0), seed=0, max_new_tokens=40, batch_size=8,
            continue_after_end=continues,
        )  # fmt: skip
        lm.generate(request, out.extend)
        return {g.example_id: g for g in out}

    stopped, continued = generate(continues=False), generate(continues=True)
    ended = [i for i, g in stopped.items() if g.stop == "eos"]
    assert ended  # one token in 257 is the end token
    for i, text in continued.items():
        assert len(text.token_ids) == 40
        assert text.stop == "length"
        assert text.token_ids[: len(stopped[i].token_ids)] == stopped[i].token_ids
    assert all(continued[i].token_ids[len(stopped[i].token_ids)] == 0 for i in ended)
