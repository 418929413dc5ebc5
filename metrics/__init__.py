"""Metrics of open-ended generation: pure functions of arrays and token lists, one file a metric.

Each module has its public function (`openended.metrics.mauve.mauve`, `openended.metrics.self_bleu.self_bleu`, …) and
one registered spec. `families` has the base classes of the specs, `judgments` the files of human judgments; packages
with an underscore are for the modules here alone. Nothing here imports torch, so the functions are useful without the
harness; `openended.measure("mauve", …)` computes a metric of texts.
"""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

if __name__ != "openended.metrics":
    raise ImportError(f"import openended.metrics, not {__name__}: under two names every module would be loaded twice")


def __getattr__(name: str) -> ModuleType:
    # Only when it is named: `import openended.metrics` alone must stay light.
    if name in __dir__():
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
