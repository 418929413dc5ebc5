import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core import DataError, Features, Side, UndefinedMetric
from openended.metrics.bradley_terry import PAIRS, BradleyTerry, bradley_terry
from openended.metrics.judgments import count_wins, read_comparisons
from tests.helpers import write_jsonl
from tests.oracles import bradley_terry as oracle

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared/data/pairwise"
EXAMPLE = ROOT / "tasks/data/example_pairs.csv"
needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason="the released comparisons are not beside the repository")


def random_wins(n, seed):
    """Every pair met and each side won at least once."""
    wins = np.random.default_rng(seed).integers(1, 30, (n, n)).astype(float)
    np.fill_diagonal(wins, 0)
    return wins


# hand values


def test_hand_value_of_two_players():
    """3 of 4 won: log odds ln 3, half on each side. Information of a difference is n p q = 4 × 3/4 × 1/4 = 3/4, so its
    standard error is sqrt(4/3), and half of that belongs to each score.
    """
    fit = bradley_terry([[0, 3], [1, 0]])
    assert fit.scores.tolist() == pytest.approx([math.log(3) / 2, -math.log(3) / 2], abs=1e-12)
    assert fit.std_errors.tolist() == pytest.approx([math.sqrt(4 / 3) / 2] * 2, abs=1e-12)
    assert fit["log_likelihood"] == pytest.approx(3 * math.log(3 / 4) + math.log(1 / 4), abs=1e-12)


# the oracle


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 7), st.integers(0, 10_000))
def test_oracle(n, seed):
    """Equal to Zermelo's iteration, run until it moves by less than 1e-13; 1e-9 for its slow end."""
    wins = random_wins(n, seed)
    fit = bradley_terry(wins)
    assert fit.scores.tolist() == pytest.approx(oracle.fit(wins.tolist()), abs=1e-9)
    assert fit.log_likelihood == pytest.approx(oracle.log_likelihood(wins.tolist(), fit.scores.tolist()), rel=1e-12)


@settings(max_examples=10, deadline=None)
@given(st.integers(2, 6), st.integers(0, 10_000))
def test_standard_errors_invert_the_numerical_curvature(n, seed):
    """Second differences of the likelihood with step 1e-3 are good to some 1e-5 of their size."""
    wins = random_wins(n, seed).tolist()
    fit = bradley_terry(wins)
    step = 1e-3 * np.eye(n)

    def at(move):
        return oracle.log_likelihood(wins, (fit.scores + move).tolist())

    curvature = np.array([
        [-(at(a + b) - at(a - b) - at(b - a) + at(-a - b)) / 4e-6 for b in step] for a in step
    ])  # fmt: skip
    projection = np.eye(n) - 1 / n
    np.testing.assert_allclose(fit.covariance @ curvature, projection, atol=1e-3)
    np.testing.assert_allclose(fit.covariance.sum(axis=1), 0, atol=1e-9)


@pytest.mark.reference
@needs_data
def test_released_comparisons(tmp_path):
    """Stored win rates and log odds of contrastive search over contrastive decoding, by domain and in all."""
    expected = json.loads((SHARED / "expected.json").read_text())
    header, *lines = (SHARED / "cs_vs_cd.csv").read_text().splitlines()
    for domain, wanted in expected["bradley_terry_log_odds"].items():
        part = tmp_path / f"{domain}.csv"
        part.write_text("\n".join([header, *(x for x in lines if domain in ("all", x.split(",")[1]))]))
        made = read_comparisons(part)
        assert made.players == ("contrastive_decoding", "contrastive_search")
        assert len(made.rows) == wanted["n"]
        for ties in ("half", "drop"):
            fit = bradley_terry(count_wins(made, ties=ties).matrix)
            stored = wanted["ties_half" if ties == "half" else "ties_dropped"]
            assert fit.scores[1] - fit.scores[0] == pytest.approx(stored, abs=1e-9)
        metric, features = BradleyTerry(display_scale=100.0, system="contrastive_search").from_file(part)
        assert metric.compute(features).values["bradley_terry"] == pytest.approx(wanted["mauve_scale_ties_half_cs"])
        if domain != "all":
            wins = count_wins(made, ties="drop")
            percent = expected["published_percent"][domain]
            shares = [100 * wins.matrix[1, 0], 100 * wins.ties, 100 * wins.matrix[0, 1]]
            names = ("contrastive_search", "tie", "contrastive_decoding")
            assert [s / 200 for s in shares] == pytest.approx([percent[name] for name in names])


# meaning


def simulate_study(rng, items=60, raters=5):
    """Raters of one item share its effect, so their judgments are not independent; both systems are equally good."""
    effects = rng.normal(0, 2.0, items)
    return [
        {"item": f"i{i:03d}", "system_a": "a", "system_b": "b", "outcome": "a" if won else "b", "rater": f"r{r}"}
        for i, effect in enumerate(effects)
        for r, won in enumerate(rng.random(raters) < 1 / (1 + np.exp(-effect)))
    ]


def score(tmp_path, rows):
    metric, features = BradleyTerry(system="a").from_file(write_jsonl(tmp_path / "study.jsonl", rows))
    return metric.compute(features)


@pytest.mark.slow
def test_standard_errors_cover_where_several_raters_judge_one_item(tmp_path):
    """Of 120 studies, the true score 0 is within 1.96 errors in about 95 percent (sd 2 points)."""
    rng, covered = np.random.default_rng(0), 0
    for _ in range(120):
        result = score(tmp_path, simulate_study(rng))
        covered += abs(result.values["bradley_terry"]) < 1.96 * result.sd["bradley_terry"]
    assert 0.88 < covered / 120 < 0.995
    assert "clustered by item, 60 items" in " ".join(result.notes)


