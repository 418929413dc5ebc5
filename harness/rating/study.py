"""Make a study from the texts of finished runs, forecast its cost, and write one HTML file per rater.

Interval widths are simulated with raters whose answers depend on chance and the players' strengths alone. For real
raters with a side preference, haste or disagreement, the forecast is too narrow.
"""

from __future__ import annotations

import itertools
import math
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from openended.harness.core import HUMAN, SpecError, UndefinedMetric, make_random_stream, write_text
from openended.harness.rating.design import Control, StudyDesign, design_study
from openended.harness.rating.key import KEY, StudyKey, save_key
from openended.harness.rating.protocol import StudyProtocol
from openended.harness.rating.rater_model import make_forecast_raters
from openended.harness.rating.sheet import build_items, render_form
from openended.harness.rating.texts import StudyTexts
from openended.metrics.bradley_terry import bradley_terry
from openended.metrics.huse import huse

SHEETS = "sheets"
Z95 = 1.959963984540054  # of a two-sided 95 % interval of a normal
_STUDIES = 100
# Log-probability a word of people's texts and of a model's, mean and standard deviation in nats: as in the invented
# ratings that come with the harness.
_LOGP = {True: (-3.4, 0.6), False: (-4.2, 0.9)}


@dataclass(frozen=True, slots=True)
class StudyForecast:
    """Expected cost and precision of a study."""

    what: str
    """Name of the value that the interval is for."""
    ratings: int
    """Items to be rated, over all sheets."""
    sheets: int
    hours: float
    """Of all raters together."""
    longest: float
    """Hours of the longest sheet."""
    width: float
    """Mean width of a 95 % interval; NaN if undefined."""
    coverage: float
    """Share of simulated intervals that contain the truth; NaN if not measured."""
    assumed: str

    def lines(self) -> Iterator[str]:
        """Return the lines that the command prints."""
        yield (
            f"{self.ratings:,} items to rate on {self.sheets} sheets: {self.hours:,.1f} hours of rating, "
            f"{60 * self.longest:,.0f} minutes for the longest sheet"
        )
        if math.isnan(self.width):
            yield f"{self.what}: no interval: {self.assumed}"
            return
        coverage = (
            f"; {self.coverage:.0%} of {_STUDIES} simulated studies held the truth"
            if not math.isnan(self.coverage)
            else ""
        )
        width = f"{self.width:.2f} (±{self.width / 2:.2f})"
        yield f"{self.what}: 95 % interval of width {width}{coverage}; assumed: {self.assumed}"


@dataclass(frozen=True, slots=True)
class Study:
    """A study and the forecast of its cost."""

    key: StudyKey
    forecast: StudyForecast

    def lines(self) -> Iterator[str]:
        """Return the lines that the command prints: texts, controls, forecast."""
        m, p = self.key.material, self.key.protocol
        yield f"{p.label}: {len(m.players)} players ({', '.join(m.players)}), {len(m.texts):,} prompts to draw from"
        yield from m.remarks
        if not self.key.controls:
            yield "no control items: --controls FILE adds some with known answers"
        if not p.examples:
            yield "no worked examples on the guidelines page: examples in a YAML of your own (--protocol MY.yaml)"
        yield from self.forecast.lines()


def make_study(
    material: StudyTexts,
    protocol: StudyProtocol,
    *,
    controls: Sequence[Control] = (),
    made_of: Sequence[str] = (),
    seed: int | None = None,
) -> Study:
    """Design a study; writes nothing."""
    secret = secrets.token_bytes(32)
    design_seed = secrets.randbits(48) if seed is None else seed
    design = design_study(material, protocol, controls=controls, secret=secret, seed=design_seed)
    wide = len(str(len(design.sheets)))
    key = StudyKey(
        study=secrets.token_hex(6), secret=secret, created=datetime.now(UTC).isoformat(timespec="seconds"),
        protocol=protocol, material=material, tasks=design.tasks, controls=tuple(controls), made_of=tuple(made_of),
        sheets={f"rater-{i:0{wide}d}": tuple(t.id for t in s) for i, s in enumerate(design.sheets, 1)},
    )  # fmt: skip
    return Study(key, forecast_study(protocol, design))


def write_study(study: Study, folder: Path) -> list[Path]:
    """Write the key and one sheet per rater."""
    if (folder / SHEETS).exists() and not (folder / KEY).exists() and any((folder / SHEETS).iterdir()):
        raise SpecError(f"{folder / SHEETS} holds other files; choose another folder with -o")
    save_key(folder, study.key)
    paths = {folder / SHEETS / f"{sheet}.html": ids for sheet, ids in study.key.sheets.items()}
    for path, ids in paths.items():
        write_text(path, render_form(study.key, path.stem, build_items(study.key, ids)))
    return list(paths)


