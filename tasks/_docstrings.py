"""Corpus of the `docs` task: prose of the docstrings of the standard library and of installed packages.

A split is a function of the package and module path alone. Every paragraph is kept once in the whole corpus, the first
in canonical order (packages as listed, modules by name, line in the file): none of one split occurs in another.
"""

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
from pathlib import Path
from typing import Final

from openended.tasks._passages import DEFAULT_PACKAGES, DISTRIBUTIONS, STDLIB, Passage, Split

Docstring = tuple[str, list[str]]  # qualified name and prose paragraphs

# Tests hold fixtures rather than prose; the others are dead code or another package's property.
_SKIPPED_FOLDERS = {"test", "tests", "testing", "_testing", "idlelib", "lib2to3", "site-packages", "__pycache__"}
TEST_SHARE = 0.28
VALID_SHARE = 0.05
# Changing the salt re-deals every module, and so makes the bundled models worthless: never do it lightly.
_SPLIT_SALT = "openended-docs-1"


def load_passages(*, packages: Sequence[str] = DEFAULT_PACKAGES, workers: int = 1) -> list[Passage]:
    """Extract the passages of packages in canonical order; of two equal paragraphs, the first package keeps its own."""
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
    """Return the split of a module: a hash of its path, so that it never depends on the others."""
    digest = hashlib.sha256(f"{_SPLIT_SALT}\0{package}\0{module}".encode()).digest()
    position = int.from_bytes(digest[:8], "big") / 2**64
    if position < TEST_SHARE:
        return "test"
    return "valid" if position < TEST_SHARE + VALID_SHARE else "train"


def package_versions(packages: Sequence[str] = DEFAULT_PACKAGES) -> dict[str, str]:
    """Return the installed version of each package."""
    versions = {name: importlib.metadata.version(DISTRIBUTIONS.get(name, name)) for name in packages if name != STDLIB}
    return {name: versions.get(name, platform.python_version()) for name in packages}


def _list_sources(package: str) -> list[tuple[str, Path]]:
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
    for block in ("body", "orelse", "finalbody", "handlers"):
        for child in getattr(node, block, ()):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _find_docstrings(child, f"{prefix}.{child.name}" if prefix else child.name)
            elif isinstance(child, ast.Expr):
                if isinstance(child.value, ast.Call):
                    yield from _find_attached_docstring(child.value)
            elif hasattr(child, "body"):
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


# Sections, of NumPy or Google style, whose content is a list of names, code or citations.
_DROPPED_SECTIONS: Final = frozenset(
    {
        "parameters", "other parameters", "params", "args", "arguments", "keyword arguments",
        "keyword args", "kwargs", "optional arguments", "returns", "return", "return values",
        "yields", "yield", "receives", "raises", "warns", "exceptions", "attributes", "methods",
        "properties", "members", "variables", "fields", "see also", "references", "reference",
        "example", "usage", "inputs", "input", "outputs", "output", "shape", "shapes",
        "classes", "functions", "constants", "public functions", "public classes", "authors",
        "author", "citation", "bibtex", "contents", "todo", "call arguments", "input shape",
        "output shape", "required arguments",
    }
)  # fmt: skip
_UNDERLINE: Final = re.compile(r"\s*([=\-~^\"'`#*+.])\1{2,}\s*$")
_TITLE: Final = re.compile(r"\s*([A-Za-z][A-Za-z ]{1,30}):\s*$")
# Directive, field list, table border, list item, doctest, comment, Markdown fence or heading: with
# what is indented under them they are no prose.
_NO_PROSE: Final = re.compile(
    r"\s*(\.\.(\s|$)|[:@]\w[^`]*?:(\s|$)|[+|]|[-*•]\s|\(?(\d+|[a-zA-Z#])[.)]\s|>>>|\.\.\. |In \[|\$ |#|```|~~~)"
)
# An admonition holds prose: its indented body is read as if it stood at the margin.
_ADMONITION: Final = re.compile(
    r"\s*(?:\.\. )?(?:notes?|warnings?|tip|important|caution|attention|hint|remarks?|description)"
    r"(?P<mark>::?)\s*(?P<text>.*)$",
    re.IGNORECASE,
)
# A parameter at the margin: `x : array_like`, `name (str): text`, `name -- text`.
_ENTRY: Final = re.compile(r"\s*`{0,2}\*{0,2}[\w.]+(, ?[\w.]+)*`{0,2} ?(\([^)]*\))?( :|:\s|\s+--?\s)")

