"""`compute_mauve` against mauve-text: the numbers that it printed, and itself where it is installed."""

from __future__ import annotations

import math

import matplotlib as mpl
import numpy as np
import pytest

import openended as oe
from openended.harness.core.errors import SpecError
from openended.metrics.mauve import mauve
from tests.helpers import cases, check_error

NAMES = ("mauve", "frontier_integral", "mauve_star", "frontier_integral_star")
# (n, dimensions, shift) of `sides` → what mauve-text 0.4.0 printed with faiss-cpu 1.15.1
PRINTED = {
    (100, 1024, 0.0): (0.995946690809347, 0.010717178964610996, 0.9966749133824946, 0.009676758346651174),
    (500, 64, 0.3): (0.3068800472856859, 0.2894099910241514, 0.3795741488765707, 0.2505236191538577),
    (200, 16, 1.0): (0.019143577635164354, 0.7501380713206007, 0.039660487824395255, 0.6273202228824911),
}


def sides(n, d, shift):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.standard_normal((n, d)) + shift


@pytest.mark.parametrize("case", PRINTED)
def test_the_numbers_of_mauve_text(case):
    p, q = sides(*case)
    out = oe.compute_mauve(p_features=p, q_features=q)
    # An area or an integral is a sum of some hundred terms: the last bits depend on its order.
    assert [getattr(out, name) for name in NAMES] == pytest.approx(PRINTED[case], rel=0, abs=2e-15)
    assert out.num_buckets == case[0] / 10
    assert out.p_hist.sum() == pytest.approx(1)
    assert (out.interval is None) == (case[0] < 200)
    low, high = out.interval or (0.0, 1.0)
    assert low < out.mauve < high
    assert "mauve|v:" in out.signature


@cases("options", {}, {"num_buckets": 20, "seed": 3, "kmeans_num_redo": 2}, {"mauve_scaling_factor": 2})
def test_mauve_text_itself_where_it_is_installed(options):
    package = pytest.importorskip("mauve", reason="mauve-text is not installed")
    p, q = sides(300, 32, 0.2)
    theirs = package.compute_mauve(p_features=p, q_features=q, **options)
    ours = oe.compute_mauve(p_features=p, q_features=q, **options)
    mine, right = ([getattr(result, name) for name in NAMES] for result in (ours, theirs))
    assert mine == pytest.approx(right, rel=0, abs=2e-15)
    for name in ("p_hist", "q_hist"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    np.testing.assert_allclose(ours.divergence_curve, theirs.divergence_curve, rtol=2e-15, atol=1e-16)


def test_text_tokens_and_features_mix():
    texts = [f"The {word} was {other}." for word in ("cat", "dog", "house") for other in ("red", "blue", "old", "new")]
    options = {"featurize_model_name": "bundled:docs-s", "max_text_length": 32, "num_buckets": 3}
    features = np.random.default_rng(0).standard_normal((12, 4))
    by_text = oe.compute_mauve(p_text=texts, q_text=texts[::-1], **options)
    assert by_text.num_buckets == 3
    from openended.harness.models import ModelSpec, load_tokenizer

    tokenizer = load_tokenizer(ModelSpec(path="bundled:docs-s"))
    ids = [np.array([tokenizer.encode(text)]) for text in texts]
    assert oe.compute_mauve(p_tokens=ids, q_text=texts[::-1], **options).mauve == by_text.mauve
    with pytest.raises(ValueError, match="one dimension on both sides"):
        oe.compute_mauve(p_text=texts, q_features=features, **options)
    small = oe.compute_mauve(p_features=features[:9], q_features=features[3:], num_buckets=3)
    assert small.interval is None or math.isfinite(small.interval[0])


def test_pca_of_some_rows_needs_more_than_one_and_all_is_the_default():
    p, q = sides(200, 16, 0.3)
    some, every, default = (oe.compute_mauve(p_features=p, q_features=q, pca_max_data=n) for n in (50, 400, -1))
    assert some.mauve != every.mauve == default.mauve
    assert "|pca_max_data:none|" in default.signature


@cases(
    "given, message",
    ({"p_text": ["a"]}, "q: expected one of q_features, q_tokens, q_text, got none"),
    (
        {"p_text": ["a"], "p_tokens": [[1]], "q_text": ["a"]},
        "p: expected one of p_features, p_tokens, p_text, got p_tokens and p_text",
    ),
    ({"p_features": np.eye(9), "q_features": np.eye(9), "pca_max_data": 0}, "pca_max_data: expected at least 2"),
)
def test_one_line_says_what_is_missing(given, message):
    check_error(SpecError, message, oe.compute_mauve, **given)


def test_the_curve_is_drawn_and_a_measure_has_its_arrays(tmp_path):
    mpl.use("Agg")
    p, q = sides(200, 8, 0.5)
    out = oe.compute_mauve(p_features=p, q_features=q)
    line = out.plot(label="q").get_lines()[0]
    np.testing.assert_array_equal(line.get_xydata(), out.divergence_curve)
    assert repr(out).startswith(f"<MAUVE {out.mauve:.6g} [")
    assert out.mauve == mauve(human=p, model=q).mauve
    texts = [f"word {i} of {i % 7}" for i in range(40)]
    made = oe.measure("mauve", model_texts=texts, human_texts=texts[::-1], embedder="docs-s", outputs_dir=tmp_path)
    assert made.arrays["divergence_curves"].shape == (5, 27, 2)
    assert made.arrays["human_hists"].shape == made.arrays["model_hists"].shape == (5, 4)
