"""Tables about metrics (agreement, perturbation) and about players and searches, from values that are known."""

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from openended.harness import results as measured
from openended.harness.core import DataError, Example, decode, list_bundled_choices, load_members, read_json
from openended.harness.report import build_search_tables
from openended.harness.report.build import make_tables
from openended.harness.report.figures.search import show_search
from openended.harness.report.tables.agreement import FEW
from openended.harness.report.tables.detected_perturbations import (
    PerturbationCurve,
    PerturbedValue,
    detect_perturbation,
    find_perturbation_curves,
)
from openended.harness.report.tables.judgments import build_ability_frames
from openended.harness.report.tables.pivot import build_tables
from openended.harness.report.tables.selection import TablePart
from openended.harness.results import Layout, SearchResult, SearchTrial, load_layout, read_results
from openended.harness.storage import RunInput, write_examples
from openended.metrics.bradley_terry import bradley_terry
from tests.harness.report.synthetic import draw_figure, quickstart, read_cells, result, seal, store_arrays, write_run
from tests.helpers import cases, check_error, openended

DECODERS = ("greedy", "ancestral", "nucleus", "top_k")
DIRECTIONS = {"low": "lower", "match": "match_human"}  # the other metrics are better the higher they are
SCORES = {"kmeans": (0.1, 0.5, 0.9), "drmm": (0.05, 0.4, 0.7), "lattice": (0.3, 0.2, 0.6)}


def write(folder, decoder, seed=0, embedder="e1", options="", **values):
    """One run: `up` is better, `low` is worse, `match` has the human value 10; `bradley_terry` is what people say."""
    facts = f"embedder:{embedder}@1|task:docs@1"
    lines = [
        result("model", m, {m: v}, direction=DIRECTIONS.get(m, "higher"), facts=facts, options=options)
        for m, v in values.items()
    ]
    lines += [result("human", "match", {"match": 10.0}, facts=facts)] if "match" in values else []
    experiment = "".join(c if c.isalnum() else "-" for c in options) or "synthetic"
    write_run(folder, decoder, seed, results=lines, axes={"embedder": embedder}, experiment=experiment)


def build(folder, layout, name="t"):
    return make_tables(read_results([folder]), load_layout(layout), name)


def test_correlation_is_oriented_so_that_agreement_is_positive(tmp_path):
    for rank, decoder in enumerate(DECODERS):
        # people like the later ones better; all three metrics agree, each in its own direction
        write(tmp_path, decoder, up=float(rank), low=-float(rank), match=20.0 - rank, bradley_terry=10.0 * rank)
    (table,) = build(tmp_path, "correlation")
    assert [c.title for c in table.columns] == ["bradley_terry"]
    assert {r.label: r.cells[0].value for r in table.rows} == {"up": 1.0, "low": 1.0, "match": 1.0}
    # 4 systems: 4! orders, of which 2 reach |rho| = 1: p = 2 / 24 = 0.083, no star
    assert table.rows[0].cells[0].mark == ""


def test_constant_values_have_no_correlation(tmp_path):
    for decoder in DECODERS:
        write(tmp_path, decoder, up=1.0, bradley_terry=2.0)
    (table,) = build(tmp_path, "correlation")
    assert table.rows[0].cells[0].note == FEW


def test_two_systems_are_too_few(tmp_path):
    for rank, decoder in enumerate(DECODERS[:2]):
        write(tmp_path, decoder, up=float(rank), bradley_terry=float(rank))
    check_error(DataError, "three systems or more", build, tmp_path, "correlation")


def test_embedders_are_columns_and_their_rankings_are_correlated(tmp_path):
    for rank, decoder in enumerate(DECODERS):
        write(tmp_path, decoder, embedder="e1", mauve=rank / 10, knn_precision_recall=1.0 - rank)
        write(tmp_path, decoder, embedder="e2", mauve=1 - rank / 10, knn_precision_recall=1.0 - rank)
    values, agreement = build(tmp_path, "embedders")
    assert len(values.columns) == 4
    assert [[cell.value for cell in r.cells] for r in agreement.rows] == [[1.0, 1.0], [-1.0, 1.0]]


