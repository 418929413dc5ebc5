"""Tables of MAUVE as the paper prints them: headings in levels, row labels and their order, human row, bold."""

import re
from pathlib import Path

import pytest
import yaml

from openended.harness.app.hydra.command_line import parse_command_line
from openended.harness.app.hydra.compose import Composer
from openended.harness.report.build import build_report, make_tables
from openended.harness.report.tables.compare import build_comparison
from openended.harness.report.tables.formats.latex import to_latex
from openended.harness.report.tables.pivot import build_tables
from openended.harness.results import build_layout, read_results
from tests.harness.report.synthetic import result, write_run

FACTS = yaml.safe_load((Path(__file__).parents[1] / "printed" / "mauve2021.yaml").read_text("utf-8"))["tables"]
P = {"gpt2": 0.9, "gpt2-medium": 0.9, "gpt2-large": 0.95, "gpt2-xl": 0.95, "docs-s": 0.9, "docs-m": 0.9}
SIZES = tuple(P)[:4]
CRITERIA = ("human_like", "interesting", "sensible")
TITLES = {"gen_ppl": "Gen. PPL", "zipf": "Zipf coef.", "loop_rate": "Rep.", "distinct_4": "Distinct-4", "self_bleu_4": "Self-BLEU-4",
          "mauve": "MAUVE", "sparsemax_score": "SP", "jensen_shannon": "JS", "eps_ppl": "ε-PPL", "accuracy": "Disc. acc."}  # fmt: skip
STATISTICS = {
    "gen_ppl": "gen_ppl",
    "zipf": "zipf",
    "repetition": "loop_rate",
    "distinct_n": "distinct_4",
    "self_bleu": "self_bleu_4",
}
SCORES = {"mauve": ("mauve", "higher"), "sparsemax_score": ("sparsemax_score", "higher"), "jensen_shannon": ("jensen_shannon", "lower"),
          "eps_ppl": ("eps_ppl", "lower"), "discriminator_accuracy": ("accuracy", "nearest 0.5")}  # fmt: skip
FAMILIES = (
    "bert-base-uncased",
    "bert-large-uncased",
    "gpt2",
    "gpt2-medium",
    "gpt2-large",
    "grover-base",
    "grover-large",
    "grover-mega",
)


def nucleus(model):
    return {"p": P[model]}


def cross(models, decoders):
    return [(m, d, nucleus(m) if d == "nucleus" else {}) for m in models for d in decoders]


ALL = ("greedy", "ancestral", "nucleus", "adversarial")
STORIES = [("folder", "greedy", {}), ("folder", "ancestral", {}), *(("folder", "nucleus", {"p": p}) for p in (0.9, 0.92, 0.95)),
           *(("folder", "top_k", {"k": k}) for k in (100, 500))]  # fmt: skip
BEAMS = [("gpt2-large", d, {}) for d in ("greedy", "ancestral")] + [("gpt2-large", "nucleus", {"p": 0.95})] + [
    ("gpt2-large", "beam", {"num_beams": b, "no_repeat_ngram_size": n}) for n in (0, 4) for b in (4, 8)
]  # fmt: skip
SYSTEMS = {
    "mauve_table3": cross(SIZES[3:], ALL), "mauve_table4": cross(SIZES, ("nucleus",)), "mauve_table6": cross(SIZES, ALL),
    "mauve_table8": STORIES, "mauve_table9": [*cross(SIZES, ALL[:3]), ("gpt2-xl", "adversarial", {})],
    "mauve_table10": cross(SIZES, ALL[:3]), "mauve_table11": BEAMS, "mauve_table12": cross(SIZES, ALL[:3]),
    "mauve_table14": cross(SIZES, ALL[1:3]),
}  # fmt: skip


def write_systems(folder, systems, task="webtext", embedders=("gpt2-large",), scores=SCORES):
    """Every metric of every system, later ones better; people rate only systems without greedy decoding."""
    for rank, (model, decoder, options) in enumerate(systems):
        value = 0.1 + rank / 50
        lines = [result("model", m, {k: 1 + value}, titles=TITLES) for m, k in STATISTICS.items()]
        lines += [result("human", m, {k: 1.0}, titles=TITLES) for m, k in STATISTICS.items()]
        lines += [
            result("model", m, {k: value}, direction=d, titles=TITLES, directions={k: d})
            for m, (k, d) in scores.items()
            if m != "mauve"
        ]
        tuned = {f"accuracy_{name}": 1 - value for name in FAMILIES}
        lines.append(result("model", "finetuned_discriminator", tuned, direction="lower"))
        if decoder != "greedy":
            people = {"bradley_terry": value, **{name: value * (n + 1) for n, name in enumerate(CRITERIA)}}
            lines.append(
                result("model", "bradley_terry", people, direction="higher", options=f"|system:{model} {decoder}")
            )
        for at, embedder in enumerate(embedders):
            facts = f"embedder:{embedder}@1|task:{task}@1"
            quantizers = ("kmeans", "drmm") if len(embedders) > 1 else ("kmeans",)
            scored = [result("model", "mauve", {"mauve": value + at / 10}, direction="higher", titles=TITLES, facts=facts,
                             options=f"|quantizer:{name}") for name in quantizers]  # fmt: skip
            for number, line in enumerate(scored):
                axes = {"task": task, "embedder": embedder} | (
                    {"metric.mauve.quantizer": quantizers[number]} if number else {}
                )
                title = (
                    f"beam b={options['num_beams']}"
                    if decoder == "beam"
                    else f"{decoder} p={options['p']}"
                    if "p" in options
                    else decoder
                )
                write_run(folder, decoder, 0, model=model, options=options, title=title, axes=axes,
                          results=[*(lines if not number else []), line])  # fmt: skip
    return read_results([folder])


