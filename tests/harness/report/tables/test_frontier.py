"""Generative frontiers: values by hand, intervals that cover, and the table and figure of a sweep."""

import csv

import numpy as np
import pytest

from openended.harness.core.errors import DataError, UndefinedMetric
from openended.harness.report.build import make_tables
from openended.harness.report.tables import frontier_gaps
from openended.harness.results import load_layout, read_results
from tests.harness.report.synthetic import draw_figure
from tests.helpers import check_error, openended


def frontier(name, points, replicates=20, noise=0.01, seed=0):
    """A frontier of (entropy, log Gen-PPL) with noisy replicates."""
    rng = np.random.default_rng(seed)
    rows = np.array(points, dtype=float).T
    noisy = rows[:, None, :] + noise * rng.normal(size=(2, replicates + 1, len(points)))
    noisy[:, 0] = rows
    return frontier_gaps.Frontier(name, noisy[0], noisy[1], 100)


def at(value, replicates=20):
    return np.full(replicates + 1, value)


def test_a_straight_line_is_interpolated_exactly_and_continued_beyond_its_ends():
    x, y = np.array([3.0, 1.0, 2.0]), np.array([6.0, 2.0, 4.0])
    values = frontier_gaps.interpolate(x, y, np.array([1.0, 1.5, 2.7, 3.5]))
    assert values == pytest.approx([2.0, 3.0, 5.4, 7.0])
    grid = np.linspace(1, 4, 50)
    bent = frontier_gaps.interpolate(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 2.0, 1.5, 5.0]), grid)
    assert (np.diff(bent) >= -1e-12).all()
    # 2 and 1.5 are out of order: both become their mean 1.75
    smooth = frontier_gaps.interpolate(np.arange(4.0), np.array([0.0, 2.0, 1.5, 5.0]), np.arange(4.0))
    assert smooth == pytest.approx([0, 1.75, 1.75, 5])


def test_values_gap_and_area_by_hand():
    """g = 2 H on [1, 3] against 2 H - 0.5 on [2, 4]: at 2.5 5.0 and 4.5; the gap is 0.5, its area over [2, 3] 0.5."""
    first, second = frontier("a", [(1, 2), (2, 4), (3, 6)]), frontier("b", [(2, 3.5), (3, 5.5), (4, 7.5)], seed=1)
    found = frontier_gaps.estimate_at(first, at(2.5))
    assert (found[0], len(found)) == (pytest.approx(5.0), 21)
    assert frontier_gaps.estimate_gap(first, second, at(2.5))[0] == pytest.approx(0.5)
    area = frontier_gaps.estimate_area(first, second)
    assert area[0] == pytest.approx(0.5)
    interval = frontier_gaps.estimate_interval(area, first, second)
    assert interval.low < 0.5 < interval.high
    assert frontier_gaps.estimate_area(second, first)[0] == pytest.approx(-0.5)
    middle, low, high = frontier_gaps.compute_bands(first, np.array([1.5, 2.5]))
    assert middle == pytest.approx([3.0, 5.0])
    assert (low < middle).all()
    assert (middle < high).all()


def test_outside_the_operating_points_there_is_no_value():
    first, far = frontier("a", [(1, 2), (2, 4)]), frontier("b", [(5, 2), (6, 4)])
    with pytest.raises(UndefinedMetric, match=r"entropy 2\.500 is outside the operating points of a, 1\.000 to 2\.000"):
        frontier_gaps.estimate_at(first, at(2.5))
    check_error(UndefinedMetric, "no overlap", frontier_gaps.estimate_area, first, far)
    with pytest.raises(UndefinedMetric, match="at least two different entropies"):
        frontier_gaps.interpolate(np.array([1.0, 1.0]), np.array([2.0, 3.0]), np.array([1.0]))


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
    (entry,) = frontier_gaps.find_frontiers(results, items)
    assert len(entry.points) == 3
    human = frontier_gaps.load_human_entropy(results, items, entry.points[0][0])
    assert len(human) == 41
    low, high = entry.reach
    _, table = make_tables(results, load_layout("frontier"), "frontier")
    row, human_row = table.rows
    assert (row.cells[0].value, row.cells[1].value, row.cells[2].value) == (3, low, high)
    assert human_row.cells[1].value == human[0]
    inside = low <= human[0] <= high
    assert (row.cells[3].interval is not None) == inside
    assert row.cells[3].note == "" or "outside the operating points" in row.cells[3].note
    # the sampler at temperature 1 is the scorer itself: no divergence but noise
    assert abs(row.cells[4].value) < 0.05, "there is no gap to another system, and no column for it"
    figures = draw_figure("frontier", results)
    assert len(figures) == 1
    with (folder / "outputs/reports/front/results.csv").open(encoding="utf-8", newline="") as handle:
        measured = {(r["metric"], r["key"]) for r in csv.DictReader(handle) if r["value"] and r["system"] == "model"}
    assert {("rank_histogram", "p_value"), ("gradient_moment", "gradient_moment")} <= measured


@pytest.mark.long
def test_one_setting_is_no_frontier(folder):
    results = read_results([folder / "outputs/runs/front"], {"decoder.temperature": "0.6"})
    check_error(DataError, "two or more settings", make_tables, results, load_layout("frontier"), "frontier")
