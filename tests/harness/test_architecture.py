"""Check the import graph and names; each test lists every file that breaks its rule."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.helpers import ROOT, parse_file, run_process

LAYERS = (
    {"core"}, {"storage", "metrics", "decoders"}, {"models"}, {"generation"}, {"backends", "imported"}, {"audit"},
    {"tasks"}, {"run"}, {"results"}, {"report", "rating"}, {"fidelity"}, {"app"}, {"integrations"}, {"__main__"},
)  # fmt: skip
"""Folders of `harness/`, and `metrics/` and `tasks/`: each imports only itself and what is in a set before its own."""
HEAVY = ("torch", "transformers", "hydra", "omegaconf", "datasets", "faiss", "sklearn", "scipy", "pandas", "matplotlib")
MAY_USE_HYDRA = ("harness.app.", "harness.report.cli", "integrations.")
OWN = sorted(p for top in ("harness", "metrics", "tasks", "openended/integrations") for p in (ROOT / top).rglob("*.py"))
FILES = OWN + sorted((ROOT / "scripts").rglob("*.py"))


# Name of a module, within the package → its file.
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removeprefix("openended.").removesuffix(".__init__"): path
    for path in OWN
}


class Import(NamedTuple):
    """One name that a file imports: at its top, inside a function, or only for type hints."""

    path: Path
    line: int
    module: str  # without the prefix `openended.`
    for_types: bool  # under `if TYPE_CHECKING`

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} imports {self.module}"


def read_imports(path: Path, tree: ast.AST) -> Iterator[Import]:
    """Yield every import of a file; `from package import module` counts as an import of the module."""
    nodes = list(ast.walk(tree))
    blocks = [n for n in nodes if isinstance(n, ast.If) and ast.unparse(n.test).endswith("TYPE_CHECKING")]
    for_types = {node for block in blocks for statement in block.body for node in ast.walk(statement)}
    for node in nodes:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: imports are absolute here"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                names.append(whole if whole.removeprefix("openended.") in MODULES else str(node.module))
        for name in dict.fromkeys(names):
            yield Import(path, node.lineno, name.removeprefix("openended."), node in for_types)


@cache
def all_imports() -> dict[str, list[Import]]:
    """Return the imports of each module."""
    return {module: list(read_imports(path, parse_file(path))) for module, path in MODULES.items()}


def layer_folder(module: str) -> str:
    """Return the folder that gives a module its layer."""
    return module.removeprefix("harness.").split(".")[0]


def folder_name(module: str) -> str:
    return str(MODULES[module].parent.relative_to(ROOT))


def fail_with(title: str, lines: list[object]) -> None:
    """Fail and list what breaks the rule, if anything does."""
    if lines:
        pytest.fail(f"{title}:\n" + "\n".join(f"  {line}" for line in lines), pytrace=False)


def list_imports(*prefixes: str) -> list[Import]:
    found = (imports for module, imports in all_imports().items() if module.startswith(prefixes))
    return [imported for imports in found for imported in imports]


def test_folders_import_only_from_layers_below():
    order = {folder: number for number, folders in enumerate(LAYERS) for folder in folders}
    bad: list[object] = []
    for module, imports in all_imports().items():
        source = layer_folder(module)
        for imported in imports:
            target = layer_folder(imported.module) if imported.module in MODULES else source
            # A package that holds folders of several layers, such as `harness`, has no layer: it must import nothing.
            if target != source and (target not in order or source not in order or order[target] >= order[source]):
                bad.append(imported)
    fail_with("imports of a folder beside or above", bad)


def test_every_folder_has_a_layer():
    folders = {layer_folder(module) for module in MODULES} - {"harness"}
    assert folders == set().union(*LAYERS)


def describe_circles(name_of: Callable[[str], str], *, count_types: bool) -> list[object]:
    """List the circles between modules, or between what `name_of` groups them into, and the fewest imports of each."""
    edges: dict[str, dict[str, list[Import]]] = defaultdict(lambda: defaultdict(list))
    for module, imports in all_imports().items():
        for imported in imports:
            counts = imported.module in MODULES and (count_types or not imported.for_types)
            if counts and name_of(imported.module) != name_of(module):
                edges[name_of(module)][name_of(imported.module)].append(imported)
    lines: list[object] = []
    while True:
        try:
            TopologicalSorter(edges).prepare()
        except CycleError as err:
            circle = err.args[1]  # each is imported by the next
            target, source = min(pairwise(circle), key=lambda pair: len(edges[pair[1]][pair[0]]))
            lines += [" <- ".join(circle), *(f"  {imported}" for imported in edges[source].pop(target))]
        else:
            return lines


def test_neither_modules_nor_folders_import_each_other_in_circles():
    """Modules of one folder may import each other for type hints."""
    fail_with("modules in a circle, and imports that close it", describe_circles(str, count_types=False))

    fail_with("folders in a circle, and imports that close it", describe_circles(folder_name, count_types=True))


def test_packages_are_imported_through_their_interface():
    """`from openended.harness.core import DataError`: moving a file inside a package changes only that package."""
    bad = [
        imported
        for module, imports in all_imports().items()
        for imported in imports
        if imported.module.startswith("harness.")
        and layer_folder(imported.module) != layer_folder(module)
        and imported.module
        not in (f"harness.{layer_folder(imported.module)}", *exported_modules(layer_folder(imported.module)))
    ]
    fail_with("imports that bypass a package's `__init__`; export the name in its `__init__.pyi`", bad)


def read_interface(package: str) -> dict[str, str]:
    """Return what a package exports: name → the module it comes from, as its `__init__.pyi` lists them."""
    path = ROOT / "harness" / package / "__init__.pyi"
    if not path.exists():
        return {}
    nodes = [n for n in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(n, ast.ImportFrom)]
    return {alias.name: f"harness.{package}.{n.module or alias.name}" for n in nodes for alias in n.names}


def exported_modules(package: str) -> list[str]:
    return [module for name, module in read_interface(package).items() if module == f"harness.{package}.{name}"]


def test_interfaces_list_what_exists_and_is_used():
    bad: list[object] = []
    plugins = [*(ROOT / "hydra_plugins").rglob("*.py"), ROOT / "openended/__init__.py"]
    words_in = {p: set(re.findall(r"\w+", p.read_text(encoding="utf-8"))) for p in [*MODULES.values(), *plugins]}
    for package in {layer_folder(m) for m in MODULES if m.startswith("harness.")} - {"__main__", "harness"}:
        names = read_interface(package)
        outside = [*(p for m, p in MODULES.items() if layer_folder(m) != package), *plugins]
        words = set[str]().union(*map(words_in.__getitem__, outside))
        for name, module in names.items():
            if name not in words:
                bad.append(f"harness/{package}/__init__.pyi: no other package uses {name}")
            if module not in MODULES:
                bad.append(f"harness/{package}/__init__.pyi: there is no {module}")
        exported = [module.rpartition(".")[2] for module in exported_modules(package)]
        shadowed = [n for n in names if f"harness.{package}.{n}" in MODULES and n not in exported]
        bad += [f"harness/{package}/__init__.pyi: {n} is also a module of the package; rename one" for n in shadowed]
    fail_with("interfaces of packages", bad)


RUN = "from openended.harness.app.cli import main\ntry: main()\nexcept SystemExit: pass"
SPECS = """
import openended.harness.models.transformers
from openended.harness.core.registry import load_members
[cls().title for cls in load_members("decoder").values()], load_members("model")
"""
LAUNCHERS = """
import hydra_plugins.openended
from openended.harness.app.hydra import launchers
from openended.harness.backends.ray import backend
from openended.harness.run import pipeline, session
"""
METRICS_AND_TASKS = """
import importlib, pkgutil
for name in ("metrics", "tasks"):
    for module in pkgutil.iter_modules(importlib.import_module(f"openended.{name}").__path__):
        importlib.import_module(f"openended.{name}.{module.name}")
