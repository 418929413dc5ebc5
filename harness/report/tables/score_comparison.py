"""Tables of the scores of single samples of several systems: means with the best in bold, and all differences."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openended.harness.core import F64, I64, DataError, SpecError, suggest
from openended.harness.imported import SystemScores
from openended.harness.report.analysis.paired import compute_clustered_error
from openended.harness.report.analysis.paired_scores import MeanScore, ScoreDifference, compare_all_pairs, estimate_mean
from openended.harness.report.tables import frame as frames
from openended.harness.report.tables.frame import Cell, Filled, Frame, Quantity, build_frame, make_cell

_MOST_NAMED = 3  # ids in a message
_P_VALUES = {"p_value": "p", "p_holm": "p (Holm)"}
_EXPLAINED = (
    "p (Holm) is corrected over all pairs of a metric. Min. detectable: the smallest difference that a test at 5 % "
    "finds with 80 % power, without the correction. More samples: how many beyond these, of the same kind, resolve {}."
)


@dataclass(frozen=True, slots=True)
class PairedScores:
    """The scores of one metric of all systems on the samples that all have."""

    metric: str
    scores: Mapping[str, F64]  # system → shape (samples,)
    clusters: I64 | None
    dropped: int  # samples that some systems lack
    direction: str


def pair_scores(
    systems: Sequence[SystemScores], metrics: Sequence[str] = (), lower: Sequence[str] = (), *, drop: bool = False
) -> list[PairedScores]:
    """Pair the scores of systems by the ids of their samples, for the metrics that all have, or those named.

    Samples that some systems lack are refused unless `drop`. A lower value of the metrics in `lower` is better.
    """
    common = [name for name in systems[0].values if all(name in system.values for system in systems)]
    for option, names in (("--metrics", metrics), ("--lower", lower)):
        if unknown := next((name for name in names if name not in common), None):
            lacking = next((s for s in systems if unknown not in s.values), systems[0])
            raise SpecError(f"{option}: {lacking.source} has no scores {unknown!r}{suggest(unknown, common)}")
    if not common:
        has = (f"{system.source} has {', '.join(system.values)}" for system in systems)
        raise DataError(f"no metric in common: {'; '.join(has)}")
    clusters: dict[str, str] = {}
    for system in systems:
        for sample, cluster in system.clusters.items():
            if (other := clusters.setdefault(sample, cluster)) != cluster:
                both = f"{cluster!r:.40}, elsewhere in {other!r:.40}"
                raise DataError(f"{system.source}: sample {sample!r:.80} is in cluster {both}")
    paired = []
    for metric in metrics or common:
        by_system = {system.name: system.values[metric] for system in systems}
        every = dict.fromkeys(sample for values in by_system.values() for sample in values)
        shared = [sample for sample in every if all(sample in values for values in by_system.values())]
        if len(shared) < len(every) and not drop:
            raise DataError(_describe_unmatched(systems, metric, every, len(shared)))
        if len(shared) < 2:
            raise DataError(f"{metric}: {len(shared)} samples in common; expected 2 or more with equal ids")
        groups = np.unique([clusters[sample] for sample in shared], return_inverse=True)[1] if clusters else None
        scores = {name: np.array([values[i] for i in shared]) for name, values in by_system.items()}
        stated = systems[0].directions
        direction = stated.get(metric) or stated.get(metric.partition("/")[0], "higher")  # without the filter
        direction = "lower" if metric in lower else direction if direction in ("higher", "lower") else "none"
        paired.append(PairedScores(metric, scores, groups, len(every) - len(shared), direction))
    return paired


def _describe_unmatched(systems: Sequence[SystemScores], metric: str, every: Mapping[str, object], shared: int) -> str:
    parts = []
    for system in systems:
        if missing := [sample for sample in every if sample not in system.values[metric]]:
            names = ", ".join(f"{sample:.40}" for sample in missing[:_MOST_NAMED])
            more = ", …" if len(missing) > _MOST_NAMED else ""
            parts.append(f"{system.source} lacks {len(missing):,} ({names}{more})")
    hint = f"--unmatched drop compares the {shared:,} that all have" if shared > 1 else "are these the same samples?"
    return f"{metric}: of {len(every):,} samples, {'; '.join(parts)}; {hint}"


def build_score_frames(
    systems: Sequence[SystemScores], paired: Sequence[PairedScores], difference: float | None = None
) -> list[Frame]:
    """Build the frame of means (systems × metrics) and that of differences (metric and pair × estimates).

    `difference` is one to resolve; default: each measured one.
    """
    names = [system.name for system in systems]
    tests = {part.metric: compare_all_pairs(part.scores, part.clusters) for part in paired}
    columns: list[Filled] = []
    for part in paired:
        means = (estimate_mean(part.scores[name], part.clusters) for name in names)
        cells = [_make_cell(mean, typed={"system": name}) for name, mean in zip(names, means, strict=True)]
        columns.append((frames.make_quantity("", part.metric, part.metric, part.direction), cells))

    p_values = {(metric, frozenset((t.first, t.second))): t.p_value for metric, of in tests.items() for t in of}

    def compare(cell: Cell, best: Cell) -> float:
        return p_values[cell.key, frozenset(side.typed["system"] for side in (cell, best))]

    means_frame = build_frame(
        "scores", "Mean scores", names, columns, _list_remarks(systems, paired), ranked=True, compare=compare
    )
    return [means_frame, _build_difference_frame(paired, tests, difference)]


def _build_difference_frame(
    paired: Sequence[PairedScores], tests: Mapping[str, Sequence[ScoreDifference]], difference: float | None
) -> Frame:
    labels, sections, rows = [], [], []
    for part in paired:
        for test in tests[part.metric]:
            about = f"{part.metric}: " if len(paired) > 1 else ""
            labels.append(f"{about}{test.first} − {test.second}")
            sections.append(part.metric)
            target = abs(test.value) if difference is None else difference
            can_resolve = test.std_error > 0 and target > 0
            more = test.count_more(target) if can_resolve else math.nan
            decimals = frames.count_decimals(test.std_error, frames.count_decimals(abs(test.value)))
            apart = _make_cell(test, signed=True, own_decimals=decimals)
            least = make_cell(test.find_detectable(), own_decimals=decimals)
            rows.append((apart, test.test, test.p_value, test.corrected, least, more))
    goal = "it" if difference is None else f"{difference:g}"
    p_values = [frames.make_quantity("", key, title, decimals=4, is_p=True) for key, title in _P_VALUES.items()]
    detectable = frames.make_quantity("", "detectable", "min. detectable")
    needed = frames.make_quantity("", "needed", f"more samples for {goal}", decimals=0)
    heads: tuple[Quantity | str, ...] = ("difference", "test", *p_values, detectable, needed)
    columns: list[Filled] = list(zip(heads, zip(*rows, strict=True), strict=True))
    what = "the measured difference" if difference is None else f"a difference of {difference:g}"
    title, remarks = "Differences of mean scores", [_EXPLAINED.format(what)]
    return build_frame("differences", title, labels, columns, remarks, head="Pair", sections=sections)


def _make_cell(mean: MeanScore, **fields: Any) -> Cell:  # noqa: ANN401 - of the cell
    return Cell(mean.value, low=mean.low, high=mean.high, error=mean.std_error, **fields)


def _list_remarks(systems: Sequence[SystemScores], paired: Sequence[PairedScores]) -> list[str]:
    sizes: dict[str, list[str]] = {}
    for part in paired:
        n = len(next(iter(part.scores.values())))
        words = f"{n:,} samples"
        if part.clusters is not None:
            count, dof = (part.clusters.max() + 1, compute_clustered_error(np.arange(n, dtype=float), part.clusters)[1])
            words += f" in {count:,} clusters" + (
                f", worth {dof + 1:,.0f} of equal size" if dof < 0.9 * count - 1 else ""
            )
        words += f", {part.dropped:,} dropped that some systems lack" if part.dropped else ""
        sizes.setdefault(words, []).append(part.metric)
    several = len(sizes) > 1
    remarks = [f"{words} ({', '.join(of)})." if several else f"{words}." for words, of in sizes.items()]
    repeated = [f"{system.repeats} of {system.name}" for system in systems if system.repeats > 1]
    remarks += [f"Scores of one sample are averaged: up to {', '.join(repeated)}."] if repeated else []
    for system in systems:
        rest = [name for name in system.values if any(name not in other.values for other in systems)]
        remarks += [f"Only in some systems, {system.name} among them: {', '.join(rest)}."] if rest else []
        remarks += [f"No numbers in {system.name}: {', '.join(system.left_out)}."] if system.left_out else []
    return remarks
