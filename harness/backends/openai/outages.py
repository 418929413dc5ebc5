"""Track how long servers have refused connections, so that the jobs of a process wait for a dead server once."""

from __future__ import annotations

import time
from datetime import datetime
from typing import NamedTuple


class Outage(NamedTuple):
    """A server that refuses connections."""

    began: float
    """When it refused first, by the monotonic clock."""
    clock: str
    """The same, for people."""


_outages: dict[str, Outage] = {}


def note_refusal(root: str, patience: float) -> tuple[float, str]:
    """Note that a server refused a connection."""
    now = time.monotonic()
    outage = _outages.setdefault(root, Outage(now, datetime.now().astimezone().strftime("%H:%M:%S")))
    left = max(outage.began + patience - now, 0.0)
    tried = f"refused since {outage.clock}, retried for {patience:g} s (model.patience)"
    return left, tried if not left else f"refused since {outage.clock}"


def note_answer(root: str) -> None:
    """Note that a server answers."""
    _outages.pop(root, None)
