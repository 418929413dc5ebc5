"""One metric of one system: what it is given, what is kept of it, and what a mistake in its code may not do."""

import inspect
import logging
import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from openended.harness.core import Features, Metric, MetricResult, Need, load_members
from openended.harness.core.errors import DataError, UndefinedMetric
from openended.harness.core.spec import OUT_OF_DOMAIN, parse_signature
from openended.harness.models import ModelSpec
from openended.harness.run.facts import Measurement, describe_token_ids
from openended.harness.run.measure import RunTexts, declare_measurement, read_result
from openended.harness.run.pipeline import make_texts, run
from openended.harness.run.players import JudgmentSource
from openended.harness.run.settings import JudgmentOptions, build_settings
from openended.harness.run.steps import TextRows
from openended.harness.storage import Entry, write_rows
from openended.harness.storage.record import read_record
from openended.metrics.huse import Huse
from tests.harness.run.small import make_executor, make_finished_step, measure_rows, open_session, settings
from tests.helpers import cases, change_settings, check_error, config, write_file, write_jsonl

NO_SCORING = ("scorer=auto", "embedder=auto")  # as where no scoring model is named
SCORER = ModelSpec(path="bundled:docs-m")
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

    def prepare(self, features: Features) -> Features:
        return features

    def evaluate(self, features: Features, prepared: Any) -> MetricResult:
        seen.append(features)
        type(self).act()
        return self.result(features, "probe", {"probe": len(features.model)})


def probe(**changed: Any) -> Any:
    """A probe of another class: what is changed is no option, so that it enters no key."""
    return dataclass(frozen=True, kw_only=True)(type("Changed", (Probe,), changed))()


def raising(err: Exception) -> Any:
    def act() -> None:
        raise err

    return staticmethod(act)


@pytest.fixture
def start(tmp_path: Path) -> Any:
    def make(*words: str, plan_only: bool = False) -> tuple[RunTexts, Callable[..., Any]]:
        chosen = settings(tmp_path, "metric=[zipf]", "num_examples=4", "max_new_tokens=4", *words)
        executor = make_executor(tmp_path, plan_only=plan_only)
        texts = make_texts(chosen, executor)
        sources = (texts.human_rows, texts.model_rows, texts.dataset.spare_rows)
        executor.run(*texts.features.declare([(one, (Probe.need,)) for one in sources]))

        def measure(metric, system="model", others=(), human=False, **change):
            changed = change_settings(chosen, **change)
            judgments = JudgmentSource.from_settings(changed)
            of_run = replace(texts, settings=changed, judgments=judgments, others=others)
            model = texts.human_rows if human or system == "human" else texts.model_rows
            measurement = declare_measurement(of_run, Measurement(metric, system, texts.human_rows, model))
            if measurement.step is not None:
                executor.run(measurement.step)
            return executor.state(measurement.step) if plan_only else read_result(changed, measurement, executor)

        return texts, measure

    seen.clear()
    return make


@cases("sides, given", ("two", ("human", "model")), ("one", ("model", "model")), ("human", ("human", "human")))
def test_a_metric_is_given_the_sides_that_it_reads(start, sides, given):
    _, measure = start()
    got = measure(probe(sides=sides))
    assert (got.status, got.values, got.system) == ("ok", {"probe": 4.0}, "model")
    assert (seen[-1].human.system, seen[-1].model.system) == given


def test_a_result_is_computed_once_and_the_human_row_is_a_system_of_human_texts(start):
    _, measure = start()
    first, again = measure(probe()), measure(probe())
    assert (first.artifact, first.values) == (again.artifact, again.values)
    assert len(seen) == 1
    rows = {system: measure(probe(), system, human=True) for system in ("human", "model", "ceiling")}
    assert rows["human"].artifact == rows["model"].artifact != rows["ceiling"].artifact
    assert rows["human"].system == "human"


