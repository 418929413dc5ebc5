"""Check whether the Hugging Face hub is switched off or unreachable."""

from __future__ import annotations

import logging
import os
import socket
import urllib.request
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urlsplit

log = logging.getLogger(__name__)

OFFLINE_VARIABLES = ("OPENENDED_OFFLINE", "HF_HUB_OFFLINE")  # switch off every download
NAMES = (*OFFLINE_VARIABLES, "TRANSFORMERS_OFFLINE")  # and those of models
SECONDS = 5.0  # seconds that a connection may take


def is_switched_off(names: Sequence[str]) -> bool:
    """Return whether one of these environment variables is set to true."""
    return any(os.environ.get(name, "").lower() in ("1", "true", "yes", "on") for name in names)


def is_offline() -> bool:
    """Return whether nothing can be fetched from the hub: it is switched off, or its host cannot be reached."""
    if is_switched_off(NAMES):
        return True
    from huggingface_hub import constants

    if is_reachable(constants.ENDPOINT):
        return False
    # The hub's client would retry for half a minute for every file, even for those in the cache.
    constants.HF_HUB_OFFLINE = True
    return True


@lru_cache
def is_reachable(endpoint: str) -> bool:
    """Return whether a host accepts connections, checked once per process; assumed behind a proxy."""
    parts = urlsplit(endpoint)
    if parts.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(parts.hostname or ""):
        return True
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=SECONDS).close()
    except OSError as err:
        log.warning("%s cannot be reached (%s); only cached files are used", endpoint, err)
        return False
    return True
