"""Datasets of the hub: a local folder for the reading, a stand-in for the hub's answers."""

from collections import Counter
from types import SimpleNamespace

import pytest

from openended.harness.core.errors import DataError
from openended.tasks.hub import Hub
from tests.helpers import write_jsonl
from tests.tasks.reading import read, read_counted

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def folder(tmp_path):
    rows = [{"key": f"k{i}", "text": f"one two three four {i}", "q": f"Q{i}", "a": f" A{i}"} for i in range(20)]
    rows += [{"key": "k20", "text": None, "q": "Q", "a": None}, {"key": "k21", "text": "one", "q": None, "a": "A"}]
    (tmp_path / "set").mkdir()
    write_jsonl(tmp_path / "set" / "test.jsonl", rows)
    return tmp_path / "set"


@pytest.fixture
def dataset(folder, monkeypatch):
    """The folder, read without the cache of the real home."""
    datasets = pytest.importorskip("datasets")
    load, cache = datasets.load_dataset, str(folder.parent / "cache")
    datasets.disable_progress_bars()
    monkeypatch.setenv("HF_DATASETS_CACHE", cache)
    monkeypatch.setattr(datasets, "load_dataset", lambda *args, **more: load(*args, cache_dir=cache, **more))
    return folder


@pytest.fixture
def answers(monkeypatch):
    """What the hub answers when it is asked for a commit, in order: a commit, None or an error."""
    import huggingface_hub

    for name in ("OPENENDED_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    planned = []

    class Api:
        def dataset_info(self, dataset, revision):
            answer = planned.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return SimpleNamespace(sha=answer)

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    return planned


def hub(folder, **options):
    return Hub(**{"path": str(folder), "prompt_unit": "words", "prompt_length": 2, "max_length": None, **options})


def test_a_text_field_is_cut(dataset):
    examples, skipped = read_counted(hub(dataset))
    assert len(examples) == 20
    assert all(e.prompt == "one two" and e.human.startswith(" three four") for e in examples)
    assert skipped == {"text is null": 1, "no longer than 2 words": 1}
    by_file = read(hub(dataset, order="file", id_field="key"))
    assert [e.id for e in by_file] == [f"hub/k{i}" for i in range(20)]
    assert [e.human for e in by_file] != [e.human for e in examples]
    assert dict(hub(dataset).documents(Counter()))["000021"] == "one"


def test_two_fields(dataset):
    task = hub(dataset, text_field=None, prompt_field="q", human_field="a", order="file")
    examples, skipped = read_counted(task)
    assert not task.needs_tokenizer()
    assert Hub(path="x/y").needs_tokenizer()
    assert (examples[3].prompt, examples[3].human) == ("Q3", " A3")
    assert skipped == {"a is null": 1, "q is no text": 1}


def test_what_is_missing_is_a_one_line_error(dataset):
    with pytest.raises(DataError, match="no field 'txt'; did you mean 'text'"):
        read(hub(dataset, text_field="txt"))
    with pytest.raises(DataError, match="split dev: cannot be loaded") as caught:
        read(hub(dataset, split="dev"))
    assert "\n" not in str(caught.value)


def test_a_folders_fingerprint_is_its_content(folder):
    first = hub(folder).fingerprint()
    assert first != hub(folder, split="train").fingerprint()
    with (folder / "test.jsonl").open("a") as handle:
        handle.write("{}\n")
    assert hub(folder).fingerprint() != first


def test_a_revision_is_resolved_once_and_kept(tmp_path, monkeypatch, answers):
    answers += [COMMIT, "f" * 40]
    loaded = []
    monkeypatch.setattr(Hub, "_load", lambda self, commit: loaded.append(commit))
    task = Hub(path="some/set", cache_dir=str(tmp_path))
    with pytest.raises(DataError, match=r"some/set was never fetched here.*https://huggingface\.co/datasets/some/set"):
        task.fingerprint()
    task.fetch()
    first = task.fingerprint()
    task.fetch()
    assert loaded == [COMMIT, COMMIT]
    assert task.fingerprint() == first
    assert answers == ["f" * 40]
    pinned = Hub(path="some/set", revision="a" * 40, cache_dir=str(tmp_path), offline=True)
    assert pinned.fingerprint() != first
    with pytest.raises(DataError, match="never fetched"):
        Hub(path="some/set", revision="v2", cache_dir=str(tmp_path), offline=True).fetch()


def test_a_hub_that_does_not_answer(tmp_path, answers):
    answers += [ConnectionError("no route\nto host"), None]
    for message in (r"does not answer for it \(no route\)", r"names no commit; set task\.revision"):
        with pytest.raises(DataError, match=message):
            Hub(path="some/set", cache_dir=str(tmp_path)).fetch()
