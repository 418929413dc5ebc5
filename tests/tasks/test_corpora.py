"""Tasks of published corpora and their commands: what becomes an example, what is counted, and which files are asked for."""

import csv
import json
import re
import shlex
import tarfile
import zipfile
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.harness.core.registry import load_members
from openended.harness.imported import find_generations
from openended.harness.storage.record import RunInput, RunRecord, save_record
from openended.tasks import docs_topics, unconditional
from openended.tasks._passages import Passage
from openended.tasks.ag_news import AgNews
from openended.tasks.biographies import Biographies
from openended.tasks.creative import Creative
from openended.tasks.docs_topics import DocsTopics
from openended.tasks.hub import Hub
from openended.tasks.jsonl import JsonLines
from openended.tasks.open_questions import InfinityChat, NoveltyBench
from openended.tasks.realnews import RealNews, render_metadata_prompt
from openended.tasks.unconditional import Unconditional, wrap
from openended.tasks.webtext import WebText
from openended.tasks.writing_prompts import WritingPrompts, detokenize, strip_tag
from tests.harness.report.synthetic import write_run
from tests.helpers import SHARED, cases, check_error, run_settings, write_file, write_jsonl
from tests.tasks.reading import read, read_counted

# What the README's table says of a task

TASKS = load_members("task")


@pytest.mark.parametrize("name", TASKS)
def test_every_fact_is_there(name: str) -> None:
    for fact in ("source", "size", "license", "obtained", "command"):
        assert getattr(TASKS[name], fact).strip(), f"{name}: {fact} is empty"


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", TASKS)
def test_the_command_is_a_run_of_the_task(name: str) -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    program, *words = shlex.split(TASKS[name].command)
    assert program == "openended"
    overrides = OverridesParser.create().parse_overrides([word for word in words if word != "-m"])
    swept = [o for o in overrides if o.is_sweep_override()]
    assert bool(swept) == ("-m" in words)
    # Of a sweep, the first value of each option.
    given = [
        f"{o.key_or_group}={next(iter(o.sweep_string_iterator()))}" if o in swept else str(o.input_line)
        for o in overrides
    ]
    assert run_settings(*given).task.name == name


# WebText in the published format, and named public files of generations

DOC = "One two three.\n\nFour five six seven eight nine ten eleven twelve."


class Words:
    """A token is a word with its leading space."""

    def encode(self, text):
        return re.findall(r"\s*\S+", text)

    def decode(self, ids):
        return "".join(ids)


def write(tmp_path, *texts, **more):
    rows = [{"id": 255000 + i, "ended": True, "length": 9, "text": text, **more} for i, text in enumerate(texts)]
    return str(write_jsonl(tmp_path / "webtext.test.jsonl", rows))


def test_prompt_is_the_first_tokens_of_the_model(tmp_path):
    task = WebText(path=write(tmp_path, DOC, "Z " + DOC, ended=False), prompt_length=4, max_length=8)
    assert task.needs_tokenizer()
    first, second = read(task, Words())
    assert (first.id, first.prompt, first.human) == (
        "webtext/000000", "One two three.\n\nFour", " five six seven eight",
    )  # fmt: skip
    assert (second.id, second.meta["ended"]) == ("webtext/000001", False)


def test_chat_models_get_an_instruction_and_the_last_word_opens_the_reply(tmp_path):
    options = {"prompt_unit": "words", "prompt_length": 4, "max_length": None, "instruction": "Continue:"}
    (example,) = read(WebText(path=write(tmp_path, DOC), **options))
    assert example.prompt == "One two three.\n\nFour"
    assert (example.meta["user"], example.meta["assistant"]) == ("Continue:\nOne two three.", "Four")


def test_word_counted_prompts_need_no_tokenizer(tmp_path):
    task = WebText(path=write(tmp_path, DOC), prompt_unit="words", prompt_length=10, max_length=None)
    assert not task.needs_tokenizer()
    (example,) = read(task)
    assert example.prompt + example.human == DOC
    assert example.human == " eleven twelve."


