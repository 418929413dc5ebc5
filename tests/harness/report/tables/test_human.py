"""The human side in a table."""

from __future__ import annotations

import math

import pytest

from openended.harness.report.tables.human import build_ceiling_cell, list_count_remarks
from openended.harness.report.tables.table import Column
from openended.harness.results.frame import read_results
from tests.harness.report.synthetic import result, write_run


def test_a_ceiling_of_as_many_texts_stands_in_its_cell_with_its_spread(tmp_path):
    lines = [
        result("model", "mauve", {"mauve": 0.8}, n=100),
        result("ceiling", "mauve", {"mauve": 0.9}, n=100, sd={"mauve": 0.02}),
        result("ceiling", "mauve", {"mauve": 0.7}, n=50),
    ]
    write_run(tmp_path, "nucleus", 0, results=lines)
    items = read_results([tmp_path]).values
    model = next(i for i in items if i.system == "model")
    column = Column("mauve", "mauve", "MAUVE", "higher", signature=model.signature)
    whole, half = sorted(
        (build_ceiling_cell(i, column) for i in items if i.system == "ceiling"), key=lambda c: math.isnan(c.value)
    )
    assert (whole.value, whole.metric_error) == (0.9, 0.02)
    assert math.isnan(half.value)
    assert "0.700 at n 50/50" in half.note
    assert math.isnan(model.error)


@pytest.mark.parametrize(("task", "mentions_prompts"), [("docs", True), ("unconditional", False)])
def test_ceiling_mentions_prompts_only_where_there_are_some(tmp_path, task, mentions_prompts):
    lines = [result("model", "mauve", {"mauve": 0.8}), result("ceiling", "mauve", {"mauve": 0.9})]
    write_run(tmp_path, "nucleus", 0, results=lines, axes={"task": task})
    model, ceiling = sorted(read_results([tmp_path]).values, key=lambda item: item.system, reverse=True)
    cell = build_ceiling_cell(ceiling, Column("mauve", "mauve", "MAUVE", "higher", signature=model.signature))
    assert cell.value == 0.9
    assert "two disjoint sets of human text" in cell.note
    assert ("prompts" in cell.note) == mentions_prompts


def test_fewer_human_texts_are_told(tmp_path):
    lines = [result("model", "m", {"m": 1.0}, n=100), result("human", "m", {"m": 2.0}, n=25)]
    write_run(tmp_path, "nucleus", 0, results=lines, axes={"samples": 4})
    items = read_results([tmp_path]).values
    sides = [[i for i in items if i.system == which] for which in ("model", "human")]
    (remark,) = list_count_remarks(*sides)
    assert "human values are based on 25/25 texts, those of the systems on 100/100" in remark
    assert list_count_remarks(sides[0], []) == []
