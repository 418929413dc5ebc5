"""The exceptions that the harness raises on purpose.

Message form: what was expected, what came, where, what to do.
"""

import difflib
import importlib.util
import re
import traceback
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

_MANY, _FEW = 12, 6  # names: the first are too many for a line, the second are printed of them


class HarnessError(Exception):
    """Base of all errors caused by the user's input or files; shown as one line."""


class SpecError(HarnessError):
    """The configuration is invalid; raised while planning, before any model loads."""


class DataError(HarnessError):
    """A file or an example is invalid; the message names the file and line or the example id."""


class UnavailableModelError(DataError):
    """A model of the hub is not on this machine; the message explains how to get it."""


class UnavailableFileError(DataError):
    """A file that a task downloads is missing; the message explains how to get it.

    Args:
        message: The line for the user.
        url: Where a program can fetch it; empty where only a person can.
    """

    def __init__(self, message: str, url: str = "") -> None:
        super().__init__(message)
        self.url = url


class StoreError(HarnessError):
    """An artifact cannot be written or read."""


class UndefinedMetric(HarnessError):  # noqa: N818 - an answer ("–" in the table), not a failure
    """The metric has no value here; the message is the reason shown under the table."""


class ExtraNotInstalled(HarnessError):  # noqa: N818 - reads better without `Error`
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; pip install 'openended[{extra}]'")


def require_package(package: str, extra: str) -> None:
    """Raise `ExtraNotInstalled` unless a package (by its import name) can be imported."""
    if importlib.util.find_spec(package) is None:
        raise ExtraNotInstalled(package, extra)


def find_repeated(values: Iterable[str]) -> str | None:
    """Return the first value that is there more than once; None if all differ."""
    return next((value for value, count in Counter(values).items() if count > 1), None)


def suggest(word: str, choices: Iterable[str], command: str = "") -> str:
    """Return a hint for an unknown name: `; did you mean …?`, or all names where none is near.

    Of many names, those that are spelt most like it, and the command that lists the rest.
    """
    names = sorted(name for name in choices if not name.startswith("_"))  # `_target_` is no option of a user
    if ".py" in word:
        return "; code of your own is added by a package with an entry point: docs/tutorials/own_metric.md"
    if not names:
        return ""
    by_lower = {name.lower(): name for name in names}
    parts = re.split("[-_]", word.lower())
    with_word = [name for name in by_lower if len(word) > 3 and word.lower() in re.split("[-_.]", name)]
    with_word += [name for name in by_lower if len(name) > 3 and name in parts]
    nearest = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    is_typo = bool(nearest) and difflib.SequenceMatcher(None, word.lower(), nearest[0]).ratio() > 0.8
    close = nearest if is_typo else with_word or nearest
    if not close and len(names) > _MANY:
        nearest = sorted(difflib.get_close_matches(word.lower(), by_lower, n=_FEW, cutoff=0.0))
        listed = f"; {command} has all {len(names)}" if command else ""
        return f"; known: {', '.join(by_lower[name] for name in nearest)}, …{listed}"
    if not close:
        return f"; known: {', '.join(names)}"
    *first, last = [*(repr(by_lower[name]) for name in close[:3]), *["…"] * (len(close) > 3)]
    return f"; did you mean {' or '.join(filter(None, [', '.join(first), last]))}?"


def find_spelling(word: str, choices: Iterable[str]) -> str | None:
    """Return the choice that a word is, apart from case, `-` and `_`."""
    return next((name for name in choices if fold_spelling(name) == fold_spelling(word)), None)


def fold_spelling(name: str) -> str:
    """Return a name without what spellings of it differ in: case, `-`, `_` and blanks."""
    return re.sub("[-_ ]", "", name.lower())


def shorten_error(err: BaseException) -> str:
    """Return the first line of an error's message, at most 200 characters, or the name of its class."""
    return (str(err).strip().splitlines() or [type(err).__name__])[0][:200]


def format_last_frame(err: BaseException) -> str:
    """Return where an exception was raised, ` (file.py, line 12)`; empty if only the import system raised it."""
    frames = [f for f in traceback.extract_tb(err.__traceback__) if "importlib" not in f.filename]
    registry = Path(__file__).with_name("registry.py").resolve()
    frames = [frame for frame in frames if Path(frame.filename).resolve() != registry]
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