def test_every_quantizer_has_a_table_of_embedders_of_its_own(tmp_path):
    for rank, decoder in enumerate(DECODERS):
        for embedder, sign in (("e1", 1), ("e2", -1)):
            for quantizer, turn in (("kmeans", 1), ("drmm", sign)):
                write(tmp_path, decoder, 0, embedder, f"|quantizer:{quantizer}", mauve=0.5 + turn * rank / 10)
    tables = {t.name: t for t in build(tmp_path, "embedders", "e")}
    assert [r.cells[0].value for r in tables["e-quantizer-kmeans-agreement"].rows] == [1.0, 1.0]
    assert [r.cells[0].value for r in tables["e-quantizer-drmm-agreement"].rows] == [1.0, -1.0]


def test_every_set_of_options_is_a_column_and_rankings_are_correlated_with_each_other(tmp_path):
    for at, decoder in enumerate(DECODERS[:3]):
        for quantizer, scores in SCORES.items():
            write(tmp_path, decoder, options=f"|quantizer:{quantizer}", mauve=scores[at])
    scores, agreement = build(tmp_path, "variants")
    assert [c.title for c in scores.columns] == [f"MAUVE (quantizer={q})" for q in sorted(SCORES)]
    assert len([row for row in scores.rows if row.system == "model"]) == 3
    values = {row.label: [c.value for c in row.cells] for row in agreement.rows}
    assert [c.title for c in agreement.columns] == sorted(SCORES)
    # Ranks of lattice are 2 1 3 where the others have 1 2 3: ρ = 1 - 6 · 2 / 24.
    assert values["MAUVE (quantizer=kmeans)"] == pytest.approx([1, 1, 0.5])
    assert values["MAUVE (quantizer=lattice)"] == pytest.approx([0.5, 0.5, 1])


def test_options_at_their_default_are_not_told_and_no_two_columns_read_alike(tmp_path):
    for rank, decoder in enumerate(DECODERS[:3]):
        for options in ("quantizer:kmeans|restarts:5", "quantizer:drmm|restarts:5", "quantizer:kmeans|restarts:7"):
            write(tmp_path, decoder, options=f"|{options}", mauve=rank / 4)
    scores, agreement = build(tmp_path, "variants")
    titles = ["quantizer=drmm", "quantizer=kmeans", "restarts=7"]
    assert [c.title for c in scores.columns] == [f"MAUVE ({options})" for options in titles]
    assert [c.title for c in agreement.columns] == titles


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return read_results([quickstart(tmp_path_factory.mktemp("runs"), arrays=False, texts=False)])


@pytest.mark.parametrize("name", list_bundled_choices("report"))
def test_every_layout_that_ships_builds_a_table(name, runs):
    layout = load_layout(name)
    assert layout.title
    requested = {metric.partition(".")[0] for metric in layout.needs or layout.metrics}
    assert requested <= load_members("metric").keys(), f"conf/report/{name}.yaml: no such metric"
    is_measured = not requested or requested & set(runs.frame["metric"])
    if is_measured and name not in ("discriminator", "domains", "fair", "frontier", "stress"):  # which need other runs
        assert all(table.rows and table.columns for table in make_tables(runs, layout, name))


WINS = {("human", "a"): 7, ("a", "human"): 2, ("human", "b"): 8, ("b", "human"): 3, ("a", "b"): 5, ("b", "a"): 4}


@pytest.mark.parametrize("criterion", [None, "human_like"])
def test_the_table_holds_the_scores_and_their_errors(tmp_path, criterion):
    head = "item,system_a,system_b,outcome" + (",criterion" if criterion else "")
    tail = f",{criterion}" if criterion else ""
    lines = [f"i{n},{a},{b},a{tail}" for (a, b), times in WINS.items() for n in range(times)]
    (tmp_path / "pairs.csv").write_text("\n".join([head, *lines]) + "\n")
    done = openended("judgments=pairs.csv", "metric=[bradley_terry]", cwd=tmp_path, code=0)
    assert done.stdout.lstrip().startswith("Preferred by people (pairs.csv) · Judgments pairs.csv@")
    for text in ("rated", "examples"):
        assert text not in done.stdout.split("report  ")[0]

    players = ["a", "b", "human"]
    found = bradley_terry(np.array([[WINS.get((i, j), 0) for j in players] for i in players]))
    results = read_results([tmp_path / "outputs/runs"])
    part = TablePart(results, results.values, "abilities", {}, ())
    (table,) = build_tables(build_ability_frames(part, Layout()))
    assert [row.label for row in table.rows] == ["human", "a", "b"]
    assert f"human {1000 + 400 / math.log(10) * found.scores[2]:.0f} [" in table.list_notes("remark")[-1]  # Elo
    assert [column.title for column in table.columns] == ["preferred"]
    for row in table.rows:
        (cell,) = row.cells
        i = players.index(row.label)
        assert math.isclose(cell.value, found.scores[i], abs_tol=1e-6)
        half = 1.959964 * found.std_errors[i]  # 95 % of a normal distribution
        assert np.allclose(cell.interval, (found.scores[i] - half, found.scores[i] + half), atol=1e-6)
        assert cell.best == (row.label != "human")  # intervals overlap; the human row does not compete


