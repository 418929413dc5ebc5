"""Tables of human judgments: Bradley-Terry scores of all systems, and examples of what HUSE finds (HUSE, Table 2)."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from openended.harness import results as measured
from openended.harness.core import HUMAN
from openended.harness.report.analysis.paired import Z
from openended.harness.report.tables import frame as frames
from openended.harness.report.tables.frame import Cell, Frame, build_frame, make_cell, make_quantity
from openended.harness.report.tables.selection import TablePart
from openended.harness.results import Layout, Results, System, SystemValue

PREFERENCES = "bradley_terry"
_RATED_BY = {PREFERENCES: "Preferred by", "mean_rating": "Rated by"}  # metrics that score all players of a file
REMARK = (
    "Bradley-Terry scores, mean 0 over the systems of a criterion; with a score difference d the better system is "
    "preferred with probability 1 / (1 + exp(−d{})). Intervals from standard errors."
)
REMARK_ON_RATINGS = "Mean ratings over texts. Intervals from standard errors over texts."
_LETTERS = 300  # of a text
SIDES = ("Model", "Reference")
COLUMNS = {"log_prob": "log p_model", "rating": "HJ"}  # per word, mean over raters
NEVER = "The model's probability of this text is 0."
KINDS = {
    "Quality failure": "the classifier separates the two texts by their ratings, the model's being lower",
    "Diversity failure": "it separates them only with the model's probability, which the reference has less of",
    "Model is indistinguishable": "it takes each of the two for the other side's",
}


def build_ability_frames(part: TablePart, layout: Layout) -> list[Frame]:
    """Build a frame of systems × criteria per set of comparisons, sorted by the first criterion."""
    # Only runs on judgments alone have the scores of all systems.
    rated = (i for i in part.results.values if i.system == "model" and i.is_judged_alone)
    scores = (i for i in rated if i.metric in _RATED_BY and i.key != i.metric)
    sets = measured.group_by(scores, lambda item: (item.signature, tuple(sorted(item.axes.items()))))
    many = len(sets) > 1
    return [
        _build_ability_frame(items, f"abilities-{i}" if many else "abilities", layout)
        for i, items in enumerate(sets.values(), 1)
    ]


def drop_abilities(results: Results) -> Results | None:
    """Return the results without those that ability tables show; None if no value of a system is left."""
    rows = [row for row in results.rows if row.metric not in _RATED_BY or row.axes.get("decoder") is not None]
    return replace(results, rows=tuple(rows)) if any(row.system == "model" for row in rows) else None


def _build_ability_frame(items: Sequence[SystemValue], name: str, layout: Layout) -> Frame:
    metric = items[0].metric
    scores: dict[str, dict[str, SystemValue]] = {}  # criterion → player; without criteria the key is the player
    for item in items:
        criterion, slash, player = item.key.partition("/")
        scores.setdefault(criterion if slash else "", {})[player if slash else item.key] = item
    first: dict[str, float] = {}  # score of a player for the first criterion that has one
    for by_player in scores.values():
        first = {player: item.mean for player, item in by_player.items()} | first
    players = sorted(first, key=lambda player: (-first[player], player))

    def build_cell(item: SystemValue | None, criterion: str) -> Cell:
        if item is None:
            return make_cell(note=f"No judgments for the criterion {criterion}.")
        margin = Z * item.metric_error
        return make_cell(item.mean, n=1, interval=(item.mean - margin, item.mean + margin))

    fields = items[0].fields
    columns = []
    for criterion, by_player in scores.items():
        title = criterion.replace("_", " ") or ("preferred" if metric == PREFERENCES else "mean rating")
        column = make_quantity(metric, criterion, title, "higher", 2, items[0].signature)
        columns.append((column, [build_cell(by_player.get(player), criterion) for player in players]))
    remarks = [*dict.fromkeys(item.note for item in items if item.note), REMARK_ON_RATINGS]  # how many judgments
    if metric == PREFERENCES:
        scale = fields.get("display_scale", "1").removesuffix(".0")
        unit = 400 / math.log(10) / float(scale)
        points = []
        for player, cell in zip(players, columns[0][1], strict=True):
            elo = [1000 + unit * number for number in (cell.value, cell.low, cell.high)]
            ends = f" [{elo[1]:.0f}, {elo[2]:.0f}]" if math.isfinite(elo[1] + elo[2]) else ""
            points += [f"{player} {elo[0]:.0f}{ends}"] if math.isfinite(elo[0]) else []
        on_elo = f"{columns[0][0]['title']} on an Elo scale with mean 1000: {', '.join(points)}."
        remarks[-1:] = [REMARK.format(f" / {scale}" if scale != "1" else ""), on_elo]
    remarks += [_correlate_criteria(scores)] if len(scores) > 1 else []
    title = f"{_RATED_BY[metric]} {fields.get('raters', 'people')} ({items[0].axes.get('task', 'comparisons')})"
    title = layout.title if layout.analysis == "abilities" else title
    kinds = ["human" if player == HUMAN else "model" for player in players]
    sections = [metric] * len(players)
    return build_frame(name, title, players, columns, remarks, roles=kinds, sections=sections, ranked=True)


def _correlate_criteria(scores: Mapping[str, Mapping[str, SystemValue]]) -> str:
    """Return a line with Spearman's ρ of the scores for every two criteria, over all systems (MAUVE, E.3)."""
    from openended.metrics import correlation

    parts = []
    for first, second in itertools.combinations(scores, 2):
        players = [player for player in scores[first] if player in scores[second]]
        if len(players) >= correlation.MIN_PAIRS:
            sides = ([scores[name][player].mean for player in players] for name in (first, second))
            correlated = correlation.correlate(*sides, draws=0)
            p_value = frames.format_p_equation(correlated.p_value, 3)
            names = f"{first} and {second}".replace("_", " ")
            parts.append(f"{names} {frames.format_fixed(correlated.value, 3)} (p {p_value}, {len(players)} systems)")
    return f"Spearman's ρ between criteria, human text included: {'; '.join(parts) or 'fewer than three systems'}."