def test_what_cannot_be_used_is_counted(tmp_path):
    path = write(tmp_path, None, " ", "\ud800x", "One two", DOC)
    examples, skipped = read_counted(WebText(path=path, prompt_length=2), Words())
    assert [e.id for e in examples] == ["webtext/000004"]
    assert skipped == {
        "text is null": 1, "text is empty": 1, "text is not valid Unicode": 1, "no longer than 2 tokens": 1,
    }  # fmt: skip


def test_the_official_file_is_planned_offline(tmp_path):
    task = WebText(cache_dir=str(tmp_path), offline=True)
    (planned,) = task.files()
    assert planned.url.endswith("/gpt-2/output-dataset/v1/webtext.test.jsonl")
    assert planned.path == tmp_path / "webtext" / "webtext.test.jsonl"
    assert not planned.present
    for ask in (task.fingerprint, task.fetch):
        check_error(DataError, r"missing file .*webtext\.test\.jsonl; get it from https://.* put it at", ask)
    planned.path.parent.mkdir()
    write(planned.path.parent, DOC)
    task.fetch()
    assert task.files()[0].present
    copy = WebText(path=str(planned.path))
    assert task.fingerprint() == copy.fingerprint()
    copy.fetch()
    assert copy.files()[0].path == planned.path
    with pytest.raises(DataError, match=r"task webtext: no such file: .*; set task\.path"):
        WebText(path=str(tmp_path / "none.jsonl")).fingerprint()


