"""Corpus of the `docs` task: prose of the docstrings that are on every machine.

Source files of the Python standard library and of the installed scientific packages are parsed with
`ast` (never imported); their docstrings are reduced to paragraphs of natural sentences by
`openended.tasks._prose`, and the paragraphs of one docstring become one `Passage`, joined by a single space: a
passage is one line, so that a prompt may be cut from it anywhere.

A split is a function of the package and module path alone. Every paragraph is kept once in the whole
corpus, after normalizing case, spaces and punctuation; the first one in canonical order (packages as
listed, modules by name, line in the file) wins. So no paragraph of one split occurs in another.

The corpus depends on the installed versions: `fingerprint` names it, `package_versions` explains it.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import importlib.metadata
import importlib.util
import inspect
import platform
import re
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from openended.tasks._prose import prose_paragraphs

Split = Literal["train", "valid", "test"]
Docstring = tuple[str, list[str]]
"""Qualified name and prose paragraphs."""

STDLIB = "python"
DEFAULT_PACKAGES = (
    STDLIB, "numpy", "scipy", "sklearn", "pandas", "matplotlib", "torch", "transformers", "nltk", "datasets",
)  # fmt: skip
# Import names that differ from the name of their distribution.
DISTRIBUTIONS = {"sklearn": "scikit-learn"}
# Tests hold fixtures rather than prose; the others are dead code or another package's property.
_SKIPPED_FOLDERS = {"test", "tests", "testing", "_testing", "idlelib", "lib2to3", "site-packages", "__pycache__"}
TEST_SHARE = 0.28
VALID_SHARE = 0.05
# Changing the salt re-deals every module, and so makes the bundled models worthless: never do it lightly.
_SPLIT_SALT = "openended-docs-1"


@dataclass(frozen=True, slots=True)
class Passage:
    """The prose of one docstring."""

    id: str
    """Stable and readable: `docs/<module>/<qualified name>/<occurrence of that name>`."""
    package: str
    """Import name of the package, or `python` for the standard library."""
    module: str
    """Dotted path of the module."""
    text: str
    """One line of prose, without markup."""
    split: Split


def load_passages(*, packages: Sequence[str] = DEFAULT_PACKAGES, workers: int = 1) -> list[Passage]:
    """Extract the passages of the given packages, in canonical order.

    The order of packages decides which of two keeps a paragraph that both contain. The number of processes changes the
    time and nothing else.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    sources = [(package, *source) for package in packages for source in _list_sources(package)]
    seen: set[str] = set()
    passages = []
    extracted = map(_extract, (path for _, _, path in sources))
    if workers > 1:
        from joblib import Parallel, delayed

        extracted = Parallel(n_jobs=workers, batch_size=32)(delayed(_extract)(path) for _, _, path in sources)
    for (package, module, _), docstrings in zip(sources, extracted, strict=True):
        split = split_of(package, module)
        occurrences: Counter[str] = Counter()
        for name, paragraphs in docstrings:
            identity = f"docs/{module}/{name}/{occurrences[name]}"
            occurrences[name] += 1
            fresh = []
            for text in paragraphs:
                key = " ".join(re.findall(r"\w+", text.casefold()))
                if key not in seen:
                    seen.add(key)
                    fresh.append(text)
            if fresh:
                passages.append(Passage(identity, package, module, " ".join(fresh), split))
    return passages


def split_of(package: str, module: str) -> Split:
    """Return the split of a module: a hash of its path, so that it never depends on the others.

    >>> split_of("scipy", "scipy.optimize._minimize") == split_of("scipy", "scipy.optimize._minimize")
    True
    """
    digest = hashlib.sha256(f"{_SPLIT_SALT}\0{package}\0{module}".encode()).digest()
    position = int.from_bytes(digest[:8], "big") / 2**64
    if position < TEST_SHARE:
        return "test"
    return "valid" if position < TEST_SHARE + VALID_SHARE else "train"


def fingerprint(passages: Sequence[Passage]) -> str:
    """Return the SHA-256 of ids, splits and texts, whatever the order of the passages.

    >>> fingerprint([])[:8]
    'e3b0c442'
    """
    digest = hashlib.sha256()
    for passage in sorted(passages, key=lambda p: p.id):
        for field in (passage.id, passage.split, passage.text):
            data = field.encode()
            # The length in front keeps ("ab", "c") and ("a", "bc") apart.
            digest.update(len(data).to_bytes(8, "big"))
            digest.update(data)
    return digest.hexdigest()


def package_versions(packages: Sequence[str] = DEFAULT_PACKAGES) -> dict[str, str]:
    """Return the installed version of each package."""
    versions = {name: importlib.metadata.version(DISTRIBUTIONS.get(name, name)) for name in packages if name != STDLIB}
    return {name: versions.get(name, platform.python_version()) for name in packages}


def _list_sources(package: str) -> list[tuple[str, Path]]:
    """List the modules of a package and their files in canonical order: by dotted module path."""
    if package == STDLIB:
        root = Path(sysconfig.get_paths()["stdlib"])
    else:
        # A top-level name: find_spec imports only the parents of dotted names, so nothing is imported.
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(f"package {package!r} of the docs corpus is not installed")
        root = Path(next(iter(spec.submodule_search_locations)))
    sources = []
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        if _SKIPPED_FOLDERS.isdisjoint(parts[:-1]) and not parts[-1].startswith("test_"):
            names = parts[:-1] if parts[-1] == "__init__" else parts
            prefix = () if package == STDLIB else (package,)
            sources.append((".".join((*prefix, *names)), path))
    return sorted(sources, key=lambda source: (source[0], source[1].as_posix()))


def _extract(path: Path) -> list[Docstring]:
    """Parse one file; a file that is not valid Python has no docstrings."""
    data = path.read_bytes()
    if b'"""' not in data and b"'''" not in data:
        return []
    # A syntax tree has no cycles worth collecting, and scanning it repeatedly doubles the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
    except (SyntaxError, ValueError):
        return []
    finally:
        if collecting:
            gc.enable()
    docstrings = [(name, prose_paragraphs(text)) for name, text in _find_docstrings(tree, prefix="")]
    return [(name, paragraphs) for name, paragraphs in docstrings if paragraphs]


def _find_docstrings(node: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield (qualified name, docstring) of a node and of the definitions in its statements."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        text = ast.get_docstring(node)
        if text:
            yield prefix or "__doc__", text
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield from _find_attached_docstring(node.value)
    for block in ("body", "orelse", "finalbody", "handlers"):
        statements = getattr(node, block, ())
        for child in statements if isinstance(statements, list) else ():
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _find_docstrings(child, f"{prefix}.{child.name}" if prefix else child.name)
            elif isinstance(child, ast.stmt | ast.ExceptHandler):
                yield from _find_docstrings(child, prefix)


def _find_attached_docstring(call: ast.Call) -> Iterator[tuple[str, str]]:
    """Yield the docstring that a call attaches to an object written in C, as NumPy and PyTorch do."""
    function = ast.unparse(call.func).rpartition(".")[2]
    if not function.startswith(("add_docstr", "add_newdoc")):
        return
    texts = [
        part.value
        for argument in call.args
        for part in ast.walk(argument)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    if texts:
        # `add_docstr(torch.abs, text)`, `add_newdoc(module, name, text)`, `(…, (method, text))`.
        is_named = not isinstance(call.args[0], ast.Constant)
        name = ast.unparse(call.args[0]) if is_named else ".".join(texts[1:-1])
        yield name or texts[0], inspect.cleandoc(texts[-1])