"""
# What must start quickly: its code, and the packages that it may not load.
LIGHT = {
    "import": ("import openended as oe; assert 'evaluate' in dir(oe)", "torch numpy hydra transformers"),
    "specs": (SPECS, "torch transformers tokenizers httpx ray"),
    "launchers": (LAUNCHERS, "ray"),
    "help": (f"sys.argv = ['openended', '--help']\n{RUN}", "torch transformers hydra pandas"),
    "list": (f"sys.argv = ['openended', 'list', 'metrics']\n{RUN}", "torch transformers hydra pandas"),
    "plan": (f"sys.argv = ['openended', 'plan_only=true', 'task=jsonl', 'task.path=x.jsonl']\n{RUN}",
             "torch transformers datasets faiss sklearn pandas matplotlib"),
    "compare": (f"sys.argv = ['openended', 'compare', 'tests/fixtures/logs/a.eval', 'tests/fixtures/logs/b.eval']\n{RUN}",
                "torch transformers hydra pandas datasets sklearn matplotlib inspect_ai"),
    "metrics and tasks": (METRICS_AND_TASKS, " ".join(HEAVY)),
}  # fmt: skip


@pytest.mark.parametrize("name", LIGHT)
def test_what_must_start_quickly_loads_no_heavy_package(name):
    code, heavy = LIGHT[name]
    code = f"import sys\n{code}\nprint(sorted({set(heavy.split())} & sys.modules.keys()))"
    assert run_process(sys.executable, "-c", code).stdout.splitlines()[-1] == "[]"


def test_metrics_and_tasks_import_no_model_and_no_configuration():
    """Not even inside a function."""
    banned = {"torch", "transformers", "hydra", "omegaconf"}
    imports = list_imports("metrics", "tasks")
    found = [imported for imported in imports if imported.module.split(".")[0] in banned]
    fail_with("imports of a metric or a task", found)


def test_only_the_command_line_knows_hydra():
    """Elsewhere there are typed specs; type hints count too."""
    others = [imports for module, imports in all_imports().items() if not module.startswith(MAY_USE_HYDRA)]
    imports = [imported for of_module in others for imported in of_module]
    fail_with("imports of Hydra", [one for one in imports if one.module.split(".")[0] in ("hydra", "omegaconf")])


def test_a_report_reads_records_and_never_a_model():
    banned = ("harness.models", "harness.decoders", "harness.run", "torch")
    fail_with("imports of a report", [one for one in list_imports("harness.report") if one.module.startswith(banned)])


def test_a_file_is_called_what_it_does():
    vague = ("utils", "util", "helpers", "misc")
    fail_with("files with vague names", [p.relative_to(ROOT) for p in FILES if p.stem.strip("_") in vague])


def test_no_two_public_classes_share_a_name():
    homes = defaultdict(list)
    for module, path in MODULES.items():
        for node in parse_file(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module)
    shared = [f"{name}: {', '.join(modules)}" for name, modules in homes.items() if len(modules) > 1]
    fail_with("classes with one name", shared)
