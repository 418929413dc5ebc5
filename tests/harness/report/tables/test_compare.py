"""Published numbers next to ours, the tables of the MAUVE paper, and checkpoints against the last good one."""

from __future__ import annotations

import csv
from importlib import resources

import pytest

from openended.harness.core import SpecError
from openended.harness.report.tables import compare
from openended.harness.report.tables.formats.latex import to_latex
from openended.harness.report.tables.formats.text import to_csv
from openended.harness.report.tables.frame import make_quantity
from openended.harness.report.tables.pivot import build_tables
from openended.harness.results import read_results
from tests.harness.report.synthetic import draw_figure, make_interval, print_columns, result, write_run
from tests.helpers import cases

COLUMNS = "paper table domain model decoder decoder_params metric value sd direction note".split()


def build_comparison(*inputs):
    (table,) = build_tables([compare.build_comparison(*inputs)])
    return table


def build_significance_tables(*inputs):
    return build_tables(compare.build_significance_frames(*inputs))


def mauve(folder, decoder, value, **run):
    lines = [result("model", "mauve", {"mauve": value}, direction="higher"),
             result("model", "gen_ppl", {"gen_ppl": 30.0}), result("human", "gen_ppl", {"gen_ppl": 32.5})]  # fmt: skip
    write_run(folder, decoder, run.pop("seed", 0), results=lines, **run)


def cells(table):
    return {row.label: [c.value for c in row.cells] for row in table.rows}


def test_the_published_value_stands_beside_ours_with_difference_and_rank_correlation(tmp_path):
    for decoder, value in (("greedy", 0.1), ("ancestral", 0.5), ("nucleus", 0.9)):
        mauve(tmp_path, decoder, value, model="gpt2-xl")
    table = build_comparison(read_results([tmp_path]), "mauve2021/table3")
    found = cells(table)
    assert found["MAUVE: nucleus p=0.95"] == pytest.approx([0.94, 0.9, -0.04])
    assert found["MAUVE: greedy"] == pytest.approx([0.02, 0.1, 0.08])
    assert found["MAUVE: Spearman ρ of the rankings"][2] == 1.0  # greedy < ancestral < nucleus in both
    assert found["|Δ Gen. PPL|: greedy"] == pytest.approx([11.3, 2.5, -8.8])  # |30 - 32.5|, as the paper prints it
    assert compare.OTHER_MODEL not in table.list_notes("remark")
    assert table.rows[0].cells[1].note == compare.NO_RUN  # adversarial
    assert "zipf_gap" in table.list_notes("remark")[1]


def test_another_model_is_compared_only_where_it_is_clear_which(tmp_path):
    mauve(tmp_path, "nucleus", 0.9)
    results = read_results([tmp_path])
    table = build_comparison(results, "mauve2021/3")
    assert cells(table)["MAUVE: nucleus p=0.95"][1] == 0.9
    assert compare.OTHER_MODEL in table.list_notes("remark")
    mauve(tmp_path / "p", "nucleus", 0.9, options={"p": 0.9})
    rows = {row.label: row for row in build_comparison(read_results([tmp_path / "p"]), "mauve2021/3").rows}
    assert rows["MAUVE: nucleus p=0.95"].cells[1].note == compare.NO_RUN, "parameters must agree"
    sizes = build_comparison(results, "mauve2021/table4")  # four models with nucleus: ours is none of them
    assert all(row.cells[1].note for row in sizes.rows if row.label.startswith("MAUVE: gpt2"))


def test_seeds_of_a_published_system_are_one_row():
    published = compare.read_published("hewitt2022_mauve_seeds/cached_outputs/test-mauves.json")
    nucleus = [p for p in published if p.name[1:] == ("nucleus", "p=0.9")]
    assert len(nucleus) == 1
    assert nucleus[0].sd > 0


def test_scores_of_players_stand_beside_the_published_ones_of_every_question(tmp_path):
    scores = {"bradley_terry": 9.0, "human_like/gpt2-xl nucleus": 9.0, "sensible/gpt2-xl nucleus": 8.0}
    lines = [result(side, "bradley_terry", values, direction="higher")
             for side, values in (("model", scores), ("human", {"human_like/human": 40.0}))]  # fmt: skip
    write_run(tmp_path, None, 0, results=lines)
    found = cells(build_comparison(read_results([tmp_path]), "mauve2021_bt/table13"))
    assert found["human like: human"] == pytest.approx([47.251038, 40.0, -7.251038])
    name = "gpt2-xl nucleus p=0.95 [gpt2-xl nucleus]"
    assert [found[f"{question}: {name}"][1] for question in ("human like", "sensible")] == [9.0, 8.0]


def test_standard_deviations_and_correlations_of_embedders_stand_beside_the_published_ones(tmp_path):
    for rank, decoder in enumerate(("greedy", "ancestral", "nucleus")):
        for embedder, sign in (("gpt2-large", 1), ("gpt2-xl", -1)):
            values = {"precision": 0.5 + sign * rank / 10, "recall": rank / 10}
            lines = [result("model", "knn_precision_recall", values, direction="higher")]
            for start in (0, 100):
                write_run(tmp_path, decoder, 0, results=lines, embedder=embedder, axes={"task.start": start})
    results = read_results([tmp_path])
    found = cells(build_comparison(results, "pr2024/tableB.1"))
    assert found["precision: gpt2-xl"] == pytest.approx([0.99, -1, -1.99])
    assert found["recall: gpt2-xl"] == pytest.approx([0.99, 1, 0.01])
    table = build_comparison(results, "pr2024/B.5")
    varied = zip(("precision", "recall", "precision"), "QQP", strict=True)
    assert [row.label for row in table.rows][:3] == [f"{m}: Varying {s}" for m, s in varied]
    assert table.rows[0].cells[0].value == 0.005
    assert table.rows[2].cells[1].value == 0


