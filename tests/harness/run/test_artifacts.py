"""ArtifactBuilder name each artefact once, and several can come of one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openended.harness.core.errors import DataError, UnavailableFileError, UnavailableModelError
from openended.harness.run.artifacts import (
    ArtifactBuilder,
    ArtifactRequest,
    Build,
    PlannedArtifact,
    UnavailableInput,
    Workload,
)
from openended.harness.run.session import Session
from openended.harness.storage.recipe import STAGES, Recipe
from openended.harness.storage.store import Store

WORK = Workload(role="human", num_texts=2)


def write(text: str, folder: Path) -> Mapping[str, Any]:
    (folder / "data").write_text(text)
    np.save(folder / "embeddings.npy", np.zeros((1, 1)))  # an entry has the files of its stage
    return {"n": len(text)}


def steps(folder: Path, *, plan_only: bool = False) -> ArtifactBuilder:
    return ArtifactBuilder(Session(Store(folder)), plan_only=plan_only)


def test_an_artefact_asked_for_twice_is_named_once(tmp_path: Path) -> None:
    run = steps(tmp_path)
    first, second = (
        run.build(ArtifactRequest("embed", what, {}, {"rows": "a"}, WORK), partial(write, "x"))
        for what in ("human", "half")
    )
    assert first is not None
    assert first == second
    assert [(p.what, p.state) for p in run.plan] == [("human", "make")]
    assert (run.num_computed, run.inputs) == (1, {"embed:human": first.name})
    again = steps(tmp_path)
    again.build(ArtifactRequest("embed", "human", {}, {"rows": "a"}, WORK), partial(write, "x"))
    assert (again.num_computed, len(again.plan), again.provenance) == (0, 1, {"embed:human": {}})


def test_one_pass_makes_what_is_missing(tmp_path: Path) -> None:
    asked: list[tuple[int, ...]] = []

    def compute(places: Sequence[int]) -> list[Build]:
        asked.append(tuple(places))
        return [partial(write, str(place)) for place in places]

    wanted = [ArtifactRequest("embed", f"{n}", {"n": n}, {"rows": "a"}, WORK) for n in range(3)]
    steps(tmp_path).build(wanted[1], partial(write, "1"))
    run = steps(tmp_path)
    made = run.build_together(wanted, compute)
    assert asked == [(0, 2)]
    assert [(entry.path / "data").read_text() for entry in made if entry] == ["0", "1", "2"]
    assert [p.state for p in run.plan] == ["make", "hit", "make"]
    assert steps(tmp_path).build_together(wanted, compute) != []
    assert asked == [(0, 2)]


def test_a_plan_makes_nothing_and_waits_once(tmp_path: Path) -> None:
    plan = steps(tmp_path, plan_only=True)
    for _ in range(2):
        assert plan.build(ArtifactRequest("embed", "human", {}, {"rows": None}, WORK), partial(write, "x")) is None
        assert plan.build(ArtifactRequest("embed", "model", {}, {"rows": "a"}, WORK), partial(write, "x")) is None
    key = Recipe("embed", STAGES["embed"], {}, {"rows": "a"}).key
    assert plan.plan == [
        PlannedArtifact("embed", "human", "waits", None, WORK),
        PlannedArtifact("embed", "model", "make", key, WORK),
    ]
    assert not list(tmp_path.rglob("manifest.json"))


def test_the_version_of_a_stage_is_in_its_keys_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = [ArtifactRequest(stage, "x", {}, {}, WORK).recipe() for stage in ("embed", "score")]
    monkeypatch.setitem(STAGES, "embed", STAGES["embed"] + 1)  # type: ignore[arg-type] # a plain dict underneath
    again = [ArtifactRequest(stage, "x", {}, {}, WORK).recipe() for stage in ("embed", "score")]
    assert [a == b for a, b in zip(recipes, again, strict=True)] == [False, True]


def test_a_plan_notes_each_missing_input_once_and_what_kind_it_is(tmp_path: Path) -> None:
    plan = steps(tmp_path, plan_only=True)
    errors = [UnavailableModelError("no model"), UnavailableFileError("no file", "https://a/b"), DataError("a bad row")]

    def fail(error: DataError) -> None:
        raise error

    for error in errors + errors:
        assert plan.try_or_note(partial(fail, error)) is None
    assert plan.missing == [
        UnavailableInput("no model", is_model=True),
        UnavailableInput("no file", url="https://a/b"),
        UnavailableInput("a bad row"),
    ]
    with pytest.raises(DataError, match="no model"):
        steps(tmp_path).try_or_note(partial(fail, errors[0]))
