"""Paired tests and their correction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openended.harness.errors import SpecError
from openended.harness.report.read.frame import read_results
from openended.harness.report.tables.agreement import stars
from openended.harness.report.tables.significance import UNTESTED, gap_p, holm, sign_flip_p, significance
from tests.harness.report.synthetic import result, write_run


def test_sign_flips_counted_by_hand():
    # signs of (1, 2, 3): |sum| = 6 for two of eight patterns, (+++) and (---)
    assert sign_flip_p(np.array([1.0, 2.0, 3.0])) == pytest.approx(2 / 8)
    # (1, 2, -3): the sum is 0, every pattern reaches it
    assert sign_flip_p(np.array([1.0, 2.0, -3.0])) == 1.0
    assert sign_flip_p(np.zeros(5)) == 1.0


def test_random_signs_come_near_the_exact_p_value():
    rng = np.random.default_rng(0)
    values = rng.normal(0.4, 1, 14)
    exact = sign_flip_p(values)
    # 10,000 draws: the standard error of a p-value is at most sqrt(0.25 / 10,000) = 0.005, five of them are 0.025
    drawn = sign_flip_p(np.concatenate([values, [1e-15]]))
    assert drawn == pytest.approx(exact, abs=0.025)


def test_an_effect_is_seen_and_none_is_not():
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 1, 400)
    assert sign_flip_p(noise + 0.5) < 0.001
    assert sign_flip_p(noise - noise.mean()) > 0.9


def test_the_distance_to_the_human_value_is_what_is_compared():
    rng = np.random.default_rng(2)
    near, far, human = rng.normal(0.0, 1, 500), rng.normal(2.0, 1, 500), rng.normal(0.0, 1, 500)
    assert gap_p(near, far, 0.0, human) < 0.001
    # as far below as above: the distances are the same although the means differ
    below = -far
    assert gap_p(below, far, 0.0, None) > 0.05
    assert gap_p(far, far, 0.0, human) == 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(max_examples=50, deadline=None)
def test_holm_is_the_definition(p_values):
    # max over the smaller ones of (m - rank) p, capped at 1: written out
    order = sorted(p_values)
    expected = {
        p: max(min(1.0, (len(order) - j) * q) for j, q in enumerate(order[: order.index(p) + 1])) for p in order
    }
    got = holm(p_values)
    for p, corrected in zip(p_values, got, strict=True):
        assert corrected >= expected[p] - 1e-12
        assert corrected >= p
    assert [c for _, c in sorted(zip(p_values, got, strict=True))] == sorted(got)


def test_stars():
    assert [stars(p) for p in (0.2, 0.05, 0.049, 0.009, 0.0009)] == ["", "", "*", "**", "***"]


def test_examples_where_there_are_any_else_seeds(tmp_path):
    for decoder in ("greedy", "ancestral", "nucleus"):
        for seed in range(6) if decoder != "greedy" else (None,):
            write_run(tmp_path, decoder, seed, arrays=True)
    results = read_results([tmp_path])
    differences, p_values = significance(results, "nucleus p=0.95")
    titles = [c.metric for c in differences.columns]
    greedy = dict(zip(titles, differences.rows[0].cells, strict=True))
    assert greedy["repetition"].n == 200  # examples: the metric left its values by example
    assert greedy["repetition"].suffix in ("**", "***")  # 2 / 10,001, times the number of tests at most
    assert greedy["mauve"].n == 6  # seeds
    assert greedy["mauve"].value < 0
    assert p_values.rows[0].label == "greedy"
    assert any("0.031 for 6 seeds" in r for r in differences.remarks)
    again, _ = significance(read_results([tmp_path]), "nucleus p=0.95")
    assert again == differences  # the same numbers every time


def test_few_seeds_are_not_tested_and_say_so(tmp_path):
    for decoder, value in (("ancestral", 1.0), ("nucleus", 2.0)):
        for seed in (0, 1):
            write_run(
                tmp_path, decoder, seed, results=[result("model", "m", {"m": value + seed / 9}, direction="higher")]
            )
    differences, _ = significance(read_results([tmp_path]), "ancestral")
    cell = differences.rows[0].cells[0]
    assert (cell.value, cell.note) == (pytest.approx(1.0), UNTESTED)
    with pytest.raises(SpecError, match=r"no system 'nucleus'; did you mean 'nucleus p=0.95'\?"):
        significance(read_results([tmp_path]), "nucleus")
    with pytest.raises(SpecError, match="no system beside"):
        significance(read_results([tmp_path], {"decoder": "nucleus"}), "nucleus p=0.95")
