"""The texts on a page: their system, seed and file in the store."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from openended.harness import results as measured
from openended.harness.results import Results, Run, format_axis_value, read_rows_of_run
from openended.harness.storage import RowFile

HUMAN = "human"


@dataclass(frozen=True, slots=True)
class TextSource:
    """All texts of one system with one seed, or of the human side."""

    role: str  # which rows of a record are about these texts: `human` or `model`
    system: str  # the name that the tables use, with that of its report before it where two are compared; `human`
    side: int  # number of the human side that it belongs to
    seed: str
    rows: RowFile
    results: Results
    runs: tuple[Run, ...]  # that have data about it, in order of preference


@dataclass(slots=True)
class TextSide:
    """Prompts that several systems continue."""

    run: Run  # the first run with these prompts
    name: str  # the task with its distinguishing options; the first part of a permalink
    prompts: dict[str, str] = field(default_factory=dict)  # example id → prompt, in the order of the files


@dataclass(frozen=True, slots=True)
class PageTexts:
    """All texts that a page shows."""

    sides: tuple[TextSide, ...]
    systems: tuple[str, ...]
    sources: tuple[TextSource, ...]

    def find_human(self, source: TextSource) -> TextSource | None:
        """Return the human texts that a source is compared with: of two reports, those of its own if it has any."""
        humans = [s for s in self.sources if s.side == source.side and s.role == HUMAN]
        return next((s for s in humans if s.results is source.results), humans[0] if humans else None)


def collect_page_texts(reports: Sequence[tuple[str, Results]]) -> PageTexts:
    """Return every text source of one report, or of several, each with a prefix for its systems' names.

    Runs whose texts are no longer in the store are skipped.
    """
    sides: dict[str, TextSide] = {}
    sources: list[TextSource] = []
    labels: dict[str, None] = {}
    for prefix, results in reports:
        for label, seed, runs in _iterate_systems(results):
            run = runs[0]
            model_rows = read_rows_of_run(results, run, "model")
            if model_rows is None:
                continue
            human = read_rows_of_run(results, run, "human")
            prompts = {
                i: p for rows in (human, model_rows) if rows for i, p in zip(rows.ids, rows.each("prompt"), strict=True)
            }
            key = _find_side_key(run, prompts, sides, shared=len(reports) > 1)
            side = sides.setdefault(key, TextSide(run, run.task))
            number = list(sides).index(key)
            if set(prompts) != set(side.prompts):
                side.prompts = prompts | side.prompts
            if human is not None:
                sources += _make_human_source(prefix, number, human, results, run, sources)
            sources.append(TextSource("model", prefix + label, number, seed, model_rows, results, runs))
            labels[label] = None
    _name_sides(list(sides.values()))
    humans = dict.fromkeys(s.system for s in sources if s.role == HUMAN)
    present = {s.system for s in sources}
    systems = [prefix + label for label in labels for prefix, _ in reports if prefix + label in present]
    return PageTexts(tuple(sides.values()), (*humans, *systems), tuple(sources))


def _iterate_systems(results: Results) -> Iterator[tuple[str, str, tuple[Run, ...]]]:
    """Yield name, seed and runs, in the order of the tables; a system without seeds has the seed `–`."""
    for system in measured.group_systems(results.values):
        runs: dict[str, dict[Run, None]] = {}
        for item in system.items:
            for seed, (run, _) in zip(item.values, item.sources, strict=True):
                run_seed = format_axis_value(run.axes.get("seed"))
                runs.setdefault(run_seed or (seed if len(item.values) > 1 else "–"), {})[run] = None
        for seed, of_seed in runs.items():
            yield system.name, seed, tuple(of_seed)


def _find_side_key(run: Run, prompts: Mapping[str, str], sides: Mapping[str, TextSide], *, shared: bool) -> str:
    """Return the key of a run's side; of two shared reports, that of the side with the same prompts."""
    key = _make_side_key(run)
    for other, side in sides.items() if shared and key not in sides else ():
        common = prompts.keys() & side.prompts.keys()
        if common and all(prompts[i] == side.prompts[i] for i in common):
            return other
    return key


def _make_side_key(run: Run) -> str:
    """Return a key of everything that the prompts and human texts of a run depend on."""
    return str(run.axes.get("task.texts") or sorted((n, str(run.axes[n])) for n in run.axes if _is_data_axis(n)))


def _is_data_axis(name: str) -> bool:
    return "task" in (name, measured.get_parent_axis(name)) or name in ("max_new_tokens", "num_examples")


def _make_human_source(
    prefix: str, side: int, rows: RowFile, results: Results, run: Run, sources: Sequence[TextSource]
) -> list[TextSource]:
    """Return the human side if it is not among the sources yet; a second one of other texts has its report's name."""
    humans = [s for s in sources if s.side == side and s.role == HUMAN]
    name = prefix + HUMAN if humans else HUMAN
    if any(s.rows.path == rows.path or s.rows.texts == rows.texts or s.system == name for s in humans):
        return []
    key = _make_side_key(run)
    about = tuple(other for other in results.runs if _make_side_key(other) == key)
    return [TextSource(HUMAN, name, side, "", rows, results, about)]


def _name_sides(sides: Sequence[TextSide]) -> None:
    """Extend the names of sides of one task by the options in which they differ, or else by a prime."""
    rows = [{n: format_axis_value(v) for n, v in side.run.axes.items()} for side in sides]
    axes = dict.fromkeys(n for row in rows for n in row if _is_data_axis(n))
    distinguishing = [n for n in measured.find_distinguishing_axes(rows, axes) if n != "task"] if len(rows) > 1 else []
    used_names: set[str] = set()
    for row, side in zip(rows, sides, strict=True):
        side.name = ", ".join([side.name, *(measured.format_option(n, row.get(n, "")) for n in distinguishing)])
        while side.name in used_names:
            side.name += "′"
        used_names.add(side.name)
