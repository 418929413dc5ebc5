"""Check names: verbs for functions, nouns for things, one meaning per word."""

import ast
import re
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path

import yaml

from tests.helpers import ROOT, parse_file

FOLDERS = ("harness", "metrics", "tasks", "scripts", "hydra_plugins")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))

WORDS = yaml.safe_load((ROOT / "tests/harness/vague_words.yaml").read_text(encoding="utf-8"))
# First word of a function, class or module → what to write instead. Participles, adverbs and prepositions name nothing.
VAGUE_FIRST_WORDS = WORDS["first words"]
# Names of variables and parameters that say how a thing came about instead of what it is.
VAGUE_VARIABLES = WORDS["variables"]
FRAMEWORK_NAMES = {"on_page_markdown", "on_step_end", "on_train_batch_end"}  # names that a framework calls
# Modules that play the same role in several packages may share a name.
SAME_ROLE = {"__init__", "__main__", "base", "spec", "backend", "cli", "main", "build"}


def parse_files() -> Iterator[tuple[Path, ast.Module]]:
    return ((path, parse_file(path)) for path in FILES)


def module_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def definitions() -> Iterator[tuple[str, str]]:
    """Yield every function, method, class and module with its location."""
    for path, tree in parse_files():
        yield path.stem, module_name(path)
        for node in ast.walk(tree):
            is_definition = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if is_definition and not is_property(node):
                yield node.name, f"{module_name(path)}:{node.lineno}"


def is_property(node: ast.AST) -> bool:
    decorators = [ast.unparse(d) for d in getattr(node, "decorator_list", [])]
    return any(d.split(".")[-1] in ("property", "cached_property", "setter") for d in decorators)


def first_word(name: str) -> str:
    name = name.strip("_")
    if name[:1].isupper():  # a class: its words begin with capitals
        ends = [i for i, letter in enumerate(name) if letter.isupper() and i]
        return name[: ends[0] if ends else None].lower()
    return name.split("_")[0].lower()


def test_functions_classes_and_modules_are_not_named_by_vague_words() -> None:
    wrong = [
        f"{where}: {name} (write {VAGUE_FIRST_WORDS[first_word(name)]})"
        for name, where in definitions()
        if first_word(name) in VAGUE_FIRST_WORDS
        and not name.startswith(("__", "on_multirun_"))
        and name not in FRAMEWORK_NAMES
    ]
    assert not wrong, f"{len(wrong)} names:\n" + "\n".join(wrong)


def test_variables_say_what_a_thing_is() -> None:
    wrong = []
    for path, tree in parse_files():
        for node in ast.walk(tree):
            if isinstance(node, ast.arg) and node.arg in VAGUE_VARIABLES:
                wrong.append((module_name(path), node.lineno, node.arg))
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE_VARIABLES:
                wrong.append((module_name(path), node.lineno, node.id))
    lines = [f"{path}:{line}: {name} (write {VAGUE_VARIABLES[name]})" for path, line, name in wrong]
    assert not lines, f"{len(lines)} variables:\n" + "\n".join(lines)


def test_a_word_of_the_glossary_has_one_meaning() -> None:
    """`judge` rates texts; scorer and embedder together are scoring models. `spread` is std, interval or workers."""
    words = {"spread", "place", "places", "artefact", "artefacts", "colour", "tokenise", "normalise"}
    wrong = [f"{where}: {name}" for name, where in definitions() if words & set(name.strip("_").lower().split("_"))]
    assert not wrong, "\n".join(wrong)


STUMBLES = re.compile(
    r"beside|say little|resolve less|there (twice|again)|(one|texts?|line|rows?) an? (text|side|line|X)\b"
)


def test_messages_have_no_words_that_readers_stumble_over() -> None:
    wrong, count = [], 0
    others = [*(ROOT / "openended").glob("*.py"), *(ROOT / "openended" / "integrations").glob("*.py")]
    for path in [*(path for path in FILES if not module_name(path).startswith("scripts")), *others]:
        tree = parse_file(path)
        skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
        skipped |= {id(part) for node in formatted for part in node.values}
        texts = {node.lineno: render_text(node) for node in formatted if id(node) not in skipped}
        constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in skipped]
        texts |= {node.lineno: node.value for node in constants if isinstance(node.value, str)}
        messages = {line: text for line, text in texts.items() if len(text.split()) > 2}
        count += len(messages)
        wrong += [f"{module_name(path)}:{line}: {text}" for line, text in messages.items() if STUMBLES.search(text)]
    assert not wrong, "\n".join(wrong)
    assert count > 2000


def render_text(text: ast.JoinedStr) -> str:
    """The text of an f-string, with X for each value."""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in text.values)


def test_no_two_modules_share_a_name_unless_they_play_the_same_role() -> None:
    homes: dict[tuple[str, str], list[str]] = {}
    for path in FILES:
        if path.stem not in SAME_ROLE and path.parts[len(ROOT.parts)] in ("harness", "metrics"):
            top = path.relative_to(ROOT).parts[:2]
            homes.setdefault((str(top[:-1] if top[1].endswith(".py") else top), path.stem), []).append(
                module_name(path)
            )
    shared = [", ".join(paths) for paths in homes.values() if len(paths) > 1]
    assert not shared, "\n".join(shared)


def test_no_two_public_classes_differ_by_a_letter_or_an_ending() -> None:
    classes = [n for _, tree in parse_files() for n in tree.body if isinstance(n, ast.ClassDef)]
    names = sorted({n.name for n in classes if n.name[0] != "_"})
    endings = ("s", "d", "ed", "ing", "er", "ment", "ner", "ning")
    close = [(a, b) for a, b in combinations(names, 2) if b.startswith(a) and b[len(a) :] in endings]
    assert not close, ", ".join(f"{a} and {b}" for a, b in close)


def test_a_field_is_explained_once_by_a_comment_or_by_a_docstring() -> None:
    twice = []
    for path, tree in parse_files():
        lines = path.read_text(encoding="utf-8").splitlines()
        for body in (node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            for field, after in pairwise(body):
                is_explained = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                if isinstance(field, ast.AnnAssign) and is_explained:
                    comment = lines[(field.end_lineno or 1) - 1].partition("  # ")[2]
                    twice += [f"{module_name(path)}:{field.lineno}"] if comment and "noqa" not in comment else []
    assert not twice, "\n".join(twice)
