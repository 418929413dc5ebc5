"""Paired tests and their correction: by hand, from draws of one seed, from examples, and near the human value."""

import dataclasses
import itertools
import math
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from openended.harness.core import DataError, Features, Ragged, Side, SpecError
from openended.harness.core.resampling import Plan, Replicates
from openended.harness.report.analysis import paired
from openended.harness.report.analysis.group_sequential import (
    UNDECIDED,
    DecisionPlan,
    PlannedComparison,
    judge_comparisons,
)
from openended.harness.report.analysis.power import compute_needed_texts, format_power
from openended.harness.report.analysis.uncertainty import Errors, check_with_uncertainty, join_components
from openended.harness.report.build import make_tables
from openended.harness.report.tables import compare
from openended.harness.report.tables.compare import UNSURE, UNTESTED
from openended.harness.report.tables.pivot import build_tables
from openended.harness.results import Layout, find_interval, group_systems, load_replicates, read_results
from openended.metrics.gen_ppl import GenPPL
from tests.harness.report.synthetic import result, store_arrays, write_run
from tests.helpers import cases, check_error


def build_significance_tables(*inputs):
    return build_tables(compare.build_significance_frames(*inputs))


def test_p_values_of_sign_flips():
    # signs of (1, 2, 3): |sum| = 6 for two of eight patterns, (+++) and (---)
    assert paired.compute_sign_flip_p(np.array([1.0, 2.0, 3.0])) == pytest.approx(2 / 8)
    # (1, 2, -3): the sum is 0, every pattern reaches it
    assert paired.compute_sign_flip_p(np.array([1.0, 2.0, -3.0])) == 1.0
    assert paired.compute_sign_flip_p(np.zeros(5)) == 1.0
    # (1, 1, 1, -1): |sum| = 4 for two of 16 patterns and 2 for eight; ties count half, but the observed and its opposite
    assert paired.compute_sign_flip_p(np.array([1.0, 1.0, 1.0, -1.0])) == pytest.approx((2 + 6 / 2 + 2) / 16)

    rng = np.random.default_rng(0)
    values = rng.normal(0.4, 1, 14)
    exact = paired.compute_sign_flip_p(values)
    # 10,000 draws: the standard error of a p-value is at most sqrt(0.25 / 10,000) = 0.005, five of them are 0.025
    drawn = paired.compute_sign_flip_p(np.concatenate([values, [1e-15]]))
    assert drawn == pytest.approx(exact, abs=0.025)

    rng = np.random.default_rng(1)
    noise = rng.normal(0, 1, 400)
    assert paired.compute_sign_flip_p(noise + 0.5) < 0.001
    assert paired.compute_sign_flip_p(noise - noise.mean()) > 0.9


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(max_examples=50, deadline=None)
def test_holm_is_the_definition(p_values):
    # max over the smaller ones of (m - rank) p, capped at 1: written out
    order = sorted(p_values)
    capped = [min(1.0, (len(order) - rank) * p) for rank, p in enumerate(order)]
    expected = {p: max(capped[: order.index(p) + 1]) for p in order}
    got = list(map(paired.correct_by_holm(dict(enumerate(p_values))).__getitem__, range(len(p_values))))
    for p, corrected in zip(p_values, got, strict=True):
        assert corrected >= expected[p] - 1e-12
        assert corrected >= p
    assert [c for _, c in sorted(zip(p_values, got, strict=True))] == sorted(got)


@pytest.mark.parametrize("systems", [2, 3, 10, 40])
def test_the_best_of_some_systems_is_compared_by_their_studentized_range(systems):
    """Or by Holm's method, which allows more for the last of few systems."""
    for p_value in (0.2, 0.01, 1e-5):
        span = math.sqrt(2) * stats.norm.isf(p_value / 2)
        expected = stats.studentized_range.sf(span, systems, np.inf)
        assert paired.compute_range_p_value(p_value, systems) == pytest.approx(expected, rel=1e-6)
    p_values = {"a": 0.008, "b": 0.012, "c": math.nan}
    holm = paired.correct_by_holm(p_values, math.comb(systems, 2))
    corrected = paired.correct_best_p_values(p_values, systems)
    assert corrected == {at: min(p, paired.compute_range_p_value(p_values[at], systems)) for at, p in holm.items()}


