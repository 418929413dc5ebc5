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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, open_text, read_json, read_jsonl
from openended.harness.imported.inspect_logs import INSPECT_LOG, is_inspect_json, is_inspect_log, read_inspect_log

Cells = Mapping[str, Any]
_FAILED_ANSWER = "$ERROR$"  # what the tools of MT-Bench and Arena-Hard write where a request failed
_ALPACA_EVAL = "AlpacaEval outputs"
_STOPS = {"stop": "eos", "length": "length"}


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """A format of JSON lines, recognized by the fields of its first record."""

    title: str
    fields: Mapping[str, Callable[[Any], bool]]
    """Name of a field that every record has → whether a value fits."""
    read_texts: Callable[[Cells, str], Iterator[dict[str, Any]]]
    """Takes a record and its file and line; yields the fields to add, for every text."""


def describe_output_format(path: Path) -> str | None:
    """Name the framework that wrote a file, for people; None for other files."""
    if is_inspect_log(path):
        return INSPECT_LOG
    if _begins_like_json_file(path, "["):
        return _ALPACA_EVAL if _read_list(path) is not None else None
    if _begins_like_json_file(path, "{") and is_inspect_json(path):
        return INSPECT_LOG
    try:
        first = next(read_jsonl(path, unwrap=True), None)
    except DataError:  # a JSON file of several lines, say; who reads the file says what is wrong with it
        return None
    output_format = _recognize(first[1]) if first is not None else None
    return output_format.title if output_format is not None else None


def read_output_list(path: Path) -> Iterator[tuple[int, Cells]] | None:
    """Return the records of a JSON file that holds all of them (AlpacaEval, Inspect); None for other files."""
    if is_inspect_log(path) or (_begins_like_json_file(path, "{") and is_inspect_json(path)):
        return read_inspect_log(path)
    rows = _read_list(path) if _begins_like_json_file(path, "[") else None
    if rows is None:
        return None
    return (
        (number, {**row, **fields})
        for number, row in enumerate(rows, start=1)
        for fields in _read_alpaca_eval(row, f"{path}:{number}")
    )


def convert_outputs(rows: Iterator[tuple[int, Cells]], path: Path) -> Iterator[tuple[int, Cells]]:
    """Yield the texts of JSON lines in a format of this module; rows of other formats are yielded as they are.

    Of an lm-evaluation-harness task with several filters, whose file repeats every document, the first one's are read.
    """
    output_format: OutputFormat | None = None
    name: Any = None
    for index, (number, row) in enumerate(rows):
        if index == 0:
            output_format, name = _recognize(row), row.get("filter")
        if output_format is None:
            yield number, row
        elif row.get("filter") == name:
            for fields in output_format.read_texts(row, f"{path}:{number}"):
                yield number, {**row, **fields}


def _recognize(first: Cells) -> OutputFormat | None:
    return next((f for f in FORMATS if all(n in first and fits(first[n]) for n, fits in f.fields.items())), None)


def _begins_like_json_file(path: Path, bracket: str) -> bool:
    """Return whether a file called `.json` begins with a bracket."""
    if path.suffix != ".json":
        return False
    with open_text(path) as handle:
        try:
            return handle.read(64).lstrip("\ufeff \t\r\n").startswith(bracket)
        except (UnicodeDecodeError, OSError, EOFError) as err:
            raise DataError(f"{path}: cannot be read ({err})") from err


def _read_list(path: Path) -> list[Cells] | None:
    """Return the records of a JSON list of AlpacaEval outputs; None if the file is something else (JSON lines, say)."""
    try:
        content = read_json(path)
    except DataError as err:
        if isinstance(err.__cause__, ValueError):
            return None
        raise
    first = content[0] if isinstance(content, list) and content else None
    if not isinstance(first, dict) or not {"instruction", "output"} <= set(first):
        return None
    wrong = next((i for i, row in enumerate(content, start=1) if not isinstance(row, dict)), None)
    if wrong is not None:
        raise DataError(f"{path}:{wrong}: expected an object with 'instruction' and 'output'")
    return list(content)