def make_curve(values, error=1.0):
    points = [PerturbedValue(percent, value, error, None, None) for percent, value in values.items()]
    detected = detect_perturbation(points[1:], points[0])
    return PerturbationCurve("mauve", "mauve", "MAUVE", "docs-m/last", "truncation", points[0], detected)


def test_detected_at_the_root_of_both_errors():
    """Errors 1 and 1: 1.96 * sqrt(2) = 2.772; second of three strengths, by Holm: 2.2414 * sqrt(2) = 3.170."""
    assert make_curve({0: 0.0, 10: 2.0, 30: 3.18, 100: 9.0}).smallest == 30
    assert make_curve({0: 0.0, 10: 2.0, 30: 3.16, 100: 9.0}).smallest == 100
    assert make_curve({0: 0.0, 10: -2.78}).smallest == 10
    assert make_curve({0: 0.0, 10: 2.77}).smallest is None
    unknown = make_curve({0: 0.0, 10: 9.0}, error=math.nan)  # which is no error of 0
    assert ([point.detected for point in unknown.points], unknown.is_known) == ([None], False)
    check_error(DataError, "openended stress makes them", find_perturbation_curves, cast("Any", None), [])


@cases(
    "values, monotone",
    ({0: 0.0, 10: 5.0, 30: 9.0}, True),
    ({0: 9.0, 10: 5.0, 30: 0.0}, True),
    ({0: 0.0, 10: 5.0, 30: 4.0}, True),  # a step back within the error
    ({0: 0.0, 10: 9.0, 30: 1.0}, False),
    ({0: 0.0, 10: 0.0, 30: math.nan}, True),
)
def test_monotone_up_to_the_error(values, monotone):
    assert make_curve(values).is_monotone == monotone


def test_two_signatures_of_one_value_are_refused(monkeypatch):
    """The curve of an earlier version of the metric would hide the other one."""
    monkeypatch.setattr("openended.harness.report.tables.detected_perturbations.find_interval", lambda *_: None)

    def make_item(version, percent):
        return SimpleNamespace(
            system="model", axes={"model": f"perturbation:truncation:{percent}" if percent else "perturbation:none"}, direction="higher", metric="kid", key="kid",
            title="KID", signature=f"kid|v:{version}", fields={}, mean=0.0,
        )  # fmt: skip

    items = [make_item(2, percent) for percent in (0, 10)]
    assert len(find_perturbation_curves(cast("Any", None), cast("Any", items))) == 1
    items += [make_item(1, percent) for percent in (0, 100)]
    with pytest.raises(DataError, match=r"kid has two signatures \(kid\|v:2 and kid\|v:1\)"):
        find_perturbation_curves(cast("Any", None), cast("Any", items))


PR = "knn_precision_recall"


def save(folder, name, **arrays):
    return store_arrays(folder / "store", name, {key.replace("__", "/"): value for key, value in arrays.items()})


def read_table(results, layout):
    (table,) = make_tables(results, load_layout(layout), layout)
    return table


