"""Read and check the options of a search from the composed configuration."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from openended.harness.app.hydra.compose import choose_name, iterate_settings
from openended.harness.app.hydra.search.objectives import parse_objectives
from openended.harness.app.hydra.search.space import Space, add_integer_hint, parse_space
from openended.harness.app.hydra.search.study import AUTO, GRID_SAMPLER, SearchPlan, StudyRunner
from openended.harness.core import SpecError, canonicalize, digest

log = logging.getLogger(__name__)

# Options that change neither texts nor numbers.
_IRRELEVANT_OPTIONS = ("runtime.", "outputs_dir=", "name=", "plan_only=")


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """A search and how to run it."""

    plan: SearchPlan
    total: int
    """Number of settings in the complete study."""
    batch: int
    confirm_seeds: tuple[str, ...]
    storage: Path

    def describe_remaining(self, left: int) -> str:
        """Describe how many settings are left to try."""
        seeds = f", each with {len(self.plan.space.seeds)} seeds" if len(self.plan.space.seeds) > 1 else ""
        return f"{left} of {self.total} settings to try by {self.plan.method}{seeds}"

    def examples(self, count: int) -> list[dict[str, str]]:
        """Return example settings from a fresh search; nothing is stored."""
        runner = StudyRunner(SearchPlan("plan", self.plan.space, self.plan.objectives, self._first), None)
        runner.start()
        return [chosen for _, chosen in runner.ask(count)]

    @property
    def _first(self) -> str:
        return GRID_SAMPLER if self.plan.method == GRID_SAMPLER else "random"


def parse_search_options(config: DictConfig) -> SearchOptions:
    """Read the options of a search."""
    # Unresolved, because a space may refer to an option of the job (`${model.label}`).
    raw = OmegaConf.to_container(config.hydra.sweeper, resolve=False)
    node: dict[str, Any] = {str(k): v for k, v in raw.items()} if isinstance(raw, dict) else {}
    words = list(config.hydra.overrides.task)
    space = parse_space(_read_mapping(node, "params"), _read_mapping(node, "spaces"), words)
    rungs = _read_integers(node, "rungs")
    sampler_options = _read_mapping(node, "sampler_options")
    plan = SearchPlan(
        _choose_study_name(config), space, parse_objectives(node), str(node["sampler"]), sampler_options,
        _read_integer(node, "sampler_seed", 0), rungs, _read_integer(node, "reduction", 2),
    )  # fmt: skip
    plan.check()
    plan = replace(plan, name=f"{plan.name}-{_digest(plan)}")
    total = len(space.list_settings()) if plan.method == GRID_SAMPLER else _read_integer(node, "trials", 1)
    processes = int(config.hydra.launcher.get("processes") or 1)
    batch = processes if node["batch"] == AUTO else _read_integer(node, "batch", 1)
    confirm = tuple(map(str, _read_integers(node, "confirm_seeds")))
    seeds = space.seeds if space.seeds != ("",) else (str(config.seed),)
    if shared := set(confirm) & set(seeds):
        raise SpecError(
            f"confirm_seeds: {min(shared)} is a seed of the search itself; type others than {', '.join(seeds)}"
        )
    return SearchOptions(plan, total, batch, confirm, Path(str(config.hydra.sweeper.storage)))


def check_search(config: DictConfig) -> None:
    """Check, before any model is loaded, that the bounds of every space give valid runs with every objective."""
    options = parse_search_options(config)
    space, plan = options.plan.space, options.plan
    jobs = [space.words(corner, space.seeds[0]) for corner in space.corners()]
    try:
        for settings in iterate_settings(jobs):
            for objective in plan.objectives:
                objective.check(settings.metrics)
            size = settings.num_examples
            if plan.rungs and isinstance(size, int) and plan.rungs[-1] >= size:
                raise SpecError(f"rungs: expected numbers below num_examples={size}, got {list(plan.rungs)}")
    except SpecError as err:
        raise SpecError(add_integer_hint(str(err), space.parameters)) from err


def _choose_study_name(config: DictConfig) -> str:
    """Return the name of the study without its digest; it depends only on the command."""
    return choose_name(config, config.hydra, Path("search"))


def _digest(plan: SearchPlan) -> str:
    """Return a digest of everything that affects which settings are tried or their values."""
    fixed = sorted(word for word in plan.space.fixed if not word.startswith(_IRRELEVANT_OPTIONS))
    parts = [fixed, list_space_parts(plan.space), sorted(map(repr, plan.objectives)), plan.method]
    return digest([*parts, canonicalize(dict(plan.options)), plan.seed, list(plan.rungs), plan.reduction])[:8]


def list_space_parts(space: Space) -> list[str]:
    """Return a space as strings for its digest, which thus depends on the field names of `Parameter`."""
    extra = [f"{choice}: {words}" for choice, words in sorted(space.extra_words.items())]
    return [*map(repr, space.parameters), *extra, *space.seeds]


def _read_mapping(node: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = node.get(name) or {}
    if not isinstance(value, dict):
        raise SpecError(f"{name}: expected names with their values, got {value!r:.60}")
    return {str(k): v for k, v in value.items()}


def _read_integer(node: Mapping[str, Any], name: str, least: int) -> int:
    value = node[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SpecError(f"{name}: expected a whole number of {least} or more, got {value!r:.40}")
    return value


def _read_integers(node: Mapping[str, Any], name: str) -> tuple[int, ...]:
    value = node.get(name) or []
    numbers: Sequence[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(v, int) and not isinstance(v, bool) for v in numbers):
        raise SpecError(f"{name}: expected a list of whole numbers, as in {name}=[50,150], got {value!r:.60}")
    return tuple(numbers)
