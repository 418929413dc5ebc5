"""One import name: the wheel holds `openended` and `hydra_plugins.openended`, and neither harms nor is harmed.

Every environment here is fresh and sees the dependencies of this one, but not this one's own `openended`.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hydra_plugins import openended as plugins
from tests.helpers import ROOT

COPIED = ("conf", "harness", "metrics", "tasks", "openended", "hydra_plugins")
FILES = ("pyproject.toml", "README.md", "LICENSE")
FOREIGN = ("metrics", "tasks", "conf", "harness")
PLAN = ("plan_only=true", "num_examples=2")
OWN_MODULES = "from openended.metrics.mauve import mauve; import openended.tasks.docs; print(mauve.__module__)"
PLUGINS = """
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigSource
import openended
print(openended.__file__)
found = Plugins.instance().discover(ConfigSource)
print(sorted(c.__name__ for c in found if "openended" in c.__module__))
"""
# A search path is asked for by what it is, not by its name.
OURS = str(sorted(set(plugins.__all__) - {"PluginPackages"}))


def call(*words: str | Path, cwd: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command that sees no other `PYTHONPATH` than the one given."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env |= dict.fromkeys(("PIP_DISABLE_PIP_VERSION_CHECK", "PIP_NO_INDEX", "PIP_NO_COMPILE"), "1")
    env |= {"PYTHONPATH": str(path)} if path else {}
    return subprocess.run(
        [*map(str, words)], cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=240
    )


def checked(*words: str | Path, cwd: Path, path: Path | None = None) -> str:
    done = call(*words, cwd=cwd, path=path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A copy of the tracked files, links as links, with what Python compiled of them already."""
    copy = tmp_path_factory.mktemp("checkout") / "source"
    for name in COPIED:
        shutil.copytree(ROOT / name, copy / name, symlinks=True)
    for name in FILES:
        shutil.copy(ROOT / name, copy / name)
    return copy


BUILD = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"


def build(what: str, source: Path, into: Path) -> Path:
    """Build the `sdist` or `wheel` of a folder as pip and build do, by the hooks of its build system."""
    checked(sys.executable, "-c", BUILD, f"build_{what}", into, cwd=source)
    return next(into.glob("openended-*.tar.gz" if what == "sdist" else "openended-*.whl"))


@pytest.fixture(scope="module")
def wheel(checkout, tmp_path_factory) -> Path:
    """The wheel that is made from the sdist, as an index would have it."""
    where = tmp_path_factory.mktemp("dist")
    shutil.unpack_archive(build("sdist", checkout, where), where / "unpacked", filter="data")
    (source,) = (where / "unpacked").iterdir()
    return build("wheel", source, where)


@pytest.fixture(scope="module")
def dependencies(tmp_path_factory) -> Path:
    """Links to everything that is installed here, but for what is ours."""
    farm = tmp_path_factory.mktemp("dependencies")
    for folder in dict.fromkeys(Path(p).resolve() for p in sys.path if p.endswith(("site-packages", "dist-packages"))):
        for entry in folder.iterdir():
            ours = "openended" in entry.name or entry.name == "hydra_plugins" or entry.suffix == ".pth"
            if not ours and not (farm / entry.name).exists():
                (farm / entry.name).symlink_to(entry)
    return farm


@pytest.fixture(scope="module")
def bare_interpreter(dependencies, tmp_path_factory) -> Path:
    """The interpreter of an environment without ours."""
    return environment(tmp_path_factory.mktemp("bare") / "env", dependencies)


def environment(where: Path, dependencies: Path) -> Path:
    """Make a fresh environment; returns its interpreter."""
    checked(sys.executable, "-m", "venv", "--without-pip", where, cwd=where.parent)
    (site,) = where.glob("lib/python3*/site-packages")
    (site / "dependencies.pth").write_text(f"{dependencies}\n")
    return where / "bin/python"


def pip(python: Path, *words: str | Path) -> None:
    checked(sys.executable, "-m", "pip", "-q", "--python", python, *words, cwd=python.parent)


def foreign_wheel(where: Path) -> Path:
    """Somebody else's wheel with packages of our folders' names."""
    path = where / "foreign-1.0-py3-none-any.whl"
    info = "foreign-1.0.dist-info"
    files = {f"{name}/__init__.py": "WHOSE = 'foreign'\n" for name in FOREIGN}
    files["conf/config.yaml"] = "foreign: true\n"
    files[f"{info}/METADATA"] = "Metadata-Version: 2.1\nName: foreign\nVersion: 1.0\n"
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return path


@pytest.fixture(scope="module")
def interpreter(wheel, dependencies, tmp_path_factory) -> Path:
    """The interpreter of an environment with our wheel, and then a foreign one."""
    where = tmp_path_factory.mktemp("installed")
    python = environment(where / "env", dependencies)
    pip(python, "install", "--no-deps", wheel, foreign_wheel(where))
    return python


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_four_folders_and_is_that_of_the_checkout(checkout, wheel, tmp_path):
    ours = [*(ROOT / "openended").glob("*.*"), *(ROOT / "openended" / "integrations").rglob("*.*")]
    ours += (ROOT / "hydra_plugins").rglob("*.*")
    expected = {str(p.relative_to(ROOT)) for p in ours}
    for name in ("conf", "harness", "metrics", "tasks"):
        expected |= {f"openended/{p.relative_to(ROOT)}" for p in (ROOT / name).rglob("*") if p.is_file()}
    with zipfile.ZipFile(build("wheel", checkout, tmp_path)) as one, zipfile.ZipFile(wheel) as other:
        inside = {name for name in other.namelist() if ".dist-info/" not in name}
        assert inside == {name for name in expected if "__pycache__" not in name}
        assert sorted(one.namelist()) == sorted(other.namelist())
        assert all(one.read(name) == other.read(name) for name in one.namelist() if not name.endswith("RECORD"))


