"""The tables of the MAUVE paper from the layouts of their experiments: rows, columns, order and caption."""

from __future__ import annotations

import pytest

from openended.harness.app.hydra.command_line import parse_command_line
from openended.harness.app.hydra.compose import Composer
from openended.harness.report.build import make_tables
from openended.harness.report.tables.compare import build_comparison
from openended.harness.report.tables.formats.latex import to_latex
from openended.harness.results import build_layout, read_results
from tests.harness.report.synthetic import result, write_run
from tests.helpers import openended

SIZES = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
DECODERS = {"greedy": {}, "ancestral": {}, "nucleus": {"p": 0.9}, "adversarial": {}}
CRITERIA = ("human_like", "interesting", "sensible")
STATISTICS = ["Gen. PPL ≈", "Zipf coef. ≈", "Rep. ≈", "Distinct-4 ≈", "Self-BLEU-4 ≈"]


def write_systems(folder, models=SIZES, decoders=DECODERS, task="webtext"):
    """Every metric of every system, larger models better; people rate only systems without greedy decoding."""
    titles = {"gen_ppl": "Gen. PPL", "zipf": "Zipf coef.", "loop_rate": "Rep.", "distinct_4": "Distinct-4", "self_bleu_4": "Self-BLEU-4",
              "mauve": "MAUVE", "sparsemax_score": "SP", "jensen_shannon": "JS", "eps_ppl": "ε-PPL", "bradley_terry": "Bradley-Terry",
              "accuracy": "Disc. acc.", "eps_ppl_1e-06": "ε-PPL (1e-06)", "eps_ppl_0.1": "ε-PPL (0.1)"}  # fmt: skip
    statistics = {"gen_ppl": "gen_ppl", "zipf": "zipf", "repetition": "loop_rate", "distinct_n": "distinct_4",
                  "self_bleu": "self_bleu_4"}  # fmt: skip
    scores = {"mauve": ("mauve", "higher"), "sparsemax_score": ("sparsemax_score", "higher"),
              "jensen_shannon": ("jensen_shannon", "lower"), "discriminator_accuracy": ("accuracy", "lower")}  # fmt: skip
    for rank, model in enumerate(models):
        for at, (decoder, options) in enumerate(decoders.items()):
            value = 0.1 + rank / 10 + at / 50
            lines = [result("model", m, {k: 1 + value}, titles=titles) for m, k in statistics.items()]
            lines += [result("human", m, {k: 1.0}, titles=titles) for m, k in statistics.items()]
            lines += [result("model", m, {k: value}, direction=d, titles=titles) for m, (k, d) in scores.items()]
            eps = dict.fromkeys(("eps_ppl", "eps_ppl_0.1", "eps_ppl_1e-06"), value)
            lines.append(result("model", "eps_ppl", eps, direction="lower", titles=titles))
            if decoder != "greedy":
                people = {"bradley_terry": value, **{name: value * (n + 1) for n, name in enumerate(CRITERIA)}}
                more = {"direction": "higher", "options": f"|system:{model} {decoder}", "titles": titles}
                lines.append(result("model", "bradley_terry", people, **more))
            setting = {"model": model, "options": options, "title": decoder, "axes": {"task": task}}
            write_run(folder, decoder, 0, results=lines, **setting)
    return read_results([folder])


def make_table(results, experiment):
    report = Composer(parse_command_line([])).compose_experiment([f"experiment={experiment}"]).report
    (table, *_) = make_tables(results, build_layout(report, "report"), experiment)
    return table


def describe(table):
    return [row.label for row in table.rows], [column.heading for column in table.columns]


@pytest.mark.parametrize(
    ("experiment", "models", "decoders", "columns"),
    [("mauve_table3", SIZES[3:], DECODERS, ["Adv.", "Greedy", "Sampling", "Nucleus"]),
     ("mauve_table4", SIZES, {"nucleus": {"p": 0.9}}, ["Small", "Medium", "Large", "XL"])],
)  # fmt: skip
def test_tables_3_and_4_have_metrics_as_rows_and_only_the_systems_as_columns(
    tmp_path, experiment, models, decoders, columns
):
    table = make_table(write_systems(tmp_path, models, decoders), experiment)
    assert describe(table) == (
        "|Δ Gen. PPL| ↓,|Δ Zipf coef.| ↓,|Δ Self-BLEU-4| ↓,SP ↑,JS ↓,ε-PPL ↓,MAUVE ↑,Bradley-Terry ↑".split(","),
        columns,
    )
    assert not table.show_seeds
    assert table.title.startswith(f"MAUVE Table {experiment[-1]}: ")
    assert table.title.endswith(" on webtext")
    assert " & ".join(columns[:2]) in to_latex(table).replace("{", "").replace("}", "")