def _read_alpaca_eval(row: Cells, where: str) -> Iterator[dict[str, Any]]:
    yield {"text": _get(row, "output", str, where), "prompt": _get(row, "instruction", str, where)}


def _read_lm_eval(row: Cells, where: str) -> Iterator[dict[str, Any]]:
    responses = _get(row, "resps", list, where)
    texts = [text for response in responses for text in (response if isinstance(response, list) else [response])]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise DataError(
            f"{where}: field 'resps': expected generated texts, got {responses!r:.60}; only tasks with "
            "output_type generate_until have some"
        )
    fields: dict[str, Any] = {"id": str(_get(row, "doc_id", int, where))}
    arguments = row["arguments"]
    first = arguments.get("gen_args_0") if isinstance(arguments, dict) else None
    prompt = first.get("arg_0") if isinstance(first, dict) else None
    fields |= {"prompt": prompt} if isinstance(prompt, str) else {}
    fields |= {"human": row["target"]} if isinstance(row.get("target"), str) else {}
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
        before = messages[index - 1] if index else None
        prompt = before.get("content") if isinstance(before, dict) else None
        name = str(row["uid"]) if len(answers) == 1 else f"{row['uid']}/{number}"
        yield {"id": name, "text": text, **({"prompt": prompt} if isinstance(prompt, str) else {})}


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
        yield {"id": str(name), "text": _join_output(body, name, where)}
        return
    choices: Sequence[Any] = _get(body, "choices", list, where)
    for sample, choice in enumerate(choices):
        message = _get({"choices": choice}, "choices", dict, where).get("message")
        text = message.get("content") if isinstance(message, dict) else choice.get("text")
        reason = choice.get("finish_reason")
        if not isinstance(text, str):
            raise DataError(f"{where}: request {name!r} has no text (finish_reason: {reason}), got {_describe(text)}")
        stop = {"stop": _STOPS[reason]} if reason in _STOPS else {}
        yield {"id": str(name), "text": text, "sample": sample, **stop}


def _join_output(body: Cells, name: object, where: str) -> str:
    """Join the texts of an answer of the Responses API."""
    items = [item for item in _get(body, "output", list, where) if isinstance(item, dict)]
    parts = [part for item in items for part in item.get("content") or [] if isinstance(part, dict)]
    texts = [part["text"] for part in parts if part.get("type") == "output_text" and isinstance(part.get("text"), str)]
    if not texts:
        raise DataError(f"{where}: request {name!r}: its output holds no text (status: {body.get('status')})")
    return "".join(texts)


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


_KINDS: Mapping[type[Any], str] = {str: "a text", list: "a list", dict: "an object", int: "a whole number"}


def _describe(value: object) -> str:
    return "null or nothing" if value is None else f"{value!r:.40}"


def _is_name(value: object) -> bool:
    return isinstance(value, (str, int))


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_object_or_null(value: object) -> bool:
    return value is None or isinstance(value, dict)


def _has_turns(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "turns" in value[0]


FORMATS = (
    OutputFormat("lm-evaluation-harness samples", {"arguments": _is_object_or_null, "resps": _is_list}, _read_lm_eval),
    OutputFormat("MT-Bench or Arena-Hard answers", {"question_id": _is_name, "choices": _has_turns}, _read_answers),
    OutputFormat("Arena-Hard 2 answers", {"uid": _is_name, "messages": _is_list}, _read_messages),
    OutputFormat("batch output (OpenAI, vLLM)", {"custom_id": _is_name, "response": _is_object_or_null}, _read_batch),
)
OUTPUT_TITLES = frozenset({INSPECT_LOG, _ALPACA_EVAL, *(output_format.title for output_format in FORMATS)})
