"""Accuracy of language models that are fine-tuned to tell model texts from human ones; values `accuracy_<classifier>`.

Each classifier is a pretrained language model with a new output layer, trained on the texts of most prompts, for every
system anew; its value is the balanced accuracy on the texts of the other prompts, in [0, 1], best nearest to 0.5,
chance. The split is by prompt, as in `discriminator_accuracy`.

Source: Pillutla et al. 2021, appendix D.1 and Table 10; learning rate, epochs and batch size within the ranges of
Devlin et al. 2019, appendix A.3 (the MAUVE paper states none of them).
"""

from collections.abc import Mapping

import numpy as np

from openended.harness.core import Features, Need, Scope, UndefinedMetric, metric, option, ranged
from openended.metrics.discriminator_accuracy import AccuracyMetric, ClassifierPredictions, split_by_prompt

MIN_TEXTS = 10  # texts per side
TITLES = {"bert-base-uncased": "BERT base", "bert-large-uncased": "BERT large", "gpt2": "GPT-2 small"}
TITLES |= {"gpt2-medium": "GPT-2 medium", "gpt2-large": "GPT-2 large", "docs-s": "docs-s", "docs-m": "docs-m"}


def _get_short_name(path: str) -> str:
    return path.rpartition(":")[2].rstrip("/").rpartition("/")[2]


@metric
class FinetunedDiscriminator(AccuracyMetric):
    """Held-out accuracy of fine-tuned language models, model against human (Pillutla et al. 2021, Table 10)."""

    name = "finetuned_discriminator"
    family = "two_sample"
    titles = {f"accuracy_{model}": f"Disc. acc. {title}" for model, title in TITLES.items()}

    classifiers: tuple[str, ...] = option(
        ("bundled:docs-s",),
        lambda v: len({_get_short_name(path) for path in v}) == len(v) > 0,
        "models of different names: hub ids, folders or bundled:docs-s",
    )
    """Hub ids or folders; each is fine-tuned on the texts of every system."""
    test_share: float = ranged(0.2, "(0, 1)", "a share in (0, 1)")
    """Share of the prompts that is held out."""
    epochs: int = ranged(3, "[1, inf)", "at least 1")
    """Passes over the training texts."""
    learning_rate: float = ranged(2e-5, "(0, 1)", "a number in (0, 1)")
    """Learning rate of AdamW."""
    batch_size: int = ranged(16, "[1, inf)", "at least 1")
    """Texts per step."""
    max_length: int = ranged(512, "[1, inf)", "at least 1")
    """Tokens read of a text."""
    seed: int = ranged(25, "[0, inf)", "at least 0")
    """Seed of the split, the order of the texts and the new layer."""
    scope: Scope = "continuation"
    """What is read: the continuation, or prompt_and_continuation."""

    def needs(self) -> tuple[Need, ...]:
        classifiers = (Need("classifier", options=(("path", path),)) for path in self.classifiers)
        return (*super().needs(), *classifiers)

    def prepare(self, features: Features) -> Mapping[str, ClassifierPredictions]:
        sides = (features.human, features.model)
        if min(map(len, sides)) < MIN_TEXTS:
            raise UndefinedMetric(f"needs at least {MIN_TEXTS} texts per side, got {len(sides[0])} and {len(sides[1])}")
        texts = [self.sort_texts(side) for side in sides]
        splits = split_by_prompt(self.list_rows(features, None), self.test_share, 2, self.seed)
        train = [side_texts[row] for side_texts, (rows, _, _) in zip(texts, splits, strict=True) for row in rows]
        is_model = np.repeat([False, True], [len(rows) for rows, _, _ in splits])
        tests = [[side_texts[row] for row in rows] for side_texts, (_, _, rows) in zip(texts, splits, strict=True)]
        names, results = ("max_length", "epochs", "learning_rate", "batch_size", "seed"), {}
        options = {name: getattr(self, name) for name in names}
        for path, need in zip(self.classifiers, self.needs()[1:], strict=True):
            guesses = features.model[need](train, is_model, [*tests[0], *tests[1]], **options)
            human, model = ~guesses[: len(tests[0])], guesses[len(tests[0]) :]
            predictions = ClassifierPredictions(((splits[0][2], human), (splits[1][2], model)))
            results[f"accuracy_{_get_short_name(path)}"] = predictions
        return results
