"""From Python: texts in, numbers out, by the same runs."""

import json
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import openended as oe
from openended.harness.app.api import Evaluation
from openended.harness.core.errors import DataError, SpecError
from openended.metrics.mauve import mauve
from openended.metrics.repetition import Repetition
from openended.metrics.zipf import zipf_coefficient
from tests.helpers import cases, check_error

WORDS = "the a cat dog sat ran on under house river red blue then it was very cold and".split()


def texts(seed, n=24, words=18):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, words)) for _ in range(n)]


HUMAN, GREEDY, NUCLEUS = texts(0), ["the cat sat on it " * 4] * 20, texts(1)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    systems = {"greedy": GREEDY, "nucleus": NUCLEUS}
    return oe.evaluate(human=HUMAN, systems=systems, outputs_dir=tmp_path_factory.mktemp("out"))


def test_all_texts_whole_over_words_where_there_is_no_judge(result):
    assert set(result.values) == {"human", "greedy", "nucleus"}
    assert result.results["greedy"]["length"].n_model == 20
    assert result.results["nucleus"]["length"].values["length"] == 18
    expected = zipf_coefficient([t.split() for t in NUCLEUS])
    assert result.values["nucleus"]["zipf"] == pytest.approx(expected, rel=1e-12)
    assert "|tokens:words|" in result.results["nucleus"]["zipf"].signature
    assert "mauve" not in result.values["greedy"]
    assert not result.failed


def test_a_result_is_a_short_line_a_table_a_frame_and_a_report(result, tmp_path):
    assert repr(result).startswith("<Evaluation: 2 systems (greedy, nucleus), 7 metrics (compression_ratio, ")
    assert repr(result.results["greedy"]["zipf"]).startswith("<zipf: zipf=")
    table = result.table(metrics=("zipf",))
    assert [
        line.split()[0] for line in table.splitlines() if line.split()[:1] and line.split()[0] in result.values
    ] == ["human", "greedy", "nucleus"]
    assert table.count("24 texts") == 1, "one warning for one cause"
    short = result.to_pandas()
    assert list(short.columns) == ["system", "metric", "key", "value", "low", "high"]
    assert {"human", "greedy", "nucleus"} <= set(short["system"])
    zipf = short[(short["system"] == "greedy") & (short["metric"] == "zipf") & (short["key"] == "zipf")]
    assert zipf["value"].item() == result.values["greedy"]["zipf"]
    frame = result.to_pandas(all=True)
    assert set(frame["model_title"]) == {"", "greedy", "nucleus"}
    assert {"signature", "reason"} <= set(frame.columns)
    assert len(frame) == len(short)
    report = result.report(tmp_path / "report", figures=False)
    assert (tmp_path / "report/report.html").is_file()
    assert [t.name for t in report.tables] == ["default"]
    assert isinstance(result, Evaluation)


def test_texts_without_spaces_are_counted_by_characters_or_warned_of(tmp_path, caplog):
    texts, english = ["我们在家", "他们在家 里", "我们"], ["one or two", "a word", "three"]
    # Characters: 4, 5 and 2, of which 我 们 在 家 他 里 differ.
    for options in ({}, {"unit": "chars"}):
        result = oe.measure("distinct_n", model_texts=texts, **options)
        assert result.values["distinct_1"] == 6 / 11
        assert "|unit:chars|" in result.signature
    # The human side decides for both; words keep the signature that they have without a decision.
    for human, unit, lengths in ((texts, "chars", (11 / 3, 18 / 3)), (english, "tokens", (4 / 3, 2))):
        result = oe.evaluate(human=human, systems={"a": texts, "b": english}, metrics="length", outputs_dir=tmp_path)
        assert tuple(result.values[name]["length"] for name in "ab") == pytest.approx(lengths)
        assert f"|unit:{unit}|" in result.results["a"]["length"].signature
        assert ("characters are counted" in " ".join(map(str, result.records["b"].notes))) is (unit == "chars")
    caplog.clear()
    assert oe.measure("length", model_texts=texts, unit="words").values["length"] == 4 / 3
    assert "3 of the first 3 texts hold words of a script without spaces" in caplog.text
    assert "length splits them into words: metric.NAME.unit=icu counts words" in caplog.text


