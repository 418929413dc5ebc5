"""The record of a run: written and read by the same classes, told in one line where it is damaged; what made it."""

import importlib.metadata
import json
import math
import platform
import random
import subprocess
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core import DataError, MetricResult, RunNote, decode, to_json, write_json
from openended.harness.run.measure import describe_result
from openended.harness.storage import provenance
from openended.harness.storage.record import RECORD, RunInput, RunRecord, read_record, save_record
from openended.metrics.discriminator_accuracy import DiscriminatorAccuracy
from openended.metrics.distinct_n import DistinctN
from tests.helpers import cases, check_error

ROW = MetricResult(
    system="model", metric="m", signature="m|v:1", primary="m", values={"m": 0.5, "other": math.nan}, sd={"m": 0.1},
    n_human=3, n_model=4, status="ok", notes=("small",), family="text", direction="higher",
    directions={"other": "none"}, titles={"m": "M"}, bounds={"m": (0.0, math.inf), "other": (-math.inf, 1.0)}, resampling="none", artifact="measure/ab/c",
)  # fmt: skip
NOTES = (RunNote("remark", ("a note",)),)
RECORDED = RunRecord(
    created="2026-01-02T03:04:05+00:00", spec={"model": {"title": "A"}, "seed": None}, axes={"decoder": "greedy"},
    overrides=("seed=1",), command=("openended", "seed=1"), git={"commit": None}, packages={"numpy": "2"},
    hardware={"cores": 2}, task_digest="ab",
    inputs=(RunInput("read/ab/c", "human", "", {"vectors": "continuation"}, {"packages": {"numpy": "1"}}),),
    timings={"embed": 1.5}, store="../store", notes=NOTES, results=(ROW,),
)  # fmt: skip


def told(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(to_json(RECORDED)))
    return {k: v for k, v in {**made, **changes}.items() if v != "gone"}


def told_input(artifact: str) -> dict[str, Any]:
    return {"artifact": artifact, "role": "model", "what": "x"}


def row(**changes: Any) -> dict[str, Any]:
    return {"results": [{k: v for k, v in {**told()["results"][0], **changes}.items() if v != "gone"}]}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    save_record(tmp_path, RECORDED)
    for path in (tmp_path, tmp_path / RECORD):
        read = read_record(path)
        assert to_json(read) == to_json(RECORDED)
        (one,) = read.results
        assert math.isnan(one.values["other"])
        assert one.bounds == {"m": (0.0, math.inf), "other": (-math.inf, 1.0)}
        assert (one.notes, read.overrides, read.axes) == (("small",), ("seed=1",), {"decoder": "greedy"})


def test_each_field_is_documented() -> None:
    harness = Path(__file__).parents[3] / "harness"
    for cls in (MetricResult, RunRecord, RunInput):
        file = "core/types.py" if cls is MetricResult else "storage/record.py"
        text = (harness / file).read_text(encoding="utf-8").partition(f"class {cls.__name__}")[2]
        for f in fields(cls):
            assert text.partition(f"    {f.name}: ")[2].splitlines()[1].startswith('    """'), (
                f"{cls.__name__}.{f.name}"
            )


@pytest.mark.parametrize(
    ("metric", "key", "best"),
    [(DistinctN(), "distinct_1", "match_human"), (DiscriminatorAccuracy(), "accuracy", "nearest 0.5")],
)
def test_a_result_holds_what_its_metric_says(metric: Any, key: str, best: str) -> None:
    computed = MetricResult(metric.name, "s", key, {key: 0.7, "other": 0.1}, 2, 3, unranked=("other",))
    made = describe_result("model", metric, computed, None)
    assert (made.family, made.direction, made.bounds[key]) == (metric.family, metric.direction, (0.0, 1.0))
    assert made.directions == {key: best, "other": "none"}
    assert decode(MetricResult, to_json(made), "here") == made


