"""The definition of a benchmark. A module of this folder has a dictionary `AREAS`: name → list of `Benchmark`.

The runner (`scripts/bench.py`) runs the harness and the peer in turn, each in a fresh process. `prepare` makes the data
and imports the libraries and is not timed; `harness(data)` and `peer(data)` are timed. Both return small JSON values
(numbers, lists, dictionaries with string keys). `agree` receives both and describes their difference in a few words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One line of the table."""

    name: str
    """The task and its size, for example `self_bleu, 5,000 texts × 500 tokens, order 4`; unique in its area."""
    harness: Callable[[Any], Any]
    prepare: Callable[[], Any] = lambda: None
    """Makes the input of `harness`, the same in every process (seeded)."""
    against: str = "–"
    """The peer and the function that is called."""
    peer: Callable[[Any], Any] | None = None
    prepare_peer: Callable[[], Any] | None = None
    """Makes the input of `peer`, if it differs from that of `harness`."""
    peer_needs: tuple[str, ...] = ()
    """Modules that the peer needs. If one is missing, the peer is skipped and the table shows the reason."""
    peer_share: float = 1.0
    """The share of the work that `peer` does. Its time is divided by it and marked `extrapolated`."""
    at_least: float | None = None
    """The target ratio of times, peer over harness."""
    at_most_seconds: float | None = None
    at_most_mib: float | None = None
    """The target for peak memory beyond the input data."""
    agree: Callable[[Any, Any], str] | None = None
    """Describes the difference of the two results; receives (harness, peer)."""
    say: Callable[[Any], str] | None = None
    """Describes the result of the harness."""
    repeats: int | None = None
    """Overrides `--repeats` for long works."""
    peer_repeats: int | None = None
    clock: Literal["wall", "cpu"] = "wall"
    """`cpu` is the CPU time of the process, for single-threaded work on a shared machine; it applies to both sides."""
    threads: int | None = None
    """Threads of BLAS and OpenMP in both processes; None keeps the default of the machine."""
    timeout: float = 3600.0
    """Seconds after which a process is stopped."""


def format_max_gap(harness: dict[str, float], peer: dict[str, float]) -> str:
    """Format the largest absolute difference over the shared keys."""
    gap = max(abs(harness[key] - peer[key]) for key in harness.keys() & peer.keys())
    return "equal" if gap == 0 else f"≤ {gap:.0e}"


def format_relative_gap(harness: dict[str, float], peer: dict[str, float]) -> str:
    """Format the largest relative difference over the keys of the peer."""
    return f"≤ {max(abs(harness[key] / peer[key] - 1) for key in peer):.0e} relative"


def format_equality(harness: object, peer: object) -> str:
    """Report whether both results are equal."""
    return "equal" if harness == peer else f"differ: {harness} {peer}"
