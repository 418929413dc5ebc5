"""The metrics inside other evaluation frameworks and training loops; each module needs its framework."""

from importlib import import_module
from pathlib import Path
from typing import Any

EVALUATE_MAUVE = str(Path(__file__).parent / "evaluate_mauve")
"""The folder that `evaluate.load` reads MAUVE from."""

_CALLBACKS = {"LightningCallback": "lightning", "TrainerCallback": "trainer"}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module's own
    if name not in _CALLBACKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"openended.integrations.{_CALLBACKS[name]}"), name)
