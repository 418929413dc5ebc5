"""What holds for the whole suite: the order of its files, and signals that child processes must not inherit."""

from __future__ import annotations

import signal

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Let child processes be interrupted, and let pytest-xdist keep the order of the files."""
    # A shell starts what it runs in the background with Ctrl-C ignored; without a handler, children inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # It would start the files with the most tests first, and end with one worker on the few tests that take long.
    config.option.loadscopereorder = False


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files with tests marked `slow` first, then those with the most tests."""
    tests: dict[object, int] = {}
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    for item in items:
        tests[item.path] = tests.get(item.path, 0) + 1
    items.sort(key=lambda item: (item.path not in slow, -tests[item.path]))
