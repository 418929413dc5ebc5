"""Tables of what people would say of systems, from many scores of a judge and few of people (see `correct_judge`)."""

import logging
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from openended.harness.core import F64, DataError, SpecError, UndefinedMetric, suggest
from openended.harness.imported import SystemScores
from openended.harness.report.tables.frame import Cell, Filled, Frame, Quantity, build_frame, make_cell, make_quantity
from openended.harness.results import group_by
from openended.metrics.bradley_terry import bradley_terry, compute_influence
from openended.metrics.calibration import Unit, list_levels, read_levels_of_people
from openended.metrics.correlation import rank_correlation
from openended.metrics.judgments import LEAST_ITEMS, ItemEstimate, Wins, correct_judge

log = logging.getLogger(__name__)

EXPLAINED = (
    "Corrected: what people would say of all samples, by power-tuned prediction-powered inference; the rated samples "
    "must be a random choice. Worth: the further samples that people would have to rate for the same interval."
)


def correct_scores(judged: SystemScores, people: SystemScores, metric: str, rated_as: str) -> tuple[Any, ...]:
    """Return the mean scores of a system by its judge, by people on some of the same samples, and corrected.

    Then the number of rated samples, what the judge is worth, and Spearman's ρ of judge and people over these.

    Clustered samples are corrected by whole clusters: an unrated sample of a cluster with rated ones is left out.

    Raises:
        DataError: If too few samples, or clusters of samples, were rated.
    """
    by_judge, by_people = judged.values[metric], people.values[rated_as]
    unknown = [sample for sample in by_people if sample not in by_judge]
    if unknown:
        named = ", ".join(unknown[:3]) + (", …" if len(unknown) > 3 else "")
        raise DataError(f"{people.source}: {len(unknown)} samples have no {metric} in {judged.source}: {named}")
    group_of = {sample: judged.clusters.get(sample, sample) for sample in by_judge}
    rated_groups = {group_of[sample] for sample in by_people}
    if len(rated_groups) < LEAST_ITEMS:
        what = "clusters of samples" if judged.clusters else "samples"
        raise DataError(
            f"{people.source}: {len(rated_groups)} {what} of {metric} rated; expected {LEAST_ITEMS} or more"
        )
    both = sorted(by_people)
    rest = [sample for sample in by_judge if group_of[sample] not in rated_groups]

    def estimate(scores: Mapping[str, float], samples: Sequence[str]) -> ItemEstimate:
        return estimate_mean_by_groups(np.array([scores[s] for s in samples]), [group_of[s] for s in samples])

    alone = correct_judge(estimate(by_people, both), estimate(by_judge, both), None)
    corrected = correct_judge(
        estimate(by_people, both), estimate(by_judge, both), estimate(by_judge, rest) if rest else None
    )
    rho = rank_correlation([by_judge[s] for s in both], [by_people[s] for s in both])
    means = [make_cell(float(e.values[0]), interval=(float(e.low[0]), float(e.high[0]))) for e in (alone, corrected)]
    judge = math.fsum(by_judge.values()) / len(by_judge)
    return judge, *means, len(both), float(corrected.worth[0]), rho


def estimate_mean_by_groups(values: F64, groups: Sequence[str]) -> ItemEstimate:
    """Estimate a mean, shape (samples,), whose independent items are groups of samples."""
    names, numbers = np.unique(groups, return_inverse=True)
    sums = np.bincount(numbers, values - values.mean())
    return ItemEstimate(values.mean(keepdims=True), (sums * len(names) / len(values))[:, None])


def pair_metrics(judged: SystemScores, people: SystemScores, metrics: Sequence[str]) -> list[tuple[str, str]]:
    """Return the metrics of a judge with those of people: of equal names, or the only one of each."""
    if unknown := next((name for name in metrics if name not in judged.values), None):
        raise SpecError(f"--metrics: {judged.source} has no scores {unknown!r}{suggest(unknown, judged.values)}")
    names = [*(metrics or judged.values)]
    shared = [(name, name) for name in names if name in people.values]
    if not shared and len(names) == len(people.values) == 1:
        shared = [(names[0], next(iter(people.values)))]
    if not shared:
        raise DataError(
            f"{people.source}: has {', '.join(people.values)}, and {judged.source} has {', '.join(judged.values)}; "
            "expected a column of the same name, or --metrics NAME and one column of numbers"
        )
    return shared


