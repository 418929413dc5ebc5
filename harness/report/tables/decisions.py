"""The table of what a grid with `decide=` decided, and how many texts that took."""

from openended.harness.report.analysis import group_sequential as sequential
from openended.harness.report.analysis.group_sequential import Decision, DecisionPlan
from openended.harness.report.tables.frame import Cell, Filled, Frame, build_frame, make_cell, make_quantity
from openended.harness.results import Results

_WORDS = {
    sequential.OPEN: "not decided yet",
    sequential.UNDECIDED: "undecided at the last look",
    sequential.STOPPED: "no effect seen",
}
_WORDS |= {outcome: outcome for outcome in (sequential.FAILED, sequential.UNLIKE)}


def build_decision_frame(plan: DecisionPlan, results: Results) -> Frame:
    """Build a table with a row per comparison, from the runs of all looks."""
    decisions = sequential.judge_comparisons(plan, results)
    last = [item for item in sequential.select_last_looks(results).values if item.system == "model"]
    sizes = [run.axes for run in {run for item in last for run, _ in item.sources}]
    used = sum(int(axes["num_examples"]) * int(axes["samples"]) for axes in sizes)
    most = sum(plan.looks[-1] * int(axes["samples"]) for axes in sizes)
    words = [_WORDS.get(d.outcome, f"{d.outcome} is better") for d in decisions]
    columns: list[Filled] = [
        (make_quantity("", "outcome", "decision"), words),
        ("difference", [_build_difference_cell(plan, d) for d in decisions]),
        ("looks", [f"{len(d.looks)} of {len(plan.looks)}" for d in decisions]),
        (make_quantity("", "examples", "examples", decimals=0), [d.looks[-1].n if d.looks else 0 for d in decisions]),
    ]
    count = len(plan.comparisons)
    share = f" and {count} comparisons (Bonferroni)" if count > 1 else ""
    looks = ", ".join(f"{n:,}" for n in plan.looks)
    remarks = [
        f"Texts: {used:,} of {most:,} generated; {most - used:,} ({(most - used) / most:.0%}) saved.",
        f"Test at alpha={plan.alpha:g} over all looks{share}, with {looks} examples (Lan and DeMets 1983).",
        f"[…] {1 - plan.alpha:.0%} intervals that hold together, at all looks of all comparisons.",
        "Difference: the first value minus the second; of values with a target (≈, →), the nearer one is better.",
    ]
    if any(decision.outcome == sequential.STOPPED for decision in decisions):
        remarks.append("No effect seen: the texts left would hardly have decided it; this does not show equality.")
    remarks += [f"{d.comparison.title}: the values differ in {d.differing}." for d in decisions if d.differing]
    titles = [decision.comparison.title for decision in decisions]
    return build_frame("decisions", "Decisions", titles, columns, remarks, head="Comparison")


def _build_difference_cell(plan: DecisionPlan, decision: Decision) -> Cell | None:
    """Return the difference at the last look, with the interval that holds at all looks together."""
    if not decision.looks:
        return None
    look, boundary = decision.looks[-1], plan.boundaries[len(decision.looks) - 1]
    if not look.std_error > 0:
        return make_cell(look.difference, signed=True, note="no standard error: the replicates do not vary")
    away = sequential.compute_margin(look, boundary)
    return make_cell(look.difference, signed=True, interval=(look.difference - away, look.difference + away))
