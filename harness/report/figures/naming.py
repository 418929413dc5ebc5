"""Names of figures' files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from openended.harness.report.tables.selection import name_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Told = tuple[str, ...]


def named(name: str, figures: Mapping[Told, Figure | None], *, always: bool = False) -> dict[str, Figure]:
    """Name those figures that were drawn: by what they show, and where there are several, by what tells them apart.

    Args:
        name: What they show.
        figures: What each is about (task, options, …) → the figure, or None where there is nothing to draw.
        always: The last word of what it is about (a system) is named even if there is but one figure.
    """
    drawn = {told: figure for told, figure in figures.items() if figure is not None}
    differ = [at for at, words in enumerate(zip(*drawn, strict=True)) if len(set(words)) > 1]
    differ += [len(told) - 1 for told in list(drawn)[:1] if always and len(told) - 1 not in differ]
    names = name_files(name, [[told[at] for at in differ] for told in drawn])
    return dict(zip(names, drawn.values(), strict=True))