def test_examples_where_there_are_any_else_seeds(tmp_path):
    for decoder in ("greedy", "ancestral", "nucleus"):
        for seed in range(6) if decoder != "greedy" else (None,):
            write_run(tmp_path, decoder, seed, arrays=True)
    results = read_results([tmp_path])
    differences, p_values = build_significance_tables(results, "nucleus p=0.95")
    titles = [cell.name for cell in differences.rows[0].cells]
    greedy = dict(zip(titles, differences.rows[0].cells, strict=True))
    assert greedy["repetition"].n == 200  # examples: the metric left its values by example
    assert greedy["repetition"].mark in ("**", "***")  # 2 / 10,001, times the number of tests at most
    assert greedy["mauve"].n == 6  # seeds
    assert greedy["mauve"].value < 0
    assert p_values.rows[0].label == "greedy"
    assert any("0.031 for 6 seeds" in r for r in differences.list_notes("remark"))
    again, _ = build_significance_tables(read_results([tmp_path]), "nucleus p=0.95")
    assert repr(again) == repr(differences)  # the same numbers every time


def test_few_seeds_are_not_tested_and_say_so(tmp_path):
    for decoder, value in (("ancestral", 1.0), ("nucleus", 2.0)):
        for seed in (0, 1):
            line = result("model", "m", {"m": value + seed / 9}, direction="higher")
            write_run(tmp_path, decoder, seed, results=[line])
    differences, _ = build_significance_tables(read_results([tmp_path]), "ancestral")
    cell = differences.rows[0].cells[0]
    assert (cell.value, cell.note) == (pytest.approx(1.0), UNTESTED)
    with pytest.raises(SpecError, match=r"no system 'nucleus'; did you mean 'nucleus p=0.95'\?"):
        build_significance_tables(read_results([tmp_path]), "nucleus")
    with pytest.raises(SpecError, match="no other system to compare"):
        build_significance_tables(read_results([tmp_path], {"decoder": "nucleus"}), "nucleus p=0.95")


def test_only_seeds_with_a_value_on_both_sides_are_paired(tmp_path):
    for decoder, value, seeds in (("ancestral", 1.0, range(9)), ("nucleus", 2.0, range(2, 10))):
        for seed in seeds:
            number = math.nan if (decoder, seed) == ("nucleus", 3) else value + seed / 9
            write_run(tmp_path, decoder, seed, results=[result("model", "m", {"m": number}, direction="higher")])
    differences, _ = build_significance_tables(read_results([tmp_path]), "ancestral")
    assert differences.rows[0].cells[0].n == 6  # 2 and 4 to 8


def test_samples_of_a_prompt_are_one_observation():
    values, prompts = np.array([1.0, 3.0, 5.0, 7.0]), np.array([0, 0, 0, 1])
    assert paired.by_prompt(values, prompts).tolist() == [4.5, 3.5]  # (1 + 3 + 5) * 2 / 4, 7 * 2 / 4
    assert paired.by_prompt(values, np.array([0, 0, 1, 1])).tolist() == [2.0, 6.0]
    assert paired.by_prompt(values, None) is values


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
            held = {f"per_example/{k}": v for k, v in made.per_example.items()}
            held |= {f"arrays/{k}": v for k, v in made.arrays.items()}
            name = store_arrays(tmp_path / "store", f"measure/aa/{decoder}-{system}", held)
            lines.append(result(system, "gen_ppl", made.values, direction="match_human", family="scored")
                         | {"signature": made.signature, "artifact": name})  # fmt: skip
        write_run(tmp_path, decoder, 0, results=lines, axes={"samples": 4})
    results = read_results([tmp_path])
    differences, _ = build_significance_tables(results, "nucleus p=0.95")
    cells = {c.key: cell for c, cell in zip(differences.columns, differences.rows[0].cells, strict=True)}
    assert cells["entropy"].n == 25
    assert cells["entropy"].note == ""
    (table,) = make_tables(results, Layout(gaps=True), "t")
    assert all(math.isfinite(cell.value) for row in table.rows for cell in row.cells), "the gap to the human is lost"
    warning = "human values are based on 25 texts, those of the systems on 100"
    assert any(warning in line for line in table.list_notes("warning"))


