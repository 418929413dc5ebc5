"""Downloads against a server on this machine: whole, resumed, changed, refused, offline."""

import hashlib
import http.server
import os
import re
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from openended.harness.core import DataError, SpecError, find_cache_root, read_json, write_json
from openended.harness.imported import download, find_generations, read_texts
from openended.harness.imported.download import Remote, fetch, verify
from tests.helpers import cases, check_error

DATA = bytes(range(256)) * 5000
SHA256 = hashlib.sha256(DATA).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves one file as `state` says, and records the ranges that were requested."""

    state: SimpleNamespace

    def do_GET(self):
        state = self.state
        requested = self.headers.get("Range")
        state.ranges.append(requested)
        if state.status != 200:
            self.send_error(state.status)
            return
        start = 0
        if requested and self.headers.get("If-Range") == state.tag:
            start = int(re.findall(r"\d+", requested)[0])
        if start >= len(state.data):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if state.tag:
            self.send_header("ETag", state.tag)
        self.send_header("Content-Length", str(len(state.data) - start))
        self.end_headers()
        body = state.data[start:]
        if state.cut:  # close the connection after so many bytes, once
            body, state.cut = body[: state.cut], 0
        self.wfile.write(body)

    def log_message(self, *_): ...


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """A client that refuses the rest (a full disk) is part of the test."""


@pytest.fixture
def server(monkeypatch):
    state = SimpleNamespace(data=DATA, tag='"v1"', cut=0, status=200, ranges=[])
    httpd = Server(("127.0.0.1", 0), type("StateHandler", (Handler,), {"state": state}))
    state.url = f"http://127.0.0.1:{httpd.server_port}"
    state.remote = Remote(f"{state.url}/f.bin", "t/f.bin")
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setattr(download.time, "sleep", lambda _: None)
    for name in ("OPENENDED_OFFLINE", "HF_HUB_OFFLINE", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield state
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.fixture
def get(server, tmp_path):
    """Fetch the server's file into the cache folder `tmp_path`."""
    return lambda **options: fetch(server.remote, cache_dir=str(tmp_path), **options)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "t").mkdir()
    return tmp_path / "t" / "f.bin"


def test_a_file_is_fetched_once_and_recorded(server, get, tmp_path):
    path = get()
    assert path == tmp_path / "t" / "f.bin"
    assert path.read_bytes() == DATA
    assert read_json(tmp_path / "ledger.json")["t/f.bin"]["sha256"] == SHA256
    get()
    assert len(server.ranges) == 1
    assert not list(tmp_path.glob("t/*.part*"))


@cases("tag, ranges", ('"v1"', [None, "bytes=300000-"]), ('W/"v1"', [None, None]), (None, [None, None]))
def test_a_broken_connection_is_resumed_where_it_stopped_if_the_server_names_the_version(server, get, tag, ranges):
    server.tag, server.cut = tag, 300_000
    assert get().read_bytes() == DATA
    assert server.ranges == ranges


@cases(
    "part, tag, ranges",
    (DATA[:1000], '"v1"', ["bytes=1000-"]),
    (b"old" * 100, '"v0"', ["bytes=300-"]),  # another version: sent whole
    (DATA + b"x", '"v1"', [f"bytes={len(DATA) + 1}-", None]),  # longer than the file: thrown away
    ids=["same", "changed", "too long"],
)
def test_an_interrupted_download_is_resumed_by_the_next_process(server, get, path, part, tag, ranges):
    path.with_name("f.bin.part").write_bytes(part)
    write_json(path.with_name("f.bin.part.json"), {"tag": tag})
    assert get().read_bytes() == DATA
    assert server.ranges == ranges


def test_a_file_of_texts_may_be_at_an_address(server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENENDED_CACHE", str(tmp_path))
    server.data = b'{"text": "one"}\n'
    path = find_generations(f"{server.url}/a.jsonl?raw=1", planning=False)
    assert [text.text for text in read_texts(path)] == ["one"]
    assert path == find_generations(f"{server.url}/a.jsonl?raw=1", planning=True)


def test_a_file_that_changed_after_it_was_recorded_is_refused(server, get):
    path = get()
    path.write_bytes(DATA[:-1] + b"x")
    check_error(DataError, "was recorded", get)
    path.unlink()
    server.data = DATA[:-1]
    with pytest.raises(DataError, match=rf"its sha256 is .* was recorded {SHA256}; remove the file"):
        get()  # another file at the same address


def test_the_quick_look_trusts_size_and_time_and_the_full_one_does_not(server, get, tmp_path):
    path = get()
    stat = path.stat()
    path.write_bytes(b"x" * len(DATA))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert verify(server.remote, cache_dir=str(tmp_path), quick=True) == SHA256
    check_error(DataError, "was recorded", verify, server.remote, cache_dir=str(tmp_path))


def test_a_file_put_there_by_hand_is_taken_and_recorded(server, get, path):
    path.write_bytes(b"mine")
    assert get().read_bytes() == b"mine"
    assert server.ranges == []


@pytest.mark.parametrize("how", ["option", "OPENENDED_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_says_which_file_from_where_and_where_to(server, get, monkeypatch, how):
    if how != "option":
        monkeypatch.setenv(how, "1")
    with pytest.raises(DataError, match=rf"offline.*f\.bin; get it from {server.url}/f\.bin and put it at .*t/f\.bin"):
        get(offline=how == "option")
    assert server.ranges == []


def test_a_refusal_is_not_repeated_and_a_failing_server_is(server, get):
    for status, message, requests in ((404, "HTTP 404", 1), (503, "failed 5 times", 6)):
        server.status = status
        check_error(DataError, message, get)
        assert len(server.ranges) == requests


def test_a_full_disk_is_reported_before_the_first_byte(get, tmp_path, monkeypatch):
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    check_error(DataError, "are needed and 0 MiB are free", get)
    assert not (tmp_path / "t" / "f.bin.part").exists()


def test_what_cannot_be_written_or_fetched(get, tmp_path):
    with pytest.raises(DataError, match="only http and https"):
        fetch(Remote("file:///etc/hosts", "h/hosts"), cache_dir=str(tmp_path))
    for path in ("webtext/../../x.jsonl", "../x", "/etc/passwd"):
        check_error(SpecError, "outside the cache folder", Remote("http://x", path).cache_path, str(tmp_path))
    (tmp_path / "t").write_text("a file where a folder should be")
    check_error(DataError, "cannot write", get)


def test_several_at_a_time_fetch_it_once(server, get):
    threads = [threading.Thread(target=get) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.ranges) == 1


def test_cache_folder(monkeypatch):
    for name in ("OPENENDED_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/u")
    assert find_cache_root() == Path("/home/u/.cache/openended")
    for name, folder in [("XDG_CACHE_HOME", "/x/openended"), ("HF_HOME", "/x/openended"), ("OPENENDED_CACHE", "/x")]:
        monkeypatch.setenv(name, "/x")
        assert find_cache_root() == Path(folder)
        monkeypatch.delenv(name)
    assert find_cache_root("~/c") == Path("/home/u/c")
