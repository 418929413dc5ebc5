"""A benchmark harness for open-ended text generation.

    import openended as oe

    result = oe.evaluate(human="human.jsonl", systems={"greedy": "greedy.jsonl"})
    print(result.table())

The four folders beside this file are links to the folders of the same name at the top of the repository: one import
name, `openended`, that wheel, editable install, checkout, type checker and IDE all follow. Where Git made no links
(Windows without `core.symlinks`), the folders are found at the top of the repository.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openended import integrations as integrations, metrics as metrics
    from openended.harness.app.api import Evaluation as Evaluation, evaluate as evaluate, measure as measure
    from openended.harness.app.compute_mauve import compute_mauve as compute_mauve

_HERE = os.path.dirname(__file__)
if not os.path.isdir(os.path.join(_HERE, "harness")):
    __path__.append(os.path.dirname(_HERE))

__version__ = "0.2.0"
__all__ = ["Evaluation", "__version__", "compute_mauve", "evaluate", "integrations", "measure", "metrics"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module's own
    # Only when asked for: `import openended` alone must stay light.
    if name in ("integrations", "metrics"):
        return import_module(f"openended.{name}")
    if name in ("Evaluation", "evaluate", "measure"):
        return getattr(import_module("openended.harness.app.api"), name)
    if name == "compute_mauve":
        return getattr(import_module("openended.harness.app.compute_mauve"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