def test_standard_deviations_over_sets_of_generated_and_human_texts(tmp_path):
    """Rows: sets of human texts, columns: seeds. For two values the sample standard deviation is |a - b| / √2."""
    precision = [[0.8, 0.9], [0.6, 0.65]]
    for start, row in enumerate(precision):
        for seed, value in enumerate(row):
            lines = [result("model", PR, {"precision": value, "recall": 0.5}, direction="higher")]
            write_run(
                tmp_path, "nucleus", seed, results=lines,
                axes={"task.start": 100 * start, "task.digest": f"{9 - start}"},
            )  # fmt: skip
    table = read_table(read_results([tmp_path / "runs"]), "text_sets")
    assert [column.title for column in table.columns] == ["Varying Q", "Varying P", "Varying P and Q"]
    # Q: (0.1 + 0.05) / 2 / √2; P: (0.2 + 0.25) / 2 / √2; both: |0.8 − 0.65| / √2: by start, whatever the digests are.
    precision, recall = ([cell.value for cell in row.cells] for row in table.rows)
    assert precision == pytest.approx(np.array([0.075, 0.225, 0.15]) / np.sqrt(2))
    assert recall == pytest.approx([0, 0, 0])
    assert table.legend() == []


def test_both_curves_and_their_scores(tmp_path):
    """A precision-recall curve of two points (1, 0.5) and (0.5, 1): F8 = 65 · 0.5 / (64 · 0.5 + 1)."""
    for name, share in (("nucleus", 1.0), ("ancestral", 0.5)):
        curve = save(tmp_path, f"measure/ab/{name}", arrays__precision=[1.0, 0.5], arrays__recall=[0.5, share])
        frontier = np.array([[[1.0, 0.0], [0.5, 1.0], [0.0, 1.0]]])
        mauve = save(tmp_path, f"measure/ab/{name}-mauve", arrays__divergence_curves=frontier)
        lines = [
            result("model", "precision_recall_curve", {"f8": share, "f1_8": 0.9}, direction="higher", artifact=curve),
            result("model", "mauve", {"mauve": 0.8}, direction="higher", artifact=mauve),
            result("model", PR, {"precision": 0.7, "recall": share}, direction="higher"),
        ]
        write_run(tmp_path, name, 0, results=lines, inputs=[RunInput(a, "model", "") for a in (curve, mauve)])
    results = read_results([tmp_path / "runs"])
    curves, scores = (draw_figure(name, results)[name] for name in ("pr_curves", "f_scores"))
    assert [panel.get_title() for panel in curves.axes] == ["precision-recall curve", "divergence curve of MAUVE"]
    assert curves.axes[0].get_lines()[-1].get_xdata().tolist() == [0.5, 1.0]
    titles = ["precision-recall curve", "divergence curve of MAUVE", "nearest neighbors"]
    assert [panel.get_title() for panel in scores.axes] == titles
    quality, diversity = scores.axes[1].get_lines()
    # Of the curve (human 1, model 0.5): F1/8 = (1 + 1/64) · 0.5 / (0.5 / 64 + 1), F8 = 65 · 0.5 / (64 · 0.5 + 1).
    assert quality.get_ydata() == pytest.approx([(65 / 64) * 0.5 / (0.5 / 64 + 1)] * 2, abs=0.01)
    assert diversity.get_ydata() == pytest.approx([65 * 0.5 / 33] * 2, abs=0.01)
    assert sorted(scores.axes[2].get_lines()[1].get_ydata()) == [0.5, 1.0]


def test_the_domains_of_the_human_texts_in_each_cell(tmp_path):
    """Twelve texts in three cells: one of a single domain, one of two, and one with too few texts to be shown."""
    cells = [4, 2, 4, 2, 4, 2, 4, 2, 4, 2, 4, 7]
    sites = ["bbc.com" if cell == 4 else "cbc.ca" if number < 6 else "nbc.com" for number, cell in enumerate(cells)]
    examples = [Example(f"realnews/{n:02d}", "", "text", {"domain": site}) for n, site in enumerate(sites)]
    artifact = save(tmp_path, "measure/ab/cells", arrays__human_cells=np.array(cells))
    folder = tmp_path / "store" / "examples" / "ab" / "x"
    folder.mkdir(parents=True)
    write_examples(folder / "examples.arrow", reversed(examples))
    seal(folder)
    line = result("model", "mauve", {"mauve": 0.9}, direction="higher", artifact=artifact)
    inputs = [RunInput("examples/ab/x", "human", "realnews"), RunInput(artifact, "model", "mauve model")]
    write_run(tmp_path, "nucleus", 0, results=[line], inputs=inputs)
    table = read_table(read_results([tmp_path / "runs"]), "domains")
    assert [column.title for column in table.columns] == ["human texts", "domains", "texts of each domain"]
    assert [row.label for row in table.rows] == ["cell 4", "cell 2"]
    assert [[cell.number if cell.words else cell.value for cell in row.cells] for row in table.rows] == [
        [6, 1, "bbc.com 6"],
        [5, 2, "cbc.ca 3, nbc.com 2"],
    ]
    remark = "2 of 2 cells with at least 5 human texts hold texts of one or two domains; 12"
    assert table.list_notes("remark")[0].startswith(remark)


