"""Datasets of the hub: a local folder for the reading, a stand-in for the hub's answers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.tasks.hub import Hub
from tests.helpers import write_jsonl

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "set"
    place.mkdir()
    rows = [{"key": f"k{i}", "text": f"one two three four {i}", "q": f"Q{i}", "a": f" A{i}"} for i in range(20)]
    rows += [{"key": "k20", "text": None, "q": "Q", "a": None}, {"key": "k21", "text": "one", "q": None, "a": "A"}]
    write_jsonl(place / "test.jsonl", rows)
    return str(place)


def hub(folder: str, **options: Any) -> Hub:
    return Hub(**{"path": folder, "prompt_unit": "words", "prompt_length": 2, "max_length": None, **options})


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch, folder: str) -> Any:
    """Reads the folder without the cache of the real home."""
    datasets = pytest.importorskip("datasets")
    load = datasets.load_dataset
    cache = str(Path(folder).parent / "cache")
    datasets.disable_progress_bars()

    def loaded(*args: Any, **kwargs: Any) -> Any:
        return load(*args, cache_dir=cache, **kwargs)

    monkeypatch.setattr(datasets, "load_dataset", loaded)
    return loaded


@pytest.mark.usefixtures("quiet")
def test_a_text_field_is_cut(folder: str) -> None:
    skipped: Counter[str] = Counter()
    made = list(hub(folder).examples(None, skipped))
    assert len(made) == 20
    assert all(e.prompt == "one two" and e.human.startswith(" three four") for e in made)
    assert skipped == {"text is null": 1, "no longer than 2 words": 1}
    by_file = list(hub(folder, order="file", id_field="key").examples(None, Counter()))
    assert [e.id for e in by_file] == [f"hub/k{i}" for i in range(20)]
    assert [e.human for e in by_file] != [e.human for e in made]


@pytest.mark.usefixtures("quiet")
def test_two_fields(folder: str) -> None:
    skipped: Counter[str] = Counter()
    task = hub(folder, text_field=None, prompt_field="q", human_field="a", order="file")
    made = list(task.examples(None, skipped))
    assert not task.needs_tokenizer()
    assert (made[3].prompt, made[3].human) == ("Q3", " A3")
    assert skipped == {"a is null": 1, "q is no text": 1}


@pytest.mark.usefixtures("quiet")
def test_what_is_not_there_is_a_one_line_error(folder: str) -> None:
    with pytest.raises(DataError, match="no field 'txt'; did you mean 'text'"):
        list(hub(folder, text_field="txt").examples(None, Counter()))
    with pytest.raises(DataError, match="split dev: cannot be loaded") as caught:
        list(hub(folder, split="dev").examples(None, Counter()))
    assert "\n" not in str(caught.value)


def test_a_folders_fingerprint_is_its_content(folder: str) -> None:
    first = hub(folder).fingerprint()
    assert first != hub(folder, split="train").fingerprint()
    with (Path(folder) / "test.jsonl").open("a") as handle:
        handle.write("{}\n")
    assert hub(folder).fingerprint() != first


def test_a_revision_is_resolved_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    for name in ("OPENENDED_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    answers = [COMMIT, "f" * 40]

    class Api:
        def dataset_info(self, dataset: str, revision: str | None) -> Any:
            return type("Info", (), {"sha": answers.pop(0)})

    loaded: list[Any] = []
    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
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


def test_a_hub_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    class Api:
        def dataset_info(self, *_: Any, **__: Any) -> Any:
            raise ConnectionError("no route\nto host")

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    for name in ("OPENENDED_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(DataError, match=r"does not answer for it \(no route\)"):
        Hub(path="some/set", cache_dir=str(tmp_path)).fetch()


@pytest.mark.parametrize(
    "options",
    [
        {"path": " "},
        {"text_field": None},
        {"prompt_field": "q", "human_field": "a"},
        {"prompt_length": 0},
        {"max_length": 35},
    ],
)
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        Hub(**{"path": "x/y", **options})