_MARKUP: Final = (
    (re.compile(r"\s*\[[\w#*]+\]_"), ""),  # footnote mark
    (re.compile(r"\[`?([^\]`]+)`?\]\((?:[^)]*)\)"), r"\1"),  # Markdown link
    (re.compile(r"\[`([^\]`]+)`\]"), r"\1"),  # reference of the Transformers docs
    (re.compile(r":[\w:+-]+:`([^`<]+?)\s*<[^`>]*>`"), r"\1"),  # role with a title
    (re.compile(r":[\w:+-]+:`[~!]?([^`]*)`"), r"\1"),  # role
    (re.compile(r"`([^`<]+?)\s*<[^`>]*>`_{1,2}"), r"\1"),  # link
    (re.compile(r"``[~!]?(.+?)``"), r"\1"),  # literal
    (re.compile(r"`[~!]?([^`]+)`_{0,2}"), r"\1"),  # interpreted text
    (re.compile(r"(?<![\w*])\*\*(?=\S)([^*]+?)(?<=\S)\*\*(?![\w*])"), r"\1"),  # bold
    (re.compile(r"(?<![\w*])\*(?=\S)([^*]+?)(?<=\S)\*(?![\w*])"), r"\1"),  # italics
    (re.compile(r"\s+"), " "),
)
_WORD: Final = re.compile(r"[(\"'\[]*[A-Za-z]+(?:['’/-][A-Za-z]+)*[)\"'\]]*[.,;:!?]*[)\"']*")
_SENTENCE_END: Final = re.compile(r"[.!?][)\"']*(?=\s|$)")
_FORBIDDEN: Final = re.compile(r">>>|::|[\\|$`]|={2}|-{3}|\.{4}|https?:|www\.|[^\x20-\x7e’“”–—é]")
_MIN_WORDS: Final = 4
_MIN_WORD_SHARE: Final = 0.7


def prose_paragraphs(docstring: str) -> list[str]:
    """Return the prose paragraphs of a docstring, each on one line and without markup."""
    reader = _Reader()
    lines = docstring.expandtabs().splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        reader.feed(line, underlined=_UNDERLINE.match(following) is not None)
    reader.flush()
    return reader.paragraphs


class _Reader:
    """Collects the paragraphs at the margin of a docstring, line by line."""

    def __init__(self) -> None:
        self.paragraphs: list[str] = []
        self._buffer: list[str] = []
        self._in_dropped_section = False
        self._in_code = False
        # Lines indented deeper than this belong to something that is no prose.
        self._owner: int | None = None
        self._margin = 0
        self._margin_moves = False

    def feed(self, line: str, *, underlined: bool) -> None:
        """Take the next line; `underlined` is true if the next line is a rule."""
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            self.flush()
            self._in_code = False
        elif self._in_code or (self._owner is not None and indent > self._owner):
            return
        elif admonition := _ADMONITION.match(line):
            self._open_admonition(indent, admonition["text"])
        elif underlined or _TITLE.match(line):
            self._open_section(line, indent, underlined=underlined)
        else:
            self._owner = None
            self._feed_text(line, indent)

    def _open_section(self, line: str, indent: int, *, underlined: bool) -> None:
        title = line.strip().rstrip(":").lower()
        if not underlined and title not in _DROPPED_SECTIONS:
            self._feed_text(line, indent)
            return
        self.flush()
        if underlined:
            self._in_dropped_section = title in _DROPPED_SECTIONS
            self._owner, self._margin = None, indent
        else:
            # A Google section ends with its indentation, a NumPy one with the next title.
            self._owner = indent

    def _open_admonition(self, indent: int, text: str) -> None:
        self.flush()
        self._owner, self._margin = None, indent
        # The margin of the body shows only at its first line.
        self._margin_moves = True
        if text:
            self._buffer.append(text.strip())

    def _feed_text(self, line: str, indent: int) -> None:
        if self._margin_moves or indent < self._margin:
            if indent < self._margin:
                self.flush()
            self._margin, self._margin_moves = indent, False
        if _UNDERLINE.match(line):
            self.flush()
        elif _NO_PROSE.match(line) or (not self._buffer and _ENTRY.match(line)):
            self._in_code = line.lstrip().startswith((">>>", "```"))
            self._drop(indent)
        elif indent > self._margin and self._buffer:
            # A definition list, a quotation or code, together with the term that it belongs to.
            self._drop(self._margin)
        elif not self._in_dropped_section:
            # After a blank line a deeper margin is a quotation, or code that the word check drops.
            self._margin = indent
            self._buffer.append(line.strip())
            if line.rstrip().endswith("::"):
                self.flush()
                self._owner = indent

    def _drop(self, indent: int) -> None:
        self.flush()
        self._owner = indent

    def flush(self) -> None:
        """End the current paragraph and keep it if it is prose."""
        if not self._buffer:
            return
        text = _clean(" ".join(self._buffer))
        self._buffer.clear()
        if _is_prose(text):
            self.paragraphs.append(text)


def _clean(text: str) -> str:
    """Remove markup, and the last sentence if it only leads to what has been dropped."""
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    text = text.strip()
    if text.endswith(":"):
        ends = [match.end() for match in _SENTENCE_END.finditer(text)]
        text = text[: ends[-1]] if ends else ""
    return text


def _is_prose(text: str) -> bool:
    words = text.split()
    if len(words) < _MIN_WORDS or not (text[0].isupper() or text[0] == '"'):
        return False
    if _FORBIDDEN.search(text) or text.rstrip("\"')")[-1:] not in (".", "!", "?"):
        return False
    plain = sum(_WORD.fullmatch(word) is not None for word in words)
    return plain >= _MIN_WORD_SHARE * len(words)
