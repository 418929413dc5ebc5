"""The fair layout on made-up sweeps whose winners are known."""

import math

import pytest

from openended.harness.core.errors import DataError
from openended.harness.report import build_report
from openended.harness.report.analysis.decoder_sweeps import choose_setting, find_cost_rule, group_sweeps, is_gap
from openended.harness.report.figures.curves import best_of_n
from openended.harness.report.figures.drawing import SystemStyles
from openended.harness.results import Layout, read_results
from tests.harness.report.synthetic import result, write_run

SETTINGS = {"nucleus": (0.80, 0.90, 0.94), "min_p": (0.70, 0.91, 0.72, 0.71), "greedy": (0.2,)}
SEEDS = 8


def write_sweep(folder):
    for decoder, values in SETTINGS.items():
        for place, value in enumerate(values):
            for seed in range(SEEDS) if decoder != "greedy" else [None]:
                noise = 0.001 * ((7 * (seed or 0) + 3 * place) % 5 - 2)
                lines = [
                    result("model", "mauve", {"mauve": value + noise}, direction="higher"),
                    result("model", "gen_ppl", {"gen_ppl": 30 + 10 * value, "entropy": 5 - value}),
                    result("human", "gen_ppl", {"gen_ppl": 38.0, "entropy": 4.0}),
                ]
                title = f"{decoder} p={place}" if decoder != "greedy" else decoder
                write_run(
                    folder,
                    decoder,
                    seed,
                    results=lines,
                    options={"p": place} if decoder != "greedy" else {},
                    title=title,
                )


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fair")
    write_sweep(folder)
    made = build_report([folder / "runs"], folder / "out", layout="fair", figures=False, page=False)
    return folder, {table.name: table for table in made.tables}


def row_of(table, label):
    row = next(row for row in table.rows if row.label == label)
    return {column.title: cell for column, cell in zip(table.columns, row.cells, strict=True)}


def test_every_decoder_has_the_same_number_of_settings(report):
    table = report[1]["fair-best-mauve"]
    assert [row.label for row in table.rows] == ["nucleus", "min_p"]
    assert [c.title for c in table.columns] == ["settings", "N=1", "N=2", "N=3", "N=3, same seeds"]
    nucleus, min_p = row_of(table, "nucleus"), row_of(table, "min_p")
    assert nucleus["N=1"].value == pytest.approx(0.88, abs=1e-3)
    assert nucleus["N=3"].value == pytest.approx(0.94, abs=2e-3)
    # of its four settings three are drawn: the good one is among them with 3/4, else 0.72 is the best
    assert min_p["N=3"].value == pytest.approx(0.75 * 0.91 + 0.25 * 0.72, abs=2e-3)
    assert nucleus["N=3"].best
    assert not min_p["N=3"].best
    assert nucleus["N=3"].suffix.startswith(" ± 0.00")
    assert any("Without a sweep of two settings: greedy" in line for line in table.remarks)


def test_settings_that_are_beaten_say_by_which(report):
    table = report[1]["fair-pareto-gen_ppl"]
    # |30 + 10 v - 38| and |1 - v| fall together up to v = 0.8, then cross
    words = {row.label: row.cells[-1].words for row in table.rows}
    assert words["nucleus p=0"] == "none (Pareto)"
    assert words["nucleus p=2"] == "none (Pareto)"
    assert words["greedy"] != "none (Pareto)"
    assert words["min_p p=0"] in {label for label, word in words.items() if word == "none (Pareto)"}


def test_wins_and_losses_are_counted_after_correction(report):
    table = report[1]["fair-wins"]
    words = {row.label: row.cells[0].words for row in table.rows}
    assert set(words) == {"nucleus", "min_p", "greedy"}
    wins, ties, losses = (sum(int(word.split(" ")[0].split("/")[i]) for word in words.values()) for i in range(3))
    unknown = sum(int(word.partition("?")[2] or 0) for word in words.values())
    assert wins == losses
    assert wins + ties + losses + unknown == 3 * 2
    assert "four seeds" not in " ".join(table.remarks)


def test_the_setting_is_chosen_on_one_half_of_the_seeds(report):
    items = read_results([report[0] / "runs"]).values
    sweeps = {s.name: s for s in group_sweeps(items)}
    system, seeds = choose_setting(sweeps["min_p"], items, ("mauve", "mauve"))
    assert system.name == "min_p p=1"
    assert len(seeds) == SEEDS // 2
    value = system.value("gen_ppl", "gen_ppl")
    assert find_cost_rule(value, items) == {"sign": 1.0, "target": 38.0}
    assert is_gap(value)
    assert math.isnan(find_cost_rule(system.value("mauve", "mauve"), items)["target"])


def test_curves_are_drawn_for_every_metric(report):
    results = read_results([report[0] / "runs"])
    (figure,) = best_of_n(results, SystemStyles(results.values), Layout(metrics=("mauve", "gen_ppl"))).values()
    panels = [a for a in figure.axes if a.get_visible()]
    assert [a.get_title() for a in panels] == ["MAUVE ↑", "|Δ Gen. PPL| ↓", "|Δ Entropy| ↓"]
    assert {line.get_label() for line in panels[0].lines} >= {"nucleus", "min_p"}


def test_without_a_sweep_there_is_nothing_to_compare(tmp_path):
    write_run(tmp_path, "greedy", None)
    with pytest.raises(DataError, match="no decoder has two or more settings; sweep an option"):
        build_report([tmp_path / "runs"], tmp_path / "out", layout="fair", figures=False, page=False)
