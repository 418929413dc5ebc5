"""What the papers claim, what these runs measure, and whether it holds here: honest either way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from harness.report.fold import Folded, fold
from harness.report.frame import Results
from harness.report.layout import Layout
from harness.report.sweeps import lines_of
from harness.report.systems import human_value
from harness.report.table import Cell, Column, Row, Table
from harness.signature import parse_signature

SIZES = ("xs", "s", "small", "base", "m", "medium", "l", "large", "xl", "xxl")
FAR = 0.5  # "far below": less than half
CLOSE = 0.25  # "close": a quarter of the way to the other
ALIKE = 0.9  # a rank correlation that counts as the same ranking; the papers report 0.99 and more


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of one claim on these runs."""

    measured: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """One finding of a paper."""

    text: str
    source: str
    check: Callable[[Sequence[Folded]], Verdict | None]
    needs: str
    """What these runs would have to hold for the claim to be checked."""


def findings_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build the table of claims: source, what was measured, whether it holds."""
    items = [i for i in fold(results) if math.isfinite(i.mean)]
    rows = []
    for claim in CLAIMS:
        verdict = claim.check(items)
        if verdict is None:
            cells = (Cell(words=claim.source), Cell(note=f"Needs {claim.needs}."), Cell(words="not measured"))
        else:
            cells = (
                Cell(words=claim.source),
                Cell(words=verdict.measured),
                Cell(words="yes" if verdict.holds else "no"),
            )
        rows.append(Row(claim.text, "claim", cells))
    columns = (
        Column("", "source", "source", "none"),
        Column("", "measured", "measured", "none"),
        Column("", "holds", "holds", "none"),
    )
    remark = (
        f"≪: less than {FAR:g} times; close: within {CLOSE:g} of the distance to nucleus sampling; rankings survive: "
        f"Spearman's ρ of at least {ALIKE:g}. Means over seeds; compared only where all other settings are the same."
    )
    return [Table(name, layout.title, columns, tuple(rows), (remark,), head="Claim", show_seeds=False)]


def _of(items: Sequence[Folded], metric: str, key: str) -> list[Folded]:
    return [i for i in items if i.system == "model" and (i.metric, i.key) == (metric, key)]


def _settings(items: Sequence[Folded], vary: str = "decoder") -> Iterator[dict[str, list[Folded]]]:
    """Yield, for everything else being the same, the values by decoder (or by another axis)."""
    groups: dict[tuple[str, ...], dict[str, list[Folded]]] = {}
    for item in items:
        rest = [
            item.signature,
            *(v for a, v in item.axes.items() if a != vary and not (vary == "decoder" and a.startswith("decoder."))),
        ]
        groups.setdefault(tuple(rest), {}).setdefault(item.axes.get(vary, ""), []).append(item)
    yield from groups.values()


def _best(items: Sequence[Folded]) -> Folded:
    return max(items, key=lambda i: i.mean)


def _decoders(items: Sequence[Folded], metric: str, key: str, *names: str) -> dict[str, Folded] | None:
    """Return the value of each named decoder in the first setting that has them all; of several parameters the best."""
    for group in _settings(_of(items, metric, key)):
        if all(n in group for n in names):
            return {n: _best(group[n]) for n in names}
    return None


def _trend(axis: str, metric: str, key: str, sign: int) -> Callable[[Sequence[Folded]], Verdict | None]:
    """Check that a value moves in one direction from the smallest to the largest value of an axis, on every line."""

    def check(items: Sequence[Folded]) -> Verdict | None:
        lines = list(lines_of(_of(items, metric, key), axis))
        if not lines:
            return None
        ends = [(line.label, line.points[0], line.points[-1]) for line in lines]
        said = "; ".join(f"{label} {a.mean:.3f} at {x:g}, {b.mean:.3f} at {y:g}" for label, (x, a), (y, b) in ends[:3])
        return Verdict(said, all((b.mean - a.mean) * sign > 0 for _, (_, a), (_, b) in ends))

    return check


def _sizes(items: Sequence[Folded]) -> Verdict | None:
    """Check that MAUVE does not fall from a smaller model to the next larger one, decoder by decoder."""
    compared = []
    for group in _settings(_of(items, "mauve", "mauve"), "model"):
        known = sorted((n for n in group if _size(n) is not None), key=lambda n: _size(n) or 0)
        for small, large in pairwise(known):
            compared.append((group[small][0], group[large][0]))
    if not compared:
        return None
    up = sum(b.mean > a.mean for a, b in compared)
    a, b = compared[0]
    example = f"{a.titles[0]} {a.mean:.3f}, {b.titles[0]} {b.mean:.3f} ({a.titles[1]})"
    said = f"higher in {up} of {len(compared)} pairs, e.g. {example}"
    return Verdict(said, up == len(compared))


def _size(model: str) -> int | None:
    last = model.lower().replace("_", "-").rpartition("-")[2]
    return SIZES.index(last) if last in SIZES else None


def _order(items: Sequence[Folded]) -> Verdict | None:
    found = _decoders(items, "mauve", "mauve", "greedy", "ancestral", "nucleus")
    if found is None:
        return None
    greedy, ancestral, nucleus = (found[n].mean for n in ("greedy", "ancestral", "nucleus"))
    said = f"greedy {greedy:.3f}, ancestral {ancestral:.3f}, nucleus {nucleus:.3f}"
    return Verdict(said, greedy < FAR * ancestral and ancestral < nucleus)


def _beam(items: Sequence[Folded]) -> Verdict | None:
    found = _decoders(items, "mauve", "mauve", "greedy", "beam", "nucleus")
    if found is None:
        return None
    greedy, beam, nucleus = (found[n].mean for n in ("greedy", "beam", "nucleus"))
    said = f"greedy {greedy:.3f}, beam {beam:.3f}, nucleus {nucleus:.3f}"
    return Verdict(said, abs(beam - greedy) < CLOSE * abs(nucleus - greedy))


def _adversarial(items: Sequence[Folded]) -> Verdict | None:
    """Check that the decoder that aims at the human perplexity reaches it best, and is far below by MAUVE."""
    ppl = _decoders(items, "gen_ppl", "gen_ppl", "adversarial", "nucleus")
    mauve = _decoders(items, "mauve", "mauve", "adversarial", "nucleus")
    if ppl is None or mauve is None:
        return None
    gaps = {}
    for name, value in ppl.items():
        human = human_value(items, value)
        if human is None:
            return None
        gaps[name] = abs(value.mean - human.mean)
    scores = {n: v.mean for n, v in mauve.items()}
    said = "; ".join(f"{n}: Gen. PPL gap {gaps[n]:.2f}, MAUVE {scores[n]:.3f}" for n in gaps)
    return Verdict(said, gaps["adversarial"] < gaps["nucleus"] and scores["adversarial"] < FAR * scores["nucleus"])


def _ranking(field: str, metric: str, key: str) -> Callable[[Sequence[Folded]], Verdict | None]:
    """Check that the ranking of the systems is the same whatever the value of one field of the signature."""

    def check(items: Sequence[Folded]) -> Verdict | None:
        from metrics._correlation import rank_correlation

        tables: dict[str, dict[tuple[str, ...], float]] = {}
        for item in _of(items, metric, key):
            fields = parse_signature(item.signature)
            value = fields.pop(field, "")
            rest = (*fields.values(), *(v for a, v in item.axes.items() if a != field))
            tables.setdefault(value, {})[rest] = item.mean
        worst = math.inf
        most = 0
        for a, b in combinations(tables.values(), 2):
            shared = sorted(a.keys() & b.keys())
            if len(shared) >= 3:
                rho = rank_correlation([a[s] for s in shared], [b[s] for s in shared])
                worst, most = min(worst, rho if math.isfinite(rho) else worst), max(most, len(shared))
        if not math.isfinite(worst):
            return None
        return Verdict(
            f"lowest ρ {worst:.3f} over {len(tables)} values of {field}, up to {most} systems", worst >= ALIKE
        )

    return check


MAUVE, PR = "MAUVE 2021", "P&R 2024"
KNN, SCORE = "knn_precision_recall", ("mauve", "mauve")
TEMPERATURE = "decoder.temperature"
CLAIMS = (
    Claim("MAUVE falls with length", f"{MAUVE}, Fig. 4", _trend("max_new_tokens", *SCORE, -1), "three lengths"),
    Claim("MAUVE rises with model size", f"{MAUVE}, Table 4", _sizes, "two models whose names say their sizes"),
    Claim("By MAUVE greedy ≪ ancestral < nucleus", f"{MAUVE}, Table 3", _order, "the three decoders"),
    Claim("Adversarial fools Gen. PPL, not MAUVE", f"{MAUVE}, Table 3", _adversarial, "adversarial and nucleus"),
    Claim("Beam search is close to greedy", f"{MAUVE}, Table 11", _beam, "greedy, beam and nucleus"),
    Claim(
        "Rankings survive the number of clusters", f"{MAUVE}, 4.2", _ranking("num_buckets", *SCORE), "several of them"
    ),
    Claim("Rankings survive the scaling c", f"{MAUVE}, Fig. 5", _ranking("scaling_factor", *SCORE), "several values"),
    Claim("Rankings survive the embedder", f"{MAUVE}, Table 12", _ranking("embedder", *SCORE), "several embedders"),
    Claim(
        "Precision falls with temperature", f"{PR}, Fig. 1", _trend(TEMPERATURE, KNN, "precision", -1), "three of them"
    ),
    Claim("Recall rises with temperature", f"{PR}, Fig. 1", _trend(TEMPERATURE, KNN, "recall", 1), "three values"),
)
