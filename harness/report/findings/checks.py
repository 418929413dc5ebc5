"""Checks of the papers' claims: each returns a verdict on aggregated values, or None if they are insufficient."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, pairwise

from openended.harness.core import parse_signature
from openended.harness.report.figures.sweep_curves import Line, group_into_lines
from openended.harness.report.findings.claim_values import (
    Check,
    Verdict,
    format_number,
    format_values,
    group_values,
    iterate_by_decoder,
    join_verdicts,
    parse_size,
    select_human_rated,
    select_main_setting,
)
from openended.harness.report.tables.agreement import orient_value
from openended.harness.results import SystemValue, find_human_value, get_parent_axis, group_systems, select_values

FAR = 0.5  # "far below": less than half
CLOSE = 0.25  # "close": a quarter of the way to the other
ALIKE = 0.9  # rank correlation of equal rankings; the papers report 0.99 and more
ALIKE_EMBEDDERS = 0.67  # the lowest in P&R's Table B.1
STEADY = 0.024  # the largest standard deviation over seeds in P&R's Table B.5


KNN = "knn_precision_recall"
TEMPERATURE = "decoder.temperature"


def check_order(metric: str, key: str, names: Sequence[str], holds: Callable[..., bool]) -> Check:
    """Return a check of a relation between the values of some decoders for each model."""

    def check(items: Sequence[SystemValue]) -> Verdict | None:
        groups = list(iterate_by_decoder(items, metric, key, *names))
        parts = [
            (f[names[0]].titles[0], format_values(list(f.values())), holds(*(i.mean for i in f.values())))
            for f in groups
        ]
        return join_verdicts(parts)

    return check


def check_gaps(names: Sequence[str], holds: Callable[..., bool]) -> Check:
    """Return a check of a relation between the distances of generation perplexities to the human value."""

    def check(items: Sequence[SystemValue]) -> Verdict | None:
        parts = []
        for values in iterate_by_decoder(items, "gen_ppl", "gen_ppl", *names):
            humans = [find_human_value(items, i) for i in values.values()]
            away = [abs(i.mean - h.mean) for i, h in zip(values.values(), humans, strict=True) if h is not None]
            if len(away) == len(names):
                text = ", ".join(
                    f"{i.titles[1]} {format_number(g)}" for i, g in zip(values.values(), away, strict=True)
                )
                parts.append((next(iter(values.values())).titles[0], f"|gap| {text}", holds(*away)))
        return join_verdicts(parts)

    return check


def check_adversarial(items: Sequence[SystemValue]) -> Verdict | None:
    """Check that the decoder tuned to the human perplexity is closest to it, yet far worse by MAUVE."""
    names = ("adversarial", "nucleus")
    ppl = check_gaps(names, lambda a, n: a < n)(items)
    mauve = check_order("mauve", "mauve", names, lambda a, n: a < FAR * n)(items)
    if ppl is None or mauve is None:
        return None
    return Verdict(f"Gen. PPL {ppl.measured}; MAUVE {mauve.measured}", ppl.holds and mauve.holds)


def check_trend(axes: Sequence[str], metric: str, key: str, sign: int) -> Check:
    """Return a check that a value rises or falls from the smallest to the largest value of an axis on every line."""

    def check(items: Sequence[SystemValue]) -> Verdict | None:
        every, main = select_values(items, metric, key), select_main_setting(items, metric, key)
        lines = [
            line for axis in axes for line in group_into_lines(main if axis.startswith("decoder.") else every, axis)
        ]
        if not lines:
            return None
        right = tuple((_end_values(line)[1] - _end_values(line)[0]) * sign > 0 for line in lines)
        line = max(lines, key=lambda candidate: (len(candidate.points), candidate.label.count("nucleus")))
        first, last = (
            f"{v:.3f} at {x:g}" for v, x in zip(_end_values(line), (p for p, _ in _end_points(line)), strict=True)
        )
        word = "rises" if sign > 0 else "falls"
        return Verdict(
            f"{word} on {sum(right)} of {len(lines)} lines, e.g. {line.label}: {first}, {last}",
            all(right),
            components=right,
        )

    return check


def _end_points(line: Line) -> tuple[tuple[float, SystemValue], tuple[float, SystemValue]]:
    return line.points[0], line.points[-1]


def _end_values(line: Line) -> tuple[float, float]:
    return line.points[0][1].mean, line.points[-1][1].mean


def check_sizes(metric: str, *keys: str) -> Check:
    """Return a check that values rise from each model to the next larger one for every decoder."""

    def check(items: Sequence[SystemValue]) -> Verdict | None:
        pairs = []
        for key in keys:
            for group in group_values(select_main_setting(items, metric, key), "model"):
                sized = sorted(
                    (i for i in group if parse_size(i.axes["model"]) is not None),
                    key=lambda i: parse_size(i.axes["model"]) or 0,
                )
                larger = dict(pairwise(sorted({parse_size(i.axes["model"]) or 0 for i in sized})))
                pairs += [(a, b) for a in sized for b in sized if _is_next_size(a, b, larger)]
        if not pairs:
            return None
        up = tuple(b.mean > a.mean for a, b in pairs)
        text = "; ".join(f"{a.titles[1]} {a.titles[0]} {a.mean:.3f}, {b.titles[0]} {b.mean:.3f}" for a, b in pairs[:2])
        return Verdict(f"higher in {sum(up)} of {len(pairs)} pairs, e.g. {text}", all(up), components=up)

    return check


def _is_next_size(a: SystemValue, b: SystemValue, larger: Mapping[int, int]) -> bool:
    """Return whether the second model has the next larger size; models of equal size do not count."""
    return larger.get(parse_size(a.axes["model"]) or 0) == (parse_size(b.axes["model"]) or 0)


def check_ranking(field: str, metric: str, *keys: str, least: float = ALIKE, axis: str | None = None) -> Check:
    """Return a check that the ranking of the systems does not depend on a field of the signature."""

    def check(items: Sequence[SystemValue]) -> Verdict | None:
        agreements = [
            agreement
            for key in keys
            if (agreement := _measure_agreement(select_values(items, metric, key), field, axis or field)) is not None
        ]
        if not agreements:
            return None
        low, values, most = min(agreements)
        return Verdict(f"lowest ρ {low:.3f} over {values} values, up to {most} systems", low >= least)

    return check


def _measure_agreement(items: Sequence[SystemValue], field: str, axis: str) -> tuple[float, int, int] | None:
    """Return (lowest rank correlation, number of values of the field, largest number of shared systems)."""
    from openended.metrics.correlation import rank_correlation

    tables: dict[str, dict[tuple[str, ...], float]] = {}
    for item in items:
        fields = parse_signature(item.signature)
        value = fields.pop(field, "")
        fields.pop("texts", None)  # depends on the length through truncation; the tokenizer that truncates is an axis
        other_axes = (v for a, v in item.axes.items() if axis not in (a, get_parent_axis(a)) and a != "task.texts")
        tables.setdefault(value, {})[*fields.values(), *other_axes] = item.mean
    correlations = []
    for a, b in combinations(tables, 2):
        shared = sorted(tables[a].keys() & tables[b].keys())
        rho = rank_correlation(*([tables[t][s] for s in shared] for t in (a, b))) if len(shared) >= 3 else math.nan
        if math.isfinite(rho):
            correlations.append((rho, {a, b}, len(shared)))
    if not correlations:
        return None
    return (
        min(r for r, _, _ in correlations),
        len(set().union(*(v for _, v, _ in correlations))),
        max(n for _, _, n in correlations),
    )


def check_best_p_is_inside(items: Sequence[SystemValue]) -> Verdict | None:
    """Check that the best p of nucleus sampling is neither the smallest nor the largest p."""
    lines = _summarize_lines_over_p(items)
    text = "; ".join(f"{label}: best at p={p:g} of {low:g} to {high:g}" for label, p, low, high in lines)
    inside = tuple(low < p < high for _, p, low, high in lines)
    return Verdict(text, all(inside), components=inside) if lines else None


def check_best_p_rises_with_size(items: Sequence[SystemValue]) -> Verdict | None:
    """Check that the best p of a larger model is not below that of a smaller one."""
    best_by_size = sorted(
        (size, p, label) for label, p, _, _ in _summarize_lines_over_p(items) if (size := parse_size(label)) is not None
    )
    if len(best_by_size) < 2:
        return None
    text = ", ".join(f"{label} p={p:g}" for _, p, label in best_by_size)
    rising = tuple(a[1] <= b[1] for a, b in pairwise(best_by_size))
    return Verdict(text, all(rising), components=rising)


def _summarize_lines_over_p(items: Sequence[SystemValue]) -> list[tuple[str, float, float, float]]:
    """Return (model, best p, smallest p, largest p) of nucleus sampling for each model in the main setting."""
    nucleus = [i for i in select_main_setting(items, "mauve", "mauve") if i.axes.get("decoder") == "nucleus"]
    summaries = []
    for line in group_into_lines(nucleus, "decoder.p"):
        best = max(line.points, key=lambda point: point[1].mean)
        summaries.append((best[1].titles[0], best[0], line.points[0][0], line.points[-1][0]))
    return summaries


def check_discriminator(items: Sequence[SystemValue]) -> Verdict | None:
    """Check that MAUVE agrees with the accuracy of a discriminator better than any other metric does."""
    from openended.metrics.correlation import rank_correlation

    target = select_main_setting(items, "discriminator_accuracy", "accuracy")
    if len(target) < 3:
        return None
    settings = [dict(i.axes) for i in target]
    correlations: dict[str, float] = {}
    for pair in (("mauve", "mauve"), ("gen_ppl", "gen_ppl"), ("zipf", "zipf"), ("self_bleu", "self_bleu_4"),
                 ("repetition", "loop_rate"), ("distinct_n", "distinct_4")):  # fmt: skip
        values = {tuple(sorted(i.axes.items())): orient_value(i, items) for i in select_main_setting(items, *pair)}
        both = [
            (values.get(tuple(sorted(s.items())), math.nan), orient_value(t, items))
            for s, t in zip(settings, target, strict=True)
        ]
        both = [(a, b) for a, b in both if math.isfinite(a) and math.isfinite(b)]
        rho = rank_correlation(*map(list, zip(*both, strict=True))) if len(both) > 2 else math.nan
        if math.isfinite(rho):
            correlations[pair[0]] = rho
    if "mauve" not in correlations or len(correlations) < 2:
        return None
    text = ", ".join(f"{name} {rho:.3f}" for name, rho in sorted(correlations.items(), key=lambda pair: -pair[1]))
    return Verdict(f"ρ over {len(target)} systems: {text}", correlations["mauve"] == max(correlations.values()))


def check_steadiness(items: Sequence[SystemValue]) -> Verdict | None:
    """Check that precision and recall vary little between seeds."""
    means = {}
    for key in ("precision", "recall"):
        spreads = [i.sd for i in select_main_setting(items, KNN, key) if i.seeds > 2 and math.isfinite(i.sd)]
        if spreads:
            means[key] = (math.fsum(spreads) / len(spreads), len(spreads))
    if len(means) < 2:
        return None
    text = ", ".join(f"{key} {mean:.3f}" for key, (mean, _) in means.items())
    return Verdict(
        f"mean sd over seeds, {means['recall'][1]} systems: {text}", all(m <= STEADY for m, _ in means.values())
    )


def check_annealing(items: Sequence[SystemValue]) -> Verdict | None:
    """Check that a lower temperature raises quality and lowers diversity, by human ratings or else by k-NN metrics."""
    rated = select_human_rated(items)
    pairs = (("huse", "huse_q"), ("huse", "huse_d")) if rated else ((KNN, "precision"), (KNN, "recall"))
    axis = [TEMPERATURE]
    quality, diversity = (
        check_trend(axis, *pair, sign)(rated or items) for pair, sign in zip(pairs, (-1, 1), strict=True)
    )
    if quality is None or diversity is None:
        return None
    prefix = "" if rated else "by k-NN precision and recall, because these texts have no human ratings: "
    words = ("HUSE-Q", "HUSE-D") if rated else ("precision", "recall")
    text = f"{words[0]} {quality.measured}; {words[1]} {diversity.measured}"
    return Verdict(f"{prefix}{text}", quality.holds and diversity.holds)


def check_hidden(items: Sequence[SystemValue]) -> Verdict | None:
    """Check that the model's own probability reveals differences that human ratings miss."""
    systems = group_systems(select_human_rated(items))
    both = [
        (s.name, a.mean, b.mean) for s in systems if (a := s.value("huse", "huse")) and (b := s.value("huse", "huse_q"))
    ]
    if not both:
        return None
    lower = tuple(a < b for _, a, b in both)
    label, huse, quality = both[0]
    text = f"lower for {sum(lower)} of {len(both)} systems, e.g. {label}: HUSE {huse:.2f}, HUSE-Q {quality:.2f}"
    return Verdict(text, all(lower), components=lower)
