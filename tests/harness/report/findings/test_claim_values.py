"""Which values a claim reads."""

from __future__ import annotations

import pytest

from openended.harness.report.findings.claim_values import (
    format_number,
    iterate_by_decoder,
    parse_size,
    select_human_rated,
    select_main_setting,
)
from openended.harness.results.frame import read_results
from tests.harness.report.synthetic import result, write_run


def mauve(value, **more):
    return [result("model", "mauve", {"mauve": value}, direction="higher", **more)]


def test_the_main_setting_is_the_one_that_most_systems_share(tmp_path):
    for decoder in ("greedy", "nucleus"):
        write_run(tmp_path, decoder, 0, results=mauve(0.5))
    write_run(tmp_path, "greedy", 0, results=mauve(0.9), axes={"max_new_tokens": 8})
    found = select_main_setting(read_results([tmp_path]).values, "mauve", "mauve")
    assert sorted(i.axes["decoder"] for i in found) == ["greedy", "nucleus"]
    assert {i.mean for i in found} == {0.5}


def test_a_decoder_stands_with_its_best_parameters(tmp_path):
    write_run(tmp_path, "greedy", 0, results=mauve(0.1))
    for p, value in ((0.5, 0.3), (0.9, 0.8)):
        write_run(tmp_path, "nucleus", 0, results=mauve(value), axes={"decoder.p": p})
    (found,) = iterate_by_decoder(read_results([tmp_path]).values, "mauve", "mauve", "greedy", "nucleus")
    assert (found["greedy"].mean, found["nucleus"].mean) == (0.1, 0.8)


@pytest.mark.parametrize(("model", "place"), [("docs-s", 1), ("gpt2_large", 7), ("gpt2", None)])
def test_size_is_the_last_word_of_a_models_name(model, place):
    assert parse_size(model) == place


def test_invented_ratings_are_no_ratings(tmp_path):
    for name in ("ours.csv", "example_ratings.csv"):
        line = result("model", "huse", {"huse": 0.5}, direction="higher", facts=f"judgments:{name}@abc")
        write_run(tmp_path, "nucleus", 0, results=[line], experiment=name)
    (found,) = select_human_rated(read_results([tmp_path]).values)
    assert "ours.csv" in found.signature


def test_numbers_have_the_decimals_of_a_finding():
    assert (format_number(0.12345), format_number(-1.5), format_number(31.04)) == ("0.123", "-1.500", "31.0")
