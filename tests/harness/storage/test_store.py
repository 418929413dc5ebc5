"""The store: keys, verification, interruption, two processes at one entry; `store check` and `gc`."""

import json
import multiprocessing as mp
import os
import stat
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from openended.harness.core import (
    DataError,
    Example,
    StoreError,
    digest,
    read_json,
    temporary_files,
    write_json,
    write_text,
)
from openended.harness.storage import (
    MANIFEST,
    Recipe,
    RemoteStore,
    Store,
    check_store,
    check_writable,
    collect_garbage,
    list_sharing_artifacts,
    read_entry,
    write_examples,
)
from tests.helpers import cases, change_json, check_error, write_file


def recipe(**change) -> Recipe:
    base = {"stage": "s", "version": 1, "spec": {"a": 1, "b": None}, "inputs": {"x": "00"}}
    return Recipe(**{**base, **change})


def write(text: str):
    def build(folder: Path):
        (folder / "data.txt").write_text(text)
        return {"n": 1}

    return build


def test_the_key_depends_on_everything_in_the_recipe_but_the_order_of_options():
    spec, inputs = [{"a": 2, "b": None}, {"a": 1, "b": 0}], [{"x": "01"}]
    changed = [recipe(stage="t"), recipe(version=2), *(recipe(spec=s) for s in spec)]
    changed += [recipe(inputs=i) for i in inputs]
    assert len({recipe().key, *(r.key for r in changed)}) == 6
    assert recipe(spec={"b": None, "a": 1}).key == recipe().key
    # Another key for the same recipe makes every existing store worthless: raise KEY_SCHEME, and change this.
    assert recipe().key == "d06a30fc4632cc4a00207e440adf303ad7d6e503cb82d4e08d1ad0b17821e6c1"


def test_an_entry_is_computed_once_and_equal_bytes_have_equal_content(tmp_path):
    first = Store(tmp_path).make(recipe(), write("one"))
    second = Store(tmp_path).make(recipe(), write("another"))
    assert (first.computed, second.computed) == (True, False)
    assert second.content_digest == first.content_digest
    assert (second.path / "data.txt").read_text() == "one"
    other = Store(tmp_path).make(recipe(version=2), write("one"))
    assert other.key != first.key
    assert other.content_digest == first.content_digest


HARMS = {
    "bytes": lambda folder: (folder / "data.txt").write_text("wrong"),
    "no manifest": lambda folder: (folder / MANIFEST).unlink(),
    **{f"manifest {text!r:.9}": lambda folder, text=text: (folder / MANIFEST).write_bytes(text.encode("latin1"))
       for text in ("{", "[]", "null", "3", '"x"', "[" * 100000, "9" * 5000, '{"digest": null}', "\xff")},
    **{f"manifest with another {next(iter(change))}": lambda folder, change=change: change_json(folder / MANIFEST, **change)
       for change in ({"meta": {"n": 2}}, {"key": "0" * 64}, {"files": {}}, {"recipe": {"stage": "s"}}, {"seconds": 9}, {"more": 1})},
}  # fmt: skip


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_a_damaged_entry_is_moved_aside_and_computed_again(harm, tmp_path, caplog):
    entry = Store(tmp_path).make(recipe(), write("right"))
    harm(entry.path)
    assert Store(tmp_path).find(recipe()) is None
    assert [p.name for p in entry.path.parent.iterdir()] == [entry.key], "planning moves nothing"
    again = Store(tmp_path).make(recipe(), write("right"))
    assert again.computed
    assert (again.path / "data.txt").read_text() == "right"
    assert not Store(tmp_path).make(recipe(), write("right")).computed
    assert sorted(p.name for p in entry.path.parent.iterdir()) == [entry.key, f"{entry.key}.damaged-1"]
    assert "damaged" in caplog.text


def test_failed_build_leaves_nothing(tmp_path):
    def fail(folder: Path):
        (folder / "half.txt").write_text("half")
        raise ValueError("no")

    check_error(ValueError, "no", Store(tmp_path).make, recipe(), fail)
    assert list(Store(tmp_path).get_entry_path(recipe()).parent.iterdir()) == []


