"""The heat map of systems: the matrix, its axes and its numbers."""

from __future__ import annotations

import numpy as np
import pytest

from openended.harness.report.figures.drawing import apply_style
from openended.harness.report.figures.similarity import TextSetSimilarity, average_by_system, system_similarity
from openended.harness.results.frame import read_results
from tests.helpers import openended


def test_seeds_of_a_system_are_averaged_and_the_diagonal_is_between_them():
    # Places 0 and 1 are seeds of one system, 2 is another, 3 shares no prompt with them.
    rows = [[1.0, 0.8, 0.4, np.nan], [0.8, 1.0, 0.6, np.nan], [0.4, 0.6, 1.0, np.nan]]
    runs = [TextSetSimilarity(int(own == 2), own, np.array(row)) for own, row in enumerate(rows)]
    np.testing.assert_allclose(average_by_system(runs, [0, 1]), [[0.8, 0.5], [0.5, np.nan]])


@pytest.mark.slow
def test_a_grid_with_samples_ends_with_the_matrix_and_the_sameness_of_each_prompt(tmp_path):
    words = ["-m", "name=same", "decoder=ancestral,nucleus", "decoder.temperature=0.5", "samples=2"]
    metrics = "metric=[diversity,system_similarity]"
    done = openended(*words, metrics, "num_examples=4", "max_new_tokens=8", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    results = read_results([tmp_path / "outputs/runs/same"])
    items = results.values
    with apply_style():
        figure = system_similarity(results, items)["similarity"]
    panel = figure.axes[0]
    labels = [label.get_text() for label in panel.get_yticklabels()]
    assert len(labels) == 2
    (one, other) = (text.get_text() for text in panel.texts)  # one seed each: nothing on the diagonal
    assert one == other
    found = {(i.metric, i.system) for i in items if np.isfinite(i.mean)}
    assert {m for m, s in found if s == "model"} == {
        "chamfer", "distinct_k", "ngram_diversity", "prompt_similarity", "remote_clique", "rouge_l", "system_similarity",
    }  # fmt: skip
    assert not any(s == "human" for _, s in found), "people wrote one text a prompt"
    similar = {i.metric: i.mean for i in items if i.system == "model" and i.key == i.metric}
    assert similar["remote_clique"] == pytest.approx(1 - similar["prompt_similarity"])
