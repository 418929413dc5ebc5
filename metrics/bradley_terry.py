"""Bradley-Terry: abilities of systems from pairwise preferences.

P(i beats j) = 1 / (1 + exp(s_j − s_i)); the scores s maximize the likelihood of the wins and have mean 0. They are
natural-log abilities (a difference is a log odds), unbounded; higher is better.

Source: Bradley & Terry 1952, "Rank Analysis of Incomplete Block Designs"; used for open-ended generation by Pillutla et
al. 2021 (MAUVE), Tables 5, 13 and 14, which print 100 × s centered over all players, the human among them
(`display_scale=100`). There a tie counted for side A, whose place was random: here `ties=random`; the default gives
each side half a win.

Finite scores exist only where every group of players has both beaten and lost to the rest (Ford 1957); other graphs
are refused with the groups' names. Standard errors come from the observed information on the space of mean-0 scores.
Where a file of judgments has several for one item, they are not independent, so the errors are clustered by item.

`ties=half` shrinks scores toward 0, because a tie is evidence that two players are equally able; `ties=drop` gives the
log odds of winning a comparison that is decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from openended.harness.core import F64, HUMAN, Features, Metric, MetricResult, Need, UndefinedMetric, register
from openended.metrics._common.values import Values
from openended.metrics.judgments import (
    Empty,
    FileRow,
    JudgmentMetric,
    add_raters_fact,
    build_file_features,
    get_judgments,
)
from openended.metrics.judgments.comparisons import (
    ComparisonFile,
    TieRule,
    Wins,
    count_wins,
    is_matrix,
    read_comparisons,
)
from openended.metrics.judgments.item_errors import estimate_std_errors
from openended.metrics.judgments.layouts import detect_layout, map_columns
from openended.metrics.judgments.likelihood import (
    compute_information,
    compute_loss,
    invert_centered,
    maximize_likelihood,
)

PAIRS = Need("judgments", by="pairs")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BradleyTerryScores(Values):
    """What `bradley_terry` returns; fields by attribute or by key."""

    scores: F64
    """Natural-log abilities, mean 0, shape (players,)."""
    std_errors: F64
    """Standard error of each score, shape (players,)."""
    covariance: F64
    """Covariance of the scores, shape (players, players); for the error of a difference."""
    log_likelihood: float


def bradley_terry(wins: ArrayLike, *, players: Sequence[str] | None = None) -> BradleyTerryScores:
    """Fit abilities by maximum likelihood.

    Args:
        wins: wins[i, j] = times i beat j, shape (n, n), n >= 2; a tie may count one half on both sides.
        players: Names for messages, shape (n,).

    Returns:
        Scores (mean 0, natural log) and their standard errors.

    Raises:
        ValueError: If `wins` is not square, holds a negative or non-finite number or wins against oneself.
        UndefinedMetric: If the comparison graph is disconnected or one-sided (some group never loses to, or never
            beats, the rest): no finite scores exist.

    Source: Bradley & Terry 1952; existence by Ford 1957.

    >>> fit = bradley_terry([[0, 3], [1, 0]])  # log odds log 3, half on each side
    >>> fit.scores.round(4).tolist()
    [0.5493, -0.5493]
    """
    matrix, names = _check_wins(wins, players)
    _require_connected(matrix, names)
    scores = maximize_likelihood(matrix)
    covariance = invert_centered(compute_information(matrix, scores))
    return BradleyTerryScores(scores, np.sqrt(np.diag(covariance)), covariance, -compute_loss(scores, matrix))


def _check_wins(wins: ArrayLike, players: Sequence[str] | None) -> tuple[F64, list[str]]:
    """Check shape and numbers, and name the players."""
    matrix = np.array(wins, dtype=np.float64)
    n = len(matrix) if matrix.ndim else 0
    if matrix.shape != (n, n) or n < 2:
        raise ValueError(f"wins: expected a square matrix of at least 2 players, got shape {matrix.shape}")
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise ValueError("wins: expected finite numbers of at least 0")
    if np.diag(matrix).any():
        raise ValueError(f"wins: player {int(np.flatnonzero(np.diag(matrix))[0])} has wins against itself")
    names = [str(i) for i in range(n)] if players is None else [str(name) for name in players]
    if len(names) != n:
        raise ValueError(f"players: expected {n} names, got {len(names)}")
    return matrix, names


def _require_connected(matrix: F64, names: Sequence[str]) -> None:
    """Refuse graphs on which the likelihood has no finite maximum."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    graph: Any = csr_array(matrix > 0)
    kinds: tuple[Literal["weak", "strong"], ...] = ("weak", "strong")
    for kind in kinds:
        count, group = connected_components(graph, directed=True, connection=kind)
        if count == 1:
            continue
        sets = [[names[int(i)] for i in np.flatnonzero(group == g)] for g in range(count)]
        if kind == "weak":
            listed = " | ".join(", ".join(members) for members in sets)
            raise UndefinedMetric(f"no comparisons link these groups of players: {listed}")
        raise UndefinedMetric(f"no finite scores: {_describe_one_sided_groups(matrix, group, sets)}")


def _describe_one_sided_groups(matrix: F64, group: Any, sets: Sequence[Sequence[str]]) -> str:  # noqa: ANN401
    """Name every group that never loses to, or never beats, a player outside."""
    claims = []
    for g, members in enumerate(sets):
        inside = group == g
        for lost, word in ((matrix[~inside][:, inside], "lost to"), (matrix[inside][:, ~inside], "beat")):
            if not lost.any():
                claims.append(f"{', '.join(members)} never {word} another player")
    return "; ".join(claims)


