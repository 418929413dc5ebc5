"""Comparisons as others lay them out."""

from __future__ import annotations

import numpy as np
import pytest

from openended.harness.core.errors import DataError
from openended.metrics.judgments import count_wins, read_comparisons, read_judgments


def wins(path, text, **options):
    path.write_text(text, encoding="utf-8")
    return count_wins(read_comparisons(path, **options)).matrix.tolist()


# x beats y twice, y beats x once, one tie: [[0, 2.5], [1.5, 0]].
SAME = [
    "item,system_a,system_b,outcome\n1,x,y,a\n2,y,x,b\n3,x,y,b\n4,x,y,tie\n",
    "question_id,model_a,model_b,winner\n1,x,y,model_a\n2,y,x,model_b\n3,x,y,model_b\n4,x,y,tie (bothbad)\n",
    "model_a,model_b,winner\nx,y,x\ny,x,x\nx,y,y\nx,y,draw\n",
    "model_a;model_b;winner\nx;y;1\ny;x;2\nx;y;2\nx;y;tie\n",
    "\ufeffid\tmodel_a\tmodel_b\twinner_model_a\twinner_model_b\twinner_tie\n1\tx\ty\t1\t0\t0\n2\ty\tx\t0\t1\t0\n3\tx\ty\t0\t1\t0\n4\tx\ty\t0\t0\t1\n",
    "system_a,system_b,wins_a,wins_b,ties\nx,y,2,1,1\n",
    "model_a,model_b,a_wins,b_wins,draws\nx,y,1,1,0\ny,x,0,1,1\n",
]


@pytest.mark.parametrize("text", SAME)
def test_one_set_of_votes_in_seven_layouts(tmp_path, text):
    assert wins(tmp_path / "votes.csv", text) == [[0.0, 2.5], [1.5, 0.0]]


def test_victories_are_counted(tmp_path):
    assert wins(tmp_path / "v.csv", "winner,loser,count\nx,y,3\ny,x,2\n") == [[0.0, 3.0], [2.0, 0.0]]
    assert wins(tmp_path / "v.csv", "winner,loser\nx,y\nx,y\ny,x\n") == [[0.0, 2.0], [1.0, 0.0]]


def test_systems_called_a_and_b_are_names_to_a_winner_and_sides_to_an_outcome(tmp_path):
    rows = "1,b,a,b\n2,b,a,a\n3,b,a,b\n"
    assert wins(tmp_path / "v.csv", "item,system_a,system_b,winner\n" + rows) == [[0.0, 1.0], [2.0, 0.0]]
    assert wins(tmp_path / "v.csv", "item,system_a,system_b,outcome\n" + rows) == [[0.0, 2.0], [1.0, 0.0]]


def test_random_ties_of_counts_are_drawn_one_by_one(tmp_path):
    path = tmp_path / "v.csv"
    path.write_text("system_a,system_b,wins_a,wins_b,ties\nx,y,0,0,400\n")
    drawn = count_wins(read_comparisons(path), ties="random").matrix
    assert drawn.sum() == 400
    assert 140 < drawn[0, 1] < 260  # 200 expected, 6 standard deviations of 10
    assert np.array_equal(drawn, count_wins(read_comparisons(path), ties="random").matrix)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model_a,model_b,winner\nx,y,z\n", r"v\.csv:2: winner: expected a, b or tie, 1 or 2, 'x' or 'y', got 'z'"),
        ("model_a,model_b,winner\nx,y,\n", r"v\.csv:2: no outcome; .*empty=skip"),
        ("model_a,model_b,winner_model_a,winner_model_b\nx,y,1,1\n", "winner_model_a and winner_model_b are both set"),
        ("system_a,system_b,wins_a,wins_b\nx,y,-1,2\n", "expected a count of at least 0, got -1"),
        ("winner,loser\nx,x\n", "'x' is compared with itself"),
    ],
)
def test_what_is_wrong_names_file_and_line(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        wins(tmp_path / "v.csv", text)


def test_empty_outcomes_and_ratings_are_left_out_on_request_and_counted(tmp_path):
    path = tmp_path / "v.csv"
    path.write_text("model_a,model_b,winner\nx,y,\nx,y,x\ny,x,y\n")
    made = read_comparisons(path, empty="skip")
    assert (made.empty, count_wins(made).empty, count_wins(made).compared) == (1, 1, 2)
    path.write_text("example_id,system,rating_1,rating_2\n1,human,3,\n2,human,,\n1,m,,2\n")
    with pytest.raises(DataError, match=r"v\.csv:3: example 2 \(human\) has no rating; .*empty=skip"):
        read_judgments(path)
    judged = read_judgments(path, empty="skip")
    assert (judged.empty, len(judged)) == (1, 2)


def test_columns_are_renamed(tmp_path):
    path = tmp_path / "v.csv"
    path.write_text("text_no;who;stars\n1;human;3\n1;m;2\n")
    judged = read_judgments(path, renamed={"example_id": "text_no", "system": "who", "rating": "stars"})
    assert judged.systems == ("human", "m")
