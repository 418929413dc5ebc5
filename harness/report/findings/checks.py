"""Checks of the papers' claims: each returns a verdict on aggregated values, or None if they are insufficient."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from openended.harness.core import parse_signature
from openended.harness.report.figures.sweep_curves import group_into_lines
from openended.harness.report.tables.agreement import orient_value
from openended.harness.results import SystemValue, find_human_value, get_parent_axis, group_systems, select_values

FAR = 0.5  # "far below": less than half
CLOSE = 0.25  # "close": a quarter of the way to the other
ALIKE = 0.9  # rank correlation of equal rankings; the papers report 0.99 and more
ALIKE_EMBEDDERS = 0.67  # the lowest in P&R's Table B.1
STEADY = 0.024  # the largest standard deviation over seeds in P&R's Table B.5

MAUVE, GEN_PPL = ("mauve", "mauve"), ("gen_ppl", "gen_ppl")
PRECISION, RECALL = ("knn_precision_recall", "precision"), ("knn_precision_recall", "recall")
COMPARED_WITH_DISCRIMINATOR = (
    MAUVE, GEN_PPL, ("zipf", "zipf"), ("self_bleu", "self_bleu_4"), ("repetition", "loop_rate"),
    ("distinct_n", "distinct_4"),
)  # fmt: skip
TEMPERATURE = "decoder.temperature"
SIZES = ("xs", "s", "small", "base", "m", "medium", "l", "large", "xl", "xxl")
INVENTED = ("example_ratings.csv", "example_pairs.csv")  # shipped example judgments, which are not from people

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of the check of one claim."""

    measured: str
    holds: bool
    sure: bool | None = None
    """Whether other texts would give the same verdict; None if no value has an error estimate."""
    decides: str = ""
    """Number of texts that would make the verdict sure if it is not."""
    components: tuple[bool, ...] = ()
    """Whether each component holds if there are several; the claim holds if all do."""
    doubts: tuple[float, ...] = ()
    """Share of simulated draws in which each component comes out differently."""
    varies: bool = True
    """Whether all values that it uses vary between replicates; without variation there is no verdict."""

    @property
    def outcomes(self) -> tuple[bool, ...]:
        """Whether each component holds; a claim without components is its own."""
        return self.components or (self.holds,)

    @property
    def words(self) -> str:
        """Verdict shown in the table."""
        if not self.varies:
            return "no variation seen"
        if self.sure is False:
            return "undecided"
        return "holds" if self.holds else "does not hold"

    @property
    def measured_text(self) -> str:
        """What was measured, and how many texts would decide an undecided claim."""
        return f"{self.measured} ({self.decides} would decide it)" if self.decides else self.measured


Check = Callable[[Sequence[SystemValue]], Verdict | None]


def join_components(text: str, components: Sequence[bool]) -> Verdict:
    """Return the verdict of a claim that holds if all of its components do."""
    return Verdict(text, all(components), components=tuple(components))


def format_number(value: float) -> str:
    """Format a value with three decimals if it is below 2, else with one."""
    return f"{value:.3f}" if abs(value) < 2 else f"{value:.1f}"


def group_values(items: Sequence[SystemValue], *vary: str) -> list[list[SystemValue]]:
    """Group values with equal signature and axes, ignoring the axes in `vary` and their options."""
    groups: dict[tuple[str, ...], list[SystemValue]] = {}
    for item in items:
        rest = (v for a, v in item.axes.items() if a not in vary and get_parent_axis(a) not in vary)
        groups.setdefault((item.signature, *rest), []).append(item)
    return list(groups.values())


def select_main_setting(items: Sequence[SystemValue], pair: Pair) -> list[SystemValue]:
    """Return the values of the setting (all axes but model and decoder) that most systems share."""
    return max(group_values(select_values(items, *pair), "model", "decoder"), key=len, default=[])


def select_human_rated(items: Sequence[SystemValue]) -> list[SystemValue]:
    """Return the HUSE values that are based on human ratings."""
    rated = []
    for item in (i for i in items if i.metric == "huse" and i.system == "model"):
        file = parse_signature(item.signature).get("judgments", "").partition("@")[0]
        if not {item.axes.get("task", ""), file} & set(INVENTED):
            rated.append(item)
    return rated


def parse_size(model: str) -> int | None:
    """Return the rank of a model's size, given by the last word of its name; None if the name has no size."""
    last = model.lower().replace("_", "-").rpartition("-")[2]
    return SIZES.index(last) if last in SIZES else None


def iterate_by_decoder(
    items: Sequence[SystemValue], pair: Pair, names: Sequence[str]
) -> Iterator[dict[str, SystemValue]]:
    """Yield for each model the value of each named decoder at its best options, without n-gram blocking.

    The best options are those with the highest MAUVE, or with the best value where there is no MAUVE.
    """
    mauve = {tuple(i.axes.items()): i.mean for i in select_main_setting(items, MAUVE)}
    groups = group_values(select_main_setting(items, pair), "decoder")
    for group in sorted(groups, key=lambda g: (parse_size(g[0].axes["model"]) or 0, g[0].titles[0])):
        plain = [i for i in group if i.axes.get("decoder.no_repeat_ngram_size", "0") in ("0", "")]
        chosen = {}
        for name in names:
            values = [i for i in plain if i.axes.get("decoder") == name]
            rated = [i for i in values if tuple(i.axes.items()) in mauve]
            if rated:
                chosen[name] = max(rated, key=lambda i: mauve[tuple(i.axes.items())])
            elif values:
                chosen[name] = max(values, key=lambda i: orient_value(i, items))
        if len(chosen) == len(names):
            yield chosen


