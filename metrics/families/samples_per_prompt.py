"""Base classes of metrics over several texts per prompt: rows, cosines, valid answers and means by prompt.

Rows of one prompt are those with one example id (`Side.ids`); their order in the side is that of the samples.

**People.** A human row with more texts per prompt than the systems is the expectation of the value over random subsets
of as many (rarefaction): exact where it has a closed form, else the mean over `SUBSETS` subsets, which depend on the
prompt's id alone.

**Valid answers.** With `valid`, an answer that is not valid adds no diversity: a pair with one counts as equal texts, a
text that is one as a copy of another, and it is no class of its own. So noise, which is diverse, ranks last (the pairs
follow Shypula et al. 2025, arXiv 2504.12522; the others are ours by the same rule).
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness import core
from openended.harness.core import F64, I64, Features, Floats, MetricResult, Need, Ragged, UndefinedMetric
from openended.metrics._embeddings.blocks import check_side, scale_rows
from openended.metrics.families.common import Mask
from openended.metrics.families.text import Corpus, TextMetric

_NUMBERS = 1 << 23  # of the vectors looked at together
SUBSETS = 32  # of a prompt's human texts, where the expectation has no closed form
FILE = Need("judgments", by="file")
_VALID = re.compile(r"number|regex:(.+)|min_words:([1-9]\d*)|file(?:>=(-?\d+(?:\.\d+)?))?", re.DOTALL)
_NUMBER = r"^\s*[+-]?(\d[\d,]*\.?\d*|\.\d+)(e[+-]?\d+)?\s*$"
_WORDS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}


@dataclass(frozen=True, slots=True, eq=False)
class PromptGroups:
    """The prompts that have at least two texts."""

    rows: I64  # rows of these prompts, prompt by prompt, in the order of the side
    starts: I64  # prompt p has `rows[starts[p]:starts[p + 1]]`
    count: int  # rows of the side, those of other prompts included
    alone: int  # prompts with one text, which are left out
    corpus_rows: I64  # the same rows, counted among those that were kept
    names: NDArray[np.str_]  # the id of each prompt

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> I64:
        return np.diff(self.starts)

    @property
    def notes(self) -> tuple[str, ...]:
        total = len(self) + self.alone
        return (f"{self.alone} of {total} prompts have one text and are left out",) if self.alone else ()

    def select(self, included: Mask) -> tuple["PromptGroups", I64]:
        """Return the prompts that have two or more included rows, with these alone, and the number of each prompt."""
        counts = np.add.reduceat(included[self.rows], self.starts[:-1], dtype=np.int64)
        several = counts > 1
        inside = included[self.rows] & np.repeat(several, self.sizes)
        starts = np.concatenate([[0], np.cumsum(counts[several])]).astype(np.int64)
        rows, corpus_rows = self.rows[inside], self.corpus_rows[inside]
        return replace(self, rows=rows, corpus_rows=corpus_rows, starts=starts, names=self.names[several]), counts

    def require(self, size: int) -> None:
        """Raise `UndefinedMetric` unless each prompt has so many texts."""
        few, total = int(np.count_nonzero(self.sizes < size)) + self.alone, len(self) + self.alone
        if size and few:
            raise UndefinedMetric(
                f"{few} of {total} prompts have fewer human texts than a system has per prompt, {size}; "
                f"task.least_references={size} leaves these prompts out on both sides"
            )

    def draw(self, size: int) -> "PromptGroups":
        """Return random subsets of `size` texts of each prompt as prompts, `SUBSETS` for each in a row; or all."""
        self.require(size)
        if np.all(self.sizes == size):
            return self
        positions = []
        for name, start, count in zip(self.names, self.starts[:-1], self.sizes, strict=True):
            order = np.tile(np.arange(count), (SUBSETS, 1))
            order = core.make_random_stream(0, "references", str(name)).permuted(order, axis=1)
            positions.append(start + order[:, :size].ravel())
        at, names = np.concatenate(positions), np.repeat(self.names, SUBSETS)
        starts = np.arange(0, len(at) + 1, size)
        return replace(self, rows=self.rows[at], corpus_rows=self.corpus_rows[at], starts=starts, names=names)

    def average_subsets(self, values: F64) -> F64:
        """Return the mean over the subsets of each prompt, shape (p,), of values of `draw`'s groups."""
        return np.asarray(values.reshape(len(self), -1).mean(axis=1))

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
    """Return the rows of the prompts that have two texts or more, prompt by prompt.

    Args:
        ids: The prompt of each row, shape (n,).
        included: Which rows count, shape (n,); `None`: all.

    Raises:
        UndefinedMetric: If no prompt has two texts.
    """
    at = np.arange(len(ids)) if included is None else np.flatnonzero(included)
    names, prompt, sizes = np.unique(np.asarray(ids, dtype=np.str_)[at], return_inverse=True, return_counts=True)
    order = np.argsort(prompt, kind="stable")
    kept_rows = order[sizes[prompt[order]] > 1].astype(np.int64)
    several = sizes[sizes > 1]
    if not len(several):
        raise UndefinedMetric(
            "needs two or more texts per prompt (of a system: samples=2 or more); here each is alone with its prompt"
        )
    starts = np.concatenate([[0], np.cumsum(several)]).astype(np.int64)
    alone = int(np.count_nonzero(sizes == 1))
    return PromptGroups(at[kept_rows], starts, len(ids), alone, kept_rows, names[sizes > 1])


