"""Artifacts are named once, several can come of one pass; arrays and blocks of a generation come back or are set aside."""

import logging
import random
import shutil
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from openended.harness.core import (
    DataError,
    Generation,
    Runtime,
    Side,
    UnavailableFileError,
    UnavailableModelError,
    digest_file,
)
from openended.harness.models import EmbedderSpec, ModelCache
from openended.harness.run.generate import RowBlocks, merge_facts
from openended.harness.run.session import _LASTING, SideCache
from openended.harness.run.steps import Step, StepGroup, count_shared_rows
from openended.harness.storage import STAGES, Entry, Recipe, Row, RowFile, load_array, save_array, write_rows
from tests.harness.run.small import make_executor, open_session


def embed(what: str, spec: Any = None, rows: Any = "a") -> Step:
    return Step("embed", what, "human", spec or {}, {"rows": rows}, partial(write, "x"), num_texts=2)


def write(text, folder):
    (folder / "data").write_text(text)
    np.save(folder / "embeddings.npy", np.zeros((1, 1)))  # an entry has the files of its stage
    return {"n": len(text)}


def test_an_artifact_asked_for_twice_is_named_once(tmp_path):
    run, first, second = make_executor(tmp_path), embed("human"), embed("half")
    run.run(first, second)
    assert first.entry is not None
    assert first.entry == second.entry
    assert [(p.what, p.state) for p in run.plan] == [("human", "make")]
    assert (run.num_computed, run.inputs) == (1, {"embed:human": first.entry.name})
    again = make_executor(tmp_path)
    again.run(embed("human"))
    assert (again.num_computed, len(again.plan), again.provenance) == (0, 1, {"embed:human": {}})


def test_one_pass_makes_what_is_missing(tmp_path):
    asked = []

    def compute(steps):
        asked.append([step.what for step in steps])
        return [partial(write, step.what) for step in steps]

    def declare():
        return StepGroup([embed(f"{n}", {"n": n}) for n in range(3)], compute)

    make_executor(tmp_path).run(declare().steps[1])
    run, group = make_executor(tmp_path), declare()
    run.run(group)
    assert asked == [["0", "2"]]
    assert [(step.entry.path / "data").read_text() for step in group.steps] == ["0", "x", "2"]
    assert [p.state for p in run.plan] == ["make", "hit", "make"]
    make_executor(tmp_path).run(again := declare())
    assert None not in [step.entry for step in again.steps]
    assert asked == [["0", "2"]]


