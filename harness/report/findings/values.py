"""The values that a claim reads, from the folded values of some runs; and what a check of it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from openended.harness.core import parse_signature
from openended.harness.report.tables.agreement import turned
from openended.harness.results import Folded, head_of, values_of

SIZES = ("xs", "s", "small", "base", "m", "medium", "l", "large", "xl", "xxl")


INVENTED = ("example_ratings.csv", "example_pairs.csv")  # judgments that come with the harness say nothing about people


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of one claim on these runs."""

    measured: str
    holds: bool
    sure: bool | None = None
    """Whether it would come out the same with other texts; None where nothing says how sure the values are."""
    decides: str = ""
    """How many texts would make it sure, where it is not."""

    @property
    def words(self) -> str:
        """What the table says of the claim."""
        if self.sure is False:
            return "undecided"
        return "holds" if self.holds else "does not hold"

    @property
    def told(self) -> str:
        """What was measured, and what would decide it."""
        return f"{self.measured} ({self.decides} would decide it)" if self.decides else self.measured


Check = Callable[[Sequence[Folded]], Verdict | None]


def grouped(items: Sequence[Folded], *vary: str) -> list[list[Folded]]:
    """Group values that share signature and axes, those in `vary` and their options aside."""
    groups: dict[tuple[str, ...], list[Folded]] = {}
    for item in items:
        rest = (v for a, v in item.axes.items() if a not in vary and head_of(a) not in vary)
        groups.setdefault((item.signature, *rest), []).append(item)
    return list(groups.values())


def main_setting(items: Sequence[Folded], metric: str, key: str) -> list[Folded]:
    """Return the values of the setting that most systems share: all but model and decoder is the same."""
    return max(grouped(values_of(items, metric, key), "model", "decoder"), key=len, default=[])


def by_decoder(items: Sequence[Folded], metric: str, key: str, *names: str) -> Iterator[dict[str, Folded]]:
    """Yield, model by model, the value of each named decoder; the best of several parameters, no n-grams blocked."""
    groups = grouped(main_setting(items, metric, key), "decoder")
    for group in sorted(groups, key=lambda g: (size_of(g[0].axes["model"]) or 0, g[0].titles[0])):
        plain = [i for i in group if i.axes.get("decoder.no_repeat_ngram_size", "0") in ("0", "")]
        found = {n: [i for i in plain if i.axes.get("decoder") == n] for n in names}
        if all(found.values()):
            yield {n: _best(own, items) for n, own in found.items()}


def _best(values: Sequence[Folded], items: Sequence[Folded]) -> Folded:
    """Return a decoder's value at its best parameters: those of the highest MAUVE; where it is not known, its best."""
    mauve = {tuple(i.axes.items()): i.mean for i in main_setting(items, "mauve", "mauve")}
    known = [i for i in values if tuple(i.axes.items()) in mauve]
    if known:
        return max(known, key=lambda i: mauve[tuple(i.axes.items())])
    return max(values, key=lambda i: turned(i, items))


def listed(values: Sequence[Folded]) -> str:
    """Return titles and values, as a finding says them."""
    return ", ".join(f"{i.titles[1]} {number(i.mean)}" for i in values)


def number(value: float) -> str:
    """Return a value with three decimals if it is small, else one."""
    return f"{value:.3f}" if abs(value) < 2 else f"{value:.1f}"


def joined(parts: Sequence[tuple[str, str, bool]]) -> Verdict | None:
    """Join (model, what was measured, holds): it holds if it does for each model."""
    if not parts:
        return None
    several = len(parts) > 1
    return Verdict("; ".join(f"{m}: {s}" if several else s for m, s, _ in parts), all(h for _, _, h in parts))


def size_of(model: str) -> int | None:
    """Return the place of a model in the order of sizes, from the last word of its name; None if it says none."""
    last = model.lower().replace("_", "-").rpartition("-")[2]
    return SIZES.index(last) if last in SIZES else None


def rated_values(items: Sequence[Folded]) -> list[Folded]:
    """Return the HUSE values that rest on people's ratings."""
    own = [i for i in items if i.metric == "huse" and i.system == "model"]
    return [i for i in own if not any(name in (i.axes.get("task", ""), *_file(i)) for name in INVENTED)]


def _file(item: Folded) -> tuple[str, ...]:
    return (parse_signature(item.signature).get("judgments", "").partition("@")[0],)
