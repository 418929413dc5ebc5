"""Figures about ratings, and heat maps of metrics and systems."""

import math
from pathlib import Path

import numpy as np
import pytest

from openended.harness.report.figures.drawing import SystemStyles, apply_style, choose_style, save
from openended.harness.report.figures.heat_maps import (
    TextSetSimilarity,
    agreement_map,
    average_by_system,
    metric_agreement,
    system_similarity,
)
from openended.harness.report.figures.people import huse_parts, huse_regions, huse_stability
from openended.harness.results import read_results
from openended.metrics.huse import Huse, PairRatings, Rule
from tests.harness.report.synthetic import result, write_run
from tests.helpers import openended

EXAMPLE = Path(__file__).parents[4] / "tasks/data/example_ratings.csv"
RULE = Rule()
NO_STYLES = SystemStyles([])


@pytest.fixture(autouse=True)
def style():
    with apply_style():
        yield


@pytest.fixture
def rated():
    metric, features = Huse().from_file(EXAMPLE)
    return PairRatings.from_arrays(metric.compute(features).arrays)


def test_regions_show_every_text_in_a_panel_per_system(rated, tmp_path):
    figure = huse_regions({"t=1.0": (rated, RULE), "t=0.7": (rated, RULE)})
    assert [panel.get_title() for panel in figure.axes] == ["t=1.0", "t=0.7"]
    for panel in figure.axes:
        assert panel.get_xlabel() == "model log-probability per word, nats"
        reference, model = panel.get_lines()
        assert (reference.get_marker(), model.get_marker()) == ("s", "o")
        assert len(reference.get_xdata()) == len(model.get_xdata()) == 100
        assert max(reference.get_xdata()) < 0 < min(reference.get_ydata())
    assert figure.axes[0].get_ylabel() == "human judgment (mean rating)"


def test_the_shading_is_the_confidence_of_the_discriminator(rated):
    """All human texts rated near 5, all model texts near 1: sure at both ends of the rating axis."""
    near = np.repeat([[5.0], [1.0]], 100, axis=0) + 0.1 * rated.ratings
    figure = huse_regions({"m": (PairRatings(rated.ids, near, rated.log_probs, rated.lengths), RULE)})
    shares = np.asarray(figure.axes[0].images[0].get_array())
    assert np.median(shares[-1]) == 1  # the highest ratings
    assert np.median(shares[0]) == -1


def test_lines_of_equal_huse():
    """On every dotted line HUSE-Q + HUSE-D − 1 is its value."""
    figure = huse_parts({"a": (0.58, 0.95), "b $x$": (0.92, 0.34)}, [choose_style(0), choose_style(1)])
    (panel,) = figure.axes
    lines = [line for line in panel.get_lines() if line.get_linestyle() == ":"]
    for line, value in zip(lines, (0.2, 0.4, 0.6, 0.8, 1.0), strict=True):
        assert (np.asarray(line.get_xdata()) + line.get_ydata() - 1).tolist() == pytest.approx([value] * 2)


@pytest.mark.slow
def test_stability_and_agreement(rated, tmp_path):
    figure = huse_stability(rated, RULE, draws=3)
    assert [a.get_xlabel() for a in figure.axes] == ["ratings a text", "examples"]
    assert figure.axes[0].get_lines()[0].get_xdata().tolist() == [1, 2, 5]
    save(figure, tmp_path, "stability")
    nan = math.nan
    values = {"a": [1, 2, 3, 4, 5], "b": [5, 4, 3, 2, 1], "four": [1, 2, 3, 4, nan], "none": [nan] * 5}
    table = agreement_map(values)
    words = [t.get_text() for t in table.axes[0].texts]
    # "four" shares four systems with the others and itself: no cell of it is shown.
    assert words == ["1.00", "-1.00", "–", "–", "-1.00", "1.00", *["–"] * 10]
    assert table.axes[1].get_ylabel() == "Spearman's ρ over 5 systems"
    assert "fewer than five" in table.get_supxlabel().replace("\n", " ")
    save(table, tmp_path, "agreement")
    long = {f"MAUVE (quantizer={name}, num_buckets=125)": values[name] for name in values}
    (rows, _) = agreement_map(long).axes
    assert [t.get_text() for t in rows.get_xticklabels()] == ["1", "2", "3", "4"]
    assert rows.get_yticklabels()[1].get_text().replace("\n", " ") == "MAUVE (quantizer=b, num_buckets=125)  2"


def test_the_agreement_map_needs_five_systems(tmp_path):
    for n in range(5):
        assert not n or metric_agreement(read_results([tmp_path]), NO_STYLES) == {}
        lines = [result("model", name, {name: float(n)}, primary=name) for name in ("a", "b")]
        write_run(tmp_path, "nucleus", None, results=lines, options={"p": n}, title=f"p={n}")
    assert set(metric_agreement(read_results([tmp_path]), NO_STYLES)) == {"metric-agreement"}


def test_seeds_of_a_system_are_averaged_and_the_diagonal_is_between_them():
    # Sets 0 and 1 are seeds of one system, 2 is another, 3 shares no prompt with them.
    rows = [[1.0, 0.8, 0.4, np.nan], [0.8, 1.0, 0.6, np.nan], [0.4, 0.6, 1.0, np.nan]]
    sets = [TextSetSimilarity(int(own == 2), own, np.array(row)) for own, row in enumerate(rows)]
    np.testing.assert_allclose(average_by_system(sets, [0, 1]), [[0.8, 0.5], [0.5, np.nan]])


@pytest.mark.slow
def test_a_grid_with_samples_ends_with_the_matrix_and_the_sameness_of_each_prompt(tmp_path):
    words = ["-m", "name=same", "decoder=ancestral,nucleus", "decoder.temperature=0.5", "samples=2"]
    metrics = "metric=[diversity,system_similarity]"
    openended(*words, metrics, "num_examples=4", "max_new_tokens=8", cwd=tmp_path, code=0)
    results = read_results([tmp_path / "outputs/runs/same"])
    items = results.values
    panel = system_similarity(results, NO_STYLES)["similarity"].axes[0]
    assert len(panel.get_yticklabels()) == 2
    (one, other) = (text.get_text() for text in panel.texts)  # one seed each: nothing on the diagonal
    assert one == other
    found = {(i.metric, i.system) for i in items if np.isfinite(i.mean)}
    assert {m for m, s in found if s == "model"} == {
        "chamfer", "distinct_k", "ngram_diversity", "prompt_similarity", "remote_clique", "rouge_l", "system_similarity",
    }  # fmt: skip
    assert not any(s == "human" for _, s in found), "people wrote one text per prompt"
    similar = {i.metric: i.mean for i in items if i.system == "model" and i.key == i.metric}
    assert similar["remote_clique"] == pytest.approx(1 - similar["prompt_similarity"])
