"""`store check` finds every damage and changes nothing; `gc` takes what nobody needs and nothing else."""

import json
import os
import time
from pathlib import Path

import pytest

from openended.harness.core import DataError, temporary_files
from openended.harness.storage import MANIFEST, Recipe, Store, check_store, collect_garbage


def entry(root: Path, version: int):
    def build(folder: Path):
        (folder / "data.txt").write_text(f"data {version}")
        return {}

    return Store(root).make(Recipe("stage", version, {}, {}), build)


def furnish(root: Path) -> dict[str, Path]:
    """One of everything."""
    whole, flipped, bare = entry(root, 1), entry(root, 2), entry(root, 3)
    (flipped.path / "data.txt").write_text("data 9")
    (bare.path / MANIFEST).unlink()
    drawer = whole.path.parent
    mine = drawer / temporary_files.create_temporary_name("k")
    places = {
        "whole": whole.path,
        "flipped": flipped.path,
        "bare": bare.path,
        "aside": drawer / f"{whole.key}.damaged-1",
        "unfinished": drawer / f"{'0' * 64}.partial",
        "dead": drawer / mine.name.replace(f"-{os.getpid()}-", "-999999999-"),
        "mine": mine,
        "elsewhere": drawer / "k.tmp-00000000-00000000-1-1-0",
    }
    for place in places.values():
        place.mkdir(exist_ok=True)
        (place / "x").touch()
    (root / "notes.txt").write_text("somebody's")
    return places


def age(path: Path, days: float) -> None:
    then = time.time() - 86400 * days
    for one in (*path.rglob("*"), path):
        os.utime(one, (then, then))


def test_check_names_every_damage_and_changes_nothing(tmp_path):
    places = furnish(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    found = check_store(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    name = {what: str(path.relative_to(tmp_path)) for what, path in places.items()}
    assert found.sound == (name["whole"],)
    assert set(found.damaged) == {name["flipped"], name["bare"]}
    assert "data.txt" in found.damaged[name["flipped"]]
    assert found.aside == (name["aside"],)
    assert found.unfinished == (name["unfinished"],)
    assert found.litter == (name["dead"],)
    assert set(found.foreign) == {name["mine"], name["elsewhere"], "notes.txt"}
    assert found.lines()[-1].startswith("1 sound, 2 damaged, 1 moved aside")


def test_gc_says_first_and_takes_only_what_is_old_or_dead(tmp_path):
    places = furnish(tmp_path)
    assert collect_garbage(tmp_path).names == (str(places["dead"].relative_to(tmp_path)),)
    assert places["dead"].exists()
    for place in places.values():
        age(place, 8)
    gone = collect_garbage(tmp_path, delete=True)
    left = {what for what, path in places.items() if path.exists()}
    assert left == {"whole", "flipped", "bare", "mine"}, "what is damaged is moved aside by who makes it again"
    assert len(gone.names) == 4
    assert (tmp_path / "notes.txt").exists()


def test_gc_with_runs_takes_the_entries_that_no_record_names(tmp_path):
    store, runs = tmp_path / "store", tmp_path / "runs"
    kept, lost = entry(store, 1), entry(store, 2)
    (runs / "a").mkdir(parents=True)
    (runs / "a" / "record.json").write_text(json.dumps({"inputs": {"generate:x": kept.name}}))
    for one in (kept, lost):
        age(one.path, 8)
    assert collect_garbage(store, runs=runs).names == (lost.name,)
    collect_garbage(store, runs=runs, delete=True)
    assert check_store(store).sound == (kept.name,)
    (runs / "a" / "record.json").write_text("{")
    with pytest.raises(DataError, match="nothing was deleted"):
        collect_garbage(store, runs=runs, days=0, delete=True)
    assert kept.path.exists()