def make_table(results, experiment, *words):
    report = Composer(parse_command_line([])).compose_experiment([f"experiment={experiment}", *words]).report
    return make_tables(results, build_layout(report, "report"), experiment)[0]


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
    assert list(table.list_heads()) == facts["stub"]
    assert not table.show_seeds
    float_names = re.findall(r"begin{(table\*?)}", to_latex(table))
    assert len(float_names) == 1, "one float"


@pytest.mark.parametrize("experiment", SYSTEMS)
def test_tables_of_mauve_are_printed_as_in_the_paper(tmp_path, experiment):
    embedders = ("gpt2-large", "roberta-large") if experiment == "mauve_table12" else ("gpt2-large",)
    table = make_table(write_systems(tmp_path, SYSTEMS[experiment], embedders=embedders), experiment)
    facts = FACTS[experiment]
    check(table, facts)
    assert table.title.startswith(f"MAUVE Table {experiment.removeprefix('mauve_table')}")
    humans = [row.system == "human" for row in table.rows]
    assert humans == [False] * (len(humans) - 1) + [facts["human"] == "last"]
    marks = [sum(cell.best for cell in row.cells) for row in table.rows]
    if experiment in ("mauve_table3", "mauve_table14"):
        assert set(marks) == {1}, "one bold cell per row"
    if experiment in ("mauve_table6", "mauve_table12"):
        assert [sum(row.cells[at].best for row in table.rows) for at in range(len(table.columns))] == [1] * len(
            table.columns
        )
        assert [row.rule for row in table.rows].count(True) == len(SIZES) - 1 + any(humans), (
            "a line above each further group"
        )
        assert to_latex(table).count("small & ") == 1, "a size is printed once"


def test_table_7_has_sizes_and_decoders_and_the_accuracy_in_percent(tmp_path):
    table = make_table(write_systems(tmp_path, cross(("docs-s", "docs-m"), ALL[:3]), "realnews"), "mauve_table7")
    facts = FACTS["mauve_table7"]
    check(table, {**facts, "rows": [row for row in facts["rows"] if row[0] != "mega"]})
    assert [row.cells[5].value for row in table.rows[:2]] == pytest.approx([12.0, 10.0])
    assert table.rows[-1].labels == ("Human", "n/a")


def test_table_5_joins_people_on_web_text_and_discriminators_on_news_and_stories(tmp_path):
    no_accuracy = {name: score for name, score in SCORES.items() if name != "discriminator_accuracy"}
    write_systems(tmp_path, cross(SIZES, ("nucleus",)), scores=no_accuracy)
    for task in ("realnews", "writing_prompts"):
        results = write_systems(tmp_path, cross(SIZES, ("greedy",)), task)
    table = make_table(results, "mauve_table5")
    facts = FACTS["mauve_table5"]
    check(table, facts)
    assert all(sum(cell.best for cell in row.cells) >= 1 for row in table.rows)
    assert not any(cell.suffix or cell.signed for row in table.rows for cell in row.cells)
    (compared,) = build_tables([build_comparison(results, "mauve2021/table5")])
    cells = {row.label: row.cells for row in compared.rows}
    assert [round(cell.value, 3) for cell in cells["mauve, bt_human_like (webtext)"]] == [0.952, 1.0, 0.048]
    assert cells["mauve, disc_acc (stories)"][1].note == "Over 4 systems of writing_prompts."


def test_table_13_has_the_players_in_the_order_of_the_paper(tmp_path):
    players = ["human", *(f"{model} {decoder}" for model in SIZES for decoder in ("ancestral", "nucleus"))]
    scores = {f"{c}/{player}": at + n for n, c in enumerate(CRITERIA) for at, player in enumerate(reversed(players))}
    line = result("model", "bradley_terry", scores, direction="higher", facts="judgments:j.csv@1")
    write_run(tmp_path, "rated", None, results=[line], axes={"task": "j.csv", "judgments": "j.csv"})
    report = Composer(parse_command_line([])).compose_experiment(["experiment=mauve_table13"]).report
    (table,) = build_report(
        [tmp_path], tmp_path / "out", layout=build_layout(report, "report"), figures=False, page=False
    ).tables
    check(table, FACTS["mauve_table13"])
    assert not any(cell.best for cell in table.rows[0].cells), "people do not compete"
