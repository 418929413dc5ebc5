"""Metrics of open-ended generation: pure functions of arrays and token lists, one file a metric.

Each module has its public function (`openended.metrics.mauve.mauve`, `openended.metrics.self_bleu.self_bleu`, …) and
one registered spec. Nothing here imports torch, so the functions are useful without the harness.

A metric's module can also be called with texts: `openended.metrics.mauve(human_texts=…, model_texts=…, embedder=…)` is
`openended.measure("mauve", …)`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

if __name__ != "openended.metrics":
    raise ImportError(f"import openended.metrics, not {__name__}: under two names every module would be loaded twice")


class _Metric(ModuleType):
    """The module of a metric, which measures texts when it is called."""

    def __call__(self, **words: Any) -> Any:  # noqa: ANN401 - of `openended.measure`
        # By name, for the metrics know nothing of the harness's runs.
        return import_module("openended.harness.app.api").measure(self.__name__.rpartition(".")[2], **words)


class _Metrics(ModuleType):
    """This package: its modules load when they are first named, and can be called."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a module
        if not name.startswith("_") and name in self.__dir__():
            return import_module(f"{self.__name__}.{name}")
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and not name.startswith("_"):
            value.__class__ = _Metric
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(module.name for module in iter_modules(self.__path__) if not module.name.startswith("_"))


sys.modules[__name__].__class__ = _Metrics
