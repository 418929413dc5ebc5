"""The table of what was found with real engines and servers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable


class Table:
    """Rows of checks, printed as they are done; a check that raises has failed."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.failed = 0
        print("| with | check | found | passed | s |\n| --- | --- | --- | --- | --- |")

    def check(self, name: str, run: Callable[[], tuple[str, bool]]) -> None:
        """Run a check, which returns what it found and whether that is right."""
        began = time.monotonic()
        try:
            found, passed = run()
        except Exception as err:
            found, passed = f"{type(err).__name__}: {err}".splitlines()[0][:200], False
        self.failed += not passed
        seconds = time.monotonic() - began
        print(f"| {self.subject} | {name} | {found} | {'yes' if passed else 'NO'} | {seconds:.1f} |", flush=True)

    def end(self) -> None:
        """Exit with 1 if a check failed."""
        sys.exit(1 if self.failed else 0)
