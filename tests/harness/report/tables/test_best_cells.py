"""Which cells of a column are best, by tests, intervals or numbers; intervals that a metric states, and Student's."""

import math
import statistics
from dataclasses import replace

import pytest
from scipy import stats

from openended.harness.core.spec import OUT_OF_DOMAIN
from openended.harness.report.tables.best_cells import mark_best_cells
from openended.harness.report.tables.formats.latex import to_latex
from openended.harness.report.tables.search_trials import format_interval
from openended.harness.report.tables.table import Cell, Column, Table, TableRow
from openended.harness.report.tables.values import find_metric_interval
from openended.harness.results import SystemValue


def folded(key, mean, seeds=1, decoder="greedy"):
    return SystemValue(
        system="model", metric="huse", key=key, mean=mean, sd=math.nan, seeds=seeds, signature="huse|v:1",
        direction="higher", title=key, reason="", note="", primary=key == "huse", family="human",
        axes={"decoder": decoder}, titles=("m", decoder), values={"0": mean}, sources=((0, None),),
    )  # fmt: skip


def test_the_interval_is_that_of_the_value_the_signature_and_the_system():
    value = folded("huse", 0.5)
    ends = [folded("huse_low", 0.4), folded("huse_high", 0.7), folded("huse_low", 0.1, decoder="beam")]
    assert find_metric_interval(value, [value, *ends]) == (0.4, 0.7)
    assert find_metric_interval(value, [value, ends[0]]) is None
    assert find_metric_interval(replace(value, key="huse_q"), ends) is None
    assert find_metric_interval(replace(value, seeds=2), ends) is None


def test_the_interval_over_seeds_is_students():
    values = [0.1, 0.4, 0.35, 0.8]

    low, high = stats.t.interval(0.95, 3, loc=0.4125, scale=stats.sem(values))
    cell = Cell(0.4125, statistics.stdev(values), len(values))
    assert format_interval(cell, 4).words == f"{low:.4f} to {high:.4f}"
    assert format_interval(Cell(1.0), 4).blank


def find_best(values, direction, human=math.nan, **options):
    column = Column("metric", "key", "Title", direction, decimals=2, **options)
    _, marked = mark_best_cells(column, [Cell(value, human=human) for value in values.values()])
    return {name for name, cell in zip(values, marked, strict=True) if cell.best}


@pytest.mark.parametrize(
    ("direction", "human", "options", "best"),
    [
        ("higher", math.nan, {}, {"c"}),
        ("lower", math.nan, {}, {"a"}),
        ("match_human", 0.52, {}, {"b"}),
        ("match_human", math.nan, {}, set()),
        ("target", math.nan, {"target": 0.4}, {"b"}),
        ("none", math.nan, {}, set()),
    ],
)
def test_the_best_by_direction(direction, human, options, best):
    assert find_best({"a": 0.1, "b": 0.5, "c": 0.9}, direction, human, **options) == best


def test_equal_missing_and_single_values():
    assert find_best({"a": 0.901, "b": 0.904, "c": 0.89}, "higher") == {"a", "b"}

    assert find_best({"a": math.nan, "b": 0.1}, "higher") == {"b"}
    assert find_best({"a": math.nan, "b": math.nan}, "higher") == set()

    assert find_best({"a": 0.5}, "higher") == set()


CELLS = {
    "a": Cell(0.1, interval=(0.05, 0.15)),
    "b": Cell(0.5, interval=(0.4, 0.6)),
    "c": Cell(0.6, interval=(0.5, 0.7)),
}


def mark(cells, compare=None, direction="higher", human=math.nan, signature=""):
    column = Column("metric", "key", "Title", direction, decimals=2, signature=signature)
    column, marked = mark_best_cells(column, [replace(cell, human=human) for cell in cells.values()], compare)
    return column.bold, {name for name, cell in zip(cells, marked, strict=True) if cell.best}


def test_tests_decide_then_intervals_then_the_printed_value():
    p_values = {0.1: 0.001, 0.5: 0.2}
    assert mark(CELLS, lambda cell, _: p_values[cell.value]) == ("tests", {"b", "c"})
    # Holm over the three pairs: 3 * 0.02 = 0.06 is not below 0.05, 3 * 0.016 = 0.048 is, 2 * 0.024 too.
    assert mark(CELLS, lambda cell, _: {0.1: 0.02, 0.5: 0.04}[cell.value]) == ("tests", {"a", "b", "c"})
    assert mark(CELLS, lambda cell, _: {0.1: 0.016, 0.5: 0.024}[cell.value]) == ("tests", {"c"})
    assert mark(CELLS, lambda *_: math.nan) == ("intervals", {"b", "c"})
    assert mark({name: Cell(cell.value) for name, cell in CELLS.items()}, lambda *_: math.nan) == ("printed", {"c"})
    # Distances to 0.5: 0.35 to 0.45, 0 to 0.1, and 0 to 0.2.
    assert mark(CELLS, direction="match_human", human=0.5) == ("intervals", {"b", "c"})


def test_a_cell_that_cannot_be_tested_is_not_separated():
    assert mark(CELLS, lambda cell, _: {0.1: 0.001, 0.5: math.nan}[cell.value]) == ("tests", {"b", "c"})


@pytest.mark.parametrize("model", ["naive:unigram", "damage:longer:30"])
def test_texts_that_no_model_wrote_are_never_best(model):
    source = replace(folded("m", 0.9), axes={"model": model})
    assert mark(CELLS | {"d": Cell(0.9, source=source)}) == ("intervals", {"b", "c"})


def test_nothing_is_marked_where_the_scoring_model_is_out_of_its_domain():
    signature = f"mauve|v:1|embedder:docs-m@1/last ({OUT_OF_DOMAIN})|n:5"
    assert mark(CELLS, signature=signature) == ("", set())
    column = Column("mauve", "mauve", "MAUVE", "higher", signature=signature)
    table = Table("t", "T", (column,), (TableRow("x", "model", (Cell(0.5),)),), warnings=("few texts",))
    assert column.heading == "MAUVE† ↑"
    assert table.caveats() == [
        "† embedder docs-m was trained on docstrings only: do not trust its scores here",
        "few texts",
    ]
    assert r"MAUVE$^\dagger$ $\uparrow$" in to_latex(table)
    assert r"; $\dagger$ embedder docs-m was trained" in to_latex(table)
