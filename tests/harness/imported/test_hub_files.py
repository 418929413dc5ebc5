"""`hf://…` files, read from an endpoint on this machine that answers as the Hub does. No test reaches the Hub."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from openended.harness.app.commands import score
from openended.harness.imported import files
from tests.helpers import undrawn_figures

huggingface_hub = pytest.importorskip("huggingface_hub", reason="downloads: extra hub")
COMMIT = "c" * 40


class FakeHub(BaseHTTPRequestHandler):
    """Answers the requests of a download from the files of the server."""

    def log_message(self, *_):
        pass

    def _answer(self, body=b"", status=200, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        prefix = "/datasets/me/texts/resolve/main/"
        data = self.server.files.get(self.path.removeprefix(prefix))
        if not self.path.startswith(prefix):
            return self._answer(json.dumps({"sha": COMMIT, "siblings": []}).encode())
        if data is None:
            return self._answer(b"{}", 404, X_Error_Code="EntryNotFound")
        return self._answer(data, X_Repo_Commit=COMMIT, ETag=f'"{hashlib.sha256(data).hexdigest()}"')

    do_HEAD = do_GET


@pytest.fixture
def hub(monkeypatch, tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeHub)
    server.files = {}
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    api = huggingface_hub.HfApi(endpoint=f"http://127.0.0.1:{server.server_port}", token="hf_fake")
    # A test before it may have found the Hub unreachable, which switches the client off for the process.
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api)

    def download(*words, **options):
        return api.hf_hub_download(*words, **options, cache_dir=tmp_path / "cache")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    yield server
    server.shutdown()
    server.server_close()


def test_files_of_a_dataset_repository_are_scored(hub, capsys, tmp_path, monkeypatch):
    for name, end in (("greedy", "a"), ("human", "b")):
        rows = [{"id": f"{i}", "text": f"text {i} ends with {end} {i * 7}"} for i in range(6)]
        hub.files[f"docs/{name}.jsonl"] = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    monkeypatch.chdir(tmp_path)
    address = "hf://datasets/me/texts/docs"
    words = [f"{address}/greedy.jsonl", "--human", f"{address}/human.jsonl", "--metrics", "distinct_n", "-q"]
    with undrawn_figures():
        assert score.main(words) == 0
    assert "greedy" in capsys.readouterr().out


def test_a_file_that_is_not_on_the_hub_is_named(hub):
    assert files.download_if_on_hub("a.jsonl") == "a.jsonl"
    with pytest.raises(Exception, match=r"hf://datasets/me/texts/no\.jsonl: cannot be downloaded"):
        files.download_if_on_hub("hf://datasets/me/texts/no.jsonl")
