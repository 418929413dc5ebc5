"""Best of N against the enumeration of all subsets, and the fair layout on sweeps whose winners are known."""

import itertools
import math
import random
import statistics

import numpy as np
import pytest

from openended.harness.core.errors import DataError
from openended.harness.report import build_report
from openended.harness.report.analysis.paired import compute_student_quantile
from openended.harness.report.tables import fair_comparison
from openended.harness.report.tables.fair_comparison import compute_curve, compute_expected_best, halves
from openended.harness.results import read_results
from tests.harness.report.synthetic import draw_figure, read_cells, result, write_run


@pytest.mark.parametrize("settings", range(1, 8))
def test_the_closed_form_is_the_mean_over_all_subsets(settings):
    rng = random.Random(settings)
    scores = [rng.choice([rng.random(), 0.5]) for _ in range(settings)]
    other = [rng.random() for _ in range(settings)]
    for count in range(1, settings + 1):
        subsets = list(itertools.combinations(range(settings), count))
        expected = statistics.mean(max(scores[i] for i in s) for s in subsets)
        assert compute_expected_best(scores, count) == pytest.approx(expected)
        # chosen by one score and scored by another; equal ones are chosen with equal chances
        found = []
        for subset in subsets:
            top = [i for i in subset if scores[i] == max(scores[j] for j in subset)]
            found.append(statistics.mean(other[i] for i in top))
        if len(set(scores)) == settings:
            assert compute_expected_best(other, count, scores) == pytest.approx(statistics.mean(found))
        assert fair_comparison.compute_weights(settings, count).sum() == pytest.approx(1)


def test_noise_alone_is_no_advantage_on_fresh_seeds():
    """Settings that differ in nothing: chosen and scored on the same seeds the best looks good, on fresh ones it does not."""
    rng = random.Random(0)
    gain_seen, gain_fresh, covered = [], [], []
    for _ in range(400):
        values = [{str(s): rng.gauss(0, 1) for s in range(4)} for _ in range(6)]
        made = compute_curve("x", values, "higher")
        gain_seen.append(made.seen[5])
        gain_fresh.append(made.fresh[5])
        covered.append(abs(made.fresh[5]) <= made.half[5])
    # the largest of six normals, over four seeds
    assert statistics.mean(gain_seen) == pytest.approx(1.27 / 2, abs=0.06)
    assert abs(statistics.mean(gain_fresh)) < 0.06
    assert 0.94 <= statistics.mean(covered) <= 1


def test_directions_and_seeds_of_the_best():
    values = [{"0": 10.0, "1": 12.0}, {"0": 30.0, "1": 28.0}]
    low = compute_curve("x", values, "lower")
    assert (low.seen, low.fresh) == ((20.0, 11.0), (20.0, 11.0))
    near = compute_curve("x", values, "match_human", 27.0)
    assert near.seen == ((16 + 2) / 2, 2.0)
    assert near.fresh == pytest.approx(((17 + 15 + 3 + 1) / 4, 2.0))

    made = compute_curve("x", [{"0": 1.0}, {"0": 3.0}], "higher")
    assert made.seen == (2.0, 3.0)
    assert all(math.isnan(v) for v in (*made.fresh, *made.half))
    equal = compute_curve("x", [{"0": 1.0, "1": 1.0}, {"0": 3.0, "1": 3.0}], "higher")
    assert (equal.fresh, *equal.half) == (
        (2.0, 3.0),
        pytest.approx(math.nan, nan_ok=True),
        pytest.approx(math.nan, nan_ok=True),
    )


def test_halves_and_the_spread_that_settings_share():
    assert halves(1) == []
    assert ((0,), (1, 2)) in halves(3)
    assert ((0, 1), (2,)) in halves(3)
    assert len(halves(4)) == 6
    assert len(halves(9)) == 2
    # squares about the row means: 2 + 8, over 2 degrees of freedom
    assert fair_comparison.pool_std(np.array([[1.0, 3.0], [0.0, 4.0]])) == (pytest.approx(math.sqrt(5)), 2)
    assert compute_student_quantile(10**6) == pytest.approx(1.95996, abs=1e-4)


