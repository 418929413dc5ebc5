"""The import graph is a DAG, between layers and inside them; no file or function outgrows its room; every module is tested."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = [
    {
        "errors",
        "types",
        "signature",
        "rng",
        "io",
        "contract",
        "resampling",
        "options",
        "registry",
        "record",
        "exitcodes",
        "terminal",
        "text",
        "owner",
        "folders",
    },
    {"store", "store_check", "rows", "provenance", "progress", "catalogue", "names"},
    {"metrics", "tasks", "models", "decoding", "published"},
    {"run"},
    {"report", "rating", "hydra_app"},
    {"cli", "commands", "api", "evaluation"},
    {"finetune", "__main__"},
]
MAX_FILE, MAX_FUNCTION = 300, 50
MAX_TAKE_SETTINGS = 8
HEAVY = (
    "torch", "transformers", "hydra", "omegaconf", "datasets", "faiss", "sklearn", "scipy", "pandas", "matplotlib",
)  # fmt: skip
KNOW_HYDRA = ("harness.app.hydra", "harness.app.cli", "harness.report.cli", "harness.app.finetune")
OWN = sorted(p for top in ("harness", "metrics", "tasks") for p in (ROOT / top).rglob("*.py"))
FILES = OWN + sorted((ROOT / "scripts").rglob("*.py"))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for path in OWN}
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def layer_of(module: str) -> int:
    word = module.removeprefix("harness.").split(".")[0]
    for number, names in enumerate(LAYERS):
        if word in names:
            return number
    raise AssertionError(f"{module} has no layer: give it one here")


def nodes_at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Every node but those under `if TYPE_CHECKING`: they import nothing when the program runs."""
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        for child in node.orelse:
            yield from nodes_at_run_time(child)
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from nodes_at_run_time(child)


