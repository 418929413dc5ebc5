"""Modules that take seconds to import, imported when a test first uses them: collecting the tests needs none of them."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any


class LazyModule(ModuleType):
    """A module whose first attribute imports it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest asks every name of a test module whether it is a fixture
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)


if TYPE_CHECKING:
    import torch as torch

    from tests import simulated_device as simulated_device
    from tests.oracles import sampler_laws as sampler_laws
else:
    torch = LazyModule("torch")
    sampler_laws = LazyModule("tests.oracles.sampler_laws")
    simulated_device = LazyModule("tests.simulated_device")
