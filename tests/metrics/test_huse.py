import csv
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core import DataError, Features, Plan, Ragged, Side, UndefinedMetric
from openended.harness.report.figures.people import build_regions
from openended.harness.run.measure import add_intervals
from openended.metrics import huse as huse_metric
from openended.metrics.huse import NLL, RATINGS, WORDS, Huse, PairRatings, huse
from openended.metrics.judgments import agreement
from tests.helpers import ROOT, SHARED, check_error
from tests.metrics.helpers import check_edges
from tests.oracles import huse as oracle

RELEASED = SHARED / "data/huse"
EXAMPLE = ROOT / "tasks/data/example_ratings.csv"
needs_data = pytest.mark.skipif(not RELEASED.is_dir(), reason="the released HUSE ratings are not beside the repository")


def make_columns(judgments, log_probs, lengths=1):
    """Columns of texts whose first half is human."""
    sizes = np.broadcast_to(lengths, len(judgments))
    is_model = np.arange(len(judgments)) >= len(judgments) // 2
    return {"judgments": judgments, "log_probs": log_probs, "lengths": sizes, "is_model": is_model}


def columns(n, seed=0, *, levels=None):
    """Random texts without any signal."""
    rng = np.random.default_rng(seed)
    ratings = rng.normal(size=2 * n) if levels is None else rng.integers(0, levels, 2 * n).astype(float)
    return make_columns(ratings, -10 * rng.random(2 * n) - 1, rng.integers(1, 5, 2 * n))


def write(path, rows):
    with path.open("w", newline="") as handle:
        csv.writer(handle).writerows(rows)
    return path


# hand values


def test_hand_value():
    """Ratings 0 0 1 (human) and 1 1 0 (model); log p a word −1 −2 −1 and −5 −6 −5; k = 1.

    Ratings alone, leave one out, all tied neighbors vote. Rating 0 holds human, human, model: a human there sees one
    human and one model, a vote tie, so human: right; the model sees two humans: wrong. Rating 1 holds human, model, model:
    the human sees two models: wrong; a model sees one of each: tie, human: wrong, twice. 4 of 6 wrong: HUSE-Q = 4/3.
    Both: sd of ratings 1/2; log p mean −10/3, deviations squared (7/3)² (4/3)² (7/3)² (5/3)² (8/3)² (5/3)² sum 228/9, sd
    sqrt(228/54) = 2.05. Scaled: human (0, -.49) (0, -.97) (2, -.49), model (2, -2.43) (2, -2.92) (0, -2.43). Nearest other:
    h1-h2 .49, h2-h1, h3-m1 at 1.95 against h1 at 2.0: wrong; m1-m2 .49, m2-m1, m3-h2 at 1.46: wrong. 2 of 6: HUSE = 2/3.
    HUSE-D = 1 + 2/3 - 4/3 = 1/3.
    """
    got = huse(**make_columns([0, 0, 1, 1, 1, 0], [-2, -4, -2, -10, -12, -10], 2), k=1)
    assert got.errors.tolist() == [0, 0, 1, 0, 0, 1]
    assert got.errors_q.tolist() == [0, 0, 1, 1, 1, 1]
    assert (got.huse, got.huse_q, got.huse_d) == pytest.approx((2 / 3, 4 / 3, 1 / 3), abs=1e-15)
    assert got["huse"] == got.huse
    assert "huse_d" in dict(got)


def test_distances_that_are_equal_but_for_rounding_tie():
    """0.1 + 0.2 is not 0.3 in floating point; as ratings they are, and both neighbors of 0.2 are equally far."""
    ratings = [0.1, 0.2, 0.1 + 0.2, 5.0, 5.1, 5.2]
    margins = huse(
        judgments=ratings, log_probs=[-1, -2, -3, -4, -5, -6], lengths=[1] * 6, is_model=[1, 1, 0, 0, 0, 1], k=1
    ).errors_q
    assert margins[1] == 1.0  # model and human tie: the vote goes to human


