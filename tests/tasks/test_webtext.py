"""WebText in the published format, and named public files of generations."""

import json
import re
from pathlib import Path

import pytest

from openended.harness.core.errors import DataError
from openended.tasks.download import find_generations
from openended.tasks.webtext import WebText
from tests.helpers import write_jsonl
from tests.tasks.reading import read, read_counted

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
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
        with pytest.raises(DataError, match=r"missing file .*webtext\.test\.jsonl; get it from https://.* put it at"):
            ask()
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
    for name, file in [
        ("gpt2-output:xl-1542M-k40.test", "/xl-1542M-k40.test.jsonl"),
        ("grover:mega-p0.94", "/generator=mega~dataset=p0.94.jsonl"),
    ]:
        for planning in (False, True):
            with pytest.raises(DataError, match=r"missing file .*; get it from https://.* put it at") as caught:
                find_generations(name, planning=planning)
            assert file in str(caught.value)
    path = tmp_path / "webtext" / "xl-1542M-k40.test.jsonl"
    path.parent.mkdir()
    path.write_text("{}")
    assert find_generations("gpt2-output:xl-1542M-k40.test", planning=True) == path


@pytest.mark.reference
def test_real_documents_under_the_real_tokenizer():
    """Prompts of 40 GPT-2 tokens, cut from real documents, are those that the stored generations were made for."""
    bpe, stored = SHARED / "gpt2_bpe", SHARED / "generations" / "webtext" / "gpt2-large-greedy.jsonl"
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
