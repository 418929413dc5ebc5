"""Bradley-Terry: abilities of systems from pairwise preferences.

P(i beats j) = 1 / (1 + exp(s_j − s_i)); the scores s maximize the likelihood of the wins and have mean 0. They are
natural-log abilities (a difference is a log odds), unbounded; higher is better.

Source: Bradley & Terry 1952, "Rank Analysis of Incomplete Block Designs"; used for open-ended generation by Pillutla et
al. 2021 (MAUVE), Tables 5, 13 and 14, which print 100 × s centered over all players, the human among them
(`display_scale=100`). There a tie counted for side A, whose place was random: here `ties=random`; the default gives
each side half a win.

Finite scores exist only where every group of players has both beaten and lost to the rest (Ford 1957); other graphs
are refused with the groups' names. Standard errors come from the observed information on the space of mean-0 scores.
Judgments of one item, and of one rater, are not independent, so the errors of a file are clustered by both: the larger
ones count.

`ties=half` shrinks scores toward 0, because a tie is evidence that two systems are equally able; `ties=drop` gives the
log odds of winning a comparison that is decided.

`control=[length,family]` adds what sways judges to the log odds: β · log2 of the ratio of both lengths, and β for a
system of the judge's own family. The abilities are then those at equal length, before a judge of no system's family
(Dubois et al. 2024, "Length-controlled AlpacaEval"; Chatbot Arena's style control).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from openended.harness import core
from openended.metrics import judgments as files
from openended.metrics.families import Values
from openended.metrics.judgments import CONTROLS, ComparisonFile, Empty, FileRow, TieRule, Wins

PAIRS = core.Need("judgments", by="pairs")
_GRADIENT = 1e-9  # largest gradient component per comparison that counts as converged
_STEP, _MOST_STEPS = 1e-12, 500
_LEAST_SHARE = 1e-250  # of all wins: the gradient of a smaller one is rounded to 0
_MOST_DENSE = 20_000  # entries of a design: fewer are multiplied faster as a dense array than as a sparse one
_LARGEST_CONDITION = 1e10  # of the information about abilities and effects


def bradley_terry(wins: ArrayLike, *, players: Sequence[str] | None = None) -> Values:
    """Fit abilities by maximum likelihood (Bradley and Terry 1952).

    Args:
        wins: wins[i, j] counts how often i beat j, shape (n, n), n >= 2, finite, at least 0 and 0 on the diagonal; a
            tie may count one half on both sides.
        players: The players' names for messages, shape (n,); their numbers if none are given.

    Returns:
        `scores` (mean 0, natural log) and their `std_errors`, shape (n,); `covariance` of the scores, shape (n, n), for
        the error of a difference; `log_likelihood`, in nats; `effects`, which is empty.

    Raises:
        UndefinedMetric: If some group of players never loses to, or never beats, the rest: no finite scores exist (Ford
            1957).
        ValueError: If `wins` or `players` has another shape, or `wins` holds other numbers.
    """
    matrix = np.array(wins, dtype=np.float64)
    n = len(matrix) if matrix.ndim else 0
    if matrix.shape != (n, n) or n < 2:
        raise ValueError(f"wins: expected a square matrix of at least 2 players, got shape {matrix.shape}")
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise ValueError("wins: expected finite numbers of at least 0")
    if np.diag(matrix).any():
        raise ValueError(f"wins: player {int(np.flatnonzero(np.diag(matrix))[0])} has wins against itself")
    names = [str(name) for name in (range(n) if players is None else players)]
    if len(names) != n:
        raise ValueError(f"players: expected {n} names, got {len(names)}")
    winners, losers = np.nonzero(matrix)
    return fit_with_controls(
        Wins(tuple(names), matrix, 0, 0, 0, winners=winners, losers=losers, weights=matrix[winners, losers])
    )


def _require_connected(matrix: core.F64, names: Sequence[str]) -> None:
    """Refuse graphs on which the likelihood has no finite maximum."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    graph: Any = csr_array(matrix > 0)
    kinds: tuple[Literal["weak", "strong"], ...] = ("weak", "strong")
    for kind in kinds:
        count, group = connected_components(graph, directed=True, connection=kind)
        if count == 1:
            continue
        groups = [", ".join(names[int(i)] for i in np.flatnonzero(group == g)) for g in range(count)]
        if kind == "weak":
            raise core.UndefinedMetric(f"no comparisons link these groups of systems: {' | '.join(groups)}")
        claims = []
        for g, members in enumerate(groups):
            inside = group == g
            for lost, word in ((matrix[~inside][:, inside], "lost to"), (matrix[inside][:, ~inside], "beat")):
                if not lost.any():
                    claims.append(f"{members} never {word} another system")
        raise core.UndefinedMetric(f"no finite scores: {'; '.join(claims)}")


