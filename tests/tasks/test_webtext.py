"""WebText in the published format."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.tasks.webtext import WebText, make_gpt2_remote
from tests.helpers import write_jsonl

SHARED = Path(__file__).parents[2].parent / "shared" / "data"


class Words:
    """A token is a word with its leading space."""

    def encode(self, text: str) -> list[Any]:
        import re

        return re.findall(r"\s*\S+", text)

    def decode(self, ids: Any) -> str:
        return "".join(ids)


def record(number: int, text: Any, **more: Any) -> dict[str, Any]:
    return {"id": 255000 + number, "ended": True, "length": 9, "text": text, **more}


def file(tmp_path: Path, rows: list[Any], name: str = "webtext.test.jsonl") -> Path:
    path = tmp_path / name
    return write_jsonl(path, rows)


DOC = "One two three.\n\nFour five six seven eight nine ten eleven twelve."


def test_prompt_is_the_first_tokens_of_the_model(tmp_path: Path) -> None:
    path = file(tmp_path, [record(0, DOC), record(1, "Z " + DOC, ended=False)])
    task = WebText(path=str(path), prompt_length=4, max_length=8)
    assert task.needs_tokenizer()
    first, second = task.examples(Words(), Counter())
    assert (first.id, first.prompt, first.human) == (
        "webtext/000000", "One two three.\n\nFour", " five six seven eight",
    )  # fmt: skip
    assert (second.id, second.meta["ended"]) == ("webtext/000001", False)


def test_word_counted_prompts_need_no_tokenizer(tmp_path: Path) -> None:
    task = WebText(path=str(file(tmp_path, [record(0, DOC)])), prompt_unit="words", prompt_length=10, max_length=None)
    assert not task.needs_tokenizer()
    (example,) = task.examples(None, Counter())
    assert example.prompt + example.human == DOC
    assert example.human == " eleven twelve."


def test_what_cannot_be_used_is_counted(tmp_path: Path) -> None:
    rows = [record(0, None), record(1, " "), record(2, "\ud800x"), record(3, "One two"), record(4, DOC)]
    skipped: Counter[str] = Counter()
    made = list(WebText(path=str(file(tmp_path, rows)), prompt_length=2).examples(Words(), skipped))
    assert [e.id for e in made] == ["webtext/000004"]
    assert skipped == {
        "text is null": 1, "text is empty": 1, "text is not valid Unicode": 1, "no longer than 2 tokens": 1,
    }  # fmt: skip


def test_another_format_is_an_error(tmp_path: Path) -> None:
    for row, message in [({"body": "x"}, "no field 'text'"), (record(0, 7), "expected text, got int")]:
        with pytest.raises(DataError, match=rf"webtext\.test\.jsonl:1: .*{message}"):
            list(WebText(path=str(file(tmp_path, [row]))).examples(Words(), Counter()))
    with pytest.raises(DataError, match="holds no document"):
        list(WebText(path=str(file(tmp_path, []))).examples(Words(), Counter()))
    broken = tmp_path / "w.jsonl.gz"
    broken.write_bytes(gzip.compress(json.dumps(record(0, DOC)).encode() * 5000)[:-30])
    with pytest.raises(DataError, match="to its end"):
        list(WebText(path=str(broken)).examples(Words(), Counter()))


def test_the_official_file_is_planned_offline(tmp_path: Path) -> None:
    task = WebText(cache_dir=str(tmp_path), offline=True)
    (planned,) = task.files()
    assert planned.url.endswith("/gpt-2/output-dataset/v1/webtext.test.jsonl")
    assert planned.path == tmp_path / "webtext" / "webtext.test.jsonl"
    assert not planned.present
    for ask in (task.fingerprint, task.fetch):
        with pytest.raises(DataError, match=r"missing file .*webtext\.test\.jsonl; get it from https://.* put it at"):
            ask()
    planned.path.parent.mkdir()
    file(planned.path.parent, [record(0, DOC)])
    task.fetch()
    assert task.files()[0].present
    own = WebText(path=str(planned.path))
    assert task.fingerprint() == own.fingerprint()
    own.fetch()


def test_samples_of_the_models_are_next_to_it() -> None:
    assert make_gpt2_remote("xl-1542M-k40.test").url.endswith("/xl-1542M-k40.test.jsonl")


@pytest.mark.parametrize("options", [{"prompt_length": 0}, {"max_length": 35}, {"split": "dev"}, {"prompt_unit": "c"}])
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        WebText(**options)


def test_missing_own_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"task webtext: no such file: .*; set task\.path"):
        WebText(path=str(tmp_path / "none.jsonl")).fingerprint()


def test_loading_streams(tmp_path: Path) -> None:
    path = file(tmp_path, [record(i, DOC * 30) for i in range(300)])
    tracemalloc.start()
    count = sum(1 for _ in WebText(path=str(path), prompt_unit="words").examples(None, Counter()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 300
    assert peak < 3e5


@pytest.mark.reference
def test_real_documents_under_the_real_tokenizer() -> None:
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
    tokenizer = TextTokenizer(inner, (50256,), byte_level=True)
    cutter = Cutter("tokens", 40, None, tokenizer)
    same = total = 0
    for line in stored.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        made = cutter.cut(row["prompt"] + row["reference"])
        assert made is not None
        assert made.prompt + made.human == row["prompt"] + row["reference"]
        total += 1
        same += made.prompt == row["prompt"]
    assert total == 1000
    # E-mail addresses in a few prompts were replaced, which changes the number of their tokens.
    assert same >= 0.97 * total
