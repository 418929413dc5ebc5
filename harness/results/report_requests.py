"""The runs that the words of a command name, by grids, experiments, archives or paths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, split_commas, suggest
from openended.harness.results.grids import DECISIONS, RUNS, read_grid, read_grids
from openended.harness.results.runs import list_archives
from openended.harness.storage import RECORD


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """Runs to report on, and the layout options of their last report."""

    paths: tuple[Path, ...]
    name: str  # of the report's folder
    options: Mapping[str, Any] | None  # None if the runs belong to no grid or to grids with different options
    grid: Path | None = None  # folder of the grid, if the runs are those of one
    decided: tuple[str, ...] = ()  # of several words, those that name grids with decisions


def _split_word(word: str) -> list[str]:
    """Return the names in a word, separated by commas; a path stays as it is."""
    is_path = "," not in word or (len(word) < 256 and Path(word).exists())
    return [word] if is_path else split_commas(word) or [word]


def resolve_report_request(words: Sequence[str], outputs: Path) -> ReportRequest:
    """Resolve names of grids and experiments, folders of grids, and paths of runs; commas separate names too.

    Raises:
        DataError: If a word is neither a path nor a known name; lists the known names.
    """
    words = [part for word in words for part in _split_word(word)]
    resolved = [_resolve_word(word, outputs) for word in words]
    same = all(options == resolved[0][1] for _, options, _ in resolved)
    first = Path(words[0]).resolve()
    if (grid := read_grid(first)) is not None:
        name = grid.name
    else:
        name = first.parent.name if first.name == RECORD else first.name
    title = name if len(words) == 1 else f"{name}-and-{len(words) - 1}-more"
    paths = tuple(path for of_word, _, _ in resolved for path in of_word)
    grids = [grid for _, _, grid in resolved]
    decided = tuple(w for w, g in zip(words, grids, strict=True) if g is not None and (g / DECISIONS).is_file())
    options = resolved[0][1] if same else None
    return ReportRequest(paths, title, options, *((grids[0],) if len(words) == 1 else (None, decided)))


def _resolve_word(word: str, outputs: Path) -> tuple[list[Path], Mapping[str, Any] | None, Path | None]:
    """Return the runs that a word names, the layout options of their last report, and their grid if there is one."""
    path = Path(word)
    grid = read_grid(path)
    if grid is None and not path.exists() and not (outputs / RUNS / word).is_dir():
        grids = read_grids(outputs)
        by_name = {grid.folder.name: grid for grid in grids} | {grid.name: grid for grid in grids}
        names = {*by_name, *(p.name for p in (outputs / RUNS).glob("*") if p.is_dir())}
        if word not in by_name and (of_archives := _resolve_in_archives(word, outputs)) is not None:
            return of_archives
        names |= {archive.name for archive in list_archives(outputs)}
        if word not in by_name:
            end = path.name if path.name in names else word
            choices = {str(outputs / RUNS), *(str(outputs / RUNS / name) for name in names)} if "/" in end else names
            raise DataError(f"no run folder or run name {word!r}{suggest(end, choices) if names else ''}")
        grid = by_name[word]
    if grid is not None:  # the runs of a grid over a series carry the names of its experiments
        if not (runs := grid.runs()):
            raise DataError(f"{grid.folder}: no job of this grid has finished")
        return runs, grid.reports.get(grid.name), grid.folder
    path = path if path.exists() else outputs / RUNS / word
    whole = path.resolve()
    outputs = next((p.parent for p in (whole, whole.parent) if p.name == RUNS), outputs)
    grids = read_grids(outputs)
    lost = [run for grid in grids for run in grid.list_lost() if whole in run.parents]
    for grid in reversed(grids if whole.parent.name == RUNS else []):
        if layout := grid.reports.get(path.resolve().name):
            decides = (grid.folder / DECISIONS).is_file()  # about its own runs, not others of its name
            return (grid.runs() if decides else [path, *lost]), layout, grid.folder if decides else None
    return [path, *lost], None, None


def _resolve_in_archives(word: str, outputs: Path) -> tuple[list[Path], Mapping[str, Any] | None, Path | None] | None:
    """Return what a word names in the imported archives: one of them, or a name of runs that one of them has."""
    archives = list_archives(outputs)
    if named := next((archive for archive in archives if archive.name == word), None):
        if (named / RUNS / word).is_dir():
            return _resolve_word(word, named)
        return [named / RUNS], None, None
    holders = [archive for archive in archives if (archive / RUNS / word).is_dir()]
    if len(holders) > 1:
        paths = ", ".join(str(archive / RUNS / word) for archive in holders)
        raise DataError(f"{word!r}: several archives have runs of this name; name one or more of {paths}")
    return _resolve_word(word, holders[0]) if holders else None