def test_swapped_entries_are_not_believed(tmp_path, caplog):
    """Every byte agrees with its manifest, and each is the other's."""
    one = Store(tmp_path).make(recipe(), write("one"))
    two = Store(tmp_path).make(recipe(version=2), write("two"))
    one.path.rename(tmp_path / "aside")
    two.path.rename(one.path)
    (tmp_path / "aside").rename(two.path)
    again = Store(tmp_path).make(recipe(), write("one"))
    assert again.computed
    assert (again.path / "data.txt").read_text() == "one"
    assert "in the wrong folder" in caplog.text


def test_an_entry_of_another_stage_is_not_believed(tmp_path):
    one = Store(tmp_path).make(recipe(), write("one"))
    place = tmp_path / "t" / one.key[:2] / one.key
    place.parent.mkdir(parents=True)
    one.path.rename(place)
    check_error(DataError, "in the wrong folder", read_entry, place)


def _die(root: str, ready) -> None:
    def build(folder: Path):
        (folder / "half.txt").write_text("half")
        ready.send(folder.name)
        time.sleep(90)

    Store(Path(root), locking=False).make(recipe(), build)


def test_what_a_dead_process_left_is_swept_and_a_living_ones_is_not(tmp_path):
    context = mp.get_context("fork")
    folders = []
    for _ in range(2):
        ours, theirs = context.Pipe()
        process = context.Process(target=_die, args=(str(tmp_path), theirs))
        process.start()
        folders.append((process, ours.recv()))
    try:
        folders[0][0].kill()
        folders[0][0].join()
        temporary_files.delete_abandoned_once.cache_clear()
        entry = Store(tmp_path).make(recipe(), write("x"))
        left = {p.name for p in entry.path.parent.iterdir()}
        assert left == {entry.key, folders[1][1]}
    finally:
        folders[1][0].kill()
        folders[1][0].join()


def test_temporary_files_of_the_dead_go_when_their_folder_is_written_again(tmp_path):
    mine = tmp_path / temporary_files.create_temporary_name(".a.png")
    dead = tmp_path / mine.name.replace(f"-{os.getpid()}-", "-999999999-")
    other = tmp_path / ".a.png.tmp-00000000-1-1-0"
    for path in (mine, dead, other):
        path.write_text("half")
    temporary_files.delete_abandoned_once.cache_clear()
    write_text(tmp_path / "a.png", "whole")
    assert {p.name for p in tmp_path.iterdir()} == {"a.png", mine.name, other.name}


@cases("umask, folder, file", (0o002, 0o775, 0o664), (0o022, 0o755, 0o644), (0o077, 0o700, 0o600))
def test_entries_and_locks_follow_the_umask(umask, folder, file, tmp_path):
    before = os.umask(umask)
    try:
        entry = Store(tmp_path / "store").make(recipe(), lambda work: write_text(work / "data.txt", "x") or {})
    finally:
        os.umask(before)
    (lock,) = (tmp_path / "store" / ".locks").iterdir()
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (entry.path, *entry.path.iterdir(), lock)}
    assert modes == {entry.key: folder, MANIFEST: file, "data.txt": file, lock.name: file}


def _as_user(root: Path, user: int, version: int) -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(4242)
            os.setuid(user)
            os.umask(0o002)
            made = Store(root / "store").make(recipe(version=version), write("x")).computed
            os.write(writer, b"made" if made else b"found")
        except BaseException as err:
            os.write(writer, repr(err).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as handle:
        output = handle.read()
    os.waitpid(child, 0)
    return output


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="two users need root")
def test_a_store_that_may_not_be_read_is_one_line():
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        Store(root / "store").make(recipe(), write("x")).path.chmod(0o700)
        output = _as_user(root, 4001, 1)
    assert "StoreError" in output
    assert "chmod" in output


