"""The store: keys, verification, interruption, two processes at one entry."""

from __future__ import annotations

import json
import multiprocessing as mp
import time
from pathlib import Path

import pytest

from openended.harness.errors import StoreError
from openended.harness.folders import check_writable
from openended.harness.store import MANIFEST, Recipe, Store


def recipe(**change) -> Recipe:
    base = {"stage": "s", "version": 1, "spec": {"a": 1, "b": None}, "inputs": {"x": "00"}}
    return Recipe(**{**base, **change})


def write(text: str):
    def build(folder: Path):
        (folder / "data.txt").write_text(text)
        return {"n": 1}

    return build


@pytest.mark.parametrize(
    "change",
    [
        {"stage": "t"},
        {"version": 2},
        {"spec": {"a": 2, "b": None}},
        {"spec": {"a": 1, "b": 0}},
        {"inputs": {"x": "01"}},
    ],
)
def test_everything_in_the_recipe_moves_the_key(change):
    assert recipe(**change).key != recipe().key


def test_order_of_options_does_not_move_the_key():
    assert recipe(spec={"b": None, "a": 1}).key == recipe().key


def test_made_once_then_found(tmp_path):
    store = Store(tmp_path)
    first = store.make(recipe(), write("one"))
    second = Store(tmp_path).make(recipe(), write("another"))
    assert (first.made, second.made) == (True, False)
    assert second.content == first.content
    assert (second.path / "data.txt").read_text() == "one"


def test_equal_bytes_have_equal_content_whatever_made_them(tmp_path):
    store = Store(tmp_path)
    a = store.make(recipe(), write("same"))
    b = store.make(recipe(version=2), write("same"))
    assert a.key != b.key
    assert a.content == b.content


def test_damaged_bytes_are_moved_aside_and_made_again(tmp_path, caplog):
    entry = Store(tmp_path).make(recipe(), write("right"))
    (entry.path / "data.txt").write_text("wrong")
    again = Store(tmp_path).make(recipe(), write("right"))
    assert again.made
    assert (again.path / "data.txt").read_text() == "right"
    assert (entry.path.with_name(entry.path.name + ".damaged-1") / "data.txt").read_text() == "wrong"
    assert "damaged" in caplog.text


def test_damaged_manifest_is_a_damaged_entry(tmp_path):
    entry = Store(tmp_path).make(recipe(), write("right"))
    (entry.path / MANIFEST).write_text("{")
    assert Store(tmp_path).make(recipe(), write("right")).made


def test_failed_build_leaves_nothing(tmp_path):
    def fail(folder: Path):
        (folder / "half.txt").write_text("half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Store(tmp_path).make(recipe(), fail)
    assert list(Store(tmp_path).place(recipe()).parent.iterdir()) == []


def test_resumable_build_gets_its_folder_back(tmp_path):
    def fail(folder: Path):
        (folder / "part.txt").write_text("kept")
        raise KeyboardInterrupt

    def finish(folder: Path):
        assert (folder / "part.txt").read_text() == "kept"
        (folder / "part.txt").rename(folder / "data.txt")
        return {}

    with pytest.raises(KeyboardInterrupt):
        Store(tmp_path).make(recipe(), fail, resumable=True)
    assert Store(tmp_path).find(recipe()) is None
    entry = Store(tmp_path).make(recipe(), finish, resumable=True)
    assert list(entry.files) == ["data.txt"]


def test_no_manifest_is_a_miss(tmp_path):
    entry = Store(tmp_path).make(recipe(), write("x"))
    (entry.path / MANIFEST).unlink()
    assert Store(tmp_path).find(recipe()) is None


def _race(root: str, locking: bool, number: int, out) -> None:
    def build(folder: Path):
        time.sleep(0.2)
        (folder / "data.txt").write_text("same bytes")
        return {"number": number}

    entry = Store(Path(root), locking=locking).make(recipe(), build)
    out.put((number, entry.made, entry.content))


@pytest.mark.parametrize("locking", [True, False])
def test_two_processes_race_for_one_entry(tmp_path, locking):
    context = mp.get_context("fork")
    out = context.Queue()
    both = [context.Process(target=_race, args=(str(tmp_path), locking, i, out)) for i in range(2)]
    for process in both:
        process.start()
    results = [out.get(timeout=60) for _ in both]
    for process in both:
        process.join()
    assert len({content for _, _, content in results}) == 1
    if locking:
        assert sorted(made for _, made, _ in results) == [False, True]
    folder = Store(tmp_path).place(recipe())
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]
    assert json.loads((folder / MANIFEST).read_text())["meta"]["number"] in (0, 1)


def test_unwritable_folder_is_a_clear_error(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(StoreError, match="is not a folder"):
        check_writable(blocker / "outputs")
    with pytest.raises(StoreError, match="cannot write"):
        Store(blocker / "outputs").make(recipe(), write("x"))
