"""Paired tests and their correction."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from safetensors.numpy import save_file

from openended.harness.core import Features, Ragged, Side, SpecError
from openended.harness.report.analysis.paired import by_prompt, compute_sign_flip_p, correct_by_holm
from openended.harness.report.tables.agreement import stars
from openended.harness.report.tables.compare import UNTESTED, build_significance_tables
from openended.harness.report.tables.systems import build_value_tables
from openended.harness.results import Layout, read_results
from openended.metrics.gen_ppl import GenPPL
from tests.harness.report.synthetic import result, seal, seal_record, write_run


def test_p_values_of_sign_flips():
    # signs of (1, 2, 3): |sum| = 6 for two of eight patterns, (+++) and (---)
    assert compute_sign_flip_p(np.array([1.0, 2.0, 3.0])) == pytest.approx(2 / 8)
    # (1, 2, -3): the sum is 0, every pattern reaches it
    assert compute_sign_flip_p(np.array([1.0, 2.0, -3.0])) == 1.0
    assert compute_sign_flip_p(np.zeros(5)) == 1.0

    rng = np.random.default_rng(0)
    values = rng.normal(0.4, 1, 14)
    exact = compute_sign_flip_p(values)
    # 10,000 draws: the standard error of a p-value is at most sqrt(0.25 / 10,000) = 0.005, five of them are 0.025
    drawn = compute_sign_flip_p(np.concatenate([values, [1e-15]]))
    assert drawn == pytest.approx(exact, abs=0.025)

    rng = np.random.default_rng(1)
    noise = rng.normal(0, 1, 400)
    assert compute_sign_flip_p(noise + 0.5) < 0.001
    assert compute_sign_flip_p(noise - noise.mean()) > 0.9


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(max_examples=50, deadline=None)
def test_holm_is_the_definition(p_values):
    # max over the smaller ones of (m - rank) p, capped at 1: written out
    order = sorted(p_values)
    expected = {
        p: max(min(1.0, (len(order) - j) * q) for j, q in enumerate(order[: order.index(p) + 1])) for p in order
    }
    got = list(map(correct_by_holm(dict(enumerate(p_values))).__getitem__, range(len(p_values))))
    for p, corrected in zip(p_values, got, strict=True):
        assert corrected >= expected[p] - 1e-12
        assert corrected >= p
    assert [c for _, c in sorted(zip(p_values, got, strict=True))] == sorted(got)


def test_stars_and_values_without_a_p_value():
    assert correct_by_holm({"a": 0.01, "b": np.nan, "c": 0.04}) == {"a": 0.02, "c": 0.04}

    assert [stars(p) for p in (0.2, 0.05, 0.049, 0.009, 0.0009)] == ["", "", "*", "**", "***"]


def test_examples_where_there_are_any_else_seeds(tmp_path):
    for decoder in ("greedy", "ancestral", "nucleus"):
        for seed in range(6) if decoder != "greedy" else (None,):
            write_run(tmp_path, decoder, seed, arrays=True)
    results = read_results([tmp_path])
    differences, p_values = build_significance_tables(results, "nucleus p=0.95")
    titles = [c.metric for c in differences.columns]
    greedy = dict(zip(titles, differences.rows[0].cells, strict=True))
    assert greedy["repetition"].n == 200  # examples: the metric left its values by example
    assert greedy["repetition"].suffix in ("**", "***")  # 2 / 10,001, times the number of tests at most
    assert greedy["mauve"].n == 6  # seeds
    assert greedy["mauve"].value < 0
    assert p_values.rows[0].label == "greedy"
    assert any("0.031 for 6 seeds" in r for r in differences.remarks)
    again, _ = build_significance_tables(read_results([tmp_path]), "nucleus p=0.95")
    assert again == differences  # the same numbers every time


def test_few_seeds_are_not_tested_and_say_so(tmp_path):
    for decoder, value in (("ancestral", 1.0), ("nucleus", 2.0)):
        for seed in (0, 1):
            write_run(
                tmp_path, decoder, seed, results=[result("model", "m", {"m": value + seed / 9}, direction="higher")]
            )
    differences, _ = build_significance_tables(read_results([tmp_path]), "ancestral")
    cell = differences.rows[0].cells[0]
    assert (cell.value, cell.note) == (pytest.approx(1.0), UNTESTED)
    with pytest.raises(SpecError, match=r"no system 'nucleus'; did you mean 'nucleus p=0.95'\?"):
        build_significance_tables(read_results([tmp_path]), "nucleus")
    with pytest.raises(SpecError, match="no other system to compare"):
        build_significance_tables(read_results([tmp_path], {"decoder": "nucleus"}), "nucleus p=0.95")


def rejected(samples: int, *, grouped: bool, prompts: int = 30, tables: int = 200) -> float:
    """Share of p-values below 0.05 where two systems are one: a prompt's texts resemble each other, and no more."""
    rng = np.random.default_rng(0)
    place = np.repeat(np.arange(prompts), samples) if grouped else None
    hits = 0
    for number in range(tables):
        own, other = (
            np.repeat(rng.normal(size=prompts), samples) + 0.5 * rng.normal(size=prompts * samples) for _ in "ab"
        )
        hits += compute_sign_flip_p(by_prompt(own, place) - by_prompt(other, place), str(number), draws=400) < 0.05
    return hits / tables


