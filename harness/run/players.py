"""Match a run's system with a player of a file of judgments, so that no row shows the value of another system."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from openended.harness import core
from openended.harness.run.axes import collect_model_axes, collect_option_axes, derive_system_name
from openended.harness.run.settings import NO_JUDGMENTS, Settings


@dataclass(frozen=True, slots=True)
class JudgmentSource:
    """The file of judgments of a run, how the user describes it, and the axes by which the run's system is found."""

    source: str | None
    """The option: a file, `none`, `simulated:…` or None."""
    columns: Mapping[str, str]
    players: Mapping[str, Any]
    axes: Mapping[str, str]
    identify: Callable[[], str] = str
    """Returns `identify_texts` of the run; reads the model's weights where their digest is not cached."""

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Return the judgments of a run; the axes of its system, unlike those of a record, need no file."""
        out: dict[str, core.Json] = {"task": settings.task.name, **collect_option_axes("task", settings.task)}
        if settings.generations is not None:
            name = settings.system or derive_system_name(Path(settings.generations))
            out |= {"model": name, "decoder": "imported", "generations": settings.generations}
        if settings.model is not None and settings.decoder is not None:
            model, decoder = settings.model, settings.decoder
            out |= {"model": model.title, **collect_option_axes("model", model)}
            out |= {"decoder": decoder.name, **collect_option_axes("decoder", decoder)}
        out |= {name: getattr(settings, name) for name in ("samples", "max_new_tokens", "min_new_tokens")}
        axes = {axis: _format(value) for axis, value in out.items()}

        def identify() -> str:
            spec = {**settings.spec(), "seed": settings.text_seed}
            return identify_texts(spec, collect_model_axes("model", settings.model))

        return cls(settings.judgments, settings.judgment_columns, settings.judgment_players, axes, identify)

    @property
    def path(self) -> Path | None:
        """The file; None where there is none."""
        is_file = self.source not in (None, NO_JUDGMENTS) and not str(self.source).startswith(core.SIMULATED)
        return Path(str(self.source)) if is_file else None

    @property
    def human_players(self) -> tuple[str, ...]:
        """Names of the human text in the file, other than `human`."""
        return tuple(sorted(name for name, system in self.players.items() if system == core.HUMAN))

    def digest(self) -> str:
        """Digest of the file, of how its columns are read, and of the names of the human text."""
        return core.digest([core.digest_file(Path(str(self.source))), dict(self.columns), *self.human_players])

    def read(self, metric: core.ReadsFile) -> core.JudgmentFile:
        """Read the file as the user describes its columns and players."""
        from openended.metrics.judgments import check_judgments_file

        path = Path(str(self.source))
        check_judgments_file(path)
        state = path.stat()
        changed = state.st_mtime_ns, state.st_size
        return _read_file(metric, path, changed, tuple(self.columns.items()), self.human_players)

    def _read_texts_ids(self) -> Mapping[str, str]:
        """Return player → `identify_texts` of the run whose texts were rated, of a file that a study made."""
        path = Path(str(self.source))
        state = path.stat()
        return _read_texts_ids(path, (state.st_mtime_ns, state.st_size), tuple(self.columns.items()))

    def list_players(self) -> list[str]:
        """Return the players that `judgment_players` matches to the run's system; at most one of them is in a file."""
        return [
            player
            for player, system in self.players.items()
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
        if self.path is None:
            raise core.UndefinedMetric(
                "there are no human judgments; judgments=FILE adds them"
                if self.source in (None, NO_JUDGMENTS)
                else f"judgments={self.source} rates the texts of a whole grid once all exist: add -m"
            )
        judged = self.read(metric)
        return judged, self.find_player(metric, judged, human=human)

    def check(self, readers: Sequence[core.ReadsFile]) -> list[str]:
        """Read the file for every metric that needs it; return which of them have no value, and why."""
        source, path = self.source, self.path
        if source not in (None, NO_JUDGMENTS) and not readers:
            able = [m.name for m in list_metrics_for_file(path, self.columns)] if path is not None else ["huse"]
            raise core.SpecError(
                f"judgments={source}: no metric of this run reads judgments; "
                f"add {' or '.join(able)} to metric=[…], or leave it out"
            )
        remarks: list[str] = []
        for metric in readers:
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
                    f"no player of the file is the human text; it has {names}; "
                    "judgment_players={PLAYER: human} names it"
                )
            return core.HUMAN
        typed = getattr(metric, "system", None)
        if typed is not None:
            if typed not in players:
                raise core.SpecError(f"metric.{metric.name}.system: expected one of {names}, as rated, got {typed}")
            return str(typed)
        texts_ids = self._read_texts_ids()
        matched = [player for player in self.list_players() if player in players]
        if texts_ids and not matched:
            run_id = self.identify()
            matched = [player for player in players if texts_ids.get(player) == run_id]
        if len(matched) > 1:
            raise core.SpecError(
                f"judgment_players: {' and '.join(matched)} are matched to one system, {self.system_name}; "
                "add an axis that tells them apart, as decoder.p"
            )
        if matched:
            return matched[0]
        if set(players) - {core.HUMAN} == {core.UNNAMED}:  # the file is about one system and does not name it
            return core.UNNAMED
        others = ": the rated texts have another seed or other options" if texts_ids else ""
        raise core.UndefinedMetric(
            f"no player of the file is matched to this system{others}; it has {names}; "
            "judgment_players={PLAYER: {model: MODEL, decoder: DECODER}} matches one"
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


_TEXT_OPTIONS = (
    "task", "model", "decoder", "max_new_tokens", "min_new_tokens", "seed", "continue_after_end", "prompting",
    "generations", "generations_field", "generations_role", "generations_thinking",
)  # fmt: skip


def identify_texts(spec: Mapping[str, Any], axes: Mapping[str, Any]) -> str:
    """Return an id of all that a run's texts depend on, their number aside.

    A study writes the ids of the rated systems into its judgments, so that a run finds its own.

    Args:
        spec: Of the run's settings, as in its record.
        axes: Have `model.digest`, which stands for the path of the model.
    """
    options = {name: spec.get(name) for name in _TEXT_OPTIONS}
    for name in ("task", "model", "decoder"):
        if isinstance(node := options[name], Mapping):
            options[name] = {k: v for k, v in node.items() if k not in ("label", "title", "path", "revision")}
    return core.digest([core.make_shareable(core.to_json(options)), axes.get("model.digest")])[:12]


def check_players(grid: Iterable[Settings]) -> None:
    """Refuse a grid in which one player, or one file of vectors, would give its value to several systems."""
    systems: dict[tuple[str, ...], dict[str, str]] = {}
    for settings in grid:
        if settings.judgments is None and not settings.vector_files:
            continue
        judgments = JudgmentSource.from_settings(settings)
        axes = {axis: value for axis, value in judgments.axes.items() if not axis.startswith("task.")}
        path = judgments.path
        vectors = settings.vector_files
        sources: set[tuple[str, ...]] = {("features.model", str(vectors["model"]))} if vectors else set()
        for metric in settings.list_judging() if path is not None and path.is_file() else ():
            try:
                _, player = judgments.read_player(metric)
            except core.HarnessError:
                continue  # it has no value, or the run refuses it
            sources.add(("judgments", str(settings.judgments), player))
        for source in sources:
            if (other := systems.setdefault(source, axes)) != axes:
                option, file, *named = source
                what = f"{option}={file}" + (f": player {named[0]}" if named else "")
                advice = "judgment_players={NAME: {AXIS: VALUE}} tells them apart" if named else "give each its own"
                differ = [axis for axis in {**other, **axes} if other.get(axis) != axes.get(axis)]
                visible = [axis for axis in differ if "." not in axis or axis.partition(".")[0] not in differ]
                first, second = (" ".join(f"{a}={s[a]}" for a in visible if a in s) for s in (other, axes))
                raise core.SpecError(f"{what} is matched to two systems, {first} and {second}; {advice}")


def _format(value: core.Json) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def select_metrics_for_file(
    metrics: tuple[core.Metric, ...], judgments: str | None, renamed: Mapping[str, str], overrides: Sequence[str]
) -> tuple[core.Metric, ...]:
    """Return the metrics that a file of judgments supports in place of the usual ones, if the user names nothing else.

    Raises:
        DataError: If no metric reads such a file; the message lists what each expects.
    """
    chosen = {word.lstrip("+~").partition("=")[0].partition(".")[0] for word in overrides}
    alone = not chosen & {"metric", "experiment", "task", "model", "decoder", "generations"}
    if judgments is None or not alone:
        return metrics
    from openended.metrics.judgments import read_rows

    able = list_metrics_for_file(Path(judgments), renamed)
    columns, _ = read_rows(Path(judgments), renamed)
    return tuple(metric for metric in able if metric.scores_without_run(columns)) or able


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