def test_public_generations_have_names(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENENDED_CACHE", str(tmp_path))
    monkeypatch.setenv("OPENENDED_OFFLINE", "1")
    assert find_generations("some/file.jsonl", planning=False) == Path("some/file.jsonl")
    missing = r"missing file .*; get it from https://.* put it at"
    named = ("gpt2-output:xl-1542M-k40.test", "/xl-1542M-k40.test.jsonl")
    for name, file in (named, ("grover:mega-p0.94", "/generator=mega~dataset=p0.94.jsonl")):
        for planning in (False, True):
            assert file in check_error(DataError, missing, find_generations, name, planning=planning)
    path = tmp_path / "webtext" / "xl-1542M-k40.test.jsonl"
    path.parent.mkdir()
    path.write_text("{}")
    assert find_generations("gpt2-output:xl-1542M-k40.test", planning=True) == path


@pytest.mark.reference
def test_real_documents_under_the_real_tokenizer():
    """Prompts of 40 GPT-2 tokens, cut from real documents, are those that the stored generations were made for."""
    bpe, stored = SHARED / "data/gpt2_bpe", SHARED / "data/generations/webtext/gpt2-large-greedy.jsonl"
    if not bpe.is_dir() or not stored.is_file():
        pytest.skip(f"{bpe} or {stored} is not there")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    from openended.harness.models.tokenizer import TextTokenizer
    from openended.tasks._prompts import Cutter

    inner = Tokenizer(models.BPE.from_file(str(bpe / "vocab.json"), str(bpe / "merges.txt")))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    cutter = Cutter("tokens", 40, None, TextTokenizer(inner, (50256,), byte_level=True))
    rows = [json.loads(line) for line in stored.read_text(encoding="utf-8").splitlines()]
    documents = [cutter.cut(row["prompt"] + row["reference"]) for row in rows]
    assert [d.prompt + d.human for d in documents] == [row["prompt"] + row["reference"] for row in rows]
    assert len(rows) == 1000
    # E-mail addresses in a few prompts were replaced, which changes the number of their tokens.
    assert sum(d.prompt == row["prompt"] for d, row in zip(documents, rows, strict=True)) >= 970


# WritingPrompts in the published format: an archive or a folder, tokenized text

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
    chosen = {"prompt_unit": "words", "prompt_length": 2, "max_length": 60, **options}
    return WritingPrompts(path=str(path), **chosen)


@cases(
    "raw, expected",
    ("I ca n't , wo n't ; it 's he 'll I 'm", "I can't, won't; it's he'll I'm"),
    ("`` Hi , '' she said , `` bye ! ''", '"Hi," she said, "bye!"'),
    ("A <newline> B<newline><newline>C", "A\nB\n\nC"), ("( well ) [ so ] $ 5 and 10 %", "(well) [so] $5 and 10%"),
    ('He said " yes " .', 'He said "yes".'), ("wait ... what", "wait... what"),
    ("gon na go , got ta run", "gonna go, gotta run"), ("no markup at all", "no markup at all"), ("", ""),
)  # fmt: skip
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


@cases(
    "sources, targets, message",
    (SOURCES, TARGETS[:3], r"test, line 4: only one of wp_source and wp_target"),
    (SOURCES, [*TARGETS, "more"], r"test, line 5: only one of"),
)
def test_files_that_do_not_belong_together(tmp_path, sources, targets, message):
    check_error(DataError, message, read, stories(write_folder(tmp_path, sources, targets)))


def test_missing_and_broken_archives(tmp_path):
    def check(path, message, **options):
        check_error(DataError, message, read, stories(path, **options))

    check(tmp_path / "none.tar.gz", r"missing file: .*; get it from https://dl\.fbaipublicfiles\.com")
    archive = write_archive(tmp_path)
    check(archive, r"holds no valid\.wp_source", split="valid")
    archive.write_bytes(archive.read_bytes()[:-60])
    check(archive, "to its end", split="valid")
    archive.write_bytes(b"no archive")
    check(archive, "cannot be read to its end")
    folder = write_folder(tmp_path)
    (folder / "test.wp_source").unlink()
    check(folder, r"missing file: .*test\.wp_source; get it from https://")
    task = WritingPrompts(cache_dir=str(tmp_path), offline=True)
    assert task.needs_tokenizer()
    check_error(DataError, r"writingPrompts\.tar\.gz", task.fingerprint)


# News in Grover's formats, made up and real


def grover(number, label="human", **more):
    return {
        "article": f"Body {number} of {label}.", "domain": "example.com", "title": f"Title {number}",
        "date": "April 5, 2019", "authors": "A. Writer", "summary": None, "label": label, "split": "test",
        "orig_split": "gen", "ind30k": number, "random_score": 0.5, "top_p": 0.94, **more,
    }  # fmt: skip


def write_realnews(tmp_path, rows):
    return str(write_jsonl(tmp_path / "generator=mega~dataset=p0.94.jsonl", rows))


def test_prompt_is_the_metadata_in_grovers_order():
    expected = "Domain: example.com\nDate: April 5, 2019\nAuthors: A. Writer\nTitle: Title 3\n\n"
    assert render_metadata_prompt(grover(3)) == expected
    row = {"publish_date": "04-05-2019", "authors": ["A", "B"], "title": " T ", "domain": ""}
    assert render_metadata_prompt(row) == "Date: 04-05-2019\nAuthors: A, B\nTitle: T\n\n"
    assert render_metadata_prompt({"authors": []}) == ""


def test_human_articles_of_the_split_are_the_examples(tmp_path):
    rows = [
        grover(1), grover(1, "machine"), grover(2, split="val"), grover(3, orig_split="train_burner"), grover(4),
        grover(None), grover(True, inst_index=8),
    ]  # fmt: skip
    task = RealNews(path=write_realnews(tmp_path, rows), order="file")
    examples = read(task)
    assert [(e.id, e.human) for e in examples] == [
        ("realnews/000001", "Body 1 of human."), ("realnews/000004", "Body 4 of human."),
        ("realnews/000005", "Body None of human."), ("realnews/000008", "Body True of human."),
    ]  # fmt: skip
    assert examples[0].meta["domain"] == "example.com"
    assert not task.needs_tokenizer()


def test_what_cannot_be_used_is_counted_of_realnews(tmp_path):
    rows = [grover(1, article=None), grover(2, article=""), grover(4), {"text": "No metadata.", "split": "test"}]
    examples, skipped = read_counted(RealNews(path=write_realnews(tmp_path, rows)))
    assert len(examples) == 1
    assert skipped == {"article is null": 1, "article is empty": 1, "no title, domain, date or author": 1}
    with pytest.raises(DataError, match=r"no human article of split 'val'; type task\.split=test"):
        read(RealNews(path=write_realnews(tmp_path, [grover(1)]), split="val"))
    for file in ("a/b", ""):
        check_error(SpecError, "file", RealNews, file=file)


# Biographies after examples in the prompt


def write_biographies(tmp_path, count=12, words=100):
    rows = [{"title": f"Person {i}", "content": f"Person {i} was " + "born " * (words - 3)} for i in range(count)]
    return str(write_jsonl(tmp_path / "bio.jsonl", rows))


@pytest.mark.parametrize("n", [0, 1, 5, 11])
def test_prompts_hold_n_others_and_the_beginning_of_the_next(tmp_path, n):
    path = write_biographies(tmp_path)
    examples = read(Biographies(path=path, num_in_context=n))
    assert len(examples) == 12
    for example in examples:
        assert example.prompt.startswith("Write biographies of various people.\n- Biography of")
        assert example.prompt.count("Biography of Person") == n
        assert example.prompt.endswith("\n- Biography of")
        title = f" Person {int(example.id.split('/')[1])}: "
        assert example.human.startswith(title)
        assert f"Biography of{title}" not in example.prompt
        shown = [line for line in example.prompt.splitlines() if line.startswith("- Biography of Person")]
        assert len(set(shown)) == n
        # The last line opens the assistant's turn.
        assert example.meta["assistant"] == "- Biography of"
        asked = example.meta["user"].replace("Here are a few examples:\n", "")
        assert (asked != example.meta["user"]) == (n > 0)
        assert example.prompt == f"{asked}\n{example.meta['assistant']}"
    assert examples == read(Biographies(path=path, num_in_context=n))
    others = read(Biographies(path=path, num_in_context=n, seed=1))
    assert n == 0 or [e.prompt for e in examples] != [e.prompt for e in others]


def test_titles_are_shortened_and_the_header_is_an_option(tmp_path):
    (example, *_) = read(Biographies(path=write_biographies(tmp_path), num_in_context=1, header=" ", max_title_words=1))
    assert example.prompt.startswith("- Biography of Person: Person")


def test_lengths_are_kept_and_the_rest_counted(tmp_path):
    for words, examples in ((79, 0), (80, 12), (350, 12), (351, 0)):
        task = Biographies(path=write_biographies(tmp_path, words=words), num_in_context=0)
        if examples:
            assert len(read_counted(task)[0]) == examples
            continue
        check_error(DataError, "holds 0 biographies of the asked length, expected 1", read, task)
    with pytest.raises(DataError, match="holds 5 biographies of the asked length, expected 6"):
        read(Biographies(path=write_biographies(tmp_path, count=5)))
    rows = [{"title": "x", "content": "too short"}, {"title": "a", "content": "b " * 90}]
    path = write_jsonl(tmp_path / "bio.jsonl", rows)
    assert read_counted(Biographies(path=str(path), num_in_context=0))[1] == {"not of 80 to 350 words": 1}


def test_missing_file(tmp_path):
    task = Biographies(path=str(tmp_path / "none.jsonl"))
    check_error(DataError, r"task biographies: no such file.*task\.path", task.fingerprint)
    assert not task.files()[0].present
    check_error(DataError, r"not distributed .*set task\.path", Biographies().fingerprint)
    assert Biographies().files()[0].url.startswith("https://")


# Creative writing: draws of instructions, and one system as the other's reference


def draw(**options):
    return read(Creative(**{"num_draws": 60, **options}))


def write_creative(tmp_path, rows):
    return str(write_jsonl(tmp_path / "r.jsonl", rows))


def test_draws_are_of_the_papers_instructions_and_depend_on_the_seed_alone():
    first = draw()
    assert len({e.id for e in first}) == 60
    assert 10 < len({e.meta["instruction"] for e in first}) <= len(Creative()._read_instructions()) == 50
    assert first == draw()
    assert first[:20] == draw(num_draws=20)
    assert first != draw(seed=1)
    assert "between 100 and 500 words" in first[0].prompt
    assert first[0].prompt == f"Instruction: {first[0].meta['user']}\n\nText:\n\n"
    assert first[0].meta["assistant"] == ""
    assert not Creative().has_human()
    assert all(e.human == "" for e in first)


@pytest.mark.parametrize("keys", [("id",), ("number",), ("prompt",), ("id", "prompt")])
def test_another_systems_texts_are_the_reference(tmp_path, keys):
    draws = draw(num_draws=5)
    fields = [{"id": e.id, "number": i, "prompt": e.prompt} for i, e in enumerate(draws)]
    rows = [{key.replace("number", "id"): f[key] for key in keys} | {"text": f"t{i}"} for i, f in enumerate(fields)]
    task = Creative(reference=write_creative(tmp_path, rows), num_draws=60)
    examples = read(task)
    assert [e.human for e in examples] == [f"t{i}" for i in range(5)]
    assert [e.prompt for e in examples] == [e.prompt for e in draws]
    assert task.has_human()
    assert task.fingerprint() != Creative(num_draws=60).fingerprint()
    assert "no human text" in task.remarks()[0]
    assert not Creative().remarks()


def test_all_texts_of_a_prompt_are_drawn_and_other_names_and_endings_do_not_matter(tmp_path):
    counts = Counter[str]()
    rows = []
    for number, example in enumerate(draw()):
        name = ("text", "generation")[number % 2]
        rows.append(
            {"prompt": example.prompt, name: f"t{number}", "sample": counts[example.prompt], "finish_reason": "x"}
        )
        counts[example.prompt] += 1
    assert len(counts) < 60
    task = Creative(reference=write_creative(tmp_path, rows), num_draws=60)
    assert [example.human for example in read(task)] == [f"t{i}" for i in range(60)]


def test_the_reference_is_a_system_too(tmp_path):
    path = write_creative(tmp_path, [{"id": i, "text": f"t{i}"} for i in range(5)])
    texts = Creative(reference=path, num_draws=60).open_bundled_system("reference")()
    assert texts == {f"creative/{i:06d}": f"t{i}" for i in range(5)}
    assert Creative(reference=path).name_bundled_system("reference") == Path(path).stem
    run = write_run(tmp_path, "nucleus", 0, model="docs-m")
    assert Creative(reference=str(run)).name_bundled_system("reference") == "docs-m", "the model that wrote it"
    check_error(SpecError, r"generations=reference: set task\.reference", Creative().open_bundled_system, "reference")


def test_draws_without_a_text_are_counted(tmp_path):
    path = write_creative(tmp_path, [{"id": i, "text": t} for i, t in ((0, "a"), (2, " \n"), (4, "b"))])
    examples, skipped = read_counted(Creative(num_draws=60, reference=path))
    assert [(e.id, e.human) for e in examples] == [("creative/000000", "a"), ("creative/000004", "b")]
    assert skipped == {"the reference has no text for the draw": 2, "the reference's text is empty": 1}


@cases(
    "rows, message",
    ([{"id": 0, "text": "a"}, {"id": "creative/000099", "text": "a"}], r"r\.jsonl:2: answers none of the 60 draws"),
    ([{"id": 0, "prompt": "Another one", "text": "a"}], r"r\.jsonl:1: not the prompt of creative/000000"),
    ([{"text": "a"}], r"r\.jsonl:1: no field 'prompt' and no id"),
    ([{"id": 0, "text": ["a", "b"]}], r"field 'text': expected text, got list; write one text per record$"),
    (
        [{"id": 0, "story": "It was a long day."}],
        r"r\.jsonl:1: no field 'text' with the text; it has id, story; call it text, generation or human$",
    ),
    ([], "holds no text"),
)
def test_a_reference_that_does_not_fit_is_an_error(tmp_path, rows, message):
    check_error(DataError, message, draw, reference=write_creative(tmp_path, rows))


def test_a_folder_must_be_that_of_a_run_with_texts(tmp_path):
    def check(message):
        check_error(DataError, message, Creative(reference=str(tmp_path)).fingerprint)

    check(r"no such file: .*record\.json")
    (tmp_path / "record.json").write_text("[]")
    check("not a run record")
    record = RunRecord(created="2027-01-31T12:00:00+00:00", spec={}, axes={}, results=(), store=".")
    save_record(tmp_path, replace(record, inputs=(RunInput("measure/ab/abc", "model", "zipf"),)))
    check("not the folder of a run that generated")
    save_record(tmp_path, replace(record, inputs=(RunInput("generate/ab/abc", "model", "x"),)))
    check(r"no such file.*set task\.reference")


def test_a_run_is_a_reference_by_its_first_samples(tmp_path):
    from openended.harness.core.types import Generation
    from openended.harness.storage.rows import Row, write_rows

    draws = draw(num_draws=2)
    samples = [(e, Generation(e.id, s, f"{e.id} {s}", (), "length", float("nan"))) for e in draws for s in (0, 1)]
    rows = [Row(e.prompt, (), text) for e, text in samples]
    (tmp_path / "generate/ab/abc").mkdir(parents=True)
    write_rows(tmp_path / "generate/ab/abc/data.arrow", rows)
    record = RunRecord(created="2027-01-31T12:00:00+00:00", spec={}, axes={}, results=(), store=".")
    save_record(tmp_path, replace(record, inputs=(RunInput("generate/ab/abc", "model", "x"),)))
    assert [e.human for e in draw(reference=str(tmp_path))] == [f"{e.id} 0" for e in draws]


def test_own_instructions(tmp_path):
    path = write_file(tmp_path / "own.txt", "Write X.\n\nWrite Y.\n")
    assert {e.prompt[13:21] for e in draw(path=str(path))} == {"Write X.", "Write Y."}
    assert Creative(path=str(path)).fingerprint() != Creative().fingerprint()
    assert [f.name for f in Creative(path=str(path)).files()] == ["own.txt"]
    for data, message in ((b"\n", "holds no text"), (b"caf\xe9\n", "not UTF-8")):
        path.write_bytes(data)
        check_error(DataError, message, draw, path=str(path))
    with pytest.raises(DataError, match=r"task creative: no such file: .*; set task\.path"):
        Creative(path=str(tmp_path / "none")).fingerprint()


# Topics as systems: which texts are on which side, and what precision and recall say of them


def write_topics(tmp_path, rows):
    path = tmp_path / "train.csv"
    with path.open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle, quoting=csv.QUOTE_ALL).writerows(rows)
    return str(path)


