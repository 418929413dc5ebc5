"""A name packed, unpacked elsewhere, and reported there; of an archive of others nothing is unpacked or believed."""

import importlib
import io
import os
import zipfile
from dataclasses import replace

import pandas as pd
import pytest

from openended.harness.app.commands import export, show
from openended.harness.report.cli import main as report
from openended.harness.storage import RunInput, save_record
from tests.harness.report.page.made import make_report
from tests.harness.storage.test_record import RECORDED
from tests.helpers import cases, openended

import_ = importlib.import_module("openended.harness.app.commands.import_")


KEY = "ab" + "0" * 62
ENTRY = f"store/measure/ab/{KEY}"


@pytest.fixture
def archive(here, tmp_path):
    assert export.main(["p-sweep", str(tmp_path / "p.zip")]) == 0
    return tmp_path / "p.zip"


@pytest.mark.slow
def test_what_was_packed_is_whole_elsewhere_in_a_folder_of_its_own(here, archive, tmp_path, monkeypatch, capsys):
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.chdir(there)
    assert import_.main([str(archive)]) == 0
    assert "openended report p" in capsys.readouterr().out
    for kind in ("runs", "store", "grids"):
        own, packed = ({p.relative_to(r) for p in r.rglob("*") if p.is_file() and not {".locks", "rows"} & {*p.parts}}
                       for r in (here / "outputs" / kind, there / "outputs/imported/p" / kind))  # fmt: skip
        assert own == packed, kind
    assert [path.name for path in (there / "outputs").iterdir()] == ["imported"]
    assert not (there / "outputs/imported/p/reports").exists(), "pages and tables are built here"
    assert import_.main([str(archive)]) == 0
    assert "0 files into outputs/imported/p" in capsys.readouterr().out
    for word in ("p", "p-sweep"):
        assert report([word, "--no-figures", "--no-page", "--quiet"]) == 0
    there_csv, here_csv = (pd.read_csv(r / "outputs/reports/p-sweep/results.csv") for r in (there, here))
    models = there_csv["system"] == "model"
    assert set(there_csv["archive"][models]) == {"p"}
    columns = ["system", "metric", "key", "value", "signature"]
    pd.testing.assert_frame_equal(there_csv[columns], here_csv[columns])
    assert "From archives, not computed here: p (" in (there / "outputs/reports/p-sweep/tables/results.md").read_text()
    run = next((there / "outputs/imported/p/runs/p-sweep").iterdir())
    assert show.main([run.name[-8:]]) == 0
    assert "archive    p: imported, not computed here" in capsys.readouterr().out
    done = openended("name=p-sweep", "decoder=greedy", "num_examples=8", "max_new_tokens=4", "metric=[distinct_n]",
                     cwd=there)  # fmt: skip
    assert ", 0 cached in" in done.stderr, "own runs reuse nothing of an archive"
    assert report(["outputs/runs/p-sweep", "p", "--no-figures", "--no-page", "--layout", "full"]) == 0
    output = capsys.readouterr().out
    assert "archive=p" in output
    with zipfile.ZipFile(tmp_path / "p.zip", "a") as packed:
        packed.writestr("runs/p-sweep/x/more.txt", "more")
    (there / "outputs/imported/p/runs/p-sweep/x").mkdir()
    (there / "outputs/imported/p/runs/p-sweep/x/more.txt").write_text("something else")
    assert import_.main([str(archive)]) == 2
    assert "belongs to another archive; give this one its own folder: --name NAME" in capsys.readouterr().err
    assert import_.main([str(archive), "--name", "again"]) == 0


def test_without_the_store_and_hidden_files_which_no_import_takes(here, tmp_path):
    hidden = here / "outputs/reports/p-sweep/.hidden"
    hidden.touch()
    assert export.main(["p-sweep", str(tmp_path / "p.zip"), "--no-store"]) == 0
    hidden.unlink()
    with zipfile.ZipFile(tmp_path / "p.zip") as packed:
        assert {name.split("/")[0] for name in packed.namelist()} == {"runs", "reports", "grids"}
        assert not [name for name in packed.namelist() if name.endswith(".hidden")]


def test_a_dash_is_standard_output_and_a_device_is_refused(here, capsysbinary):
    assert export.main(["p-sweep", "-", "--no-store"]) == 0
    with zipfile.ZipFile(io.BytesIO(capsysbinary.readouterr().out)) as packed:
        assert any(name.endswith("record.json") for name in packed.namelist())
    assert export.main(["p-sweep", "/dev/stdout", "--no-store"]) == 2
    assert b"cannot write /dev/stdout: expected a new or a regular file, got a device" in capsysbinary.readouterr().err


