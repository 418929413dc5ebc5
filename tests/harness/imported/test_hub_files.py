"""`hf://…` files: fetched by the Hub's client, for which a folder stands in. No test reaches the Hub."""

import json

import pytest

from openended.harness.app.commands import score
from openended.harness.core import OFFLINE_VARIABLES, DataError, SpecError, UnavailableFileError
from openended.harness.imported import find_generations, read_texts
from tests.helpers import check_error, undrawn_figures

huggingface_hub = pytest.importorskip("huggingface_hub", reason="downloads: extra hub")
ADDRESS = "hf://datasets/me/texts/docs"


@pytest.fixture(autouse=True)
def online(monkeypatch):
    for name in OFFLINE_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder that holds the files of the repository me/texts."""

    def download(repo, file, *, repo_type, revision, local_files_only=False):
        assert (repo, repo_type, revision) == ("me/texts", "dataset", None)
        path = tmp_path / file
        if not path.is_file() or local_files_only:
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
    message = r"hf://datasets/me/texts/docs/no\.jsonl: cannot be downloaded \(ConnectionError"
    check_error(DataError, message, find_generations, f"{ADDRESS}/no.jsonl", planning=False)
    for address in (f"{ADDRESS}/no.jsonl", ADDRESS):
        with pytest.raises(UnavailableFileError, match=r"missing file: .*(it is downloaded by a run|huggingface\.co)"):
            find_generations(address, planning=True)


@pytest.mark.slow
def test_a_dataset_is_streamed_into_a_file_once(tmp_path, monkeypatch, caplog):
    """The library `datasets` reads a folder of the working directory as it would the repository of this name."""
    pytest.importorskip("datasets", reason="extra hub")
    monkeypatch.setenv("OPENENDED_CACHE", str(tmp_path / "cache"))
    (tmp_path / "me/texts").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for split in ("train", "test"):
        rows = [{"prompt": f"Write about {i}.", "response": f"a {split} text about {i}"} for i in range(3)]
        (tmp_path / f"me/texts/{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.raises(SpecError, match="expected a split, train, test, as hf://datasets/me/texts/test, got none"):
        find_generations("hf://datasets/me/texts", planning=False)
    path = find_generations("hf://datasets/me/texts/test", planning=False)
    assert [text.text for text in read_texts(path)] == [f"a test text about {i}" for i in range(3)]
    assert "me/texts: 3 rows of 'test' read by datasets" in caplog.text
    monkeypatch.chdir(tmp_path.parent)
    assert find_generations("hf://datasets/me/texts/test", planning=True) == path
