"""The declared figures of the papers against `printed/*.yaml`: titles, panels, axes and the order of legends."""

from functools import cache
from pathlib import Path

import pytest
import yaml

from openended.harness.app.hydra.compose import Composer
from openended.harness.report.figures.draw import choose_figures, read_declarations
from openended.harness.results import build_layout, filter_results, read_results
from tests.harness.report.synthetic import draw_figure, result, write_run
from tests.helpers import cases, check_error

PRINTED = Path(__file__).parents[1] / "printed"
FIGURES = {
    name: facts
    for path in sorted(PRINTED.glob("*.yaml"))
    for name, facts in yaml.safe_load(path.read_text(encoding="utf-8"))["figures"].items()
}
PAPERS = {"mauve": "MAUVE", "pr": "P&R", "huse": "HUSE"}
COMPOSER = Composer()
SIZES = ["small", "medium", "large", "xl"]


@cache
def layout_of(experiment):
    return build_layout(COMPOSER.compose_plain([f"experiment={experiment}"], complete=False).node["report"], experiment)


def declare(experiment, figure, metrics=()):
    """Return the declaration of a figure in the report of an experiment."""
    changes = dict(layout_of(experiment).figures[figure])
    return read_declarations()[changes.pop("like", figure)].change(changes)


@pytest.mark.parametrize("using", ["", "_docs"])
@cases(
    "name",
    *(
        n
        for n, facts in FIGURES.items()
        if facts.get("experiment", n).split("_")[0] in PAPERS
        and " " not in facts.get("experiment", n)
        and n not in ("huse_fig1", "huse_fig2")
    ),
)
def test_a_figure_has_the_title_of_its_paper(name, using):
    experiment = FIGURES[name].get("experiment", name)
    number = FIGURES[name]["item"].removeprefix("Figure ").partition(",")[0]
    wanted = f"{PAPERS[name.split('_')[0]]} Figure {number}"
    layout = layout_of(experiment + using)
    titles = [layout.title, *(node["title"] for node in layout.figures.values() if node and "title" in node)]
    assert any(title.startswith(wanted) for title in titles), titles


@cases(
    "experiment, figure, panels",
    ("mauve_fig4_length", "sweep", FIGURES["mauve_fig4_length"]["panels"]),
    ("mauve_fig6_length", "sweep", FIGURES["mauve_fig6_length"]["panels"]),
    ("pr_fig8", "sweep", FIGURES["pr_fig8"]["panels"]),
    ("pr_fig2", "pr_curves", FIGURES["pr_figa3"]["panels"]),
    ("huse_fig5", "huse-stability", FIGURES["huse_fig5"]["panels"]),
)
def test_panels_are_those_printed_in_their_order(experiment, figure, panels):
    declared = [node.get("title", node.get("xlabel")) for node in declare(experiment, figure).panels.values()]
    assert len(declared) == len(panels)
    assert all(panel in text for text, panel in zip(declared, panels, strict=True)), declared


def test_a_length_figure_has_four_panels_and_the_sizes_in_order(tmp_path):
    """With `min_new_tokens`, which differs from length to length: SP keeps its line."""
    for model in ("gpt2-xl", "gpt2", "gpt2-large", "gpt2-medium"):
        for length in (128, 256, 512):
            lines = [
                result(side, metric, {metric: 1.0 + length}, direction=direction, options=f"|length:{length}|min_new_tokens:{length}")
                for metric, direction in (
                    ("mauve", "higher"), ("sparsemax_score", "higher"), ("frechet", "lower"), ("gen_ppl", "match_human"),
                )
                for side in (("model", "human") if metric == "gen_ppl" else ("model",))
            ]  # fmt: skip
            axes = {"min_new_tokens": "max_new_tokens"}
            write_run(tmp_path, "nucleus", 0, model=model, length=length, results=lines, axes=axes)
    layout = layout_of("mauve_fig4_length")
    options = {"metrics": layout.metrics, "gaps": True, "figure": layout.figures["sweep"]}
    (figure,) = draw_figure("sweep", read_results([tmp_path]), **options).values()
    titles = ["MAUVE", "Gen. PPL, distance to human", "SP", "Fréchet distance"]
    assert [panel.get_title() for panel in figure.axes] == titles
    for panel in figure.axes:
        assert [line.get_label() for line in panel.lines] == FIGURES["mauve_fig4_length"]["legend"] == SIZES
        assert list(panel.lines[0].get_xdata()) == [128, 256, 512]


def test_figure_5_left_has_the_sizes_that_were_run_alone(tmp_path):
    for embedder in ("gpt2-large", "roberta-large"):
        for model in ("gpt2", "gpt2-xl", "gpt2-large"):
            for decoder in ("ancestral", "greedy"):
                write_run(tmp_path, decoder, 0, model=model, embedder=embedder)
    layout = layout_of("mauve_table12")
    changes = dict(layout.figures["sizes"]) | {"where": None}  # the synthetic runs name no quantizer
    results = read_results([tmp_path])
    (panel,) = draw_figure("sizes", results, metrics=("mauve",), names=layout.names, figure=changes)["sizes"].axes
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["small", "large", "xl"]
    labels = ["greedy (GPT-2)", "greedy (RoBERTa)", "sampling (GPT-2)", "sampling (RoBERTa)"]
    lines = {line.get_label(): line for line in panel.lines}
    assert list(lines) == labels
    first, second, third, _ = lines.values()
    assert first.get_color() == second.get_color() != third.get_color()
    assert first.get_linestyle() == third.get_linestyle() != second.get_linestyle()


