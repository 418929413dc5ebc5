"""The import graph is a DAG of layers, metrics never import torch, and no file or function outgrows its room."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = [
    {"harness.errors", "harness.exitcodes", "harness.terminal", "harness.text", "harness.owner", "harness.types", "harness.signature", "harness.rng", "harness.options", "harness.contract", "harness.registry", "harness.io", "harness.folders", "harness.record"},
    {"harness.store", "harness.store_check", "harness.provenance", "harness.rows", "harness.progress"},
    {"metrics", "tasks", "harness.models", "harness.decoding", "harness.published"},
    {"harness.run", "harness.report"},
    {"harness.hydra_app", "harness.cli", "harness.finetune", "harness.__main__"},
]  # fmt: skip
FILES = sorted(p for top in ("harness", "metrics", "tasks") for p in (ROOT / top).rglob("*.py"))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def layer_of(module: str) -> int:
    for number, names in enumerate(LAYERS):
        if any(module == name or module.startswith(name + ".") for name in names):
            return number
    raise AssertionError(f"{module} has no layer: give it one here")


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.removeprefix("openended.") for name in found if name.startswith("openended.")}


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_point_to_the_same_layer_or_below(path):
    module = module_of(path)
    if module in ("harness", "metrics", "tasks"):
        return
    known = {module_of(p) for p in FILES}
    for name in imports_of(path) & known - {"harness", "metrics", "tasks"}:
        assert layer_of(name) <= layer_of(module), f"{module} imports {name} from a layer above"


@pytest.mark.parametrize("package", ["metrics", "tasks"])
def test_packages_import_nothing_heavy(package):
    code = (
        "import importlib, pkgutil, sys\n"
        f"import openended.{package} as package\n"
        f"[importlib.import_module('openended.{package}.' + m.name) for m in pkgutil.iter_modules(package.__path__)]\n"
        "print([m for m in ('torch', 'transformers', 'hydra', 'omegaconf', 'datasets', 'faiss', 'sklearn', 'pandas', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_files_and_functions_stay_within_their_room(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 500, (
        f"{path.name} has {text.count(chr(10))} lines: would two files be easier to live in?"
    )
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            doc = ast.get_docstring(node, clean=False) or ""
            length = node.end_lineno - node.lineno - doc.count("\n")
            assert length <= 60, f"{path.name}:{node.lineno} {node.name} has {length} lines"
