"""Both sides of a run, and the decoder that aims at the perplexity of the human one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from openended.harness.core.types import Ragged
from openended.harness.models.spec import list_bundled_models
from openended.harness.run.artifacts import ArtifactBuilder
from openended.harness.run.pipeline.texts import make_texts, perplexity
from openended.harness.run.resolve import resolve_run
from openended.harness.run.session import Session
from openended.harness.storage.store import Store
from tests.harness.run.small import settings


@pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there")
def test_a_decoder_that_aims_at_human_text_is_resolved_before_it_generates(tmp_path):
    run = resolve_run(settings(tmp_path, "decoder=adversarial", "metric=[zipf]", "num_examples=3", "max_new_tokens=4"))
    planned, made = (
        make_texts(run, ArtifactBuilder(Session(Store(tmp_path / "store")), plan_only=plan_only))
        for plan_only in (True, False)
    )
    assert planned.decoder is run.generation.decoder
    assert planned.model_rows.entry is None
    assert made.decoder.human_ppl > 1
    assert (made.model_rows.entry.meta["n"], made.model_rows.num_texts) == (3, 3)


def test_perplexity_is_the_exponent_of_the_mean_and_1_of_no_token():
    assert math.isclose(perplexity(Ragged(np.log([2.0, 8.0]), np.array([0, 1, 2]))), 4.0)
    assert perplexity(Ragged(np.zeros(0), np.array([0]))) == 1.0
