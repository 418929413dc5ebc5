"""Test which cells of a column are marked as best."""

import math

import pytest

from openended.harness.report.tables.best_cells import mark_best_cells
from openended.harness.report.tables.table import Cell, Column


def find_best(values, direction, human=math.nan, **options):
    column = Column("metric", "key", "Title", direction, decimals=2, **options)
    cells = {name: Cell(value) for name, value in values.items()}
    marked = mark_best_cells(column, cells, dict.fromkeys(cells, human))
    return {name for name, cell in marked.items() if cell.best}


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


def test_cells_that_print_the_same_number_are_best_together():
    assert find_best({"a": 0.901, "b": 0.904, "c": 0.89}, "higher") == {"a", "b"}


def test_a_missing_value_does_not_compete():
    assert find_best({"a": math.nan, "b": 0.1}, "higher") == {"b"}
    assert find_best({"a": math.nan, "b": math.nan}, "higher") == set()


def test_a_single_cell_is_not_marked():
    assert find_best({"a": 0.5}, "higher") == set()
