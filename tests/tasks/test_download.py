"""Downloads against a server on this machine: whole, resumed, changed, refused, offline."""

from __future__ import annotations

import hashlib
import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.harness.core.io import read_json, write_json
from openended.tasks import download
from openended.tasks.download import Remote, fetch, find_cache_root, verify

DATA = bytes(range(256)) * 5000


class Server:
    """What the handler serves, and what was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.data = DATA
        self.tag: str | None = '"v1"'
        self.cut = 0  # close the connection after so many bytes, once
        self.status = 200
        self.ranges: list[str | None] = []

    def remote(self, **options: Any) -> Remote:
        return Remote(f"{self.url}/f.bin", "t/f.bin", **options)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            state.ranges.append(asked)
            if state.status != 200:
                self.send_error(state.status)
                return
            start = 0
            if asked and self.headers.get("If-Range") == state.tag:
                start = int(re.findall(r"\d+", asked)[0])
            if start >= len(state.data):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            if state.tag:
                self.send_header("ETag", state.tag)
            self.send_header("Content-Length", str(len(state.data) - start))
            self.end_headers()
            body = state.data[start:]
            if state.cut:
                body, state.cut = body[: state.cut], 0
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    class Quiet(http.server.ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """A client that refuses the rest (a full disk) is part of the test."""

    httpd = Quiet(("127.0.0.1", 0), Handler)
    state = Server(f"http://127.0.0.1:{httpd.server_port}")
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setattr(download.time, "sleep", lambda _: None)
    for name in ("OPENENDED_OFFLINE", "HF_HUB_OFFLINE", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield state
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def get(server: Server, tmp_path: Path, remote: Remote | None = None) -> Path:
    return fetch(remote or server.remote(), cache_dir=str(tmp_path))


def test_a_file_is_fetched_once_and_recorded(server: Server, tmp_path: Path) -> None:
    place = get(server, tmp_path)
    assert place == tmp_path / "t" / "f.bin"
    assert place.read_bytes() == DATA
    assert read_json(tmp_path / "ledger.json")["t/f.bin"]["sha256"] == hashlib.sha256(DATA).hexdigest()
    get(server, tmp_path)
    assert len(server.ranges) == 1
    assert not list(tmp_path.glob("t/*.part*"))


def test_a_broken_connection_is_resumed_where_it_stopped(server: Server, tmp_path: Path) -> None:
    server.cut = 300_000
    assert get(server, tmp_path).read_bytes() == DATA
    assert server.ranges == [None, "bytes=300000-"]


def test_an_interrupted_download_is_resumed_by_the_next_process(server: Server, tmp_path: Path) -> None:
    part = tmp_path / "t" / "f.bin.part"
    part.parent.mkdir()
    part.write_bytes(DATA[:1000])
    write_json(part.with_name("f.bin.part.json"), {"tag": '"v1"'})
    assert get(server, tmp_path).read_bytes() == DATA
    assert server.ranges == ["bytes=1000-"]


def test_a_file_that_changed_meanwhile_is_fetched_anew(server: Server, tmp_path: Path) -> None:
    part = tmp_path / "t" / "f.bin.part"
    part.parent.mkdir()
    part.write_bytes(b"old" * 100)
    write_json(part.with_name("f.bin.part.json"), {"tag": '"v0"'})
    assert get(server, tmp_path).read_bytes() == DATA


def test_without_a_tag_nothing_is_resumed(server: Server, tmp_path: Path) -> None:
    server.tag, server.cut = None, 5000
    assert get(server, tmp_path).read_bytes() == DATA
    assert server.ranges == [None, None]


def test_a_part_longer_than_the_file_is_thrown_away(server: Server, tmp_path: Path) -> None:
    part = tmp_path / "t" / "f.bin.part"
    part.parent.mkdir()
    part.write_bytes(DATA + b"x")
    write_json(part.with_name("f.bin.part.json"), {"tag": '"v1"'})
    assert get(server, tmp_path).read_bytes() == DATA


def test_a_file_that_changed_after_it_was_recorded_is_refused(server: Server, tmp_path: Path) -> None:
    place = get(server, tmp_path)
    place.write_bytes(DATA[:-1] + b"x")
    with pytest.raises(DataError, match="was recorded"):
        get(server, tmp_path)
    place.unlink()
    server.data = DATA[:-1]
    with pytest.raises(DataError, match="was recorded"):  # another file at the same address
        get(server, tmp_path)


def test_the_quick_look_trusts_size_and_time_and_the_full_one_does_not(server: Server, tmp_path: Path) -> None:
    import os

    place = get(server, tmp_path)
    stat = place.stat()
    place.write_bytes(b"x" * len(DATA))
    os.utime(place, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert verify(server.remote(), cache_dir=str(tmp_path), quick=True) == hashlib.sha256(DATA).hexdigest()
    with pytest.raises(DataError, match="was recorded"):
        verify(server.remote(), cache_dir=str(tmp_path))


def test_a_file_put_there_by_hand_is_taken_and_recorded(server: Server, tmp_path: Path) -> None:
    place = tmp_path / "t" / "f.bin"
    place.parent.mkdir()
    place.write_bytes(b"mine")
    assert get(server, tmp_path).read_bytes() == b"mine"
    assert server.ranges == []


@pytest.mark.parametrize("how", ["option", "OPENENDED_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_says_which_file_from_where_and_where_to(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how != "option":
        monkeypatch.setenv(how, "1")
    with pytest.raises(DataError, match=rf"offline.*f\.bin; get it from {server.url}/f\.bin and put it at .*t/f\.bin"):
        fetch(server.remote(), cache_dir=str(tmp_path), offline=how == "option")
    assert server.ranges == []


def test_a_refusal_is_not_asked_again_and_a_failing_server_is(server: Server, tmp_path: Path) -> None:
    server.status = 404
    with pytest.raises(DataError, match="HTTP 404"):
        get(server, tmp_path)
    assert len(server.ranges) == 1
    server.status = 503
    with pytest.raises(DataError, match="failed 5 times"):
        get(server, tmp_path)
    assert len(server.ranges) == 6


def test_a_full_disk_is_said_before_the_first_byte(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DataError, match="are needed and 0 MiB are free"):
        get(server, tmp_path)
    part = tmp_path / "t" / "f.bin.part"
    assert not part.exists()


def test_other_schemes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="only http and https"):
        fetch(Remote("file:///etc/hosts", "t/hosts"), cache_dir=str(tmp_path))


def test_a_folder_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("a file where a folder should be")
    with pytest.raises(DataError, match="cannot write"):
        get(server, tmp_path)


def test_two_at_a_time_fetch_it_once(server: Server, tmp_path: Path) -> None:
    threads = [threading.Thread(target=get, args=(server, tmp_path)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.ranges) == 1


def test_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENENDED_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/u")
    assert find_cache_root() == Path("/home/u/.cache/openended")
    for name, want in [("XDG_CACHE_HOME", "/x/openended"), ("HF_HOME", "/x/openended"), ("OPENENDED_CACHE", "/x")]:
        monkeypatch.setenv(name, "/x")
        assert find_cache_root() == Path(want)
        monkeypatch.delenv(name)
    assert find_cache_root("~/c") == Path("/home/u/c")


@pytest.mark.parametrize("path", ["webtext/../../x.jsonl", "../x", "/etc/passwd"])
def test_no_name_leads_out_of_the_cache_folder(path: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="outside the cache folder"):
        Remote("http://x", path).cache_path(str(tmp_path))
