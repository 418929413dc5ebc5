"""Before any sheet is written: how many hours of people a study costs, and how wide its intervals will be.

The widths are simulated: raters that answer by chance and by nothing but the players' strengths, as `simulate` has
them. People who lean to a side, hurry or disagree among themselves make intervals that are too narrow, not these wide.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from openended.harness.core import F64, HUMAN, UndefinedMetric, stream
from openended.harness.rating.design import StudyDesign
from openended.harness.rating.protocol import StudyProtocol
from openended.harness.rating.simulate import forecast_raters
from openended.metrics.bradley_terry import bradley_terry
from openended.metrics.huse import huse

Z95 = 1.959963984540054  # of a two-sided 95 % interval of a normal
_STUDIES = 100
# Log-probability a word of people's texts and of a model's, mean and standard deviation in nats: as in the invented
# ratings that come with the harness.
_LOGP = {True: (-3.4, 0.6), False: (-4.2, 0.9)}


@dataclass(frozen=True, slots=True)
class StudyForecast:
    """What a study will cost and tell."""

    what: str
    """The number that the interval is of."""
    ratings: int
    """Items to be rated, over all sheets."""
    sheets: int
    hours: float
    """Of all raters together."""
    longest: float
    """Hours of the longest sheet."""
    width: float
    """Mean width of a 95 % interval; NaN where there is none."""
    held: float
    """Share of the simulated intervals that hold the truth; NaN where it was not asked."""
    assumed: str

    def lines(self) -> Iterator[str]:
        """Say it."""
        yield (
            f"{self.ratings:,} items to rate on {self.sheets} sheets: {self.hours:,.1f} hours of people, "
            f"{60 * self.longest:,.0f} minutes the longest sheet"
        )
        if math.isnan(self.width):
            yield f"{self.what}: no interval can be told: {self.assumed}"
            return
        held = f"; {self.held:.0%} of {_STUDIES} simulated studies held the truth" if not math.isnan(self.held) else ""
        width = f"{self.width:.2f} (±{self.width / 2:.2f})"
        yield f"{self.what}: 95 % interval of width {width}{held}; assumed: {self.assumed}"


def forecast(protocol: StudyProtocol, design: StudyDesign, seed: int = 0) -> StudyForecast:
    """Foresee a study.

    Args:
        protocol: Its sizes and times.
        design: Its items.
        seed: Of the simulation.
    """
    longest = max(len(sheet) for sheet in design.sheets)
    told = _abilities(protocol, design, seed) if protocol.kind == "pairs" else _typicality(protocol, design, seed)
    hours = protocol.seconds_an_item / 3600
    return StudyForecast(
        what=told[0], ratings=len(design.tasks), sheets=len(design.sheets), hours=len(design.tasks) * hours,
        longest=longest * hours, width=told[1], held=told[2], assumed=told[3],
    )  # fmt: skip


def _abilities(protocol: StudyProtocol, design: StudyDesign, seed: int) -> tuple[str, float, float, str]:
    """Simulate Bradley-Terry scores of one question."""
    met = Counter(tuple(sorted(t.sides)) for t in design.tasks if not t.is_control)
    players = sorted({player for pair in met for player in pair}, key=lambda p: (p != HUMAN, p))
    raters = forecast_raters(protocol, players, seed)
    truth = np.array([raters.strengths[player] for player in players])
    counts = {
        (i, j): met[(a, b) if a < b else (b, a)] for (i, a), (j, b) in itertools.combinations(enumerate(players), 2)
    }
    # What infinitely many answers would lead to: half a win for each side of a tie draws scores together.
    limit = bradley_terry(_expected(truth, counts, raters.ties), players=players).scores if counts else truth
    widths, held = [], []
    for number in range(_STUDIES):
        wins = _wins(truth, counts, raters.ties, stream(seed, "forecast", number))
        try:
            fit = bradley_terry(wins, players=players)
        except UndefinedMetric:
            continue
        widths.append(2 * Z95 * float(fit.std_errors.mean()))
        held.append(float((np.abs(fit.scores - limit) <= Z95 * fit.std_errors).mean()))
    assumed = (
        f"abilities with standard deviation {truth.std():.2g}, {raters.ties:.0%} ties counted half, independent answers"
    )
    if 2 * len(widths) < _STUDIES:
        return "Bradley-Terry score", math.nan, math.nan, f"{len(counts)} pairs are compared too seldom; raise items"
    return "Bradley-Terry score", float(np.mean(widths)), float(np.mean(held)), assumed


def _expected(truth: F64, counts: dict[tuple[int, int], int], ties: float) -> F64:
    wins = np.zeros((len(truth), len(truth)))
    for (i, j), n in counts.items():
        share = ties / 2 + (1 - ties) / (1.0 + math.exp(truth[j] - truth[i]))
        wins[i, j], wins[j, i] = n * share, n * (1 - share)
    return wins


def _wins(truth: F64, counts: dict[tuple[int, int], int], ties: float, rng: np.random.Generator) -> F64:
    wins = np.zeros((len(truth), len(truth)))
    for (i, j), n in counts.items():
        tied = int(rng.binomial(n, ties))
        won = int(rng.binomial(n - tied, 1.0 / (1.0 + math.exp(truth[j] - truth[i]))))
        wins[i, j] += won + tied / 2
        wins[j, i] += n - tied - won + tied / 2
    return wins


def _typicality(protocol: StudyProtocol, design: StudyDesign, seed: int) -> tuple[str, float, float, str]:
    """Simulate HUSE of one system against people."""
    levels = np.array([answer.rating for answer in protocol.choices], dtype=np.float64)
    players = list(dict.fromkeys(p for t in design.tasks for p in t.sides))
    if HUMAN not in players or len(players) < 2:
        return "HUSE", math.nan, math.nan, "it needs texts of people and of a system"
    raters = forecast_raters(protocol, [HUMAN, "model"], seed)
    n, k = protocol.items, 16
    if 2 * n <= k:
        return "HUSE", math.nan, math.nan, f"it needs more than {k} texts; raise items"
    values = []
    for number in range(_STUDIES):
        rng = stream(seed, "forecast", number)
        ratings, logp = [], []
        for is_model, player in ((False, HUMAN), (True, "model")):
            own = 0.5 * (levels.min() + levels.max()) + raters.strengths[player] + rng.normal(0, raters.text_spread, n)
            seen = own[:, None] + rng.normal(0, raters.noise, (n, protocol.raters))
            ratings.append(levels[np.abs(seen[..., None] - levels).argmin(axis=-1)].mean(axis=1))
            logp.append(np.minimum(rng.normal(*_LOGP[is_model], n), -0.5))
        made = huse(
            judgments=np.concatenate(ratings), log_probs=np.concatenate(logp), lengths=np.ones(2 * n),
            is_model=np.arange(2 * n) >= n, k=k,
        )  # fmt: skip
        values.append(made.huse)
    assumed = f"two sides {2 * raters.strengths[HUMAN]:.1f} steps apart, a spread of {raters.text_spread:g} over texts"
    return "HUSE", 2 * Z95 * float(np.std(values, ddof=1)), math.nan, f"{assumed} and {raters.noise:g} over raters"
