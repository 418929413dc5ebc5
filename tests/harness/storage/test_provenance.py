"""Where a number came from is said of the harness, not of the place it was started in."""

import importlib.metadata
import platform
import subprocess

from openended.harness.storage import list_package_versions, provenance, read_git_state


def test_versions_are_those_that_are_installed():
    found = list_package_versions()
    assert found["python"] == platform.python_version()
    assert found["numpy"] == importlib.metadata.version("numpy")
    assert all(found.values())


def test_the_commit_is_the_harnesss_own(tmp_path, monkeypatch):
    before = read_git_state()
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q", "."], check=True, timeout=240)
    assert read_git_state() == before


def test_outside_a_checkout_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "provenance.py"))
    assert read_git_state() == {"commit": None, "dirty": None}
