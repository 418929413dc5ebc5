import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.metrics.precision_recall_curve import PrecisionRecallCurve, precision_recall_curve
from tests.helpers import features
from tests.oracles import mauve as oracle

HISTOGRAMS = st.integers(2, 10).flatmap(
    lambda k: st.tuples(*[st.lists(st.integers(0, 20), min_size=k, max_size=k).filter(any) for _ in range(2)])
)


def test_hand_value_at_equal_weights():
    """p = (.5, .5), q = (1, 0). At angle 45° the slope is 1: precision = min(.5, 1) + min(.5, 0) = .5 = recall.

    As the slope grows precision tends to 1 (every model cell is a human one) and recall to .5 / slope; the best F1/8 is at
    slope 2: precision 1, recall .5, (1 + 1/64) · .5 / (1/64 + .5) = .5078125 / .515625 = .984848.
    """
    got = precision_recall_curve(human_hist=np.array([0.5, 0.5]), model_hist=np.array([1.0, 0.0]), num_angles=3)
    assert (got.precision[1], got.recall[1]) == pytest.approx((0.5, 0.5))
    fine = precision_recall_curve(human_hist=np.array([0.5, 0.5]), model_hist=np.array([1.0, 0.0]), num_angles=20001)
    assert fine.f1_8 == pytest.approx(0.984848, abs=1e-4)


@settings(max_examples=50, deadline=None)
@given(HISTOGRAMS)
def test_agrees_with_the_plain_formula(counts):
    p, q = (np.array(x) / sum(x) for x in counts)
    got = precision_recall_curve(human_hist=p, model_hist=q, num_angles=11)
    for angle, precision, recall in zip(
        np.linspace(1e-10, np.pi / 2 - 1e-10, 11), got.precision, got.recall, strict=True
    ):
        # 1e-9: min(1, …) cuts rounding at the ends.
        assert (precision, recall) == pytest.approx(oracle.prd(p, q, np.tan(angle)), abs=1e-9)


def test_identical_and_disjoint_histograms():
    p = np.array([0.2, 0.3, 0.5])
    same = precision_recall_curve(human_hist=p, model_hist=p)
    assert (same.f8, same.f1_8) == pytest.approx((1.0, 1.0), abs=1e-9)
    apart = precision_recall_curve(human_hist=np.array([1.0, 0.0]), model_hist=np.array([0.0, 1.0]))
    assert apart.f8 == apart.f1_8 == 0


def test_missing_cells_cost_recall_and_added_cells_precision():
    wide, narrow = np.full(10, 0.1), np.r_[np.full(3, 1 / 3), np.zeros(7)]
    missing = precision_recall_curve(human_hist=wide, model_hist=narrow)
    adding = precision_recall_curve(human_hist=narrow, model_hist=wide)
    assert missing.f1_8 > 0.9 > missing.f8
    assert adding["f8"] > 0.9 > adding["f1_8"]
    assert missing.f8 == pytest.approx(adding.f1_8)


def test_edges():
    p = np.array([0.5, 0.5])
    for bad in (np.array([]), np.array([0.0, 0.0]), np.array([-1.0, 2.0]), np.array([np.nan, 1.0]), np.eye(2)):
        with pytest.raises(ValueError, match="hist"):
            precision_recall_curve(human_hist=bad, model_hist=p)
    with pytest.raises(ValueError, match="cells"):
        precision_recall_curve(human_hist=p, model_hist=np.ones(3))
    with pytest.raises(ValueError, match="num_angles"):
        precision_recall_curve(human_hist=p, model_hist=p, num_angles=2)
    one = precision_recall_curve(human_hist=np.ones(1), model_hist=np.ones(1))
    assert one.f8 == pytest.approx(1)
    with pytest.raises(SpecError, match="num_angles"):
        PrecisionRecallCurve(num_angles=1)


def test_metric():
    rng = np.random.default_rng(0)
    human, model = rng.normal(size=(60, 6)).astype("f4"), rng.normal(size=(60, 6)).astype("f4") + 1
    spec = PrecisionRecallCurve(clustering_seeds=2)
    same = spec.compute(features(spec, human=human, model=human, n_human=60, n_model=60))
    other = spec.compute(features(spec, human=human, model=model, n_human=60, n_model=60))
    assert same.values["f8"] == pytest.approx(1)
    assert other.values["f8"] < 0.9
    assert set(other.sd) == {"f8", "f1_8"}
    assert other.arrays["precision"].shape == (1001,)
    with pytest.raises(UndefinedMetric):
        spec.compute(features(spec, human=human[:1], model=model, n_human=1, n_model=60))
