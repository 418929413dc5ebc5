"""WritingPrompts in the published format: an archive or a folder, tokenized text."""

import tarfile

import pytest

from openended.harness.core.errors import DataError
from openended.tasks.writing_prompts import WritingPrompts, detokenize, strip_tag
from tests.tasks.reading import read, read_counted

SOURCES = ["[ WP ] You wake up on the Moon .", "[ EU ] A wizard 's cat speaks .", "No tag here", "[ WP ] Empty story ."]
TARGETS = [
    "It was cold , I do n't know why . <newline> <newline> `` Hello ? '' I said .",
    "`` Meow , '' it did n't say .",
    "Once ( or twice ) it worked . . .",
    " <newline> ",
]


def write_folder(tmp_path, sources=SOURCES, targets=TARGETS, end="\n"):
    folder = tmp_path / "writingPrompts"
    folder.mkdir(exist_ok=True)
    for name, lines in (("wp_source", sources), ("wp_target", targets)):
        (folder / f"test.{name}").write_text("".join(f"{s}{end}" for s in lines), encoding="utf-8", newline="")
    return folder


def write_archive(tmp_path):
    path = tmp_path / "writingPrompts.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(write_folder(tmp_path), "writingPrompts")
    return path


def stories(path, **options):
    return WritingPrompts(
        **{"path": str(path), "prompt_unit": "words", "prompt_length": 2, "max_length": 60, **options}
    )


@pytest.mark.parametrize(
    ("raw", "expected"),
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
def test_markup_is_undone(raw, expected):
    assert detokenize(raw) == expected


@pytest.mark.parametrize("raw", ["[ WP ] Go .", "[WP] Go .", " [ eu ]  Go .", "Go ."])
def test_tags_are_removed(raw):
    assert strip_tag(raw) == "Go ."
    assert strip_tag("[ a longer remark ] Go .") == "[ a longer remark ] Go ."


@pytest.mark.parametrize("write", [write_folder, write_archive])
def test_a_document_is_situation_and_story(tmp_path, write):
    path = write(tmp_path)
    examples, skipped = read_counted(stories(path, order="file"))
    assert [e.id for e in examples] == [f"writing_prompts/00000{i}" for i in range(3)]
    assert examples[0].prompt == "You wake"
    assert examples[0].human == ' up on the Moon.\n\nIt was cold, I don\'t know why.\n\n"Hello?" I said.'
    assert skipped == {"story is empty": 1}
    alone = read(stories(path, order="file", situation=False))
    assert alone[1].prompt + alone[1].human == '"Meow," it didn\'t say.'


def test_fingerprints(tmp_path):
    folder, archive = write_folder(tmp_path), write_archive(tmp_path)
    first = stories(folder).fingerprint()
    assert first != stories(archive).fingerprint()
    (folder / "test.wp_target").write_text("x\n")
    assert stories(folder).fingerprint() != first
    (folder / "test.wp_target").unlink()
    with pytest.raises(DataError, match=r"task writing_prompts: no such file: .*test\.wp_target; set task\.path"):
        stories(folder).fingerprint()


def test_bytes_that_are_no_text_are_counted_and_odd_line_ends_change_nothing(tmp_path):
    folder = write_folder(tmp_path)
    plain = read(stories(folder))
    write_folder(tmp_path, end="\r\n")
    assert read(stories(folder)) == plain
    write_folder(tmp_path, ["\ufeff" + SOURCES[0], *SOURCES[1:]])
    assert read(stories(folder)) == plain
    (folder / "test.wp_target").write_bytes(b"A good story here .\nbad \xff one\n" + b"Fine , too .\n" * 2)
    examples, skipped = read_counted(stories(folder))
    assert len(examples) == 3
    assert skipped == {"not UTF-8": 1}


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        (SOURCES, TARGETS[:3], r"test, line 4: only one of wp_source and wp_target"),
        (SOURCES, [*TARGETS, "more"], r"test, line 5: only one of"),
        (SOURCES, ["x" * 50_000_000], r"wp_target:1: a line of more than 16 MiB"),
    ],
)
def test_files_that_do_not_belong_together(tmp_path, sources, targets, message):
    with pytest.raises(DataError, match=message):
        read(stories(write_folder(tmp_path, sources, targets)))


def test_missing_and_broken_archives(tmp_path):
    def check(path, message, **options):
        with pytest.raises(DataError, match=message):
            read(stories(path, **options))

    check(tmp_path / "none.tar.gz", r"missing file: .*; get it from https://dl\.fbaipublicfiles\.com")
    archive = write_archive(tmp_path)
    check(archive, r"holds no valid\.wp_source", split="valid")
    archive.write_bytes(archive.read_bytes()[:-60])
    check(archive, "to its end", split="valid")
    archive.write_bytes(b"no archive")
    check(archive, "not a readable archive")
    folder = write_folder(tmp_path)
    (folder / "test.wp_source").unlink()
    check(folder, r"missing file: .*test\.wp_source; get https://.* and unpack it there")
    task = WritingPrompts(cache_dir=str(tmp_path), offline=True)
    assert task.needs_tokenizer()
    with pytest.raises(DataError, match=r"writingPrompts\.tar\.gz"):
        task.fingerprint()
