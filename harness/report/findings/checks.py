"""Checks of the papers' claims: each takes folded values and says what they measure, or None where they cannot tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, pairwise

from openended.harness.core import parse_signature
from openended.harness.report.figures.sweeps import Line, lines_of
from openended.harness.report.findings.values import (
    Check,
    Verdict,
    by_decoder,
    grouped,
    joined,
    listed,
    main_setting,
    number,
    rated_values,
    size_of,
)
from openended.harness.report.tables.agreement import turned
from openended.harness.results import Folded, head_of, human_value, systems_of, values_of

FAR = 0.5  # "far below": less than half
CLOSE = 0.25  # "close": a quarter of the way to the other
ALIKE = 0.9  # a rank correlation that counts as the same ranking; the papers report 0.99 and more
ALIKE_EMBEDDERS = 0.67  # the lowest that P&R's Table B.1 prints
STEADY = 0.024  # the largest standard deviation over seeds in P&R's Table B.5


KNN = "knn_precision_recall"
TEMPERATURE = "decoder.temperature"


def order(metric: str, key: str, names: Sequence[str], holds: Callable[..., bool]) -> Check:
    """Check a relation between the values of some decoders, model by model."""

    def check(items: Sequence[Folded]) -> Verdict | None:
        found = list(by_decoder(items, metric, key, *names))
        parts = [(f[names[0]].titles[0], listed(list(f.values())), holds(*(i.mean for i in f.values()))) for f in found]
        return joined(parts)

    return check


def gaps(names: Sequence[str], holds: Callable[..., bool]) -> Check:
    """Check a relation between the distances of generation perplexities to the human value."""

    def check(items: Sequence[Folded]) -> Verdict | None:
        parts = []
        for found in by_decoder(items, "gen_ppl", "gen_ppl", *names):
            humans = [human_value(items, i) for i in found.values()]
            away = [abs(i.mean - h.mean) for i, h in zip(found.values(), humans, strict=True) if h is not None]
            if len(away) == len(names):
                said = ", ".join(f"{i.titles[1]} {number(g)}" for i, g in zip(found.values(), away, strict=True))
                parts.append((next(iter(found.values())).titles[0], f"|gap| {said}", holds(*away)))
        return joined(parts)

    return check


def adversarial(items: Sequence[Folded]) -> Verdict | None:
    """Check that the decoder that aims at the human perplexity reaches it best, and is far below by MAUVE."""
    names = ("adversarial", "nucleus")
    ppl = gaps(names, lambda a, n: a < n)(items)
    mauve = order("mauve", "mauve", names, lambda a, n: a < FAR * n)(items)
    if ppl is None or mauve is None:
        return None
    return Verdict(f"Gen. PPL {ppl.measured}; MAUVE {mauve.measured}", ppl.holds and mauve.holds)


def trend(axes: Sequence[str], metric: str, key: str, sign: int) -> Check:
    """Check that a value moves in one direction from the smallest to the largest value of an axis, on every line."""

    def check(items: Sequence[Folded]) -> Verdict | None:
        every, main = values_of(items, metric, key), main_setting(items, metric, key)
        lines = [line for axis in axes for line in lines_of(main if axis.startswith("decoder.") else every, axis)]
        if not lines:
            return None
        right = sum((_ends(line)[1] - _ends(line)[0]) * sign > 0 for line in lines)
        line = max(lines, key=lambda one: (len(one.points), one.label.count("nucleus")))
        first, last = (f"{v:.3f} at {x:g}" for v, x in zip(_ends(line), (p for p, _ in _tips(line)), strict=True))
        word = "rises" if sign > 0 else "falls"
        return Verdict(
            f"{word} on {right} of {len(lines)} lines, e.g. {line.label}: {first}, {last}", right == len(lines)
        )

    return check


def _tips(line: Line) -> tuple[tuple[float, Folded], tuple[float, Folded]]:
    return line.points[0], line.points[-1]


def _ends(line: Line) -> tuple[float, float]:
    return line.points[0][1].mean, line.points[-1][1].mean


def sizes(metric: str, *keys: str) -> Check:
    """Check that values do not fall from a smaller model to the next larger one, decoder by decoder."""

    def check(items: Sequence[Folded]) -> Verdict | None:
        pairs = []
        for key in keys:
            for group in grouped(main_setting(items, metric, key), "model"):
                known = sorted(
                    (i for i in group if size_of(i.axes["model"]) is not None),
                    key=lambda i: size_of(i.axes["model"]) or 0,
                )
                larger = dict(pairwise(sorted({size_of(i.axes["model"]) or 0 for i in known})))
                pairs += [(a, b) for a in known for b in known if _steps_up(a, b, larger)]
        if not pairs:
            return None
        up = sum(b.mean > a.mean for a, b in pairs)
        said = "; ".join(f"{a.titles[1]} {a.titles[0]} {a.mean:.3f}, {b.titles[0]} {b.mean:.3f}" for a, b in pairs[:2])
        return Verdict(f"higher in {up} of {len(pairs)} pairs, e.g. {said}", up == len(pairs))

    return check


def _steps_up(a: Folded, b: Folded, larger: Mapping[int, int]) -> bool:
    """Say whether the second model is of the next larger size; two of one size (of another dtype, say) are no pair."""
    return larger.get(size_of(a.axes["model"]) or 0) == (size_of(b.axes["model"]) or 0)


def ranking(field: str, metric: str, *keys: str, least: float = ALIKE, axis: str | None = None) -> Check:
    """Check that the ranking of the systems is the same whatever the value of a field of the signature."""

    def check(items: Sequence[Folded]) -> Verdict | None:
        found = [
            one for key in keys if (one := _agreement(values_of(items, metric, key), field, axis or field)) is not None
        ]
        if not found:
            return None
        low, values, most = min(found)
        return Verdict(f"lowest ρ {low:.3f} over {values} values, up to {most} systems", low >= least)

    return check


def _agreement(items: Sequence[Folded], field: str, axis: str) -> tuple[float, int, int] | None:
    """Return (lowest rank correlation, number of values of the field, most systems shared)."""
    from openended.metrics.correlation import rank_correlation

    tables: dict[str, dict[tuple[str, ...], float]] = {}
    for item in items:
        fields = parse_signature(item.signature)
        value = fields.pop(field, "")
        fields.pop("texts", None)  # what was cut changes with the length; who cut it is in the axes
        kept = (v for a, v in item.axes.items() if axis not in (a, head_of(a)) and a != "task.texts")
        tables.setdefault(value, {})[*fields.values(), *kept] = item.mean
    found = []
    for a, b in combinations(tables, 2):
        shared = sorted(tables[a].keys() & tables[b].keys())
        rho = rank_correlation(*([tables[t][s] for s in shared] for t in (a, b))) if len(shared) >= 3 else math.nan
        if math.isfinite(rho):
            found.append((rho, {a, b}, len(shared)))
    if not found:
        return None
    return min(r for r, _, _ in found), len(set().union(*(v for _, v, _ in found))), max(n for _, _, n in found)


def best_inside(items: Sequence[Folded]) -> Verdict | None:
    """Check that the best p of nucleus sampling is neither the smallest nor the largest."""
    lines = _lines_over_p(items)
    said = "; ".join(f"{label}: best at p={p:g} of {low:g} to {high:g}" for label, p, low, high in lines)
    return Verdict(said, all(low < p < high for _, p, low, high in lines)) if lines else None


def best_with_size(items: Sequence[Folded]) -> Verdict | None:
    """Check that the best p of a larger model is not below that of a smaller one."""
    known = sorted((size, p, label) for label, p, _, _ in _lines_over_p(items) if (size := size_of(label)) is not None)
    if len(known) < 2:
        return None
    said = ", ".join(f"{label} p={p:g}" for _, p, label in known)
    return Verdict(said, all(a[1] <= b[1] for a, b in pairwise(known)))


def _lines_over_p(items: Sequence[Folded]) -> list[tuple[str, float, float, float]]:
    """Return (model, best p, smallest, largest) of each model's nucleus sampling in the main setting."""
    own = [i for i in main_setting(items, "mauve", "mauve") if i.axes.get("decoder") == "nucleus"]
    made = []
    for line in lines_of(own, "decoder.p"):
        best = max(line.points, key=lambda point: point[1].mean)
        made.append((best[1].titles[0], best[0], line.points[0][0], line.points[-1][0]))
    return made


