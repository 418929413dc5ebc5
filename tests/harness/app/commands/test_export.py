"""A name packed, unpacked elsewhere, and reported there."""

import importlib
import io
import zipfile
from dataclasses import replace

import pytest

from openended.harness.app.commands import export
from openended.harness.report.cli import main as report
from openended.harness.storage import save_record
from tests.harness.report.page.made import make_report
from tests.harness.storage.test_record import RECORDED
from tests.helpers import openended

import_ = importlib.import_module("openended.harness.app.commands.import_")


@pytest.fixture
def archive(here, tmp_path):
    assert export.main(["p-sweep", str(tmp_path / "p.zip")]) == 0
    return tmp_path / "p.zip"


@pytest.mark.slow
def test_what_was_packed_is_whole_elsewhere(here, archive, tmp_path, monkeypatch, capsys):
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.chdir(there)
    assert import_.main([str(archive), "--trust"]) == 0
    assert "runs of p-sweep: openended report p-sweep" in capsys.readouterr().out
    for kind in ("runs", "reports", "store", "grids"):
        own, packed = ({p.relative_to(r) for p in r.rglob("*") if p.is_file() and ".locks" not in p.parts}
                       for r in (here / "outputs" / kind, there / "outputs" / kind))  # fmt: skip
        assert own == packed, kind
    assert import_.main([str(archive)]) == 0
    assert "0 files into outputs" in capsys.readouterr().out
    (grid,) = (there / "outputs/grids/p-sweep").iterdir()
    assert report([str(grid), "--no-figures", "--no-page", "--quiet"]) == 0
    there_csv, here_csv = ((r / "outputs/reports/p-sweep/results.csv").read_text() for r in (there, here))
    note = "imported from p.zip; not computed here"
    assert note in there_csv
    assert there_csv.replace(f"; {note}", "").replace(note, "") == here_csv
    done = openended("name=p-sweep", "decoder=greedy", "num_examples=8", "max_new_tokens=4", "metric=[distinct_n]",
                     cwd=there)  # fmt: skip
    assert "(0 computed, " in done.stderr


def test_without_the_store(here, tmp_path):
    assert export.main(["p-sweep", str(tmp_path / "p.zip"), "--no-store"]) == 0
    with zipfile.ZipFile(tmp_path / "p.zip") as packed:
        assert {name.split("/")[0] for name in packed.namelist()} == {"runs", "reports", "grids"}


def test_a_dash_is_standard_output_and_a_device_is_refused(here, capsysbinary):
    assert export.main(["p-sweep", "-", "--no-store"]) == 0
    with zipfile.ZipFile(io.BytesIO(capsysbinary.readouterr().out)) as packed:
        assert any(name.endswith("record.json") for name in packed.namelist())
    assert export.main(["p-sweep", "/dev/stdout", "--no-store"]) == 2
    assert b"cannot write /dev/stdout: expected a new or a regular file, got a device" in capsysbinary.readouterr().err


def test_an_entry_that_leads_out_of_the_store_is_not_packed(tmp_path):
    outputs, entry = tmp_path / "outputs", "generate/ab/" + "ab" * 32
    (outputs / "runs" / "a" / "run").mkdir(parents=True)
    save_record(outputs / "runs" / "a" / "run", replace(RECORDED, inputs={"generate:model": entry}, results=()))
    (tmp_path / "home" / ("ab" * 32)).mkdir(parents=True)
    (tmp_path / "home" / ("ab" * 32) / "key").write_text("secret")
    (outputs / "store" / "generate").mkdir(parents=True)
    (outputs / "store" / "generate" / "ab").symlink_to(tmp_path / "home")
    assert [p.name for p in export.list_files("a", outputs, store=True)] == ["record.json"]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    return folder, next(make_report(folder, count=3, samples=1).iterdir()).name


@pytest.mark.parametrize(
    "words", [["--format", "eee", "--organization", "Some Lab"], ["--format", "hub"], ["--format", "parquet"]]
)
def test_a_format_is_written_to_a_folder_of_its_own(words, outputs, capsys):
    folder, name = outputs
    assert export.main([name, "--outputs", str(folder), *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    target = folder / "exports" / f"{name}-{words[1]}"
    files = [path for path in target.rglob("*") if path.is_file()]
    assert {line for line in lines if line.startswith(str(target))} == set(map(str, files))
    assert ("--dataset OWNER/NAME" in lines[-1]) == ("hub" in words)
