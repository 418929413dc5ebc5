"""The texts that a page shows: which system wrote them, with which seed, and in which file of the store they lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from openended.harness.results import (
    ROW_FILES,
    Results,
    Run,
    find_distinguishing_axes,
    format_axis_value,
    format_option,
    locate_verified_file,
    parent_axis,
)
from openended.harness.storage import Rows

HUMAN = "human"


@dataclass(frozen=True, slots=True)
class TextSource:
    """All texts of one system with one seed, or of the human side."""

    system: str
    """The name that the tables use, with that of its report before it where two are compared; `human`."""
    side: int
    """Place of the human side that it belongs to."""
    seed: str
    rows: Rows
    results: Results
    runs: tuple[int, ...]
    """Places of the runs that know something about it in `results.runs`, the first that reads it first."""

    @property
    def role(self) -> str:
        """Whose rows of a record are about it: `human` or `model`."""
        return HUMAN if self.system.endswith(HUMAN) and not self.seed else "model"


@dataclass(slots=True)
class TextSide:
    """Prompts that several systems continue."""

    name: str
    """The task, with what tells it from other sides of the task; the first word of a permalink."""
    prompts: dict[str, str] = field(default_factory=dict)
    """Example id → prompt, in the order of the files."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """Everything that can be read on a page."""

    sides: tuple[TextSide, ...]
    systems: tuple[str, ...]
    sources: tuple[TextSource, ...]


def collect(reports: Sequence[tuple[str, Results]]) -> Shelf:
    """Return every text source of one report, or of several, each with a word that stands before its systems' names.

    Runs whose texts are no longer in the store are passed over.
    """
    sides: dict[str, TextSide] = {}
    axes: dict[str, Run] = {}
    sources: list[TextSource] = []
    labels: dict[str, None] = {}
    for prefix, results in reports:
        for label, seed, runs in _systems(results):
            run = results.runs[runs[0]]
            made = rows_of_run(results, run, "generate", "import")
            if made is None:
                continue
            human = rows_of_run(results, run, "human")
            known = {i: p for rows in (human, made) if rows for i, p in zip(rows.ids, rows.each("prompt"), strict=True)}
            key = _side_key(run, known, sides, shared=len(reports) > 1)
            side = sides.setdefault(key, TextSide(format_axis_value(run.axes.get("task")) or "texts"))
            place = list(sides).index(key)
            axes.setdefault(key, run)
            side.prompts = known | side.prompts if set(known) != set(side.prompts) else side.prompts
            if human is not None:
                sources += _human_source(prefix, place, human, results, run, sources)
            sources.append(TextSource(prefix + label, place, seed, made, results, runs))
            labels[label] = None
    _name_sides(sides, axes)
    humans = dict.fromkeys(s.system for s in sources if s.role == HUMAN)
    present = {s.system for s in sources}
    systems = [prefix + label for label in labels for prefix, _ in reports if prefix + label in present]
    return Shelf(tuple(sides.values()), (*humans, *systems), tuple(sources))


def _side_key(run: Run, known: Mapping[str, str], sides: Mapping[str, TextSide], *, shared: bool) -> str:
    """Return the key of a run's side; of two reports that of one with the same prompts, as far as both have them."""
    key = human_side(run)
    if key in sides or not shared:
        return key
    for other, side in sides.items():
        common = known.keys() & side.prompts.keys()
        if common and all(known[i] == side.prompts[i] for i in common):
            return other
    return key


def _human_source(
    prefix: str, place: int, rows: Rows, results: Results, run: Run, sources: Sequence[TextSource]
) -> list[TextSource]:
    """Return the human side if it is not among the sources yet; a second one of other texts has its report's name."""
    known = [s for s in sources if s.side == place and s.role == HUMAN]
    if any(s.rows.path == rows.path or s.rows.texts == rows.texts for s in known):
        return []
    name = prefix + HUMAN if known else HUMAN
    if any(s.system == name for s in known):
        return []
    about = tuple(at for at, other in enumerate(results.runs) if human_side(other) == human_side(run))
    return [TextSource(name, place, "", rows, results, about)]


def _systems(results: Results) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield name, seed and runs, in the order of the tables; a system without seeds has the seed `–`."""
    from openended.harness.results import fold_seeds, group_systems

    for system in group_systems(fold_seeds(results)):
        runs: dict[str, dict[int, None]] = {}
        for item in system.items:
            for seed, (at, _) in zip(item.values, item.sources, strict=True):
                told = format_axis_value(results.runs[at].axes.get("seed")) or "–"
                runs.setdefault(told if told != "–" else seed if len(item.values) > 1 else told, {})[at] = None
        for seed, places in runs.items():
            yield system.name, seed, tuple(places)


def human_side(run: Run) -> str:
    """Name what prompts and human texts of a run depend on."""
    kept = (n for n in run.axes if "task" in (n, parent_axis(n)) or n in ("max_new_tokens", "num_examples"))
    return str(run.axes.get("task.texts") or sorted((n, str(run.axes[n])) for n in kept))


def _name_sides(sides: Mapping[str, TextSide], runs: Mapping[str, Run]) -> None:
    """Tell sides of one task apart by the options in which they differ; by a number where there is none."""
    rows = [{n: format_axis_value(v) for n, v in runs[key].axes.items()} for key in sides]
    names = [n for row in rows for n in row if "task" in (n, parent_axis(n)) or n in ("max_new_tokens", "num_examples")]
    shown = [n for n in find_distinguishing_axes(rows, dict.fromkeys(names)) if n != "task"] if len(rows) > 1 else []
    taken: set[str] = set()
    for row, side in zip(rows, sides.values(), strict=True):
        side.name = ", ".join([side.name, *(format_option(n, row.get(n, "")) for n in shown)])
        while side.name in taken:
            side.name += "′"
        taken.add(side.name)


def rows_of_run(results: Results, run: Run, *stages: str) -> Rows | None:
    """Return the rows that a stage of a run left; None where they are no longer in the store, or damaged."""
    # A run names what it read `stage:what`.
    stage, artefact = next(
        ((n.partition(":")[0], a) for n, a in run.inputs.items() if n.partition(":")[0] in stages), ("", "")
    )
    path = locate_verified_file(run.store, artefact, ROW_FILES.get(stage, ""), results.damaged)
    return Rows(path) if path is not None else None


def feature_file(results: Results, run: Run, name: str, file: str) -> Path | None:
    """Return a file of the artefact that a run lists under a name (`score:model continuation`); None if it is gone."""
    return locate_verified_file(run.store, run.inputs.get(name), file, results.damaged)
