"""Passages of the `docs` task and the packages they are from; `_docstrings.py` extracts them."""

import hashlib
from collections.abc import Sequence
from typing import Literal, NamedTuple

Split = Literal["train", "valid", "test"]
STDLIB = "python"
DEFAULT_PACKAGES = (
    STDLIB, "numpy", "scipy", "sklearn", "pandas", "matplotlib", "torch", "transformers", "nltk", "datasets",
)  # fmt: skip
# Import names that differ from the name of their distribution.
DISTRIBUTIONS = {"sklearn": "scikit-learn"}


class Passage(NamedTuple):
    """The prose of one docstring."""

    id: str  # stable and readable: `docs/<module>/<qualified name>/<occurrence of that name>`
    package: str  # import name of the package, or `python` for the standard library
    module: str  # dotted path of the module
    text: str  # one line of prose, without markup
    split: Split


def fingerprint(passages: Sequence[Passage]) -> str:
    """Return the SHA-256 of ids, splits and texts, whatever the order of the passages."""
    digest = hashlib.sha256()
    for passage in sorted(passages, key=lambda p: p.id):
        for field in (passage.id, passage.split, passage.text):
            data = field.encode()
            # The length in front keeps ("ab", "c") and ("a", "bc") apart.
            digest.update(len(data).to_bytes(8, "big"))
            digest.update(data)
    return digest.hexdigest()
