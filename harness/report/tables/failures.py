"""Parts of a report that fail: the others are written."""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from openended.harness.core import format_last_frame, shorten_error

log = logging.getLogger(__name__)


@contextmanager
def warn_of_failure(what: str, failures: list[str]) -> Iterator[None]:
    """Go on without a part of a report that fails; log why, and add it to `failures`."""
    try:
        yield
    except Exception as err:
        failures.append(f"{what}: {type(err).__name__}: {shorten_error(err)}")
        log.error("report     %s%s", failures[-1], format_last_frame(err))
        log.debug("%s", "".join(traceback.format_exception(err)))
