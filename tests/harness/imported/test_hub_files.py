"""`hf://…` files: fetched by the Hub's client, for which a folder stands in. No test reaches the Hub."""

import json

import pytest

from openended.harness.app.commands import score
from openended.harness.core import DataError
from openended.harness.imported import files
from tests.helpers import undrawn_figures

huggingface_hub = pytest.importorskip("huggingface_hub", reason="downloads: extra hub")
ADDRESS = "hf://datasets/me/texts/docs"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder that holds the files of the repository me/texts."""

    def download(repo, file, *, repo_type, revision):
        assert (repo, repo_type, revision) == ("me/texts", "dataset", None)
        path = tmp_path / file
        if not path.is_file():
            raise ConnectionError("404 Client Error")
        return str(path)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    return tmp_path


def test_files_of_a_dataset_repository_are_scored(hub, capsys, monkeypatch):
    (hub / "docs").mkdir()
    for name, end in (("greedy", "a"), ("human", "b")):
        rows = [{"id": f"{i}", "text": f"text {i} ends with {end} {i * 7}"} for i in range(6)]
        (hub / "docs" / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    monkeypatch.chdir(hub)
    with undrawn_figures():
        words = [f"{ADDRESS}/greedy.jsonl", "--human", f"{ADDRESS}/human.jsonl", "--metrics", "distinct_n", "-q"]
        assert score.main(words) == 0
    assert "greedy" in capsys.readouterr().out


@pytest.mark.usefixtures("hub")
def test_a_file_that_is_not_on_the_hub_is_named():
    assert files.download_if_remote("a.jsonl") == "a.jsonl"
    with pytest.raises(
        DataError, match=r"hf://datasets/me/texts/docs/no\.jsonl: cannot be downloaded \(ConnectionError"
    ):
        files.download_if_remote(f"{ADDRESS}/no.jsonl")