@cases(
    "record, message",
    ([], "not a run record: expected an object with names and values, got \\[\\]"),
    (told(schema=1), "expected record schema 6, got 1; run it again"),
    (told(created="gone"), "missing option 'created'"),
    (told(resluts=[]), "no option 'resluts'; did you mean 'results'"),
    (told(axes=[]), "axes: expected {name: value}"),
    (told(task_digest=3), "task_digest: expected text, got 3"),
    (told(inputs={}), "inputs: expected a list"),
    (told(inputs=[told_input("../../home/.ssh")]), r"inputs\[0\]: artifact: expected a store entry `stage/ab/key`"),
    (told(inputs=[told_input("/etc/a/b")]), "expected a store entry"),
    (told(**row(artifact="measure/../../x")), "artifact: expected a store entry"),
    (told(notes="x"), "notes: expected a list"),
    (told(notes=["x"]), r"notes\[0\]: expected RunNote, got 'x'"),
    (
        told(notes=[{"kind": "hint", "arguments": []}]),
        r"notes\[0\]: kind: expected one of remark, fault, batches, domain",
    ),
    (told(results={}), "results: expected a list"),
    (told(created=None), "created: expected text, got None"),
    (told(created="99999-13-45"), "created: expected a time as 2027-01-31T12:00:00.00:00, got '99999-13-45'"),
    (told(**row(directions={"m": "nearest x"})), r"results\[0\]: direction of m: expected `nearest` and a number"),
    (told(**row(values={"m": "x"})), r"results\[0\]: values.m: expected a number, got 'x'"),
    (told(**row(n_human=True)), r"results\[0\]: n_human: expected a whole number, got True"),
    (told(**row(bounds={"m": [0]})), r"results\[0\]: bounds.m: expected 2 values, got 1"),
    (told(**row(metric="gone")), r"results\[0\]: missing option 'metric'"),
    (told(results=[3]), r"results\[0\]: expected .*, got 3"),
    *((text, "record.json") for text in ("{", "[]", "\x00", "null", "[" * 900, '{"a":' * 300 + "1" + "}" * 300)),
)
def test_a_damaged_record_is_told_in_one_line(tmp_path: Path, record: Any, message: str) -> None:
    (tmp_path / RECORD).write_text(record if isinstance(record, str) else json.dumps(record))
    assert str(tmp_path / RECORD) in check_error(DataError, message, read_record, tmp_path)


def test_a_record_without_its_digest_or_with_another_value_is_told(tmp_path: Path) -> None:
    write_json(tmp_path / RECORD, to_json(RECORDED))
    check_error(DataError, "its digest does not match", read_record, tmp_path)
    save_record(tmp_path, RECORDED)
    text = (tmp_path / RECORD).read_text()
    (tmp_path / RECORD).write_text(text.replace("0.5", "0.6"))
    check_error(DataError, r"record\.json: damaged: its digest does not match", read_record, tmp_path)


def test_no_flip_of_a_bit_is_believed(tmp_path: Path) -> None:
    save_record(tmp_path, RECORDED)
    data = (tmp_path / RECORD).read_bytes()
    draw = random.Random(0)
    for _ in range(300):
        flipped = bytearray(data)
        flipped[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        (tmp_path / RECORD).write_bytes(flipped)
        try:
            read = read_record(tmp_path)
        except DataError as err:
            assert "\n" not in str(err)  # noqa: PT017 - white space may move, values may not
        else:
            assert to_json(read) == to_json(RECORDED)


def test_keys_and_homes_stay_out_of_a_record(tmp_path: Path) -> None:
    key = "hf_" + "aB3" * 10
    note = RunNote("remark", (f"in {Path.home()}/x",))
    save_record(tmp_path, replace(RECORDED, overrides=(f"model.label={key}",), notes=(note,)))
    text = (tmp_path / RECORD).read_text()
    assert key not in text
    assert str(Path.home()) not in text
    assert read_record(tmp_path).overrides == ("model.label=[redacted]",)


def test_versions_are_those_that_are_installed():
    found = provenance.list_package_versions()
    assert found["python"] == platform.python_version()
    assert found["numpy"] == importlib.metadata.version("numpy")
    assert all(found.values())


def test_the_commit_is_the_harnesss_own_and_outside_a_checkout_there_is_none(tmp_path, monkeypatch):
    before = provenance.read_git_state()
    with monkeypatch.context() as patch:
        patch.setattr(provenance, "__file__", str(tmp_path / "provenance.py"))
        assert provenance.read_git_state() == {"commit": None, "dirty": None}
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q", "."], check=True, timeout=240)
    assert provenance.read_git_state() == before