def test_what_values_and_intervals_share_is_prepared_once(start):
    """And a metric of another package that prepares nothing, as `Probe`, is asked for its features alone."""
    calls = []

    def prepare(self, features):
        calls.append("prepare")
        return len(features.model)

    def evaluate(self, features, prepared):
        calls.append(("evaluate", prepared))
        return self.result(features, "probe", {"probe": prepared})

    def score(self, prepared, human, model):
        calls.append(("score", prepared))
        return {"probe": np.ones(len(model))}

    _, measure = start("num_examples=12")  # intervals need ten prompts
    shared = probe(prepare=prepare, evaluate=evaluate, score=score, resampling="bootstrap")
    assert measure(shared, intervals=0).values == {"probe": 12}
    assert calls == ["prepare", ("evaluate", 12)]
    assert measure(shared).values == {"probe": 12}
    assert calls[2:] == ["prepare", ("evaluate", 12), ("score", 12)]


def test_a_mistake_in_a_metric_is_told_and_nothing_is_kept(start, caplog):
    _, measure = start()
    with caplog.at_level(logging.DEBUG):
        got = measure(probe(act=raising(ZeroDivisionError("by 0\nand more"))))
    assert (got.status, got.artifact, got.n_human, got.n_model) == ("failed", None, 4, 4)
    (note,) = got.notes
    assert re.fullmatch(r"failed with ZeroDivisionError: by 0 \(test_measure\.py, line \d+\)", note)
    assert math.isnan(got.values["probe"])
    assert "metric probe of model failed with ZeroDivisionError" in caplog.text
    assert "Traceback" in caplog.text
    mended = measure(probe())
    assert (mended.status, mended.values) == ("ok", {"probe": 4.0})


@cases(
    "change, message",
    (lambda _: None, "expected a MetricResult, got NoneType"),
    (lambda r: replace(r, values={"probe": "4"}), "values.probe: expected a finite number or NaN, got '4'"),
    (lambda r: replace(r, values={"probe": math.inf}), "values.probe: expected a finite number or NaN, got inf"),
    (lambda r: replace(r, values={"probe": -1.0}), "values.probe: expected 0 to inf (bounds of probe), got -1"),
    (lambda r: replace(r, values={"other": 1.0}), "'probe': expected the name of a value, one of other"),
    (lambda r: replace(r, sd={"x": 1.0}), "'x': expected the name of a value, one of probe"),
    (lambda r: replace(r, notes="text"), "notes: expected tuple, got 'text'"),
    (lambda r: replace(r, arrays={"x": np.array([{}])}), "array x: expected numbers, got object"),
    (lambda _: sys.exit(0), "failed with SystemExit: 0"),
)
def test_a_result_that_cannot_be_shown_is_a_failure(start, change, message):
    _, measure = start()
    got = measure(probe(evaluate=lambda self, *given: change(Probe.evaluate(self, *given))))
    assert (got.status, got.artifact) == ("failed", None)
    assert message in got.notes[0]


def test_an_edited_plugin_is_computed_again(start, monkeypatch):
    _, measure = start()
    keys = [measure(probe()).artifact, measure(probe()).artifact]
    monkeypatch.setattr(inspect, "getsource", lambda _: "an edited module")
    keys.append(measure(probe()).artifact)
    assert keys[0] == keys[1] != keys[2]


def test_what_a_plugin_changes_is_seen_by_no_other_metric(start):
    def count(self, features, prepared):
        texts = features.model[self.need]
        number = len(texts)
        texts.clear()
        return self.result(features, "probe", {"probe": number})

    _, measure = start()
    for name in ("first", "second"):
        assert measure(probe(name=name, evaluate=count)).values == {"probe": 4}


def test_no_value_is_kept_with_its_reason_and_an_error_of_the_user_goes_through(start):
    _, measure = start()
    got = measure(probe(act=raising(UndefinedMetric("too few"))))
    assert (got.status, got.notes) == ("undefined", ("too few",))
    assert got.artifact is not None
    check_error(DataError, r"^x\.csv: wrong$", measure, probe(name="other", act=raising(DataError("x.csv: wrong"))))