def _side(name, ids, rng, level):
    spec = GenPPL()
    nll, tokens = spec.needs()
    lengths = [20] * len(ids)
    rows = [rng.normal(level, 0.5, n) for n in lengths]
    words = [rng.integers(0, int(3 * level), n) for n in lengths]
    return Side(name, ids, {nll: Ragged.from_rows(rows, np.float64), tokens: Ragged.from_rows(words, np.int64)})


PROMPTS = [f"p/{i:03d}" for i in range(120)]
PLAN = Plan(200)


def halves(values):
    inside = PLAN.mask_halves(PROMPTS)
    return np.stack([m @ values / m.sum(axis=1) for m in (inside, ~inside)])


def stored(folder, name, values, direction="higher", kind="halves", metric="m"):
    """Write a run whose value is the mean of `values`, with draws alone (halves) or values by example (bootstrap)."""
    made = Replicates(halves(values)) if kind == "halves" else PLAN.mean(PROMPTS, values)
    arrays = {f"draws/{metric}": made.draws} | ({} if kind == "halves" else {f"per_example/{metric}": values})
    place = store_arrays(folder / "store", f"measure/aa/{name}", arrays)
    mean = float(values.mean())
    told = made.interval(mean)
    interval = {k: getattr(told, k) for k in ("low", "high", "std_error", "level", "method", "replicates")}
    return result("human" if name.startswith("human") else "model", metric, {metric: mean}, direction=direction,
                  artifact=place, intervals={metric: interval}, n=120)  # fmt: skip


def written(folder, systems, direction="higher", kind="halves", human=None):
    """Write a run for each system."""
    for number, (decoder, values) in enumerate(systems.items()):
        lines = [stored(folder, f"{decoder}{number}", values, direction, kind)]
        if human is not None:
            lines.append(stored(folder, f"human{number}", human, direction, kind))
        write_run(folder, decoder, 0, results=lines)
    return read_results([folder])


def systems(rng, shifts):
    prompt = rng.normal(size=120)
    decoders = zip(("greedy", "ancestral", "nucleus"), shifts, strict=True)
    return {decoder: prompt + shift + 0.3 * rng.normal(size=120) for decoder, shift in decoders}


def test_distances_are_equal_where_the_center_lies_between_the_systems(monkeypatch):
    """Values 3 and 2 of 20 texts and human values of 2 and 3 in turn: a + b - 2 h is 1 and -1."""
    sides = {"b": (np.full(20, 3.0), np.full(20, 2.0)), "human": (np.full(20, 3.0), np.tile([2.0, 3.0], 10))}
    monkeypatch.setattr(paired, "_combine_middle", lambda *_: (0.0, None))
    monkeypatch.setattr(paired, "_load_examples", lambda results, a, b: sides[b.system])
    a, b, human = (SimpleNamespace(system=name, metric="m", key="m") for name in ("a", "b", "human"))
    test = paired.SystemComparison(1.0, 0.001, "examples", 20)
    assert paired._test_distances(None, a, b, test, human, math.nan) == 1.0
    assert paired._test_distances(None, a, b, test, None, 1.0) == 0.001


def compare_pairs(results):
    pairs = itertools.combinations(group_systems(results.values), 2)
    return {
        (a.name, b.name): paired.compare_values(results, results.values, a.value("m", "m"), b.value("m", "m"))
        for a, b in pairs
    }


def test_all_pairs_are_tested_from_the_draws_of_one_seed(tmp_path):
    results = written(tmp_path, systems(np.random.default_rng(0), (0.0, 0.0, 0.5)))
    tests = compare_pairs(results)
    assert len(tests) == 3
    first, *_, last = group_systems(results.values)
    unmeasured = dataclasses.replace(last, items=())
    assert paired.compare_values(results, results.values, first.value("m", "m"), unmeasured.value("m", "m")) is None
    assert {(t.over, t.n) for t in tests.values()} == {("draws", 200)}
    same = tests["greedy", "ancestral"]
    assert same.p_value > 0.01
    assert same.low < 0 < same.high
    for other in ("greedy", "ancestral"):
        apart = tests[other, "nucleus p=0.95"]
        assert apart.p_value < 0.001, "the prompts' own spread is paired away"
        assert apart.low < apart.difference < apart.high < 0
        assert math.isnan(apart.nearer)


