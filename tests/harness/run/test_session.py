"""A session keeps the sides of human text, not those of systems that were measured."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace

from openended.harness.core.metric_spec import Side
from openended.harness.core.runtime import Runtime
from openended.harness.models.embedder import EmbedderSpec
from openended.harness.models.model_cache import ModelCache
from openended.harness.run.session import _LASTING, Session, SideCache
from openended.harness.storage.store import Store


def test_what_the_last_run_did_not_use_goes() -> None:
    sides = SideCache()
    made = [sides.get(name, lambda: Side("x", (), {}), lasting=name == "human") for name in ("human", "model")]
    sides.end_run()
    assert sides.get("model", lambda: Side("y", (), {}), lasting=False) is made[1], "the next run may use it again"
    sides.end_run()
    sides.end_run()
    assert len(sides) == 1
    assert sides.get("human", lambda: Side("y", (), {}), lasting=True) is made[0]


def test_human_sides_are_bounded() -> None:
    sides = SideCache()
    for number in range(2 * _LASTING):
        sides.get(str(number), lambda: Side("human", (), {}), lasting=True)
        sides.end_run()
    assert len(sides) <= _LASTING + 1


def test_what_no_worker_can_hold_runs_here_with_a_remark(monkeypatch, caplog, tmp_path: Path) -> None:
    """A model behind its own server, and a sentence encoder, which batches its texts itself."""
    monkeypatch.setattr(ModelCache, "model", lambda *_: "here")
    monkeypatch.setattr(ModelCache, "embedder", lambda *_: "here")
    session, runtime = Session(Store(tmp_path)), Runtime(engine="ray")
    server = SimpleNamespace(name="openai", title="served", runs_in_process=False)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert session.model(server, runtime) == "here"  # type: ignore[comparison-overlap, arg-type]
            assert session.embedder(EmbedderSpec(path="a/b", kind="sentence"), runtime) == "here"
    assert [r.message for r in caplog.records] == [
        "runtime.engine=ray: served is a backend openai, which no worker holds",
        "embedder b: a sentence encoder batches its texts itself and runs in one process",
    ]
