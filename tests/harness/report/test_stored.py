"""Texts and arrays of the store are verified before a report reads them; a damaged one is passed over, aloud."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from openended.harness.report import build_report
from openended.harness.report.read.stored import stored_file
from tests.harness.report.synthetic import write_run


@pytest.fixture
def runs(tmp_path) -> Path:
    for decoder, seed in (("greedy", None), ("nucleus", 0)):
        write_run(tmp_path, decoder, seed, texts=True, arrays=True)
    return tmp_path


def report(runs: Path) -> str:
    build_report([runs / "runs"], runs / "out", figures=True)
    return (runs / "out" / "report.html").read_text()


def damage(path: Path, how: str, seed: int = 0) -> None:
    data, draw = bytearray(path.read_bytes()), random.Random(seed)
    if how == "flip":
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes({"flip": data, "cut": data[: len(data) // 2], "empty": b"", "noise": draw.randbytes(500)}[how])


@pytest.mark.parametrize("how", ["flip", "cut", "empty", "noise"])
@pytest.mark.parametrize("name", ["human.arrow", "data.arrow", "arrays.safetensors", "manifest.json"])
def test_every_damage_is_passed_over_and_said(name, how, runs, caplog):
    for path in runs.glob(f"store/*/*/*/{name}"):
        damage(path, how)
    page = report(runs)
    assert "damaged artefacts passed over" in page
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
    assert stored_file(tmp_path, name, "data.arrow", damaged) is None
    assert damaged == {name: "no place in a store"}