@cases(
    "direction, human, outcome",
    ("higher", None, "nucleus p=0.95"),
    ("lower", None, "greedy"),
    ("match_human", 0.5, "nucleus p=0.95"),
    ("match_human", 0.0, "greedy"),
    ("match_human", 0.25, UNDECIDED),  # the values differ, their distances do not
)
def test_a_decision_follows_the_direction_of_the_value(tmp_path, direction, human, outcome):
    rng = np.random.default_rng(0)
    texts = systems(rng, (0.0, 0.0, 0.5))
    middle = np.mean([texts["greedy"], texts["nucleus"] - 0.5], axis=0) + 0.3 * rng.normal(size=120)
    results = written(tmp_path, texts, direction, human=None if human is None else middle + human)
    pairs = [PlannedComparison("greedy", other, "m") for other in ("nucleus p=0.95", "ancestral")]
    decisions = judge_comparisons(DecisionPlan(tuple(pairs), (500,)), results)
    assert [decision.outcome for decision in decisions] == [outcome, UNDECIDED]
    assert decisions[0].looks[0].difference == pytest.approx(-0.5, abs=0.1)


def read_resolution(results):
    """Return the number that the table prints."""
    (line,) = (line for line in best_rows(results)[0].list_notes("rule") if "80 % power" in line)
    return float(line.rpartition(" m ")[2].split()[0].rstrip("."))


def test_the_table_says_what_it_resolves_of_the_best_and_its_nearest_rival(tmp_path):
    """The two best have errors of 0.3 each: s.e. 0.3 sqrt(2 / 120) = 0.0387; that of greedy is ten times larger.

    Of three pairs, Holm's order tests the best and its nearest rival second, at 5 / 2 %: 2.27 + 0.85 = 3.12 errors.
    """
    rng = np.random.default_rng(0)
    texts = systems(rng, (0.0, 0.5, 0.5))
    texts["greedy"] = texts["greedy"] - 9.0 + 4.0 * rng.normal(size=120)
    assert read_resolution(written(tmp_path, texts, kind="bootstrap")) == pytest.approx(3.12 * 0.0387, rel=0.15)


@pytest.mark.parametrize("place", [0.0, 8.0])
def test_a_column_with_a_target_resolves_differences_of_distances(tmp_path, place):
    """Independent texts of deviation 1 and n = 120; a - b has 1.41 / sqrt(120), a + b - 2 h 2.45 / sqrt(120).

    Far from the human value, only the difference decides. At it, both must be significant, the second with 2.8 errors,
    and the first has a power of 1.
    """
    rng = np.random.default_rng(3)
    rows, human = rng.normal(size=(2, 120)), rng.normal(size=120)
    rows, human = rows - rows.mean(axis=1, keepdims=True) + [[place], [place + 0.1]], human - human.mean()
    results = written(tmp_path, dict(zip(("greedy", "nucleus"), rows, strict=True)), "match_human", "bootstrap", human)
    expected = 2.8 * (math.sqrt(2) if place else math.sqrt(6)) / math.sqrt(120)
    assert read_resolution(results) == pytest.approx(expected, rel=0.2)


def test_power_is_that_of_paired_differences(tmp_path):
    results, resolved = written(tmp_path, systems(np.random.default_rng(0), (0.0, 0.0, 0.5))), 0.108
    (text,) = [t for t in format_power(results, ["m"], {"m": resolved / 2}) if "nucleus" not in t]
    needed = int(text.partition(" needs ")[2].partition(" ")[0].replace(",", ""))
    assert needed == pytest.approx(4 * 120, rel=0.35), "half the difference, four times the texts"
    assert f"(up to {needed * 96:,} tokens" in text
    for n, error, difference in ((100, 0.01, 0.014), (500, 0.3, 0.84)):
        shift = difference / (error * math.sqrt(n / compute_needed_texts(n, error, difference)))
        assert NormalDist().cdf(shift - 1.959964) == pytest.approx(0.8, abs=0.002)