def check_decoders(pair: Pair, names: Sequence[str], holds: Callable[..., bool], *, gaps: bool = False) -> Check:
    """Return a check of a relation between the values of some decoders for each model.

    With `gaps`, the relation is between their distances to the human value.
    """

    def check(items: Sequence[SystemValue]) -> Verdict | None:
        parts = []
        for by_decoder in iterate_by_decoder(items, pair, names):
            values = list(by_decoder.values())
            numbers = [i.mean for i in values]
            if gaps:
                humans = [find_human_value(items, i) for i in values]
                numbers = [abs(i.mean - h.mean) for i, h in zip(values, humans, strict=True) if h is not None]
            if len(numbers) == len(names):
                texts = [f"{i.titles[1]} {format_number(n)}" for i, n in zip(values, numbers, strict=True)]
                measured = f"|gap| {', '.join(texts)}" if gaps else ", ".join(texts)
                parts.append((values[0].titles[0], measured, holds(*numbers)))
        if not parts:
            return None
        text = "; ".join(f"{model}: {measured}" if len(parts) > 1 else measured for model, measured, _ in parts)
        return join_components(text, [holds for _, _, holds in parts])

    return check


def check_adversarial(items: Sequence[SystemValue]) -> Verdict | None:
    """Check that the decoder tuned to the human perplexity is closest to it, yet far worse by MAUVE."""
    names = ("adversarial", "nucleus")
    ppl = check_decoders(GEN_PPL, names, lambda a, n: a < n, gaps=True)(items)
    mauve = check_decoders(MAUVE, names, lambda a, n: a < FAR * n)(items)
    if ppl is None or mauve is None:
        return None
    return Verdict(f"Gen. PPL {ppl.measured}; MAUVE {mauve.measured}", ppl.holds and mauve.holds)


def check_trend(axes: Sequence[str], pair: Pair, sign: int) -> Check:
    """Return a check that a value rises or falls from the smallest to the largest value of an axis on every line."""

    def check(items: Sequence[SystemValue]) -> Verdict | None:
        every, main = select_values(items, *pair), select_main_setting(items, pair)
        lines = [
            line for axis in axes for line in group_into_lines(main if axis.startswith("decoder.") else every, axis)
        ]
        if not lines:
            return None
        right = [(line.points[-1][1].mean - line.points[0][1].mean) * sign > 0 for line in lines]
        example = max(lines, key=lambda line: (len(line.points), line.label.count("nucleus")))
        first, last = (f"{i.mean:.3f} at {x:g}" for x, i in (example.points[0], example.points[-1]))
        word = "rises" if sign > 0 else "falls"
        text = f"{word} on {sum(right)} of {len(lines)} lines, e.g. {example.label}: {first}, {last}"
        return join_components(text, right)

    return check


def check_sizes(*pairs: Pair) -> Check:
    """Return a check that values rise from each model to the next larger one for every decoder."""

    def check(items: Sequence[SystemValue]) -> Verdict | None:
        neighbors = []
        for group in (g for pair in pairs for g in group_values(select_main_setting(items, pair), "model")):
            sized = [(size, i) for i in group if (size := parse_size(i.axes["model"])) is not None]
            sized.sort(key=lambda entry: entry[0])
            larger = dict(pairwise(sorted({size for size, _ in sized})))
            neighbors += [(a, b) for small, a in sized for large, b in sized if larger.get(small) == large]
        if not neighbors:
            return None
        up = [b.mean > a.mean for a, b in neighbors]
        examples = [f"{a.titles[1]} {a.titles[0]} {a.mean:.3f}, {b.titles[0]} {b.mean:.3f}" for a, b in neighbors[:2]]
        text = f"higher in {sum(up)} of {len(neighbors)} pairs, e.g. {'; '.join(examples)}"
        return join_components(text, up)

    return check


def check_ranking(field: str, *pairs: Pair, least: float = ALIKE, axis: str | None = None) -> Check:
    """Return a check that the ranking of the systems does not depend on a field of the signature."""

    def check(items: Sequence[SystemValue]) -> Verdict | None:
        every = [_measure_agreement(select_values(items, *pair), field, axis or field) for pair in pairs]
        agreements = [agreement for agreement in every if agreement is not None]
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
    lowest, _, _ = min(correlations, key=lambda c: c[0])
    return lowest, len(set().union(*(values for _, values, _ in correlations))), max(n for _, _, n in correlations)


