"""The kinds of check that claims are made of, and which values they read."""

from __future__ import annotations

import pytest

from openended.harness.report.findings.checks import (
    GEN_PPL,
    MAUVE,
    check_decoders,
    format_number,
    iterate_by_decoder,
    parse_size,
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


def test_gaps_are_distances_to_the_human_value(tmp_path):
    found = items(tmp_path, [("greedy", 0.1, 8.0), ("nucleus", 0.9, 31.0)])
    verdict = check_decoders(
        GEN_PPL, ("nucleus", "greedy"), lambda n, g: (n, g) == pytest.approx((1.0, 22.0)), gaps=True
    )(found)
    assert verdict is not None
    assert verdict.holds


def test_claims_are_told_apart_and_say_what_they_need():
    assert len({claim.text for claim in CLAIMS}) == len(CLAIMS)
    assert all(claim.source and claim.needs for claim in CLAIMS)
    assert all(claim.check([]) is None for claim in CLAIMS), "no runs, no verdict"


def mauve(value, **more):
    return [result("model", "mauve", {"mauve": value}, direction="higher", **more)]


def test_a_decoder_stands_with_its_best_parameters(tmp_path):
    write_run(tmp_path, "greedy", 0, results=mauve(0.1))
    for p, value in ((0.5, 0.3), (0.9, 0.8)):
        write_run(tmp_path, "nucleus", 0, results=mauve(value), axes={"decoder.p": p})
    (found,) = iterate_by_decoder(read_results([tmp_path]).values, MAUVE, ("greedy", "nucleus"))
    assert (found["greedy"].mean, found["nucleus"].mean) == (0.1, 0.8)


@pytest.mark.parametrize(("model", "place"), [("docs-s", 1), ("gpt2_large", 7), ("gpt2", None)])
def test_size_is_the_last_word_of_a_models_name(model, place):
    assert parse_size(model) == place


def test_numbers_have_the_decimals_of_a_finding():
    assert (format_number(0.12345), format_number(-1.5), format_number(31.04)) == ("0.123", "-1.500", "31.0")
