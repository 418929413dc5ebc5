"""One metric of one system: what it is given, what is kept of it, and what a mistake in its code may not do."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from openended.harness.core.errors import DataError, UndefinedMetric
from openended.harness.core.io import digest_file
from openended.harness.core.metric_spec import Features, Metric, Need
from openended.harness.core.types import MetricResult
from openended.harness.models.spec import list_bundled_models
from openended.harness.run.artifacts import ArtifactBuilder, TextRows
from openended.harness.run.pipeline.measure import MetricRunner, digest_judgments, list_text_needs
from openended.harness.run.pipeline.texts import RunTexts, make_texts
from openended.harness.run.resolve import resolve_run
from openended.harness.run.session import Session
from openended.harness.storage.store import Store
from openended.metrics.huse import Huse
from tests.harness.run.small import settings

pytestmark = pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there")
seen: list[Features] = []
"""What the probes were given."""


@dataclass(frozen=True, kw_only=True)
class Probe(Metric):
    """Counts the texts of the model side; what it is given is kept."""

    name: ClassVar[str] = "probe"
    family: ClassVar[Any] = "text"
    direction: ClassVar[Any] = "match_human"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    resampling: ClassVar[Any] = "none"
    sides: ClassVar[Any] = "two"
    need: ClassVar[Need] = Need("texts")
    act: ClassVar[Callable[[], None]] = staticmethod(lambda: None)
    grid: ClassVar[bool] = False

    @property
    def reads_grid(self) -> bool:
        return self.grid

    def needs(self) -> tuple[Need, ...]:
        return (self.need,)

    def compute(self, features: Features) -> MetricResult:
        seen.append(features)
        type(self).act()
        return self.result(features, "probe", {"probe": len(features.model)})


def probe(**changed: Any) -> Metric:
    """A probe of another class: what is changed is no option, so that it enters no key."""
    made: Metric = dataclass(frozen=True, kw_only=True)(type("Changed", (Probe,), changed))()
    return made


def raising(err: Exception) -> Any:
    def act() -> None:
        raise err

    return staticmethod(act)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[RunTexts, MetricRunner]]:
    def start(*words: str, others: Sequence[TextRows] = (), plan_only: bool = False) -> tuple[RunTexts, MetricRunner]:
        chosen = settings(tmp_path, "metric=[zipf]", "num_examples=4", "max_new_tokens=4", *words)
        made = make_texts(resolve_run(chosen), ArtifactBuilder(Session(Store(tmp_path / "store")), plan_only=plan_only))
        sources = (made.human_rows, made.model_rows, made.dataset.spare_rows, *others)
        made.featurizer.make([(one, (Probe.need,)) for one in sources], made.decoder)
        return made, MetricRunner(made.run, made.featurizer, made.dataset.fingerprint, others)

    seen.clear()
    return start


def test_a_metric_is_given_the_sides_that_it_reads(run):
    made, measure = run()
    human, model = made.human_rows, made.model_rows
    for sides, given in (("two", ("human", "model")), ("one", ("model", "model")), ("human", ("human", "human"))):
        got = measure.measure(probe(sides=sides, name=sides), "model", human, model)
        assert got is not None
        assert (got.result.status, got.result.values, got.system) == ("ok", {"probe": 4.0}, "model")
        assert (seen[-1].human.system, seen[-1].model.system) == given


def test_a_result_is_computed_once_and_the_human_row_is_a_system_of_human_texts(run):
    made, measure = run()
    human, model = made.human_rows, made.model_rows
    first = measure.measure(probe(), "model", human, model)
    again = MetricRunner(made.run, made.featurizer, made.dataset.fingerprint).measure(probe(), "model", human, model)
    assert (first.artefact, first.result.values) == (again.artefact, again.result.values)
    assert len(seen) == 1
    rows = {system: measure.measure(probe(), system, human, human) for system in ("human", "model", "ceiling")}
    assert rows["human"].artefact == rows["model"].artefact != rows["ceiling"].artefact
    assert rows["human"].row().system == "human"


def test_what_compute_and_replicates_share_is_prepared_once(run):
    """And a metric of another package that prepares nothing, as `Probe`, is asked for its features alone."""
    calls = []

    def prepare(self, features):
        calls.append("prepare")
        return len(features.model)

    def compute(self, features, prepared=None):
        calls.append(("compute", prepared))
        return self.result(features, "probe", {"probe": prepared})

    def replicates(self, features, result, plan, prepared=None):
        calls.append(("replicates", prepared))
        return {}

    made, measure = run("num_examples=12")  # intervals need ten prompts
    shared = probe(prepare=prepare, compute=compute, replicates=replicates)
    assert measure.measure(shared, "model", made.human_rows, made.model_rows).result.values == {"probe": 12}
    assert calls == ["prepare", ("compute", 12), ("replicates", 12)]


def test_a_mistake_in_a_metric_is_told_and_nothing_is_kept(run, caplog):
    made, measure = run()
    human, model = made.human_rows, made.model_rows
    with caplog.at_level(logging.DEBUG):
        got = measure.measure(probe(act=raising(ZeroDivisionError("by 0\nand more"))), "model", human, model)
    assert (got.result.status, got.artefact, got.result.n_human, got.result.n_model) == ("failed", None, 4, 4)
    (note,) = got.result.notes
    assert re.fullmatch(r"failed with ZeroDivisionError: by 0 \(test_measure\.py, line \d+\)", note)
    assert got.result.values["probe"] != got.result.values["probe"]  # no number
    assert "metric probe of model failed with ZeroDivisionError" in caplog.text
    assert "Traceback" in caplog.text
    mended = MetricRunner(made.run, made.featurizer, made.dataset.fingerprint).measure(probe(), "model", human, model)
    assert (mended.result.status, mended.result.values) == ("ok", {"probe": 4.0})


def test_no_value_is_kept_with_its_reason_and_an_error_of_the_user_goes_through(run):
    made, measure = run()
    human, model = made.human_rows, made.model_rows
    got = measure.measure(probe(act=raising(UndefinedMetric("too few"))), "model", human, model)
    assert (got.result.status, got.result.notes) == ("undefined", ("too few",))
    assert got.artefact is not None
    with pytest.raises(DataError, match=r"^x\.csv: wrong$"):
        measure.measure(probe(name="other", act=raising(DataError("x.csv: wrong"))), "model", human, model)


def test_a_feature_that_a_system_cannot_have_leaves_the_metric_undefined(run):
    made, measure = run("embedder=none", "scoring=none")
    need = Need("embeddings", by="embedder")
    made.featurizer.make([(made.human_rows, (need,)), (made.model_rows, (need,))], made.decoder)
    got = measure.measure(probe(need=need), "model", made.human_rows, made.model_rows)
    assert (got.result.status, got.artefact, got.result.n_model) == ("undefined", None, 4)
    assert "no embedder: set embedder=" in got.result.notes[0]
    assert seen == []


def test_a_plan_waits_for_what_is_to_be_made(run):
    made, measure = run(plan_only=True)
    assert measure.measure(probe(), "model", made.human_rows, made.model_rows) is None
    assert ("measure", "probe model", "waits") in [(p.stage, p.what, p.state) for p in measure.builder.plan]
    assert seen == []


def test_a_metric_of_the_grid_reads_its_other_systems_and_they_are_in_its_key(run):
    made, _ = run()
    human, model = made.human_rows, made.model_rows
    found, alone = set(), set()
    for others in ((), (human,), (human, model)):
        measure = MetricRunner(made.run, made.featurizer, made.dataset.fingerprint, others)
        found.add(measure.measure(probe(grid=True), "model", human, model).artefact)
        assert [side.system for side in seen[-1].others] == [source.role for source in others]
        alone.add(measure.measure(probe(name="alone"), "model", human, model).artefact)
    assert (len(found), len(alone)) == (3, 1)


def test_judgments_come_of_their_file(run, tmp_path):
    huse = Huse()
    assert {need.kind for need in huse.needs()} == {"judgments"} | {need.kind for need in list_text_needs(huse)}
    made, measure = run()
    measure.run = replace(made.run, metrics=replace(made.run.metrics, judgments=str(tmp_path / "lost.csv")))
    with pytest.raises(DataError, match=r"judgments: no such file: .*lost\.csv"):
        measure.measure(huse, "model", made.human_rows, made.model_rows)


def test_the_digest_of_judgments_is_of_the_bytes_and_of_how_they_are_read(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n")
    plain = digest_judgments(path, {})
    assert plain == digest_file(path)
    assert len({plain, digest_judgments(path, {"item": "a"}), digest_judgments(path, {"item": "b"})}) == 3
    path.write_text("a,c\n")
    assert digest_judgments(path, {}) != plain
