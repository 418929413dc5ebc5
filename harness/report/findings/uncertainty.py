"""How sure a verdict is: the claim is checked on values as they might have come out with other texts.

All values are moved together by draws of their errors, one draw for all systems, since they share their prompts (see
`harness.core.resampling`); where a metric left none, by independent normal errors of the standard deviation over
seeds. A verdict that nearly all draws share is sure; any other is undecided. Errors shrink as 1 / √n: that says how
many texts would decide it, were the values what they are now.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from openended.harness.core import F64, parse_signature, stream
from openended.harness.report.findings.values import Check, Verdict
from openended.harness.results import Folded, Results, draws_of

DRAWS = 60
AGREE = 0.95  # of the draws, for a verdict to be sure
MORE = (2, 4, 8, 16, 32, 64, 128, 256)  # times the texts that are tried


def errors_of(results: Results, items: Sequence[Folded]) -> list[F64 | None]:
    """Return draws of every value's error, shape (DRAWS,); None where nothing says how large it is."""
    return [_errors(results, item) for item in items]


def _errors(results: Results, item: Folded) -> F64 | None:
    found = draws_of(results, item)
    if found is not None and found.draws.shape[1] >= DRAWS:
        away = found.deviations()[:DRAWS]
        spread = float(np.sqrt(np.mean(away**2)))
        return away * (found.std_error() / spread) if spread > 0 else away
    if item.seeds > 1 and math.isfinite(item.sd):
        names = (item.system, item.metric, item.key, item.signature, *item.axes.values())
        return stream(0, "doubt", *names).standard_normal(DRAWS) * (item.sd / math.sqrt(item.seeds))
    return None


def judged(check: Check, items: Sequence[Folded], errors: Sequence[F64 | None]) -> Verdict | None:
    """Return the verdict of a check with how sure it is, and how many texts would make it sure."""
    found = check(items)
    if found is None or all(e is None for e in errors):
        return found
    agree = _agreement(check, items, errors, 1.0, found.holds)
    if agree >= AGREE:
        return replace(found, sure=True)
    n = _texts(items)
    for times in MORE:
        if _agreement(check, items, errors, 1 / math.sqrt(times), found.holds) >= AGREE:
            return replace(
                found, sure=False, decides=f"about n = {_rounded(times * n)}" if n else f"{times} times the n"
            )
    return replace(found, sure=False, decides=f"more than {MORE[-1]} times the n")


def _agreement(check: Check, items: Sequence[Folded], errors: Sequence[F64 | None], scale: float, holds: bool) -> float:
    """Return the share of draws in which the check comes out as it did."""
    same = 0
    for draw in range(DRAWS):
        moved = [
            item if error is None else replace(item, mean=item.mean + scale * float(error[draw]))
            for item, error in zip(items, errors, strict=True)
        ]
        other = check(moved)
        same += other is not None and other.holds == holds
    return same / DRAWS


def _texts(items: Sequence[Folded]) -> int:
    """Return the smallest number of texts of a system."""
    counts = [parse_signature(i.signature).get("n", "").partition("/")[0] for i in items if i.system == "model"]
    return min((int(c) for c in counts if c.isdigit()), default=0)


def _rounded(n: int) -> int:
    """Return a number with two digits."""
    step: int = 10 ** max(len(str(n)) - 2, 0)
    return int(round(n / step) * step)