ONE = SearchResult(
    "s-12",
    "tpe",
    (measured.SearchObjective("mauve", "maximize"),),
    (
        SearchTrial(0, "complete", {"decoder": "nucleus", "decoder.p": "0.9"}, (0.8,), {"0": (0.7,), "1": (0.9,)}),
        SearchTrial(1, "complete", {"decoder": "top_k", "decoder.k": "40"}, (0.9,), {"0": (0.9,), "1": (0.9,)}, {"5": (0.7,), "6": (0.8,)}),
        SearchTrial(3, "failed", {"decoder": "top_k", "decoder.k": "0"}, (), error="k: expected 1 or more"),
        SearchTrial(4, "complete", {"decoder": "top_k", "decoder.k": "80"}, (0.85,), {"0": (0.8,), "1": (0.9,)}),
    ),
    ({"decoder": 0.25, "top_k.k": 0.75},),
)  # fmt: skip
NEARBY = (("0.7008", 0.8), ("0.7019", 0.9), ("0.75", 0.85))
OBJECTIVES = (measured.SearchObjective("mauve", "maximize"), measured.SearchObjective("|Δ gen_ppl|", "minimize"))
TRIALS = ((0.9, 5.0), (0.8, 1.0), (0.8, 5.0))
TRIALS_OF_P = (SearchTrial(i, "complete", {"decoder.p": str(i / 10)}, v) for i, v in enumerate(TRIALS))
TWO = SearchResult("s-34", "nsgaii", OBJECTIVES, tuple(TRIALS_OF_P))


def test_the_best_comes_first_with_its_interval_and_its_fresh_value():
    best, importance, trials = build_search_tables(ONE)
    assert [row.label for row in best.rows] == ["top_k k=40", "top_k k=80", "nucleus p=0.9"]
    found = read_cells(best)["top_k k=40"]
    assert found["mauve"].value == 0.9
    assert found["mauve, fresh seeds"].value == pytest.approx(0.75)
    ends = read_cells(best)["nucleus p=0.9"]["mauve"].interval
    assert ends == pytest.approx([0.8 - 1.2706, 0.8 + 1.2706], abs=1e-3)  # 12.706 · 0.1414 / √2
    assert [row.label for row in importance.rows] == ["top_k.k", "decoder"]
    assert [row.cells[1].number for row in trials.rows] == ["complete", "complete", "failed", "complete"]
    told = " ".join(best.list_notes("remark"))
    assert "3 complete, 1 failed" in told
    assert "top_k k=0: k: expected 1 or more" in told
    assert "no selection bias" in told


def test_settings_that_agree_to_two_digits_are_one():
    trials = [SearchTrial(i, "complete", {"decoder.p": p}, (v,)) for i, (p, v) in enumerate(NEARBY)]
    best = build_search_tables(SearchResult("s-56", "tpe", ONE.objectives, tuple(trials)))[0]
    assert [row.label for row in best.rows] == ["p=0.7019", "p=0.75"]
    assert any("agree to two digits" in remark for remark in best.list_notes("remark"))


def test_the_front_holds_what_no_other_beats_and_the_file_all_of_it(tmp_path):
    assert [t.number for t in TWO.front()] == [0, 1]
    assert [t.number for t in ONE.front()] == [1]
    best, trials = build_search_tables(TWO)
    assert [row.label for row in best.rows] == ["p=0.0", "p=0.1"]
    assert len(trials.rows) == 3
    assert any("biased upward" in line for line in best.list_notes("remark"))
    measured.save_search(tmp_path, ONE)
    assert decode(SearchResult, read_json(tmp_path / "search.json"), "search") == ONE


def test_figures_are_drawn_of_what_there_is():
    assert set(show_search(ONE)) == {"search-history", "search-importance", "search-parameters"}
    assert set(show_search(TWO)) == {"search-history", "search-parameters-1", "search-parameters-2", "search-front"}
    assert show_search(SearchResult("s", "tpe", ONE.objectives, ())) == {}
