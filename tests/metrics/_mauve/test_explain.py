"""Which rows a score is explained by, by hand."""

import numpy as np

from openended.metrics._mauve.explain import find_distinguishing_cells, find_distinguishing_texts
from openended.metrics.knn_precision_recall import KnnPrecisionRecall
from openended.metrics.mauve import Mauve
from tests.helpers import features
from tests.metrics.test_mauve import clusters


def test_cells_by_gap_and_texts_by_distance():
    """Cell 2 has 3/4 of the model and none of the human side, cell 0 half against nothing; cell 1 is even."""
    human = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.0, 1.0]])
    model = np.array([[0.0, 1.0], [-1.0, 0.1], [-1.0, 0.0], [-1.0, -0.1]])
    got = find_distinguishing_cells(
        human=human, model=model, human_cells=np.array([0, 0, 1, 1]), model_cells=np.array([1, 2, 2, 2]), num_buckets=4
    )
    np.testing.assert_array_equal(got["cell"], [2, 0, 1])
    np.testing.assert_array_equal(got["cell_shares"], [[0, 0.75], [0.5, 0], [0.5, 0.25]])
    np.testing.assert_array_equal(got["cell_human_rows"], [[-1, -1, -1], [0, 1, -1], [2, 3, -1]])
    # The center of cell 2 is (-1, 0) but for its length: row 2 is nearest.
    np.testing.assert_array_equal(got["cell_model_rows"], [[2, 1, 3], [-1, -1, -1], [0, -1, -1]])


def test_ratios_name_the_texts_that_the_other_side_would_not_write():
    got = find_distinguishing_texts(np.array([0.1, np.inf, -3.0]), np.array([2.0, -1.0, -np.inf]))
    np.testing.assert_array_equal(got["ratio_human_rows"], [1, 0, 2])
    np.testing.assert_array_equal(got["ratio_human"], [700, 0.1, -3])
    np.testing.assert_array_equal(got["ratio_model_rows"], [2, 1, 0])


def test_results_carry_them():
    """A model that knows 4 of 12 groups: the cells that tell most are those that it fills too much or not at all."""
    human, model = clusters(240, 12), clusters(240, 4, seed=1)
    spec = Mauve(clustering_seeds=1, num_buckets=12)
    arrays = spec.compute(features(spec, human=human, model=model, n_human=240, n_model=240)).arrays
    shares, rows = arrays["cell_shares"], arrays["cell_model_rows"]
    gaps = np.abs(shares[:, 0] - shares[:, 1])
    assert list(gaps) == sorted(gaps, reverse=True)
    assert ((rows >= 0).any(axis=1) == (shares[:, 1] > 0)).all()
    assert shares[0, 1] > shares[0, 0]
    spec = Mauve(estimator="classifier")
    arrays = spec.compute(features(spec, human=human, model=model, n_human=240, n_model=240)).arrays
    assert arrays["ratio_human"][0] > 0 > arrays["ratio_model"][0]
    spec = KnnPrecisionRecall()
    result = spec.compute(features(spec, human=human, model=model, n_human=240, n_model=240))
    assert len(result.arrays["missed_human_rows"]) == round(240 * (1 - result.values["recall"]))
    assert len(result.arrays["missed_model_rows"]) == round(240 * (1 - result.values["precision"]))