def forecast_study(protocol: StudyProtocol, design: StudyDesign, seed: int = 0) -> StudyForecast:
    """Forecast the cost and the interval width of a study."""
    simulate = _simulate_abilities if protocol.kind == "pairs" else _simulate_typicality
    what, width, coverage, assumed = simulate(protocol, design, seed)
    hours = protocol.seconds_an_item / 3600
    return StudyForecast(
        what=what, ratings=len(design.tasks), sheets=len(design.sheets), hours=len(design.tasks) * hours,
        longest=max(len(sheet) for sheet in design.sheets) * hours, width=width, coverage=coverage, assumed=assumed,
    )  # fmt: skip


def _simulate_abilities(protocol: StudyProtocol, design: StudyDesign, seed: int) -> tuple[str, float, float, str]:
    """Simulate Bradley-Terry scores of one question."""
    what = "Bradley-Terry score"
    met = Counter(tuple(sorted(t.sides)) for t in design.tasks if not t.is_control)
    players = sorted({player for pair in met for player in pair}, key=lambda p: (p != HUMAN, p))
    raters = make_forecast_raters(protocol, players, seed)
    truth = np.array([raters.strengths[player] for player in players])
    pairs = list(itertools.combinations(enumerate(players), 2))
    counts = {(i, j): met[(a, b) if a < b else (b, a)] for (i, a), (j, b) in pairs}
    chances = {(i, j): 1.0 / (1.0 + math.exp(truth[j] - truth[i])) for i, j in counts}
    expected = np.zeros((len(players), len(players)))
    for (i, j), n in counts.items():
        share = raters.ties / 2 + (1 - raters.ties) * chances[i, j]
        expected[i, j], expected[j, i] = n * share, n * (1 - share)
    # The limit for infinitely many answers: counting ties as half wins shrinks the scores.
    limit = bradley_terry(expected, players=players).scores if counts else truth
    widths, coverages = [], []
    for number in range(_STUDIES):
        rng = make_random_stream(seed, "forecast", number)
        wins = np.zeros_like(expected)
        for (i, j), n in counts.items():
            tied = int(rng.binomial(n, raters.ties))
            won = int(rng.binomial(n - tied, chances[i, j]))
            wins[i, j], wins[j, i] = won + tied / 2, n - tied - won + tied / 2
        try:
            fit = bradley_terry(wins, players=players)
        except UndefinedMetric:
            continue
        widths.append(2 * Z95 * float(fit.std_errors.mean()))
        coverages.append(float((np.abs(fit.scores - limit) <= Z95 * fit.std_errors).mean()))
    if 2 * len(widths) < _STUDIES:
        return what, math.nan, math.nan, f"{len(counts)} pairs are compared too rarely; raise items"
    assumed = f"abilities with standard deviation {truth.std():.2g}, {raters.ties:.0%} ties counted half"
    return what, float(np.mean(widths)), float(np.mean(coverages)), f"{assumed}, independent answers"


def _simulate_typicality(protocol: StudyProtocol, design: StudyDesign, seed: int) -> tuple[str, float, float, str]:
    """Simulate HUSE of one system against people."""
    levels = np.array([answer.rating for answer in protocol.choices], dtype=np.float64)
    players = list(dict.fromkeys(p for t in design.tasks for p in t.sides))
    if HUMAN not in players or len(players) < 2:
        return "HUSE", math.nan, math.nan, "it needs texts of people and of a system"
    raters = make_forecast_raters(protocol, [HUMAN, "model"], seed)
    n, k = protocol.items, 16
    if 2 * n <= k:
        return "HUSE", math.nan, math.nan, f"it needs more than {k} texts; raise items"
    values = []
    for number in range(_STUDIES):
        rng = make_random_stream(seed, "forecast", number)
        ratings, logp = [], []
        for is_model, player in ((False, HUMAN), (True, "model")):
            typicality = (
                0.5 * (levels.min() + levels.max()) + raters.strengths[player] + rng.normal(0, raters.text_spread, n)
            )
            seen = typicality[:, None] + rng.normal(0, raters.noise, (n, protocol.raters))
            ratings.append(levels[np.abs(seen[..., None] - levels).argmin(axis=-1)].mean(axis=1))
            logp.append(np.minimum(rng.normal(*_LOGP[is_model], n), -0.5))
        result = huse(
            judgments=np.concatenate(ratings), log_probs=np.concatenate(logp), lengths=np.ones(2 * n),
            is_model=np.arange(2 * n) >= n, k=k,
        )  # fmt: skip
        values.append(result.huse)
    assumed = f"two sides {2 * raters.strengths[HUMAN]:.1f} steps apart, sd {raters.text_spread:g} over texts"
    return "HUSE", 2 * Z95 * float(np.std(values, ddof=1)), math.nan, f"{assumed} and {raters.noise:g} over raters"
