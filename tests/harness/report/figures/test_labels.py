"""Labels of points cover no line, no mark and no other label, and stay inside the axes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from openended.harness.report.figures import frontiers
from openended.harness.report.figures.drawing import COLUMN, apply_style, choose_style, create_figure
from openended.harness.report.figures.labels import Label, draw_labels
from openended.harness.report.figures.people import huse_parts
from openended.harness.results.frame import read_results
from tests.harness.report.synthetic import result, write_run


@pytest.fixture(autouse=True)
def style():
    with apply_style():
        yield


def boxes_of(panel):
    panel.figure.draw_without_rendering()
    return [text.get_window_extent() for text in panel.texts]


def points_of(panel, share):
    """Points on all lines of a panel, in pixels."""
    for line in panel.get_lines():
        ends = line.get_transform().transform(np.asarray(line.get_xydata(), dtype=float))
        for a, b in itertools.pairwise(ends):
            yield from a + (b - a) * share[:, None]


def test_labels_of_crossing_lines_are_free():
    figure, (panel,) = create_figure(COLUMN, 2.6)
    panel.plot([0, 1, 2], [0, 2, 3], marker="o")
    panel.plot([0, 1, 2], [0.1, 1.9, 3], marker="s")
    panel.axhline(2.5, linestyle=":")
    panel.margins(0.15)
    ends = [(0, 0, "p=0.5"), (2, 3, "p=1"), (0, 0.1, "temperature"), (2, 3, "k=500")]
    draw_labels(figure, panel, [Label(text, x, y, "black") for x, y, text in ends])
    boxes, inside = boxes_of(panel), panel.get_window_extent()
    assert [text.get_text() for text in panel.texts] == [text for _, _, text in ends]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    for point in points_of(panel, np.linspace(0, 1, 200)):
        assert not any(box.contains(*point) for box in boxes)
    for box in boxes:
        assert inside.x0 <= box.x0
        assert box.x1 <= inside.x1
        assert inside.y0 <= box.y0
        assert box.y1 <= inside.y1


def test_a_decoder_that_is_its_parameter_is_named_once(tmp_path):
    for n, value in enumerate((0.6, 0.8, 1.2)):
        line = result("model", "gen_ppl", {"gen_ppl": 10.0 + n, "entropy": 2.0 + n}, family="scored")
        write_run(
            tmp_path, "temperature", 0, results=[line], options={"temperature": value}, title=f"temperature={value}"
        )
    results = read_results([tmp_path])
    (panel,) = frontiers.quality_diversity(results, results.values)["quality_diversity"].axes
    assert [text.get_text() for text in panel.texts] == ["0.6", "1.2"]
    assert [line.get_label() for line in panel.get_lines()] == ["temperature"]


def test_the_lines_of_equal_huse_are_named_beside_the_axes():
    (panel,) = huse_parts({"a": (0.58, 0.95), "b": (0.92, 0.34)}, [choose_style(0), choose_style(1)]).axes
    boxes = boxes_of(panel)
    edge = panel.get_window_extent().x1
    assert len(boxes) == 5
    assert all(box.x0 >= edge for box in boxes)
