"""Run `openended` as in an environment with the base dependencies alone: `python -m tests.e2e.without_extras WORDS`."""

import importlib.util
import sys
from importlib.machinery import ModuleSpec

EXTRAS = frozenset(
    {"torch", "transformers", "tokenizers", "datasets", "nltk", "faiss", "accelerate", "huggingface_hub", "httpx", "ray",
     "optuna", "submitit", "starlette", "uvicorn"}
)  # fmt: skip
find_spec = importlib.util.find_spec


class Hide:
    """Finds none of the packages of the extras."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise where an extra is imported; leave the rest to the other finders."""
        del path, target
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def find_visible_spec(name: str, package: str | None = None) -> ModuleSpec | None:
    """Find a package that is no extra."""
    return None if name.partition(".")[0] in EXTRAS else find_spec(name, package)


if __name__ == "__main__":
    sys.meta_path.insert(0, Hide())
    importlib.util.find_spec = find_visible_spec
    from openended.harness.app.cli import main

    sys.exit(main())
