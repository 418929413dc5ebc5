"""Match a run's system with a name in a file of judgments, so that no row shows the value of another system."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from openended.harness import core
from openended.harness.run.axes import collect_model_axes, collect_option_axes, derive_system_name
from openended.harness.run.settings import NO_JUDGMENTS, JudgmentOptions, Settings


@dataclass(frozen=True, slots=True)
class JudgmentSource:
    """The file of judgments of a run, and what its system is found by in it."""

    options: JudgmentOptions
    readers: Sequence[core.ReadsFile]
    """The metrics of the run that read judgments."""
    axes: Mapping[str, str]
    """Of the system; unlike those of a record, they need no file."""
    identify: Callable[[], str] = str
    """Returns `identify_texts` of the run; reads the model's weights where their digest is not cached."""

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        texts, model, decoder = settings.texts, settings.models.model, settings.decoder
        out: dict[str, core.Json] = {"task": settings.task.name, **collect_option_axes("task", settings.task)}
        if texts.generations is not None:
            name = texts.system or derive_system_name(Path(texts.generations))
            out |= {"model": name, "decoder": "imported", "generations": texts.generations}
        if model is not None and decoder is not None:
            out |= {"model": model.title, **collect_option_axes("model", model)}
            out |= {"decoder": decoder.name, **collect_option_axes("decoder", decoder)}
        out |= {name: getattr(texts, name) for name in ("samples", "max_new_tokens", "min_new_tokens")}

        def identify() -> str:
            return identify_texts(settings.describe(), collect_model_axes("model", model))

        axes = {axis: _format(value) for axis, value in out.items()}
        return cls(settings.judgments, settings.list_judging(), axes, identify)

    def digest(self) -> str:
        """Digest of the file, of how its columns are read, and of the names of the human text."""
        options = self.options
        return core.digest([core.digest_file(self.file), dict(options.columns), *options.human_players])

    @property
    def file(self) -> Path:
        """The file of a run that has one."""
        if self.options.path is None:
            raise core.UndefinedMetric(
                "there are no human judgments; judgments=FILE adds them"
                if self.options.file in (None, NO_JUDGMENTS)
                else f"judgments={self.options.file} rates the texts of a whole grid once all exist: add -m"
            )
        return self.options.path

    def read(self, metric: core.ReadsFile) -> core.JudgmentFile:
        """Read the file as the user describes its columns and players."""
        from openended.metrics.judgments import check_judgments_file

        check_judgments_file(self.file)
        return _read_file(metric, *self._version, self.options.human_players)

    @property
    def _version(self) -> tuple[Path, tuple[int, int], tuple[tuple[str, str], ...]]:
        """The file, what changes with its bytes, and how its columns are read: of the keys of caches."""
        state = self.file.stat()
        return self.file, (state.st_mtime_ns, state.st_size), tuple(self.options.columns.items())

    def list_players(self) -> list[str]:
        """Return the players that `judgment_systems` matches to the run's system; at most one of them is in a file."""
        return [
            player
            for player, system in self.options.systems.items()
            if isinstance(system, dict) and all(self.axes.get(axis) == _format(v) for axis, v in system.items())
        ]

    @property
    def system_name(self) -> str:
        """The system of the run by its model and decoder, for messages."""
        return " ".join(f"{axis}={self.axes[axis]}" for axis in ("model", "decoder") if axis in self.axes)

    def read_player(self, metric: core.ReadsFile, *, human: bool = False) -> tuple[core.JudgmentFile, str]:
        """Read the file; return what is in it, and the name that the run's system, or its human text, has there.

        Raises:
            UndefinedMetric: If there is no file, or no player of it is matched.
        """
        judged = self.read(metric)
        return judged, self.find_player(metric, judged, human=human)

    def check(self) -> list[str]:
        """Read the file for every metric that needs it; return which of them have no value, and why."""
        source, path = self.options.file, self.options.path
        if source not in (None, NO_JUDGMENTS) and not self.readers:
            able = [m.name for m in list_metrics_for_file(path, self.options.columns)] if path is not None else ["huse"]
            raise core.SpecError(
                f"judgments={source}: no metric of this run reads judgments; "
                f"add {' or '.join(able)} to metric=[…], or leave it out"
            )
        remarks: list[str] = []
        for metric in self.readers:
            if source is None:
                raise core.SpecError(
                    f"metric.{metric.name}: needs human judgments; add judgments=FILE, or leave it out of metric=[…]"
                )
            if path is not None:
                try:
                    self.read_player(metric)
                except core.UndefinedMetric as err:
                    remarks.append(f"metric {metric.name} has no value of this run: {err}")
        return remarks

    def find_player(self, metric: core.ReadsFile, judged: core.JudgmentFile, *, human: bool = False) -> str:
        """Return the name that the run's system, or its human text, has in what was read from the file.

        Raises:
            UndefinedMetric: If no player of the file is matched to it.
            SpecError: If the options name a player that is not there, or several.
        """
        players = judged.players
        names = ", ".join(sorted(players))
        if human:
            if core.HUMAN not in players:
                raise core.UndefinedMetric(
                    f"no name in the file is the human text; it has {names}; judgment_systems={{NAME: human}} names it"
                )
            return core.HUMAN
        typed = getattr(metric, "system", None)
        if typed is not None:
            if typed not in players:
                raise core.SpecError(f"metric.{metric.name}.system: expected one of {names}, as rated, got {typed}")
            return str(typed)
        texts_ids = _read_texts_ids(*self._version)
        matched = [player for player in self.list_players() if player in players]
        if texts_ids and not matched:
            run_id = self.identify()
            matched = [player for player in players if texts_ids.get(player) == run_id]
        if len(matched) > 1:
            raise core.SpecError(
                f"judgment_systems: {' and '.join(matched)} are matched to one system, {self.system_name}; "
                "add an axis that tells them apart, as decoder.p"
            )
        if matched:
            return matched[0]
        if set(players) - {core.HUMAN} == {core.UNNAMED}:  # the file is about one system and does not name it
            return core.UNNAMED
        others = ": the rated texts have another seed or other options" if texts_ids else ""
        raise core.UndefinedMetric(
            f"no name in the file is matched to this system{others}; it has {names}; "
            "judgment_systems={NAME: {model: MODEL, decoder: DECODER}} matches one"
        )