def test_texts_without_spaces_are_cut_by_characters_where_no_scorer_counts_tokens(tmp_path):
    """Ten characters stay, white space aside; of an English text ten words, 19 + 19 + 3 + 4 characters."""
    chinese, english = ["今天天气很好 " * 7] * 3, ["one word after another " * 7] * 3
    for texts, length in ((chinese, 10), (english, 45)):
        result = oe.evaluate(
            human=texts, systems={"a": texts}, metrics=["length"], metric_options={"length": {"unit": "chars"}},
            max_new_tokens=10, outputs_dir=tmp_path,
        )  # fmt: skip
        assert result.values["a"]["length"] == length


def test_evaluations_of_one_second_have_names_of_their_own_and_a_failed_one_leaves_none(tmp_path):
    options = {"systems": {"a": NUCLEUS}, "metrics": "zipf", "outputs_dir": tmp_path}
    names = {oe.evaluate(human=HUMAN, **options).folders[0].parent.name for _ in range(3)}
    assert len(names) == 3
    with pytest.raises(DataError, match="no such file"):
        oe.evaluate(human=HUMAN, **{**options, "metrics": "mauve"}, features={"human": "none.npy", "a": "none.npy"})
    assert {path.name for path in (tmp_path / "runs").iterdir()} == names


def test_a_metric_measures_texts(tmp_path):
    found = oe.measure("zipf", model_texts=NUCLEUS, unit="words", outputs_dir=tmp_path)
    assert found.values["zipf"] == pytest.approx(zipf_coefficient([t.split() for t in NUCLEUS]), rel=1e-12)
    with pytest.raises(SpecError, match="mauve compares two sides: give human_texts"):
        oe.measure("mauve", model_texts=NUCLEUS, outputs_dir=tmp_path)
    with pytest.raises(SpecError, match="no option 'untis'; did you mean 'unit'"):
        oe.measure("zipf", model_texts=NUCLEUS, untis="words", outputs_dir=tmp_path)


@cases(
    "call, message",
    (lambda: oe.measure("zipf", model_texts=[]), "model_texts: expected at least one text, got an empty list"),
    (
        lambda: oe.measure("mauve", model_texts=["x"], human_texts=["\ud800"]),
        "human_texts: the text at position 0 has half",
    ),
    (lambda: oe.compute_mauve(p_text=[], q_text=["x"], featurize_model_name="docs-m"), "p_text: expected at least one"),
    (lambda: oe.compute_mauve(p_text=["x"], q_text=["\ud800"], featurize_model_name="docs-m"), "q_text: the text at"),
    (
        lambda: oe.compute_mauve(p_text="abc", q_text=["x"], featurize_model_name="docs-m"),
        "p_text: expected a list of texts, got a str",
    ),
)
def test_texts_that_cannot_be_read_name_the_argument(call, message):
    check_error(SpecError, message, call)


def test_the_modules_of_metrics_load_when_they_are_named():
    assert oe.metrics.mauve.mauve is mauve
    assert "mauve" in dir(oe.metrics)
    with pytest.raises(AttributeError, match="no attribute 'mauv'"):
        _ = oe.metrics.mauv
    assert not callable(oe.metrics.mauve)


def test_a_scoring_model_scores_and_embeds(tmp_path):
    result = oe.evaluate(
        human=HUMAN, systems={"one": NUCLEUS}, metrics=["gen_ppl", "mauve", "zipf"], scoring="docs-s", outputs_dir=tmp_path,
        max_new_tokens=16, num_examples=12,
    )  # fmt: skip
    values = result.values["one"]
    assert values["gen_ppl"] > 1
    assert 0 < values["mauve"] <= 1
    signature = result.results["one"]["gen_ppl"].signature
    assert "scorer:docs-s@" in signature
    assert "length:16" in signature
    assert "n:12" in signature
    assert "tokens:words" not in result.results["one"]["zipf"].signature  # the scorer has tokens


