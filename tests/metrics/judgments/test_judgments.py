"""Files of ratings and of comparisons: layouts, wins, and what is refused."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from openended.harness.core.errors import DataError
from openended.metrics.judgments import count_wins, read_comparisons, read_judgments

ROOT = Path(__file__).parents[3]
WIDE = (
    "example_id,is_model,log_prob,length,rating_1,rating_2\na,0,-3.5,2,1,2\na,1,-inf,4,5,\nb,1,-1,1,3,3\nb,0,-2,2,4,4\n"
)
LONG = (
    "example_id,system,rater,rating,log_prob,length\n"
    "b,human,r1,4,-2,2\nb,human,r2,4,-2,2\na,nucleus,r1,5,-inf,4\nb,nucleus,r2,3,-1,1\nb,nucleus,r1,3,-1,1\n"
    "a,human,r1,1,-3.5,2\na,human,r2,2,-3.5,2\n"
)


@pytest.fixture
def write(tmp_path):
    def write_file(text, name="ratings.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write_file


# ratings


def test_wide_and_long_files_hold_the_same(write):
    """Rows come sorted by example, human first: a human, a model, b human, b model."""
    wide, long = read_judgments(write(WIDE)), read_judgments(write(LONG, "long.csv"))
    assert wide.example_ids == long.example_ids == ("a", "a", "b", "b")
    assert wide.systems == ("human", "model", "human", "model")
    assert long.systems == ("human", "nucleus", "human", "nucleus")
    for judgments in (wide, long):
        np.testing.assert_array_equal(judgments.ratings, [[1, 2], [5, np.nan], [4, 4], [3, 3]])
        assert judgments.log_probs.tolist() == [-3.5, -np.inf, -2.0, -1.0]
        assert judgments.lengths.tolist() == [2, 4, 2, 1]
    assert (wide.raters, long.raters) == (("rating_1", "rating_2"), ("r1", "r2"))
    assert wide.source.startswith("ratings.csv@")
    assert len(wide.source) == len("ratings.csv@") + 6
    np.testing.assert_array_equal(
        read_judgments(write(WIDE.replace(",", "\t"), "r.tsv")).ratings,
        read_judgments(write(gzip.compress(WIDE.replace("\n", "\r\n").encode()), "r.csv.gz")).ratings,
    )


def test_lists_in_json_lines(write):
    rows = [
        {"example_id": "a", "is_model": False, "ratings": [2, 1]},
        {"example_id": "a", "is_model": True, "ratings": [5]},
        {"example_id": 7, "is_model": 1, "ratings": [3, None, 3.5]},
    ]
    judgments = read_judgments(write("\n".join(map(json.dumps, rows)), "r.jsonl"))
    assert judgments.example_ids == ("7", "a", "a")
    np.testing.assert_array_equal(np.nanmean(judgments.ratings, axis=1), [3.25, 1.5, 5])
    assert (judgments.log_probs, judgments.raters) == (None, ())


def test_anonymous_ratings_do_not_depend_on_their_order(write):
    lines = ["a,0,1", "a,0,3", "a,0,2", "a,1,4", "a,1,4"]
    one, other = (
        read_judgments(write("\n".join(["example_id,is_model,rating", *order]))) for order in (lines, lines[::-1])
    )
    np.testing.assert_array_equal(one.ratings, other.ratings)
    np.testing.assert_array_equal(one.ratings, [[1, 2, 3], [4, 4, np.nan]])
    assert one.raters == ()


@pytest.mark.parametrize(
    ("name", "text", "renamed"),
    [
        ("long.csv", "example_id,system,rating,rater\n1,human,3,a\n1,m,4,a\n1,human,2,b\n1,m,5,b\n", {}),
        ("bom.csv", "\ufeffexample_id;system;rating;rater\r\n1;human;3;a\r\n1;m;4;a\r\n1;human;2;b\r\n1;m;5;b\r\n", {}),
        ("own.tsv", "text\tby\tscore_given\twho\n1\thuman\t3\ta\n1\tm\t4\ta\n1\thuman\t2\tb\n1\tm\t5\tb\n",
         {"example_id": "text", "system": "by", "rating": "score_given", "rater": "who"}),
        ("wide.csv", "example_id,system,rating_a,rating_b\n1,human,3,2\n1,m,4,5\n", {"rating_1": "rating_a", "rating_2": "rating_b"}),
        ("lists.jsonl", '{"id": 1, "system": "human", "ratings": [3, 2]}\n{"id": 1, "system": "m", "ratings": [4, 5]}\n', {}),
        ("both.csv", ("example_id,system,rating,rater,system_a,system_b,outcome\n1,human,3,a,,,\n1,m,4,a,,,\n1,human,2,b,,,\n"
         "1,m,5,b,,,\n1,,,a,human,m,b\n"), {}),
    ],
)  # fmt: skip
def test_one_study_in_many_layouts(write, name, text, renamed):
    judgments = read_judgments(write(text, name), renamed=renamed)
    assert judgments.systems == ("human", "m")
    assert [sorted(row) for row in judgments.ratings] == [[2.0, 3.0], [4.0, 5.0]]


HEAD = "example_id,is_model,rating"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no rows"),
        (f"{HEAD}\n", "no rows"),
        ("example_id,is_model\na,1\n", "expected a column 'rating'"),
        ("is_model,rating\n1,1\n", "expected a column 'example_id'"),
        ("example_id,rating\na,1\n", "expected a column 'is_model' or 'system'"),
        ("example_id,system,score_given\n1,human,3\n",
         r"expected a column 'rating' or 'rating_1'.*judgment_columns=\{rating: THEIRS\}"),
        ("example_id,rating,rating\na,1,1\n", ":1: column 'rating' appears more than once"),
        (f"{HEAD}\na,1\n", ":2: expected 3 cells as in the header, got 2"),
        (f"{HEAD}\na,1,good\n", ":2: column 'rating': expected a number, got 'good'"),
        ("example_id;system;rating\n1;human;3,5\n", "expected a number, got '3,5'; write decimals with a point"),
        (f"{HEAD}\na,1,inf\n", ":2: column 'rating': expected a finite number"),
        (f"{HEAD}\na,1,1e308\n", "expected a number of at most 1e"),
        (f"{HEAD}\na,1,{'9' * 5000}\n", "expected a"),
        (f"{HEAD},log_prob\na,1,3,0.5\n", "expected a log-probability, 0 or less, got 0.5"),
        (f"{HEAD},log_prob\na,1,3,-1e300\n", "expected a number of at most 1e"),
        (f"{HEAD}\na,2,1\n", ":2: column 'is_model': expected 1 or 0, got '2'"),
        (f"{HEAD}\n,1,1\n", ":2: column 'example_id' is empty"),
        (f"{HEAD}\na,1,7\n", r":2: example a \(model\): rating 7 is outside the scale 1 to 6"),
        (f"{HEAD}\na,1,\n", r":2: example a \(model\) has no rating"),
        ("example_id,is_model,rating_1,rating_2\na,0,1,1\na,1,,NA\n", r":3: example a \(model\) has no rating"),
        ("example_id,is_model,rating_1\na,0,1\na,0,1\n", r":3: example a \(human\) is there twice; first at .*:2"),
        (f"{HEAD},rater\na,0,1,x\na,0,2,x\n", r":3: example a \(human\) by rater x is there twice"),
        (f"{HEAD},rater\na,0,1,\n", ":2: column 'rater' is empty"),
        (f"{HEAD},length\na,0,1,3\na,0,1,4\n", r":3: example a \(human\): length was 3.0 before, now 4"),
        ("example_id,is_model,system,rating\na,1,human,1\n", ":2: is_model is 1 but system is 'human'"),
        (f'{HEAD}\n"a"b,1,1\n', "not CSV"),
        (f"{HEAD}\n".encode() + b"\xff\xfe,1,1\n", "not UTF-8"),
        ("example_id,system,rating\n1,human,3\n".encode("utf-16"), "iconv -f UTF-16 -t UTF-8"),
    ],
)  # fmt: skip
def test_bad_files(write, text, message):
    with pytest.raises(DataError, match=message) as caught:
        read_judgments(write(text), scale=(1, 6))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_unreadable_files(write, tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_judgments(tmp_path / "none.csv")
    with pytest.raises(DataError, match=r"expected a \.csv, \.tsv or \.jsonl file"):
        read_judgments(write(WIDE, "ratings.xlsx"))
    with pytest.raises(DataError, match="expected a list of numbers"):
        read_judgments(write('{"example_id": "a", "is_model": 1, "ratings": 3}', "r.jsonl"))
    rows = "".join(f"{i},{i % 2},{i % 5}\n" for i in range(5000))
    data = gzip.compress(f"{HEAD}\n{rows}".encode(), mtime=0)
    middle = len(data) // 2
    for damaged in (data[:middle], data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :]):
        with pytest.raises(DataError, match=r"j\.csv\.gz"):
            read_judgments(write(damaged, "j.csv.gz"))


def test_sides(write):
    judgments = read_judgments(write("example_id,system,rating\na,human,1\na,greedy,2\na,nucleus,3\n"))
    with pytest.raises(DataError, match="ratings of greedy, nucleus; say which"):
        judgments.model_system(None)
    with pytest.raises(DataError, match="no ratings of system 'beam'"):
        judgments.model_system("beam")
    assert judgments.model_system("nucleus") == "nucleus"
    assert judgments.rows_of("nucleus") == {"a": 2}
    for side in ("human", "greedy"):
        alone = read_judgments(write(f"example_id,system,rating\na,{side},1\n"))
        with pytest.raises(DataError, match="expected ratings of human and of model texts"):
            alone.model_system(None)


# comparisons

PAIRS = (
    "item,system_a,system_b,outcome,criterion,rater,seconds\n"
    "1,x,y,a,fun,r1,30\n1,x,y,tie,fun,r2,26\n1,y,x,a,fun,r3,10\n1,x,y,b,sense,r1,\n2,x,z,a,fun,r1,25\n"
)


def test_counts_wins(write):
    """fun: x beat y once and tied once, y beat x once (in 10 s), x beat z once."""
    comparisons = read_comparisons(write(PAIRS))
    assert (comparisons.players, comparisons.criteria) == (("x", "y", "z"), ("fun", "sense"))
    half = count_wins(comparisons, criterion="fun")
    assert half.matrix.tolist() == [[0, 1.5, 1], [1.5, 0, 0], [0, 0, 0]]
    assert (half.compared, half.ties, half.too_fast) == (4, 1, 0)
    drop = count_wins(comparisons, criterion="fun", ties="drop", min_seconds=25)
    assert drop.matrix.tolist() == [[0, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert (drop.compared, drop.ties, drop.too_fast) == (2, 1, 1)
    assert count_wins(comparisons, min_seconds=25).matrix[1, 0] == 1.5  # a judgment of unknown time stays
    rows = {tuple(count_wins(comparisons, criterion="fun", ties="random", seed=s).matrix[0]) for s in range(20)}
    assert rows == {(0, 2, 1), (0, 1, 1)}


def test_a_matrix_of_wins_is_read_as_it_is(write):
    comparisons = read_comparisons(write("winner,y,x\ny,,2.5\nx,1,\n"))
    assert comparisons.players == ("y", "x")
    np.testing.assert_array_equal(count_wins(comparisons).matrix, [[0, 2.5], [1, 0]])
    with pytest.raises(DataError, match="knows no criterion"):
        count_wins(comparisons, criterion="fun")
    with pytest.raises(DataError, match="expected a count of wins, got '-1'"):
        read_comparisons(write("w,x,y\nx,,-1\ny,2,\n"))


def test_options_that_the_file_cannot_serve(write):
    comparisons = read_comparisons(write("item,system_a,system_b,outcome\n1,x,y,a\n"))
    with pytest.raises(DataError, match="no criterion 'fun'; it has none"):
        count_wins(comparisons, criterion="fun")
    with pytest.raises(DataError, match="no column 'seconds'"):
        count_wins(comparisons, min_seconds=25)
    with pytest.raises(DataError, match="expected a column 'outcome'"):
        read_comparisons(write("item,system_a,system_b\n1,x,y\n"))


# comparisons as others lay them out

# x beats y twice, y beats x once, one tie: [[0, 2.5], [1.5, 0]].
LAYOUTS = [
    "item,system_a,system_b,outcome\n1,x,y,a\n2,y,x,b\n3,x,y,b\n4,x,y,tie\n",
    "question_id,model_a,model_b,winner\n1,x,y,model_a\n2,y,x,model_b\n3,x,y,model_b\n4,x,y,tie (bothbad)\n",
    "model_a,model_b,winner\nx,y,x\ny,x,x\nx,y,y\nx,y,draw\n",
    "model_a;model_b;winner\nx;y;1\ny;x;2\nx;y;2\nx;y;tie\n",
    "\ufeffid\tmodel_a\tmodel_b\twinner_model_a\twinner_model_b\twinner_tie\n1\tx\ty\t1\t0\t0\n2\ty\tx\t0\t1\t0\n3\tx\ty\t0\t1\t0\n4\tx\ty\t0\t0\t1\n",
    "system_a,system_b,wins_a,wins_b,ties\nx,y,2,1,1\n",
    "model_a,model_b,a_wins,b_wins,draws\nx,y,1,1,0\ny,x,0,1,1\n",
]


def count(path, **options):
    return count_wins(read_comparisons(path, **options)).matrix.tolist()


@pytest.mark.parametrize("text", LAYOUTS)
def test_one_set_of_votes_in_seven_layouts(write, text):
    assert count(write(text)) == [[0.0, 2.5], [1.5, 0.0]]


@pytest.mark.parametrize(
    ("text", "wins"),
    [
        ("winner,loser,count\nx,y,3\ny,x,2\n", [[0, 3], [2, 0]]),
        ("winner,loser\nx,y\nx,y\ny,x\n", [[0, 2], [1, 0]]),
        # Systems called a and b are names to a winner and sides to an outcome.
        ("item,system_a,system_b,winner\n1,b,a,b\n2,b,a,a\n3,b,a,b\n", [[0, 1], [2, 0]]),
        ("item,system_a,system_b,outcome\n1,b,a,b\n2,b,a,a\n3,b,a,b\n", [[0, 2], [1, 0]]),
    ],
)
def test_victories_and_names(write, text, wins):
    assert count(write(text)) == wins


def test_random_ties_of_counts_are_drawn_one_by_one(write):
    comparisons = read_comparisons(write("system_a,system_b,wins_a,wins_b,ties\nx,y,0,0,400\n"))
    wins = count_wins(comparisons, ties="random").matrix
    assert wins.sum() == 400
    assert 140 < wins[0, 1] < 260  # 200 expected, 6 standard deviations of 10
    assert np.array_equal(wins, count_wins(comparisons, ties="random").matrix)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{PAIRS}1,x,x,a,fun,r1,30\n", "'x' is compared with itself"),
        (f"{PAIRS}1,x,y,c,fun,r1,30\n", "outcome: expected a, b or tie, 1 or 2, 'x' or 'y', got 'c'"),
        (f"{PAIRS}1,x,y,a,fun,r1,soon\n", "column 'seconds': expected a number"),
        (f"{PAIRS}1,x,y,a,fun,r1,-1\n", "seconds: expected a number of at least 0"),
        (f"{PAIRS}1,x,,a,fun,r1,1\n", "column 'system_b' is empty"),
        (f"{PAIRS}1,y,x,a,fun,r1,30\n", "item 1, rater r1: the pair is there twice"),
        ("model_a,model_b,winner\nx,y,z\n", r"v\.csv:2: winner: expected a, b or tie, 1 or 2, 'x' or 'y', got 'z'"),
        ("model_a,model_b,winner\nx,y,\n", r"v\.csv:2: no outcome; .*empty=skip"),
        ("model_a,model_b,winner_model_a,winner_model_b\nx,y,1,1\n", "winner_model_a and winner_model_b are both set"),
        ("system_a,system_b,wins_a,wins_b\nx,y,-1,2\n", "expected a count of at least 0, got -1"),
        ("winner,loser\nx,x\n", "'x' is compared with itself"),
    ],
)
def test_bad_comparisons(write, text, message):
    with pytest.raises(DataError, match=message):
        read_comparisons(write(text, "v.csv"))


def test_empty_outcomes_and_ratings_are_left_out_on_request_and_counted(write):
    comparisons = read_comparisons(write("model_a,model_b,winner\nx,y,\nx,y,x\ny,x,y\n"), empty="skip")
    assert (comparisons.empty, count_wins(comparisons).empty, count_wins(comparisons).compared) == (1, 1, 2)
    path = write("example_id,system,rating_1,rating_2\n1,human,3,\n2,human,,\n1,m,,2\n", "v.csv")
    with pytest.raises(DataError, match=r"v\.csv:3: example 2 \(human\) has no rating; .*empty=skip"):
        read_judgments(path)
    judged = read_judgments(path, empty="skip")
    assert (judged.empty, len(judged)) == (1, 2)


def test_the_shipped_examples_come_from_their_script(tmp_path):
    subprocess.run([sys.executable, ROOT / "scripts/make_example_judgments.py", tmp_path], check=True, timeout=240)
    for name in ("example_ratings.csv", "example_pairs.csv"):
        assert (tmp_path / name).read_bytes() == (ROOT / "tasks/data" / name).read_bytes()