def test_an_entry_that_leads_out_of_the_store_is_not_packed(tmp_path):
    outputs, entry = tmp_path / "outputs", "generate/ab/" + "ab" * 32
    (outputs / "runs" / "a" / "run").mkdir(parents=True)
    inputs = (RunInput(entry, "model", "x"),)
    save_record(outputs / "runs" / "a" / "run", replace(RECORDED, inputs=inputs, results=()))
    (tmp_path / "home" / ("ab" * 32)).mkdir(parents=True)
    (tmp_path / "home" / ("ab" * 32) / "key").write_text("secret")
    (outputs / "store" / "generate").mkdir(parents=True)
    (outputs / "store" / "generate" / "ab").symlink_to(tmp_path / "home")
    assert [p.name for p in export.list_files("a", outputs, store=True)] == ["record.json"]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    return folder, next(make_report(folder, count=3, samples=1).iterdir()).name


@cases(
    "words",
    ["--format", "eee", "--organization", "Some Lab"],
    ["--format", "hub", "--dataset", "a/b"],
    ["--format", "parquet"],
)
def test_a_format_is_written_to_a_folder_of_its_own(words, outputs, capsys):
    folder, name = outputs
    assert export.main([name, "--outputs", str(folder), *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    target = folder / "exports" / f"{name}-{words[1]}"
    files = [path for path in target.rglob("*") if path.is_file()]
    assert {line for line in lines if line.startswith(str(target))} == set(map(str, files))


def pack(path, members, **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return str(path)


@pytest.fixture
def refuse(tmp_path, monkeypatch, capsys):
    """Import an archive that must be refused, in the test's folder; returns the line."""
    monkeypatch.chdir(tmp_path)

    def refuse(path):
        assert import_.main([path]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return refuse


def test_an_archive_that_unpacks_to_hundreds_of_times_its_size_is_refused(tmp_path, refuse):
    members = {f"reports/{n}/table.csv": "x" * (40 << 20) for n in range(2)}
    path = pack(tmp_path / "bomb.zip", members, compression=zipfile.ZIP_DEFLATED)
    assert "unpacks to 83,886,080 bytes, more than 200 times its size" in refuse(path)
    assert not (tmp_path / "outputs").exists()


@cases(
    "name",
    "../runs/a/b", "/etc/passwd", "runs/../../a", "elsewhere/a", "runs", "runs/.locks/a", "runs/a/.hidden",
    f"{ENTRY}.partial/part-0.arrow", "store/measure/ab/short/x", f"store/measure/cd/{KEY}/x", f"{ENTRY}/deeper/x",
    f"store/.locks/{KEY}/a/b", "grids/a/b/record.json", "runs//a/record.json", "runs/a/grid.json", "runs/a\\b", "runs/a\nb/c", "reports/\x1b[31m/x",
)  # fmt: skip
def test_a_name_that_no_export_writes_unpacks_nothing(name, tmp_path, refuse):
    path = pack(tmp_path / "bad.zip", {"reports/a/table.csv": "x", name: "x"})
    assert "expected files under runs" in refuse(path)
    assert not (tmp_path / "outputs").exists()


def test_a_pipe_is_no_archive(tmp_path, refuse):
    os.mkfifo(tmp_path / "c.zip")
    assert "expected a file, got a named pipe" in refuse(str(tmp_path / "c.zip"))


@pytest.mark.filterwarnings("ignore:Duplicate")
def test_encrypted_unknown_and_repeated_members_are_one_line(tmp_path, refuse):
    data = bytearray((tmp_path / pack(tmp_path / "a.zip", {"reports/a": "text"})).read_bytes())
    for at, value, message in ((8, 1, "encrypted"), (10, 99, "compression method 99")):
        changed = bytearray(data)
        central = changed.index(b"PK\1\2")
        changed[central + at] = value
        (tmp_path / "b.zip").write_bytes(changed)
        assert message in refuse("b.zip")
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("reports/a", "1")
        archive.writestr("reports/a", "2")
    assert "more than once" in refuse("c.zip")
    assert not (tmp_path / "outputs").exists()


def test_damaged_members_are_one_line(tmp_path, refuse):
    path = pack(tmp_path / "a.zip", {"runs/ab/x": "text " * 999}, compression=zipfile.ZIP_DEFLATED)
    data = bytearray((tmp_path / path).read_bytes())
    data[45] ^= 255
    (tmp_path / "a.zip").write_bytes(data)
    assert "not a sound zip archive" in refuse("a.zip")


@pytest.mark.parametrize("link", ["outputs/imported/a", "outputs/imported/a/runs", "outputs/imported/a/runs/a/x"])
def test_nothing_is_written_through_a_link(link, tmp_path, refuse):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / link).parent.mkdir(parents=True)
    (tmp_path / link).symlink_to(tmp_path / "elsewhere")
    assert "is a link" in refuse(pack(tmp_path / "a.zip", {"runs/a/x": "x"}))
    assert not any((tmp_path / "elsewhere").iterdir())


def test_names_cannot_steer_the_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = pack(tmp_path / "a.zip", {"runs/\u009b31m/x": "x"})
    assert import_.main([path, "--outputs", "out\x1b[31m"]) == 0
    assert "\\x1b[31m" in capsys.readouterr().out