def test_a_difference_is_that_of_the_value_which_it_names(tmp_path):
    """One number for every column would ask for a perplexity that differs by 0.02, in other units."""
    texts = systems(np.random.default_rng(0), (0.0, 0.5, 0.5))
    del texts["nucleus"]
    for number, (decoder, values) in enumerate(texts.items()):
        scales = [(m, scale, system) for m, scale in (("m", 1), ("p", 99)) for system in (decoder, "human")]
        lines = [stored(tmp_path, f"{system}{number}{m}", values * scale, metric=m) for m, scale, system in scales]
        write_run(tmp_path, decoder, 0, results=lines)
    results = read_results([tmp_path])
    (measured, other), (asked, same) = (list(format_power(results, [], d)) for d in ({}, {"m": 0.02}))
    assert measured.startswith("m  greedy - ancestral: "), "in the order of tables"
    assert "; 0.02 needs " in asked
    assert "; 0.02 needs " not in measured
    assert same == other
    assert list(format_power(results, ["p"], {"m": 0.02})) == [asked, other]
    check_error(DataError, r"^no values of mauve in these runs", list, format_power(results, [], {"mauve": 0.02}))


def test_some_seeds_of_a_system_have_draws_of_their_own(tmp_path):
    """The fair comparison scores a setting on the seeds that did not choose it, after its mean over all was read."""
    rng = np.random.default_rng(5)
    values = [rng.normal(size=120) for _ in range(2)]
    for seed, own in enumerate(values):
        write_run(tmp_path, "ancestral", seed, results=[stored(tmp_path, f"ancestral{seed}", own)])
    results = read_results([tmp_path])
    (item,) = (i for i in results.values if i.system == "model")
    assert len(item.sources) == 2
    whole = load_replicates(results, item).draws
    assert find_interval(results, item), "a value that is no mean over texts has one over seeds too"
    for place, seed in enumerate(item.values):
        one = dataclasses.replace(item, values={seed: item.values[seed]}, sources=item.sources[place : place + 1])
        drawn = load_replicates(results, one).draws
        assert any(np.array_equal(drawn, halves(own)) for own in values)
        assert not np.allclose(drawn, whole)


def test_the_interval_of_a_value_stands_in_the_table_where_it_is_asked_for(tmp_path):
    results = written(tmp_path, systems(np.random.default_rng(0), (0.0, 0.0, 0.5)))
    item = next(i for i in results.values if i.system == "model")
    known = find_interval(results, item)
    assert item.interval == (known.low, known.high)
    assert item.reach == pytest.approx((item.mean - known.low, known.high - item.mean))
    (plain,), (full,) = (make_tables(results, Layout(uncertainty=asked), "t") for asked in ("all", "interval"))
    assert all(cell.interval is None for row in plain.rows for cell in row.cells)
    assert any(cell.interval == (known.low, known.high) for row in full.rows for cell in row.cells)


def test_two_systems_that_are_not_alike_near_the_human_value_are_told_apart(tmp_path):
    """One a little above the human value, one a little below: the values differ, and neither is nearer."""
    rng = np.random.default_rng(3)
    made = systems(rng, (-0.2, 0.2, 1.5))
    human = np.mean([made["greedy"], made["ancestral"]], axis=0) + 0.3 * rng.normal(size=120)
    results = written(tmp_path, made, direction="match_human", kind="bootstrap", human=human)
    tests = compare_pairs(results)
    near = tests["greedy", "ancestral"]
    assert (near.over, near.p_value < 0.001, near.nearer > 0.05) == ("examples", True, True)
    assert tests["greedy", "nucleus p=0.95"].nearer < 0.001
    differences, _ = build_significance_tables(results, "ancestral")
    suffixes = [row.cells[0].mark for row in differences.rows]
    assert suffixes[0].endswith(UNSURE)
    assert not suffixes[1].endswith(UNSURE)
    assert any(UNSURE in remark for remark in differences.list_notes("remark"))


def test_distances_to_a_human_value_of_unknown_error_are_not_tested(tmp_path):
    """Replicates of the systems alone would take it as exact: 11 % of equally far systems were called different."""
    rng = np.random.default_rng(3)
    texts = systems(rng, (-0.2, 0.2, 1.5))
    for decoder, values in texts.items():
        human = stored(tmp_path, f"human-{decoder}", texts["greedy"] + 0.2, "match_human") | {"artifact": None}
        write_run(tmp_path, decoder, 0, results=[stored(tmp_path, decoder, values, "match_human"), human])
    results = read_results([tmp_path])
    tests = compare_pairs(results).values()
    assert all(test.over == "draws" and math.isnan(test.nearer) for test in tests)
    a, b, _ = (item for item in results.values if item.system == "model")
    assert math.isnan(paired.compute_equality_p_value(results, results.values, a, b))
    (row, *_), _ = (table.rows for table in build_significance_tables(results, "nucleus p=0.95"))
    assert row.cells[0].mark == "***" + UNSURE


