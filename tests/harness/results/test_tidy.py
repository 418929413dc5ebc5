"""Rows of the tidy frame."""

from __future__ import annotations

import math

from openended.harness.results.frame import read_results
from openended.harness.results.tidy import FIXED, INTERNAL, rows_of, serialize_axes, to_frame
from tests.harness.report.synthetic import result, write_run


def runs_of(folder, *made):
    """Run folders: (decoder, value of the system, value of the human side, moment)."""
    for decoder, value, human, day in made:
        lines = [result("model", "m", {"m": value}), result("human", "m", {"m": human})]
        write_run(folder, decoder, None, results=lines, created=f"2026-01-0{day}T00:00:00+00:00")
    return read_results([folder]).runs


def test_axes_are_one_text_whatever_their_order():
    assert serialize_axes({"b": 1, "a": None, "c": "x"}) == serialize_axes({"c": "x", "b": 1}) == '{"b": 1, "c": "x"}'


def test_the_newest_run_of_a_system_counts(tmp_path):
    rows, passed_over = rows_of(runs_of(tmp_path, ("greedy", 1.0, 5.0, 1), ("greedy", 2.0, 5.0, 2)))
    assert [(r["system"], r["value"]) for r in rows] == [("model", 2.0), ("human", 5.0)]
    assert passed_over == 1


def test_one_human_side_of_two_systems_counts_once_and_its_newest_value(tmp_path):
    rows, passed_over = rows_of(runs_of(tmp_path, ("greedy", 1.0, 5.0, 1), ("nucleus", 2.0, 6.0, 2)))
    assert sorted((r["system"], r["value"]) for r in rows) == [("human", 6.0), ("model", 1.0), ("model", 2.0)]
    assert passed_over == 1, "the older value that differs is counted"


def test_a_human_row_has_no_axes_of_who_writes(tmp_path):
    rows, _ = rows_of(runs_of(tmp_path, ("nucleus", 1.0, 5.0, 1)))
    human = next(r for r in rows if r["system"] == "human")
    assert human["task"] == "docs"
    assert not {"model", "decoder", "decoder.p", "seed"} & human.keys()
    assert (human["model_title"], human["decoder_title"]) == ("", "")


def test_one_type_a_column():
    rows = [
        {"n_human": 3, "value": 1, "x": True},
        {"n_human": None, "value": 0.5, "x": None},
        {"value": None, "x": None},
    ]
    frame = to_frame(rows, ["x"])
    assert list(frame.columns) == [*FIXED, "x", INTERNAL]
    assert frame["n_human"].dtype == "Int64"
    assert frame["value"].tolist()[:2] == [1.0, 0.5]
    assert math.isnan(frame["value"][2])
    assert frame["x"].dtype == "boolean"
    mixed = to_frame([{"x": 1}, {"x": "none"}], ["x"])
    assert mixed["x"].tolist() == ["1", "none"]
