"""A folder written anew takes the place of the old one."""

import os

import pytest

from openended.harness.core import StoreError, temporary_files
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


def test_the_whole_folder_is_exchanged_with_what_is_kept(tmp_path):
    (tmp_path / "out/layouts/x").mkdir(parents=True)
    (tmp_path / "out/a").write_text("old")
    (tmp_path / "out/refs.bib").write_text("kept")
    handle = os.open(tmp_path / "out", os.O_RDONLY)
    with replace_folder(tmp_path / "out", OWN, ("layouts", "refs.bib")) as folder:
        (folder / "b").write_text("new")
    assert names(tmp_path / "out") == ["b", "layouts", "refs.bib"]
    assert os.fstat(handle).st_ino != (tmp_path / "out").stat().st_ino
    os.close(handle)
    assert names(tmp_path) == ["out"]


def test_a_folder_that_a_killed_process_left_is_deleted(tmp_path):
    name = temporary_files.create_temporary_name(".out")
    tag = temporary_files.build_process_tag()
    dead = name.replace(tag, tag.rpartition("-")[0] + "-1")  # as of a process that started at another time
    (tmp_path / dead / "new").mkdir(parents=True)
    with replace_folder(tmp_path / "out", OWN) as folder:
        (folder / "a").write_text("new")
    assert names(tmp_path) == ["out"]


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