def test_vectors_of_ones_own_stand_in_for_an_embedder(tmp_path):
    rng = np.random.default_rng(0)
    human, model = rng.normal(size=(24, 5)).astype(np.float32), rng.normal(size=(20, 5)).astype(np.float32)
    given = {"human": human, "greedy": model}
    systems = {"greedy": GREEDY}
    found = oe.evaluate(human=HUMAN, systems=systems, metrics="frechet", features=given, outputs_dir=tmp_path)
    from openended.metrics.frechet import frechet_distance

    assert found.values["greedy"]["frechet"] == pytest.approx(frechet_distance(human=human, model=model), rel=1e-9)
    with pytest.raises(DataError, match="20 rows for 24 texts"):
        oe.evaluate(
            human=HUMAN, systems={"greedy": GREEDY}, metrics="frechet", features={**given, "human": model},
            outputs_dir=tmp_path,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Broken(Repetition):
    name: ClassVar[str] = "broken"

    def prepare(self, features):
        raise ZeroDivisionError("by nothing")


def test_a_metric_that_raises_has_no_value_and_the_others_stand(tmp_path):
    metrics = [Broken(unit="words"), "zipf"]
    found = oe.evaluate(human=HUMAN, systems={"x": NUCLEUS}, metrics=metrics, outputs_dir=tmp_path)
    (reason,) = found.failed
    assert reason.startswith("metric broken failed with ZeroDivisionError: by nothing (test_api.py, line ")
    assert math.isnan(found.values["x"]["broken"])
    assert found.results["x"]["broken"].status == "failed"
    assert math.isfinite(found.values["x"]["zipf"])
    assert "failed with ZeroDivisionError: by nothing" in found.table()
    # Nothing of it is kept: with its code mended, the same call computes it.
    stored = [json.loads(path.read_text())["metric"] for path in tmp_path.glob("store/measure/*/*/result.json")]
    assert "broken" not in stored


@cases(
    "arguments, line",
    ({"systems": [GREEDY]}, r"systems: expected at least one, as {'name': texts}, got a list"),
    ({"systems": {}}, r"expected at least one.* got none"),
    ({"systems": {"human": GREEDY}}, r"a name other than '' and 'human' for each, got 'human'"),
    ({"systems": {" ": GREEDY}}, r"got ' '"),
    ({"systems": {"a": []}}, r"systems\['a'\]: expected at least one text, got an empty list"),
    ({"systems": {"a": ["x", "\ud800"]}}, r"position 1 has half of a surrogate pair"),
    ({"systems": {"a": ["", " "]}}, r"systems\['a'\]: all 2 texts are empty"),
    ({"systems": {"a": np.array([["x"]])}}, r"systems\['a'\]: expected a list of texts, got a ndarray"),
    ({"systems": {"a": {"b": "x"}}}, r"systems\['a'\]: expected a list of texts, got a dict"),
    ({"human": []}, r"human: expected at least one text"),
    ({"human": ["a", 3]}, r"human: expected a text at position 1, got int"),
    ({"metrics": 3}, r"metrics: expected names, as .*, got 3"),
    ({"metrics": [Repetition]}, r"metrics: expected names, .*Repetition"),
    ({"metrics": ["mauv"]}, r"no metric 'mauv'; did you mean 'mauve'"),
    ({"num_examples": 0}, r"expected 1 or more, or all"),
    ({"features": {"human": np.zeros((2, 2))}}, r"missing a"),
    (
        {"features": {"human": [[1.0], [1.0, 2.0]], "a": [[1.0]]}},
        r"features\['human'\]: expected an array of shape \(texts, dimensions\): ",
    ),
    (
        {"features": {"human": [1.0], "a": [[1.0]]}},
        r"features\['human'\]: expected floats of shape \(texts, dimensions\), got float64 \(1,\)",
    ),
)
def test_wrong_arguments_are_named_in_one_line(tmp_path, arguments, line):
    given = {"human": HUMAN, "systems": {"a": GREEDY}, "outputs_dir": tmp_path, **arguments}
    check_error(SpecError, line, oe.evaluate, **given)


def test_an_unknown_argument_is_corrected(tmp_path):
    with pytest.raises(TypeError, match=r"no argument 'metric'; did you mean 'metrics'\?"):
        oe.evaluate(human=HUMAN, systems={"a": GREEDY}, metric="zipf", outputs_dir=tmp_path)
