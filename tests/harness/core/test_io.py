"""Reading and writing: regular files only, bounded memory, errors that name file and line."""

import gzip
import os
import resource
import socket

import numpy as np
import pytest

from openended.harness import core
from openended.harness.core import DataError, read_json, read_jsonl, write_text
from openended.harness.storage import read_record
from tests.helpers import check_error, write_file


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
            for read in (read_json, core.open_text, core.read_csv, lambda path: next(read_jsonl(path))):
                check_error(DataError, f"expected a file, got a {kind}", read, path)
            before = path.lstat().st_ino
            check_error(core.StoreError, f"cannot write .*got a {kind}", write_text, path, "text")
            assert path.lstat().st_ino == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "link", "null", "pipe", "socket"]


def test_a_record_of_3_gb_is_one_line_and_little_memory(tmp_path):
    with (tmp_path / "record.json").open("wb") as handle:
        handle.truncate(3 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    check_error(DataError, "at most 128 MiB, got a larger one", read_record, tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10


@pytest.mark.parametrize("sync", [True, False])
def test_a_link_is_followed_and_kept(tmp_path, sync):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    with core.open_for_replacement(tmp_path / "link.txt", sync=sync) as handle:
        handle.write("new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_json_is_strict(tmp_path):
    core.write_json(tmp_path / "a.json", {"x": float("nan"), "y": np.float64(2), "z": (1,)})
    assert read_json(tmp_path / "a.json") == {"x": None, "y": 2.0, "z": [1]}
    assert core.to_json(np.arange(2)) == [0, 1]


def test_write_is_atomic(tmp_path, monkeypatch):
    target = tmp_path / "a.txt"
    write_text(target, "old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    check_error(core.StoreError, "No space left", write_text, target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_jsonl_reads_gzip_bom_crlf_and_blank_lines_and_a_small_file_may_be_dull(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"a": 2}\r\n'))
    assert list(read_jsonl(path)) == [(1, {"a": 1}), (3, {"a": 2})]
    path.write_bytes(gzip.compress(b'{"id": 1}\n' * 100_000))
    assert sum(1 for _ in read_jsonl(path)) == 100_000


def test_a_gzip_bomb_is_refused_early(tmp_path):
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(40 * (b'{"id": "%s"}\n' % (b"1" * 990) * 1000)))  # 40 MB of 100 kB
    assert path.stat().st_size < 200_000
    count = 0

    def counted():
        nonlocal count
        for _ in read_jsonl(path):
            count += 1

    check_error(DataError, "unpacks to more than 50 times its size", counted)
    assert count < 20_000
    with core.open_text(path) as handle, pytest.raises(DataError, match="unpacks"):
        list(handle)


@pytest.mark.parametrize("data", [b'{"a": ' + b"9" * 5000 + b"}", b"[" * 100_000])
def test_json_that_python_cannot_hold_is_one_line(data, tmp_path):
    (tmp_path / "x.jsonl").write_bytes(data)
    check_error(DataError, r"x\.jsonl:1: ", list, read_jsonl(tmp_path / "x.jsonl"))
    check_error(DataError, r"x\.jsonl: ", read_json, tmp_path / "x.jsonl")


def test_a_key_that_comes_twice_is_refused(tmp_path):
    (tmp_path / "x.json").write_text('{"a": {"b": 1, "b": 2}}')
    check_error(DataError, r"x\.json: not JSON \(the key 'b' appears twice", read_json, tmp_path / "x.json")
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n{"a": 1, "a": 2}\n')
    check_error(DataError, r"x\.jsonl:2: not JSON \(the key 'a' appears twice", list, read_jsonl(tmp_path / "x.jsonl"))


def test_a_bar_separates_cells_only_in_a_header_without_other_separators(tmp_path):
    assert core.read_csv(write_file(tmp_path / "bar.csv", "id|text\n1|a\n"))[0] == ["id", "text"]
    assert core.read_csv(write_file(tmp_path / "comma.csv", "id,answer (a|b|c)\n1,2\n"))[0] == ["id", "answer (a|b|c)"]


def test_lines_are_counted_from_the_line_that_names_the_separator(tmp_path):
    path = write_file(tmp_path / "excel.csv", "sep=;\na;b\n1;2\n3;4;5\n")
    check_error(DataError, "excel.csv:4: expected 2 cells", core.read_csv, path)
