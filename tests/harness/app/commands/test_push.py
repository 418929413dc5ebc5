"""`openended push`: the folder, and its upload to an endpoint on this machine that answers as the Hub does.

The endpoint is a fake: it takes the calls of huggingface_hub and keeps the files. No test reaches the Hub.
"""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from openended.harness.app.commands import push, score
from openended.harness.imported import files
from openended.harness.report import build_report
from openended.harness.report.exports.hub import CARD
from tests.harness.report.page.made import make_report
from tests.helpers import undrawn_figures

huggingface_hub = pytest.importorskip("huggingface_hub", reason="uploads and downloads: extra hub")
COMMIT = "c" * 40


class FakeHub(BaseHTTPRequestHandler):
    """Takes the calls of an upload and of a download; files and calls are kept in the server."""

    def log_message(self, *_):
        pass

    def _answer(self, body=b"", status=200, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_POST(self):
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.calls.append(self.path)
        url = {"url": f"http://{self.headers['Host']}/datasets/me/texts"}
        if self.server.refuses:
            return self._answer(b'{"error": "no such token"}', 401)
        if self.path == "/api/repos/create":
            self.server.created = json.loads(data)
        elif "/preupload/" in self.path:
            names = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(data)["files"]
            ]
            return self._answer(json.dumps({"files": names}).encode())
        elif "/commit/" in self.path:
            for line in map(json.loads, data.splitlines()):
                if line["key"] == "file":
                    self.server.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            url |= {"commitUrl": f"{url['url']}/commit/{COMMIT}", "commitOid": COMMIT, "success": True}
            return self._answer(json.dumps({**url, "pullRequestUrl": None}).encode())
        return self._answer(json.dumps(url).encode())

    def do_GET(self):
        self.server.calls.append(self.path)
        prefix = "/datasets/me/texts/resolve/main/"
        data = self.server.files.get(self.path.removeprefix(prefix).replace("%3D", "=").replace("%20", " "))
        if not self.path.startswith(prefix):
            return self._answer(json.dumps({"sha": COMMIT, "siblings": []}).encode())
        if data is None:
            return self._answer(b"{}", 404, X_Error_Code="EntryNotFound")
        return self._answer(data, X_Repo_Commit=COMMIT, ETag=f'"{hashlib.sha256(data).hexdigest()}"')

    do_HEAD = do_GET


@pytest.fixture
def hub(monkeypatch, tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeHub)
    server.files, server.calls, server.created, server.refuses = {}, [], {}, False
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    api = huggingface_hub.HfApi(endpoint=endpoint, token="hf_fake")
    # A test before it may have found the Hub unreachable, which switches the client off for the process.
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api)

    def download(*words, **options):
        return api.hf_hub_download(*words, **options, cache_dir=tmp_path / "cache")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    runs = make_report(folder, count=3, samples=1)
    (name,) = {path.parent.name for path in runs.glob("*/*")}
    build_report([runs], folder / "reports" / name, figures=False)
    return folder, name


def test_a_dry_run_writes_the_folder_with_a_card_and_uploads_nothing(outputs, hub, capsys):
    folder, name = outputs
    assert push.main([name, "me/texts", "--outputs", str(folder), "--dry-run"]) == 0
    assert "nothing was uploaded" in capsys.readouterr().out
    assert hub.calls == []
    pushed = folder / "exports" / f"{name}-push"
    front, _, card = (pushed / "README.md").read_text(encoding="utf-8").removeprefix("---\n").partition("---\n")
    assert [config["config_name"] for config in yaml.safe_load(front)["configs"]] == ["results", "generations"]
    assert "nucleus p=0.95" in card
    assert "openended score hf://datasets/me/texts/generations/docs/greedy.jsonl --human" in card
    assert len(list((pushed / "records").rglob("*.json"))) == 3
    assert (pushed / "report" / "report.html").is_file()
    assert (pushed / "croissant.json").is_file()


def test_what_is_uploaded_is_the_folder_and_is_read_back(outputs, hub, capsys, tmp_path, monkeypatch):
    folder, name = outputs
    assert push.main([name, "me/texts", "--outputs", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("/datasets/me/texts")
    pushed = folder / "exports" / f"{name}-push"
    files = {path.relative_to(pushed).as_posix(): path.read_bytes() for path in pushed.rglob("*") if path.is_file()}
    assert hub.files == files
    assert hub.created.get("visibility") == "private" or hub.created["private"] is True
    assert hub.created["type"] == "dataset"
    address = "hf://datasets/me/texts/generations/docs"
    monkeypatch.chdir(tmp_path)
    words = [f"{address}/greedy.jsonl", "--human", f"{address}/human.jsonl", "--metrics", "distinct_n", "-q"]
    with undrawn_figures():
        assert score.main(words) == 0
    assert "greedy" in capsys.readouterr().out


def test_a_hub_that_refuses_is_one_line_and_the_folder_stays(outputs, hub, capsys):
    folder, name = outputs
    hub.refuses = True
    assert push.main([name, "me/texts", "--outputs", str(folder)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "me/texts: not uploaded" in error
    assert (folder / "exports" / f"{name}-push" / CARD).is_file()


def test_a_file_that_is_not_on_the_hub_is_named(hub):
    assert files.download_if_on_hub("a.jsonl") == "a.jsonl"
    with pytest.raises(Exception, match=r"hf://datasets/me/texts/no\.jsonl: cannot be downloaded"):
        files.download_if_on_hub("hf://datasets/me/texts/no.jsonl")