@register("metric")
@dataclass(frozen=True, kw_only=True)
class BradleyTerry(JudgmentMetric):
    """Bradley-Terry scores of all systems in a file of comparisons."""

    name: ClassVar[str] = "bradley_terry"
    version: ClassVar[int] = 2
    bounds: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    titles: ClassVar[Mapping[str, str]] = {"bradley_terry": "Bradley-Terry"}

    system: str | None = None  # whose score is `bradley_terry`; none: the run's model if rated, else the best non-human
    ties: TieRule = "half"  # half a win each; MAUVE gave ties to side A at a random position, which is `random`
    seed: int = 0  # of `ties=random`
    min_seconds: float = 0.0  # faster judgments are dropped; MAUVE dropped those under 25 seconds
    criterion: str | None = None  # one of the file's criteria; none: each of them by itself
    empty: Empty = "refuse"  # a row without an outcome; skip: left out, and counted in the notes
    display_scale: float = 1.0  # 100 as MAUVE Table 13 prints

    def check(self) -> None:
        """Check ranges."""
        self.require(self.min_seconds >= 0, "min_seconds", "a number of at least 0")
        self.require(self.display_scale > 0, "display_scale", "a positive number")

    def needs(self) -> tuple[Need, ...]:
        """Comparisons."""
        return (PAIRS,)

    @classmethod
    def accepts_columns(cls, columns: Sequence[str], rows: Sequence[FileRow]) -> bool:
        """Say whether there are comparisons, counts or a matrix of wins."""
        return detect_layout(map_columns(columns)) is not None or is_matrix(columns, rows)

    def read(self, path: Path, renamed: Mapping[str, str] | None = None) -> ComparisonFile:
        """Read and check the file of comparisons."""
        return read_comparisons(path, renamed=renamed, empty=self.empty)

    def from_file(self, path: Path, renamed: Mapping[str, str] | None = None) -> tuple[Metric, Features]:
        """Score the file without a run; the ids of a side are the items on which its texts were compared."""
        comparisons = self.read(path, renamed)
        human = sorted({c.item for c in comparisons.rows if HUMAN in (c.system_a, c.system_b)})
        items = sorted({c.item for c in comparisons.rows})
        return self, build_file_features(PAIRS, comparisons, comparisons.source, human, items)

    def compute(self, features: Features) -> MetricResult:
        """Fit every criterion.

        Where a system is under test, the values are its scores: `bradley_terry`, and one a criterion beside it. A file
        by itself gives every player's: `<player>` or `<criterion>/<player>`. `arrays` always holds all of them.
        """
        comparisons = get_judgments(features.model, PAIRS, ComparisonFile)
        player = self._find_player(comparisons.players, features.model.system)
        features, notes = add_raters_fact(features, (row.rater for row in comparisons.rows), comparisons.calibration)
        criteria = [self.criterion] if self.criterion is not None else [c or None for c in comparisons.criteria]
        values: dict[str, float] = {}
        sd: dict[str, float] = {}
        arrays: dict[str, F64] = {}
        for criterion in criteria:
            wins = count_wins(
                comparisons, criterion=criterion, ties=self.ties, min_seconds=self.min_seconds, seed=self.seed
            )
            fit = bradley_terry(wins.matrix, players=wins.players)
            std_errors, how = estimate_std_errors(fit.scores, fit.covariance, wins)
            prefix = f"{criterion}/" if criterion and len(criteria) > 1 else ""
            scores, errors = self.display_scale * fit.scores, self.display_scale * std_errors
            arrays |= {f"{prefix}wins": wins.matrix, f"{prefix}scores": scores, f"{prefix}std_errors": errors}
            for name, score, error in zip(wins.players, scores, errors, strict=True):
                key = (prefix.rstrip("/") or "bradley_terry") if name == player else f"{prefix}{name}"
                if player in (None, name):
                    values[key], sd[key] = float(score), float(error)
            notes.append(self._note(wins, criterion))
        first = next(iter(arrays)).removesuffix("wins")
        players = comparisons.players
        rivals = [i for i, name in enumerate(players) if name != HUMAN]  # a file by itself: the best of them
        at = players.index(player) if player else max(rivals, key=lambda i: float(arrays[f"{first}scores"][i]))
        values["bradley_terry"] = float(arrays[f"{first}scores"][at])
        sd["bradley_terry"] = float(arrays[f"{first}std_errors"][at])
        notes.append(f"bradley_terry is the score of {first}{players[at]}; its sd is a standard error ({how})")
        return self.result(features, "bradley_terry", values, notes=notes, arrays=arrays, sd=sd)

    def _find_player(self, players: Sequence[str], system: str) -> str | None:
        """Return the player under test, None for a file by itself."""
        if self.system is not None and self.system not in players:
            raise UndefinedMetric(f"system {self.system!r} was not compared; the file has {', '.join(players)}")
        return self.system or (system if system in players else None)

    def _note(self, wins: Wins, criterion: str | None) -> str:
        about = f"{criterion}: " if criterion else ""
        unsaid = f", {wins.empty} without an outcome left out" if wins.empty else ""
        return (
            f"{about}{wins.compared} comparisons of {len(wins.players)} players ({', '.join(wins.players)}); "
            f"{wins.ties} ties ({self.ties}), {wins.too_fast} faster than {self.min_seconds:g} s left out{unsaid}"
        )
