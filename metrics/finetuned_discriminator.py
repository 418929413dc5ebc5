"""Accuracy of language models that are fine-tuned to tell model texts from human ones; values `accuracy_<classifier>`.

Each classifier is a pretrained language model with a new output layer, trained on the texts of most prompts; its
value is the balanced accuracy on the texts of the other prompts, in [0, 1], dimensionless, lower is better: 0.5 is
chance. The split is by prompt, as in `discriminator_accuracy`, which trains only a linear layer on frozen features. The
texts of every system train classifiers of their own.

Source: Pillutla et al. 2021, appendix D.1 and Table 10; learning rate, epochs and batch size within the ranges of
Devlin et al. 2019, appendix A.3 (the MAUVE paper states none of them).
"""

import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness import core
from openended.harness.core import DataError, Features, MetricResult, Plan, Replicates, UndefinedMetric, ranged
from openended.metrics._common import ReplicatesByName
from openended.metrics.discriminator_accuracy import split_by_prompt
from openended.metrics.families import ComparisonMetric, sort_order

BUNDLED = "bundled:"
LEAST = 10  # texts per side
TITLES = {
    "bert-base-uncased": "BERT base", "bert-large-uncased": "BERT large", "gpt2": "GPT-2 small",
    "gpt2-medium": "GPT-2 medium", "gpt2-large": "GPT-2 large", "docs-s": "docs-s", "docs-m": "docs-m",
}  # fmt: skip


def finetune_classifier(
    texts: Sequence[str], is_model: NDArray[np.bool_], test_texts: Sequence[str], *, path: str, max_length: int = 512,
    epochs: int = 3, learning_rate: float = 2e-5, batch_size: int = 16, seed: int = 25,
) -> NDArray[np.bool_]:  # fmt: skip
    """Fine-tune a language model to tell model texts from human ones, and classify other texts.

    Args:
        texts: Texts to train on.
        is_model: True where a language model wrote the text, shape (texts,).
        test_texts: Texts to classify.
        path: Hub id, folder or `bundled:docs-s`; weights in safetensors.
        max_length: Tokens read of each text, from its start.
        epochs: Passes over the texts.
        learning_rate: Of AdamW, falling linearly to 0.
        batch_size: Texts per step.
        seed: Of the output layer, dropout and the order of the texts.

    Returns:
        True where a text is taken for a model's, shape (test_texts,).

    Raises:
        DataError: If the model cannot be read.
    """
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        tokenizer, model = _load_classifier(path)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        model.to(device).train()
        limit = min(max_length, int(getattr(model.config, "max_position_embeddings", max_length)))

        def encode(rows: Sequence[str]) -> Any:  # noqa: ANN401 - a batch of transformers
            return tokenizer(list(rows), padding=True, truncation=True, max_length=limit, return_tensors="pt").to(
                device
            )

        steps = epochs * math.ceil(len(texts) / batch_size)
        optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
        labels = torch.from_numpy(is_model.astype(np.int64))
        for _ in range(epochs):
            for rows in torch.split(torch.randperm(len(texts)), batch_size):
                batch = encode([texts[row] for row in rows.tolist()])
                model(**batch, labels=labels[rows].to(device)).loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
        model.eval()
        with torch.inference_mode():
            parts = [test_texts[start : start + batch_size] for start in range(0, len(test_texts), batch_size)]
            return np.concatenate([model(**encode(part)).logits.argmax(-1).cpu().numpy() == 1 for part in parts])


