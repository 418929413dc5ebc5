"""Distinct-k: how many different texts a system gives for one prompt, different under a partition.

The samples of a prompt fall into classes; the value is the number of classes, averaged over prompts: from 1 to the
number of samples k, higher is more diverse. `distinct_share` is classes over samples. Partitions:

- `exact` (default): texts are one class if they are equal, character by character.
- `threshold`: texts whose embeddings have a cosine of at least `threshold` are one class, and so are texts that a chain
  of such pairs joins: the classes do not depend on the order of the samples.
- `file`: the user's own classes, of people or of a classifier: `judgments=FILE` with the columns `example_id`, `sample`
  (0 to k - 1) and `class`, a row for every text, and `system` where the file has several.

With `valid`, classes are those of valid answers, and the loss 1 - D / k of k answers, V of them valid, in D classes has
two parts, which add up to 1 - `distinct_share`: how much was lost with answers that are not valid, and among the others

    lost_to_validity = 1 - V / k,  lost_to_narrowing = (V - D) / k,  narrowing_share = lost_to_narrowing / (1 - D / k)

(the last of sums over prompts). `utility_k` weighs the scores u of the answers in their order (1 if `valid` is a
check); only the first valid answer of a class counts:

    utility_k = (1 - p) / (1 - p^k) * sum over i = 1 to k of p^(i - 1) u_i [answer i is the first of its class]

Where the task has several human texts per prompt, `coverage` is the probability that a valid human answer is in a class
of the system's answers; in the human row, of k other people's, for which k + 1 are needed. It has no `threshold`. The
human row of D is the expectation for k of the m human texts, c of them in a class (Hurlbert 1971):

    D = sum over classes of 1 - C(m - c, k) / C(m, k)

Source: Zhang et al. 2025, "NoveltyBench" (arXiv 2504.05228): k = 10, classes of a fine-tuned classifier, which `file`
can bring, utility with p = 0.8. The threshold on embeddings and coverage are ours. Karouzos et al. 2026 (arXiv
2604.16027) split a loss of diversity into quality control and narrowing among correct answers; the terms are ours.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from typing import Literal

import numpy as np

from openended.harness import core
from openended.harness.core import F64, I64, Features, Floats, MetricResult, Need, Side, metric, ranged
from openended.metrics import families
from openended.metrics.families import Mask

PATIENCE = 0.8  # of `utility_k`: the probability of reading on after an answer (Zhang et al. 2025)


def distinct_k(classes: Sequence[Hashable], ids: Sequence[str]) -> float:
    """Compute the mean number of classes of a prompt (Zhang et al. 2025).

    Args:
        classes: The class of each text (the text itself for `exact`), shape (n,); those of two prompts never meet.
        ids: The prompt of each text, shape (n,).

    Returns:
        The mean over prompts with at least two texts, at least 1; higher is more diverse.

    Raises:
        UndefinedMetric: If no prompt has two texts.
    """
    prompts = families.prompts_of(ids)
    return float(_count_first(_number(classes)[prompts.rows], prompts).mean())


def distinct_k_by_threshold(embeddings: Floats, ids: Sequence[str], *, threshold: float = 0.8) -> float:
    """Compute the mean number of classes of a prompt, joined by cosines of at least `threshold`.

    Args:
        embeddings: Embeddings of the texts, shape (n, d), finite, no row all zero.
        ids: The prompt of each row, shape (n,).
        threshold: Cosine from which on two texts are of one class, in [-1, 1].

    Returns:
        As `distinct_k`.

    Raises:
        UndefinedMetric: If no prompt has two texts, or a row is all zero.
    """
    prompts = families.prompts_of(ids)
    return float(_count_first(_join(embeddings, prompts, threshold), prompts).mean())


def utility_k(utilities: Sequence[float], classes: Sequence[Hashable], *, patience: float = PATIENCE) -> float:
    """Compute the utility of the answers to one prompt in their order (Zhang et al. 2025).

    Args:
        utilities: Utility of each answer, shape (k,), k >= 2; 0 if it is not valid.
        classes: The class of each answer, shape (k,).
        patience: p, the probability of going on to the next answer, in (0, 1).

    Returns:
        The weighted mean of the utilities of the first answers of their classes, in the unit of the utilities.

    Raises:
        UndefinedMetric: If there are fewer than two answers.
    """
    prompts = families.prompts_of(["prompt"] * len(classes))
    is_first = _find_first(_number(classes), prompts)
    return float(_sum_utilities(np.asarray(utilities, dtype=np.float64) * is_first, prompts, patience)[0])


def _number(classes: Sequence[Hashable]) -> I64:
    """Return the number of the class of each text, shape (n,)."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(each, len(numbers)) for each in classes], dtype=np.int64)