def news(count):
    return [[str(1 + i % 4), f"Title {i}", f"Text {i} of topic {i % 4}, with quotes."] for i in range(count)]


def read_system(task, topics):
    return task.open_bundled_system(f"topics:{topics}")()


def test_reference_and_systems_hold_their_topics_and_share_no_text(tmp_path):
    task = AgNews(path=write_topics(tmp_path, news(400)))
    reference = [e.human for e in read(task)]
    subset, same, superset = (read_system(task, t) for t in ("world", "world+sports", "world+sports+science"))
    assert all("topic 0" in t or "topic 1" in t for t in reference)
    assert all("topic 0" in t for t in subset)
    assert len(subset) < len(same) < len(superset)
    assert not set(reference) & set(superset)
    assert len(reference) + len(same) == 200
    assert task.open_bundled_system("somebody.jsonl") is None
    for wrong in ("", "world+weather", "world+world"):
        check_error(SpecError, "topics", task.open_bundled_system, f"topics:{wrong}")


def test_texts_are_title_and_description_without_markup(tmp_path):
    rows = [["1", "A &amp; B", r"First\nline"], ["2", " ", " "], *news(40)]
    task = AgNews(path=write_topics(tmp_path, rows), topics=("world",))
    examples, skipped = read_counted(task)
    assert "A & B\nFirst line" in [e.human for e in examples] + read_system(task, "world")
    assert skipped == {"text is empty": 1}
    assert all(e.prompt == "" and e.id.startswith("ag_news/") for e in examples)


