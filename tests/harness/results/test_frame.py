"""Reading of run folders: one row a value, nothing twice, nothing lost silently."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pandas as pd
import pytest

from openended.harness.core.errors import DataError
from openended.harness.results.axes import format_axis_value
from openended.harness.results.frame import filter_results, read_results, write_frame
from tests.harness.report.synthetic import result, write_run

FIXTURE = Path(__file__).parents[2] / "fixtures" / "report"


def one(value: float, seed: int | None = 0, **more):
    return {
        "results": [result("model", "m", {"m": value, "n": 1.0}), result("human", "m", {"m": 5.0, "n": 1.0})],
        **more,
    }


def test_one_row_a_value_with_every_axis(tmp_path):
    write_run(tmp_path, "nucleus", 0, **one(1.0))
    results = read_results([tmp_path])
    assert len(results.frame) == 4  # two values of the model, two of the human side
    row = results.frame.iloc[0]
    assert (row["decoder"], row["decoder.p"], row["seed"], row["value"], row["primary"]) == (
        "nucleus",
        0.95,
        0,
        1.0,
        True,
    )
    assert row["signature"].startswith("m|v:1")
    assert results.axes[:4] == ("task", "model", "decoder", "decoder.p")
    human = results.frame[results.frame["system"] == "human"].iloc[0]
    assert human["task"] == "docs"
    assert human["decoder"] is None  # the human side has no decoder


def test_the_newest_of_two_runs_counts_and_the_older_is_counted(tmp_path):
    write_run(tmp_path, "nucleus", 0, created="2026-01-01T00:00:00+00:00", **one(1.0))
    write_run(tmp_path, "nucleus", 0, created="2026-01-02T00:00:00+00:00", **one(2.0))
    results = read_results([tmp_path])
    (item,) = [i for i in results.values if i.key == "m" and i.system == "model"]
    assert (item.mean, item.seeds) == (2.0, 1)
    assert results.superseded == 1


def test_a_run_under_two_experiments_and_a_human_side_count_once(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path, "nucleus", seed, **one(1.0 + seed))
        write_run(tmp_path, "nucleus", seed, experiment="again", **one(1.0 + seed))
    items = read_results([tmp_path, tmp_path / "runs"]).values
    assert [(i.system, i.key, i.seeds) for i in items if i.key == "m"] == [("model", "m", 2), ("human", "m", 1)]


def test_seeds_are_folded_with_the_sample_standard_deviation(tmp_path):
    for seed, value in enumerate((1.0, 2.0, 4.0)):
        write_run(tmp_path, "nucleus", seed, **one(value))
    item = next(i for i in read_results([tmp_path]).values if i.key == "m")
    assert item.mean == pytest.approx(7 / 3, abs=1e-12)
    # deviations -4/3, -1/3, 5/3; squares 16/9 + 1/9 + 25/9 = 42/9; over n - 1 = 2: 7/3
    assert item.sd == pytest.approx(math.sqrt(7 / 3), abs=1e-12)


def test_unfinished_folders_are_passed_over_and_counted(tmp_path):
    write_run(tmp_path, "nucleus", 0, **one(1.0))
    (tmp_path / "runs" / "synthetic" / "20260102T030405-0123abcd").mkdir()
    results = read_results([tmp_path])
    assert (len(results.runs), results.unfinished) == (1, 1)


def test_a_null_value_is_nan_and_an_undefined_result_has_a_row(tmp_path):
    lines = [
        result("model", "m", {"m": None}, notes=["too few"]),
        result("model", "q", {}, primary="q", status="undefined", notes=["no Q"]),
    ]
    write_run(tmp_path, "beam", None, results=lines)
    items = {i.key: i for i in read_results([tmp_path]).values}
    assert math.isnan(items["m"].mean)
    assert items["m"].reason == "too few"
    assert (items["q"].reason, items["q"].seeds) == ("no Q", 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not a run record: expected a JSON object, got list"),
        (json.dumps({"schema": 9}), "expected record schema 3, got 9; run it again"),
        ("{}", "field 'schema' is missing"),
    ],
)
def test_a_broken_record_is_named(tmp_path, text, message):
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_results([tmp_path])
    assert "record.json" in str(caught.value)


def test_no_runs_and_no_path_are_errors(tmp_path):
    with pytest.raises(DataError, match="no finished run"):
        read_results([tmp_path])
    with pytest.raises(DataError, match="no such run folder"):
        read_results([tmp_path / "missing"])


def test_where_keeps_runs_and_the_human_side(tmp_path):
    for decoder in ("nucleus", "top_k", "greedy"):
        write_run(tmp_path, decoder, 0, **one(1.0))
    results = read_results([tmp_path], {"decoder": "nucleus|greedy"})
    assert {i.axes["decoder"] for i in results.values if i.system == "model"} == {"nucleus", "greedy"}
    assert any(i.system == "human" for i in results.values)
    assert filter_results(results, {"decoder.p": "0.95"}).frame["decoder"].dropna().unique().tolist() == ["nucleus"]
    with pytest.raises(DataError, match=r"no axis 'decodr' in these runs; did you mean 'decoder'\?"):
        filter_results(results, {"decodr": "x"})
    with pytest.raises(DataError, match="no value matches decoder=beam"):
        filter_results(results, {"decoder": "beam"})


def test_the_exported_files_hold_the_same_and_do_not_depend_on_order_or_time(tmp_path):
    # The jobs of a grid end in another order with every launcher; the human side that both share is shown as one's.
    for name, months in {"a": (1, 1), "b": (1, 2), "c": (2, 1)}.items():
        for seed, month in enumerate(months):
            stamp = f"2027-0{month}-01T00:00:00+00:00"
            write_run(tmp_path / name, "nucleus", seed, created=stamp, **one(1.0 + seed))
    first, *others = (write_frame(read_results([tmp_path / n]), tmp_path / f"{n}-out") for n in "abc")
    for other in others:
        assert [p.read_bytes() for p in other] == [p.read_bytes() for p in first]
    table = pd.read_parquet(first[0])
    assert len(table) == len(pd.read_csv(first[1])) == 6
    assert "at" not in table.columns
    assert table["seed"].notna().sum() == 4


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1 + 0.2, "0.3"), (None, ""), (math.nan, ""), (pd.NA, ""), (5, "5"), (True, "True"), ("x", "x")],
)
def test_axis_values_are_written_as_a_user_writes_them(value, text):
    assert format_axis_value(value) == text


def test_the_same_model_at_another_path_is_one_system(tmp_path):
    content = {"model": "tiny", "model.digest": "a" * 12}
    for seed, path in enumerate(("/data/tiny", "/home/me/tiny")):
        write_run(tmp_path, "nucleus", seed, axes={**content, "model.path": path})
    write_run(tmp_path, "nucleus", 2, axes={**content, "model.digest": "b" * 12, "model.path": "/other/tiny"})
    seeds = sorted({item.seeds for item in read_results([tmp_path]).values if item.system == "model"})
    assert seeds == [1, 2], "the copy is another seed of the same system; other content is another system"


def test_the_same_amateur_at_another_path_is_one_system(tmp_path):
    for seed, path in enumerate(("/data/tiny", "/home/me/tiny")):
        axes = {"decoder.amateur": {"dtype": "float32", "path": path}, "decoder.amateur.digest": "a" * 12}
        write_run(tmp_path, "contrastive_decoding", seed, axes=axes, **one(1.0 + seed))
    axes = {"decoder.amateur": {"dtype": "float32", "path": "/other/tiny"}, "decoder.amateur.digest": "b" * 12}
    write_run(tmp_path, "contrastive_decoding", 2, axes=axes, **one(3.0))
    seeds = sorted({item.seeds for item in read_results([tmp_path]).values if item.system == "model"})
    assert seeds == [1, 2]
