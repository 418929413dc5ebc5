"""Checkpoints of a training in a report: curves over steps, the last good step, and baselines by the model's title."""

import pytest

from openended.harness.core import SpecError
from openended.harness.report.figures import panels
from openended.harness.report.figures.drawing import SystemStyles
from openended.harness.report.tables.compare import build_significance_tables
from openended.harness.report.tables.formats.latex import to_latex
from openended.harness.report.tables.formats.text import to_csv
from openended.harness.report.tables.table import Cell, Column, Table
from openended.harness.results import read_results
from tests.harness.report.synthetic import result, write_run

STEPS = (100, 200, 900, 1000)


def write_training(folder, training, values, *, half=0.02, decoder="nucleus"):
    for step, value in zip(STEPS, values, strict=True):
        interval = {"low": value - half, "high": value + half, "std_error": half / 2, "level": 0.95, "method": "subsample",
                    "replicates": 100}  # fmt: skip
        rows = [
            result("model", "mauve", {"mauve": value}, direction="higher", intervals={"mauve": interval}),
            result("ceiling", "mauve", {"mauve": 0.95}, direction="higher"),
            result("model", "zipf", {"zipf": 1.0}), result("human", "zipf", {"zipf": 0.9}),
        ]  # fmt: skip
        axes = {"model.step": step, "model.training": training, "model.path": f"{training}/checkpoint-{step}",
                "model.digest": f"{training}{step}"}  # fmt: skip
        write_run(folder, decoder, 0, model=f"checkpoint-{step}", results=rows, axes=axes)


def test_each_training_is_a_curve_with_the_human_value_and_the_ceiling(tmp_path):
    write_training(tmp_path, "runs/a", (0.5, 0.8, 0.82, 0.3))
    write_training(tmp_path, "runs/b", (0.4, 0.7, 0.80, 0.8))
    results = read_results([tmp_path])
    figures = panels.sweeps(results, SystemStyles(results.values))
    assert set(figures) == {"sweep-model.step"}
    mauve, zipf = figures["sweep-model.step"].axes
    lines = {line.get_label(): line for line in mauve.lines}
    assert set(lines) == {"runs/a nucleus p=0.95", "runs/b nucleus p=0.95", "human ceiling"}
    assert list(lines["runs/a nucleus p=0.95"].get_xdata()) == list(STEPS)
    assert list(lines["runs/b nucleus p=0.95"].get_ydata()) == [0.4, 0.7, 0.80, 0.8]
    assert set(lines["human ceiling"].get_ydata()) == {0.95}
    assert len(mauve.collections) == 2, "the intervals are bands"
    assert (mauve.get_xlabel(), mauve.get_xscale()) == ("training step", "linear")
    assert {line.get_label() for line in zipf.lines} == {"runs/a nucleus p=0.95", "runs/b nucleus p=0.95", "human"}


def test_the_last_good_step_is_the_newest_that_is_not_worse_than_the_best_before(tmp_path):
    write_training(tmp_path, "runs/a", (0.5, 0.80, 0.79, 0.3))  # 0.79 is within the interval
    write_training(tmp_path, "runs/b", (0.8, 0.70, 0.81, 0.82))  # worse in between
    for table in build_significance_tables(read_results([tmp_path]), "last-good"):
        assert table.title.endswith("checkpoint-900 nucleus p=0.95, training=runs/a, "
                                    "checkpoint-1000 nucleus p=0.95, training=runs/b (last good)")  # fmt: skip
        assert len(table.rows) == 6
    differences, _ = build_significance_tables(read_results([tmp_path]), "last-good")
    first, second = differences.remarks[:2]
    # The difference of two values with ± 0.02 has ± 0.028.
    assert first == (
        "runs/a nucleus p=0.95: worse at step 1000: mauve 0.800 (step 200) → 0.300, by 0.500 [0.472, 0.528], p <.0001. "
        "Last good: step 900."
    ).replace("mauve", "MAUVE")
    assert second.startswith("runs/b nucleus p=0.95: worse at step 200: MAUVE 0.800 (step 100) → 0.700, by 0.100")
    assert second.endswith("Last good: step 1000.")


def test_a_step_without_values_is_not_good(tmp_path):
    write_training(tmp_path, "runs/a", (0.5, 0.8, 0.82, float("nan")))
    remark = build_significance_tables(read_results([tmp_path]), "last-good")[0].remarks[0]
    assert remark == "runs/a nucleus p=0.95: not tested, for lack of values: step 1000. Last good: step 900."


def test_small_p_values_are_not_printed_as_zero():
    column = Column("mauve", "mauve", "p MAUVE", "none", 4, p_values=True)
    table = Table.from_columns("p", "p-values", ["a", "b", "c"], [(column, [Cell(1e-9), Cell(0.01234), Cell(1.0)])])
    assert [table.text(row.cells[0], column)[0] for row in table.rows] == ["<.0001", "0.0123", "1.0000"]
    assert r"\textless{}.0001" in to_latex(table)
    assert "1e-09" in to_csv(table)


def test_a_baseline_may_be_the_title_of_a_model(tmp_path):
    write_training(tmp_path, "runs/a", (0.5, 0.8, 0.82, 0.3))
    table = build_significance_tables(read_results([tmp_path]), "checkpoint-200")[0]
    assert table.title == "Difference from checkpoint-200 nucleus p=0.95"
    write_training(tmp_path, "runs/a", (0.1, 0.2, 0.3, 0.3), decoder="greedy")
    table = build_significance_tables(read_results([tmp_path]), "checkpoint-200")[0]
    cells = {row.label: row.cells[0].value for row in table.rows}
    assert len(cells) == 6  # each with the checkpoint that has its decoder
    assert cells["checkpoint-100 greedy"] == pytest.approx(-0.1)
    assert cells["checkpoint-100 nucleus p=0.95"] == pytest.approx(-0.3)
    with pytest.raises(SpecError, match="no system 'checkpoint-20'; did you mean"):
        build_significance_tables(read_results([tmp_path]), "checkpoint-20")
    write_run(tmp_path / "other", "nucleus", 0)
    with pytest.raises(SpecError, match="expected a training with 2 checkpoints"):
        build_significance_tables(read_results([tmp_path / "other"]), "last-good")