@pytest.mark.slow
def test_a_foreign_wheel_with_our_folders_names_changes_nothing(interpreter, tmp_path):
    whose = "import conf, harness, metrics, tasks; print({m.WHOSE for m in (conf, harness, metrics, tasks)})"
    assert checked(interpreter, "-c", whose, cwd=tmp_path).strip() == "{'foreign'}"
    where, found, name = checked(interpreter, "-c", PLUGINS + OWN_MODULES, cwd=tmp_path).splitlines()
    assert "site-packages" in where
    assert (found, name) == (OURS, "openended.metrics.mauve")


@pytest.mark.slow
def test_files_and_packages_of_our_names_in_the_working_directory_change_nothing(interpreter, tmp_path):
    for name in ("tasks.py", "metrics.py", "harness.py"):
        (tmp_path / name).write_text("raise ImportError('the wrong one')\n")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/__init__.py").touch()
    (tmp_path / "conf/config.yaml").write_text("seed: nobody's\n")
    assert "generate" in checked(interpreter, "-m", "openended", *PLAN, cwd=tmp_path)
    assert "generate" in checked(interpreter.with_name("openended"), *PLAN, cwd=tmp_path, path=tmp_path)


@pytest.mark.slow
def test_hydra_finds_ours_in_an_editable_install(checkout, dependencies, tmp_path):
    copy = tmp_path / "source"
    shutil.copytree(checkout, copy, symlinks=True)
    python = environment(tmp_path / "env", dependencies)
    pip(python, "install", "--no-deps", "--no-build-isolation", "--editable", copy)
    where, found = checked(python, "-c", PLUGINS, cwd=tmp_path).splitlines()
    assert where == str(copy / "openended/__init__.py")
    assert found == OURS
    assert call(python, "-c", "import metrics", cwd=tmp_path).returncode == 1, "the folders keep to their one name"


@pytest.mark.slow
@pytest.mark.parametrize("has_links", [True, False])
def test_a_checkout_works_without_an_install(checkout, bare_interpreter, tmp_path, has_links):
    """Git on Windows writes a link as a small text file, unless it may make links."""
    copy = tmp_path / "source"
    shutil.copytree(checkout, copy, symlinks=True)
    for name in FOREIGN if not has_links else ():
        (copy / "openended" / name).unlink()
        (copy / "openended" / name).write_text(f"../{name}")
    for cwd, path in ((tmp_path, copy), (copy, None)):
        where, found, name = checked(bare_interpreter, "-c", PLUGINS + OWN_MODULES, cwd=cwd, path=path).splitlines()
        assert Path(cwd, where) == copy / "openended/__init__.py"
        assert (found, name) == (OURS, "openended.metrics.mauve")
    assert "generate" in checked(bare_interpreter, "-m", "openended", *PLAN, cwd=copy)


@pytest.mark.parametrize("name", ["harness", "harness.core.types", "metrics", "metrics.mauve", "tasks", "tasks.docs"])
def test_a_bare_name_says_what_to_import(checkout, bare_interpreter, name):
    left = call(bare_interpreter, "-c", f"import {name}", cwd=checkout)
    assert left.returncode == 1
    package = name.partition(".")[0]
    assert left.stderr.splitlines()[-1].startswith(f"ImportError: import openended.{package}, not {package}: ")


@pytest.mark.slow
def test_the_folder_runs_as_a_module(checkout, bare_interpreter):
    assert checked(bare_interpreter, "-m", "harness", "--version", cwd=checkout).startswith("openended ")
    assert "generate" in checked(bare_interpreter, "-m", "harness", *PLAN, cwd=checkout)


@pytest.mark.long
def test_installed_it_runs_the_quick_start_from_another_directory(interpreter, tmp_path):
    words = ("-m", "openended", "experiment=quickstart", "num_examples=16", "max_new_tokens=8")
    out = checked(interpreter, *words, cwd=tmp_path)
    for expected in (
        "human", "greedy", "ancestral", "nucleus", "MAUVE", "report.html", "(results: .md .tex .csv)", "(divergence, ",
    ):  # fmt: skip
        assert expected in out
    # greedy once, two seeds of the others
    assert len(list(tmp_path.glob("outputs/runs/quickstart/*/record.json"))) == 5
    assert list(tmp_path.glob("outputs/reports/quickstart/*.html")), "the page's template was found"


@pytest.mark.slow
def test_the_example_judgments_are_found_from_another_directory(interpreter, tmp_path):
    words = ["judgments=bundled:example_pairs.csv", "metric=[bradley_terry]", "plan_only=true"]
    assert "bradley_terry example_pairs.csv" in checked(interpreter.with_name("openended"), *words, cwd=tmp_path)
    wrong = call(interpreter.with_name("openended"), "judgments=bundled:nothing.csv", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "one of bundled:example_pairs.csv, bundled:example_ratings.csv" in wrong.stderr


def test_readme_tables_are_those_of_the_registry():
    command = [sys.executable, str(ROOT / "scripts/readme.py"), "--check"]
    done = subprocess.run(command, cwd=ROOT, check=False, timeout=240)
    assert done.returncode == 0, "a generated block is stale: run scripts/readme.py"
