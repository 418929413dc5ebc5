"""Texts and arrays of the store are verified before a report reads them; a damaged one is passed over, aloud."""

import json
import random
from pathlib import Path

import pytest

from openended.harness.core.errors import DataError
from openended.harness.report import build_report
from openended.harness.results.runs import locate_verified_file
from tests.harness.report.synthetic import seal, seal_record, write_run
from tests.helpers import undrawn_figures


@pytest.fixture
def runs(tmp_path) -> Path:
    for decoder, seed in (("greedy", None), ("nucleus", 0)):
        write_run(tmp_path, decoder, seed, texts=True, arrays=True)
    return tmp_path


def report(runs: Path) -> str:
    with undrawn_figures():
        build_report([runs / "runs"], runs / "out", figures=True)
    return (runs / "out" / "report.html").read_text()


def damage(path: Path, how: str, seed: int = 0) -> None:
    data, draw = bytearray(path.read_bytes()), random.Random(seed)
    if how == "flip":
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes({"flip": data, "cut": data[: len(data) // 2], "empty": b"", "noise": draw.randbytes(500)}[how])


@pytest.mark.slow
@pytest.mark.thin(3)
@pytest.mark.parametrize("how", ["flip", "cut", "empty", "noise"])
@pytest.mark.parametrize("name", ["human.arrow", "data.arrow", "arrays.safetensors", "manifest.json"])
def test_every_damage_is_passed_over_and_said(name, how, runs, caplog):
    for path in runs.glob(f"store/*/*/*/{name}"):
        damage(path, how)
    page = report(runs)
    assert "damaged artifacts skipped" in page
    assert "is damaged" in caplog.text
    assert "Traceback" not in caplog.text


def test_nothing_is_said_of_what_is_sound_or_gone(runs, caplog):
    assert "damaged" not in report(runs)
    for path in sorted(runs.glob("store/*/*/*/*")):
        path.unlink()
    for path in sorted(runs.glob("store/*/*/*")):
        path.rmdir()
    assert "damaged" not in report(runs)
    assert caplog.text == ""


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "a/b", "a/../c", "a/b/c/d"])
def test_a_record_names_places_of_the_store_alone(name, tmp_path):
    damaged: dict[str, str] = {}
    assert locate_verified_file(tmp_path, name, "data.arrow", damaged) is None
    assert damaged == {name: "not a path inside the store"}


def rows(runs: Path) -> str:
    return (runs / "out" / "results.csv").read_text()


def changed(record: Path, *, sealed: bool) -> None:
    """Let a record say another number: a slip of the disk, or somebody who knows how it is sealed."""
    told = json.loads(record.read_text())
    next(r for r in told["results"] if r["artifact"] and r["system"] == "model")["values"]["loop_rate"] = 0.5
    stated = told.pop("digest")
    if sealed:
        seal_record(record.parent, told)
    else:
        record.write_text(json.dumps({**told, "digest": stated}))


@pytest.mark.slow
@pytest.mark.parametrize("sealed", [False, True])
def test_a_record_that_says_another_number_is_left_out_and_said(sealed, runs, caplog):
    record = next(runs.glob("runs/*/*/record.json"))
    told = json.loads(record.read_text())
    for row in told["results"]:
        if row["artifact"]:  # the made-up entries hold arrays alone
            folder = runs / "store" / row["artifact"]
            kept = ("metric", "signature", "primary", "values", "sd", "n_human", "n_model", "status", "notes")
            (folder / "result.json").write_text(json.dumps({name: row[name] for name in kept}))
            seal(folder)
    assert "left out" not in report(runs).lower()
    changed(record, sealed=sealed)
    page = report(runs)
    assert "1 runs with damaged records left out" in page
    assert "Left out: 1 run with a damaged record" in page
    assert f"Left out: 1 run with a damaged record ({record.parent.name})" in (runs / "out/tables/full.md").read_text()
    assert "left out of the report" in caplog.text
    assert caplog.text.count("\n") == 1


def test_a_damaged_artifact_does_not_take_its_run_along(runs, caplog):
    record = next(runs.glob("runs/*/*/record.json"))
    row = next(r for r in json.loads(record.read_text())["results"] if r["artifact"])
    folder = runs / "store" / row["artifact"]
    (folder / "result.json").write_text("{}")
    seal(folder)
    (folder / "result.json").write_text('{"values": {}}')
    assert "left out" not in report(runs).lower()
    assert "damaged" in caplog.text


def test_nothing_but_damaged_records_is_an_error_of_one_line(runs):
    for record in runs.glob("runs/*/*/record.json"):
        record.write_text("[" * 5000)
    with pytest.raises(DataError, match=r"nested too deeply \(and 1 more\)"):
        report(runs)


@pytest.mark.thin(2)
@pytest.mark.parametrize("data", [b"", b"{}", bytes(4096)])
@pytest.mark.parametrize("name", ["human.arrow", "data.arrow", "arrays.safetensors"])
def test_unreadable_files_with_digests_that_agree_are_passed_over(name, data, runs, caplog):
    for path in runs.glob(f"store/*/*/*/{name}"):
        path.write_bytes(data)
        seal(path.parent)
    assert "damaged artifacts skipped" in report(runs)
    assert "is damaged" in caplog.text