def test_a_discriminator_that_was_not_trained_is_marked(tmp_path):
    for rank, decoder in enumerate(("greedy", "ancestral", "nucleus")):
        frozen = result("model", "discriminator_accuracy", {"accuracy": 0.9 - rank / 10}, direction="lower")
        tuned = result("model", "finetuned_discriminator", {"accuracy_gpt2": 0.8 + rank / 10}, direction="lower")
        score = result("model", "mauve", {"mauve": rank / 10}, direction="higher")
        write_run(tmp_path, decoder, 0, results=[frozen, tuned, score])
    table = build_comparison(read_results([tmp_path]), "mauve2021/table10")
    measured = {row.label: row.cells[1] for row in table.rows}
    frozen, tuned = (measured[f"mauve, disc_acc ({name})"] for name in ("bert-base", "gpt2-small"))
    assert (frozen.value, "frozen features, not with this discriminator" in frozen.note) == (1, True)
    assert (tuned.value, "frozen" in tuned.note) == (-1, False)


def test_both_parts_of_a_table_are_compared_and_tell_their_reference(tmp_path):
    lines = [result("model", "knn_precision_recall", {"precision": 0.9, "recall": 0.8}, direction="higher")]
    write_run(tmp_path, "nucleus", 0, results=lines, model="llama-2-70b-chat")
    table = build_comparison(read_results([tmp_path]), "pr2024/table1")
    parts = [row.cells[1].value for row in table.rows if row.label.lower().startswith("precision: llama-2-70b-chat (1")]
    assert parts == [0.9, 0.9]
    assert table.list_notes("remark")[2].endswith("reference model: mistral-7b-instruct.")


def test_the_files_keep_one_set_of_columns_and_hold_numbers():
    names = set()
    for path in (resources.files("openended.harness") / "reference").iterdir():
        if path.name.endswith(".csv"):
            rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
            assert list(rows[0]) in (COLUMNS, [*COLUMNS, "read_from"]), path.name
            for row in rows:
                if row["metric"] in compare.load_metrics()["measured"]:
                    float(row["value"])
                assert row["sd"] == "" or float(row["sd"]) >= 0
                names.add(row["metric"])
    assert set(compare.load_metrics()["measured"]) <= names


def test_values_read_off_a_figure_have_an_order_and_no_difference(tmp_path):
    for decoder, value in (("ancestral", 0.5), ("nucleus", 0.9)):
        mauve(tmp_path, decoder, value, model="gpt2-xl")
    table = build_comparison(read_results([tmp_path]), "jmlr2023_poster/knn")
    rows = {row.label: row.cells for row in table.rows}
    published, ours, difference = next(cells for label, cells in rows.items() if "gpt2-xl" in label and "nuc" in label)
    assert (published.value, ours.value) == (0.856, 0.9)
    assert difference.number == ""
    assert table.list_notes("remark")[0] == compare.READ_OFF_REMARK
    for name in ("cells", "kde_p", "classifier_length", "gaussian"):
        values = compare.read_published(f"jmlr2023_poster/{name}")
        assert all(v.read_off and 0 < v.value < 1 for v in values)


STEPS = (100, 200, 900, 1000)


def write_training(folder, training, values, *, half=0.02, decoder="nucleus"):
    for step, value in zip(STEPS, values, strict=True):
        interval = make_interval(value - half, value + half, method="subsample")
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
    figures = draw_figure("sweep", results)
    assert set(figures) == {"sweep-model.step"}
    mauve, zipf = figures["sweep-model.step"].axes
    lines = {line.get_label(): line for line in mauve.lines}
    assert set(lines) == {"runs/a nucleus p=0.95", "runs/b nucleus p=0.95", "human–human reference"}
    assert list(lines["runs/a nucleus p=0.95"].get_xdata()) == list(STEPS)
    assert list(lines["runs/b nucleus p=0.95"].get_ydata()) == [0.4, 0.7, 0.80, 0.8]
    assert set(lines["human–human reference"].get_ydata()) == {0.95}
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
    first, second = differences.list_notes("remark")[:2]
    # The difference of two values with ± 0.02 has ± 0.028.
    assert first == (
        "runs/a nucleus p=0.95: worse at step 1000: mauve 0.800 (step 200) → 0.300, by 0.500 [0.472, 0.528], p <.0001. "
        "Last good: step 900."
    ).replace("mauve", "MAUVE")
    assert second.startswith("runs/b nucleus p=0.95: worse at step 200: MAUVE 0.800 (step 100) → 0.700, by 0.100")
    assert second.endswith("Last good: step 1000.")


@cases(
    "last, note",
    # 0.0363 is 2.52 standard errors: p = .012, .036 for the three later steps and .071 for the six pairs of steps.
    (0.7637, "no step is significantly worse than the best before it. Last good: step 1000."),
    (float("nan"), "not tested, for lack of values: step 1000. Last good: step 900."),
)
def test_the_last_good_step_was_tested_against_a_best_one_that_was_chosen(tmp_path, last, note):
    write_training(tmp_path, "runs/a", (0.5, 0.80, 0.79, last))
    remark = build_significance_tables(read_results([tmp_path]), "last-good")[0].list_notes("remark")[0]
    assert remark == f"runs/a nucleus p=0.95: {note}"


def test_small_p_values_are_not_printed_as_zero():
    column = make_quantity("mauve", "mauve", "p MAUVE", "none", 4, is_p=True)
    table = print_columns("p", "p-values", ["a", "b", "c"], [(column, [1e-9, 0.01234, 1.0])])
    assert [row.cells[0].number for row in table.rows] == ["<.0001", "0.0123", "1.0000"]
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
