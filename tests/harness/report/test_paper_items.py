"""Tables and figures of the precision-recall and HUSE papers, from runs whose values are known."""

import numpy as np
import pytest

from openended.harness.core import Example
from openended.harness.report.build import make_tables
from openended.harness.report.figures.curves import f_scores, pr_curves
from openended.harness.report.figures.drawing import SystemStyles, apply_style
from openended.harness.results import load_layout, read_results
from openended.harness.storage import write_examples
from tests.harness.report.synthetic import result, seal, store_arrays, write_run

PR = "knn_precision_recall"


def save(folder, name, **arrays):
    return store_arrays(folder / "store", name, {key.replace("__", "/"): value for key, value in arrays.items()})


def read_table(results, layout):
    (table,) = make_tables(results, load_layout(layout), layout)
    return table


def test_standard_deviations_over_sets_of_generated_and_human_texts(tmp_path):
    """Rows: sets of human texts, columns: seeds. For two values the sample standard deviation is |a - b| / √2."""
    precision = [[0.8, 0.9], [0.6, 0.7]]
    for start, row in enumerate(precision):
        for seed, value in enumerate(row):
            lines = [result("model", PR, {"precision": value, "recall": 0.5}, direction="higher")]
            write_run(tmp_path, "nucleus", seed, results=lines, axes={"task.start": 100 * start})
    table = read_table(read_results([tmp_path / "runs"]), "text_sets")
    assert [row.label for row in table.rows] == ["varying Q", "varying P", "varying P and Q"]
    # Q: (0.1 + 0.1) / 2 / √2; P: (0.2 + 0.2) / 2 / √2; both: |0.8 − 0.7| / √2.
    assert [row.cells[0].value for row in table.rows] == pytest.approx(np.array([0.1, 0.2, 0.1]) / np.sqrt(2))
    assert [row.cells[1].value for row in table.rows] == pytest.approx([0, 0, 0])


def test_examples_of_what_huse_separates(tmp_path):
    """Four examples: separated by ratings, only with the probability, confused, and one with neither."""
    arrays = {
        "arrays__ratings": [[5.0], [3], [3], [4], [1], [3], [3], [4]],
        "arrays__log_probs": [-10.0, -90, -20, -30, -10, -10, -20, -30],
        "arrays__lengths": np.full(8, 10.0),
        "arrays__errors": [0.0, 0, 1, 0, 0, 0, 1, 1],
        "arrays__errors_q": [0.0, 1, 1, 0, 0, 1, 1, 1],
        "per_example__error_model": np.array([0.0, 0, 1, 1, np.nan, np.nan]),
    }
    values = {"huse": 0.75, "huse_q": 1.25, "huse_d": 0.5}
    line = result("model", "huse", values, direction="higher", artifact=save(tmp_path, "measure/ab/x", **arrays))
    run_folder = tmp_path
    write_run(run_folder, "nucleus", 0, results=[line], texts=True, inputs={"measure:huse": "measure/ab/x"})
    table = read_table(read_results([tmp_path / "runs"]), "huse_examples")
    heads = [row.label for row in table.rows if row.cells[0].blank]
    assert [head.partition(":")[0] for head in heads] == ["quality failure", "diversity failure", "indistinguishable"]
    assert [head.partition(": ")[2] for head in heads] == [f"Prompt {i} <b>says</b>" for i in (0, 1, 2)]
    diversity = table.rows[3:6]
    assert diversity[1].label.startswith("model: nucleus wrote & text 1")
    assert [round(row.cells[0].value, 6) for row in diversity[1:]] == [-1.0, -9.0]
    assert [row.cells[1].value for row in diversity[1:]] == [3.0, 3.0]


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
        write_run(tmp_path, name, 0, results=lines, inputs={"measure:x": curve, "measure:m": mauve})
    results = read_results([tmp_path / "runs"])
    with apply_style():
        curves = pr_curves(results, SystemStyles(results.values))["pr_curves"]
        scores = f_scores(results, SystemStyles(results.values))["f_scores"]
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
    inputs = {"examples:realnews": "examples/ab/x", "measure:mauve model": artifact}
    write_run(tmp_path, "nucleus", 0, results=[line], inputs=inputs)
    table = read_table(read_results([tmp_path / "runs"]), "domains")
    assert [column.title for column in table.columns] == ["human texts", "domains", "texts of each domain"]
    assert [row.label for row in table.rows] == ["cell 4", "cell 2"]
    assert [[cell.words or cell.value for cell in row.cells] for row in table.rows] == [
        [6, 1, "bbc.com 6"],
        [5, 2, "cbc.ca 3, nbc.com 2"],
    ]
    assert table.remarks[0].startswith("2 of 2 cells with at least 5 human texts hold texts of one or two domains; 12")