# the oracle


@settings(max_examples=60, deadline=None)
@given(
    st.integers(3, 20), st.integers(0, 10_000), st.sampled_from([None, 2, 4]), st.sampled_from(["include", "exclude"]),
    st.sampled_from(["human", "model"]), st.data(),
)  # fmt: skip
def test_oracle(n, seed, levels, ties, vote_tie, data):
    """Equal to brute force; 1e-12: shares of whole texts, divided once."""
    given_ = columns(n, seed, levels=levels)
    if len(set(given_["judgments"])) == 1:
        return
    k = data.draw(st.integers(1, 2 * n - 1))
    got = huse(**given_, k=k, ties=ties, vote_tie=vote_tie)
    want = oracle.huse(*map(list, given_.values()), k, ties=ties, vote_tie=int(vote_tie == "model"))
    assert (got.huse, got.huse_q, got.huse_d) == pytest.approx(want, abs=1e-12)


@pytest.mark.reference
@needs_data
def test_released_ratings():
    """The stored values with exact ties, for every k and vote tie; 0.53 / 0.58 / 0.95 were printed."""
    metric, features = Huse(scale_min=1, scale_max=6).from_file(RELEASED / "summarization.csv")
    result = metric.compute(features)
    assert [result.values[key] for key in ("huse", "huse_q", "huse_d")] == pytest.approx([0.53, 0.60, 0.93], abs=1e-9)
    expected = json.loads((RELEASED / "huse_expected.json").read_text())
    for name, value in expected["published_table1_t1.0"].items():
        assert result.values[name] == pytest.approx(value, abs=0.02 + 1e-9)
    rated = PairRatings.from_arrays(result.arrays)
    for name, scores in expected["exact_ties"]["scores"].items():
        k, _, tie = name.replace("reference", "human").partition(";vote_tie=")
        got = huse(**rated.columns(), k=int(k[2:]), vote_tie=tie)
        assert {key: got[key] for key in scores} == pytest.approx(scores, abs=1e-9)
    swapped = huse(**{**rated.columns(), "judgments": rated.log_probs / rated.lengths})
    assert 1 - swapped.huse_q / 2 == pytest.approx(expected["original_code"]["logp_only_leave_one_out_accuracy"])


# edges


def test_a_floor_stands_in_for_probability_zero():
    given_ = columns(20, 7)
    given_["log_probs"][3] = -np.inf
    before = {name: column.copy() for name, column in given_.items()}
    floored = dict(given_, log_probs=np.where(np.isneginf(given_["log_probs"]), -1000.0, given_["log_probs"]))
    assert huse(**given_).huse == huse(**floored).huse
    assert all(np.array_equal(before[name], given_[name]) for name in given_)


def test_edges():
    good = {**make_columns([1, 2, 3, 4], [-1, -2, -3, -4]), "is_model": [0, 1, 0, 1], "k": 1}
    nothing = {"judgments": [], "log_probs": [], "lengths": [], "is_model": []}
    given_ = columns(4, 8) | {"k": 2}
    check_edges([
        *((lambda c=c: huse(**(good | c)), ValueError, message) for c, message in (
            ({"judgments": [np.nan] * 4}, "judgments[0]"), ({"log_probs": [1, np.inf, 1, 1]}, "log_probs[1]"),
            ({"lengths": [1, 1, 0, 1]}, "lengths[2]"), ({"is_model": [1, 1, 1, 1]}, "0 human and 4 model"),
            ({"is_model": [1, 0, 2, 0]}, "is_model"), ({"is_model": [1, 0]}, "one shape"), ({"k": 0}, "k: expected"),
            (nothing, "0 human and 0 model"),
        )),
        *((lambda c=c: huse(**(given_ | c)), UndefinedMetric, message) for c, message in (
            ({"k": 8}, "k=8"), ({"judgments": np.full(8, 0.1)}, "same rating"),
            ({"log_probs": np.full(8, -3.0), "lengths": np.ones(8)}, "same log-probability"),
        )),
    ])  # fmt: skip


