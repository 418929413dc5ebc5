"""What holds for the whole suite: the order of its files, signals, loggers, and models that are loaded once."""

import gc
import logging
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from openended.harness.core import DeviceMap
from openended.harness.models import ModelSpec

# Number of the last collected case of each test with `thin(n)`.
_SEEN = pytest.StashKey[dict[tuple[Path, str], int]]()


def pytest_configure(config: pytest.Config) -> None:
    """Let child processes be interrupted, and let pytest-xdist keep the order of the files."""
    # A shell starts what it runs in the background with Ctrl-C ignored; without a handler, children inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # It would start the files with the most tests first, and end with one worker on the few tests that take long.
    config.option.loadscopereorder = False
    gc.disable()  # what is collected stays until the end: Python's collector would read all of it again and again


def pytest_collection_finish() -> None:
    """Leave the modules and the collected tests out of garbage collections."""
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option for the order: a test that depends on the tests before it is a defect."""
    parser.addoption("--order-seed", type=int, help="shuffle the files, and the tests of each file, with this seed")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark all but every n-th case of a test with `thin(n)` as `long`."""
    thin = item.get_closest_marker("thin")
    if thin is not None:
        seen = item.config.stash.setdefault(_SEEN, {})
        key = item.path, getattr(item, "originalname", item.name)
        seen[key] = seen.get(key, -1) + 1
        if seen[key] % thin.args[0]:
            item.add_marker(pytest.mark.long)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the files with tests marked `slow` first, then those with the most tests; or shuffle them."""
    seed = config.getoption("--order-seed")
    if seed is not None:
        random.Random(seed).shuffle(items)
        keys = {path: number for number, path in enumerate(dict.fromkeys(item.path for item in items))}
        items.sort(key=lambda item: keys[item.path])
        return
    tests: dict[object, int] = {}
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    for item in items:
        tests[item.path] = tests.get(item.path, 0) + 1
    items.sort(key=lambda item: (item.path not in slow, -tests[item.path]))


@pytest.fixture(autouse=True)
def keep_loggers() -> Iterator[None]:
    """Undo what a test changes of the package's logger: `score` replaces its handlers."""
    logger = logging.getLogger("openended")
    handlers, level, propagate = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)


@pytest.fixture(scope="session", autouse=True)
def wait_for_no_disk() -> Iterator[None]:
    """Let `fsync` return at once: it protects files from a loss of power, which no test can cause."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def load_each_bundled_model_once() -> Iterator[None]:
    """Remember the bundled models that are on the processor: most runs of the tests ask for the same ones."""
    load = ModelSpec.load
    backends: dict[tuple[Any, ...], Any] = {}

    def load_once(spec: ModelSpec, *, device: str = "cpu", device_map: DeviceMap | None = None) -> Any:
        if not spec.is_bundled or device != "cpu" or device_map is not None:
            return load(spec, device=device, device_map=device_map)
        key = type(spec), repr(spec), torch.get_num_threads()
        if key not in backends:
            backends[key] = load(spec, device=device)
        return backends[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelSpec, "load", load_once)
        yield
