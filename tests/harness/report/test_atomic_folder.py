"""A folder written anew takes the place of the old one."""

import pytest

from openended.harness.core.errors import StoreError
from openended.harness.report.atomic_folder import replace_folder

OWN = ("a", "b")


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_nothing_of_the_old_one_stays(tmp_path):
    for name in OWN:
        with replace_folder(tmp_path / "out", OWN) as folder:
            (folder / name).mkdir()
    assert names(tmp_path / "out") == ["b"]
    assert names(tmp_path) == ["out"]


def test_what_somebody_keeps_there_stays(tmp_path):
    (tmp_path / "out/a").mkdir(parents=True)
    (tmp_path / "out/notes.txt").write_text("mine")
    with replace_folder(tmp_path / "out", OWN) as folder:
        (folder / "b").write_text("new")
    assert names(tmp_path / "out") == ["b", "notes.txt"]


def test_a_block_that_fails_changes_nothing(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/a").write_text("old")
    with pytest.raises(ValueError, match="a fault"), replace_folder(tmp_path / "out", OWN):
        raise ValueError("a fault")
    assert names(tmp_path / "out") == ["a"]
    assert names(tmp_path) == ["out"]


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"), replace_folder(tmp_path / "file/out", OWN):
        pass
