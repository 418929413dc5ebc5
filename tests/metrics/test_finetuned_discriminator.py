"""Accuracy of classifiers that are trained on the texts of both sides; here by a rule."""

import numpy as np
import pytest

from openended.harness.core import Features, Plan, SpecError, UndefinedMetric
from openended.metrics.finetuned_discriminator import FinetunedDiscriminator
from scripts.worlds import classify_by_length
from tests.helpers import side


def compare_texts(human: list[str], model: list[str]) -> tuple[FinetunedDiscriminator, Features]:
    metric = FinetunedDiscriminator(classifiers=("bundled:docs-s", "./mine/bert/"))
    texts, *classifiers = metric.needs()
    data = dict.fromkeys(classifiers, classify_by_length)
    sides = (side("human", len(human), {texts: human, **data}), side("model", len(model), {texts: model, **data}))
    return metric, Features(*sides, {"n": f"{len(human)}/{len(model)}", "task": "t@000000"})


def test_accuracy_by_hand():
    # Human texts have 3 or 9 letters, model texts 9: the means are 6 and 9, so the human texts of 9 are taken for the
    # model's. Of the 4 held-out prompts of 20, accuracy is the mean of both sides' shares.
    human = ["a" * (3 if i % 2 else 9) for i in range(20)]
    metric, features = compare_texts(human, ["b" * 9] * 20)
    prepared = metric.prepare(features)
    rows = prepared["accuracy_docs-s"].sides[0][0]
    assert len(rows) == 4
    share = np.mean([len(human[row]) == 3 for row in rows])
    result = metric.compute(features)
    assert result.values == {"accuracy_docs-s": (share + 1) / 2, "accuracy_bert": (share + 1) / 2}
    assert "8 held-out texts" in result.notes[0]
    draws = metric.replicates(features, result, Plan(50))["accuracy_bert"].draws
    assert np.all((draws >= 0.5) & (draws <= 1))


def test_both_sides_of_a_prompt_are_held_out_together_and_train_no_classifier():
    metric, features = compare_texts([f"h{i}" for i in range(20)], [f"m{i}" for i in range(20)])
    seen: list[str] = []
    features.model.data[metric.needs()[1]] = lambda texts, is_model, test_texts, **options: (
        seen.extend([*texts, "|", *test_texts]), np.zeros(len(test_texts), bool)
    )[1]  # fmt: skip
    metric.compute(features)
    train, test = seen[: seen.index("|")], seen[seen.index("|") + 1 :]
    assert {text[1:] for text in train}.isdisjoint(text[1:] for text in test)
    assert len(train) == 32
    assert len(test) == 8


def test_what_cannot_be_computed_is_said():
    metric, features = compare_texts(["a"] * 9, ["b"] * 9)
    with pytest.raises(UndefinedMetric, match="10 texts per side, got 9 and 9"):
        metric.compute(features)
    with pytest.raises(SpecError, match="classifiers"):
        FinetunedDiscriminator(classifiers=("gpt2", "gpt2"))