def test_the_error_grows_where_few_raters_with_a_taste_of_their_own_judge_many_items(tmp_path):
    """Every item is judged once; a rater's taste moves all its judgments, so the raters count, not their judgments."""
    rng, scores, errors = np.random.default_rng(0), [], []
    for _ in range(60):
        rows = [{**row, "item": f"{row['item']}{row['rater']}", "rater": row["item"]}
                for row in simulate_study(rng, items=25, raters=40)]  # fmt: skip
        result = score(tmp_path, rows)
        scores.append(result.values["bradley_terry"])
        errors.append(result.sd["bradley_terry"])
    assert "clustered by rater, 25 raters" in " ".join(result.notes)
    assert np.mean(errors) == pytest.approx(np.std(scores), rel=0.2)


def test_copies_of_a_judgment_do_not_shrink_the_error(tmp_path):
    rows = simulate_study(np.random.default_rng(1), raters=1)
    copies = [{**row, "rater": f"copy{c}"} for row in rows for c in range(4)]
    one, four = (score(tmp_path, study).sd["bradley_terry"] for study in (rows, copies))
    assert four == pytest.approx(one, rel=0.03)


# edges


def test_disconnected_comparisons_are_refused_by_name():
    apart = np.zeros((4, 4))
    apart[0, 2] = apart[2, 0] = apart[1, 3] = apart[3, 1] = 3
    unbeaten, winless = random_wins(3, 0), random_wins(3, 0)
    unbeaten[:, 1], winless[1, :] = 0, 0
    for wins, message in [
        (apart, r"groups of players: a, c \| b, d"),
        (unbeaten, r"no finite scores: .*b never lost to another player"),
        (winless, "b never beat another player"),
    ]:
        with pytest.raises(UndefinedMetric, match=message):
            bradley_terry(wins, players="abcd"[: len(wins)])


@pytest.mark.parametrize(
    ("wins", "message"),
    [
        ([], "square"),
        ([[0]], "at least 2"),
        ([[0, 1]], "square"),
        ([[0, -1], [1, 0]], "at least 0"),
        ([[0, math.nan], [1, 0]], "finite"),
        ([[1, 1], [1, 0]], "player 0 has wins against itself"),
    ],
)
def test_wrong_wins(wins, message):
    with pytest.raises(ValueError, match=message):
        bradley_terry(wins)


def test_names_must_fit_and_inputs_stay():
    wins = random_wins(3, 1)
    before = wins.copy()
    bradley_terry(wins)
    np.testing.assert_array_equal(wins, before)
    with pytest.raises(ValueError, match="expected 3 names, got 2"):
        bradley_terry(wins, players=["a", "b"])


@pytest.mark.parametrize("ratio", [1e-3, 1e3, 1e6])
def test_extreme_and_fractional_counts_converge(ratio):
    fit = bradley_terry([[0, ratio], [1, 0]])
    assert fit.scores[0] - fit.scores[1] == pytest.approx(math.log(ratio), abs=1e-8)
    chain = np.zeros((12, 12))
    for i in range(11):
        chain[i, i + 1], chain[i + 1, i] = 1000, 1
    assert np.diff(bradley_terry(chain).scores).tolist() == pytest.approx([-math.log(1000)] * 11, abs=1e-6)


# the metric


def test_a_file_by_itself_gives_every_player():
    metric, features = BradleyTerry().from_file(EXAMPLE)
    result = metric.compute(features)
    for criterion in ("human_like", "interesting"):
        own = {k: v for k, v in result.values.items() if k.startswith(f"{criterion}/")}
        assert len(own) == 4
        assert sum(own.values()) == pytest.approx(0, abs=1e-9)
        assert min(own, key=own.get) == f"{criterion}/greedy"
        assert result.arrays[f"{criterion}/wins"].sum() == 180
    assert result.values["bradley_terry"] == result.values["human_like/nucleus"]
    assert result.sd["bradley_terry"] == result.sd["human_like/nucleus"] > 0
    assert "180 comparisons of 4 players" in result.notes[0]
    assert "judgments:example_pairs.csv@" in result.signature


def test_a_system_under_test_gives_its_own_scores():
    metric, features = BradleyTerry(criterion="interesting", min_seconds=25, ties="drop").from_file(EXAMPLE)
    one = Features(features.human, Side("greedy", features.model.ids, features.model.data), features.facts)
    result = metric.compute(one)
    assert list(result.values) == ["bradley_terry"]
    assert result.values["bradley_terry"] < 0
    assert "faster than 25 s left out" in result.notes[0]
    both = BradleyTerry(system="human", display_scale=100.0).compute(features)
    assert set(both.values) == {"bradley_terry", "human_like", "interesting"}
    assert both.values["human_like"] > 20


def test_what_cannot_be_scored():
    _, features = BradleyTerry().from_file(EXAMPLE)
    with pytest.raises(
        UndefinedMetric, match="'beam' was not compared; the file has ancestral, greedy, human, nucleus"
    ):
        BradleyTerry(system="beam").compute(features)
    with pytest.raises(DataError, match="no criterion 'sensible'; it has human_like, interesting"):
        BradleyTerry(criterion="sensible").compute(features)
    with pytest.raises(DataError, match="judgments=FILE"):
        BradleyTerry().compute(Features(Side("human", (), {}), Side("model", (), {}), {}))
    with pytest.raises(TypeError, match="expected ComparisonFile, got list"):
        BradleyTerry().compute(Features(Side("human", (), {PAIRS: []}), Side("model", (), {PAIRS: []}), {}))
