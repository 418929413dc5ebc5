"""Reading and writing touch regular files only, with bounded memory."""

from __future__ import annotations

import os
import resource
import socket

import pytest

from openended.harness.core import (
    DataError,
    StoreError,
    io,
    open_for_replacement,
    open_text,
    read_csv,
    read_json,
    read_jsonl,
    write_text,
)
from openended.harness.storage import read_record


@pytest.fixture
def paths(tmp_path):
    """Kind → a path that is not a regular file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/")
    (tmp_path / "null").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    return {"named pipe": ["pipe"], "folder": ["folder", "link"], "device": ["null"], "socket": ["socket"]}


def test_only_regular_files_are_read_and_replaced(paths, tmp_path):
    for kind, names in paths.items():
        for name in names:
            path = tmp_path / name
            for read in (read_json, open_text, read_csv, lambda path: next(read_jsonl(path))):
                with pytest.raises(DataError, match=f"expected a file, got a {kind}"):
                    read(path)
            before = path.lstat().st_ino
            with pytest.raises(StoreError, match=f"cannot write .*got a {kind}"):
                write_text(path, "text")
            assert path.lstat().st_ino == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "link", "null", "pipe", "socket"]


def test_a_record_of_3_gb_is_one_line_and_little_memory(tmp_path):
    with (tmp_path / "record.json").open("wb") as handle:
        handle.truncate(3 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match="at most 128 MiB, got a larger one"):
        read_record(tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10


def test_a_line_of_2_gb_is_one_line_and_little_memory(tmp_path):
    with (tmp_path / "texts.txt").open("wb") as handle:
        handle.write(b"first\n")
        handle.truncate(2 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open_text(tmp_path / "texts.txt") as handle, pytest.raises(DataError, match=r"texts\.txt:2: a line of more"):
        list(handle)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10


def test_lines_of_text_are_complete(tmp_path, monkeypatch):
    monkeypatch.setattr(io, "MAX_LINE", 8)
    (tmp_path / "a.txt").write_text("\ufeffone\n\n12345678\nend", encoding="utf-8")
    with open_text(tmp_path / "a.txt") as handle:
        assert [next(handle), next(handle)] == ["one\n", "\n"]
        with pytest.raises(DataError, match=r"a\.txt:3: a line of more"):
            next(handle)


def test_a_file_without_sync_is_written_too(tmp_path):
    with open_for_replacement(tmp_path / "a", sync=False) as handle:
        handle.write("text")
    assert (tmp_path / "a").read_text() == "text"