def estimate_std_errors(fit: Values, wins: Wins, controls: Sequence[str] = ()) -> tuple[core.F64, str]:
    """Return the standard errors of the scores and how they were estimated: clustered by item or by rater.

    Judgments of one item, and of one rater, are correlated. The sandwich estimator allows for that: the sum of the
    squared influences of m clusters, times m / (m - 1). Of both kinds of clusters the larger error counts.

    Args:
        fit: What `bradley_terry` or `fit_with_controls` returned.
        wins: The wins that were fitted.
        controls: The controls that were fitted, names in `CONTROLS`.

    Returns:
        The errors of the scores and after them of the effects of controls, shape (players + controls,), in natural log;
        and a description of the estimate.

    Source: Liang & Zeger 1986, "Longitudinal data analysis using generalized linear models".
    """
    if not wins.clusters:
        return fit.std_errors, "observed information"
    errors: dict[str, core.F64] = {}
    for kind, cluster_of in wins.clusters.items():
        moved = compute_influence(fit, wins, cluster_of, controls)
        count = len(moved)
        errors[f"{kind} ({count:,} {kind}s)"] = np.sqrt((moved**2).sum(axis=0) * count / (count - 1))
    larger = ", whichever is larger" if len(errors) > 1 else ""
    return np.max(list(errors.values()), axis=0), f"clustered by {' or by '.join(errors)}{larger}"


def compute_influence(fit: Values, wins: Wins, cluster_of: core.I64, controls: Sequence[str] = ()) -> core.F64:
    """Return how far each cluster of comparisons moves the scores to first order, shape (clusters, players).

    It is C g, with C the covariance under independence and g the gradient of the cluster's log-likelihood; effects of
    controls follow the players.
    """
    from scipy.sparse import csr_array
    from scipy.special import expit

    design, rows = _build_design(wins, controls), np.arange(len(wins.weights))
    residuals = wins.weights * expit(-(design @ np.concatenate([fit.scores, fit.effects])))
    sums: Any = csr_array((residuals, (cluster_of, rows)), shape=(int(cluster_of.max()) + 1, len(rows)))
    return np.asarray((sums @ design).toarray() @ fit.covariance)


def fit_with_controls(wins: Wins, names: Sequence[str] = ()) -> Values:
    """Fit abilities and the effects of controls on the log odds by Newton's method.

    Args:
        wins: What `count_wins` returned.
        names: The controls, names in `CONTROLS`.

    Returns:
        As `bradley_terry`, with `effects`, shape (controls,), log odds per unit of the control; `covariance` covers
        both.

    Raises:
        UndefinedMetric: If a comparison lacks a control, if an effect cannot be told from the abilities, if some group
            of players never loses to, or never beats, the rest, or if Newton's method does not converge.
    """
    from scipy.special import expit, log_expit

    for name in names:
        if len(wins.controls.get(name, ())) == 0 or np.isnan(wins.controls[name]).any():
            raise core.UndefinedMetric(f"control={name}: expected {name}_a and {name}_b in every row of the file")
    _require_connected(wins.matrix, wins.players)
    design, players = _build_design(wins, names), len(wins.players)
    is_small = math.prod(design.shape) <= _MOST_DENSE
    design = design.toarray() if is_small else design
    weights = wins.weights / wins.weights.sum()
    if weights.min() < _LEAST_SHARE:
        raise core.UndefinedMetric("the numbers of wins are too uneven for a fit")
    values = np.zeros(players + len(names))
    # The information is singular, with the null vector of equal scores: a multiple of this matrix makes it invertible
    # and is taken out again, which no choice of a tolerance for small eigenvalues can get wrong.
    ones = np.zeros((len(values), len(values)))
    ones[:players, :players] = 1.0 / players
    for _ in range(_MOST_STEPS):
        missed = expit(-(design @ values))
        information = design.T @ (design * (weights * missed * (1 - missed))[:, None])
        information = information if is_small else information.toarray()
        weight = float(np.trace(information)) / len(values)
        if names and np.linalg.cond(information + weight * ones) > _LARGEST_CONDITION:
            raise core.UndefinedMetric(
                f"control=[{', '.join(names)}]: no finite effects: they must vary for the same pair of systems, as the "
                "length of texts or several judges do, and may not decide alone"
            )
        try:
            covariance = np.asarray(np.linalg.inv(information + weight * ones) - ones / weight)
        except np.linalg.LinAlgError:
            raise core.UndefinedMetric("the numbers of wins are too uneven for a fit") from None
        gradient = design.T @ (weights * missed)
        step = covariance @ gradient
        values = values + step / max(1.0, float(np.abs(step).max()))
        if float(np.abs(step).max()) < _STEP:
            break
    steepest = float(np.abs(gradient).max())
    if not steepest <= _GRADIENT:
        raise core.UndefinedMetric(f"the likelihood did not converge: gradient {steepest:.1e} a comparison")
    covariance = covariance / wins.weights.sum()
    scores, likelihood = values[:players] - values[:players].mean(), float(wins.weights @ log_expit(design @ values))
    std_errors, effects = np.sqrt(np.diag(covariance)), values[players:]
    return Values(
        scores=scores, std_errors=std_errors, covariance=covariance, log_likelihood=likelihood, effects=effects
    )