def test_home_folders_are_not_in_manifests(tmp_path, monkeypatch):
    secret = recipe(spec={"path": str(Path.home() / "texts" / "a.jsonl"), "other": f"{Path.home()}x/a"})
    entry = Store(tmp_path).make(secret, lambda folder: {"notes": [f"read {Path.home()}/b"]})
    text = (entry.path / MANIFEST).read_text()
    assert '"~/texts/a.jsonl"' in text
    assert '"read ~/b"' in text
    assert '"…/a"' in text
    assert not Store(tmp_path).make(secret, write("x")).computed


def _race(root: str, locking: bool, number: int, out) -> None:
    def build(folder: Path):
        time.sleep(0.2)
        (folder / "data.txt").write_text("same bytes")
        return {"number": number}

    entry = Store(Path(root), locking=locking).make(recipe(), build)
    out.put((number, entry.computed, entry.content_digest))


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
    folder = Store(tmp_path).get_entry_path(recipe())
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]
    assert json.loads((folder / MANIFEST).read_text())["meta"]["number"] in (0, 1)


def test_unwritable_folder_is_a_clear_error(tmp_path):
    blocker = write_file(tmp_path / "file", "")
    check_error(StoreError, "is not a folder", check_writable, blocker / "outputs")
    check_error(StoreError, "cannot write", Store(blocker / "outputs").make, recipe(), write("x"))


def build_examples(folder):
    for name in ("examples", "spare"):
        write_examples(folder / f"{name}.arrow", [Example("a", "prompt", " human")])
    return {"n": 1, "spare": 1, "skipped": {}}


def build_tokens(folder, first=0):
    np.save(folder / "values.npy", np.arange(first, first + 5))
    np.save(folder / "offsets.npy", np.array([0, 2, 5]))
    return {}


STAGES = {"examples": (build_examples, "spare.arrow"), "tokens": (build_tokens, "offsets.npy")}


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
        "whole": whole.path, "flipped": flipped.path, "bare": bare.path, "aside": drawer / f"{whole.key}.damaged-1",
        "unfinished": root / "rows" / "00" / ("0" * 64), "shared": root / "rows" / "11" / ("1" * 64),
        "unused": root / "rows" / "22" / ("2" * 64),
        "dead": drawer / mine.name.replace(f"-{os.getpid()}-", "-999999999-"), "mine": mine,
        "elsewhere": drawer / "k.tmp-00000000-1-1-0",
    }  # fmt: skip
    for place in places.values():
        place.mkdir(exist_ok=True, parents=True)
        (place / "x").touch()
    (places["unfinished"] / "block-x.arrow").touch()
    (places["shared"] / f"stage-{whole.key}").touch()
    (places["unused"] / f"stage-{'3' * 64}").touch()
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
    # what is damaged is moved aside by who makes it again
    assert left == {"whole", "flipped", "bare", "mine", "shared"}
    assert len(gone.names) == 5
    assert (tmp_path / "notes.txt").exists()


def test_gc_with_runs_takes_the_entries_that_no_record_names(tmp_path):
    store, runs = tmp_path / "store", tmp_path / "runs"
    kept, lost = entry(store, 1), entry(store, 2)
    (runs / "a").mkdir(parents=True)  # of an earlier version, at another depth
    (runs / "a" / "record.json").write_text(json.dumps({"inputs": {"generate:x": kept.name}}))
    for one in (kept, lost):
        age(one.path, 8)
    assert collect_garbage(store, runs=runs).names == (lost.name,)
    collect_garbage(store, runs=runs, delete=True)
    assert check_store(store).sound == (kept.name,)
    (runs / "a" / "record.json").write_text("{")
    check_error(DataError, "so nothing was done", collect_garbage, store, runs=runs, days=0, delete=True)
    assert kept.path.exists()