def discriminator(items: Sequence[Folded]) -> Verdict | None:
    """Check that MAUVE agrees with the accuracy of a discriminator better than any other metric does."""
    from openended.metrics.correlation import rank_correlation

    target = main_setting(items, "discriminator_accuracy", "accuracy")
    if len(target) < 3:
        return None
    settings = [dict(i.axes) for i in target]
    found: dict[str, float] = {}
    for pair in (("mauve", "mauve"), ("gen_ppl", "gen_ppl"), ("zipf", "zipf"), ("self_bleu", "self_bleu_4"),
                 ("repetition", "loop_rate"), ("distinct_n", "distinct_4")):  # fmt: skip
        values = {tuple(sorted(i.axes.items())): turned(i, items) for i in main_setting(items, *pair)}
        both = [
            (values.get(tuple(sorted(s.items())), math.nan), turned(t, items))
            for s, t in zip(settings, target, strict=True)
        ]
        both = [(a, b) for a, b in both if math.isfinite(a) and math.isfinite(b)]
        rho = rank_correlation(*map(list, zip(*both, strict=True))) if len(both) > 2 else math.nan
        if math.isfinite(rho):
            found[pair[0]] = rho
    if "mauve" not in found or len(found) < 2:
        return None
    said = ", ".join(f"{name} {rho:.3f}" for name, rho in sorted(found.items(), key=lambda pair: -pair[1]))
    return Verdict(f"ρ over {len(target)} systems: {said}", found["mauve"] == max(found.values()))