# Examples of HUSE -----------------------------------------------------------------------------------------------------


def build_huse_example_frames(part: TablePart, layout: Layout) -> list[Frame]:
    """Build a frame per system that has HUSE: of each kind the clearest example (HUSE, Table 2)."""
    remarks = [f"{kind}: {what}." for kind, what in KINDS.items()]
    remarks.append("Of each kind the clearest: the largest difference in ratings, in log-probability, or the smallest.")
    systems = measured.group_systems(part.items)
    built: list[Frame] = []
    for system in systems:
        if entries := tuple(_list_huse_entries(part.results, system)):
            kinds = {entry.section for entry in entries}
            missing = [f"No pair of this system is an example: {kind}." for kind in KINDS if kind not in kinds]
            stem = part.stem if len(systems) == 1 else f"{part.stem}-{len(built) + 1}"
            title = layout.title if len(systems) == 1 else f"{layout.title}: {system.name}"
            axes, heads = ("part", "text"), {"part": "", "text": ""}
            notes = frames.make_notes((*remarks, *missing))
            built.append(Frame(stem, title, entries, notes, axes, heads=heads, show_seeds=False))
    return built


def _list_huse_entries(results: Results, system: System) -> Iterator[Cell]:
    """Yield the numbers of each example: under the heading of its kind its context, the model's text, the reference."""
    value = system.value("huse", "huse")
    signature = value.signature if value is not None else ""
    quantities = [make_quantity("huse", key, title, decimals=1, signature=signature) for key, title in COLUMNS.items()]
    for kind, (context, *texts), numbers in _find_huse_examples(results, system):
        rows = [(kind, "", None), ("Context:", context, None), *zip(SIDES, texts, numbers, strict=True)]
        for part, text, values in rows:
            for at, quantity in enumerate(quantities):
                number: dict[str, Any] = {"blank": True}
                if values is not None:
                    number = {"value": values[at], "note": NEVER if values[at] == -math.inf else ""}
                axes = {"part": f"{kind}/{part}", "text": text, "metric": quantity["key"]}
                role = "heading" if part == kind else "text"
                yield Cell(axes=axes, labels={"part": part}, role=role, section=kind, **quantity, **number)


def _find_huse_examples(
    results: Results, system: System
) -> Iterator[tuple[str, tuple[str, ...], list[tuple[float, float]]]]:
    """Yield kind, texts (context, model, reference) and (log-probability per word, rating) of the model and reference.

    The gaps have signs: where people rate the model's text higher, or the reference is more probable, nothing failed.
    """
    value = system.value("huse", "huse")
    arrays = next(iter(results.list_arrays(value)), {})
    if value is None or "errors_q" not in arrays:
        return
    # Rows 0 to n − 1 are human texts, rows n to 2n − 1 the model's of the same examples.
    wrong, wrong_q = (arrays[key].reshape(2, -1).mean(axis=0) for key in ("errors", "errors_q"))
    ratings = np.nanmean(arrays["ratings"], axis=1).reshape(2, -1)
    log_probs = (arrays["log_probs"] / arrays["lengths"]).reshape(2, -1)
    gap, gap_p = ratings[0] - ratings[1], np.nan_to_num(log_probs[1] - log_probs[0], posinf=1e9)
    scales = [float(np.std(of)) or 1.0 for of in (ratings, log_probs[np.isfinite(log_probs)])]  # all may be equal
    distance = np.abs(gap) / scales[0] + np.abs(gap_p) / scales[1]
    ranks = (
        np.where((wrong_q == 0) & (gap > 0), -gap, np.inf),
        np.where((wrong_q > 0) & (wrong == 0) & (gap_p > 0), -gap_p, np.inf),
        np.where(wrong == 1, distance, np.inf),
    )
    texts = _read_texts(results, value, len(gap))
    for kind, rank in zip(KINDS, ranks, strict=True):
        example = int(np.argmin(rank))
        if np.isfinite(rank[example]):
            context, reference, model = texts[example]
            numbers = [(float(log_probs[side, example]), float(ratings[side, example])) for side in (1, 0)]
            yield kind, (context, model, reference), numbers


def _read_texts(results: Results, value: SystemValue, count: int) -> list[tuple[str, ...]]:
    """Return prompt, human and model text of every rated example; its number where the run has no texts."""
    run, artifact = value.sources[0]
    human_rows, model_rows = (measured.read_rows_of_run(results, run, role) for role in ("human", "model"))
    errors = results.arrays(run, artifact).get("per_example/error_model")
    unknown: list[tuple[str, ...]] = [(f"example {number}", "–", "–") for number in range(1, count + 1)]
    if human_rows is None or model_rows is None or errors is None:
        return unknown
    sides = (zip(rows.ids, rows.prompts, rows.texts, strict=True) for rows in (human_rows, model_rows))
    human, model = ({example: (prompt, text) for example, prompt, text in side} for side in sides)
    rated = sorted(e for e, error in zip(model, errors, strict=False) if not np.isnan(error))
    if len(rated) != count:
        return unknown
    lines = [[" ".join(text.split()) for text in (*human[e], model[e][1])] for e in rated]
    return [tuple(line if len(line) <= _LETTERS else f"{line[:_LETTERS]}…" for line in texts) for texts in lines]
