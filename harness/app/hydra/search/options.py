"""The options of a search, read from the composed configuration, and everything about them that can be wrong."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from openended.harness.app.hydra.compose import name_of, settings_of_jobs
from openended.harness.app.hydra.search.objectives import objectives_of
from openended.harness.app.hydra.search.space import Space, space_of, whole_hint
from openended.harness.app.hydra.search.study import AUTO, GRID_SAMPLER, Searching, SearchPlan
from openended.harness.core import SpecError, canonical, digest

log = logging.getLogger(__name__)

_NO_NUMBER = ("runtime.", "outputs_dir=", "name=", "plan_only=")  # words that change no text and no number


@dataclass(frozen=True, slots=True)
class Options:
    """A search, and how it is carried out."""

    plan: SearchPlan
    total: int
    """Settings that the study has at the end."""
    batch: int
    confirm_seeds: tuple[str, ...]
    storage: Path

    def told(self, left: int) -> str:
        """Say how many settings there are to try."""
        seeds = f", each with {len(self.plan.space.seeds)} seeds" if len(self.plan.space.seeds) > 1 else ""
        return f"{left} of {self.total} settings to try by {self.plan.method}{seeds}"

    def examples(self, count: int) -> list[dict[str, str]]:
        """Return settings as the search has them before it knows anything; nothing is kept."""
        drawn = Searching(SearchPlan("plan", self.plan.space, self.plan.objectives, self._first), None)
        drawn.start()
        return [chosen for _, chosen in drawn.ask(count)]

    @property
    def _first(self) -> str:
        return GRID_SAMPLER if self.plan.method == GRID_SAMPLER else "random"


def options_of(config: DictConfig) -> Options:
    """Read the options of a search.

    Raises:
        SpecError: Names the option, what it has, and what to type.
    """
    # Unresolved: a space may speak of an option of the job, `${model.label}`.
    raw = OmegaConf.to_container(config.hydra.sweeper, resolve=False)
    node: dict[str, Any] = {str(k): v for k, v in raw.items()} if isinstance(raw, dict) else {}
    space = space_of(_mapping(node, "params"), _mapping(node, "spaces"), list(config.hydra.overrides.task))
    rungs = _whole_numbers(node, "rungs")
    plan = SearchPlan(
        _name(config), space, objectives_of(node), str(node["sampler"]), _mapping(node, "sampler_options"),
        _whole(node, "sampler_seed", 0), rungs, _whole(node, "reduction", 2),
    )  # fmt: skip
    plan.check()
    plan = replace(plan, name=f"{plan.name}-{_digest(plan)}")
    total = len(space.every()) if plan.method == GRID_SAMPLER else _whole(node, "trials", 1)
    processes = int(config.hydra.launcher.get("processes") or 1)
    batch = processes if node["batch"] == AUTO else _whole(node, "batch", 1)
    confirm = tuple(map(str, _whole_numbers(node, "confirm_seeds")))
    seeds = space.seeds if space.seeds != ("",) else (str(config.seed),)
    if shared := set(confirm) & set(seeds):
        raise SpecError(
            f"confirm_seeds: {min(shared)} is a seed of the search itself; type others than {', '.join(seeds)}"
        )
    return Options(plan, total, batch, confirm, Path(str(config.hydra.sweeper.storage)))


def check_search(config: DictConfig) -> None:
    """See, before any model loads, that every end of every space makes a run that measures every objective.

    Raises:
        SpecError: Says what is wrong in one line.
    """
    options = options_of(config)
    space, plan = options.plan.space, options.plan
    jobs = [space.words(corner, space.seeds[0]) for corner in space.corners()]
    try:
        for settings in settings_of_jobs(jobs):
            for one in plan.objectives:
                one.check(settings.metrics)
            size = settings.num_examples
            if plan.rungs and isinstance(size, int) and plan.rungs[-1] >= size:
                raise SpecError(f"rungs: expected numbers below num_examples={size}, got {list(plan.rungs)}")
    except SpecError as err:
        raise SpecError(whole_hint(str(err), space.parameters)) from err


def _name(config: DictConfig) -> str:
    """Return the name of the study before its digest; the same command has the same, whenever it is given."""
    return name_of(config, config.hydra, Path("search"))


def _digest(plan: SearchPlan) -> str:
    """Return what tells searches of one name apart: all that decides which settings are tried, and their values."""
    fixed = sorted(word for word in plan.space.fixed if not word.startswith(_NO_NUMBER))
    parts = [fixed, canonical_parameters(plan.space), sorted(map(repr, plan.objectives)), plan.method]
    return digest([*parts, canonical(dict(plan.options)), plan.seed, list(plan.rungs), plan.reduction])[:8]


def canonical_parameters(space: Space) -> list[str]:
    """Return a space as texts."""
    given = [f"{choice}: {words}" for choice, words in sorted(space.given.items())]
    return [*map(repr, space.parameters), *given, *space.seeds]


def _mapping(node: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = node.get(name) or {}
    if not isinstance(value, dict):
        raise SpecError(f"{name}: expected names with their values, got {value!r:.60}")
    return {str(k): v for k, v in value.items()}


def _whole(node: Mapping[str, Any], name: str, least: int) -> int:
    value = node[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SpecError(f"{name}: expected a whole number of {least} or more, got {value!r:.40}")
    return value


def _whole_numbers(node: Mapping[str, Any], name: str) -> tuple[int, ...]:
    value = node.get(name) or []
    listed: Sequence[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(v, int) and not isinstance(v, bool) for v in listed):
        raise SpecError(f"{name}: expected a list of whole numbers, as in {name}=[50,150], got {value!r:.60}")
    return tuple(listed)
