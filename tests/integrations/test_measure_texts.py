"""A metric of another framework's texts: numbers by name, and NaN with one line of error instead of an exception."""

import logging
import math

import pytest

import openended as oe
from openended.harness.core.errors import SpecError
from openended.integrations.measure_texts import METRICS, check_options, measure_texts
from tests.harness.app.test_api import HUMAN, NUCLEUS


def test_a_number_its_interval_and_the_human_value(tmp_path, caplog):
    found = measure_texts("self_bleu", human=HUMAN, model=NUCLEUS, source="test", outputs_dir=tmp_path)
    result = oe.measure("self_bleu", model_texts=NUCLEUS, outputs_dir=tmp_path)
    assert "letter for letter" not in caplog.text, "there are no human texts to be copied"
    assert list(found) == ["self_bleu_4", "self_bleu_4_low", "self_bleu_4_high", "self_bleu_4_human"]
    assert found["self_bleu_4"] == result.values["self_bleu_4"]
    assert found["self_bleu_4_low"] == result.intervals["self_bleu_4"]["low"] < found["self_bleu_4"]
    assert found["self_bleu_4"] < found["self_bleu_4_high"] == result.intervals["self_bleu_4"]["high"]
    human = oe.measure("self_bleu", model_texts=HUMAN, outputs_dir=tmp_path)
    assert found["self_bleu_4_human"] == human.values["self_bleu_4"]


def test_other_values_and_names():
    assert METRICS["knn_precision_recall"].list_labels(["density"]) == [
        "knn_density", "knn_density_low", "knn_density_high",
    ]  # fmt: skip
    assert METRICS["rep"].list_labels()[0] == "rep_2"
    for metric in METRICS.values():
        assert metric.list_labels()[0] == f"{metric.prefix}{metric.values[0]}"


def test_mistakes_cost_no_texts(tmp_path, caplog):
    with caplog.at_level(logging.ERROR):
        found = measure_texts("zipf", human=HUMAN, model=[" "], source="test", outputs_dir=tmp_path)
        nothing = measure_texts("zipf", human=[], model=NUCLEUS, source="test", outputs_dir=tmp_path)
    assert all(math.isnan(value) for value in (*found.values(), *nothing.values()))
    assert "zipf: " in caplog.messages[0]
    assert "all 1 texts are empty" in caplog.messages[0]
    assert "no human texts" in caplog.messages[-1]
    with pytest.raises(SpecError, match="no option 'untis'; did you mean 'unit'"):
        check_options("zipf", {"untis": "words", "outputs_dir": "x", "values": ["zipf"]})