SETTINGS = {"nucleus": (0.80, 0.90, 0.94), "min_p": (0.70, 0.91, 0.72, 0.71), "greedy": (0.2,)}
SEEDS = 8


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fair")
    for decoder, values in SETTINGS.items():
        for place, value in enumerate(values):
            for seed in range(SEEDS) if decoder != "greedy" else [None]:
                noise = 0.001 * ((7 * (seed or 0) + 3 * place) % 5 - 2)
                lines = [
                    result("model", "mauve", {"mauve": value + noise}, direction="higher"),
                    result("model", "gen_ppl", {"gen_ppl": 30 + 10 * value, "entropy": 5 - value}),
                    result("human", "gen_ppl", {"gen_ppl": 38.0, "entropy": 4.0}),
                ]
                options, title = ({"p": place}, f"{decoder} p={place}") if decoder != "greedy" else ({}, decoder)
                write_run(folder, decoder, seed, results=lines, options=options, title=title)
    made = build_report([folder / "runs"], folder / "out", layout="fair", figures=False, page=False)
    return folder, {table.name: table for table in made.tables}


def test_every_decoder_has_the_same_number_of_settings(report):
    table = report[1]["fair-best-mauve"]
    assert [row.label for row in table.rows] == ["nucleus", "min_p"]
    assert [c.title for c in table.columns] == ["settings", "N=1", "N=2", "N=3", "N=3, same seeds", "best setting"]
    nucleus, min_p = read_cells(table).values()
    assert nucleus["N=1"].value == pytest.approx(0.88, abs=1e-3)
    assert nucleus["N=3"].value == pytest.approx(0.94, abs=2e-3)
    # of its four settings three are drawn: the good one is among them with 3/4, else 0.72 is the best
    assert min_p["N=3"].value == pytest.approx(0.75 * 0.91 + 0.25 * 0.72, abs=2e-3)
    assert nucleus["N=3"].best
    assert not min_p["N=3"].best
    low, high = nucleus["N=3"].interval
    assert low < nucleus["N=3"].value < high < low + 0.01
    assert any("Without a sweep of two settings: greedy" in line for line in table.list_notes("remark"))


def test_settings_that_are_beaten_say_by_which(report):
    table = report[1]["fair-pareto-gen_ppl"]
    # |30 + 10 v - 38| and |1 - v| fall together up to v = 0.8, then cross
    words = {row.label: row.cells[-1].number for row in table.rows}
    assert words["nucleus p=0"] == "none (Pareto)"
    assert words["nucleus p=2"] == "none (Pareto)"
    assert words["greedy"] != "none (Pareto)"
    assert words["min_p p=0"] in {label for label, word in words.items() if word == "none (Pareto)"}


def test_wins_ties_losses_and_comparisons_without_a_test_are_counted_on_both_sides():
    tests = {("a", "b"): (-1.0, 0.01), ("a", "c"): (1.0, math.nan), ("b", "c"): (0.5, 0.5), ("c", "d"): (0.0, 0.01)}
    corrected = {("a", "b"): 0.04, ("b", "c"): 0.5, ("c", "d"): 0.04}
    tally = {name: dict(counts) for name, counts in fair_comparison.tally_wins("abcd", tests, corrected).items()}
    assert tally == {"a": {"+": 1, "?": 1}, "b": {"-": 1, "=": 1}, "c": {"?": 1, "=": 2}, "d": {"=": 1}}


def test_the_setting_is_chosen_on_one_half_of_the_seeds(report):
    items = read_results([report[0] / "runs"]).values
    sweeps = {s.name: s for s in fair_comparison.group_sweeps(items)}
    system, value_of_mauve, seeds = fair_comparison.choose_setting(sweeps["min_p"], items, ("mauve", "mauve"))
    assert system.name == "min_p p=1"
    assert len(seeds) == SEEDS // 2
    assert value_of_mauve.pair == ("mauve", "mauve")
    assert {row.label for row in report[1]["fair-wins"].rows} == set(SETTINGS)


def test_curves_are_drawn_for_every_metric(report):
    results = read_results([report[0] / "runs"])
    (figure,) = draw_figure("best_of_n", results, metrics=("mauve", "gen_ppl")).values()
    panels = [a for a in figure.axes if a.get_visible()]
    assert [a.get_title() for a in panels] == ["MAUVE ↑", "|Δ Gen. PPL| ↓", "|Δ Entropy| ↓"]
    assert {line.get_label() for line in panels[0].lines} >= {"nucleus", "min_p"}


def test_without_a_sweep_there_is_nothing_to_compare(tmp_path):
    write_run(tmp_path, "greedy", None)
    with pytest.raises(DataError, match="no decoder has two or more settings; sweep an option"):
        build_report([tmp_path / "runs"], tmp_path / "out", layout="fair", figures=False, page=False)