@cases(
    "rows, message",
    ([["5", "a", "b"]], r"train\.csv:1: expected a class from 1 to 4"),
    ([["1", "a"]], r"train\.csv:1: expected a class"),
    ([["3", "a", "b"]], r"holds no text of world, sports"),
)
def test_wrong_files(tmp_path, rows, message):
    check_error(DataError, message, read, AgNews(path=write_topics(tmp_path, rows)))
    check_error(DataError, r"missing file: .*; get it from https", read, AgNews(path=str(tmp_path / "none.csv")))


@pytest.fixture
def task(monkeypatch):
    words = " ".join(["word"] * 70)
    packages = ("torch", "sklearn", "scipy")
    passages = [Passage(f"docs/{p}/{i}", p, p, f"{p} {i} {words}", "test") for p in packages for i in range(40)]
    monkeypatch.setattr(docs_topics, "load_corpus", lambda fingerprint: passages)
    return DocsTopics()


def test_systems_share_no_text_with_the_reference(task):
    reference = {example.human for example in read(task)}
    assert {text.split()[0] for text in reference} == {"torch", "sklearn"}
    system = set(task.open_bundled_system("topics:torch+sklearn")())
    assert {text.split()[0] for text in system} == {"torch", "sklearn"}
    assert not reference & system
    assert len(reference | system) == 80
    assert {text.split()[0] for text in task.open_bundled_system("topics:scipy")()} == {"scipy"}
    check_error(SpecError, "topics: expected some of python, numpy", DocsTopics, topics=("tensorflow",))


