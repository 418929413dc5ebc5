"""The kinds of check that claims are made of, and which values they read."""

from __future__ import annotations

import pytest

from openended.harness.report.findings.checks import (
    GEN_PPL,
    MAUVE,
    check_decoders,
    check_sizes,
    check_trend,
    format_number,
    iterate_by_decoder,
    parse_size,
    select_human_rated,
    select_main_setting,
)
from openended.harness.report.findings.claims import CLAIMS
from openended.harness.results.frame import read_results
from tests.harness.report.synthetic import result, write_run


def items(folder, decoders, **more):
    for decoder, mauve, ppl in decoders:
        lines = [result("model", "mauve", {"mauve": mauve}, direction="higher")]
        lines += [result("model", "gen_ppl", {"gen_ppl": ppl}), result("human", "gen_ppl", {"gen_ppl": 30.0})]
        write_run(folder, decoder, 0, results=lines, **more)
    return read_results([folder]).values


def test_an_order_says_the_values_and_whether_it_holds(tmp_path):
    found = items(tmp_path, [("greedy", 0.1, 8.0), ("nucleus", 0.9, 31.0)])
    names = ("greedy", "nucleus")
    verdict = check_decoders(MAUVE, names, lambda g, n: g < n)(found)
    assert verdict is not None
    assert verdict.holds
    assert "0.100" in verdict.measured
    assert "0.900" in verdict.measured
    assert not check_decoders(MAUVE, names, lambda g, n: g > n)(found).holds
    assert check_decoders(MAUVE, ("greedy", "beam"), lambda g, b: g < b)(found) is None


def test_gaps_are_distances_to_the_human_value(tmp_path):
    found = items(tmp_path, [("greedy", 0.1, 8.0), ("nucleus", 0.9, 31.0)])
    verdict = check_decoders(
        GEN_PPL, ("nucleus", "greedy"), lambda n, g: (n, g) == pytest.approx((1.0, 22.0)), gaps=True
    )(found)
    assert verdict is not None
    assert verdict.holds


@pytest.mark.parametrize(("sign", "holds"), [(1, True), (-1, False)])
def test_a_trend_has_a_sign(tmp_path, sign, holds):
    for length, value in ((32, 0.5), (64, 0.6), (96, 0.9)):
        items(tmp_path, [("nucleus", value, 31.0)], axes={"max_new_tokens": length})
    verdict = check_trend(["max_new_tokens"], MAUVE, sign)(read_results([tmp_path]).values)
    assert verdict is not None
    assert verdict.holds is holds


def test_sizes_compare_a_model_with_the_next_larger_one(tmp_path):
    items(tmp_path, [("nucleus", 0.5, 31.0)], model="docs-s")
    found = items(tmp_path, [("nucleus", 0.7, 31.0)], model="docs-m")
    assert check_sizes(MAUVE)(found).holds
    assert check_sizes(MAUVE)([i for i in found if i.axes["model"] == "docs-s"]) is None


def test_claims_are_told_apart_and_say_what_they_need():
    assert len({claim.text for claim in CLAIMS}) == len(CLAIMS)
    assert all(claim.source and claim.needs for claim in CLAIMS)
    assert all(claim.check([]) is None for claim in CLAIMS), "no runs, no verdict"


def mauve(value, **more):
    return [result("model", "mauve", {"mauve": value}, direction="higher", **more)]


def test_the_main_setting_is_the_one_that_most_systems_share(tmp_path):
    for decoder in ("greedy", "nucleus"):
        write_run(tmp_path, decoder, 0, results=mauve(0.5))
    write_run(tmp_path, "greedy", 0, results=mauve(0.9), axes={"max_new_tokens": 8})
    found = select_main_setting(read_results([tmp_path]).values, MAUVE)
    assert sorted(i.axes["decoder"] for i in found) == ["greedy", "nucleus"]
    assert {i.mean for i in found} == {0.5}


def test_a_decoder_stands_with_its_best_parameters(tmp_path):
    write_run(tmp_path, "greedy", 0, results=mauve(0.1))
    for p, value in ((0.5, 0.3), (0.9, 0.8)):
        write_run(tmp_path, "nucleus", 0, results=mauve(value), axes={"decoder.p": p})
    (found,) = iterate_by_decoder(read_results([tmp_path]).values, MAUVE, ("greedy", "nucleus"))
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
