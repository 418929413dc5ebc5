"""What a search left: its trials, the best of them, and what moved them; one JSON file in the folder of its grid."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from openended.harness.core import DataError, read_json, write_json

SEARCH = "search.json"


@dataclass(frozen=True, slots=True)
class Sought:
    """An objective of a search."""

    title: str
    direction: Literal["maximize", "minimize"]

    @property
    def sign(self) -> float:
        """What a value is multiplied with, so that less is better."""
        return -1.0 if self.direction == "maximize" else 1.0


@dataclass(frozen=True, slots=True)
class Tried:
    """One setting that a search tried."""

    number: int
    state: str
    """`complete`; `pruned`, it ended at a smaller size; `failed`."""
    setting: Mapping[str, str]
    """Option → value."""
    values: tuple[float, ...]
    """A value an objective: the mean over seeds; of a pruned one at the size where it ended, of a failed one none."""
    seeds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Seed → values."""
    fresh: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Seed of the confirmation → values."""
    size: int | None = None
    """`num_examples` where it ended; None: the whole."""
    error: str = ""
    runs: tuple[str, ...] = ()
    """Folders of its runs at the whole size."""

    @property
    def label(self) -> str:
        """The setting in words: a choice by its name, its options without whose they are."""
        parts = [v if "." not in k else f"{k.rpartition('.')[2]}={v}" for k, v in self.setting.items()]
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Searched:
    """A search as it stands."""

    name: str
    sampler: str
    objectives: tuple[Sought, ...]
    trials: tuple[Tried, ...]
    importance: tuple[Mapping[str, float], ...] = ()
    """An objective: parameter → share."""
    rungs: tuple[int, ...] = ()

    @property
    def complete(self) -> list[Tried]:
        """Those that were run to the end, in the order of their numbers."""
        return [t for t in self.trials if t.state == "complete"]

    def front(self) -> list[Tried]:
        """Return the trials that no other is at least as good as in all objectives and better in one, best first.

        For one objective that is the best (all that are equally good).
        """
        costs = {t.number: [v * o.sign for v, o in zip(t.values, self.objectives, strict=True)] for t in self.complete}
        kept = [t for t in self.complete if not any(dominates(costs[o], costs[t.number]) for o in costs)]
        return sorted(kept, key=lambda t: (costs[t.number], t.number))

    def ranked(self) -> list[Tried]:
        """Return the complete trials, best of the first objective first."""
        sign = self.objectives[0].sign
        return sorted(self.complete, key=lambda t: (t.values[0] * sign, t.number))


def dominates(one: list[float], other: list[float]) -> bool:
    """Say whether costs are nowhere higher than others, and lower somewhere.

    >>> dominates([1, 2], [1, 3]), dominates([1, 2], [1, 2]), dominates([0, 3], [1, 2])
    (True, False, False)
    """
    return all(a <= b for a, b in zip(one, other, strict=True)) and one != other


def save_search(folder: Path, searched: Searched) -> None:
    """Write a search into the folder of its grid."""
    write_json(folder / SEARCH, dataclasses.asdict(searched))


def read_search(folder: Path) -> Searched | None:
    """Return the search of a grid's folder; None where there is none.

    Raises:
        DataError: If its file is damaged.
    """
    path = folder / SEARCH
    if not path.is_file():
        return None
    node = read_json(path)
    try:
        trials = tuple(_tried(one) for one in node["trials"])
        objectives = tuple(Sought(**one) for one in node["objectives"])
        rest = {"importance": tuple(node["importance"]), "rungs": tuple(node["rungs"])}
        return Searched(node["name"], node["sampler"], objectives, trials, **rest)
    except (KeyError, TypeError, AttributeError) as err:
        raise DataError(f"{path}: not what a search writes ({type(err).__name__}: {err})") from err


def _tried(node: dict[str, Any]) -> Tried:
    by_seed = {name: {k: _numbers(v) for k, v in node[name].items()} for name in ("seeds", "fresh")}
    lists = {"values": _numbers(node["values"]), "runs": tuple(node["runs"])}
    return Tried(**{**node, **by_seed, **lists})


def _numbers(values: list[float | None]) -> tuple[float, ...]:
    return tuple(math.nan if v is None else float(v) for v in values)