def _find_first(classes: I64, groups: families.PromptGroups) -> Mask:
    """Return whether each row is the first of its class in its group; a class below 0 means no class."""
    group = np.repeat(np.arange(len(groups)), groups.sizes)
    _, at = np.unique(group * (classes.max(initial=0) + 2) + classes + 1, return_index=True)
    is_first = np.zeros(len(classes), dtype=np.bool_)
    is_first[at] = True
    return is_first & (classes >= 0)


def _count_first(classes: I64, groups: families.PromptGroups) -> F64:
    return np.add.reduceat(_find_first(classes, groups), groups.starts[:-1], dtype=np.float64)


def _sum_utilities(utilities: F64, groups: families.PromptGroups, patience: float) -> F64:
    """Return the mean of each group's utilities, weighted by their positions."""
    position = np.arange(len(utilities)) - np.repeat(groups.starts[:-1], groups.sizes)
    weights = patience**position
    starts = groups.starts[:-1]
    return np.asarray(np.add.reduceat(weights * utilities, starts) / np.add.reduceat(weights, starts))


def _join(embeddings: Floats, groups: families.PromptGroups, threshold: float, scores: F64 | None = None) -> I64:
    """Return the class of each row of the groups: the place of the first text joined to it; -1 if it is not valid."""
    out = np.zeros(len(groups.rows), dtype=np.int64)
    is_valid = np.ones(len(out), dtype=np.bool_) if scores is None else ~np.isnan(scores[groups.rows])
    for at, cosine in families.cosines(embeddings, groups):
        positions = groups.starts[at][:, None] + np.arange(cosine.shape[1])
        counts = is_valid[positions]
        joined = (cosine >= threshold) & counts[:, :, None] & counts[:, None, :]
        joined |= np.eye(cosine.shape[1], dtype=np.bool_)
        for _ in range(cosine.shape[1].bit_length()):  # chains of 2, 4, 8, … pairs
            joined = (joined.astype(np.float32) @ joined.astype(np.float32)) > 0
        out[positions] = joined.argmax(axis=2)
    return np.where(is_valid, out, -1)


def _expect_classes(classes: I64, prompts: families.PromptGroups, size: int) -> F64:
    """Return the expected number of classes among `size` of the texts of each prompt."""
    out = []
    for of_prompt in np.split(classes, prompts.starts[1:-1]):
        counts = np.unique(of_prompt[of_prompt >= 0], return_counts=True)[1].tolist()
        ways = math.comb(len(of_prompt), size)
        out.append(sum(1 - math.comb(len(of_prompt) - count, size) / ways for count in counts))
    return np.array(out, dtype=np.float64)


def _cover_people(
    people: Side, prompts: families.PromptGroups, classes: I64, of_people: I64, size: int
) -> tuple[dict[str, F64], list[str]]:
    """Return the share of the valid human answers to each prompt whose class the answers have, or why there is none.

    With a `size`, the answers are so many others of the human ones, and it is the expectation.
    """
    by_prompt: dict[str, Counter[int]] = defaultdict(Counter)
    for example, each in zip(people.ids, of_people.tolist(), strict=True):
        by_prompt[example][each] += 1
    human, out = [by_prompt[str(name)] for name in prompts.names], list[float]()
    if few := sum(counts.total() <= size for counts in human):
        return {}, [f"no coverage: {few} of {len(human)} prompts have no more than {size} human texts"]
    if none := sum(counts.total() == counts[-1] for counts in human):
        return {}, [f"no coverage: {none} of {len(human)} prompts have no valid human text"]
    for answers, counts in zip(np.split(classes, prompts.starts[1:-1]), human, strict=True):
        texts, covered, total = counts.total(), 0.0, counts.total() - counts[-1]
        for each, count in counts.items():
            is_covered = float(each in answers)
            if size:
                is_covered = 1 - math.comb(texts - count, size) / math.comb(texts - 1, size)
            covered += count * is_covered if each >= 0 else 0.0
        out.append(covered / total)
    return {"coverage": np.array(out, dtype=np.float64)}, []


