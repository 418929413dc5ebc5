"""Checks of the papers' claims: each returns what was measured and whether it holds, or None if values are missing."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64
from openended.harness.report.analysis.lines import Line, group_into_lines, is_set
from openended.harness.report.analysis.uncertainty import DRAWS, Check, Outcome, Sample, format_number, join_components
from openended.harness.results import Pair, SystemValue, get_parent_axis, group_by, group_systems, select_values
from openended.metrics.correlation import MIN_PAIRS, correlate_rows

FAR = 0.5  # "far below": less than half
CLOSE = 0.25  # "close": a quarter of the distance from greedy decoding to nucleus sampling
ALIKE = 0.9  # rank correlation of equal rankings; the papers report 0.99 and more
MAUVE = ("mauve", "mauve")
RIVALS: tuple[Pair, ...] = (MAUVE, ("gen_ppl", "gen_ppl"), ("zipf", "zipf"))
RIVALS += (("self_bleu", "self_bleu_4"), ("repetition", "loop_rate"), ("distinct_n", "distinct_4"))
"""The metrics whose agreement with people or a discriminator is compared."""
SIZES = ("xs", "s", "small", "base", "m", "medium", "l", "large", "xl", "xxl")
SMALLEST = {"gpt2": "gpt2-small"}  # models that are named without their size
PARAMETERS = re.compile(r"(\d+(?:\.\d+)?)([bm])\b")  # in the name of a model, as 6.9b
FAMILY = "training.family"  # what a chat model shares with its base model


def check_all(sample: Sample, checks: Mapping[str, Check]) -> Outcome | None:
    """Check several claims, each under a title, as one that holds if they all do."""
    outcomes = {title: outcome for title, check in checks.items() if (outcome := check(sample)) is not None}
    if len(outcomes) < len(checks):
        return None
    text = "; ".join(f"{title} {measured}" for title, (measured, _) in outcomes.items())
    return text, np.logical_and.reduce(np.hstack([holds for _, holds in outcomes.values()]), axis=1, keepdims=True)


def check_first(sample: Sample, checks: Sequence[Check]) -> Outcome | None:
    """Check a claim in the first of several ways for which there are values."""
    return next((outcome for check in checks if (outcome := check(sample)) is not None), None)


def group_values(items: Sequence[SystemValue], *vary: str) -> list[list[SystemValue]]:
    """Group values with equal signature and axes, ignoring the axes in `vary` and their options."""

    def make_key(item: SystemValue) -> tuple[str, ...]:
        rest = (v for a, v in item.axes.items() if a not in vary and get_parent_axis(a) not in vary)
        return item.signature, *rest

    return list(group_by(items, make_key).values())


def select_main_setting(
    items: Sequence[SystemValue], pair: Pair, fits: Callable[[list[SystemValue]], object] = bool
) -> list[SystemValue]:
    """Return the values of the setting (all axes but model and decoder) that most systems share, of those that fit."""
    settings = sorted(group_values(select_values(items, *pair), "model", "decoder"), key=len, reverse=True)
    return next(filter(fits, settings), [])


def parse_size(model: str) -> tuple[str, float] | None:
    """Return the family of a model and the rank of its size in it, by the name; None if that has no size.

    >>> parse_size("pythia-6.9b"), parse_size("gpt2-large"), parse_size("bert")
    (('pythia-', 6900.0), ('gpt2', 7), None)
    """
    name = model.lower().replace("_", "-")
    if match := PARAMETERS.search(name):
        return name.replace(match[0], ""), float(match[1]) * (1000 if match[2] == "b" else 1)
    family, _, last = SMALLEST.get(name, name).rpartition("-")
    return (family, SIZES.index(last)) if last in SIZES else None


def iterate_by_decoder(
    sample: Sample, pair: Pair, names: Sequence[str]
) -> Iterator[list[tuple[list[SystemValue], NDArray[np.intp]]]]:
    """Yield for each model the values of each named decoder without n-gram blocking, and which is chosen in each draw.

    Chosen is the setting with the highest MAUVE, or with the best value where there is no MAUVE.
    """

    def has_all(setting: Sequence[SystemValue]) -> bool:
        return any({*names} <= {i.axes.get("decoder") for i in group} for group in group_values(setting, "decoder"))

    mauve = {tuple(i.axes.items()): i for i in select_main_setting(sample.items, MAUVE, has_all)}
    groups = group_values(select_main_setting(sample.items, pair, has_all), "decoder")
    for group in sorted(groups, key=lambda g: ((parse_size(g[0].axes["model"]) or ("", 0))[1], g[0].titles[0])):
        plain = [i for i in group if i.axes.get("decoder.no_repeat_ngram_size", "0") in ("0", "")]
        chosen = []
        for name in names:
            values = [i for i in plain if i.axes.get("decoder") == name]
            rated = [i for i in values if tuple(i.axes.items()) in mauve]
            scores = [sample.means(mauve[tuple(i.axes.items())]) for i in rated] or [sample.orient(i) for i in values]
            if scores:
                chosen.append((rated or values, np.argmax(np.stack(scores), axis=0)))
        if len(chosen) == len(names):
            yield chosen


def check_decoders(
    sample: Sample, values: Sequence[Pair], names: Sequence[str], relation: str, *, gaps: bool = False
) -> Outcome | None:
    """Check a relation between the values of some decoders for each model.

    With `gaps`, the relation is between their distances to the human value.
    """
    parts = []
    for by_decoder in iterate_by_decoder(sample, values[0], names):
        numbers = []
        for items, at in by_decoder:
            means = [sample.means(i) for i in items]
            if gaps:
                humans = [sample.find_human(i) for i in items]
                means = [np.abs(mean - human) for mean, human in zip(means, humans, strict=True) if human is not None]
            if len(means) == len(items):
                numbers.append(np.take_along_axis(np.stack(means), at[None], axis=0)[0])
        if len(numbers) == len(names):
            titles = [items[at[0]].titles for items, at in by_decoder]
            texts = [f"{title[1]} {format_number(n[0])}" for title, n in zip(titles, numbers, strict=True)]
            measured = f"|gap| {', '.join(texts)}" if gaps else ", ".join(texts)
            parts.append((titles[0][0], measured, compare(dict(zip(names, numbers, strict=True)), relation)))
    if not parts:
        return None
    text = "; ".join(f"{model}: {measured}" if len(parts) > 1 else measured for model, measured, _ in parts)
    return join_components(text, [holds for _, _, holds in parts])


def compare(numbers: Mapping[str, F64], relation: str) -> NDArray[np.bool_]:
    """Return whether a chain of decoders is in order: `a < b`, `a > b`, `a << b` (far below) and `a ~ b` (close)."""
    holds, words = np.array(True), relation.split()
    for first, sign, second in zip(words[::2], words[1::2], words[2::2], strict=False):
        a, b = numbers[first], numbers[second]
        if sign == "~":
            holds = holds & (np.abs(a - b) < CLOSE * np.abs(numbers["nucleus"] - numbers["greedy"]))
        else:
            holds = holds & (a > b if sign == ">" else a < (FAR if sign == "<<" else 1.0) * b)
    return holds


def select_where(items: Sequence[SystemValue], where: Mapping[str, str]) -> list[SystemValue]:
    """Return the values with these axes; `*` is any value but none."""
    return [i for i in items if all(is_set(v := i.axes.get(a, "")) if w == "*" else v == w for a, w in where.items())]


def format_count(components: Sequence[NDArray[np.bool_]]) -> str:
    """Return for how many components a claim holds as measured: `2 of 3`."""
    return f"{sum(bool(holds[0]) for holds in components)} of {len(components)}"


def check_trend(
    sample: Sample, values: Sequence[Pair], axes: Sequence[str], sign: int, where: Mapping[str, str] | None = None
) -> Outcome | None:
    """Check that a value rises or falls from the smallest to the largest value of an axis on every line."""
    lines = []
    for axis in axes:
        items = select_where(sample.select(values[0]), where or {})
        if axis.startswith("decoder."):
            items = select_main_setting(items, values[0], partial(group_into_lines, axis=axis))
        lines += group_into_lines(items, axis)
    if not lines:
        return None
    right = [(sample.means(li.points[-1][1]) - sample.means(li.points[0][1])) * sign > 0 for li in lines]
    example = max(lines, key=lambda line: (len(line.points), line.label.count("nucleus")))
    first, last = (f"{i.mean:.3f} at {x:g}" for x, i in (example.points[0], example.points[-1]))
    word = "rises" if sign > 0 else "falls"
    return join_components(f"{word} on {format_count(right)} lines, e.g. {example.label}: {first}, {last}", right)


def check_turn(sample: Sample, values: Sequence[Pair], axis: str) -> Outcome | None:
    """Check that the distance to the human value falls and rises, or rises and falls, along an axis on some line."""
    turns, example = list[NDArray[np.bool_]](), ""
    for line in group_into_lines(sample.select(values[0]), axis):
        humans = [sample.find_human(i) for _, i in line.points]
        pairs = zip(line.points, humans, strict=True)
        gaps = [np.abs(sample.means(i) - human) for (_, i), human in pairs if human is not None]
        if len(gaps) == len(line.points):
            steps = np.diff(np.stack(gaps), axis=0)
            turns.append(np.logical_and(np.any(steps < 0, axis=0), np.any(steps > 0, axis=0)))
            if turns[-1][0] or not example:
                example = f"{line.label}: |gap| {', '.join(format_number(float(gap[0])) for gap in gaps)}"
    if not turns:
        return None
    return join_components(f"turns on {format_count(turns)} lines, e.g. {example}", [np.logical_or.reduce(turns)])


def check_plateau(
    sample: Sample, values: Sequence[Pair], axis: str, most: float, *, whole: bool = False,
    where: Mapping[str, str] | None = None,
) -> Outcome | None:  # fmt: skip
    """Check that values change by at most a share of themselves at the end of every line, or along the whole line."""
    changes = []
    for pair in values:
        for line in group_into_lines(select_where(sample.select(pair), where or {}), axis):
            means = np.stack([sample.means(i) for _, i in line.points[0 if whole else -2 :]])
            changes.append(
                (np.ptp(means, axis=0) / np.abs(means).max(axis=0), f"{line.points[0][1].title} {line.label}")
            )
    if not changes:
        return None
    largest, label = max(changes, key=lambda change: float(change[0][0]))
    text = f"changes by up to {largest[0]:.1%} {'' if whole else 'at the end '}on {len(changes)} lines ({label})"
    return join_components(text, [change <= most for change, _ in changes])


def check_chat(sample: Sample, values: Sequence[Pair], sign: int) -> Outcome | None:
    """Check that a value is higher (or lower) for every chat model than for the base model of its `training.family`.

    Chat models whose family the runs do not state are named instead of compared.
    """
    pairs, unknown = list[tuple[SystemValue, SystemValue]](), dict[str, None]()
    for group in group_values(sample.select(values[0]), "model"):
        chats = [i for i in group if is_set(i.axes.get("model.chat_template", ""))]
        bases: dict[str, SystemValue] = {}
        for item in group:  # the first of a family is the base; stages between it and the chat model follow
            if item not in chats and item.axes.get(FAMILY):
                bases.setdefault(item.axes[FAMILY], item)
        pairs += [(bases[family], i) for i in chats if (family := i.axes.get(FAMILY, "")) in bases]
        unknown |= dict.fromkeys(i.titles[0] for i in chats if not i.axes.get(FAMILY))
    if not pairs:
        return None
    right = [(sample.means(chat) - sample.means(base)) * sign > 0 for base, chat in pairs]
    base, chat = pairs[0]
    example = f"{base.titles[0]} {base.mean:.3f}, {chat.titles[0]} {chat.mean:.3f}"
    word = "higher" if sign > 0 else "lower"
    others = f"; of unknown family: {', '.join(unknown)}" if unknown else ""
    return join_components(f"{word} for {format_count(right)} chat models, e.g. {example}{others}", right)


def check_sizes(
    sample: Sample, values: Sequence[Pair], *, sign: int = 1, decoder: str = "", models: Sequence[str] = ()
) -> Outcome | None:
    """Check that values rise (or fall) from each model to the next larger one for every decoder, or for one alone."""

    def find_neighbors(setting: Sequence[SystemValue]) -> list[tuple[SystemValue, SystemValue]]:
        neighbors = []
        for group in group_values([i for i in setting if decoder in ("", i.axes.get("decoder"))], "model"):
            named = [i for i in group if i.axes["model"] in models or not models]
            sized = [(*size, i) for i in named if (size := parse_size(i.axes["model"])) is not None]
            for of in group_by(sorted(sized, key=lambda entry: entry[:2]), lambda entry: entry[0]).values():
                larger = dict(pairwise(sorted({size for _, size, _ in of})))
                neighbors += [(a, b) for _, small, a in of for _, large, b in of if larger.get(small) == large]
        return neighbors

    settings = (select_main_setting(sample.items, pair, find_neighbors) for pair in values)
    neighbors = [both for setting in settings for both in find_neighbors(setting)]
    if not neighbors:
        return None
    up = [(sample.means(b) - sample.means(a)) * sign > 0 for a, b in neighbors]
    examples = [f"{a.titles[1]} {a.titles[0]} {a.mean:.3f}, {b.titles[0]} {b.mean:.3f}" for a, b in neighbors[:2]]
    word = "higher" if sign > 0 else "lower"
    return join_components(f"{word} in {format_count(up)} pairs, e.g. {'; '.join(examples)}", up)


def check_ranking(
    sample: Sample, values: Sequence[Pair], field: str, *, least: float = ALIKE, axis: str = ""
) -> Outcome | None:
    """Check that the ranking of the systems does not depend on a field of the signature, which an axis sets."""
    every = [_measure_agreement(sample, pair, field, axis or field) for pair in values]
    agreements = [agreement for agreement in every if agreement is not None]
    if not agreements:
        return None
    lowest, options, most = min(agreements, key=lambda agreement: (agreement[0][0], *agreement[1:]))
    text = f"lowest ρ {lowest[0]:.3f} over {options} values, up to {most} systems"
    return join_components(text, [np.min([low for low, _, _ in agreements], axis=0) >= least])


def _measure_agreement(sample: Sample, pair: Pair, field: str, axis: str) -> tuple[F64, int, int] | None:
    """Return (lowest rank correlation, number of values of the field, largest number of shared systems)."""
    tables: dict[str, dict[tuple[str, ...], SystemValue]] = {}
    for item in sample.select(pair):
        fields = dict(item.fields)
        value = fields.pop(field, "")
        fields.pop("texts", None)  # depends on the length through truncation; the tokenizer that truncates is an axis
        other_axes = (v for a, v in item.axes.items() if axis not in (a, get_parent_axis(a)) and a != "task.texts")
        tables.setdefault(value, {})[*fields.values(), *other_axes] = item
    correlations = []
    for a, b in combinations(tables, 2):
        shared = sorted(tables[a].keys() & tables[b].keys())
        if len(shared) >= MIN_PAIRS:
            rho = correlate_rows(*(np.stack([sample.means(tables[t][s]) for s in shared], axis=1) for t in (a, b)))
            correlations += [(rho, {a, b}, len(shared))] if math.isfinite(rho[0]) else []
    if not correlations:
        return None
    lowest = np.min([rho for rho, _, _ in correlations], axis=0)
    return lowest, len(set().union(*(names for _, names, _ in correlations))), max(n for _, _, n in correlations)


def find_best_p(sample: Sample, pair: Pair) -> list[tuple[str, F64, F64]]:
    """Return for nucleus sampling by each model of the main setting: its name, all p, the best p in every draw."""

    def find_lines(setting: Sequence[SystemValue]) -> list[Line]:
        return group_into_lines([i for i in setting if i.axes.get("decoder") == "nucleus"], "decoder.p")

    lines = []
    for line in find_lines(select_main_setting(sample.items, pair, find_lines)):
        every = np.array([p for p, _ in line.points])
        best = np.argmax(np.stack([sample.means(i) for _, i in line.points]), axis=0)
        lines.append((line.points[best[0]][1].titles[0], every, every[best]))
    return lines


def check_best_p_is_inside(sample: Sample, values: Sequence[Pair]) -> Outcome | None:
    """Check that the best p of nucleus sampling is neither the smallest nor the largest p."""
    lines = find_best_p(sample, values[0])
    text = "; ".join(f"{label}: best at p={best[0]:g} of {p[0]:g} to {p[-1]:g}" for label, p, best in lines)
    return join_components(text, [(p[0] < best) & (best < p[-1]) for _, p, best in lines]) if lines else None


def check_best_p_rises_with_size(sample: Sample, values: Sequence[Pair]) -> Outcome | None:
    """Check that the best p of a larger model is not below that of a smaller one."""
    lines = [(parse_size(label), best, label) for label, _, best in find_best_p(sample, values[0])]
    sized = [(*size, best, label) for size, best, label in lines if size is not None]
    sized.sort(key=lambda entry: (*entry[:2], entry[2][0], entry[3]))
    neighbors = [(a, b) for a, b in pairwise(sized) if a[0] == b[0]]
    if not neighbors:
        return None
    text = ", ".join(f"{label} p={best[0]:g}" for _, _, best, label in sized)
    return join_components(text, [a[2] <= b[2] for a, b in neighbors])


def check_best_agreement(sample: Sample, values: Sequence[Pair]) -> Outcome | None:
    """Check that MAUVE agrees with people or a discriminator better than any other metric does."""

    def index_by_axes(setting: Sequence[SystemValue]) -> dict[tuple[tuple[str, str], ...], SystemValue]:
        return {tuple(sorted(i.axes.items())): i for i in setting}

    goals = {k: sample.orient(i) for k, i in index_by_axes(select_main_setting(sample.items, values[0])).items()}
    if len(goals) < 3:
        return None
    correlations: dict[str, F64] = {}
    for pair in RIVALS:
        main = select_main_setting(sample.items, pair, lambda s: len(index_by_axes(s).keys() & goals.keys()) > 2)
        rated = {k: sample.orient(i) for k, i in index_by_axes(main).items()}
        both = [(rated[axes], goal) for axes, goal in goals.items() if axes in rated]
        both = [(a, b) for a, b in both if math.isfinite(a[0] + b[0])]
        if len(both) >= MIN_PAIRS:
            rho = correlate_rows(*(np.stack(side, axis=1) for side in zip(*both, strict=True)))
            correlations |= {pair[0]: rho} if math.isfinite(rho[0]) else {}
    if "mauve" not in correlations or len(correlations) < 2:
        return None
    order = sorted(correlations.items(), key=lambda entry: -entry[1][0])
    text = f"ρ over {len(goals)} systems: {', '.join(f'{name} {rho[0]:.3f}' for name, rho in order)}"
    return join_components(text, [correlations["mauve"] == np.max(list(correlations.values()), axis=0)])


def check_agreement(sample: Sample, values: Sequence[Pair], sign: int) -> Outcome | None:
    """Check that two values order the systems alike or, with a negative sign, the opposite way."""
    settings = (select_main_setting(sample.items, pair) for pair in values)
    first, second = ({tuple(sorted(i.axes.items())): sample.means(i) for i in setting} for setting in settings)
    shared = [system for system in first if system in second]
    if len(shared) < MIN_PAIRS:
        return None
    rho = correlate_rows(*(np.stack([side[system] for system in shared], axis=1) for side in (first, second)))
    measured = join_components(f"ρ over {len(shared)} systems: {rho[0]:.3f}", [rho * sign > 0])
    return measured if math.isfinite(rho[0]) else None


def check_steadiness(sample: Sample, values: Sequence[Pair], most: float) -> Outcome | None:
    """Check that precision and recall vary little between seeds."""
    means: dict[str, float] = {}
    for pair in values:
        repeated = [i for i in sample.items if i.seeds > 2 and math.isfinite(i.sd)]
        spreads = [i.sd for i in select_main_setting(repeated, pair)]
        if not spreads:
            return None
        means[pair[1]] = math.fsum(spreads) / len(spreads)
    text = ", ".join(f"{key} {mean:.3f}" for key, mean in means.items())
    holds = np.full(1 + DRAWS, max(means.values()) <= most)
    return join_components(f"mean sd over seeds, {len(spreads)} systems: {text}", [holds])


def check_missed_by_ratings(sample: Sample, values: Sequence[Pair]) -> Outcome | None:
    """Check that the model's own probability reveals differences that human ratings miss."""
    systems = group_systems(item for item in sample.items if item.pair in values)
    both = [(s.name, huse, q) for s in systems if (huse := s.value(*values[0])) and (q := s.value(*values[1]))]
    if not both:
        return None
    lower = [sample.means(huse) < sample.means(quality) for _, huse, quality in both]
    name, huse, quality = both[0]
    example = f"{name}: HUSE {huse.mean:.2f}, HUSE-Q {quality.mean:.2f}"
    return join_components(f"lower for {format_count(lower)} systems, e.g. {example}", lower)
