"""Somebody else's program has an end, and what it says comes back as it was."""

from __future__ import annotations

import os

import psutil
import pytest

from openended.harness.core.errors import DataError
from openended.harness.models.loading.isolated_process import run_isolated


def test_texts_come_back_as_they_were_made():
    texts = ["", "a\nb", "ünï \U0001f642 \u2028", "x" * 300_000]
    assert run_isolated(lambda: iter(texts), "it") == texts
    assert run_isolated(lambda: iter([]), "it") == []


def test_an_endless_loop_ends():
    def loop():
        while True:
            pass
        yield ""

    with pytest.raises(DataError, match="it takes more than 1 s"):
        run_isolated(loop, "it", seconds=1)


def test_memory_has_a_bound():
    with pytest.raises(DataError, match="more than 1 GiB of memory"):
        run_isolated(lambda: iter(["x" * (1 << 35)]), "it")


@pytest.mark.parametrize(
    "error", [DataError("what is wrong"), ValueError("what is wrong"), RecursionError("what is wrong")]
)
def test_errors_come_back_as_one_of_ours(error):
    def fail():
        yield "one"
        raise error

    with pytest.raises(DataError, match="what is wrong"):
        run_isolated(fail, "it")


def test_nothing_is_left_behind():
    children = {child.pid for child in psutil.Process().children()}
    before = sorted(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else []
    for _ in range(5):
        run_isolated(lambda: iter(["x"]), "it")
    after = sorted(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else []
    assert len(before) == len(after)
    assert {child.pid for child in psutil.Process().children()} <= children
