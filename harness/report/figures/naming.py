"""Choose the file names of figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from openended.harness.report.tables.selection import name_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FigureKey = tuple[str, ...]


def name_figures(name: str, figures: Mapping[FigureKey, Figure | None], *, always: bool = False) -> dict[str, Figure]:
    """Name the drawn figures by their subject and, if there are several, by what distinguishes them."""
    present = {key: figure for key, figure in figures.items() if figure is not None}
    differ = [at for at, words in enumerate(zip(*present, strict=True)) if len(set(words)) > 1]
    differ += [len(key) - 1 for key in list(present)[:1] if always and len(key) - 1 not in differ]
    names = name_files(name, [[key[at] for at in differ] for key in present])
    return dict(zip(names, present.values(), strict=True))
