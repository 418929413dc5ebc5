"""A sweep of temperatures gives a table of frontiers and a figure with bands."""

import csv

import pytest

from openended.harness.core.errors import DataError
from openended.harness.report.analysis.frontier import find_frontiers, load_human_entropy
from openended.harness.report.figures.drawing import SystemStyles
from openended.harness.report.figures.trade_offs import generative_frontier
from openended.harness.report.tables.frontier_gaps import build_frontier_tables
from openended.harness.results import load_layout, read_results
from openended.harness.run.artifacts import get_content
from tests.helpers import openended

WORDS = (
    "-m", "decoder=temperature", "decoder.temperature=0.6,1.0,1.5", "model=docs-m", "scoring=docs-m", "num_examples=16",
    "max_new_tokens=16",
    "metric=[gen_ppl,kl_to_scorer,entropy,rank_histogram,gradient_moment]", "metric.gradient_moment.size=64",
    "runtime.device=cpu", "name=front", "report=frontier", "intervals=40",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("frontier")
    openended(*WORDS, cwd=where, code=0)
    return where


@pytest.mark.long
def test_table_and_figure(folder):
    results = read_results([folder / "outputs/runs/front"], None)
    items = results.values
    (entry,) = find_frontiers(results, items)
    assert len(entry.points) == 3
    human = load_human_entropy(results, items, entry.points[0][0])
    assert len(human) == 41
    low, high = entry.frontier.reach
    _, table = build_frontier_tables(results, load_layout("frontier"), "frontier")
    row, human_row = table.rows
    assert (row.cells[0].value, row.cells[1].value, row.cells[2].value) == (3, low, high)
    assert human_row.cells[1].value == human[0]
    inside = low <= human[0] <= high
    assert (row.cells[3].interval is not None) == inside
    assert row.cells[3].note == "" or "outside the operating points" in row.cells[3].note
    # the sampler at temperature 1 is the scorer itself: no divergence but noise
    assert abs(row.cells[6].value) < 0.05
    figures = generative_frontier(results, SystemStyles([]))
    assert len(figures) == 1
    with (folder / "outputs/reports/front/results.csv").open(encoding="utf-8", newline="") as handle:
        measured = {(r["metric"], r["key"]) for r in csv.DictReader(handle) if r["value"] and r["system"] == "model"}
    assert {("rank_histogram", "p_value"), ("gradient_moment", "gradient_moment")} <= measured


@pytest.mark.long
def test_one_setting_is_no_frontier(folder):
    results = read_results([folder / "outputs/runs/front"], {"decoder.temperature": "0.6"})
    with pytest.raises(DataError, match="two or more settings"):
        build_frontier_tables(results, load_layout("frontier"), "frontier")


def test_an_artifact_that_is_planned_has_no_content():
    assert get_content(None) is None
