"""Every error that the harness raises on purpose.

Message form: what was expected, what came, where, what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HarnessError(Exception):
    """Root of all errors that are about the user's input or state; shown as one line."""


class SpecError(HarnessError):
    """The configuration is wrong; raised while planning, before any model loads."""


class DataError(HarnessError):
    """A file or an example is wrong; names the file and line or the example id."""


class MissingModelError(DataError):
    """A model of the hub is not on this machine; says how to get it."""


class MissingFileError(DataError):
    """A file that a task downloads is not there yet; says how to get it.

    Args:
        message: The line for the user.
        url: Where a program can fetch it; empty where only a person can.
    """

    def __init__(self, message: str, url: str = "") -> None:
        super().__init__(message)
        self.url = url


class StoreError(HarnessError):
    """An artefact cannot be written or read."""


class UndefinedMetric(HarnessError):  # noqa: N818 - an answer ("–" in the table), not a failure
    """The metric has no value here; the message is the reason shown under the table."""


class MissingExtra(HarnessError):  # noqa: N818 - named after what is missing
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; pip install 'openended[{extra}]'")


def suggest(word: str, known: Iterable[str]) -> str:
    """Return `'; did you mean …? known: …'` for an unknown name."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{hint} known: {', '.join(names)}" if hint else f"; known: {', '.join(names)}"


def first_line(err: BaseException) -> str:
    """The first line of an error's message, at most 200 characters; its class where it has none."""
    return (str(err).strip().splitlines() or [type(err).__name__])[0][:200]
