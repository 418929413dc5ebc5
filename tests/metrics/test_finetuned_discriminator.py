"""Classifiers that are fine-tuned on the texts of both sides."""

import numpy as np
import pytest

from openended.harness.core import DataError, Features, Need, Plan, SpecError, UndefinedMetric
from openended.metrics.finetuned_discriminator import FinetunedDiscriminator, finetune_classifier
from tests.helpers import side
from tests.lazy import torch

NEED = Need("texts", scope="continuation")
HUMAN = [f"Return the number {i} of the list as an integer." for i in range(40)]
MODEL = [f"the the the {i} the the the" for i in range(40)]
FAST = {"learning_rate": 1e-3, "epochs": 4, "max_length": 16}


def compare_texts(human: list[str], model: list[str], **options: object):
    metric = FinetunedDiscriminator(**{**FAST, **options})
    sides = (side("human", len(human), {NEED: human}), side("model", len(model), {NEED: model}))
    return metric, Features(*sides, {"n": f"{len(human)}/{len(model)}", "task": "t@000000"})


@pytest.mark.slow
def test_different_texts_are_told_apart_and_equal_ones_are_not():
    metric, features = compare_texts(HUMAN, MODEL)
    result = metric.compute(features)
    assert result.values == {"accuracy_docs-s": 1.0}
    assert "16 held-out texts" in result.notes[0]
    # A classifier that labels both copies of a text alike is right once.
    metric, features = compare_texts(HUMAN, HUMAN)
    prepared = metric.prepare(features)
    result = metric.compute(features, prepared)
    assert result.values == {"accuracy_docs-s": 0.5}
    draws = metric.replicates(features, result, Plan(50), prepared)["accuracy_docs-s"].draws
    assert np.all((draws >= 0) & (draws <= 1))


@pytest.mark.slow
def test_training_repeats_and_leaves_the_random_state_alone():
    is_model = np.repeat([False, True], 20)
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    options = {"path": "bundled:docs-s", **FAST, "epochs": 1}
    first, second = (finetune_classifier([*HUMAN[:20], *MODEL[:20]], is_model, HUMAN + MODEL, **options) for _ in "ab")
    assert (first == second).all()
    assert torch.rand(1) == expected


def test_what_cannot_be_computed_is_said(tmp_path):
    metric, features = compare_texts(HUMAN[:9], MODEL[:9])
    with pytest.raises(UndefinedMetric, match="10 texts per side, got 9 and 9"):
        metric.compute(features)
    metric, features = compare_texts(HUMAN, MODEL, classifiers=(str(tmp_path),))
    with pytest.raises(DataError, match=f"classifier {tmp_path} cannot be read"):
        metric.compute(features)
    with pytest.raises(SpecError, match="classifiers"):
        FinetunedDiscriminator(classifiers=("gpt2", "gpt2"))