@lru_cache(maxsize=8)  # the jobs of a grid share a file
def _read_file(
    metric: core.ReadsFile,
    path: Path,
    changed: tuple[int, int],  # noqa: ARG001 - of the key
    columns: tuple[tuple[str, str], ...],
    human: tuple[str, ...],
) -> core.JudgmentFile:
    return metric.read(path, dict(columns), human)


@lru_cache(maxsize=8)
def _read_texts_ids(
    path: Path,
    changed: tuple[int, int],  # noqa: ARG001 - of the key
    columns: tuple[tuple[str, str], ...],
) -> Mapping[str, str]:
    from openended.metrics.judgments import read_rows

    names, rows = read_rows(path, dict(columns))
    pairs = [(f"system{side}", f"texts_id{side}") for side in ("", "_a", "_b") if f"texts_id{side}" in names]
    cells = ((row.cells.get(system), row.cells.get(texts_id)) for row in rows for system, texts_id in pairs)
    return {str(player): str(texts_id) for player, texts_id in cells if player and texts_id}


_UNIDENTIFYING_OPTIONS = {"num_examples", "samples", "human_examples", "system", "label", "path", "revision"}


def identify_texts(spec: Mapping[str, Any], axes: Mapping[str, Any]) -> str:
    """Return an id of all that a run's texts depend on, their number aside.

    A study writes the ids of the rated systems into its judgments, so that a run finds its own.

    Args:
        spec: Of the run's settings, as in its record.
        axes: Have `model.digest`, which stands for the path of the model.
    """
    parts = spec.get("task"), (spec.get("models") or {}).get("model"), spec.get("decoder"), spec.get("texts")
    options = [{k: v for k, v in (part or {}).items() if k not in _UNIDENTIFYING_OPTIONS} for part in parts]
    return core.digest([core.make_shareable(core.to_json(options)), axes.get("model.digest")])[:12]


def check_players(grid: Iterable[Settings]) -> None:
    """Refuse a grid in which one player, or one file of vectors, would give its value to several systems."""
    systems: dict[tuple[str, ...], dict[str, str]] = {}
    for settings in grid:
        path, vectors = settings.judgments.path, settings.models.features
        if path is None and not vectors:
            continue
        judgments = JudgmentSource.from_settings(settings)
        axes = {axis: value for axis, value in judgments.axes.items() if not axis.startswith("task.")}
        sources: set[tuple[str, ...]] = {("features.model", vectors["model"])} if vectors else set()
        for metric in judgments.readers if path is not None and path.is_file() else ():
            try:
                _, player = judgments.read_player(metric)
            except core.HarnessError:
                continue  # it has no value, or the run refuses it
            sources.add(("judgments", str(settings.judgments.file), player))
        for source in sources:
            if (other := systems.setdefault(source, axes)) != axes:
                option, file, *named = source
                what = f"{option}={file}" + (f": system {named[0]}" if named else "")
                advice = "judgment_systems={NAME: {AXIS: VALUE}} tells them apart" if named else "give each its own"
                differ = [axis for axis in {**other, **axes} if other.get(axis) != axes.get(axis)]
                visible = [axis for axis in differ if "." not in axis or axis.partition(".")[0] not in differ]
                first, second = (" ".join(f"{a}={s[a]}" for a in visible if a in s) for s in (other, axes))
                raise core.SpecError(f"{what} is matched to two systems, {first} and {second}; {advice}")


def _format(value: core.Json) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def list_metrics_for_file(path: Path, renamed: Mapping[str, str]) -> tuple[core.JudgmentMetric, ...]:
    """Return the metrics that can read a file of judgments; `renamed`: our name of a column → the file's."""
    from openended.metrics.judgments import check_judgments_file, read_rows

    check_judgments_file(path)
    columns, rows = read_rows(path, renamed)
    kinds = [cls for cls in core.load_members("metric").values() if issubclass(cls, core.JudgmentMetric)]
    fed = tuple(cls() for cls in kinds if cls.accepts_columns(columns, rows))
    if not fed:
        raise core.DataError(
            f"judgments: {path} has the columns {', '.join(columns)}: neither ratings (example_id, system, rating) nor "
            "comparisons (item, system_a, system_b, outcome); judgment_columns={ours: theirs} names them"
        )
    return fed