@metric
class DistinctK(families.SamplesMetric):
    """How many different texts a prompt gets (NoveltyBench, Zhang et al. 2025); with samples=2 or more."""

    name = "distinct_k"
    family = "text"
    bounds = (1.0, np.inf)
    reads_references = True
    averages = "none"
    ranges = dict.fromkeys(("distinct_share", "coverage", "valid_share", "narrowing_share"), (0.0, 1.0))
    ranges |= dict.fromkeys(("lost_to_validity", "lost_to_narrowing"), (0.0, 1.0)) | {"utility_k": (-np.inf, np.inf)}
    shares = ("distinct_share", "coverage", "valid_share", "lost_to_validity")
    directions = {"lost_to_validity": "lower", "lost_to_narrowing": "lower", "narrowing_share": "none"}
    titles = {"distinct_k": "Distinct-k", "distinct_share": "Distinct share", "coverage": "Coverage of people"}
    titles |= {"utility_k": "Utility-k", "valid_share": "Valid answers", "lost_to_validity": "Lost to validity"}
    titles |= {"lost_to_narrowing": "Lost to narrowing", "narrowing_share": "Narrowing in loss"}

    partition: Literal["exact", "threshold", "file"] = "exact"
    """exact: equal texts are one class; threshold: by cosines; file: judgments=FILE with example_id, sample, class."""
    threshold: float = ranged(0.8, "[-1, 1]", "a cosine, -1 to 1")
    """Cosine from which on two texts are one class; Jiang et al. 2025; of `partition=threshold`."""

    def bounds_of(self, key: str, result: MetricResult) -> tuple[float, float]:
        low, high = super().bounds_of(key, result)
        samples = np.bincount(result.arrays["prompts"]).max() if "prompts" in result.arrays else high
        return 0.0 if key == self.name and self.valid is not None else low, min(high, float(samples))

    def needs(self) -> tuple[Need, ...]:
        if self.partition == "threshold":
            return super().needs()
        classes = (families.FILE,) if self.partition == "file" else ()
        return tuple(dict.fromkeys((Need("texts", scope=self.scope), *classes, *self.valid_needs())))

    def file_columns(self) -> tuple[str, ...]:
        return (*(("class",) if self.partition == "file" else ()), *super().file_columns())

    def prepare(self, features: Features) -> families.PromptValues:
        side, people, size = features.model, features.references, features.texts_per_prompt
        prompts, scores = families.prompts_of(side.ids), self.score_answers(side)
        groups = subsets = prompts.draw(size) if size else prompts
        coverage, notes = dict[str, F64](), list[str]()
        if self.partition == "threshold":
            classes = of_subsets = _join(side[self.needs()[0]], subsets, self.threshold, scores)
            different = prompts.average_subsets(_count_first(classes, subsets))
        else:
            of_side = self._number_valid([side, people] if people is not None else [side])
            groups, classes, of_subsets = prompts, of_side[0][prompts.rows], of_side[0][subsets.rows]
            different = _expect_classes(classes, prompts, size) if size else _count_first(classes, prompts)
            if people is not None:
                coverage, notes = _cover_people(people, prompts, classes, of_side[1], size)
        share = different / (size or prompts.sizes)
        values = {"distinct_k": different, "distinct_share": share, **coverage}
        if scores is None:
            return families.PromptValues(prompts, values, notes=notes, size=size)
        counts = np.add.reduceat(classes >= 0, groups.starts[:-1], dtype=np.float64)
        valid = prompts.average_subsets(counts / groups.sizes)
        utilities = np.where(_find_first(of_subsets, subsets), scores[subsets.rows], 0.0)
        narrowed, lost = np.maximum(valid - share, 0.0), float(np.sum(1 - share))
        utility = prompts.average_subsets(_sum_utilities(utilities, subsets, PATIENCE))
        values |= {"utility_k": utility, "valid_share": valid}
        values |= {"lost_to_validity": 1 - valid, "lost_to_narrowing": narrowed}
        others = {"narrowing_share": float(narrowed.sum()) / lost if lost else math.nan}
        return families.PromptValues(prompts, values, others, notes, size)

    def _number_valid(self, sides: Sequence[Side]) -> list[I64]:
        """Return the class of each answer of each side, -1 if it is not valid."""
        classes: list[Hashable] = []
        for side in sides:
            if self.partition == "file":
                classes += side[families.FILE].read_cells(side.system, side.ids, "class")
            else:
                classes += side[self.needs()[0]]
        parts = np.split(_number(classes), [len(sides[0])])[: len(sides)]
        scores = [self.score_answers(side) for side in sides]
        return [n if s is None else np.where(np.isnan(s), -1, n) for n, s in zip(parts, scores, strict=True)]

    def score(self, prepared: families.PromptValues, human: core.Weights, model: core.Weights, /) -> dict[str, F64]:
        out, rows = super().score(prepared, human, model), prepared.rows
        if "narrowing_share" in prepared.others:
            narrowed = rows["lost_to_narrowing"]
            lost = narrowed + rows["lost_to_validity"]
            out["narrowing_share"] = core.average(families.divide_known(narrowed, lost), model, lost)
        return out
