"""What a run says of itself: counts, a plan that lists the same artefacts, and where found ones came from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.io import read_json
from openended.harness.models.spec import list_bundled_models
from openended.harness.run.pipeline import plan, run
from openended.harness.run.session import Session
from openended.harness.storage import store as store_module
from openended.harness.storage.record import read_record
from openended.harness.storage.store import Store
from tests.harness.run.small import ONE_MODEL, settings

pytestmark = pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there")
METRICS = "metric=[frechet,gen_ppl,ppl,zipf]"


def new_session(folder: Path) -> Session:
    return Session(Store(folder / "out" / "store"))


def test_counts_are_of_artefacts(tmp_path: Path) -> None:
    made = settings(tmp_path, *ONE_MODEL, METRICS)
    first = run(made, new_session(tmp_path))
    manifests = list((tmp_path / "out" / "store").glob("*/*/*/manifest.json"))
    assert first.num_computed == len(first.plan) == len(manifests)
    assert len({(step.stage, step.what) for step in first.plan}) == len(first.plan)
    assert len({step.key for step in first.plan}) == len(first.plan)
    again = run(made, new_session(tmp_path))
    assert (again.num_computed, len(again.plan)) == (0, first.num_computed)
    assert again.folder == first.folder
    record = read_record(first.folder)
    assert len(record.inputs) == first.num_computed + 1  # and the task's data
    assert record.provenance == {}


def test_a_plan_lists_what_a_run_makes(tmp_path: Path) -> None:
    made = settings(tmp_path, *ONE_MODEL, METRICS)
    session = new_session(tmp_path)
    before = plan(made, session)
    assert session.loads == []
    assert {step.state for step in before.plan} == {"make", "waits"}
    done = run(made, new_session(tmp_path))
    after = plan(made, new_session(tmp_path))
    assert [replace(step, state="hit") for step in done.plan] == list(after.plan)
    assert {(s.stage, s.what) for s in before.plan} == {(s.stage, s.what) for s in after.plan}


def test_a_record_says_where_a_found_artefact_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = store_module.describe_environment()

    def elsewhere() -> dict[str, Any]:
        return {**now, "packages": {**now["packages"], "numpy": "0.1"}, "git": {**now["git"], "commit": "c0ffee"}}

    monkeypatch.setattr(store_module, "describe_environment", elsewhere)
    first = run(settings(tmp_path, *ONE_MODEL, "metric=[gen_ppl]"), new_session(tmp_path))
    monkeypatch.undo()
    (manifest,) = (tmp_path / "out/store/generate").glob("*/*/manifest.json")
    told = read_json(manifest)
    assert (told["maker"]["packages"]["numpy"], told["meta"]["device"]) == ("0.1", "cpu")
    again = run(settings(tmp_path, *ONE_MODEL, "metric=[gen_ppl,zipf]"), new_session(tmp_path))
    assert again.folder != first.folder
    record = read_record(again.folder)
    own = {name for name in record.inputs if name.startswith("measure:zipf")}
    assert set(record.provenance) == set(record.inputs) - own - {"task"}
    source = record.provenance["generate:docs-s greedy"]
    assert (source["packages"], source["git"]["commit"], source["device"]) == ({"numpy": "0.1"}, "c0ffee", "cpu")


def test_human_sides_outlive_a_run_and_others_do_not(tmp_path: Path) -> None:
    session = new_session(tmp_path)
    run(settings(tmp_path, *ONE_MODEL, "metric=[frechet]"), session)
    kept = len(session.sides)
    for seed in range(4):
        run(settings(tmp_path, *ONE_MODEL, "metric=[frechet]", "decoder=ancestral", f"seed={seed}"), session)
        assert len(session.sides) <= kept