@dataclass(frozen=True, slots=True, eq=False)
class AnswerOutcomes:
    """What a file says of each answer."""

    source: str
    by_text: Mapping[tuple[str, str, int], Mapping[str, str]]  # (system, example id, sample) → column → cell

    @property
    def players(self) -> list[str]:
        return sorted({system for system, _, _ in self.by_text})

    def check_examples(self, player: str, ids: Collection[str]) -> None:
        """Each text is looked up when the metric is computed."""

    def read_cells(self, system: str, ids: Sequence[str], column: str) -> list[str]:
        """Return a cell for each row of a system; samples are counted in the order of the rows.

        An example may be named by its id in the user's file: `7` for `jsonl/7`.
        """
        seen, out = Counter[str](), []
        for example in ids:
            sample = seen[example]
            names = (example, example.partition("/")[2])
            cells = next((c for name in names if (c := self.by_text.get((system, name, sample)))), None)
            if cells is None:
                raise core.DataError(f"{self.source}: no {column} for sample {sample} of {example} ({system})")
            out.append(cells[column])
            seen[example] += 1
        return out


def read_check(valid: str) -> Callable[[Sequence[str]], Mask] | float | None:
    """Return what tells which texts are valid, or the least number in their column; None if `valid` cannot be read."""
    match = _VALID.fullmatch(valid)
    if match is None:
        return None
    pattern, words, least = match.groups()
    if valid.startswith("file"):
        return float(least) if least else math.ulp(0.0)  # above 0
    if words:
        return lambda texts: np.array([len(text.split()) >= int(words) for text in texts], dtype=np.bool_)
    find = partial(find_pattern, pattern or _NUMBER)
    try:
        find([""])
    except ValueError:
        return None
    return find


