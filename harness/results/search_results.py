"""Results of a hyperparameter search (trials, best settings, importance) in the JSON file of its grid folder."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from openended.harness.core import DataError, read_json, write_json

SEARCH = "search.json"


@dataclass(frozen=True, slots=True)
class SearchObjective:
    """An objective of a search."""

    title: str
    direction: Literal["maximize", "minimize"]

    @property
    def sign(self) -> float:
        """Factor that turns a value into a cost (lower is better)."""
        return -1.0 if self.direction == "maximize" else 1.0


@dataclass(frozen=True, slots=True)
class SearchTrial:
    """One trial of a search: a setting and its values."""

    number: int
    state: str
    """`complete`, `pruned` (stopped at a smaller size) or `failed`."""
    setting: Mapping[str, str]
    """Option → value."""
    values: tuple[float, ...]
    """Mean over seeds of each objective; for a pruned trial at its last size, empty for a failed one."""
    seeds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Seed → values."""
    fresh: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Confirmation seed → values."""
    size: int | None = None
    """Last `num_examples` of a pruned trial; None for the full size."""
    error: str = ""
    runs: tuple[str, ...] = ()
    """Folders of its runs at the full size."""

    @property
    def label(self) -> str:
        """The setting as text: choices by name, options without their prefix."""
        parts = [v if "." not in k else f"{k.rpartition('.')[2]}={v}" for k, v in self.setting.items()]
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """State of a search."""

    name: str
    sampler: str
    objectives: tuple[SearchObjective, ...]
    trials: tuple[SearchTrial, ...]
    importance: tuple[Mapping[str, float], ...] = ()
    """For each objective: parameter → share of importance."""
    rungs: tuple[int, ...] = ()

    @property
    def complete(self) -> list[SearchTrial]:
        """The complete trials, ordered by number."""
        return [t for t in self.trials if t.state == "complete"]

    def front(self) -> list[SearchTrial]:
        """Return the Pareto front of the complete trials, best first.

        With one objective these are the best trial and any that tie with it.
        """
        costs = {t.number: [v * o.sign for v, o in zip(t.values, self.objectives, strict=True)] for t in self.complete}
        return [t for t in self.rank_trials() if not any(dominates(cost, costs[t.number]) for cost in costs.values())]

    def rank_trials(self) -> list[SearchTrial]:
        """Return the complete trials, best first: by the first objective, then by the others."""
        signs = [objective.sign for objective in self.objectives]
        return sorted(self.complete, key=lambda t: ([v * s for v, s in zip(t.values, signs, strict=True)], t.number))


def dominates(first: list[float], second: list[float]) -> bool:
    """Return whether the first costs Pareto-dominate the second: nowhere higher, somewhere lower.

    >>> dominates([1, 2], [1, 3]), dominates([1, 2], [1, 2]), dominates([0, 3], [1, 2])
    (True, False, False)
    """
    return all(a <= b for a, b in zip(first, second, strict=True)) and first != second


def save_search(folder: Path, searched: SearchResult) -> None:
    """Write a search result into the folder of its grid."""
    write_json(folder / SEARCH, dataclasses.asdict(searched))


def read_search(folder: Path) -> SearchResult | None:
    """Read the search result in a grid's folder; None if there is none.

    Raises:
        DataError: If its file is damaged.
    """
    path = folder / SEARCH
    if not path.is_file():
        return None
    node = read_json(path)
    try:
        for trial in node["trials"]:
            trial["values"], trial["runs"] = _parse_numbers(trial["values"]), tuple(trial["runs"])
            for name in ("seeds", "fresh"):
                trial[name] = {seed: _parse_numbers(values) for seed, values in trial[name].items()}
        lists = {name: tuple(node[name]) for name in ("importance", "rungs")}
        trials = tuple(SearchTrial(**entry) for entry in node["trials"])
        objectives = tuple(SearchObjective(**entry) for entry in node["objectives"])
        return SearchResult(node["name"], node["sampler"], objectives, trials, **lists)
    except (KeyError, TypeError, AttributeError) as err:
        raise DataError(f"{path}: not a valid search file ({type(err).__name__}: {err})") from err


def _parse_numbers(values: list[float | None]) -> tuple[float, ...]:
    return tuple(math.nan if v is None else float(v) for v in values)