def test_samples_of_a_prompt_are_one_observation():
    """200 tables without any difference, 4 samples a prompt: 5 % ± 3 standard errors (0.015 each) may be called one."""
    assert rejected(4, grouped=True) == pytest.approx(0.05, abs=0.045)
    assert rejected(4, grouped=False) > 0.2, "text by text, the test calls noise of the prompts a difference"

    values, prompts = np.array([1.0, 3.0, 5.0, 7.0]), np.array([0, 0, 0, 1])
    assert by_prompt(values, prompts).tolist() == [4.5, 3.5]  # (1 + 3 + 5) * 2 / 4, 7 * 2 / 4
    assert by_prompt(values, np.array([0, 0, 1, 1])).tolist() == [2.0, 6.0]
    assert by_prompt(values, None) is values


def test_a_run_of_several_samples_is_compared_prompt_by_prompt(tmp_path):
    """Metric to table: 25 prompts, 4 samples each, human texts once; `n` is the number of prompts."""
    rng = np.random.default_rng(1)
    ids = [f"t/{i:03d}" for i in range(25)]
    metric = GenPPL()
    human = _side("human", ids, rng, 3.0)
    for decoder, level in (("ancestral", 3.6), ("nucleus", 3.1)):
        model = _side("model", [i for i in ids for _ in range(4)], rng, level)
        lines = []
        for system, side in (("model", model), ("human", human)):
            made = metric.compute(Features(human, side, {"n": str(len(side)), "task": "t@1"}))
            assert ("prompts" in made.arrays) == (system == "model")
            name = f"measure/aa/{decoder}-{system}"
            (tmp_path / "store" / name).mkdir(parents=True)
            held = {f"per_example/{k}": v for k, v in made.per_example.items()}
            held |= {f"arrays/{k}": v for k, v in made.arrays.items()}
            save_file(held, tmp_path / "store" / name / "arrays.safetensors")
            seal(tmp_path / "store" / name)
            lines.append(result(system, "gen_ppl", made.values, direction="match_human", family="scored")
                         | {"signature": made.signature, "artifact": name})  # fmt: skip
        folder = write_run(tmp_path, decoder, 0, results=lines, axes={"samples": 4})
        record = json.loads((folder / "record.json").read_text())
        for line, kept in zip(record["results"], lines, strict=True):
            line["artifact"] = kept["artifact"]
        seal_record(folder, {k: v for k, v in record.items() if k != "digest"})
    results = read_results([tmp_path])
    differences, _ = build_significance_tables(results, "nucleus p=0.95")
    cells = {c.key: cell for c, cell in zip(differences.columns, differences.rows[0].cells, strict=True)}
    assert cells["entropy"].n == 25
    assert cells["entropy"].note == ""
    (table,) = build_value_tables(results, Layout(gaps=True), "t")
    assert all(math.isfinite(cell.value) for row in table.rows for cell in row.cells), "the gap to the human is lost"
    assert any("human values are based on 25 texts, those of the systems on 100" in line for line in table.warnings)


def _side(name, ids, rng, level):
    spec = GenPPL()
    nll, tokens = spec.needs()
    lengths = [20] * len(ids)
    rows = [rng.normal(level, 0.5, n) for n in lengths]
    words = [rng.integers(0, int(3 * level), n) for n in lengths]
    return Side(name, ids, {nll: Ragged.from_rows(rows, np.float64), tokens: Ragged.from_rows(words, np.int64)})
