"""What a benchmark is. Each area is a module beside this one with a list `WORKS` of `Work`.

The runner (`scripts/bench.py`) runs ours and the peer's in turn, each in a fresh process: `prepare` is not timed (make
the data and import the libraries there), `ours(data)` and `peer(data)` are. What they return must be JSON (numbers,
lists, dictionaries with string keys) and small; `agree` gets both and says in a few words how near they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


def _no_data() -> None:
    """Prepare nothing."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """One line of the table."""

    name: str
    """The work and its size, for example `self_bleu, 5,000 texts × 500 tokens, order 4`; unique in its area."""
    ours: Callable[[Any], Any]
    prepare: Callable[[], Any] = _no_data
    """Makes the data that `ours` gets; the same in every process (seeded)."""
    against: str = "–"
    """The peer and what of it is called."""
    peer: Callable[[Any], Any] | None = None
    prepare_peer: Callable[[], Any] | None = None
    """Makes the data that `peer` gets, where it is not what `ours` gets."""
    peer_needs: tuple[str, ...] = ()
    """Modules that the peer needs; the peer is skipped, with the reason, where one is missing."""
    peer_share: float = 1.0
    """The share of the work that `peer` does; its time is divided by it, and the table says `extrapolated`."""
    at_least: float | None = None
    """The ratio of times that is asked for."""
    at_most_seconds: float | None = None
    at_most_mib: float | None = None
    """The peak memory above the data that is asked for."""
    agree: Callable[[Any, Any], str] | None = None
    """How near the two results are, in a few words; gets (ours, peer)."""
    say: Callable[[Any], str] | None = None
    """A remark made from our result."""
    repeats: int | None = None
    """Overrides `--repeats` for long works."""
    peer_repeats: int | None = None
    clock: Literal["wall", "cpu"] = "wall"
    """`cpu`: processor time of the process, for works in one thread: it holds on a shared machine. Both sides alike."""
    threads: int | None = None
    """Threads of BLAS and OpenMP in both processes; None: as the machine has them."""
    timeout: float = 3600.0
    """Seconds after which a process is given up."""


def max_gap(ours: dict[str, float], peer: dict[str, float]) -> str:
    """Say the largest absolute difference over the keys of both."""
    gap = max(abs(ours[key] - peer[key]) for key in ours.keys() & peer.keys())
    return "equal" if gap == 0 else f"≤ {gap:.0e}"
