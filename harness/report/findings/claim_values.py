"""Select the values that a claim needs from aggregated values; the verdict of a check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from openended.harness.core import parse_signature
from openended.harness.report.tables.agreement import orient_value
from openended.harness.results import SystemValue, get_parent_axis, select_values

SIZES = ("xs", "s", "small", "base", "m", "medium", "l", "large", "xl", "xxl")


INVENTED = ("example_ratings.csv", "example_pairs.csv")  # shipped example judgments, which are not from people


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


def group_values(items: Sequence[SystemValue], *vary: str) -> list[list[SystemValue]]:
    """Group values with equal signature and axes, ignoring the axes in `vary` and their options."""
    groups: dict[tuple[str, ...], list[SystemValue]] = {}
    for item in items:
        rest = (v for a, v in item.axes.items() if a not in vary and get_parent_axis(a) not in vary)
        groups.setdefault((item.signature, *rest), []).append(item)
    return list(groups.values())


def select_main_setting(items: Sequence[SystemValue], metric: str, key: str) -> list[SystemValue]:
    """Return the values of the setting (all axes but model and decoder) that most systems share."""
    return max(group_values(select_values(items, metric, key), "model", "decoder"), key=len, default=[])


def iterate_by_decoder(
    items: Sequence[SystemValue], metric: str, key: str, *names: str
) -> Iterator[dict[str, SystemValue]]:
    """Yield for each model the value of each named decoder at its best options, without n-gram blocking."""
    groups = group_values(select_main_setting(items, metric, key), "decoder")
    for group in sorted(groups, key=lambda g: (parse_size(g[0].axes["model"]) or 0, g[0].titles[0])):
        plain = [i for i in group if i.axes.get("decoder.no_repeat_ngram_size", "0") in ("0", "")]
        by_name = {n: [i for i in plain if i.axes.get("decoder") == n] for n in names}
        if all(by_name.values()):
            yield {n: _select_best(options, items) for n, options in by_name.items()}


def _select_best(values: Sequence[SystemValue], items: Sequence[SystemValue]) -> SystemValue:
    """Return a decoder's value at the options with the highest MAUVE, or its best value without MAUVE."""
    mauve = {tuple(i.axes.items()): i.mean for i in select_main_setting(items, "mauve", "mauve")}
    with_mauve = [i for i in values if tuple(i.axes.items()) in mauve]
    if with_mauve:
        return max(with_mauve, key=lambda i: mauve[tuple(i.axes.items())])
    return max(values, key=lambda i: orient_value(i, items))


def format_values(values: Sequence[SystemValue]) -> str:
    """Format decoder titles with values."""
    return ", ".join(f"{i.titles[1]} {format_number(i.mean)}" for i in values)


def format_number(value: float) -> str:
    """Format a value with three decimals if it is below 2, else with one."""
    return f"{value:.3f}" if abs(value) < 2 else f"{value:.1f}"


def join_verdicts(parts: Sequence[tuple[str, str, bool]]) -> Verdict | None:
    """Combine (model, measured, holds) of several models into one verdict; it holds if it does for each."""
    if not parts:
        return None
    several, components = len(parts) > 1, tuple(holds for _, _, holds in parts)
    text = "; ".join(f"{m}: {s}" if several else s for m, s, _ in parts)
    return Verdict(text, all(components), components=components)


def parse_size(model: str) -> int | None:
    """Return the rank of a model's size, given by the last word of its name; None if the name has no size."""
    last = model.lower().replace("_", "-").rpartition("-")[2]
    return SIZES.index(last) if last in SIZES else None


def select_human_rated(items: Sequence[SystemValue]) -> list[SystemValue]:
    """Return the HUSE values that are based on human ratings."""
    huse_values = [i for i in items if i.metric == "huse" and i.system == "model"]
    return [
        i
        for i in huse_values
        if not any(name in (i.axes.get("task", ""), *_read_judgment_file(i)) for name in INVENTED)
    ]


def _read_judgment_file(item: SystemValue) -> tuple[str, ...]:
    return (parse_signature(item.signature).get("judgments", "").partition("@")[0],)
