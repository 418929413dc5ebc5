"""Base class of metrics over several texts per prompt: rows, cosines and means by prompt.

Rows of one prompt are those with one example id (`Side.ids`); their order in the side is that of the samples.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness import core
from openended.harness.core import F64, I64, Features, Floats, MetricResult, Need, Ragged, UndefinedMetric
from openended.metrics._common import Mask
from openended.metrics._embeddings.blocks import blocks, check_side
from openended.metrics.families.text import TextMetric

_NUMBERS = 1 << 23  # of the vectors looked at together


@dataclass(frozen=True, slots=True, eq=False)
class PromptGroups:
    """The prompts that have at least two texts."""

    rows: I64  # rows of these prompts, prompt by prompt, in the order of the side
    starts: I64  # prompt p has `rows[starts[p]:starts[p + 1]]`
    count: int  # rows of the side, those of other prompts included
    alone: int  # prompts with one text, which are left out
    corpus_rows: I64  # the same rows, counted among those that were kept

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> I64:
        return np.diff(self.starts)

    @property
    def notes(self) -> tuple[str, ...]:
        total = len(self) + self.alone
        return (f"{self.alone} of {total} prompts have one text and are left out",) if self.alone else ()

    def align_values(self, values: F64) -> F64:
        """Return one value per row of the side whose mean is that of the prompts' values; NaN for rows left out.

        Each row has its prompt's value; where prompts differ in size, values are weighted so that each prompt counts
        once.
        """
        out = np.full(self.count, np.nan)
        weights = len(self.rows) / (len(self) * self.sizes)
        out[self.rows] = np.repeat(values * weights, self.sizes)
        return out


def prompts_of(ids: Sequence[str], included: Mask | None = None) -> PromptGroups:
    """Return the rows by prompt.

    Args:
        ids: The prompt of each row, shape (n,).
        included: Rows that count, shape (n,); None: all.
    """
    at = np.arange(len(ids)) if included is None else np.flatnonzero(included)
    names = np.asarray(ids, dtype=np.str_)[at]
    _, prompt, sizes = np.unique(names, return_inverse=True, return_counts=True)
    order = np.argsort(prompt, kind="stable")
    kept_rows = order[sizes[prompt[order]] > 1].astype(np.int64)
    several = sizes[sizes > 1]
    if not len(several):
        raise UndefinedMetric("needs two or more texts per prompt (samples=2); no prompt here has two")
    starts = np.concatenate([[0], np.cumsum(several)]).astype(np.int64)
    return PromptGroups(at[kept_rows], starts, len(ids), int(np.count_nonzero(sizes == 1)), kept_rows)


def unit_rows(rows: Floats) -> F64:
    """Return rows of unit L2 norm, float64; a row that is all zero has no cosine and raises `UndefinedMetric`."""
    parts = [block for _, block in blocks(rows, "l2")]
    out = np.concatenate(parts) if parts else np.zeros((0, rows.shape[1]))
    if not np.all(np.einsum("ij,ij->i", out, out) > 0.5):
        raise UndefinedMetric("an embedding is all zero and has no cosine similarity")
    return out


def cosines(embeddings: Floats, prompts: PromptGroups) -> Iterator[tuple[I64, F64]]:
    """Yield (prompts, the cosines of their texts), shapes (p,) and (p, m, m), a bounded number at a time."""
    rows = check_side(embeddings, "embeddings")
    for size in np.unique(prompts.sizes):
        of_size = np.flatnonzero(prompts.sizes == size)
        at = prompts.rows[prompts.starts[of_size][:, None] + np.arange(size)]
        step = max(1, _NUMBERS // max(at.shape[1] * rows.shape[1], 1))
        for start in range(0, len(of_size), step):
            part = at[start : start + step]
            units = unit_rows(rows[part.ravel()]).reshape(*part.shape, -1)
            yield of_size[start : start + step], np.clip(units @ units.transpose(0, 2, 1), -1.0, 1.0)


def average_pairs(embeddings: Floats, prompts: PromptGroups, *statistics: Callable[[F64], NDArray[Any]]) -> list[F64]:
    """Return for each prompt the mean of each statistic of the cosines of its pairs of different texts, shape (p,)."""
    out = [np.zeros(len(prompts)) for _ in statistics]
    for at, cosine in cosines(embeddings, prompts):
        pairs = cosine[:, ~np.eye(cosine.shape[1], dtype=np.bool_)]
        for values, statistic in zip(out, statistics, strict=True):
            values[at] = statistic(pairs).mean(axis=1)
    return out


class SamplesMetric(core.Metric):
    """A statistic of the embeddings of the texts that one system gave for one prompt, averaged over prompts.

    There is no human row where people wrote one text per prompt, and so no human value to aim at.
    """

    family: ClassVar[core.Family] = "two_sample"
    direction: ClassVar[core.Direction] = "higher"
    resampling: ClassVar[core.Resampling] = "bootstrap"  # over prompts, whose texts stay together
    sides: ClassVar[Literal["one", "two", "human"]] = "one"
    least_samples: ClassVar[int] = 2

    scope: core.Scope

    def needs(self) -> tuple[Need, ...]:
        return (Need("embeddings", by="embedder", scope=self.scope),)

    def by_prompt(self, embeddings: Floats, prompts: PromptGroups) -> F64:
        """Return one value per prompt, shape (p,)."""
        raise TypeError(f"{type(self).__name__} has no values for {len(prompts)} prompts of {embeddings.shape}")

    def compute(self, features: Features) -> MetricResult:
        prompts = prompts_of(features.model.ids)
        values = {self.name: self.by_prompt(features.model.embeddings(self.needs()[0]), prompts)}
        return average_over_prompts(self, features, prompts, values)


@dataclass(frozen=True, kw_only=True)
class SamplesTextMetric(TextMetric):
    """A statistic of the tokens of the texts that one system gave for one prompt, averaged over prompts."""

    resampling: ClassVar[core.Resampling] = "bootstrap"  # over prompts, whose texts stay together
    least_samples: ClassVar[int] = 2

    def by_prompt(self, rows: Ragged, prompts: PromptGroups) -> F64:
        """Return one value per prompt, shape (p,)."""
        raise TypeError(f"{type(self).__name__} has no values for {len(prompts)} prompts of {len(rows)} texts")

    def compute(self, features: Features) -> MetricResult:
        corpus = self.corpus(features)
        prompts = prompts_of(features.model.ids, corpus.is_included)
        values = {self.name: self.by_prompt(corpus.rows, prompts)}
        return average_over_prompts(self, features, prompts, values, notes=corpus.notes)


def average_over_prompts(
    metric: core.Metric, features: Features, prompts: PromptGroups, values: Mapping[str, F64], *,
    others: Mapping[str, float] | None = None, notes: Sequence[str] = (),
) -> MetricResult:  # fmt: skip
    """Return means over prompts; the first value is the primary one, `others` are no means over prompts."""
    means = {name: float(np.mean(v)) for name, v in values.items()}
    per_example = {name: prompts.align_values(v) for name, v in values.items()}
    all_values, all_notes = {**means, **(others or {})}, (*notes, *prompts.notes)
    return metric.result(features, next(iter(values)), all_values, notes=all_notes, per_example=per_example)
