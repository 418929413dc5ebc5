"""Match a run's system with a player of a file of judgments, so that no row shows the value of another system."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from openended.harness import core
from openended.harness.run.facts import collect_option_axes, derive_system_name
from openended.harness.run.settings import Settings


def find_player(settings: Settings, metric: core.ReadsFile, judged: Any, *, human: bool = False) -> str:  # noqa: ANN401
    """Return the name that a run's system, or its human text, has in what was read from a file.

    Raises:
        UndefinedMetric: If no player of the file is matched to it.
        SpecError: If the options name a player that is not there, or several.
    """
    players = metric.list_players(judged)
    names = ", ".join(sorted(players))
    if human:
        if core.HUMAN not in players:
            raise core.UndefinedMetric(
                f"no player of the file is the human text; it has {names}; judgment_players={{PLAYER: human}} names it"
            )
        return core.HUMAN
    typed = getattr(metric, "system", None)
    if typed is not None:
        if typed not in players:
            raise core.SpecError(f"metric.{metric.name}.system: expected one of {names}, as rated, got {typed}")
        return str(typed)
    matched = [player for player in list_players(settings) if player in players]
    if len(matched) > 1:
        raise core.SpecError(
            f"judgment_players: {' and '.join(matched)} are matched to one system, {name_system(settings)}; "
            "add an axis that tells them apart, as decoder.p"
        )
    if matched:
        return matched[0]
    if set(players) - {core.HUMAN} == {core.UNNAMED}:  # the file is about one system and does not name it
        return core.UNNAMED
    raise core.UndefinedMetric(
        f"no player of the file is matched to this system; it has {names}; "
        "judgment_players={PLAYER: {model: MODEL, decoder: DECODER}} matches one"
    )


def check_players(grid: Iterable[Settings]) -> None:
    """Refuse a grid in which one player, or one file of vectors, would give its value to several systems."""
    systems: dict[tuple[str, ...], dict[str, str]] = {}
    read: dict[tuple[core.ReadsFile, str], Any] = {}
    for settings in grid:
        path = Path(str(settings.judgments))
        axes = {axis: value for axis, value in _collect_axes(settings).items() if not axis.startswith("task.")}
        vectors = settings.vector_files
        sources: set[tuple[str, ...]] = {("features.model", str(vectors["model"]))} if vectors else set()
        for metric in settings.list_judging() if path.is_file() else ():
            try:
                if (metric, str(path)) not in read:
                    read[metric, str(path)] = settings.read_judgments(metric, path)
                player = find_player(settings, metric, read[metric, str(path)])
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


def list_players(settings: Settings) -> list[str]:
    """Return the players that `judgment_players` matches to a run's system; at most one of them is in a file."""
    axes = _collect_axes(settings)
    return [
        player
        for player, system in settings.judgment_players.items()
        if isinstance(system, dict) and all(axes.get(axis) == _format(value) for axis, value in system.items())
    ]


def _format(value: core.Json) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def name_system(settings: Settings) -> str:
    """Name the system of a run by its model and decoder, for messages."""
    axes = _collect_axes(settings)
    return " ".join(f"{axis}={axes[axis]}" for axis in ("model", "decoder") if axis in axes)


def _collect_axes(settings: Settings) -> dict[str, str]:
    """Return the axes that a player is described by; unlike those of a record they need no file."""
    out: dict[str, core.Json] = {"task": settings.task.name, **collect_option_axes("task", settings.task)}
    if settings.generations is not None:
        name = settings.system or derive_system_name(Path(settings.generations))
        out |= {"model": name, "decoder": "imported", "generations": settings.generations}
    if settings.model is not None and settings.decoder is not None:
        model, decoder = settings.model, settings.decoder
        out |= {"model": model.title, **collect_option_axes("model", model)}
        out |= {"decoder": decoder.name, **collect_option_axes("decoder", decoder)}
    out |= {name: getattr(settings, name) for name in ("samples", "max_new_tokens", "min_new_tokens")}
    return {axis: _format(value) for axis, value in out.items()}