def test_the_divergence_curves_have_a_panel_for_grover_and_shaded_areas(tmp_path):
    for model, decoder, task in (
        ("gpt2-xl", "greedy", "webtext"), ("gpt2-xl", "nucleus", "webtext"), ("gpt2", "nucleus", "webtext"),
        ("grover-base", "nucleus", "realnews"),
    ):  # fmt: skip
        write_run(tmp_path, decoder, 0, model=model, axes={"task": task}, arrays=True)
    results = read_results([tmp_path])
    changes = layout_of("mauve_fig2").figures["divergence"]
    (figure,) = draw_figure("divergence", results, figure=changes).values()
    assert [panel.get_title() for panel in figure.axes] == ["decoding algorithms", "model sizes", "Grover base"]
    assert [len(panel.get_lines()) for panel in figure.axes] == [2, 2, 1]
    for panel in figure.axes:
        assert len(panel.patches) == len(panel.get_lines()), "the area under each curve is shaded"
    web = filter_results(results, {"task": "webtext"})
    (figure,) = draw_figure("divergence", web, figure=changes).values()
    assert len(figure.axes) == 2, "without Grover there is no empty panel"


def test_precision_and_recall_share_a_panel(tmp_path):
    for n in (100, 1000, 10000):
        write_run(tmp_path, "nucleus", 0, n=n)
    for experiment in ("pr_fig6_n", "pr_fig6_n_docs"):
        changes = layout_of(experiment).figures["sweep"]
        (panel,) = draw_figure("sweep", read_results([tmp_path]), figure=changes)["sweep-num_examples"].axes
        assert [line.get_label() for line in panel.lines] == ["Precision", "Recall"]
        assert panel.get_ylabel() == FIGURES["pr_fig6_n"]["y"]["name"]
        assert panel.get_xscale() == "log"


def test_bars_have_standard_errors_over_seeds_and_sets_of_human_texts(tmp_path):
    values = {0: (0.5, 0.6), 100: (0.7, 0.8)}
    for start, pair in values.items():
        for seed, value in enumerate(pair):
            lines = [result("model", "mauve", {"mauve": value}, direction="higher")]
            write_run(tmp_path, "nucleus", seed, results=lines, axes={"task.start": start})
    changes = layout_of("pr_figb2").figures["columns"]
    (panel,) = draw_figure("columns", read_results([tmp_path]), figure=changes)["columns"].axes
    (bar,) = panel.patches
    assert bar.get_height() == pytest.approx(0.65)
    # Deviations of ±0.05 and ±0.15: s² = (2 · 0.0025 + 2 · 0.0225) / 3, s / √4 = 0.0645.
    (bars,) = panel.containers[1].lines[2]
    low, high = bars.get_segments()[0][:, 1]
    assert (high - low) / 2 == pytest.approx(0.0645, abs=1e-4)


@cases("experiment, key", ("pr_fig7", "rows_or_columns"), ("pr_fig7b", "rows_or_columns"), ("pr_figa5", "variables"))
def test_correlations_are_of_the_printed_metrics(experiment, key, tmp_path):
    declared = declare(experiment, "metric-agreement")
    for number in range(5):
        lines = [
            result("model", "knn_precision_recall", {"precision": number, "recall": -number}, direction="higher",
                   titles={"precision": "Precision", "recall": "Recall"}),
            result("model", "mauve", {"mauve": number**2}, direction="higher"),
            result("model", "precision_recall_curve", {"f8": number, "f1_8": 1.0 - number}, direction="higher", titles={"f8": "F8", "f1_8": "F1/8"}),
            result("model", "self_bleu", {"self_bleu_4": number}, titles={"self_bleu_4": "Self-BLEU-4"}),
            result("model", "distinct_n", {"distinct_4": number, "distinct_1": 0.1}),
            result("model", "mean_rating", dict.fromkeys(("coherence", "insightful", "likely", "diversity"), number), titles={}),
        ]  # fmt: skip
        write_run(tmp_path, "nucleus", None, results=lines, options={"p": number / 10}, title=f"p={number}")
    results = read_results([tmp_path])
    (panel, _) = draw_figure("metric-agreement", results, figure=layout_of(experiment).figures["metric-agreement"])[
        "metric-agreement"
    ].axes
    rows = [tick.get_text() for tick in panel.get_yticklabels()]
    assert rows == FIGURES[experiment][key]
    columns = [tick.get_text() for tick in panel.get_xticklabels()]
    titles = {"pr_fig7": ["Self-BLEU-4", "Distinct-4"], "pr_fig7b": FIGURES["pr_fig7b"]["others"], "pr_figa5": rows}
    expected = titles[experiment]
    assert columns == expected
    assert declared.options.get("least", 5) == (4 if experiment == "pr_fig7b" else 5)


def test_an_unknown_figure_or_option_is_refused_with_what_there_is(tmp_path):
    from openended.harness.core import SpecError

    write_run(tmp_path, "nucleus", 0)
    results = read_results([tmp_path])
    layout = build_layout({"figures": {"sweeps": {}}}, "l")
    check_error(SpecError, r"no figure 'sweeps'; there are .*sweep", choose_figures, results, [layout])
    with pytest.raises(SpecError, match="no option 'legends'; did you mean 'legend'"):
        choose_figures(results, [build_layout({"figures": {"sweep": {"legends": 1}}}, "l")])
    assert choose_figures(results, [build_layout({"figures": None}, "l")]) == {}