def _load_classifier(path: str) -> tuple[Any, Any]:
    """Load a tokenizer and a model with a new output layer for two classes."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from transformers.utils import logging

    source = path
    if path.startswith(BUNDLED):
        source = str(Path(str(files("openended.harness"))) / "assets" / path.removeprefix(BUNDLED))
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # it warns that the output layer is new
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        model = AutoModelForSequenceClassification.from_pretrained(
            source, num_labels=2, use_safetensors=True, trust_remote_code=False
        )
    except (OSError, ValueError) as err:
        raise DataError(
            f"finetuned_discriminator: classifier {path} cannot be read: {str(err).splitlines()[0]}"
        ) from err
    finally:
        logging.set_verbosity(verbosity)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "right"
    model.config.pad_token_id = tokenizer.pad_token_id
    return tokenizer, model


Sides = tuple[tuple[core.I64, NDArray[np.bool_]], ...]
"""Of the human and of the model side: the held-out rows, and which of them are classified correctly."""


@core.metric
class FinetunedDiscriminator(ComparisonMetric):
    """Held-out accuracy of language models that are fine-tuned to tell model texts from human ones."""

    name = "finetuned_discriminator"
    family = "two_sample"
    direction = "lower"
    bounds = (0.0, 1.0)
    titles = {f"accuracy_{model}": title for model, title in TITLES.items()}

    classifiers: tuple[str, ...] = core.option(
        ("bundled:docs-s",), lambda v: len(set(v)) == len(v) > 0, "different models: hub ids, folders or bundled:docs-s"
    )
    test_share: float = ranged(0.2, "(0, 1)", "a share in (0, 1)")
    epochs: int = ranged(3, "[1, inf)", "at least 1")
    learning_rate: float = ranged(2e-5, "(0, 1)", "a number in (0, 1)")
    batch_size: int = ranged(16, "[1, inf)", "at least 1")
    max_length: int = ranged(512, "[1, inf)", "at least 1")
    seed: int = ranged(25, "[0, inf)", "at least 0")
    scope: core.Scope = "continuation"

    def prepare(self, features: Features) -> Mapping[str, Sides]:
        sides = (features.human, features.model)
        if min(map(len, sides)) < LEAST:
            raise UndefinedMetric(
                f"needs at least {LEAST} texts per side, got {' and '.join(str(len(s)) for s in sides)}"
            )
        texts = [[side.texts(self.needs()[0])[row] for row in sort_order(side)] for side in sides]
        splits = split_by_prompt(self.sort_both_ids(features), self.test_share, 2, self.seed)
        train = [side_texts[row] for side_texts, (rows, _, _) in zip(texts, splits, strict=True) for row in rows]
        is_model = np.repeat([False, True], [len(rows) for rows, _, _ in splits])
        tests = [[side_texts[row] for row in rows] for side_texts, (_, _, rows) in zip(texts, splits, strict=True)]
        results = {}
        for path in self.classifiers:
            guesses = finetune_classifier(
                train, is_model, [*tests[0], *tests[1]], path=path, max_length=self.max_length, epochs=self.epochs,
                learning_rate=self.learning_rate, batch_size=self.batch_size, seed=self.seed,
            )  # fmt: skip
            human, model = ~guesses[: len(tests[0])], guesses[len(tests[0]) :]
            key = f"accuracy_{path.removeprefix(BUNDLED).rstrip('/').rpartition('/')[2]}"
            results[key] = ((splits[0][2], human), (splits[1][2], model))
        return results

    def evaluate(self, features: Features, prepared: Mapping[str, Sides]) -> MetricResult:
        values = {key: float(np.mean([correct.mean() for _, correct in sides])) for key, sides in prepared.items()}
        count = sum(len(rows) for rows, _ in next(iter(prepared.values())))
        notes = [f"{count} held-out texts; 0.5 is chance"]
        return self.result(features, next(iter(values)), values, notes=notes)

    def resample(
        self, features: Features, result: MetricResult, plan: Plan, prepared: Mapping[str, Sides]
    ) -> ReplicatesByName:
        """Draw the held-out texts, for the classifiers as they are."""
        replicates = {}
        for key, sides in prepared.items():
            ids = self.sort_both_ids(features)
            draws = [
                plan.mean(side_ids[rows], correct.astype(np.float64)).draws
                for side_ids, (rows, correct) in zip(ids, sides, strict=True)
            ]
            replicates[key] = Replicates((draws[0] + draws[1]) / 2)
        return replicates
