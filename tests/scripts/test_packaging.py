"""The files of packaging agree with pyproject.toml: versions, dependencies, extras, entry points and Pythons."""

import json
import re
import tomllib

import pytest
import yaml

import openended
from tests.helpers import ROOT

PACKAGING = ROOT / "scripts" / "packaging"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
LOCK = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
RECIPE = yaml.safe_load((PACKAGING / "recipe.yaml").read_text(encoding="utf-8"))
CONDA_NAMES = {"matplotlib": "matplotlib-base"}


def normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def split(requirement: str) -> tuple[str, str]:
    """Return the name and the version range of a requirement."""
    name, bounds = re.fullmatch(r"([\w.-]+)(?:\[[\w,-]+\])?\s*([^;]*)(?:;.*)?", requirement).groups()
    return name, bounds.strip()


def test_the_lock_was_made_from_this_project():
    (own,) = (package for package in LOCK["package"] if package["name"] == "openended")
    locked = {(normalize(r["name"]), r.get("specifier", "")) for r in own["metadata"]["requires-dist"]}
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    stated = {(normalize(name), bounds) for group in groups for name, bounds in map(split, group)}
    kept, right = ({(n, ",".join(sorted(b.split(",")))) for n, b in pins} for pins in (locked, stated))
    assert kept == right
    assert set(own["metadata"]["provides-extras"]) == set(PROJECT["optional-dependencies"])
    assert sorted(LOCK["requires-python"].split(", ")) == sorted(PROJECT["requires-python"].split(","))


def test_pip_and_uv_install_the_same_versions():
    locked: dict[str, set[str]] = {}
    for package in LOCK["package"]:
        locked.setdefault(package["name"], set()).add(package.get("version", ""))
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:]
    pins = dict(line.split("==") for line in lines)
    assert len(pins) == len(lines) > 100
    assert {name: version for name, version in pins.items() if version not in locked.get(name, ())} == {}


def test_every_locked_file_comes_from_the_public_index_with_a_hash():
    for package in LOCK["package"]:
        if package["name"] != "openended":
            assert package["source"] == {"registry": "https://pypi.org/simple"}, package["name"]
            files = [*package.get("wheels", ()), *filter(None, [package.get("sdist")])]
            assert files
            assert all(file["hash"].startswith("sha256:") for file in files), package["name"]


def test_the_conda_recipe_needs_what_the_light_core_needs():
    stated = {CONDA_NAMES.get(name, name): bounds for name, bounds in map(split, PROJECT["dependencies"])}
    stated["python"] = PROJECT["requires-python"]
    assert dict(word.split(" ", 1) for word in RECIPE["requirements"]["run"]) == stated
    scripts = dict(word.split(" = ") for word in RECIPE["build"]["python"]["entry_points"])
    assert scripts == PROJECT["scripts"]


def test_one_version_in_every_file():
    version = openended.__version__
    assert RECIPE["context"]["version"] == version
    assert json.loads((ROOT / "codemeta.json").read_text(encoding="utf-8"))["version"] == version
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == version
    (newest, *_) = re.findall(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest == version


@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_an_image_installs_extras_that_exist(name):
    text = (PACKAGING / f"{name}.Dockerfile").read_text(encoding="utf-8")
    extras = re.findall(r"--extra (\w+)", text) + [e for g in re.findall(r"\.\[([\w,]+)\]", text) for e in g.split(",")]
    assert extras
    assert set(extras) <= set(PROJECT["optional-dependencies"])
    for path in re.findall(r"docker build -f (\S+)", text):
        assert (ROOT / path).is_file()


def test_pixi_installs_extras_that_exist():
    pixi = tomllib.loads((ROOT / "pixi.toml").read_text(encoding="utf-8"))
    tables = [pixi["pypi-dependencies"], *(f["pypi-dependencies"] for f in pixi["feature"].values())]
    assert {e for table in tables for e in table["openended"]["extras"]} <= set(PROJECT["optional-dependencies"])
    assert pixi["dependencies"]["python"] == PROJECT["requires-python"]


def test_every_promised_python_is_tested():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    matrix = workflow["jobs"]["commands"]["strategy"]["matrix"]["python"]
    low, high = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"]).groups()
    assert matrix == [f"3.{minor}" for minor in range(int(low), int(high))]


def test_a_release_stores_no_token():
    text = (ROOT / ".github" / "workflows" / "publish.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    assert jobs["pypi"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in text
    assert "--format cyclonedx" in text