def build_correction_frame(
    systems: Sequence[SystemScores], people: Mapping[str, SystemScores], metrics: Sequence[str] = ()
) -> Frame:
    """Build the frame of systems × what their judge says, what people say, and what people would say of all samples."""
    labels, rows = [], []
    for system in systems:
        pairs = pair_metrics(system, people[system.name], metrics)
        for metric, rated_as in pairs:
            rows.append(correct_scores(system, people[system.name], metric, rated_as))
            labels.append(f"{system.name}: {metric}" if len(pairs) > 1 or len(systems) > 1 else metric)
    counts = (make_quantity("", name, name, decimals=0) for name in ("rated", "worth"))
    heads: tuple[Quantity | str, ...] = ("judge", "people", "corrected", *counts, make_quantity("", "rho", "ρ"))
    columns: list[Filled] = list(zip(heads, zip(*rows, strict=True), strict=True))
    return build_frame("corrected", "Mean scores that people would give", labels, columns, [EXPLAINED], head="Score")


# Judgments of a study: mean ratings, and abilities from pairs --------------------------------------------------------


def build_study_correction_frame(rows: Sequence[Mapping[str, Any]], people: Path, players: Sequence[str]) -> Frame:
    """Build the frame of players × criteria of what people would say, by a judge's judgments and a file of people's.

    Of ratings mean ratings, of pairs Bradley-Terry abilities; empty where fewer than 20 items were judged by both.
    """
    pairs = "system_a" in rows[0]
    criteria = list(dict.fromkeys(str(row["criterion"]) for row in rows))
    by_judge = {unit: level for _, unit, level in list_levels(rows)}
    by_people, who = read_levels_of_people(people, pairs=pairs, criterion=criteria[0])
    groups = group_by(by_judge, lambda unit: (unit[1],) if pairs else (unit[2], unit[1]))
    cells: dict[tuple[str, str], Cell] = {}
    worth: list[float] = []
    for (criterion, *system), units in groups.items():
        both = [unit for unit in units if unit in by_people]
        items = {unit[0] for unit in both}
        rest = [unit for unit in units if unit[0] not in items]
        if len(items) < LEAST_ITEMS:
            continue
        estimate = partial(_estimate_abilities, players=players) if pairs else _estimate_mean
        try:
            corrected = correct_judge(
                estimate(both, by_people), estimate(both, by_judge), estimate(rest, by_judge) if rest else None
            )
        except UndefinedMetric as err:
            log.warning("%s: not corrected by %s: %s", criterion, who, err)
            continue
        worth += corrected.worth.tolist()
        ends = zip(corrected.values, corrected.low, corrected.high, strict=True)
        cells |= {
            (name, criterion): make_cell(value, interval=end)
            for name, (value, *end) in zip(system or players, ends, strict=True)
        }
    number = len({unit[0] for unit in by_judge.keys() & by_people.keys()})
    more = float(np.nan_to_num(np.nanmedian(worth))) if worth else 0.0
    remark = f"Corrected by {who} on {number:,} items; the judge was worth {more:,.0f} more (median). {EXPLAINED}"
    if not cells:
        remark = f"Not corrected by {who}: fewer than {LEAST_ITEMS} items that both judged."
    columns = [(name, [cells.get((player, name)) for player in players]) for name in criteria]
    what = "Bradley-Terry abilities" if pairs else "Mean ratings"
    return build_frame("corrected", f"{what} that {who} would give", players, columns, [remark])


def _estimate_mean(units: Sequence[Unit], levels: Mapping[Unit, float]) -> ItemEstimate:
    return ItemEstimate.from_mean(np.array([levels[unit] for unit in units]))


def _estimate_abilities(units: Sequence[Unit], levels: Mapping[Unit, float], players: Sequence[str]) -> ItemEstimate:
    """Estimate the abilities of players from levels between −1 and 1, with the influence of items."""
    values = np.array([levels[unit] for unit in units])
    number_of = {name: i for i, name in enumerate(players)}
    first, second = (np.array([number_of[unit[side]] for unit in units]) for side in (2, 3))
    items = np.unique([unit[0] for unit in units], return_inverse=True)[1]
    winners, losers = np.concatenate([first, second]), np.concatenate([second, first])
    weights = np.concatenate([1 + values, 1 - values]) / 2
    matrix = np.zeros((len(players), len(players)))
    np.add.at(matrix, (winners, losers), weights)
    wins = Wins(tuple(players), matrix, len(units), 0, 0, winners=winners, losers=losers, weights=weights)
    fit = bradley_terry(matrix, players=players)
    influence = compute_influence(fit, wins, np.concatenate([items, items]))
    return ItemEstimate(fit.scores, len(influence) * influence)
