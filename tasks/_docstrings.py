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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from openended.tasks._prose import prose_paragraphs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Split = Literal["train", "valid", "test"]

STDLIB: Final = "python"
DEFAULT_PACKAGES: Final = (
    STDLIB,
    "numpy",
    "scipy",
    "sklearn",
    "pandas",
    "matplotlib",
    "torch",
    "transformers",
    "nltk",
    "datasets",
)
# Import names that differ from the name of their distribution.
_DISTRIBUTIONS: Final = {"sklearn": "scikit-learn"}
# Tests hold fixtures rather than prose; the others are dead code or another package's property.
_SKIPPED_FOLDERS: Final = frozenset(
    {"test", "tests", "testing", "_testing", "idlelib", "lib2to3", "site-packages", "__pycache__"}
)
TEST_SHARE: Final = 0.28
VALID_SHARE: Final = 0.05
# Changing the salt re-deals every module, and so makes the bundled models worthless: never do it lightly.
_SPLIT_SALT: Final = "openended-docs-1"


@dataclass(frozen=True, slots=True)
class Passage:
    """The prose of one docstring.

    Attributes:
        id: Stable and readable: `docs/<module>/<qualified name>/<occurrence of that name>`.
        package: Import name of the package, or `python` for the standard library.
        module: Dotted path of the module.
        text: One line of prose, without markup.
        split: `train`, `valid` or `test`.
    """

    id: str
    package: str
    module: str
    text: str
    split: Split


@dataclass(frozen=True, slots=True)
class _Source:
    """One file to parse."""

    package: str
    module: str
    path: Path


@dataclass(frozen=True, slots=True)
class _Docstring:
    """The prose paragraphs of one docstring, before de-duplication."""

    name: str
    paragraphs: tuple[str, ...]


def load_passages(*, packages: Sequence[str] = DEFAULT_PACKAGES, workers: int = 1) -> list[Passage]:
    """Extract the passages of the given packages, in canonical order."""
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    sources = [source for package in packages for source in _sources(package)]
    seen: set[str] = set()
    passages = []
    for source, docstrings in zip(sources, _extract_all(sources, workers), strict=True):
        split = split_of(source.package, source.module)
        occurrences: Counter[str] = Counter()
        for docstring in docstrings:
            number = occurrences[docstring.name]
            occurrences[docstring.name] += 1
            fresh = [text for text in docstring.paragraphs if _is_new(text, seen)]
            if fresh:
                identity = f"docs/{source.module}/{docstring.name}/{number}"
                text = " ".join(fresh)
                passages.append(Passage(identity, source.package, source.module, text, split))
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
    return {
        name: platform.python_version()
        if name == STDLIB
        else importlib.metadata.version(_DISTRIBUTIONS.get(name, name))
        for name in packages
    }


def _package_root(package: str) -> Path:
    """Locate a package without importing it."""
    if package == STDLIB:
        return Path(sysconfig.get_paths()["stdlib"])
    # A top-level name: find_spec imports only the parents of dotted names.
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"package {package!r} of the docs corpus is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def _sources(package: str) -> list[_Source]:
    """List the files of a package in canonical order: by dotted module path."""
    root = _package_root(package)
    sources = []
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        if _SKIPPED_FOLDERS.isdisjoint(parts[:-1]) and not parts[-1].startswith("test_"):
            names = parts[:-1] if parts[-1] == "__init__" else parts
            prefix = () if package == STDLIB else (package,)
            sources.append(_Source(package, ".".join((*prefix, *names)), path))
    return sorted(sources, key=lambda source: (source.module, source.path.as_posix()))


def _extract_all(sources: Sequence[_Source], workers: int) -> Iterator[tuple[_Docstring, ...]]:
    """Yield the docstrings of each source, in the order of the sources."""
    paths = [source.path for source in sources]
    if workers == 1:
        yield from map(_extract, paths)
        return
    from joblib import Parallel, delayed

    yield from Parallel(n_jobs=workers, batch_size=32)(delayed(_extract)(path) for path in paths)


def _extract(path: Path) -> tuple[_Docstring, ...]:
    """Parse one file; a file that is not valid Python has no docstrings."""
    data = path.read_bytes()
    if b'"""' not in data and b"'''" not in data:
        return ()
    tree = _parse(data)
    docstrings = [
        _Docstring(name, tuple(prose_paragraphs(text))) for name, text in (_docstrings(tree, prefix="") if tree else ())
    ]
    return tuple(docstring for docstring in docstrings if docstring.paragraphs)


def _parse(data: bytes) -> ast.Module | None:
    """Parse a file quietly and fast, or return None if it is not valid Python."""
    # A syntax tree has no cycles worth collecting, and scanning it repeatedly doubles the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(data)
    except (SyntaxError, ValueError):
        return None
    finally:
        if collecting:
            gc.enable()


def _docstrings(node: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield (qualified name, docstring) of a node and of the definitions in its statements."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        text = ast.get_docstring(node)
        if text:
            yield prefix or "__doc__", text
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield from _attached_docstring(node.value)
    for block in ("body", "orelse", "finalbody", "handlers"):
        statements = getattr(node, block, ())
        for child in statements if isinstance(statements, list) else ():
            name = getattr(child, "name", None)
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _docstrings(child, f"{prefix}.{name}" if prefix else str(name))
            elif isinstance(child, ast.stmt | ast.ExceptHandler):
                yield from _docstrings(child, prefix)


def _attached_docstring(call: ast.Call) -> Iterator[tuple[str, str]]:
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
        named = not isinstance(call.args[0], ast.Constant)
        name = ast.unparse(call.args[0]) if named else ".".join(texts[1:-1])
        yield name or texts[0], inspect.cleandoc(texts[-1])


def _is_new(text: str, seen: set[str]) -> bool:
    """Say whether a paragraph is met for the first time, and remember it."""
    key = " ".join(re.findall(r"\w+", text.casefold()))
    if key in seen:
        return False
    seen.add(key)
    return True