def test_a_metric_of_the_grid_reads_its_other_systems_and_they_are_in_its_key(start):
    texts, measure = start()
    found, alone = set(), set()
    for others in ((), (texts.human_rows,), (texts.human_rows, texts.model_rows)):
        found.add(measure(probe(grid=True), others=others).artifact)
        assert [side.system for side in seen[-1].others] == [source.role for source in others]
        alone.add(measure(probe(name="alone"), others=others).artifact)
    assert (len(found), len(alone)) == (3, 1)


def test_judgments_come_of_their_file(start, tmp_path):
    huse = Huse()
    assert {need.kind for need in huse.needs()} == {"judgments"} | {need.kind for need in huse.text_needs()}
    _, measure = start()
    with pytest.raises(DataError, match=r"judgments: no such file: .*lost\.csv"):
        measure(huse, judgments=JudgmentOptions(file=str(tmp_path / "lost.csv")))
    path = write_file(tmp_path / "x.csv", "a,b\n")
    options = ("", "judgment_columns={item: a}", "judgment_columns={item: b}", "judgment_systems={a: human}")
    chosen = [settings(tmp_path, f"judgments={path}", *filter(None, [option])) for option in options]
    digests = [JudgmentSource.from_settings(one).digest() for one in chosen]
    assert len(set(digests)) == 4
    path.write_text("a,c\n")
    assert JudgmentSource.from_settings(chosen[0]).digest() not in digests


@cases(
    "metric, ids, tokens, description",
    ("gen_ppl", "generated", SCORER, "token ids as generated"),
    ("gen_ppl", "retokenized", SCORER, "re-tokenized text"),
    ("gen_ppl", "mixed", SCORER, "token ids as generated where the file has them, else on re-tokenized text"),
    ("gen_ppl", None, SCORER, None),
    ("gen_ppl", "generated", None, "re-tokenized text"),
    ("gen_ppl", None, None, "re-tokenized text"),
    ("compression_ratio", "generated", SCORER, None),
)
def test_a_value_over_tokens_says_which_tokens(tmp_path, metric, ids, tokens, description):
    write_rows(tmp_path / "data.arrow", [], facts={"ids": ids} if ids else {})
    executor = make_executor(tmp_path)
    step = make_finished_step(Entry("generate", "k", tmp_path, {}, {}), executor)
    source = TextRows("model", step, "data.arrow", tokens)
    changed = change_settings(settings(tmp_path), scorer=SCORER, embedder=None)
    measurement = Measurement(load_members("metric")[metric](), "model", source, source)
    assert describe_token_ids(changed, measurement, executor) == description


def test_without_scoring_models_metrics_that_need_them_say_what_to_type(tmp_path):
    record, rows = measure_rows(tmp_path, *NO_SCORING, "metric=[frechet,gen_ppl,distinct_n]")
    for metric, role in (("gen_ppl", "scorer"), ("frechet", "embedder")):
        assert (rows["model", metric].status, rows["model", metric].n_model) == ("undefined", 8)
        assert rows["model", metric].artifact is None
        (note,) = rows["model", metric].notes
        assert note.startswith(f"no {role}: set {role}=gpt2-large (or scoring=gpt2-large")
    assert (record.axes["scorer"], record.axes["embedder"]) == (None, None)


@pytest.mark.slow
def test_without_a_scorer_the_tokens_are_those_of_the_model_under_test(tmp_path):
    """Both bundled models have one tokenizer: what they count is comparable, and the same as with a scorer of it."""
    words = (*NO_SCORING, "metric=[zipf]")
    (record, small), (_, large) = (measure_rows(tmp_path, *words, f"model={model}") for model in ("docs-s", "docs-m"))
    facts = [parse_signature(rows["model", "zipf"].signature) for rows in (small, large)]
    assert facts[0] == facts[1]
    assert facts[0]["tokens"].startswith("model@")
    assert "scorer" not in facts[0]
    assert "text statistics count tokens of docs-s: no scorer is set" in map(str, record.notes)
    _, scored = measure_rows(tmp_path, "metric=[zipf]", "model=docs-s")
    assert scored["model", "zipf"].values == small["model", "zipf"].values
    assert scored["model", "zipf"].signature != small["model", "zipf"].signature