def check_best_p_is_inside(items: Sequence[SystemValue]) -> Verdict | None:
    """Check that the best p of nucleus sampling is neither the smallest nor the largest p."""
    lines = _summarize_lines_over_p(items)
    text = "; ".join(f"{label}: best at p={p:g} of {low:g} to {high:g}" for label, p, low, high in lines)
    return join_components(text, [low < p < high for _, p, low, high in lines]) if lines else None


def check_best_p_rises_with_size(items: Sequence[SystemValue]) -> Verdict | None:
    """Check that the best p of a larger model is not below that of a smaller one."""
    best = [(parse_size(label), p, label) for label, p, _, _ in _summarize_lines_over_p(items)]
    by_size = sorted((size, p, label) for size, p, label in best if size is not None)
    if len(by_size) < 2:
        return None
    text = ", ".join(f"{label} p={p:g}" for _, p, label in by_size)
    return join_components(text, [a[1] <= b[1] for a, b in pairwise(by_size)])


def _summarize_lines_over_p(items: Sequence[SystemValue]) -> list[tuple[str, float, float, float]]:
    """Return (model, best p, smallest p, largest p) of nucleus sampling for each model in the main setting."""
    nucleus = [i for i in select_main_setting(items, MAUVE) if i.axes.get("decoder") == "nucleus"]
    summaries = []
    for line in group_into_lines(nucleus, "decoder.p"):
        p, value = max(line.points, key=lambda point: point[1].mean)
        summaries.append((value.titles[0], p, line.points[0][0], line.points[-1][0]))
    return summaries


def check_discriminator(items: Sequence[SystemValue]) -> Verdict | None:
    """Check that MAUVE agrees with the accuracy of a discriminator better than any other metric does."""
    from openended.metrics.correlation import rank_correlation

    def orient_by_axes(pair: Pair) -> dict[tuple[tuple[str, str], ...], float]:
        return {tuple(sorted(i.axes.items())): orient_value(i, items) for i in select_main_setting(items, pair)}

    target = orient_by_axes(("discriminator_accuracy", "accuracy"))
    if len(target) < 3:
        return None
    correlations: dict[str, float] = {}
    for pair in COMPARED_WITH_DISCRIMINATOR:
        values = orient_by_axes(pair)
        both = [(values.get(axes, math.nan), t) for axes, t in target.items()]
        both = [(a, b) for a, b in both if math.isfinite(a) and math.isfinite(b)]
        rho = rank_correlation(*map(list, zip(*both, strict=True))) if len(both) > 2 else math.nan
        if math.isfinite(rho):
            correlations[pair[0]] = rho
    if "mauve" not in correlations or len(correlations) < 2:
        return None
    text = ", ".join(f"{name} {rho:.3f}" for name, rho in sorted(correlations.items(), key=lambda entry: -entry[1]))
    return Verdict(f"ρ over {len(target)} systems: {text}", correlations["mauve"] == max(correlations.values()))


def check_steadiness(items: Sequence[SystemValue]) -> Verdict | None:
    """Check that precision and recall vary little between seeds."""
    means: dict[str, float] = {}
    for pair in (PRECISION, RECALL):
        spreads = [i.sd for i in select_main_setting(items, pair) if i.seeds > 2 and math.isfinite(i.sd)]
        if not spreads:
            return None
        means[pair[1]] = math.fsum(spreads) / len(spreads)
    text = ", ".join(f"{key} {mean:.3f}" for key, mean in means.items())
    return Verdict(f"mean sd over seeds, {len(spreads)} systems: {text}", max(means.values()) <= STEADY)


def check_annealing(items: Sequence[SystemValue]) -> Verdict | None:
    """Check that a lower temperature raises quality and lowers diversity, by human ratings or else by k-NN metrics."""
    rated = select_human_rated(items)
    prefix, words, pairs = "", ("HUSE-Q", "HUSE-D"), (("huse", "huse_q"), ("huse", "huse_d"))
    if not rated:
        prefix = "by k-NN precision and recall, because these texts have no human ratings: "
        words, pairs = ("precision", "recall"), (PRECISION, RECALL)
    quality = check_trend([TEMPERATURE], pairs[0], -1)(rated or items)
    diversity = check_trend([TEMPERATURE], pairs[1], 1)(rated or items)
    if quality is None or diversity is None:
        return None
    text = f"{prefix}{words[0]} {quality.measured}; {words[1]} {diversity.measured}"
    return Verdict(text, quality.holds and diversity.holds)


def check_hidden(items: Sequence[SystemValue]) -> Verdict | None:
    """Check that the model's own probability reveals differences that human ratings miss."""
    values = [
        (s.name, s.value("huse", "huse"), s.value("huse", "huse_q")) for s in group_systems(select_human_rated(items))
    ]
    both = [(name, huse.mean, quality.mean) for name, huse, quality in values if huse and quality]
    if not both:
        return None
    lower = [huse < quality for _, huse, quality in both]
    name, huse, quality = both[0]
    text = f"lower for {sum(lower)} of {len(both)} systems, e.g. {name}: HUSE {huse:.2f}, HUSE-Q {quality:.2f}"
    return join_components(text, lower)
