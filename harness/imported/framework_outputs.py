"""Outputs of other evaluation frameworks and of batch requests, recognized by the fields of the first record.

| file | recognized by | texts | prompt, human text |
| --- | --- | --- | --- |
| lm-evaluation-harness, `samples_*.jsonl` | `arguments`, `resps` | every response | `arg_0`, `target` |
| Inspect, `.eval` or `.json` log | see `inspect_logs` | the output of every sample and epoch | `input`, `target` |
| AlpacaEval, `.json` list | `instruction`, `output` | `output` | `instruction` |
| Arena-Hard and MT-Bench answers, JSON lines | `question_id`, `choices` | every turn of every choice | |
| Arena-Hard 2 answers, JSON lines | `uid`, `messages` | every answer of the assistant | the message before |
| batch output of OpenAI and vLLM, JSON lines | `custom_id`, `response` | every choice | |

A record keeps its own fields (`--field` may name one) and gets `text`, `id`, and, where there are some, `prompt`,
`human`, `sample` and `stop`. A failed request is an error that names file, line and reason; none is left out silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, read_jsonl
from openended.harness.imported.inspect_logs import INSPECT_LOG, is_inspect_json, read_inspect_json

Cells = Mapping[str, Any]
Records = Iterator[tuple[int, Cells]]
"""(line number, fields) of each record."""
Reader = Callable[[Cells, str], Iterator[dict[str, Any]]]
"""Takes a record and its file and line; yields the fields to add, for every text."""

_ALPACA_EVAL = "AlpacaEval outputs"
_LM_EVAL = "lm-evaluation-harness samples"
_ANSWERS = "MT-Bench or Arena-Hard answers"
_MESSAGES = "Arena-Hard 2 answers"
_BATCH = "batch output (OpenAI, vLLM)"
OUTPUT_TITLES = frozenset({INSPECT_LOG, _ALPACA_EVAL, _LM_EVAL, _ANSWERS, _MESSAGES, _BATCH})
_FAILED_ANSWER = "$ERROR$"  # what the tools of MT-Bench and Arena-Hard write where a request failed
_STOPS = {"stop": "eos", "length": "length"}
_KINDS: Mapping[type[Any], str] = {str: "a text", list: "a list", dict: "an object", int: "a whole number"}


def open_output_document(content: Any, path: Path) -> tuple[str, Records] | None:  # noqa: ANN401 - JSON
    """Return title and records of a JSON file that holds all of them (AlpacaEval, Inspect); None for other files."""
    if is_inspect_json(content):
        return INSPECT_LOG, read_inspect_json(content, path)
    match content:
        case [{"instruction": _, "output": _}, *_]:
            return _ALPACA_EVAL, _read_alpaca_eval(content, path)
    return None


def open_json_lines(path: Path) -> tuple[str | None, Records]:
    """Return title and records of JSON lines; records of formats that are none of this module are yielded as they are.

    Of an lm-evaluation-harness task with several filters, whose file repeats every document, the first one's are read.
    """
    rows = read_jsonl(path, unwrap=True)
    first = next(rows, None)
    if first is None:
        return None, rows
    rows = chain([first], rows)
    match first[1]:
        case {"arguments": dict() | None, "resps": list()}:
            return _LM_EVAL, _convert(rows, _read_lm_eval, path, first[1].get("filter"))
        case {"question_id": str() | int(), "choices": [{"turns": _}, *_]}:
            return _ANSWERS, _convert(rows, _read_answers, path, first[1].get("filter"))
        case {"uid": str() | int(), "messages": list()}:
            return _MESSAGES, _convert(rows, _read_messages, path, first[1].get("filter"))
        case {"custom_id": str() | int(), "response": dict() | None}:
            return _BATCH, _convert(rows, _read_batch, path, first[1].get("filter"))
    return None, rows


def _convert(rows: Records, read_texts: Reader, path: Path, filter_name: object) -> Records:
    for number, row in rows:
        if row.get("filter") == filter_name:
            for fields in read_texts(row, f"{path}:{number}"):
                yield number, {**row, **fields}


def _read_alpaca_eval(content: Sequence[Any], path: Path) -> Records:
    wrong = next((i for i, row in enumerate(content, start=1) if not isinstance(row, dict)), None)
    if wrong is not None:
        raise DataError(f"{path}:{wrong}: expected an object with 'instruction' and 'output'")
    for number, row in enumerate(content, start=1):
        where = f"{path}:{number}"
        yield number, {**row, "text": _get(row, "output", str, where), "prompt": _get(row, "instruction", str, where)}


def _read_lm_eval(row: Cells, where: str) -> Iterator[dict[str, Any]]:
    responses = _get(row, "resps", list, where)
    texts = [text for response in responses for text in (response if isinstance(response, list) else [response])]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise DataError(
            f"{where}: field 'resps': expected generated texts, got {responses!r:.60}; only tasks with "
            "output_type generate_until have some"
        )
    fields: dict[str, Any] = {"id": str(_get(row, "doc_id", int, where))}
    match row["arguments"]:
        case {"gen_args_0": {"arg_0": str() as prompt}}:
            fields["prompt"] = prompt
    if isinstance(row.get("target"), str):
        fields["human"] = row["target"]
    for sample, text in enumerate(texts):
        yield {**fields, "text": text, "sample": sample}


def _read_answers(row: Cells, where: str) -> Iterator[dict[str, Any]]:
    """Answers of MT-Bench (turns are texts) and of Arena-Hard (turns are objects with `content`)."""
    question = row["question_id"]
    for sample, choice in enumerate(_get(row, "choices", list, where)):
        turns = _get({"choices": choice}, "choices.turns", list, where)
        for number, turn in enumerate(turns, start=1):
            text = turn.get("content") if isinstance(turn, dict) else turn
            text = _check_answer(text, f"turn {number} of question {question!r}", where)
            yield {"id": str(question) if len(turns) == 1 else f"{question}/{number}", "text": text, "sample": sample}


def _read_messages(row: Cells, where: str) -> Iterator[dict[str, Any]]:
    """Answers of Arena-Hard 2: messages with roles; an answer is a text or an object with `answer`."""
    messages = _get(row, "messages", list, where)
    answers = [i for i, m in enumerate(messages) if isinstance(m, dict) and m.get("role") == "assistant"]
    if not answers:
        raise DataError(f"{where}: field 'messages': expected an answer with the role 'assistant', got none")
    for number, index in enumerate(answers, start=1):
        content = messages[index].get("content")
        text = content.get("answer") if isinstance(content, dict) else content
        text = _check_answer(text, f"answer {number} of {row['uid']!r}", where)
        fields = {"id": str(row["uid"]) if len(answers) == 1 else f"{row['uid']}/{number}", "text": text}
        match messages[index - 1] if index else None:
            case {"content": str() as prompt}:
                fields["prompt"] = prompt
        yield fields


def _check_answer(text: Any, what: str, where: str) -> str:  # noqa: ANN401
    if isinstance(text, str) and text.strip() == _FAILED_ANSWER:
        raise DataError(f"{where}: {what}: its request failed ({_FAILED_ANSWER}); answer it again, or delete its line")
    if not isinstance(text, str):
        raise DataError(f"{where}: {what}: expected a text, got {_describe(text)}")
    return text


def _read_batch(row: Cells, where: str) -> Iterator[dict[str, Any]]:
    """One request of a batch: a chat completion, a completion, or an answer of the Responses API."""
    name, response = row["custom_id"], row["response"]
    status = response.get("status_code") if isinstance(response, dict) else None
    if row.get("error") or status != 200:
        reason = _describe_error(row, response)
        raise DataError(f"{where}: request {name!r} failed ({reason}); send it again, or delete its line")
    body = _get(row, "response.body", dict, where)
    if "output" in body:
        items = [item for item in _get(body, "output", list, where) if isinstance(item, dict)]
        parts = [part for item in items for part in item.get("content") or [] if isinstance(part, dict)]
        texts = [p["text"] for p in parts if p.get("type") == "output_text" and isinstance(p.get("text"), str)]
        if not texts:
            raise DataError(f"{where}: request {name!r}: its output holds no text (status: {body.get('status')})")
        yield {"id": str(name), "text": "".join(texts)}
        return
    for sample, choice in enumerate(_get(body, "choices", list, where)):
        message = _get({"choices": choice}, "choices", dict, where).get("message")
        text = message.get("content") if isinstance(message, dict) else choice.get("text")
        reason = choice.get("finish_reason")
        if not isinstance(text, str):
            raise DataError(f"{where}: request {name!r} has no text (finish_reason: {reason}), got {_describe(text)}")
        stop = {"stop": _STOPS[reason]} if reason in _STOPS else {}
        yield {"id": str(name), "text": text, "sample": sample, **stop}


def _describe_error(row: Cells, response: Any) -> str:  # noqa: ANN401
    """Return why a request of a batch failed, as far as its record says."""
    body = response.get("body") if isinstance(response, dict) else None
    error = row.get("error") or (body.get("error") if isinstance(body, dict) else None)
    message = error.get("message") if isinstance(error, dict) else error
    status = f"status {response.get('status_code')}" if isinstance(response, dict) else "no response"
    return f"{status}: {message!s:.120}" if message else status


def _get(row: Cells, path: str, kind: type[Any], where: str) -> Any:  # noqa: ANN401
    """Return the value under a path of names; refuse another type than `kind`."""
    value: Any = row
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise DataError(f"{where}: field {path!r}: expected {_KINDS[kind]}, got {_describe(value)}")
    return value


def _describe(value: object) -> str:
    return "null or nothing" if value is None else f"{value!r:.40}"
