"""The kinds of check that claims are made of."""

from __future__ import annotations

import pytest

from openended.harness.report.findings.checks import check_gaps, check_order, check_sizes, check_trend
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
    verdict = check_order("mauve", "mauve", names, lambda g, n: g < n)(found)
    assert verdict is not None
    assert verdict.holds
    assert "0.100" in verdict.measured
    assert "0.900" in verdict.measured
    assert not check_order("mauve", "mauve", names, lambda g, n: g > n)(found).holds
    assert check_order("mauve", "mauve", ("greedy", "beam"), lambda g, b: g < b)(found) is None


def test_gaps_are_distances_to_the_human_value(tmp_path):
    found = items(tmp_path, [("greedy", 0.1, 8.0), ("nucleus", 0.9, 31.0)])
    verdict = check_gaps(("nucleus", "greedy"), lambda n, g: (n, g) == pytest.approx((1.0, 22.0)))(found)
    assert verdict is not None
    assert verdict.holds


@pytest.mark.parametrize(("sign", "holds"), [(1, True), (-1, False)])
def test_a_trend_has_a_sign(tmp_path, sign, holds):
    for length, value in ((32, 0.5), (64, 0.6), (96, 0.9)):
        items(tmp_path, [("nucleus", value, 31.0)], axes={"max_new_tokens": length})
    verdict = check_trend(["max_new_tokens"], "mauve", "mauve", sign)(read_results([tmp_path]).values)
    assert verdict is not None
    assert verdict.holds is holds


def test_sizes_compare_a_model_with_the_next_larger_one(tmp_path):
    items(tmp_path, [("nucleus", 0.5, 31.0)], model="docs-s")
    found = items(tmp_path, [("nucleus", 0.7, 31.0)], model="docs-m")
    assert check_sizes("mauve", "mauve")(found).holds
    assert check_sizes("mauve", "mauve")([i for i in found if i.axes["model"] == "docs-s"]) is None


def test_claims_are_told_apart_and_say_what_they_need():
    assert len({claim.text for claim in CLAIMS}) == len(CLAIMS)
    assert all(claim.source and claim.needs for claim in CLAIMS)
    assert all(claim.check([]) is None for claim in CLAIMS), "no runs, no verdict"
