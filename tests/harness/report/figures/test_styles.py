"""A system has one color, marker and dash in all figures; systems of one figure never look alike."""

from __future__ import annotations

from itertools import pairwise

from openended.harness.report.figures.draw import draw_all
from openended.harness.report.figures.drawing import DASHES, STYLES, choose_style, space_markers
from openended.harness.report.figures.styles import SystemStyles, read_styles
from openended.harness.results.frame import read_results
from openended.harness.results.systems import group_systems
from tests.harness.report.synthetic import quickstart, write_run


def test_a_system_has_one_color_in_every_figure(tmp_path):
    results = read_results([quickstart(tmp_path, decoders=("greedy", "ancestral", "nucleus"), texts=False)])
    traces = {}
    draw_all(results, tmp_path / "figures", traces=traces)
    colors = {}
    for trace in traces.values():
        for series in (s for panel in trace["panels"] for s in panel["series"] if s["label"] not in ("", "human")):
            colors.setdefault(series["label"].partition(" (")[0], set()).add(series["color"])
    assert len(traces) > 2
    assert len(colors) == 3
    assert all(len(used) == 1 for used in colors.values())
    assert len(set.union(*colors.values())) == 3


def test_a_subset_keeps_the_styles_of_the_whole(tmp_path):
    for p in (0.3, 0.5, 0.7):
        write_run(tmp_path, "nucleus", 0, options={"p": p}, title=f"nucleus p={p}")
    results = read_results([tmp_path])
    values = [system.items[0] for system in group_systems(results.values)]
    styles = read_styles(results).choose(values)
    assert styles == [choose_style(0), choose_style(1), choose_style(2)]
    assert read_styles(results).choose(values[2:]) == styles[2:]


def test_two_systems_of_one_figure_never_share_a_style(tmp_path):
    write_run(tmp_path, "nucleus", 0)
    (system,) = group_systems(read_results([tmp_path]).values)
    first, second = SystemStyles(system.items).choose([system.items[0], system.items[0]])
    assert first != second


def test_neighbors_differ_in_dash_and_coinciding_curves_in_the_place_of_their_markers():
    looks = [choose_style(index) for index in range(STYLES)]
    assert all(a["linestyle"] != b["linestyle"] for a, b in pairwise(looks))
    assert len({tuple(look.items()) for look in looks}) == STYLES == 7 * len(DASHES)
    spaced = [space_markers(120, index, 3) for index in range(3)]
    assert len({start for start, _ in spaced}) == 3
    assert {step for _, step in spaced} == {20}
    assert space_markers(2, 5, 6) == (0, 1)