def steady(items: Sequence[Folded]) -> Verdict | None:
    """Check that precision and recall move little from seed to seed."""
    means = {}
    for key in ("precision", "recall"):
        spreads = [i.sd for i in main_setting(items, KNN, key) if i.seeds > 2 and math.isfinite(i.sd)]
        if spreads:
            means[key] = (math.fsum(spreads) / len(spreads), len(spreads))
    if len(means) < 2:
        return None
    said = ", ".join(f"{key} {mean:.3f}" for key, (mean, _) in means.items())
    return Verdict(
        f"mean sd over seeds, {means['recall'][1]} systems: {said}", all(m <= STEADY for m, _ in means.values())
    )


def annealing(items: Sequence[Folded]) -> Verdict | None:
    """Check that a lower temperature raises quality and lowers diversity: by ratings, else by their stand-ins."""
    rated = rated_values(items)
    pairs = (("huse", "huse_q"), ("huse", "huse_d")) if rated else ((KNN, "precision"), (KNN, "recall"))
    axis = [TEMPERATURE]
    quality, diversity = (trend(axis, *pair, sign)(rated or items) for pair, sign in zip(pairs, (-1, 1), strict=True))
    if quality is None or diversity is None:
        return None
    lead = "" if rated else "by k-NN precision and recall, as nobody rated these texts: "
    words = ("HUSE-Q", "HUSE-D") if rated else ("precision", "recall")
    said = f"{words[0]} {quality.measured}; {words[1]} {diversity.measured}"
    return Verdict(f"{lead}{said}", quality.holds and diversity.holds)


def hidden(items: Sequence[Folded]) -> Verdict | None:
    """Check that the model's own probability tells texts apart that people's ratings do not."""
    systems = systems_of(rated_values(items))
    both = [
        (s.label, a.mean, b.mean)
        for s in systems
        if (a := s.value("huse", "huse")) and (b := s.value("huse", "huse_q"))
    ]
    if not both:
        return None
    lower = sum(a < b for _, a, b in both)
    label, huse, quality = both[0]
    said = f"lower for {lower} of {len(both)} systems, e.g. {label}: HUSE {huse:.2f}, HUSE-Q {quality:.2f}"
    return Verdict(said, lower == len(both))