@pytest.mark.parametrize("protocol", ["file", "memory"])
def test_a_shared_store_gives_each_machine_what_the_other_computed(protocol, tmp_path):
    url = f"{protocol}://{tmp_path}/shared"
    one, two, three = Store(tmp_path / "one"), Store(tmp_path / "two"), Store(tmp_path / "three")
    recipes = {stage: Recipe(stage, 1, {}, {}) for stage in STAGES}
    key = "ab" * 32
    entries = {stage: one.make(recipes[stage], build, key) for stage, (build, _) in STAGES.items()}
    (entries["tokens"].path / "values.npy").write_bytes(b"damaged")
    assert RemoteStore(url).push(one.root) == 1, "what is damaged is not copied"
    two.make(recipes["tokens"], build_tokens)
    assert (RemoteStore(url).push(two.root), RemoteStore(url).push(two.root)) == (1, 0)
    assert RemoteStore(url).pull(two.root) == 1
    assert not Store(two.root).make(recipes["examples"], build_examples).computed
    shared = list(list_sharing_artifacts(two.get_rows_path(key)))
    assert [entry.stage for entry in shared] == ["examples"], "a larger run there finds the rows"
    assert (RemoteStore(url).pull(three.root), RemoteStore(url).pull(three.root)) == (2, 0)
    assert not list(three.root.rglob("*.tmp-*"))
    check_error(DataError, "no store entry is there", RemoteStore(f"{url}/[mistyped]").pull, two.root)


def test_two_machines_may_copy_one_entry_whose_bytes_differ_at_the_same_time(tmp_path, monkeypatch):
    for first, name in enumerate(("one", "two")):
        Store(tmp_path / name).make(Recipe("tokens", 1, {}, {}), partial(build_tokens, first=first))
    first, second = (RemoteStore(f"{tmp_path}/shared") for _ in range(2))  # each lists it while it is empty
    assert first.push(tmp_path / "one") == 1
    move, shared = second._call, tmp_path / "shared"

    def die_before_the_manifest(method, *words, **options):
        if method == "put_file" and words[0].endswith(MANIFEST):
            raise StoreError("killed")
        return move(method, *words, **options)

    monkeypatch.setattr(second, "_call", die_before_the_manifest)
    check_error(StoreError, "killed", second.push, tmp_path / "two")
    assert len([path for path in shared.rglob("*") if path.name.endswith("values.npy")]) == 2
    assert RemoteStore(str(shared)).pull(tmp_path / "three") == 1
    monkeypatch.undo()
    assert second.push(tmp_path / "two") == 1
    assert RemoteStore(str(shared)).pull(tmp_path / "four") == 1


def test_a_folder_with_marks_of_patterns_is_a_shared_store_and_no_password_is_kept(tmp_path):
    Store(tmp_path / "one").make(Recipe("tokens", 1, {}, {}), build_tokens)
    url = f"{tmp_path}/a[b]*"
    assert [RemoteStore(url).push(tmp_path / "one") for _ in range(2)] == [1, 0]
    assert RemoteStore("memory://me:secret@host/store?key=secret").url == "memory://host/store"


@pytest.mark.parametrize("harm", ["file", "name", "manifest", "swap", "files"])
def test_a_damaged_or_forged_shared_entry_is_not_copied(harm, tmp_path, caplog):
    entry = Store(tmp_path / "one").make(Recipe("tokens", 1, {}, {}), build_tokens)
    shared = RemoteStore(f"{tmp_path}/shared")
    shared.push(tmp_path / "one")
    place = tmp_path / "shared" / entry.name
    if harm == "file":
        (place / f"{entry.files['values.npy']}-values.npy").write_bytes(b"other")
    elif harm == "name":
        manifest = read_json(place / MANIFEST)
        manifest["files"]["../../values.npy"] = manifest["files"]["values.npy"]
        del manifest["digest"]
        write_json(place / MANIFEST, {**manifest, "digest": digest(manifest)})
    elif harm == "files":
        manifest = {**read_json(place / MANIFEST), "files": ["offsets.npy", "values.npy"]}
        del manifest["digest"]
        write_json(place / MANIFEST, {**manifest, "digest": digest(manifest)})
    elif harm == "manifest":
        (place / MANIFEST).write_text("[]")
    else:
        place = place.rename(place.with_name(entry.key[:2] + "0" * 62))
    assert RemoteStore(f"{tmp_path}/shared").pull(tmp_path / "two") == 0
    assert "is damaged" in caplog.text
    assert not [path for path in (tmp_path / "two").rglob("*") if path.is_file()]