def find_pattern(pattern: str, texts: Sequence[str]) -> Mask:
    """Return in which texts a regular expression of RE2 is found, which takes linear time; `ValueError` for others."""
    import pyarrow as pa
    from pyarrow import compute

    return np.asarray(compute.match_substring_regex(pa.array(texts, pa.string()), pattern), dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class PromptValues:
    """Values by prompt, whose means are the values of a metric; the first one is the primary one."""

    prompts: PromptGroups
    by_prompt: Mapping[str, F64]  # each of shape (p,)
    others: Mapping[str, float] = field(default_factory=dict)  # values that are no means over prompts
    notes: Sequence[str] = ()
    size: int = 0  # texts per prompt that a human row is for

    @property
    def rows(self) -> dict[str, F64]:
        return {name: self.prompts.align_values(values) for name, values in self.by_prompt.items()}


@dataclass(frozen=True, kw_only=True)
class PromptMetric(core.ReadsFile):
    """What metrics of several texts per prompt share: which answers are valid, the human row at equal numbers."""

    version: ClassVar[int] = 2
    resampling: ClassVar[core.Scheme] = "bootstrap"  # over prompts, whose texts stay together
    sides: ClassVar[Literal["one", "two", "human"]] = "one"
    least_samples: ClassVar[int] = 2
    needs_prompts: ClassVar[bool] = True
    averages: ClassVar[Literal["pairs", "texts", "none"]] = "pairs"
    """The value is a mean over pairs of texts (its expectation needs no subsets) or over texts, or no mean."""
    worst: ClassVar[float] = 0.0
    """The value of equal texts."""

    valid: str | None = core.option(
        None,
        lambda v: v is None or read_check(v) is not None,
        "null, number, regex:PATTERN, min_words:N, file, file>=X",
    )
    """Which answers count; `file`: by the column `valid` of judgments=FILE, above 0 or at least X."""

    def valid_needs(self) -> tuple[Need, ...]:
        if self.valid is None:
            return ()
        return (FILE if self.valid.startswith("file") else Need("texts"),)

    def file_columns(self) -> tuple[str, ...]:
        return ("valid",) if FILE in self.valid_needs() else ()

    def read(self, path: Path, renamed: Mapping[str, str] | None = None, human: Collection[str] = ()) -> AnswerOutcomes:
        from openended.metrics.judgments import read_rows

        columns, rows = read_rows(path, renamed)
        expected = ("example_id", "sample", *self.file_columns())
        if missing := [name for name in expected if name not in columns]:
            raise core.DataError(f"{path}: no column {', '.join(missing)}; {self.name} reads {', '.join(expected)}")
        answers: dict[tuple[str, str, int], Mapping[str, str]] = {}
        for row in rows:
            sample = row.number("sample")
            if not sample >= 0 or sample != int(sample):
                cell = row.cells.get("sample")
                raise core.DataError(f"{row.where}: column 'sample': expected 0, 1, 2, …, got {cell!r:.40}")
            system = row.text("system") if "system" in columns else core.UNNAMED
            key = core.HUMAN if system in human else system, row.text("example_id"), int(sample)
            if key in answers:
                raise core.DataError(f"{row.where}: sample {key[2]} of {key[1]} ({key[0]}) comes twice")
            answers[key] = {name: row.text(name) for name in self.file_columns()}
            word = answers[key].get("valid", "no").lower()
            if word not in _WORDS and math.isnan(row.number("valid")):
                raise core.DataError(f"{row.where}: column 'valid': expected a number or true or false, got {word!r}")
        return AnswerOutcomes(path.name, answers)

    def list_rows(self, features: Features, prepared: PromptValues) -> tuple[core.Ids, core.Ids]:
        return features.model.ids, features.model.ids

    def evaluate(self, features: Features, prepared: PromptValues) -> MetricResult:
        means = {name: float(np.mean(values)) for name, values in prepared.by_prompt.items()}
        notes = [*prepared.notes, *prepared.prompts.notes]
        if size := prepared.size:
            most = int(prepared.prompts.sizes.max())
            notes.append(f"human row: expected value for {size} of up to {most} human texts per prompt")
        return self.result(
            features, next(iter(means)), {**means, **prepared.others}, notes=notes, per_example=prepared.rows
        )

    def score(self, prepared: PromptValues, human: core.Weights, model: core.Weights, /) -> dict[str, F64]:
        return {name: core.average(rows, model) for name, rows in prepared.rows.items()}

    def score_answers(self, side: core.Side) -> F64 | None:
        """Return the score of each answer, 1 of a check, NaN if it is not valid, shape (n,); None: all are valid."""
        check = read_check(self.valid) if self.valid is not None else None
        if isinstance(check, float):
            cells = (cell.lower() for cell in side[FILE].read_cells(side.system, side.ids, "valid"))
            scores = np.array([_WORDS[cell] if cell in _WORDS else float(cell) for cell in cells])
            return np.where(scores >= check, scores, np.nan)
        if check is None:
            return None
        return np.where(check(side[Need("texts")]), 1.0, np.nan)

    def expect(
        self, features: Features, prompts: PromptGroups, measure: Callable[[PromptGroups], F64 | Mapping[str, F64]]
    ) -> dict[str, F64]:
        """Return each value by prompt, over valid answers, and in a human row for as many texts as a system has."""

        def compute(groups: PromptGroups) -> Mapping[str, F64]:
            values = measure(groups)
            return values if isinstance(values, Mapping) else {self.name: values}

        size, scores, groups = features.texts_per_prompt, self.score_answers(features.model), prompts
        prompts.require(size)
        if size and self.averages != "pairs":
            groups = prompts.draw(size)
        if scores is None:
            return {name: prompts.average_subsets(values) for name, values in compute(groups).items()}
        inner, count = groups.select(~np.isnan(scores))
        several, share = count > 1, np.ones(len(groups))
        if self.averages != "none":
            share = count / groups.sizes * ((count - 1) / (groups.sizes - 1) if self.averages == "pairs" else 1)
        out = {}
        for name, values in compute(inner).items():
            credited = np.minimum(count, 1.0) if self.averages == "none" else np.full(len(groups), self.worst)
            credited[several] = self.worst + share[several] * (values - self.worst)
            out[name] = prompts.average_subsets(credited)
        return out


def unit_rows(rows: Floats) -> F64:
    """Return rows of unit L2 norm, float64; a row that is all zero has no cosine and raises `UndefinedMetric`."""
    out = scale_rows(rows)
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


@dataclass(frozen=True, kw_only=True)
class SamplesMetric(PromptMetric):
    """A statistic of the embeddings of the texts that one system gave for one prompt, averaged over prompts.

    `prepare` returns `average(features, compute)`, with `compute(embeddings, prompts)` → one value per prompt.
    """

    family: ClassVar[core.Family] = "two_sample"
    direction: ClassVar[core.Direction] = "higher"

    scope: core.Scope = "continuation"
    """All texts of a prompt share the prompt."""

    def needs(self) -> tuple[Need, ...]:
        return (Need("embeddings", by="embedder", scope=self.scope), *self.valid_needs())

    def average(
        self, features: Features, compute: Callable[[Floats, PromptGroups], F64 | Mapping[str, F64]]
    ) -> PromptValues:
        """Return what `compute` makes of the embeddings of each prompt, one value per prompt, shape (p,)."""
        prompts, rows = prompts_of(features.model.ids), features.model[self.needs()[0]]
        values = self.expect(features, prompts, partial(compute, rows))
        return PromptValues(prompts, values, size=features.texts_per_prompt)


@dataclass(frozen=True, kw_only=True)
class SamplesTextMetric(TextMetric, PromptMetric):
    """A statistic of the tokens of the texts that one system gave for one prompt, averaged over prompts.

    `prepare` returns `average(features, compute)`, with `compute(tokens, prompts)` → one value per prompt.
    """

    list_rows = PromptMetric.list_rows

    def needs(self) -> tuple[Need, ...]:
        return (*super().needs(), *self.valid_needs())

    def average(self, features: Features, compute: Callable[[Ragged, PromptGroups], F64]) -> PromptValues:
        """Return what `compute` makes of the tokens of the texts of each prompt, one value per prompt, shape (p,)."""
        corpus: Corpus = super().prepare(features)
        prompts = prompts_of(features.model.ids, corpus.is_included)
        values = self.expect(features, prompts, partial(compute, corpus.rows))
        return PromptValues(prompts, values, notes=corpus.notes, size=features.texts_per_prompt)
