"""AG News as a diagnostic: which texts are on which side, and what precision and recall say of them."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.tasks.ag_news import AgNews


def file(tmp_path: Path, rows: list[list[str]]) -> str:
    path = tmp_path / "train.csv"
    with path.open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle, quoting=csv.QUOTE_ALL).writerows(rows)
    return str(path)


def system(task: AgNews, *topics: str) -> list[str]:
    read = task.open_bundled_system("topics:" + "+".join(topics))
    assert read is not None
    return read()


def news(count: int) -> list[list[str]]:
    return [[str(1 + i % 4), f"Title {i}", f"Text {i} of topic {i % 4}, with quotes."] for i in range(count)]


def test_reference_and_systems_hold_their_topics_and_share_no_text(tmp_path: Path) -> None:
    task = AgNews(path=file(tmp_path, news(400)))
    reference = [e.human for e in task.examples(None, Counter())]
    subset, same, superset = (
        system(task, "world"),
        system(task, "world", "sports"),
        system(task, "world", "sports", "science"),
    )
    assert all("topic 0" in t or "topic 1" in t for t in reference)
    assert all("topic 0" in t for t in subset)
    assert len(subset) < len(same) < len(superset)
    assert not set(reference) & set(superset)
    assert len(reference) + len(same) == 200


def test_texts_are_title_and_description_without_markup(tmp_path: Path) -> None:
    rows = [["1", "A &amp; B", r"First\nline"], ["2", " ", " "], *news(40)]
    skipped: Counter[str] = Counter()
    task = AgNews(path=file(tmp_path, rows), topics=("world",))
    texts = [e.human for e in task.examples(None, skipped)] + system(task, "world")
    assert "A & B\nFirst line" in texts
    assert skipped["text is empty"] == 1
    assert all(e.prompt == "" and e.id.startswith("ag_news/") for e in task.examples(None, Counter()))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["5", "a", "b"]], r"train\.csv:1: expected a class from 1 to 4"),
        ([["1", "a"]], r"train\.csv:1: expected a class"),
        ([["3", "a", "b"]], r"holds no news of world, sports"),
        ([], r"holds no news"),
    ],
)
def test_wrong_files(tmp_path: Path, rows: list[list[str]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(AgNews(path=file(tmp_path, rows)).examples(None, Counter()))


def test_wrong_encoding_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    with pytest.raises(DataError, match="missing file"):
        list(AgNews(path=str(path)).examples(None, Counter()))
    path.write_bytes(b'"1","caf\xe9","b"\n')
    with pytest.raises(DataError, match="UTF-8"):
        list(AgNews(path=str(path)).examples(None, Counter()))


@pytest.mark.parametrize("options", [{"topics": []}, {"topics": ["world", "world"]}, {"topics": ["weather"]}])
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        AgNews(**options)
    with pytest.raises(SpecError):
        system(AgNews(), "weather")


def test_subset_is_precise_and_superset_recalls(tmp_path: Path) -> None:
    """Meaning: with topics far apart in the embedding, precision and recall are the shares of topics."""
    np = pytest.importorskip("numpy")
    metric = pytest.importorskip("openended.metrics.knn_precision_recall")
    task = AgNews(path=file(tmp_path, news(1200)))

    def vectors(texts: list[str]) -> Any:
        rng = np.random.default_rng(0)
        centres = np.eye(4)[[int(t.split("topic ")[1][0]) for t in texts]] * 10
        return centres + rng.normal(size=centres.shape) * 0.3

    human = vectors([e.human for e in task.examples(None, Counter())])

    def scores(*topics: Any) -> tuple[float, float]:
        made = metric.knn_precision_recall(human=human, model=vectors(system(task, *topics)), explained_variance=None)
        return float(made["precision"]), float(made["recall"])

    precision, recall = scores("world")
    assert precision > 0.9
    assert recall < 0.6
    precision, recall = scores("world", "sports", "business", "science")
    assert precision < 0.6
    assert recall > 0.9
    assert min(scores("world", "sports")) > 0.9


def test_systems_have_names(tmp_path: Path) -> None:
    task = AgNews(path=file(tmp_path, news(40)))
    read = task.open_bundled_system("topics:world+business")
    assert read is not None
    assert read() == system(task, "world", "business")
    assert task.open_bundled_system("somebody.jsonl") is None
    for wrong in ("topics:", "topics:world+weather", "topics:world+world"):
        with pytest.raises(SpecError, match="topics"):
            task.open_bundled_system(wrong)