QUESTIONS = ["BT/human-like", "BT/interesting", "BT/sensible"]
METRICS = ["Gen. PPL", "Zipf coef.", "Rep.", "Distinct-4", "Self-BLEU-4", "MAUVE"]


def test_table_14_has_a_column_per_question_and_the_questions_under_the_metrics(tmp_path):
    table = make_table(write_systems(tmp_path), "mauve_table14")
    labels, columns = describe(table)
    assert columns == [f"{name} ↑" for name in [*QUESTIONS, "Disc. acc."]]
    assert labels == [*METRICS, *QUESTIONS, "Disc. acc."]
    assert [row.rule for row in table.rows].index(True) == 6
    assert table.rows[5].cells[0].value == 1.0
    assert table.rows[6].cells[0].blank, "a question has no agreement with itself"


def test_table_5_joins_people_on_web_text_and_discriminators_on_news_and_stories(tmp_path):
    write_systems(tmp_path, decoders={"nucleus": {"p": 0.9}})
    for task in ("realnews", "writing_prompts"):
        results = write_systems(tmp_path, decoders={"greedy": {}}, task=task)
    table = make_table(results, "mauve_table5")
    labels, columns = describe(table)
    web_text = [*QUESTIONS, "Disc. acc."]
    news_and_stories = ["Disc. acc., realnews ↑", "Disc. acc., writing_prompts ↑"]
    assert columns == [*(f"{name}, webtext ↑" for name in web_text), *news_and_stories]
    assert labels == [*METRICS, *web_text]
    assert [cell.value for cell in table.rows[5].cells] == [1, 1, 1, -1, -1, -1]
    assert all(cell.blank for cell in table.rows[6].cells[-2:]), "people rated neither news nor stories"
    assert table.title.endswith("(Spearman) on realnews, webtext, writing_prompts")
    compared = {row.label: row.cells for row in build_comparison(results, "mauve2021/table5").rows}
    cells = compared["mauve, bt_human_like (webtext)"]
    assert [round(cell.value, 3) for cell in cells] == [0.952, 1.0, 0.048]
    assert compared["mauve, disc_acc (stories)"][1].note == "Over 4 systems of writing_prompts."


def test_table_6_has_the_papers_systems_columns_and_order(tmp_path):
    table = make_table(write_systems(tmp_path), "mauve_table6")
    labels, columns = describe(table)
    decoders = ("Sampling", "Greedy", "Nucleus, p = 0.9", "Adversarial")
    assert labels == [*(f"{size} {d}" for size in ("small", "medium", "large", "xl") for d in decoders), "human"]
    assert columns == [*STATISTICS, "Bradley-Terry ↑", "MAUVE ↑"]
    assert [row.rule for row in table.rows].count(True) == 4, "a line above each further size and above the human row"


@pytest.mark.slow
def test_table_13_has_the_players_and_a_column_per_question_and_says_that_the_judgments_are_invented(tmp_path):
    openended("experiment=mauve_table13", "using=docs", cwd=tmp_path, code=0)
    (path,) = tmp_path.glob("outputs/reports/mauve_table13_docs/tables/*.md")
    text = path.read_text("utf-8")
    labels = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")]
    assert labels[2:] == ["*human*", "nucleus", "ancestral", "greedy"], "sorted by the first question"
    assert "| human like ↑" in text
    assert "interesting ↑" in text
    assert "invented judgments" in text


@pytest.mark.parametrize("experiment", ["mauve_table7", "mauve_table8"])
def test_tables_7_and_8_have_the_accuracy_of_a_discriminator(tmp_path, experiment):
    table = make_table(write_systems(tmp_path, ("docs-s", "docs-m")), experiment)
    assert describe(table)[1] == [*STATISTICS, "Disc. acc. ↓", "MAUVE ↑"]
    assert table.rows[-1].system == "human"