# the metric


def run_features(judged, ids, seed=0, *, zero=(), unit=WORDS):
    """A run's sides: random token probabilities of 5 tokens a text, 3 words."""
    rng = np.random.default_rng(seed)
    sides = []
    for system in ("human", "model"):
        nll = [rng.random(5) + (system == "model") for _ in ids]
        for i in zero if system == "human" else ():
            nll[i][2] = np.inf
        data = {
            RATINGS: judged,
            NLL: Ragged.from_rows(nll, np.float64),
            WORDS: Ragged.from_rows([[1, 2, 3]] * len(ids), np.int64),
        }
        sides.append(Side(system, tuple(ids), data))
    return Features(*sides, {"n": f"{len(ids)}/{len(ids)}"})


def test_joins_a_run_by_id_and_names_what_does_not_match():
    judged = Huse().read(EXAMPLE)
    ids = [f"example/{i:03d}" for i in range(2, 102)]
    result = Huse(k=5).compute(run_features(judged, ids, zero=(0, 4)))
    notes = " ".join(result.notes)
    assert "2 rated human texts are not in the run and were left out: example/000, example/001" in notes
    assert "2 rated model texts are not in the run" in notes
    assert "2 examples of the run were not rated" in notes
    assert "2 of 98 human and 0 of 98 model texts have probability zero" in notes
    assert "98 examples with both texts rated" in notes
    assert result.unranked == ("huse", "huse_d")
    errors = result.per_example["error_model"]
    assert errors.shape == (100,)
    assert np.isnan(errors[-2:]).all()
    both = np.concatenate([errors, result.per_example["error_human"]])
    assert 2 * np.nanmean(both) == pytest.approx(result.values["huse"])


def test_runs_that_cannot_be_scored():
    judged = Huse().read(EXAMPLE)
    unlikely = run_features(judged, [f"example/{i:03d}" for i in range(100)])
    unlikely.human.data[NLL].values[:] = np.nan
    check_edges([
        *((lambda f=f: Huse().compute(f), error, message) for f, error, message in (
            (run_features(judged, ["other/1"]), DataError, "no rated example is in the run"),
            (run_features(judged, ["example/000"] * 2), DataError, "several texts per example"),
            (unlikely, UndefinedMetric, "assigns no probabilities"),
            (Features(Side("human", (), {}), Side("model", (), {}), {}), DataError, "judgments=FILE"),
        )),
        (lambda: Huse(scale_max=4).compute(run_features(judged, ["example/000"])), DataError, "outside the scale"),
    ])  # fmt: skip


def test_a_file_by_itself_is_scored_from_its_columns(tmp_path):
    metric, features = Huse().from_file(EXAMPLE)
    result = metric.compute(features)
    assert result.status == "ok"
    assert "log_probs:column" in result.signature
    assert "judgments:example_ratings.csv@" in result.signature
    assert result.invented == "invented judgments"
    assert (result.n_human, result.n_model) == (100, 100)
    assert 0 < result.values["agreement"] < 1
    rows = list(csv.reader(EXAMPLE.read_text().splitlines()))
    shuffled = [rows[0], *[rows[1:][i] for i in np.random.default_rng(0).permutation(200)]]
    metric, features = Huse().from_file(write(tmp_path / "example_ratings.csv", shuffled))
    assert metric.compute(features).values == result.values
    bare = write(tmp_path / "bare.csv", [[c for j, c in enumerate(row) if j not in (2, 3)] for row in rows])
    metric, features = Huse().from_file(bare)
    check_error(DataError, "no column 'log_prob'", metric.compute, features)


# stability


