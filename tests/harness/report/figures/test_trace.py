"""A traced figure holds what was drawn: points, bars, rules, bands, ticks; what it cannot tell it leaves to the picture."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from openended.harness.report.figures.draw import draw_all
from openended.harness.report.figures.trace import trace_figure
from openended.harness.results.frame import read_results
from tests.harness.report.synthetic import quickstart


@pytest.mark.slow
def test_every_figure_of_a_grid_is_traced_with_the_values_of_its_systems(tmp_path):
    results = read_results([quickstart(tmp_path, decoders=("greedy", "nucleus"), texts=False)])
    traces = {}
    paths = draw_all(results, tmp_path / "figures", traces=traces)
    assert {p.stem for p in paths} == set(traces)
    panel = next(p for p in traces["metrics"]["panels"] if p["title"].startswith("MAUVE"))
    drawn = sorted(x for series in panel["series"] for x, _ in series["points"])
    means = sorted(i.mean for i in results.values if (i.system, i.key) == ("model", "mauve"))
    assert drawn == [float(f"{m:.6g}") for m in means]
    assert [text for _, text in panel["y"]["ticks"]] == ["greedy", "nucleus p=0.95"]
    assert ["across" in series for series in panel["series"]] == [False, True]  # greedy has no error
    assert traces["quality_diversity"]["panels"][0]["x"]["kind"] == "log"
    labels = {one["label"].partition(" (")[0] for one in traces["divergence"]["panels"][0]["series"]}
    assert labels == {"greedy", "nucleus p=0.95"}


def test_lines_bands_rules_and_powers():
    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 10, 1000], [0, 1, float("nan")], label="a", linestyle="--")
    axes.fill_between([1, 10], [0, 0], [1, 2])
    axes.axhline(0.5)
    axes.set_xscale("log")
    figure.canvas.draw()
    (panel,) = trace_figure(figure)["panels"]
    assert panel["series"][0] | {"color": "", "width": 0} == {
        "label": "a",
        "points": [[1, 0], [10, 1]],
        "color": "",
        "line": "--",
        "width": 0,
    }
    assert panel["rules"][0]["y"] == 0.5
    assert len(panel["bands"]) == 1
    assert ["10¹", 10.0] in [[text, place] for place, text in panel["x"]["ticks"]]


def test_a_shaded_plane_is_left_to_its_picture():
    figure = Figure()
    figure.subplots().imshow([[0, 1], [1, 0]])
    assert trace_figure(figure) is None
