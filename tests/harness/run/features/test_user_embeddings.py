"""Vectors of the user's own: a row a text, and nothing else passes."""

from __future__ import annotations

import numpy as np
import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.harness.run.artifacts import ArtifactBuilder
from openended.harness.run.features.user_embeddings import find_user_embeddings
from openended.harness.run.pipeline import make_texts, plan
from openended.harness.run.resolve import resolve_run
from openended.harness.run.session import Session
from openended.harness.storage.store import Store
from tests.harness.run.small import settings
from tests.helpers import write_jsonl


@pytest.fixture
def given(tmp_path):
    for name, n in (("h", 6), ("m", 5)):
        write_jsonl(tmp_path / f"{name}.jsonl", ({"text": f"{name} {i}"} for i in range(n)))
        np.save(tmp_path / f"{name}.npy", np.arange(n * 2, dtype=np.float64).reshape(n, 2))

    def make(*words):
        own = [f"features.human={tmp_path}/h.npy", f"features.model={tmp_path}/m.npy", "max_new_tokens=null"]
        files = ["task=texts", "~task.path", f"+task.path={tmp_path}/h.jsonl", f"generations={tmp_path}/m.jsonl"]
        return settings(tmp_path, *files, "metric=[frechet]", "scorer=none", "num_examples=all", *own, *words)

    return tmp_path, make


def test_rows_follow_the_texts(given):
    folder, make = given
    for words, n in (((), (6, 5)), (("num_examples=2",), (2, 2))):
        steps = ArtifactBuilder(Session(Store(folder / "store")), plan_only=False)
        run = resolve_run(make(*words))
        made = make_texts(run, steps)
        for source, count in zip((made.human_rows, made.model_rows), n, strict=True):
            content, load = find_user_embeddings(run.scoring.user_embeddings, source, steps)
            assert content is not None
            assert load().tolist() == [[2 * i, 2 * i + 1] for i in range(count)]


def test_a_plan_says_what_is_missing(given):
    folder, make = given
    (folder / "m.npy").unlink()
    run = make()
    session = Session(Store(folder / "store"))
    make_texts(resolve_run(run), ArtifactBuilder(session, plan_only=False))
    assert any("features: no such file" in missing.reason for missing in plan(run, session).missing)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((4, 2)), "4 rows for 5 texts"),
        (np.zeros((6, 2)), "6 rows for 5 texts"),
        (np.zeros(5), r"expected floats of shape \(texts, dimensions\), got float64 \(5,\)"),
        (np.zeros((5, 2), dtype=int), "got int64"),
    ],
)
def test_what_has_not_a_row_a_text_is_refused(given, array, message):
    folder, make = given
    np.save(folder / "m.npy", array)
    steps = ArtifactBuilder(Session(Store(folder / "store")), plan_only=False)
    run = resolve_run(make())
    with pytest.raises(DataError, match=message):
        find_user_embeddings(run.scoring.user_embeddings, make_texts(run, steps).model_rows, steps)


def test_both_sides_or_none_and_only_beside_loose_texts(given):
    _, make = given
    with pytest.raises(SpecError, match="a file for human and one for model"):
        make("features.model=null")
    with pytest.raises(SpecError, match="task=texts and generations=FILE"):
        make("generations=null")
