"""Warnings and remarks under a table of values, from the notes of its values and runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from openended.harness.core import OUT_OF_DOMAIN, describe_out_of_domain, parse_signature
from openended.harness.results import Results, SystemValue, find_human_value, find_interval, make_natural_sort_key

MAX_LISTED = 4  # systems that one line names
RESOLVED = 1.96 * math.sqrt(2)  # standard errors between two independent values that differ at 5 %
Label = Callable[[SystemValue], str]


def list_warnings(models: Sequence[SystemValue], items: Sequence[SystemValue], label: Label) -> tuple[str, ...]:
    """Return the caveats about values, and remarks on human values of another number of texts than the systems'."""
    notes: dict[str, set[str]] = {}
    for item in (i for i in models if i.note and math.isfinite(i.mean)):
        notes.setdefault(f"{item.metric}: {item.note}", set()).add(label(item))
    pairs = [(find_human_value(items, m), m) for m in models if m.direction == "match_human"]
    counts = {tuple(parse_signature(i.signature).get("n", "") for i in (h, m)) for h, m in pairs if h is not None}
    return (
        *_join_notes(notes, {label(i) for i in models}),
        *(
            f"The human values are based on {human} texts, those of the systems on {model}. Values that depend "
            "on the number of texts (distinct n-grams, Self-BLEU, Zipf, …) are not comparable."
            for human, model in sorted(counts)
            if human != model
        ),
    )


def describe_resolution(models: Sequence[SystemValue], results: Results) -> tuple[str, ...]:
    """Return a line with the smallest difference of two systems that these texts resolve, for every value.

    Two independent values differ at 5 % if they are 1.96 times the root of the sum of their squared errors apart; the
    error is the median of the systems' standard errors.
    """
    errors: dict[str, list[float]] = {}
    for item in models:
        interval = find_interval(results, item)
        if interval is not None and math.isfinite(interval.std_error) and interval.std_error > 0:
            errors.setdefault(item.title, []).append(interval.std_error)
    if not errors:
        return ()
    listed = ", ".join(f"{title} {RESOLVED * statistics.median(e):.2g}" for title, e in errors.items())
    return (f"Smallest difference of two systems that these texts resolve at 5 % without pairing: {listed}.",)


def list_run_notes(models: Sequence[SystemValue], results: Results, label: Label) -> tuple[str, ...]:
    """Return the notes of the runs behind a table, without the warning that its marked headings repeat."""
    notes: dict[str, set[str]] = {}
    repeated = set[str]()
    for item in models:
        fields = parse_signature(item.signature)
        repeated |= {describe_out_of_domain(k, v.partition("@")[0]) for k, v in fields.items() if OUT_OF_DOMAIN in v}
        for note in {n for at, _ in item.sources for n in results.runs[at].notes}:
            notes.setdefault(note, set()).add(label(item))
    others = {note: systems for note, systems in notes.items() if note not in repeated}
    return tuple(_join_notes(others, {label(i) for i in models}))


def _join_notes(notes: Mapping[str, set[str]], systems: set[str]) -> list[str]:
    """Return one line per note, with the systems that it is about unless it is about all of them."""
    lines = []
    for note, names in sorted(notes.items()):
        ordered = sorted(names, key=make_natural_sort_key)
        more = f" and {len(ordered) - MAX_LISTED} more" if len(ordered) > MAX_LISTED else ""
        lines.append(note if names == systems else f"{note} ({', '.join(ordered[:MAX_LISTED])}{more})")
    return lines
