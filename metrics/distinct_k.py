"""Distinct-k: how many different texts a system gives for one prompt, different under a partition.

The samples of a prompt fall into classes; the value is the number of classes, averaged over prompts: from 1 to the
number of samples k, higher is more diverse, which says nothing of quality. `distinct_share` is classes over samples.
Undefined with one sample per prompt. Partitions:

- `exact` (default): texts are one class if they are equal, character by character.
- `threshold`: texts whose embeddings have a cosine of at least `threshold` are one class, and so are texts that a chain
  of such pairs joins: the classes do not depend on the order of the samples.
- `file`: the user's own classes, of people or of a classifier: `judgments=FILE` with the columns `example_id`, `sample`
  (0 to k - 1) and `class`, a row for every text, and `system` where the file has several.

Source: Zhang et al. 2025, "NoveltyBench" (arXiv 2504.05228): k = 10, classes of a fine-tuned classifier, which `file`
can bring. The threshold on embeddings is ours.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from openended.harness.core import (
    F64,
    HUMAN,
    UNNAMED,
    DataError,
    Features,
    Floats,
    MetricResult,
    Need,
    ReadsFile,
    Scope,
    metric,
    ranged,
)
from openended.metrics.families import PromptGroups, SamplesMetric, average_over_prompts, cosines, prompts_of

_FILE = Need("judgments", by="file")
_COLUMNS = ("example_id", "sample", "class")


def distinct_k(classes: Sequence[Hashable], ids: Sequence[str]) -> float:
    """Compute the mean number of classes of a prompt (Zhang et al. 2025).

    Args:
        classes: The class of each text (the text itself for `exact`), shape (n,); those of two prompts never meet.
        ids: The prompt of each text, shape (n,).

    Returns:
        The mean over prompts with at least two texts, at least 1; without such a prompt it raises `UndefinedMetric`.
    """
    return float(_count_classes(classes, prompts_of(ids)).mean())


def distinct_k_by_threshold(embeddings: Floats, ids: Sequence[str], *, threshold: float = 0.8) -> float:
    """Compute the mean number of classes of a prompt, joined by cosines of at least `threshold`.

    Args:
        embeddings: Shape (n, d), no row all zero.
        ids: The prompt of each row, shape (n,).
        threshold: Cosine from which on two texts are one class.

    Returns:
        As `distinct_k`.
    """
    return float(_count_joined(embeddings, prompts_of(ids), threshold).mean())


def _count_classes(classes: Sequence[Hashable], prompts: PromptGroups) -> F64:
    rows = np.split(prompts.rows, prompts.starts[1:-1])
    return np.array([len({classes[r] for r in prompt_rows}) for prompt_rows in rows], dtype=np.float64)


def _count_joined(embeddings: Floats, prompts: PromptGroups, threshold: float) -> F64:
    out = np.zeros(len(prompts))
    for at, cosine in cosines(embeddings, prompts):
        size = cosine.shape[1]
        joined = (cosine >= threshold) | np.eye(size, dtype=np.bool_)
        for _ in range(size.bit_length()):  # chains of 2, 4, 8, … pairs
            joined = (joined.astype(np.float32) @ joined.astype(np.float32)) > 0
        out[at] = (joined.argmax(axis=2) == np.arange(size)).sum(axis=1)  # texts that are the first of their class
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """The classes of a file."""

    source: str
    by_text: Mapping[tuple[str, str, int], str]  # (System, example id, sample) → class

    def read_for(self, system: str, ids: Sequence[str]) -> list[str]:
        """Return the class of each row of a system; samples are counted in the order of the rows."""
        seen, out = Counter[str](), []
        for example in ids:
            text = system, example, seen[example]
            if text not in self.by_text:
                raise DataError(f"{self.source}: no class for sample {text[2]} of {example} ({system})")
            out.append(self.by_text[text])
            seen[example] += 1
        return out


@metric
class DistinctK(SamplesMetric, ReadsFile):
    """How many different texts a system gives for one prompt."""

    name = "distinct_k"
    family = "text"
    bounds = (1.0, np.inf)
    ranges = {"distinct_share": (0.0, 1.0)}
    titles = {"distinct_k": "Distinct-k", "distinct_share": "Distinct share"}

    partition: Literal["exact", "threshold", "file"] = "exact"
    threshold: float = ranged(0.8, "[-1, 1]", "a cosine, -1 to 1")  # Jiang et al. 2025; of `partition=threshold`
    scope: Scope = "continuation"  # all texts of a prompt share the prompt

    def bounds_of(self, key: str, result: MetricResult) -> tuple[float, float]:
        low, high = super().bounds_of(key, result)
        samples = np.bincount(result.arrays["prompts"]).max() if "prompts" in result.arrays else high
        return low, min(high, float(samples))

    def needs(self) -> tuple[Need, ...]:
        if self.partition == "threshold":
            return super().needs()
        texts = Need("texts", scope=self.scope)
        return (texts, _FILE) if self.partition == "file" else (texts,)

    def read(self, path: Path, renamed: Mapping[str, str] | None = None, human: Collection[str] = ()) -> Classes:
        from openended.metrics.judgments import read_rows

        columns, rows = read_rows(path, renamed)
        missing = [c for c in _COLUMNS if c not in columns]
        if missing:
            raise DataError(f"{path}: no column {', '.join(missing)}; classes have {', '.join(_COLUMNS)}")
        classes: dict[tuple[str, str, int], str] = {}
        for row in rows:
            sample = row.number("sample")
            if not sample >= 0 or sample != int(sample):
                cell = row.cells.get("sample")
                raise DataError(f"{row.where}: column 'sample': expected 0, 1, 2, …, got {cell!r:.40}")
            system = row.text("system") if "system" in columns else UNNAMED
            key = HUMAN if system in human else system, row.text("example_id"), int(sample)
            if key in classes:
                raise DataError(f"{row.where}: sample {key[2]} of {key[1]} ({key[0]}) comes twice")
            classes[key] = row.text("class")
        return Classes(path.name, classes)

    def list_players(self, judged: Classes) -> Collection[str]:
        return sorted({system for system, _, _ in judged.by_text})

    def compute(self, features: Features) -> MetricResult:
        side, prompts = features.model, prompts_of(features.model.ids)
        if self.partition == "threshold":
            classes = _count_joined(side.embeddings(self.needs()[0]), prompts, self.threshold)
        elif self.partition == "file":
            classes_of_file: Classes = side.data[_FILE]
            classes = _count_classes(classes_of_file.read_for(side.system, side.ids), prompts)
        else:
            classes = _count_classes(side.texts(self.needs()[0]), prompts)
        values = {"distinct_k": classes, "distinct_share": classes / prompts.sizes}
        return average_over_prompts(self, features, prompts, values)