# Datasets of the hub: a local folder for the reading, a stand-in for the hub's answers

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
    check_error(DataError, "no field 'txt'; did you mean 'text'", read, hub(dataset, text_field="txt"))
    check_error(DataError, "split dev: cannot be loaded", read, hub(dataset, split="dev"))


def test_nested_fields_are_named_by_a_path(tmp_path, dataset):
    rows = [{"id": f"r{i}", "data": {"q": f"Q{i}", "answers": [f" an answer {i}", " no"]}} for i in range(3)]
    (tmp_path / "nested").mkdir()
    write_jsonl(tmp_path / "nested" / "test.jsonl", rows)
    write_jsonl(tmp_path / "rows.jsonl", rows)
    fields = {"prompt_field": "data.q", "human_field": "data.answers.0"}
    of_hub = read(hub(tmp_path / "nested", text_field=None, order="file", **fields))
    of_file = read(JsonLines(path=str(tmp_path / "rows.jsonl"), **fields))
    assert [(e.prompt, e.human) for e in of_hub] == [(e.prompt, e.human) for e in of_file]
    assert of_file[2].human == " an answer 2"


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
        check_error(DataError, message, Hub(path="some/set", cache_dir=str(tmp_path)).fetch)


# Human texts without prompts: pieces, documents, boundaries, sources

