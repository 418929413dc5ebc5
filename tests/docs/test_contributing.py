"""Follow CONTRIBUTING.md: its paths exist, and its rows for a metric, a decoder, a task and a backend work as written."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT, run_process, write_file

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
DIAGRAM = PAGE.split("```")[1]
TOPS = ("conf", "docs", "harness", "hydra_plugins", "metrics", "openended", "scripts", "tasks", "tests")
BACKEND = '''"""A backend: a model that repeats its prompt."""

from __future__ import annotations

from openended.harness.core import model
from openended.harness.models import Ability, BackendSpec


@model
class Parrot(BackendSpec):
    """A model that repeats its prompt."""

    name = "parrot"
    loader = "openended.harness.backends.parrot:Parrot"
    abilities = frozenset({"generate"})

    volume: int = 3
'''
EXAMPLE = ROOT / "docs/examples/plugin/openended_example"
ADDED = {  # group → name, class, and the file of the plug-in with its code
    "metric": ("avg_word_len", "AvgWordLen", EXAMPLE / "avg_word_len.py"),
    "decoder": ("lower_p", "LowerP", EXAMPLE / "lower_p.py"),
    "task": ("poems", "Poems", EXAMPLE / "poems.py"),
    "model": ("parrot", "Parrot", None),
}


def errand_row(errand: str) -> str:
    (row,) = re.findall(rf"^\| {re.escape(errand)} \| (.*) \|$", PAGE, flags=re.MULTILINE)
    return row


def files_of_errand(errand: str, name: str) -> list[str]:
    """Read the files of an errand from the table: code and test."""
    paths = [path for path in re.findall(r"`([\w/.]+)`", errand_row(errand)) if re.search(r"\bx\b|test_x", path)]
    return [re.sub(r"(?<![a-z])x(?=\.)", name, path) for path in paths]


def errand_of(group: str) -> str:
    return "a backend" if group == "model" else f"a {group}"


def test_every_path_exists():
    named = set(re.findall(rf"`((?:{'|'.join(TOPS)})/[\w/.]+)`", PAGE))
    missing = [path for path in named if not re.search(r"(?:\b|_)x\.", path) and not (ROOT / path).exists()]
    drawn = re.findall(r"(?<![\w/.*])([a-z_]+/[\w/]*(?:\.py)?)(?!…)", DIAGRAM)
    missing += [
        p for p in drawn if not p.endswith("x.py") and not any((ROOT / top / p).exists() for top in ("", "harness"))
    ]
    assert not missing, f"CONTRIBUTING.md names paths that do not exist: {', '.join(sorted(missing))}"


def test_the_order_of_layers_is_that_of_the_architecture_test():
    from tests.harness.test_architecture import LAYERS

    (sentence,) = re.findall(r"only folders to its left: (.*?)\. Other", PAGE, flags=re.DOTALL)
    order = [set(re.findall(r"\w+", part)) for part in re.findall(r"\([^)]*\)|[\w]+", sentence)]
    named = set().union(*order)
    expected = [layer & named for layer in LAYERS if layer & named]
    assert order == expected


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Copy the project and add a metric, a decoder, a task and a backend with the code and the line of the table."""
    copy = tmp_path_factory.mktemp("checkout")
    for top in ("conf", "harness", "metrics", "tasks", "hydra_plugins"):
        shutil.copytree(ROOT / top, copy / top)
    shutil.copytree(ROOT / "openended", copy / "openended", symlinks=True)
    for group, (name, cls, example) in ADDED.items():
        paths = files_of_errand(errand_of(group), name)
        source = paths[0]
        assert "harness/core/members.py" in errand_row(errand_of(group))
        write_file(copy / source, BACKEND if example is None else example.read_text(encoding="utf-8"))
        members, line = copy / "harness/core/members.py", f'"{name}": "{source[:-3].replace("/", ".")}:{cls}",'
        text = members.read_text(encoding="utf-8")
        write_file(members, text.replace(f'    "{group}": {{\n', f'    "{group}": {{\n        {line}\n'))
    return copy


def call(checkout: Path, *words: str) -> str:
    command = (sys.executable, "-m", "openended.harness", *words)
    done = run_process(*command, cwd=checkout, PYTHONPATH=str(checkout))
    return done.stdout + done.stderr


@pytest.mark.parametrize("group", ADDED)
def test_the_table_names_code_and_test(group):
    name = ADDED[group][0]
    paths = [Path(path) for path in files_of_errand(errand_of(group), name)]
    test = next(p for p in paths if p.parts[0] == "tests")
    assert (paths[0].name, test.name) == (f"{name}.py", f"test_{name}.py")


@pytest.mark.slow
def test_additions_are_listed_and_described_and_run_together(checkout):
    listed = call(checkout, "list")
    for group, (name, *_) in ADDED.items():
        (section,) = re.findall(rf"^{group}\n((?: .*\n)+)", listed, flags=re.MULTILINE)
        assert re.search(rf"^ +{name}\b", section, flags=re.MULTILINE)
        assert name in call(checkout, "describe", name)
    words = ["task=poems", "decoder=lower_p", "metric=[avg_word_len]", "num_examples=1", "max_new_tokens=4"]
    assert "Word length" in call(checkout, *words, "runtime.device=cpu")
