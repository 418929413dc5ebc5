"""Tables of human judgments: Bradley-Terry scores of all players, and examples of what HUSE finds (HUSE, Table 2)."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from openended.harness import results as measured
from openended.harness.core import HUMAN, parse_signature
from openended.harness.report.tables.frame import Cell, Frame, Quantity
from openended.harness.report.tables.selection import RATED, TablePart
from openended.harness.results import Layout, Results, System, SystemValue

PREFERENCES = "bradley_terry"
_RATED_BY = {PREFERENCES: "Preferred by", "mean_rating": "Rated by"}  # metrics that score all players of a file
Z = 1.959964  # 97.5 % quantile of the standard normal
REMARK = (
    "Bradley-Terry scores, mean 0 over the players of a criterion; with a score difference d the better player is "
    "preferred with probability 1 / (1 + exp(−d{})). Intervals from standard errors (observed information)."
)
REMARK_ON_RATINGS = "Mean ratings over texts. Intervals from standard errors over texts."
PER_KIND = 2  # examples of each kind
_LETTERS = 300  # of a text
KINDS = {
    "quality failure": "the classifier separates the two texts by their ratings alone",
    "diversity failure": "it separates them only with the model's probability",
    "indistinguishable": "it takes each of the two for the other side's",
}


def build_ability_frames(part: TablePart, layout: Layout) -> list[Frame]:
    """Build a frame of players × criteria per set of comparisons, sorted by the first criterion."""
    # Only runs on judgments alone have the scores of all players.
    rated = (i for i in part.results.values if i.system == "model" and i.axes.get("decoder") == RATED)
    scores = (i for i in rated if i.metric in _RATED_BY and i.key != i.metric)
    sets = measured.group_by(scores, lambda item: (item.signature, tuple(sorted(item.axes.items()))))
    many = len(sets) > 1
    return [
        _build_ability_frame(items, f"abilities-{i}" if many else "abilities", layout)
        for i, items in enumerate(sets.values(), 1)
    ]


def drop_abilities(results: Results) -> Results | None:
    """Return the results without those that ability tables show; None if no value of a system is left."""
    frame = results.frame
    frame = frame[~frame["metric"].isin(_RATED_BY) | (frame["decoder"] != RATED)]
    return replace(results, frame=frame) if (frame["system"] == "model").any() else None


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
            return Cell(note=f"No judgments for the criterion {criterion}.")
        margin = Z * item.metric_error
        interval = (item.mean - margin, item.mean + margin) if math.isfinite(margin) else None
        return Cell(item.mean, n=1, interval=interval)

    fields = parse_signature(items[0].signature)
    columns = []
    for criterion, by_player in scores.items():
        title = criterion.replace("_", " ") or ("preferred" if metric == PREFERENCES else "mean rating")
        column = Quantity(metric, criterion, title, "higher", 2, items[0].signature, interval=True)
        columns.append((column, [build_cell(by_player.get(player), criterion) for player in players]))
    remarks = [*dict.fromkeys(item.note for item in items if item.note), REMARK_ON_RATINGS]  # how many judgments
    if metric == PREFERENCES:
        scale = fields.get("display_scale", "1").removesuffix(".0")
        unit = 400 / math.log(10) / float(scale)
        points = []
        for player, cell in zip(players, columns[0][1], strict=True):
            ends = f" [{', '.join(f'{1000 + unit * end:.0f}' for end in cell.interval)}]" if cell.interval else ""
            points += [f"{player} {1000 + unit * cell.value:.0f}{ends}"] if math.isfinite(cell.value) else []
        on_elo = f"{columns[0][0].title} on an Elo scale with mean 1000: {', '.join(points)}."
        remarks[-1:] = [REMARK.format(f" / {scale}" if scale != "1" else ""), on_elo]
    title = (
        layout.title
        if layout.analysis == "abilities"
        else f"{_RATED_BY[metric]} {fields.get('raters', 'people')} ({items[0].axes.get('task', 'comparisons')})"
    )
    if layout.analysis == "abilities":
        title = layout.title
    kinds = ["human" if player == HUMAN else "model" for player in players]
    sections = [metric] * len(players)
    return Frame.build(
        name, title, players, columns, remarks, head="Player", kinds=kinds, sections=sections, ranked=True
    )


def build_huse_example_frames(part: TablePart, layout: Layout) -> list[Frame]:
    """Build a table of examples for every system that has HUSE."""
    remarks = [f"{kind}: {what}.".capitalize() for kind, what in KINDS.items()]
    remarks.append("Of each kind the clearest: the largest difference in ratings, in log-probability, or the smallest.")
    columns = (
        Quantity("huse", "log_prob", "log p a word", decimals=2),
        Quantity("huse", "rating", "rating", decimals=2),
    )
    systems = measured.group_systems(part.items)
    tables: list[Frame] = []
    for system in systems:
        if rows := list(_list_huse_examples(part.results, system)):
            labels, *cells = zip(*rows, strict=True)
            sections = list(itertools.accumulate(log_prob is None for log_prob in cells[0]))  # one per example
            stem = part.stem if len(systems) == 1 else f"{part.stem}-{len(tables) + 1}"
            title, cells_of = f"{layout.title}: {system.name}", zip(columns, cells, strict=True)
            tables.append(
                Frame.build(stem, title, labels, cells_of, remarks, kinds="text", sections=sections, head="Text")
            )
    return tables


def _list_huse_examples(results: Results, system: System) -> Iterator[tuple[str, float | None, float | None]]:
    """Yield label, log-probability and rating of the rows: for each example its context, then both texts."""
    import numpy as np

    value = system.value("huse", "huse")
    at, artifact = value.sources[0] if value is not None else (0, None)
    stored = results.arrays(at, artifact)
    arrays = {key.removeprefix("arrays/"): array for key, array in stored.items() if key.startswith("arrays/")}
    if value is None or "errors_q" not in arrays:
        return
    # Rows 0 to n − 1 are human texts, rows n to 2n − 1 the model's of the same examples.
    wrong, wrong_q = (arrays[key].reshape(2, -1).mean(axis=0) for key in ("errors", "errors_q"))
    ratings = np.nanmean(arrays["ratings"], axis=1).reshape(2, -1)
    log_probs = (arrays["log_probs"] / arrays["lengths"]).reshape(2, -1)
    gap, gap_p = ratings[0] - ratings[1], np.nan_to_num(log_probs[1] - log_probs[0], posinf=1e9)
    distance = np.abs(gap) / ratings.std() + np.abs(gap_p) / np.std(log_probs[np.isfinite(log_probs)])
    ranks = {
        "quality failure": np.where(wrong_q == 0, -np.abs(gap), np.inf),
        "diversity failure": np.where((wrong_q > 0) & (wrong == 0), -np.abs(gap_p), np.inf),
        "indistinguishable": np.where(wrong == 1, distance, np.inf),
    }
    texts = _read_texts(results, at, stored, len(gap))
    for kind, rank in ranks.items():
        for example in np.argsort(rank, kind="stable")[:PER_KIND]:
            if np.isfinite(rank[example]):
                context, *sides = texts[int(example)]
                yield f"{kind}: {context}", None, None
                for side, label in ((1, "model"), (0, "reference")):
                    yield f"{label}: {sides[side]}", float(log_probs[side, example]), float(ratings[side, example])


def _read_texts(results: Results, at: int, stored: Any, count: int) -> list[tuple[str, ...]]:  # noqa: ANN401
    """Return prompt, human and model text of every rated example; its number where the run has no texts."""
    import numpy as np

    sides = [("human",), ("generate", "import")]
    rows = [r for stages in sides if (r := measured.read_rows_of_run(results, results.runs[at], *stages)) is not None]
    errors = stored.get("per_example/error_model")
    unknown: list[tuple[str, ...]] = [(f"example {number}", "–", "–") for number in range(1, count + 1)]
    if len(rows) < 2 or errors is None:
        return unknown
    human, model = ({e: (p, t) for e, p, t in zip(r.ids, r.prompts, r.texts, strict=True)} for r in rows)
    rated = sorted(e for e, error in zip(model, errors, strict=False) if not np.isnan(error))
    if len(rated) != count:
        return unknown
    lines = [[" ".join(text.split()) for text in (*human[e], model[e][1])] for e in rated]
    return [tuple(line if len(line) <= _LETTERS else f"{line[:_LETTERS]}…" for line in texts) for texts in lines]