def make_pairs(data):
    ids = tuple(map(str, range(len(data["judgments"]) // 2)))
    return PairRatings(ids, data["judgments"][:, None], data["log_probs"], data["lengths"].astype(float))


def test_intervals_are_around_the_value():
    """Texts at random: a bootstrap that let a text's copies vote would call 2 × 0.3 of the errors back, far below 1."""
    metric, features = Huse().from_file(EXAMPLE)
    result = add_intervals(metric, features, metric.compute(features), Plan(40))
    for name, value in result.values.items():
        low, high = metric.bounds_of(name, result)
        assert low <= value <= high, name
    for name in ("huse", "huse_q", "huse_d"):
        interval = result.intervals[name]
        assert interval["method"] == ("subsample" if name == "huse_d" else "wilson")
        assert interval["low"] < result.values[name] < interval["high"]
    few = Huse(k=4).score(make_pairs(columns(30, 10)), *[np.arange(30)[None, :] < [[12], [3]]] * 2)
    kept = columns(30, 10)
    rows = np.concatenate([np.arange(12), np.arange(30, 42)])
    assert few["huse"][0] == huse(**{name: column[rows] for name, column in kept.items()}, k=4).huse
    assert np.isnan(Huse(k=16).score(make_pairs(kept), *[np.arange(30)[None, :] < 5] * 2)["huse"]).all()


def test_curves_end_at_the_value_and_narrow():
    metric, features = Huse().from_file(EXAMPLE)
    rated = PairRatings.from_arrays(metric.compute(features).arrays)
    value = huse(**rated.columns())
    raters = huse_metric.draw_curve(rated, Huse(k=16), of_raters=True, sizes=[1, 5], draws=8)
    assert (raters.huse[-1], raters.huse_q[-1]) == pytest.approx((value.huse, value.huse_q))
    examples = huse_metric.draw_curve(rated, Huse(k=16), of_raters=False, sizes=[5, 30, 100], draws=8)
    assert np.isnan(examples.huse[0])  # 10 texts have no 16 neighbors
    assert examples.huse[-1] == pytest.approx(value.huse)
    assert examples.high[-1] == examples.low[-1] == pytest.approx(value.huse)
    assert examples.low[1] < examples.high[1]
    assert np.isnan(examples.low[0])


def test_agreement_between_raters():
    """Full agreement is 1; opposite raters fall below chance; one rating a text says nothing."""
    same = np.repeat(np.arange(6.0)[:, None], 3, axis=1)
    assert agreement(same) == pytest.approx(1.0)
    assert agreement(np.column_stack([np.arange(6.0), np.arange(6.0)[::-1]])) < 0
    assert math.isnan(agreement(same[:, :1]))
    assert math.isnan(agreement(np.ones((4, 2))))
    assert math.isnan(agreement(np.random.default_rng(0).random((80, 2))))
    # 2 × 2 units by hand: ratings (1, 1), (2, 2), (1, 2). Ordinal distance of levels 1 and 2 is one constant, so alpha =
    # 1 − (n − 1) × o12 / (n1 × n2) with n = 6 values, n1 = n2 = 3, and one mixed unit giving o12 = 1: 1 − 5/9 = 4/9.
    assert agreement(np.array([[1.0, 1.0], [2.0, 2.0], [1.0, 2.0]])) == pytest.approx(4 / 9)


def test_without_a_floor_probability_zero_is_undefined_everywhere():
    """The metric, its subsets and its figure share one statistic: none of them makes up a floor."""
    data = columns(30)
    data["log_probs"][3] = -np.inf
    rated = make_pairs(data)
    rule = Huse(log_prob_floor=None)
    draws = rule.score(rated, *[np.arange(30) != np.array([[3], [4]])] * 2)
    assert np.isnan(draws["huse"]).tolist() == [False, True], "a subset has a value where it leaves the text out"
    check_edges([
        (lambda: huse(**data, log_prob_floor=None), UndefinedMetric, "no log_prob_floor"),
        (lambda: build_regions({"model": (rated, rule)}), UndefinedMetric, "no log_prob_floor"),
    ])  # fmt: skip