def test_passes_of_one_family_are_computed_one_after_the_other(tmp_path):
    order: list[str] = []

    def compute(name, steps):
        order.append(f"{name} begins")
        time.sleep(0.2)
        order.append(f"{name} ends")
        return [partial(write, step.what) for step in steps]

    def run(name, plan_only=False):
        group = StepGroup([embed(name, {"n": name})], partial(compute, name), lambda: "family")
        make_executor(tmp_path, plan_only=plan_only).run(group)

    threads = [threading.Thread(target=run, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [word.split()[1] for word in order] == ["begins", "ends"] * 2
    with make_executor(tmp_path).session.store.hold_lock("pass-family", "family"):
        run("a")  # is stored
        run("c", plan_only=True)
    assert len(order) == 4


def test_a_plan_makes_nothing_and_waits_once(tmp_path):
    plan = make_executor(tmp_path, plan_only=True)
    for _ in range(2):
        plan.run(first := embed("human", rows=embed("before")), second := embed("model"))
        assert first.entry is second.entry is None
    key = Recipe("embed", STAGES["embed"], {}, {"rows": "a"}).key
    assert [(p.what, p.state, p.key, p.num_texts) for p in plan.plan] == [
        ("human", "waits", None, 2),
        ("model", "make", key, 2),
    ]
    assert not list(tmp_path.rglob("manifest.json"))


def test_the_version_of_a_stage_is_in_its_keys_alone(tmp_path, monkeypatch):
    def list_keys():
        steps = [Step(stage, "x", "human", {}, {}, partial(write, "x")) for stage in ("embed", "score")]
        make_executor(tmp_path, plan_only=True).run(*steps)
        return [step.key for step in steps]

    before = list_keys()
    monkeypatch.setitem(STAGES, "embed", STAGES["embed"] + 1)  # type: ignore[arg-type] # a plain dict underneath
    assert [a == b for a, b in zip(before, list_keys(), strict=True)] == [False, True]


def test_a_plan_notes_each_missing_input_once_and_what_kind_it_is(tmp_path):
    plan = make_executor(tmp_path, plan_only=True)

    def fail(kind, *words):
        raise kind(*words)

    errors = [(UnavailableModelError, "no model"), (UnavailableFileError, "no file", "https://a/b"), (DataError, "bad")]
    for error in errors + errors:
        assert plan.find(partial(fail, *error)) is None
    assert [(type(err), str(err)) for err in plan.missing] == [error[:2] for error in errors]
    assert plan.missing[1].url == "https://a/b"
    with pytest.raises(DataError, match="no model"):
        make_executor(tmp_path).find(partial(fail, *errors[0]))


def side(name="x"):
    return Side(name, (), {})


def test_sides_that_the_last_run_did_not_use_go_except_human_ones():
    sides = SideCache()
    made = [sides.get(name, side, lasting=name == "human") for name in ("human", "model")]
    sides.end_run()
    assert sides.get("model", side, lasting=False) is made[1], "the next run may use it again"
    sides.end_run()
    sides.end_run()
    assert len(sides) == 1
    assert sides.get("human", side, lasting=True) is made[0]
    for number in range(2 * _LASTING):
        sides.get(str(number), side, lasting=True)
        sides.end_run()
    assert len(sides) <= _LASTING + 1


def test_what_no_worker_can_hold_runs_here_with_a_remark(monkeypatch, caplog, tmp_path):
    """A model behind its own server, and a sentence encoder, which batches its texts itself."""
    monkeypatch.setattr(ModelCache, "model", lambda *_: "here")
    monkeypatch.setattr(ModelCache, "embedder", lambda *_: "here")
    session, runtime = open_session(tmp_path), Runtime(engine="ray")
    server: Any = SimpleNamespace(name="openai", title="served", runs_in_process=False)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert session.model(server, runtime) == "here"
            assert session.embedder(EmbedderSpec(path="a/b", kind="sentence"), runtime) == "here"
    assert [r.message for r in caplog.records] == [
        "runtime.engine=ray: served is a backend openai, which no worker holds",
        "embedder b: a sentence encoder batches its texts itself and runs in one process",
    ]


FAMILY_KEY = "ab" * 16
PROMPTS = [Row("p", (1, 2), Generation(name, 0, "", (), "length", float("nan"))) for name in "abcd"]


def rows(*names: str, sample: int = 0, prompt: str = "p") -> list[Row]:
    made = [Generation(name, sample, f"text of {name}", (3, 4), "length", -1.5) for name in names]
    return [Row(prompt, (1, 2), generation) for generation in made]


def open_blocks(folder: Path, seconds: float = -1, samples: int = 1) -> RowBlocks:
    folder.mkdir(exist_ok=True)
    return RowBlocks(folder, PROMPTS, samples, seconds)


def write_blocks(folder: Path, *blocks: str) -> dict[str, Path]:
    """Write one block for each of the words, whose letters are ids; return word → file."""
    files = {}
    for word in blocks:
        before = set(folder.glob("block-*"))
        open_blocks(folder).add([row.generation for row in rows(*word)])
        (files[word],) = set(folder.glob("block-*")) - before
    return files


def make_unfinished_entry(folder: Path) -> Entry:
    return Entry("generate", folder.name, folder, {}, {})


def list_missing(*folders: Path, samples: int = 1) -> list[str]:
    """What an interrupted run that is gone on with in the first folder still has to generate."""
    blocks = open_blocks(folders[0], samples=samples)
    blocks.read(map(make_unfinished_entry, folders))
    return [f"{prompt.example_id}{prompt.sample}" for prompt in blocks.list_missing(None)]


def test_blocks_are_joined_by_id_and_sample_and_deleted(tmp_path):
    folder = tmp_path / f"{FAMILY_KEY}1.partial"
    write_blocks(folder, "ca", "d")
    again = open_blocks(folder, seconds=1000)
    assert again.read([make_unfinished_entry(folder)]) == {"reused_tokens": 6}
    again.add([row.generation for row in rows("b")])
    assert again.count == {"n": 4, "tokens": 8, "ended": 0}
    again.join(folder / "data.arrow")
    assert [path.name for path in folder.iterdir()] == ["data.arrow"]
    write_rows(tmp_path / "want", rows("a", "b", "c", "d"))
    assert (folder / "data.arrow").read_bytes() == (tmp_path / "want").read_bytes()
    none = tmp_path / f"{FAMILY_KEY}2.partial"
    open_blocks(none).join(none / "data.arrow")
    assert len(RowFile(none / "data.arrow")) == 0


def test_rows_of_relatives_are_taken_if_prompt_id_and_sample_are_those_asked_for(tmp_path):
    smaller, larger = tmp_path / f"{FAMILY_KEY}1", tmp_path / f"{FAMILY_KEY}2.partial"
    smaller.mkdir()
    mixed = [*rows("a", "z"), *rows("b", prompt="another"), *rows("c", sample=2), *rows("d", sample=1)]
    write_rows(smaller / "data.arrow", mixed)
    write_blocks(larger, "ca")
    files = {"data.arrow": digest_file(smaller / "data.arrow")}
    finished = Entry("generate", smaller.name, smaller, files, {"device": "cuda", "n": 5})
    blocks = open_blocks(tmp_path / f"{FAMILY_KEY}3.partial", samples=2)
    facts = blocks.read([finished, make_unfinished_entry(larger)])
    assert [(p.example_id, p.sample) for p in blocks.list_missing(None)] == [
        ("a", 1), ("b", 0), ("b", 1), ("c", 1), ("d", 0)
    ]  # fmt: skip
    assert (facts["device"], facts["reused_tokens"]) == ("cuda", 6)
    assert facts["reused_from"] == {"maker": None}, "nobody noted where the smaller run was made"


def test_the_facts_of_all_parts_are_kept(tmp_path):
    folder = tmp_path / f"{FAMILY_KEY}1.partial"
    write_blocks(folder, "ab")
    old = {"device": "cuda", "batch_size": 8, "batch_dependent": True, "served": {"version": "1"}, "notes": ["x", "y"]}
    open_blocks(folder).note_facts(old)
    facts = open_blocks(tmp_path / f"{FAMILY_KEY}2.partial").read([make_unfinished_entry(folder)])
    new = {"device": "cpu", "batch_size": 4, "batch_dependent": False, "served": {"version": "2"}, "notes": ["y", "z"]}
    merged = merge_facts(facts, new)
    assert (merged["batch_dependent"], merged["notes"], merged["served"]) == (True, ["x", "y", "z"], {"version": "2"})
    assert merged["reused_from"]["parts"] == [{name: old[name] for name in old if name != "notes"}]
    assert not merge_facts(facts, old)["reused_from"]


def test_rows_that_are_shared_with_another_number_of_samples():
    assert count_shared_rows({"n": 20, "samples": 2}, 15, 1) == 10
    assert count_shared_rows({"n": 10, "samples": 1}, 20, 2) == 10
    assert count_shared_rows({"n": 20, "samples": 1}, 10, 1) == 10


def test_rows_of_a_relative_that_is_deleted_meanwhile_are_kept(tmp_path):
    other = tmp_path / f"{FAMILY_KEY}1"
    other.mkdir()
    write_rows(other / "data.arrow", rows("a", "b", "c", "d"))
    folder = tmp_path / f"{FAMILY_KEY}2.partial"
    blocks = open_blocks(folder)
    blocks.read([Entry("generate", other.name, other, {"data.arrow": digest_file(other / "data.arrow")}, {})])
    shutil.rmtree(other)
    blocks.join(folder / "data.arrow")
    assert RowFile(folder / "data.arrow").ids == ("a", "b", "c", "d")
    assert [path.name for path in folder.iterdir()] == ["data.arrow"]


def test_a_relative_that_ends_first_may_delete_its_blocks(tmp_path):
    running = tmp_path / f"{FAMILY_KEY}1.partial"
    files = write_blocks(running, "ca", "d")
    files["d"].write_bytes(b"flipped")
    blocks = open_blocks(tmp_path / f"{FAMILY_KEY}2.partial")
    blocks.read([make_unfinished_entry(running)])
    assert [prompt.example_id for prompt in blocks.list_missing(None)] == ["b", "d"]
    assert sorted(running.iterdir()) == sorted(files.values()), "what is damaged there is that run's affair"
    shutil.rmtree(running)
    blocks.add([row.generation for row in rows("b", "d")])
    blocks.join(tmp_path / "data.arrow")
    assert RowFile(tmp_path / "data.arrow").ids == ("a", "b", "c", "d")


def test_a_relative_that_ends_while_it_is_listed_is_left_out(tmp_path, monkeypatch):
    running = tmp_path / f"{FAMILY_KEY}1.partial"
    write_blocks(running, "ca")
    glob = Path.glob

    def end_meanwhile(folder: Path, pattern: str):
        if folder == running:
            raise FileNotFoundError(folder)  # as `glob` does if a folder is renamed at that moment
        return glob(folder, pattern)

    monkeypatch.setattr(Path, "glob", end_meanwhile)
    blocks = open_blocks(tmp_path / f"{FAMILY_KEY}2.partial")
    assert blocks.read([make_unfinished_entry(running)]) == {"reused_tokens": 0}


@pytest.mark.parametrize("seed", range(24))
def test_a_flipped_byte_sets_the_block_aside_with_a_remark(seed, tmp_path, caplog):
    folder = tmp_path / f"{FAMILY_KEY}1.partial"
    bad = write_blocks(folder, "a", "b", "c")["b"]
    data, draw = bytearray(bad.read_bytes()), random.Random(seed)
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    bad.write_bytes(data)
    assert list_missing(folder) == ["b0", "d0"]
    assert "is damaged" in caplog.text
    assert (tmp_path / f"{folder.name}.damaged-blocks" / bad.name).exists()


def test_a_cut_an_empty_a_linked_and_a_foreign_block_are_set_aside(tmp_path):
    folder, other = tmp_path / f"{FAMILY_KEY}1.partial", tmp_path / f"{'0' * 32}1.partial"
    files = write_blocks(folder, "a", "b", "c", "d")
    foreign = write_blocks(other, "a")["a"]
    files["a"].write_bytes(files["a"].read_bytes()[:-9])
    files["b"].write_bytes(b"")
    files["c"].unlink()
    files["c"].symlink_to(foreign)
    foreign.rename(folder / f"{foreign.name[:-6]}.arrow")
    assert list_missing(folder) == ["a0", "b0", "c0"]


@pytest.mark.parametrize("shape", [(0,), (), (3,), (4, 2), (0, 5)])
def test_arrays_come_back_and_hold_no_descriptor(shape, tmp_path):
    import psutil

    array = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    save_array(tmp_path / "a.npy", array)
    before = psutil.Process().num_fds()
    kept = [load_array(tmp_path / "a.npy") for _ in range(20)]
    assert psutil.Process().num_fds() == before
    assert all(np.array_equal(one, array) and one.dtype == array.dtype and one.shape == shape for one in kept)


def test_a_file_that_is_no_array_is_one_line(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match="not an array"):
        load_array(tmp_path / "a.npy")