def _build_design(wins: Wins, names: Sequence[str]) -> Any:  # noqa: ANN401 - a sparse array
    """Return what the log odds of each win depend on, shape (wins, players + controls): winner minus loser."""
    from scipy.sparse import csr_array

    n, players = len(wins.winners), len(wins.players)
    controls = [wins.controls[name] for name in names]
    columns = [wins.winners, wins.losers, *(np.full(n, at) for at in range(players, players + len(names)))]
    data = np.concatenate([np.ones(n), -np.ones(n), *controls])
    positions = np.tile(np.arange(n), 2 + len(names)), np.concatenate(columns)
    return csr_array((data, positions), shape=(n, players + len(names)))


@core.metric
class BradleyTerry(core.JudgmentMetric):
    """Abilities of systems from people's pairwise preferences (Bradley & Terry 1952; MAUVE Tables 5, 13 and 14)."""

    name = "bradley_terry"
    synonyms = ("elo",)
    version = 4
    bounds = (-np.inf, np.inf)
    titles = {"bradley_terry": "Bradley-Terry"}

    system: str | None = None
    """Whose score is the value; null: the run's, by judgment_systems; of a file alone the best model's."""
    ties: TieRule = "half"
    """Half a win each, which shrinks scores toward 0; random: a win for either, by the seed; drop; MAUVE gave ties to
    side A at a random position, which is `random`."""
    seed: int = 0
    """Seed of the draws of `ties=random`."""
    min_seconds: float = core.ranged(0.0, "[0, inf]", "a number of at least 0")
    """Faster judgments are left out; MAUVE: 25."""
    criterion: str | None = None
    """One of the file's criteria; null: each of them."""
    empty: Empty = "refuse"
    """A row without an outcome; skip: left out, and counted in the notes."""
    display_scale: float = core.ranged(1.0, "(0, inf]", "a positive number")
    """100: as MAUVE Table 13 prints."""
    control: tuple[str, ...] = core.option((), lambda c: set(c) <= set(CONTROLS), "length, family", unordered=True)
    """Length, family: abilities at equal length of the texts, and before a judge of no system's family."""

    def needs(self) -> tuple[core.Need, ...]:
        return (PAIRS,)

    @classmethod
    def accepts_columns(cls, columns: Sequence[str], rows: Sequence[FileRow]) -> bool:
        return files.accepts_comparisons(columns, rows)

    def read(self, path: Path, renamed: Mapping[str, str] | None = None, human: Collection[str] = ()) -> ComparisonFile:
        return files.read_comparisons(path, renamed=renamed, empty=self.empty, human=human)

    def list_ids(self, judged: ComparisonFile) -> tuple[list[str], list[str]]:
        """Return the items on which the texts of each side were compared."""
        with_human = {c.item for c in judged.rows if core.HUMAN in (c.system_a, c.system_b)}
        return sorted(with_human), sorted({c.item for c in judged.rows})

    def prepare(self, features: core.Features) -> ComparisonFile:
        return features.model[PAIRS]  # type: ignore[no-any-return]

    def evaluate(self, features: core.Features, prepared: ComparisonFile) -> core.MetricResult:
        """Fit every criterion.

        Where a system is under test, the values are its scores: `bradley_terry`, and one per criterion. A file by
        itself gives every player's: `<player>` or `<criterion>/<player>`. `arrays` always holds all of them.
        """
        comparisons = prepared
        players = comparisons.players
        # The player under test; None for a file by itself.
        player = self.find_system(features)
        if player is not None and player not in players:
            raise core.UndefinedMetric(f"system {player!r} was not compared; the file has {', '.join(players)}")
        raters = (row.rater for row in comparisons.rows)
        features, notes, invented = files.add_raters_fact(features, raters, comparisons.calibration, comparisons.source)
        criteria = [self.criterion] if self.criterion is not None else [c or None for c in comparisons.criteria]
        values: dict[str, float] = {}
        sd: dict[str, float] = {}
        arrays: dict[str, core.F64] = {}
        for criterion in criteria:
            wins = files.count_wins(
                comparisons, criterion=criterion, ties=self.ties, min_seconds=self.min_seconds, seed=self.seed
            )
            control = self.control
            fit = fit_with_controls(wins, control) if control else bradley_terry(wins.matrix, players=wins.players)
            std_errors, how = estimate_std_errors(fit, wins, control)
            prefix = f"{criterion}/" if criterion and len(criteria) > 1 else ""
            scores, errors = self.display_scale * fit.scores, self.display_scale * std_errors[: len(fit.scores)]
            arrays |= {f"{prefix}wins": wins.matrix, f"{prefix}scores": scores, f"{prefix}std_errors": errors}
            for name, score, error in zip(wins.players, scores, errors, strict=True):
                key = (prefix.rstrip("/") or "bradley_terry") if name == player else f"{prefix}{name}"
                if player in (None, name):
                    values[key], sd[key] = float(score), float(error)
            about = f"{criterion}: " if criterion else ""
            left_out = f", {wins.too_fast} faster than {self.min_seconds:g} s left out" if wins.too_fast else ""
            left_out += f", {wins.empty} without an outcome left out" if wins.empty else ""
            notes.append(
                f"{about}{wins.compared} comparisons of {len(players)} systems ({', '.join(players)}); "
                f"{wins.ties} {'tie' if wins.ties == 1 else 'ties'} ({self.ties}){left_out}"
            )
            for name, effect, error in zip(control, fit.effects, std_errors[len(fit.scores) :], strict=True):
                low, high, share = effect - 1.96 * error, effect + 1.96 * error, 100 / (1 + np.exp(-effect))
                notes.append(
                    f"{about}control {name}: {effect:+.2f} [{low:.2f}, {high:.2f}] to the log odds {CONTROLS[name]}, "
                    f"which alone would win {share:.0f} %; abilities without it"
                )
        first = next(iter(arrays)).removesuffix("wins")
        rivals = [i for i, name in enumerate(players) if name != core.HUMAN]  # a file by itself: the best of them
        at = players.index(player) if player else max(rivals, key=lambda i: float(arrays[f"{first}scores"][i]))
        values["bradley_terry"] = float(arrays[f"{first}scores"][at])
        sd["bradley_terry"] = float(arrays[f"{first}std_errors"][at])
        criterion = criteria[0]  # of the primary value
        rows = [row for row in comparisons.rows if criterion in (None, row.criterion)] if player else []
        won = files.average_outcomes(rows, str(player), features.model.ids)
        by_text = {"bradley_terry": won} if np.isfinite(won).any() else {}
        # The same words for every system of the file: tables show them once.
        whose = f"each system{f' for {first[:-1]}' if first else ''}" if player else f"{first}{players[at]}"
        notes.append(f"bradley_terry is the score of {whose}; its sd is a standard error ({how})")
        return self.result(
            features, "bradley_terry", values, notes=notes, per_example=by_text, arrays=arrays, sd=sd, invented=invented
        )