END = "<|endoftext|>"


class Characters:
    """A token per character; 0 is the end token, written as `#`."""

    eos_ids = (0,)
    bos_prefix = ()

    def encode(self, text):
        return [0 if c == "#" else ord(c) for c in text]

    def decode(self, ids):
        return "".join("#" if i == 0 else chr(i) for i in ids)


class NoEnd(Characters):
    eos_ids = ()


class WithStart(Characters):
    bos_prefix = (ord("^"),)


@pytest.fixture
def path(tmp_path):
    return str(write_jsonl(tmp_path / "texts.jsonl", [{"text": "abcd"}, {"text": "efghi"}, {"text": "j"}]))


def read_texts(tokenizer=None, **options):
    examples = read(Unconditional(**{"text": "file", "length": 5, **options}), tokenizer)
    assert all(not e.prompt for e in examples)
    assert [e.id for e in examples] == [f"unconditional/{i:06d}" for i in range(len(examples))]
    return [e.human for e in examples]


@cases(
    "boundaries, tokenizer, pieces",
    # abcd#efghi#j# in pieces of five; the last three are dropped.
    ("eos", Characters(), ["abcd#", "efghi"]),
    # Three tokens of text between a start and an end token; the last one is dropped.
    ("bos_eos", Characters(), ["#abc#", "#d#e#", "#fgh#", "#i#j#"]),
    ("bos_eos", WithStart(), ["^abc#", "^d#e#", "^fgh#", "^i#j#"]),
    # abcd, a blank line, efghi, a blank line, j, a blank line.
    ("none", NoEnd(), ["abcd\n", "\nefgh", "i\n\nj\n"]),
)
def test_documents_are_wrapped_into_pieces_of_one_length(path, boundaries, tokenizer, pieces):
    assert read_texts(tokenizer, path=path, boundaries=boundaries) == pieces


