import contextlib
import io

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core import Features, Side, SpecError, UndefinedMetric
from openended.metrics._embeddings import neighbors
from openended.metrics.knn_precision_recall import KnnPrecisionRecall, knn_precision_recall
from tests.helpers import features
from tests.oracles import embeddings as oracle

GRID = st.tuples(st.integers(0, 10_000), st.integers(4, 25), st.integers(4, 25), st.integers(1, 3))


def normal(n, d=8, seed=0, shift=0.0):
    return np.random.default_rng(seed).normal(size=(n, d)) + shift


def test_hand_value_on_a_line():
    """Human 0, 1, 3; model 0.5, 10, 11; k = 1.

    Human radii: 0 → 1, 1 → 1, 3 → 2. Of the model points .5 is inside the balls of 0 and 1 (3 - .5 = 2.5 > 2), 10 and 11
    in none: precision 1/3, density (2 + 0 + 0) / (1 · 3) = 2/3, coverage 2/3.
    Model radii: .5 → 9.5, 10 → 1, 11 → 1. All human points are within 9.5 of .5: recall 1.
    """
    got = knn_precision_recall(
        human=np.array([[0.0], [1.0], [3.0]]), model=np.array([[0.5], [10.0], [11.0]]), k=1, explained_variance=None
    )
    assert dict(got) == pytest.approx({"precision": 1 / 3, "recall": 1.0, "density": 2 / 3, "coverage": 2 / 3})


@settings(max_examples=60, deadline=None)
@given(GRID, st.booleans())
def test_agrees_with_pairs_even_where_distances_tie(case, closed):
    seed, n, m, k = case
    rng = np.random.default_rng(seed)
    # Whole numbers: many equal distances and repeated rows, and all distances exact in float64.
    human, model = (rng.integers(0, 3, size=(rows, 2)).astype(float) for rows in (n, m))
    got = knn_precision_recall(human=human, model=model, k=k, explained_variance=None, closed=closed)
    assert dict(got) == pytest.approx(oracle.knn(human, model, k, closed=closed), abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(GRID, st.sampled_from([1e-6, 1.0, 1e12]), st.sampled_from([0.0, 1e3]))
def test_agrees_with_pairs_at_any_scale_and_offset(case, scale, offset):
    seed, n, m, k = case
    human, model = (normal(rows, 5, seed + i) * scale + offset * scale for i, rows in enumerate((n, m)))
    got = knn_precision_recall(human=human, model=model, k=k, explained_variance=None)
    assert dict(got) == pytest.approx(oracle.knn(human, model, k, closed=True), abs=1e-12)


def test_blocks_do_not_matter(monkeypatch):
    human, model = normal(90), normal(70, seed=1)
    whole = knn_precision_recall(human=human, model=model)
    monkeypatch.setattr(neighbors, "_BLOCK", 7)
    monkeypatch.setattr(neighbors, "_PAIRS", 30)
    assert knn_precision_recall(human=human, model=model) == whole


@pytest.mark.reference
def test_equals_prdc():
    prdc = pytest.importorskip("prdc", reason="prdc is not installed")
    human, model = normal(200, 12), normal(150, 12, seed=1, shift=0.4)
    with contextlib.redirect_stdout(io.StringIO()):
        want = prdc.compute_prdc(real_features=human, fake_features=model, nearest_k=5)
    got = knn_precision_recall(human=human, model=model, k=5, explained_variance=None)
    assert dict(got) == pytest.approx({k: float(v) for k, v in want.items()}, abs=1e-12)


@pytest.mark.parametrize("share", [None, 0.9])
def test_identical_sides_give_one(share):
    rows = np.vstack([normal(40), normal(10), normal(40, seed=1)[:3]])  # some texts are there twice
    got = knn_precision_recall(human=rows, model=rows.copy(), explained_variance=share)
    assert (got.precision, got.recall, got.coverage) == (1.0, 1.0, 1.0)
    shuffled = np.random.default_rng(0).permutation(rows)
    got = knn_precision_recall(human=rows, model=shuffled, explained_variance=share)
    assert (got.precision, got.recall, got.coverage) == (1.0, 1.0, 1.0)


def test_mode_collapse_keeps_precision_and_loses_recall():
    human = np.vstack([normal(50, 4, 0, 0), normal(50, 4, 1, 20)])
    got = knn_precision_recall(human=human, model=normal(100, 4, 2, 20), explained_variance=None)
    assert got.precision > 0.8
    assert got.recall < 0.6
    assert got.coverage < 0.6


def test_shift_lowers_precision():
    scores = [
        knn_precision_recall(human=normal(80), model=normal(80, seed=1, shift=s), explained_variance=None).precision
        for s in (0, 1, 2, 6)
    ]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] == 0


def test_open_balls_make_constant_features_miss():
    rows = np.ones((12, 3))
    assert knn_precision_recall(human=rows, model=rows, explained_variance=None).precision == 1
    assert knn_precision_recall(human=rows, model=rows, explained_variance=None, closed=False).precision == 0


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"human": normal(4)}, UndefinedMetric, "5 texts"),
        ({"human": np.zeros((0, 8))}, UndefinedMetric, "5 texts"),
        ({"human": np.full((9, 8), np.inf)}, ValueError, "finite"),
        ({"k": 0}, ValueError, "k:"),
        ({"explained_variance": 0.0}, ValueError, "explained_variance"),
        ({"rows": "l3"}, ValueError, "rows"),
    ],
)
def test_edges(change, error, message):
    with pytest.raises(error, match=message):
        knn_precision_recall(**({"human": normal(9), "model": normal(9)} | change))
    with pytest.raises(SpecError, match="k"):
        KnnPrecisionRecall(k=0)


def test_metric_notes_unequal_sides_and_sorts_by_id():
    spec = KnnPrecisionRecall()
    human, model = normal(40).astype("f4"), normal(30, seed=1).astype("f4")
    result = spec.compute(features(spec, human=human, model=model, n_human=40, n_model=30))
    assert result.primary == "precision"
    assert any("differ in size" in note for note in result.notes)
    turn = np.random.default_rng(0).permutation(40)
    (need,) = spec.needs()
    ids = [f"t/{i:06d}" for i in range(40)]
    back = spec.compute(
        Features(Side("human", tuple(ids[i] for i in turn), {need: human[turn]}), Side("m", ids[:30], {need: model}))
    )
    assert dict(back.values) == dict(result.values)