def test_equal_texts_are_equally_far_although_no_replicate_varies(tmp_path):
    values = dict.fromkeys(("greedy", "ancestral"), np.zeros(120))
    results = written(tmp_path, values, "match_human", "bootstrap", np.zeros(120))
    (test,) = compare_pairs(results).values()
    assert (test.p_value, test.nearer) == (1.0, 1.0)


@pytest.mark.parametrize(("shift", "words"), [(0.5, "holds"), (0.004, "undecided")])
def test_a_verdict_says_how_sure_it_is(tmp_path, shift, words):
    rng = np.random.default_rng(5)
    made = systems(rng, (0.0, 0.0, 0.0))
    made["nucleus"] = made["greedy"] + shift + 0.3 * rng.normal(size=120)
    made["nucleus"] += shift - (made["nucleus"] - made["greedy"]).mean()
    results = written(tmp_path, made)
    items = results.values

    def higher(sample):
        means = {i.axes["decoder"]: sample.means(i) for i in sample.items if i.system == "model"}
        return join_components("m", [means["nucleus"] > means["greedy"]])

    def lower_in_eight_parts(sample):
        measured, holds = higher(sample)
        return measured, np.repeat(~holds, 8, axis=1)

    verdict = check_with_uncertainty(higher, items, Errors(results))
    assert verdict.words == words
    if words == "holds":
        assert check_with_uncertainty(lower_in_eight_parts, items, Errors(results)).words == "does not hold"
    assert bool(verdict.decides) == (words == "undecided")
    if verdict.decides:
        # a difference of 0.004 with an error of about 0.3 / sqrt(120) = 0.027 at n = 120: 1.65 errors at (0.045 / 0.004)^2
        assert "n = " in verdict.decides or "256 times" in verdict.decides
    assert check_with_uncertainty(higher, items, Errors(None)).sure is None
    assert load_replicates(results, items[0]).draws.shape == (2, 100)
    assert load_replicates(results, items[0]).prompts == 120, "the signature's n"


def best_rows(results, **options):
    (table,) = make_tables(results, Layout(**options), "t")
    return table, {row.label for row in table.rows if row.cells[0].best}


@pytest.mark.parametrize("kind", ["halves", "bootstrap"])
def test_bold_is_what_the_tests_do_not_separate_from_the_best(tmp_path, kind):
    results = written(tmp_path, systems(np.random.default_rng(0), (0.0, 0.5, 0.5)), kind=kind)
    table, best = best_rows(results)
    assert best == {"ancestral", "nucleus p=0.95"}, "greedy is separated, the other two differ by noise alone"
    (line,) = table.explain_bold()
    assert line == "Bold: best, or not separated from it by a paired test (corrected for all pairs, p ≥ 0.05)."
    assert best_rows(results, uncertainty="interval")[1] == best


def test_values_on_both_sides_of_a_target_are_equally_good(tmp_path):
    noise = np.random.default_rng(1).normal(size=120) * 0.1
    noise -= noise.mean()
    rows = {"greedy": 0.3 + noise, "nucleus": 0.7 + noise[::-1]}
    results = written(tmp_path, rows, kind="bootstrap")
    a, b = (i for i in results.values if i.system == "model")
    assert paired.compute_equality_p_value(results, [a, b], a, b) < 0.001
    results = read_results([tmp_path])  # without memory of the test above
    assert paired.compute_equality_p_value(results, [a, b], dataclasses.replace(a, target=0.5), b) > 0.05


def test_a_difference_that_no_random_signs_reach_has_the_p_value_of_its_bound():
    far = np.random.default_rng(2).normal(size=200) + 1.0
    # Hoeffding: 2 exp(-(sum of x)² / (2 sum of x²)); no random pattern of signs reaches such a sum.
    expected = 2 * math.exp(-(far.sum() ** 2) / (2 * far @ far))
    assert paired.compute_sign_flip_p(far, draws=1000) == pytest.approx(expected)
    assert paired.compute_sign_flip_p(far, draws=1000) < paired.compute_sign_flip_p(far[:20], draws=1000) < 0.01
