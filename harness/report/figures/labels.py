"""Draw short labels next to points without covering lines, points or each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from openended.harness.core import F64

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

STEPS = 40  # sample points per line segment
PAD = 1.5  # points of free room around a label
ALIGN = {-1: ("right", "top"), 0: ("center", "center"), 1: ("left", "bottom")}
DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
# Candidate positions, nearest first: points between the data point and the edge or middle of the label, direction.
OFFSETS = [(far, dx, dy) for far in (5, 9, 14, 20) for dx, dy in DIRECTIONS]


class Label(NamedTuple):
    """A text next to a data point."""

    text: str
    x: float
    y: float
    color: str


def draw_labels(figure: Figure, panel: Axes, labels: Sequence[Label]) -> None:
    """Draw labels, each at the first free position, or else at the one that covers least.

    To be called last: the axes, their limits and all that is drawn in them are known by then.
    """
    figure.draw_without_rendering()
    occupied = _collect_drawn_points(panel)
    inside = panel.get_window_extent()
    boxes: list[Bbox] = []
    for label in labels:
        candidates = []
        for far, dx, dy in OFFSETS:
            text = panel.annotate(
                label.text, (label.x, label.y), xytext=(dx * far, dy * far), textcoords="offset points", fontsize=6,
                color=label.color, ha=ALIGN[dx][0], va=ALIGN[dy][1],
            )  # fmt: skip
            text.set_in_layout(False)  # the layout must not move after the position was chosen
            box = text.get_window_extent().padded(PAD * figure.dpi / 72)
            candidates.append((_compute_cost(box, occupied, boxes, inside), text, box))
        best = min(candidates, key=lambda candidate: candidate[0])
        for candidate in candidates:
            if candidate is not best:
                candidate[1].remove()
        boxes.append(best[2])


def _collect_drawn_points(panel: Axes) -> F64:
    """Sample all lines and markers densely; returns pixels of shape (points, 2)."""
    share = np.linspace(0, 1, STEPS)[:, None]
    points = []
    for line in panel.get_lines():
        ends = line.get_transform().transform(np.asarray(line.get_xydata(), dtype=np.float64))
        points += [a + (b - a) * share for a, b in pairwise(ends)]
        if line.get_marker() not in ("", "None", None):
            turn = np.linspace(0, 2 * np.pi, 12)[:, None]
            radius = line.get_markersize() / 2 * panel.figure.dpi / 72
            points += [end + radius * np.hstack([np.cos(turn), np.sin(turn)]) for end in ends]
    return np.concatenate(points) if points else np.empty((0, 2))


def _compute_cost(box: Bbox, occupied: F64, boxes: Sequence[Bbox], inside: Bbox) -> int:
    """Count what a label covers; another label, or the edge of the axes, weighs more than any line."""
    covered = (occupied > (box.x0, box.y0)).all(axis=1) & (occupied < (box.x1, box.y1)).all(axis=1)
    outside = bool(box.x0 < inside.x0 or box.x1 > inside.x1 or box.y0 < inside.y0 or box.y1 > inside.y1)
    return int(covered.sum()) + 1000 * (sum(box.overlaps(other) for other in boxes) + outside)
