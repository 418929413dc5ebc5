"""The settings that a search tried and their values, as the file in the folder of its grid has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from openended.harness.core import write_json

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
    state: str  # `complete` or `failed`
    setting: Mapping[str, str]  # option → value
    values: tuple[float, ...]  # mean over seeds of each objective, or empty
    seeds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # seed → values
    fresh: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # confirmation seed → values
    error: str = ""
    runs: tuple[str, ...] = ()  # folders of its runs

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
    importance: tuple[Mapping[str, float], ...] = ()  # for each objective: parameter → share of importance

    @property
    def complete(self) -> list[SearchTrial]:
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
    write_json(folder / SEARCH, searched)
