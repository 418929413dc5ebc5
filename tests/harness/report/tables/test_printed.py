"""Tables of the papers against `printed/*.yaml`: headings in levels, row labels and their order, human row, bold."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from openended.harness.app.hydra.command_line import parse_command_line
from openended.harness.app.hydra.compose import Composer
from openended.harness.app.hydra.grid import list_jobs
from openended.harness.core import list_bundled_choices, load_members
from openended.harness.report.build import build_report, make_tables
from openended.harness.report.tables.compare import build_comparison
from openended.harness.report.tables.formats.latex import to_latex
from openended.harness.report.tables.frame import make_quantity
from openended.harness.report.tables.pivot import build_tables
from openended.harness.results import build_layout, group_systems, load_layout, read_results
from openended.harness.run.players import JudgmentSource
from openended.harness.storage import RunInput
from tests.harness.report.synthetic import draw_figure, print_rows, result, store_arrays, write_run

PRINTED = Path(__file__).parents[1] / "printed"
FACTS = {
    name: facts
    for path in sorted(PRINTED.glob("*.yaml"))
    for name, facts in yaml.safe_load(path.read_text("utf-8"))["tables"].items()
}
PR = FACTS.pop("pr_table1")
FACTS |= {f"pr_table1{end}": PR | PR["parts"][letter] for letter, end in (("a", ""), ("b", "b"))}
TITLES = {"mauve": "MAUVE Table ", "pr": "P&R Table ", "huse": "HUSE Table "}
NUMBERS = {"pr_table1": "1a", "pr_table1b": "1b"}  # of tables whose name does not end in their number
SIZES = {"gpt2": 0.9, "gpt2-medium": 0.9, "gpt2-large": 0.95, "gpt2-xl": 0.95}  # and p
CRITERIA = ("human_like", "interesting", "sensible")
FAMILIES = ("bert-base-uncased", "bert-large-uncased", "gpt2", "gpt2-medium", "gpt2-large", "grover-base", "grover-large",
            "grover-mega")  # fmt: skip
MATCHED = ("gen_ppl", "zipf", "repetition", "distinct_n", "self_bleu")  # metrics with a value of the human text
KEYS = {"repetition": ["loop_rate"], "distinct_n": ["distinct_4"], "discriminator_accuracy": ["accuracy"],
        "knn_precision_recall": ["precision", "recall"], "huse": ["huse", "huse_q", "huse_d"]}  # fmt: skip
LOWER = ("jensen_shannon", "eps_ppl", "discriminator_accuracy", "finetuned_discriminator")
# What the published plans read that only the user has.
GIVEN = {
    "mauve_table14": ["judgments=pairs.csv"],
    **{name: ["task.reference=runs/reference"] for name in ("pr_table1", "pr_table1b")},
    "pr_tableb1": ["task.path=biographies.jsonl"],
}
REFERENCES = {"pr_table1": "Llama-2-70b-chat-hf (chat)", "pr_table1b": "Mistral-7B-Instruct-v0.1 (chat)"}
OTHERS = (
    "mauve_table5", "mauve_table13", "huse_table2", "pr_tableb3", "pr_tableb4", "pr_tableb6",
)  # with tests of their own, or without an experiment  # fmt: skip
ABSENT = (*((name, plan) for name in OTHERS for plan in ("published", "docs")), ("huse_table1", "published"))
PLANNED = [(name, plan) for name in FACTS for plan in ("published", "docs") if (name, plan) not in ABSENT]


def compute_value(metric, settings, rank):
    """Return the values of one metric of the system of this rank; later ones are better."""
    value = 1.0 if settings.texts.generations in ("reference", "perturbation:none") else 0.1 + rank / 100
    if metric.name == "finetuned_discriminator":
        names = FAMILIES if settings.task.name == "realnews" else [c.partition(":")[2] for c in metric.classifiers]
        return {f"accuracy_{name}": 1 - value for name in names}
    if metric.name == "bradley_terry":
        criteria = CRITERIA[: 2 if settings.task.name == "docs" else 3]
        return {"bradley_terry": 100 * value, **{name: 100 * value * (n + 1) for n, name in enumerate(criteria)}}
    value = 1 + value if metric.name in MATCHED else 1 - value if metric.name in LOWER else value
    return dict.fromkeys(KEYS.get(metric.name, [metric.name]), value)


def run_plan(folder, experiment, *words):
    """Write one made-up run for each job of an experiment's plan; return the results and the experiment's layout."""
    name = f"experiment={experiment}"
    composer = Composer(parse_command_line([name, "seed=0", *words]))
    for rank, job in enumerate(list_jobs(composer, composer.compose_command())):
        settings = composer.compose_job(job).settings
        judgments = JudgmentSource.from_settings(settings)
        axes = dict(judgments.axes)
        lines = []
        for metric in settings.metrics:
            family = load_members("metric")[metric.name]
            if metric.name == "bradley_terry" and not judgments.list_players():
                continue
            options = f"|unit:{metric.unit}" if metric.name == "length" else ""
            options += f"|quantizer:{metric.quantizer}" if metric.name == "mauve" else ""
            more = {
                "direction": "lower" if metric.name in LOWER else family.direction, "family": family.family,
                "titles": family.titles, "facts": f"task:{settings.task.name}@1", "options": options,
            }  # fmt: skip
            if experiment.partition("_fig")[1] or experiment == "pr_table1":
                more |= {
                    "facts": f"length:{settings.texts.max_new_tokens}|{more['facts']}",
                    "n": settings.texts.num_examples,
                }
            values = compute_value(metric, settings, rank)
            if family.family == "teacher_forced" and axes["decoder"] == "adversarial":
                values, more = dict.fromkeys(values), more | {"status": "undefined", "notes": ["no distribution"]}
            lines.append(result("model", metric.name, values, **more))
            if metric.name in MATCHED:
                lines.append(result("human", metric.name, dict.fromkeys(values, 1.0), **more))
        roles = {"embedder": settings.models.embedder, "scorer": settings.models.scorer}
        axes |= {"num_examples": settings.texts.num_examples}
        axes |= {role: spec.title for role, spec in roles.items() if spec is not None}
        title = settings.decoder.title if axes["decoder"] != "imported" else "imported"
        model = REFERENCES[experiment] if axes["model"] == "reference" else axes["model"]
        write_run(
            folder, axes["decoder"], 0, model=model, title=title, options={}, axes=axes, results=lines,
            experiment=f"job-{rank}",
        )  # fmt: skip
    return read_results([folder]), build_layout(composer.compose_plain([name], complete=False).node["report"], "report")


def print_plan(folder, experiment, *words):
    results, layout = run_plan(folder, experiment, *words)
    return make_tables(results, layout, experiment)[0]


def check(table, facts):
    """Hold the levels of the headings and of the row labels against the facts; `?` stands for what they do not know."""

    def normalize(levels):
        return [text for text in levels if text]

    def fits(printed, expected):
        patterns = [".+".join(map(re.escape, text.split("?"))) for text in normalize(expected)]
        return len(printed) == len(patterns) and all(map(re.fullmatch, patterns, printed))

    for printed, expected in (
        ([normalize(row.labels) for row in table.rows], facts["rows"]),
        ([normalize(column.levels or (column.heading,)) for column in table.columns], facts["columns"]),
    ):
        assert len(printed) == len(expected), (printed, expected)
        assert all(map(fits, printed, expected)), (printed, expected)
    assert list(table.heads) == facts["stub"]
    assert not table.show_seeds
    assert len(re.findall(r"begin{(table\*?)}", to_latex(table))) == 1, "one float"
    if "all" in facts.get("decimals", {}):
        numbers = {cell.number for cell in table.iterate_cells() if math.isfinite(cell.value)}
        assert {len(number.partition(".")[2]) for number in numbers} == {facts["decimals"]["all"]}


def check_missing(table, missing, stub):
    """Hold what stands for values that there are not against the facts: sign → last label of the row, heading."""
    missing |= {missing.pop("mark", ""): missing.pop("cells", [])} if "cells" in missing else {}
    for text, cells in missing.items():
        for name, heading in (cell for cell in cells if cell[1] not in stub):
            (at,) = (at for at, column in enumerate(table.columns) if column.title == heading)
            rows = [row for row in table.rows if name in (row.labels[-1], row.labels[0])]
            assert {row.cells[at].number for row in rows} == {text}, (name, heading)


@pytest.mark.parametrize(("experiment", "plan"), PLANNED)
def test_a_table_is_printed_as_in_its_paper(tmp_path, experiment, plan):
    words = GIVEN.get(experiment, []) if plan == "published" else []
    words = [*words, "metric.mauve.quantizer=kmeans"] if experiment == "mauve_table12" else words
    name = experiment if plan == "published" else f"{experiment}_docs"
    table = print_plan(tmp_path, name, *words)
    facts = FACTS[experiment] | (FACTS[experiment].get(plan) or {})
    check(table, facts)
    paper, _, number = experiment.partition("_table")
    number = NUMBERS.get(experiment, re.sub(r"^b(\d)", r"B.\1", number))
    assert re.match(rf"{TITLES[paper]}{number}\b", table.title)
    assert table.caption, "a subject of its own"
    if plan == "published":
        check_missing(table, dict(facts.get("missing", {})), facts["stub"])
    humans = [row.system == "human" for row in table.rows]
    assert humans == [False] * (len(humans) - 1) + [facts["human"] == "last"]
    marks = [[cell.best for cell in row.cells] for row in table.rows]
    assert ("bold" in to_latex(table)) == any(map(any, marks)), "the caption says what is bold"
    if experiment in ("mauve_table3", "mauve_table14"):
        assert {sum(row) for row in marks} == {1}, "one bold cell per row"
    if experiment in ("mauve_table6", "mauve_table12"):
        assert {sum(column) for column in zip(*marks, strict=True)} == {1}
        sizes = {row[0] for row in facts["rows"]}
        assert [row.rule for row in table.rows].count(True) == len(sizes) - 1, "a line above each further group"
        assert to_latex(table).count(f"{facts['rows'][0][0]} & ") == 1, "a size is printed once"
    if experiment == "mauve_table7":
        assert table.rows[0].cells[5].value == pytest.approx(90.0), "accuracy in percent"
        assert [cell.value for cell in table.rows[-1].cells[5:]] == pytest.approx([float("nan")] * 2, nan_ok=True)
    if experiment == "huse_table1":
        assert [sum(row[:2]) for row in marks] == [1, 1, 1], "systems of a task compete"
    if experiment.startswith("pr_table1"):
        assert marks == [[True, *[False] * (len(row) - 1)] for row in marks], "the reference"


def test_table_5_joins_people_on_web_text_and_discriminators_on_news_and_stories(tmp_path):
    results, layout = run_plan(tmp_path, "mauve_table5", "judgments=pairs.csv")
    (table,) = make_tables(results, layout, "mauve_table5")
    check(table, FACTS["mauve_table5"])
    assert all(sum(cell.best for cell in row.cells) >= 1 for row in table.rows)
    assert not any(cell.mark or cell.number.startswith("+") for cell in table.iterate_cells())
    (compared,) = build_tables([build_comparison(results, "mauve2021/table5")])
    cells = {row.label: row.cells for row in compared.rows}
    assert [round(cell.value, 3) for cell in cells["mauve, bt_human_like (webtext)"]] == [0.952, 1.0, 0.048]
    assert cells["mauve, disc_acc (stories)"][1].note == "Over 7 systems of writing_prompts."


@pytest.mark.parametrize("experiment", sorted(REFERENCES))
def test_another_reference_is_called_what_it_is(tmp_path, monkeypatch, experiment):
    monkeypatch.setitem(REFERENCES, experiment, "docs-m")
    table = print_plan(tmp_path, experiment, "task.reference=runs/reference")
    names = [column.title for column in table.columns]
    assert names[0] == "docs-m"
    assert names.count("Llama-2 70B Chat") == (experiment == "pr_table1b"), "no model is named that was not run"


@pytest.mark.parametrize("plan", ["", "_docs"])
@pytest.mark.parametrize("experiment", ["pr_fig1", "pr_fig6_n", "pr_figb2", "mauve_fig4_length", "mauve_fig7_n"])
def test_a_figure_over_sizes_or_lengths_has_tables(tmp_path, experiment, plan):
    """Signatures have the number and the length of the texts: such runs share no column."""
    results, layout = run_plan(tmp_path, f"{experiment}{plan}")
    tables = make_tables(results, layout, experiment)
    assert sum(row.system == "model" for table in tables for row in table.rows) == len(group_systems(results.values))


def test_on_docs_table_5_has_each_system_once_and_figures_show_all_that_metrics_are_compared_with(tmp_path):
    results, layout = run_plan(tmp_path, "mauve_table5_docs")
    names = [system.name for system in group_systems(results.values) if system.items[0].axes["task"] == "docs"]
    assert len(names) == 6
    (figure,) = (f for name, f in draw_figure("metrics", results, targets=layout.targets, analysis="correlation").items()
                 if name == "metrics-docs")  # fmt: skip
    titles = " ".join(panel.get_title() for panel in figure.axes)
    assert all(word in titles for word in ("human_like", "interesting", "Disc. acc.", "MAUVE"))


def test_the_accuracy_nearest_to_chance_is_bold(tmp_path):
    for decoder, accuracy in (("greedy", 0.9), ("ancestral", 0.2), ("nucleus", 0.55)):
        line = result("model", "discriminator_accuracy", {"accuracy": accuracy}, directions={"accuracy": "nearest 0.5"})
        write_run(tmp_path, decoder, 0, results=[line])
    layout = load_layout("mauve_systems", rows=("decoder",), metrics=("discriminator_accuracy",))
    (table,) = make_tables(read_results([tmp_path]), layout, "t")
    assert {round(row.cells[0].value): row.cells[0].best for row in table.rows} == {90: False, 20: False, 55: True}


@pytest.mark.parametrize("plan", ["published", "docs"])
def test_table_13_has_the_players_in_the_order_of_the_paper(tmp_path, plan):
    players = ["human", *(f"{model} {decoder}" for model in SIZES for decoder in ("ancestral", "nucleus"))]
    players = players if plan == "published" else ["human", "ancestral", "greedy", "nucleus"]
    criteria = CRITERIA if plan == "published" else CRITERIA[:2]
    pairs = [(n, c, at, p) for n, c in enumerate(criteria) for at, p in enumerate(reversed(players))]
    scores = {f"{criterion}/{player}": 10.0 * at + n for n, criterion, at, player in pairs}
    line = result("model", "bradley_terry", scores, direction="higher", facts="judgments:j.csv@1")
    write_run(tmp_path, None, None, results=[line], axes={"task": "j.csv", "judgments": "j.csv"})
    name = "mauve_table13" if plan == "published" else "mauve_table13_docs"
    report = Composer().compose_plain([f"experiment={name}"], complete=False).node["report"]
    options = {"layout": build_layout(report, "report"), "figures": False, "page": False}
    (table,) = build_report([tmp_path], tmp_path / "out", **options).tables
    facts = FACTS["mauve_table13"]
    check(table, facts | (facts.get(plan) or {}))
    assert not any(cell.best for cell in table.rows[0].cells), "people do not compete"
    pairs = "human like and interesting 1.000 (p <.001, 9 systems); human like and sensible 1.000 (p <.001, 9 systems)"
    assert plan == "docs" or pairs in table.list_notes("remark")[-1], table.list_notes("remark")[-1]


def test_files_of_ratings_alone_are_columns_of_table_1_of_huse(tmp_path):
    facts = FACTS["huse_table1"]
    report = Composer().compose_plain(["experiment=huse_table1"], complete=False).node["report"]
    layout = build_layout(report, "report")
    for at, file in enumerate(list(layout.names["task"])[: len(facts["columns"])]):
        line = result("model", "huse", {"huse": 0.5 - at / 100, "huse_q": 0.5, "huse_d": 1 - at / 100}, direction="higher",
                      titles=load_members("metric")["huse"].titles, facts=f"judgments:{file}@1")  # fmt: skip
        write_run(tmp_path, None, None, results=[line], axes={"task": file, "judgments": f"{file}@1"})
    check(make_tables(read_results([tmp_path]), layout, "huse_table1")[0], facts)


def write_rated_pairs(tmp_path, log_probs=(-10.0, -90, -20, -30, -10, -10, -10, -20, -30, -10)):
    """Write five pairs: separated by ratings, only with the probability, confused, neither, with a model rated higher."""
    arrays = {
        "arrays/ratings": [[5.0], [3], [3], [4], [0], [1], [3], [3], [4], [5]],
        "arrays/log_probs": np.array(log_probs),
        "arrays/lengths": np.full(10, 10.0),
        "arrays/errors": [0.0, 0, 1, 0, 0, 0, 0, 1, 1, 0],
        "arrays/errors_q": [0.0, 1, 1, 0, 0, 0, 1, 1, 1, 0],
        "per_example/error_model": np.array([0.0, 0, 1, 1, 0, np.nan]),
    }
    artifact = store_arrays(tmp_path / "store", "measure/ab/x", arrays)
    line = result("model", "huse", {"huse": 0.75, "huse_q": 1.25, "huse_d": 0.5}, direction="higher", artifact=artifact)
    inputs = [RunInput("measure/ab/x", "model", "huse")]
    write_run(tmp_path, "nucleus", 0, results=[line], texts=True, inputs=inputs)
    return read_results([tmp_path / "runs"])


def test_texts_of_one_probability_are_told_apart_by_their_ratings(tmp_path):
    (table,) = make_tables(write_rated_pairs(tmp_path, [-10.0] * 10), load_layout("huse_examples"), "t")
    kinds = [row.label for row in table.rows if row.system == "heading"]
    assert kinds == ["Quality failure", "Model is indistinguishable"]


def test_table_2_of_huse_has_the_clearest_pair_of_each_kind(tmp_path):
    results = write_rated_pairs(tmp_path)
    layout = build_layout(Composer().compose_plain(["experiment=huse_table2"], complete=False).node["report"], "report")
    (table,) = make_tables(results, layout, "huse_table2")
    check(table, FACTS["huse_table2"])
    assert [row.rule for row in table.rows].count(True) == 2, "a line between two kinds"
    assert [row.labels[1] for row in table.rows[1::4]] == [f"Prompt {i} <b>says</b>" for i in (0, 1, 2)]
    model_text = table.rows[1]._replace(levels=("", "word " * 60))
    text = to_latex(replace(table, rows=(*table.rows, model_text)))
    assert (r"p{207pt}" in text, "resizebox" in text) == (True, False), "texts are wrapped to an article's width"
    _, _, model, reference = table.rows[4:8]
    assert model.labels[1].startswith("nucleus wrote & text 1")
    assert [[round(cell.value, 6) for cell in row.cells] for row in (model, reference)] == [[-1.0, 3.0], [-9.0, 3.0]]


def test_latex_keeps_quoted_texts_letter_for_letter(tmp_path):
    """`dry` and `greedy` are names of decoders, `stdout=PIPE` looks like an option: in texts they are words."""
    text = "the dry summer, stdout=PIPE a greedy human"
    rows = ((f"Model: {text}", "text", (0.5,), 0, False, ("Model", text)),
            ("dry eta=1", "model", (0.5,), 0, False, ("", "dry eta=1")))  # fmt: skip
    table = print_rows([make_quantity("m", "m", "M")], rows, heads=("", ""))
    assert f"Model & {text} & 0.500" in to_latex(table)
    assert r"& DRY, eta~=~1 & 0.500" in to_latex(table)
    assert "the dry summer," in " ".join(to_latex(table.transpose()).split())


def test_docs_tables_carry_no_model_or_domain_of_the_papers():
    composer = Composer()
    for experiment in (name for name in list_bundled_choices("experiment") if name.endswith("_docs")):
        report = composer.compose_plain([f"experiment={experiment}"], complete=False).node["report"]
        words = [report.get("title"), report.get("caption"), *(report.get("heads") or {}).values()]
        assert not re.search(r"GPT-2|Grover|[Nn]ews\b|[Ss]tories|Llama|Mistral", " ".join(filter(None, words))), words
        names = (report.get("names") or {}).get("model", {})
        assert {names.get(model, model) for model in ("docs-s", "docs-m")} == {"docs-s", "docs-m"}, experiment
    layout = load_layout("mauve_systems")
    assert "model" not in layout.heads, "a layout does not know the user's models"


def test_the_caption_of_a_paper_says_on_which_data(tmp_path):
    table = print_plan(tmp_path, "mauve_table8_docs")
    table = replace(table, about=("Task docs; 400 examples; at most 64 new tokens; seed 0.",))
    assert r"for decoders (task docs, 400 examples, at most 64 new tokens, seed 0);" in to_latex(table)


def test_every_experiment_has_a_title_of_its_own():
    titles, composer = {}, Composer()
    for experiment in list_bundled_choices("experiment"):
        name = experiment.removesuffix("_docs")
        title = composer.compose_plain([f"experiment={experiment}"], complete=False).node["report"].get("title")
        if not experiment.startswith("base/"):
            assert title != "Results", experiment
            assert titles.setdefault(title, name) == name