def test_documents_stay_whole_and_need_no_tokenizer(path):
    assert read_texts(path=path, layout="documents") == ["abcd", "efghi", "j"]
    assert not Unconditional(text="file", path=path, layout="documents").needs_tokenizer()
    assert Unconditional(text="file", path=path).needs_tokenizer()
    check_error(DataError, r"no end token; set task\.boundaries=none", list, wrap(iter(["abc"]), NoEnd(), 3, "eos"))


def test_pieces_of_the_bundled_docs_have_the_length_and_are_tokenized_back_to_the_same_tokens():
    from openended.harness.models.spec import ModelSpec
    from openended.harness.models.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(ModelSpec(path="bundled:docs-s"))
    texts = [e.human for e in islice(Unconditional(length=64).examples(tokenizer, Counter()), 20)]
    lengths = [len(tokenizer.encode(text)) for text in texts]
    assert lengths == pytest.approx([64] * 20, abs=2)  # a word that is cut in two can have other tokens
    assert sum(END in text for text in texts) > 5
    assert Unconditional().has_docs_prose()
    assert not Unconditional(text="openwebtext").has_docs_prose()


def test_the_splits_are_those_of_the_papers(monkeypatch):
    corpus = Unconditional(text="openwebtext", field="ignored").corpus()
    assert (corpus.path, corpus.split, corpus.text_field) == ("Skylion007/openwebtext", "train[-100000:]", "text")
    assert Unconditional(text="openwebtext", split="train").corpus().split == "train[:-100000]"
    monkeypatch.setattr(Hub, "documents", lambda self, skipped: iter([("0", "Yes , it 's so .")]))
    assert read_texts(text="lm1b", layout="documents") == ["Yes, it's so."]
    assert read_texts(text="openwebtext", layout="documents") == ["Yes , it 's so ."]


def test_text8_is_cut_by_characters(tmp_path, monkeypatch):
    monkeypatch.setattr(unconditional, "TEXT8", {"train": (0, 6), "valid": (6, 8), "test": (8, 20)})
    path = tmp_path / "text8.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("text8", "aaaaaabb" + "one two nine")
    assert read_texts(text="text8", path=str(path)) == ["one t", "wo ni"]
    assert not Unconditional(text="text8", path=str(path)).needs_tokenizer()
    path.write_bytes(b"no archive")
    check_error(DataError, r"text8\.zip: not the archive", read_texts, text="text8", path=str(path))


# Open questions: NoveltyBench and Infinity-Chat


def test_questions_of_noveltybench_are_the_users_turns_in_the_order_of_the_file(tmp_path):
    rows = [
        {"id": "curated-3", "category": "Creativity", "prompt": "Write a haiku."},
        {"id": "curated-1", "category": "Factual Knowledge", "prompt": "Name a city."},
        {"id": "curated-2", "category": "Creativity", "prompt": " "},
    ]
    path = str(write_jsonl(tmp_path / "curated.jsonl", rows))
    examples, skipped = read_counted(NoveltyBench(path=path))
    assert [(e.id, e.prompt, e.human) for e in examples] == [
        ("novelty_bench/curated-3", "Write a haiku.", ""), ("novelty_bench/curated-1", "Name a city.", ""),
    ]  # fmt: skip
    assert examples[0].meta == {"user": "Write a haiku.", "assistant": ""}
    assert skipped == {"prompt is empty": 1}
    assert NoveltyBench(split="wildchat-1k").remote().url.endswith("/main/data/wildchat-1k.jsonl")


def test_questions_of_infinity_chat_are_rows_of_parquet_without_ids(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "train-00000-of-00001.parquet"
    parquet.write_table(pa.table({"query": ["Write a pun.", "Name a plant."]}), path)
    examples = read(InfinityChat(path=str(path)))
    assert [(e.id, e.prompt) for e in examples] == [
        ("infinity_chat/000000", "Write a pun."), ("infinity_chat/000001", "Name a plant."),
    ]  # fmt: skip
    with pytest.raises(DataError, match="no field 'query'"):
        read(InfinityChat(path=str(write_jsonl(tmp_path / "other.jsonl", [{"prompt": "x"}]))))