def test_imported_texts_without_a_scorer_are_cut_and_counted_by_words(tmp_path):
    path = tmp_path / "theirs.jsonl"
    write_jsonl(path, [{"id": i, "text": f" one two three four five six seven {i}"} for i in range(8)])
    words = (*NO_SCORING, "metric=[length,distinct_n]", f"generations={path}", "max_new_tokens=5")
    record, rows = measure_rows(tmp_path, *words)
    assert (rows["model", "length"].values["length"], rows["human", "length"].values["length"]) == (5, 5)
    facts = parse_signature(rows["model", "distinct_n"].signature)
    assert (facts["tokens"], facts["length"]) == ("words", "5 words")
    assert "text statistics count whitespace words: no scorer is set" in map(str, record.notes)
    assert any("cut at 5 whitespace words" in str(note) for note in record.notes)
    assert any("of 8 texts were cut at 5 words" in str(note) for note in record.notes)


def test_without_a_tokenizer_both_sides_are_cut_in_the_unit_of_most_human_texts(tmp_path):
    """Of eight human texts six are Chinese: characters, also of an English text and of what a naive system learns."""
    human = [f"潮水在中午前涨了上来带走了船{i}" for i in range(6)] + ["the tide came in before noon"] * 2
    write_jsonl(tmp_path / "human.jsonl", [{"prompt": f"p{i}", "text": text} for i, text in enumerate(human * 2)])
    write_jsonl(tmp_path / "theirs.jsonl", [{"id": i, "text": "one two three"} for i in range(8)])
    task = ("task=jsonl", f"task.path={tmp_path / 'human.jsonl'}", "task.human_field=text")
    for generations, expected, note in (
        (tmp_path / "theirs.jsonl", 5, "8 of 8 texts were cut at 5 characters"),
        ("naive:unigram", 5, "texts have at most as many characters as the human texts"),
    ):
        words = (*NO_SCORING, *task, "metric=[length]", f"generations={generations}", "max_new_tokens=5")
        record, rows = measure_rows(tmp_path, *words)
        assert [rows[side, "length"].values["length"] for side in ("human", "model")] == [5, expected]
        assert "both sides are cut at 5 characters: there is no scorer to count tokens" in map(str, record.notes)
        assert any(note in str(written) for written in record.notes)


@pytest.mark.slow
def test_a_scoring_model_out_of_its_domain_is_named_in_notes_and_signatures(tmp_path):
    record, rows = measure_rows(tmp_path, "scoring=docs-m", "metric=[frechet,gen_ppl]")
    assert parse_signature(rows["model", "gen_ppl"].signature)["scorer"].endswith(f"({OUT_OF_DOMAIN})")
    assert parse_signature(rows["model", "frechet"].signature)["embedder"].endswith(f"({OUT_OF_DOMAIN})")
    warning = "docs-m was trained on docstrings only: do not trust its scores here"
    assert {f"scorer {warning}", f"embedder {warning}"} <= set(map(str, record.notes))
    record, _ = measure_rows(tmp_path, "scoring=docs-m", "metric=[frechet]")  # only what the metrics read is told
    assert f"scorer {warning}" not in map(str, record.notes)
    small: Any = build_settings(config("num_examples=4", "max_new_tokens=8", f"outputs_dir={tmp_path / 'out'}"))
    record = read_record(run(small, open_session(tmp_path)).folder)  # docs at home says nothing
    assert not any("docstrings" in note or "domain" in note or "no scorer" in str(note) for note in record.notes)
    signatures = "".join(row.signature for row in record.results)
    assert OUT_OF_DOMAIN not in signatures
    assert "|tokens:" not in signatures
