"""Outputs of other frameworks and batch files: recognized, read with prompts and human texts, failures refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import DataError
from openended.harness.imported.files import HUMAN_TEXTS, choose_text_field, read_records
from openended.harness.imported.framework_outputs import OUTPUT_TITLES
from openended.harness.imported.generations import read_generations, recognize_format
from openended.harness.imported.pairing import import_unpaired
from openended.harness.models.spec import ModelSpec
from openended.harness.models.tokenizer import load_tokenizer
from tests.helpers import write_jsonl

LM_EVAL = {
    "doc_id": 4, "doc": {"prompt": "Once"}, "target": " upon a time", "resps": [[" more", " again"]],
    "arguments": {"gen_args_0": {"arg_0": "Once", "arg_1": {"until": []}}}, "filtered_resps": [" more"],
    "filter": "none", "metrics": ["mauve"], "doc_hash": "a", "prompt_hash": "b", "target_hash": "c",
}  # fmt: skip
ALPACA = {"instruction": "Say hi.", "output": "Hi!", "generator": "some-model", "dataset": "helpful_base"}
MT_BENCH = {
    "question_id": 81, "answer_id": "x", "model_id": "m", "tstamp": 1.5,
    "choices": [{"index": 0, "turns": ["First answer.", "Second answer."]}],
}  # fmt: skip
ARENA_HARD = {
    "question_id": "ab1", "answer_id": "x", "model_id": "m", "tstamp": 1.5,
    "choices": [{"index": 0, "turns": [{"content": "An answer.", "token_len": 3}]}],
}  # fmt: skip
ARENA_HARD_2 = {
    "uid": "ab2", "ans_id": "x", "model": "m", "metadata": {},
    "messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": {"answer": "Because."}}],
}  # fmt: skip
CHAT_BODY = {
    "id": "c",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "A"}, "finish_reason": "length"}],
}
VLLM = {
    "id": "vllm-1", "custom_id": "request-1", "error": None,
    "response": {"status_code": 200, "request_id": "vllm-batch-1", "body": CHAT_BODY},
}  # fmt: skip
OPENAI = {
    **VLLM,
    "id": "batch_req_1",
    "response": {"status_code": 200, "body": {"choices": [{"text": "B", "index": 0}]}},
}
RESPONSES_BODY = {
    "status": "completed",
    "output": [
        {"type": "reasoning", "content": None},
        {"type": "message", "content": [{"type": "output_text", "text": "C"}]},
    ],
}
RESPONSES = {**VLLM, "response": {"status_code": 200, "body": RESPONSES_BODY}}


def read(path: Path) -> list[tuple[Any, ...]]:
    return [(t.identity, t.sample, t.prompt, t.text, t.stop) for t in read_generations(path)]


@pytest.mark.parametrize(
    ("record", "title", "texts"),
    [
        (LM_EVAL, "lm-evaluation-harness samples", [("4", 0, "Once", " more", None), ("4", 1, "Once", " again", None)]),
        (
            MT_BENCH,
            "MT-Bench or Arena-Hard answers",
            [("81/1", 0, None, "First answer.", None), ("81/2", 0, None, "Second answer.", None)],
        ),
        (ARENA_HARD, "MT-Bench or Arena-Hard answers", [("ab1", 0, None, "An answer.", None)]),
        (ARENA_HARD_2, "Arena-Hard 2 answers", [("ab2", None, "Why?", "Because.", None)]),
        (VLLM, "batch output (OpenAI, vLLM)", [("request-1", 0, None, "A", "length")]),
        (OPENAI, "batch output (OpenAI, vLLM)", [("request-1", 0, None, "B", None)]),
        (RESPONSES, "batch output (OpenAI, vLLM)", [("request-1", None, None, "C", None)]),
    ],
)
def test_json_lines_of_frameworks(tmp_path: Path, record: Any, title: str, texts: list[Any]) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [record])
    assert recognize_format(path) == title
    assert title in OUTPUT_TITLES
    assert read(path) == texts


def test_alpaca_eval_is_a_json_list(tmp_path: Path) -> None:
    path = tmp_path / "outputs.json"
    path.write_text(json.dumps([ALPACA, {**ALPACA, "output": "Hello."}], indent=2))
    assert recognize_format(path) == "AlpacaEval outputs"
    assert read(path) == [(None, None, "Say hi.", "Hi!", None), (None, None, "Say hi.", "Hello.", None)]


def test_the_targets_of_lm_eval_are_human_texts(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "samples_x.jsonl", [LM_EVAL])
    assert choose_text_field(path, HUMAN_TEXTS, None, "--human-field ") == "human"
    assert next(read_records(path)).cells["human"] == " upon a time"
    assert [t.text for t in read_generations(path, "target")] == [" upon a time"] * 2  # a field of the file itself


def test_of_several_filters_the_first_is_read(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [LM_EVAL, {**LM_EVAL, "filter": "strict"}, {**LM_EVAL, "doc_id": 5}])
    assert [row[0] for row in read(path)] == ["4", "4", "5", "5"]


def test_notes_say_the_format_and_nothing_about_token_ids(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [VLLM])
    imported = import_unpaired(
        path, "texts/{:06d}".format, load_tokenizer(ModelSpec(path="bundled:docs-s")), None, count=None
    )
    assert [row.generation.text for row in imported] == ["A"]
    assert imported.id_source is None
    assert imported.notes == ["format: batch output (OpenAI, vLLM)"]


def test_other_files_are_read_as_before(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": "x", "id": "1"}])
    assert recognize_format(path) is None
    assert read(path) == [("1", None, None, "x", None)]
    for row in ({"custom_id": "1", "response": "x"}, {"question_id": 1, "choices": ["a", "b"], "text": "x"}):
        path = write_jsonl(tmp_path / "c.jsonl", [row])
        assert recognize_format(path) is None
        assert [text[3] for text in read(path)] == ["x"]
    one_item_lists = tmp_path / "b.json"
    one_item_lists.write_text('[{"text": "x"}]\n[{"text": "y"}]\n')
    assert [row[3] for row in read(one_item_lists)] == ["x", "y"]


FAILED = {**VLLM, "response": {"status_code": 429, "body": {"error": {"message": "rate limited"}}}}
EXPIRED = {**OPENAI, "response": None, "error": {"code": "batch_expired", "message": "not executed in time"}}


def change(record: Any, **fields: Any) -> Any:
    return {**record, **fields}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (FAILED, r"a.jsonl:2: request 'request-1' failed \(status 429: rate limited\); send it again"),
        (EXPIRED, r"a.jsonl:2: request 'request-1' failed \(no response: not executed in time\)"),
        (change(VLLM, response={"status_code": 200}), "a.jsonl:2: field 'response.body': expected an object, got null"),
        (
            change(VLLM, response={"status_code": 200, "body": {"data": [{"embedding": [0.5]}]}}),
            "field 'choices': expected a list, got null or nothing",
        ),
        (
            change(VLLM, response={"status_code": 200, "body": {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}}),
            r"request 'request-1' has no text \(finish_reason: content_filter\)",
        ),
        (change(RESPONSES, response={"status_code": 200, "body": {"output": [], "status": "failed"}}), "holds no text .status: failed"),
        (change(LM_EVAL, resps=[[[-3.5, False]]]), "field 'resps': expected generated texts, got .*generate_until"),
        (change(LM_EVAL, resps=None), "field 'resps': expected a list, got null"),
        (change(MT_BENCH, choices=[{"turns": ["$ERROR$"]}]), r"turn 1 of question 81: its request failed \(\$ERROR\$\)"),
        (change(ARENA_HARD, choices=["x"]), "field 'choices.turns': expected a list, got null"),
        (change(ARENA_HARD_2, messages=[]), "expected an answer with the role 'assistant'"),
    ],
)  # fmt: skip
def test_failures_name_the_line_and_end_the_import(tmp_path: Path, record: Any, message: str) -> None:
    good = {"custom_id": VLLM, "resps": LM_EVAL, "choices": MT_BENCH, "messages": ARENA_HARD_2}
    first = next(value for name, value in good.items() if name in record)
    path = write_jsonl(tmp_path / "a.jsonl", [first, record])
    with pytest.raises(DataError, match=message) as caught:
        list(read_generations(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps([ALPACA, 3]), "a.json:2: expected an object"),
        (json.dumps([{**ALPACA, "output": None}]), "a.json:1: field 'output': expected a text, got null"),
        (json.dumps([ALPACA], indent=1)[:-9], "a.json:1: not JSON"),
        (json.dumps({"instruction": "x"}, indent=1), "a.json:1: not JSON"),
        (json.dumps([1, 2]), "a.json:1: expected a JSON object, got list"),
    ],
)
def test_hostile_json_files_are_one_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    assert message.startswith("a.json")
    with pytest.raises(DataError, match=message) as caught:
        list(read_generations(path))
    assert "\n" not in str(caught.value)