def imported_names(tree: ast.AST) -> set[str]:
    """Every name that a file imports, at its top or inside a function; a module of ours without its `openended.`."""
    found = set()
    for node in nodes_at_run_time(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute here"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole.removeprefix("openended.") in MODULES else str(node.module))
    return {name.removeprefix("openended.") for name in found}


def imported(path: Path) -> set[str]:
    return imported_names(TREES[path])


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_to_the_same_layer_or_below(module):
    if module in ("harness", "metrics", "tasks"):
        return
    above = {n for n in imported(MODULES[module]) & MODULES.keys() if "." in n and layer_of(n) > layer_of(module)}
    assert not above, f"{module} imports from a layer above: {', '.join(sorted(above))}"


def test_no_module_imports_itself_by_way_of_others():
    graph = {module: imported(path) & MODULES.keys() - {module} for module, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as err:
        pytest.fail(f"imports in a circle: {' <- '.join(err.args[1])}")


@pytest.mark.parametrize("package", ["metrics", "tasks"])
def test_packages_import_nothing_heavy(package):
    code = (
        "import importlib, pkgutil, sys\n"
        f"import openended.{package} as package\n"
        f"[importlib.import_module('openended.{package}.' + m.name) for m in pkgutil.iter_modules(package.__path__)]\n"
        f"print([m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith(("metrics.", "tasks."))])
def test_metrics_and_tasks_know_no_model_and_no_configuration(module):
    """Not even inside a function."""
    words = {name.split(".")[0] for name in imported(MODULES[module])}
    assert not words & {"torch", "transformers", "hydra", "omegaconf"}


@pytest.mark.parametrize("module", [m for m in MODULES if not m.startswith(KNOW_HYDRA)])
def test_configuration_nodes_stay_in_their_room(module):
    """Elsewhere there are typed specs; type hints count too."""
    nodes = list(ast.walk(TREES[MODULES[module]]))
    words = {alias.name.split(".")[0] for n in nodes if isinstance(n, ast.Import) for alias in n.names}
    words |= {str(n.module).split(".")[0] for n in nodes if isinstance(n, ast.ImportFrom)}
    assert not words & {"hydra", "omegaconf"}


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith("harness.report")])
def test_a_report_reads_records_and_never_a_model(module):
    names = imported(MODULES[module])
    assert not {n for n in names if n.startswith(("harness.models", "harness.decoders", "harness.run", "torch"))}


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_files_stay_within_their_room(path):
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= MAX_FILE, f"{path.name} has {lines} lines: would two files be easier to live in?"


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_functions_stay_within_their_room(path):
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            doc = ast.get_docstring(node, clean=False)
            length = node.end_lineno - node.lineno + 1 - (doc.count("\n") + 1 if doc is not None else 0)
            assert length <= MAX_FUNCTION, f"{path.name}:{node.lineno} {node.name} has {length} lines"


def takes_settings(annotation: ast.AST | None) -> bool:
    """True for `Settings`, and for whatever holds it: `Sequence[tuple[Settings, Outcome]]`, `"Settings | None"`."""
    words = {n.id for n in ast.walk(annotation) if isinstance(n, ast.Name)} if annotation is not None else set()
    strings = [n.value for n in ast.walk(annotation) if isinstance(n, ast.Constant)] if annotation is not None else []
    return "Settings" in words or any("Settings" in str(text) for text in strings)


def test_stages_receive_their_own_part_of_a_run_and_not_all_settings():
    """The few functions at the border of `run/` turn settings into a resolved run; no class keeps them."""
    functions, holders = [], []
    for module, path in MODULES.items():
        for node in ast.walk(TREES[path]):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                args = node.args
                named = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
                if any(arg is not None and takes_settings(arg.annotation) for arg in named):
                    functions.append(f"{module}.{node.name}")
            elif isinstance(node, ast.ClassDef):
                fields = [n for n in node.body if isinstance(n, ast.AnnAssign)]
                holders += [f"{module}.{node.name}" for n in fields if takes_settings(n.annotation)]
    assert "harness.run.resolve.resolve" in functions
    assert len(functions) <= MAX_TAKE_SETTINGS, f"these take a whole Settings: {', '.join(sorted(functions))}"
    assert not holders, f"these keep a whole Settings: {', '.join(holders)}"


def test_a_file_is_called_what_it_does():
    assert not [str(p.relative_to(ROOT)) for p in FILES if p.stem.strip("_") in ("utils", "util", "helpers", "misc")]


def test_no_two_public_classes_share_a_name():
    homes = defaultdict(list)
    for module, path in MODULES.items():
        for node in TREES[path].body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module)
    shared = [f"{name} ({', '.join(where)})" for name, where in homes.items() if len(where) > 1]
    assert not shared, "; ".join(shared)


def does_something(path: Path) -> bool:
    return any(isinstance(n, ast.FunctionDef | ast.ClassDef) for n in TREES[path].body)


def test_every_module_of_the_harness_is_tested_by_name():
    """`harness/run/x.py` is tested by `tests/harness/run/test_x.py`, or by a neighbour of it that imports it."""
    tests = sorted((ROOT / "tests/harness").rglob("test_*.py"))
    named = {name for path in tests for name in imported_names(ast.parse(path.read_text(encoding="utf-8")))}
    missing = []
    for module, path in MODULES.items():
        if not module.startswith("harness.") or path.stem in ("__main__", "__init__") or not does_something(path):
            continue
        own = ROOT / "tests" / path.relative_to(ROOT).with_name(f"test_{path.stem.strip('_')}.py")
        if not own.exists() and module not in named:
            missing.append(module)
    assert not missing, f"no test for {', '.join(missing)}"


@pytest.mark.parametrize("package", ["metrics", "tasks"])
def test_every_metric_and_task_has_a_test_file(package):
    public = [p.stem for p in (ROOT / package).glob("[a-z]*.py")]
    assert not [name for name in public if not (ROOT / "tests" / package / f"test_{name}.py").exists()]
