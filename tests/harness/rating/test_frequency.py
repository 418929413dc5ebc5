"""Typicality against the frequency of sentences in a corpus."""

import math

import pytest

from openended.harness.rating.commands import main
from openended.harness.rating.frequency import correlate_frequency, read_typicality

COUNTS = {"it rains": 27, "the cat sat": 9, "we left": 3, "an owl sang": 1}


@pytest.fixture
def files(tmp_path):
    rated = {text: 1 + math.log(count, 3) for text, count in COUNTS.items()} | {"nobody wrote this": 1.0}
    lines = [f"{text},{rating - 0.5:.4f},{rating + 0.5:.4f}" for text, rating in rated.items()]
    (tmp_path / "r.csv").write_text("\n".join(["text,rating_1,rating_2", *lines]) + "\n")
    corpus = [text.upper() for text, count in COUNTS.items() for _ in range(count)] + ["something else"]
    (tmp_path / "c.txt").write_text("\n".join(corpus) + "\n")
    return tmp_path


def test_ratings_linear_in_log_frequency_correlate_perfectly(files):
    found, absent = read_typicality(files / "r.csv", files / "c.txt")
    assert dict(zip(found["text"], found["count"], strict=True)) == COUNTS
    assert found["rating"].tolist() == pytest.approx([1 + math.log(count, 3) for count in found["count"]], abs=1e-3)
    # Two ratings 1 apart: sd 0.7071, standard error 0.5, and t of one degree of freedom at 95 % is 6.3138.
    assert found["reach"].tolist() == pytest.approx([3.1569] * 4, abs=1e-3)
    assert correlate_frequency(found) == pytest.approx((1.0, 1.0, 1.0), abs=1e-6)
    assert absent == 1


def test_the_command_writes_sentences_and_a_picture(files, capsys):
    words = ["frequency", str(files / "r.csv"), "--corpus", str(files / "c.txt"), "-o", str(files / "out.csv")]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "r = 1.00 [1.00, 1.00] between log-frequency and typicality; 4 sentences" in said
    assert "1 rated sentences are not in the corpus" in said
    assert (files / "out.csv").read_text().splitlines()[1].startswith("an owl sang,1,")
    assert (files / "out.png").read_bytes().startswith(b"\x89PNG")
    (files / "r.csv").write_text("id,rating\na,1\n")
    assert main(words) == 2
    assert "expected the columns text and rating" in capsys.readouterr().err
