"""Archives that no export made are refused, and nothing of them is unpacked."""

from __future__ import annotations

import importlib
import zipfile

import pytest

import_ = importlib.import_module("openended.harness.app.commands.import_")


@pytest.mark.parametrize("name", ["../runs/a/b", "/etc/passwd", "runs/../../a", "elsewhere/a", "runs"])
def test_a_name_that_leaves_the_folder_unpacks_nothing(name, tmp_path, monkeypatch, capsys):
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as made:
        made.writestr("runs/a/record.json", "{}")
        made.writestr(name, "x")
    monkeypatch.chdir(tmp_path)
    assert import_.main(["bad.zip"]) == 2
    assert "expected files under runs" in capsys.readouterr().err
    assert not (tmp_path / "outputs").exists()


def test_what_is_no_archive_is_one_line(tmp_path, capsys):
    (tmp_path / "a.zip").write_text("text")
    assert import_.main([str(tmp_path / "a.zip")]) == 2
    assert import_.main([str(tmp_path / "b.zip")]) == 2
    assert "not a sound zip archive" in capsys.readouterr().err
