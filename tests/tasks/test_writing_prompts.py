"""WritingPrompts in the published format: an archive or a folder, tokenised text."""

from __future__ import annotations

import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.harness.core.types import Example
from openended.tasks._detokenize import detokenize, strip_tag
from openended.tasks.writing_prompts import WritingPrompts

SOURCES = ["[ WP ] You wake up on the Moon .", "[ EU ] A wizard 's cat speaks .", "No tag here", "[ WP ] Empty story ."]
TARGETS = [
    "It was cold , I do n't know why . <newline> <newline> `` Hello ? '' I said .",
    "`` Meow , '' it did n't say .",
    "Once ( or twice ) it worked . . .",
    " <newline> ",
]


def folder(tmp_path: Path, sources: list[str] = SOURCES, targets: list[str] = TARGETS) -> Path:
    place = tmp_path / "writingPrompts"
    place.mkdir(exist_ok=True)
    for split in ("train", "valid", "test"):
        (place / f"{split}.wp_source").write_text("".join(f"{s}\n" for s in sources), encoding="utf-8")
        (place / f"{split}.wp_target").write_text("".join(f"{t}\n" for t in targets), encoding="utf-8")
    return place


def archive(tmp_path: Path) -> Path:
    packed = tmp_path / "writingPrompts.tar.gz"
    with tarfile.open(packed, "w:gz") as out:
        out.add(folder(tmp_path), "writingPrompts")
    return packed


def words(path: Path, **options: Any) -> WritingPrompts:
    return WritingPrompts(
        **{"path": str(path), "prompt_unit": "words", "prompt_length": 2, "max_length": 60, **options}
    )


def read(task: WritingPrompts, skipped: Counter[str] | None = None) -> list[Example]:
    return list(task.examples(None, Counter() if skipped is None else skipped))


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        ("I ca n't , wo n't ; it 's he 'll I 'm", "I can't, won't; it's he'll I'm"),
        ("`` Hi , '' she said , `` bye ! ''", '"Hi," she said, "bye!"'),
        ("A <newline> B<newline><newline>C", "A\nB\n\nC"),
        ("( well ) [ so ] $ 5 and 10 %", "(well) [so] $5 and 10%"),
        ('He said " yes " .', 'He said "yes".'),
        ("wait ... what", "wait... what"),
        ("gon na go , got ta run", "gonna go, gotta run"),
        ("no markup at all", "no markup at all"),
        ("", ""),
    ],
)
def test_markup_is_undone(raw: str, want: str) -> None:
    assert detokenize(raw) == want


@pytest.mark.parametrize("raw", ["[ WP ] Go .", "[WP] Go .", " [ eu ]  Go .", "Go ."])
def test_tags_are_removed(raw: str) -> None:
    assert strip_tag(raw) == "Go ."
    assert strip_tag("[ a longer remark ] Go .") == "[ a longer remark ] Go ."


@pytest.mark.parametrize("packed", [False, True])
def test_a_document_is_situation_and_story(tmp_path: Path, packed: bool) -> None:
    task = words(archive(tmp_path) if packed else folder(tmp_path), order="file")
    skipped: Counter[str] = Counter()
    made = read(task, skipped)
    assert [e.id for e in made] == [f"writing_prompts/00000{i}" for i in range(3)]
    assert made[0].prompt == "You wake"
    assert made[0].human == ' up on the Moon.\n\nIt was cold, I don\'t know why.\n\n"Hello?" I said.'
    assert skipped == {"story is empty": 1}
    alone = read(words(folder(tmp_path), order="file", situation=False))
    assert alone[1].prompt + alone[1].human == '"Meow," it didn\'t say.'


def test_hash_order_is_the_same_set(tmp_path: Path) -> None:
    place = folder(tmp_path, ["[ WP ] Go on ."] * 30, ["A story of some words ."] * 30)
    by_file, by_hash = [[e.id for e in read(words(place, order=o))] for o in ("file", "hash")]
    assert by_file != by_hash
    assert by_file == sorted(by_hash)


def test_fingerprints(tmp_path: Path) -> None:
    place, packed = folder(tmp_path), archive(tmp_path)
    assert words(place).fingerprint() != words(packed).fingerprint()
    first = words(place).fingerprint()
    (place / "test.wp_target").write_text("x\n")
    assert words(place).fingerprint() != first


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"test, line 4: only one of wp_source and wp_target"):
        read(words(folder(tmp_path, SOURCES, TARGETS[:3])))


def test_bytes_that_are_no_text_are_counted(tmp_path: Path) -> None:
    place = folder(tmp_path)
    (place / "test.wp_target").write_bytes(b"A good story here .\nbad \xff one\n" + b"Fine , too .\n" * 2)
    skipped: Counter[str] = Counter()
    assert len(read(words(place), skipped)) == 3
    assert skipped == {"not UTF-8": 1}


def test_missing_and_broken_archives(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"missing file: .*; get it from https://dl\.fbaipublicfiles\.com"):
        read(words(tmp_path / "none.tar.gz"))
    packed = archive(tmp_path)
    packed.write_bytes(packed.read_bytes()[:-60])
    with pytest.raises(DataError, match=r"to its end|holds no"):
        read(words(packed, split="valid"))
    packed.write_bytes(b"no archive")
    with pytest.raises(DataError, match="not a readable archive"):
        read(words(packed))
    place = folder(tmp_path)
    (place / "test.wp_source").unlink()
    with pytest.raises(DataError, match=r"missing file: .*test\.wp_source"):
        read(words(place))
    other = tmp_path / "other.tar.gz"
    with tarfile.open(other, "w:gz"):
        pass
    with pytest.raises(DataError, match=r"holds no test\.wp_source"):
        read(words(other))


def test_the_official_archive_is_planned_offline(tmp_path: Path) -> None:
    task = WritingPrompts(cache_dir=str(tmp_path), offline=True)
    assert task.needs_tokenizer()
    assert task.files()[0].url == "https://dl.fbaipublicfiles.com/fairseq/data/writingPrompts.tar.gz"
    with pytest.raises(DataError, match=r"writingPrompts\.tar\.gz"):
        task.fingerprint()


@pytest.mark.parametrize("options", [{"prompt_length": 0}, {"max_length": 50}, {"split": "val"}])
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        WritingPrompts(**options)
