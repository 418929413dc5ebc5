"""Files of conversations and of texts with reasoning: what is scored, what is left out, and what is resampled together."""

import json

import pytest

import openended as oe
from openended.harness.core import DataError
from openended.harness.imported import TextSelection, read_texts
from openended.harness.storage import RowFile, find_input, read_record
from tests.helpers import cases, check_error, read_records, write_file, write_jsonl

METRICS = ["length", "distinct_n", "repetition"]
TEXTS = [f"Return the number {i} of rows, or {'None' * (1 + i % 4)} if there {'is ' * (i % 5)}none." for i in range(24)]
HUMAN = [f"The {i}th human text says {'so ' * (1 + i % 3)}and ends." for i in range(24)]


def talk(*turns: str, **fields):
    """A conversation; users ask, assistants answer."""
    roles = ("user", "assistant") * len(turns)
    return {"messages": [{"role": role, "content": text} for role, text in zip(roles, turns, strict=False)], **fields}


def score(tmp_path, human, rows, **options):
    """Score a file; return the record and the rows that were scored."""
    files = [write_jsonl(tmp_path / f"{name}.jsonl", lines) for name, lines in (("human", human), ("mine", rows))]
    outputs = tmp_path / "outputs"
    made = oe.evaluate(human=files[0], systems={"mine": files[1]}, metrics=METRICS, outputs_dir=outputs, **options)
    record = read_record(made.folders[0])
    return record, RowFile(outputs / "store" / find_input(record.inputs, "model", "import").artifact / "data.arrow")


def flat(texts):
    return [{"text": text} for text in texts]


def test_a_conversation_of_one_turn_gives_the_bytes_of_flat_input(tmp_path):
    ways = [
        (flat(HUMAN), flat(TEXTS)),
        ([talk("Q?", t) for t in HUMAN], [talk(f"Question {i}?", t) for i, t in enumerate(TEXTS)]),
    ]
    made = []
    for number, (human, rows) in enumerate(ways):
        (tmp_path / str(number)).mkdir()
        record, read = score(tmp_path / str(number), human, rows)
        results = read_records(tmp_path / str(number) / "outputs/runs")[0]["results"]
        made.append((json.dumps(results), read.path.read_bytes(), record.axes["task.texts"]))
    assert made[0] == made[1]
    assert len(json.loads(made[0][0])) == 2 * len(METRICS)


def test_turns_of_one_conversation_are_resampled_together(tmp_path):
    """Two texts per conversation: the intervals are those of as many prompts, with two samples each."""
    pairs = list(zip(TEXTS[::2], TEXTS[1::2], strict=True))
    record, read = score(
        tmp_path, [talk("Q?", a, "And?", b) for a, b in zip(HUMAN[::2], HUMAN[1::2], strict=True)],
        [talk("Q?", a, "And?", b) for a, b in pairs],
    )  # fmt: skip
    assert read.texts == TEXTS
    assert read.ids == tuple(f"texts/{i // 2:06d}" for i in range(24))
    assert read.samples == (0, 1) * 12
    rows = {(row.system, row.metric): row for row in record.results}
    for system in ("human", "model"):
        assert (rows[system, "length"].n_model, len(set(read.ids))) == (24, 12)
    (tmp_path / "flat").mkdir()
    single, _ = score(tmp_path / "flat", flat(HUMAN), flat(TEXTS))
    alone = {(row.system, row.metric): row for row in single.results}
    for key, row in rows.items():
        assert row.values == alone[key].values
    errors = [r["model", "length"].intervals["length"]["std_error"] for r in (rows, alone)]
    assert errors[0] != pytest.approx(errors[1], rel=1e-6)


def test_the_role_says_whose_turns_are_scored(tmp_path):
    rows = [talk(f"Question {i}?", t) for i, t in enumerate(TEXTS)]
    _, read = score(tmp_path, [talk(t, "Yes.") for t in HUMAN], rows, role="user")
    assert read.texts == [f"Question {i}?" for i in range(24)]
    message = r"mine.jsonl:1: expected a message with the role 'tool', got user, assistant; choose"
    check_error(DataError, message, list, read_texts(tmp_path / "mine.jsonl", TextSelection(role="tool")))


THOUGHTS = [
    {"text": f"<think>\nζζ {i}\n</think>\n\n{text}"} if i % 6 else {"text": "<think>\nζζζ", "stop": "length"}
    for i, text in enumerate(TEXTS)
]
APART = [{"text": text if i % 6 else None, "reasoning": f"ζζ {i}"} for i, text in enumerate(TEXTS)]
TALKS = [talk("Q?", row["text"]) for row in THOUGHTS]
CLOSED = [{"text": row["text"].removeprefix("<think>\n"), "stop": row.get("stop", "eos")} for row in THOUGHTS]


@pytest.mark.parametrize("rows", [THOUGHTS, APART, TALKS, CLOSED], ids=["tags", "column", "messages", "prompt opens"])
def test_no_reasoning_of_a_file_is_scored_unless_it_is_asked_for(tmp_path, rows):
    kept = [i for i in range(24) if i % 6]
    record, read = score(tmp_path, flat(HUMAN), rows)
    assert read.texts == [TEXTS[i] for i in kept]
    assert read.ids == tuple(f"texts/{i:06d}" for i in kept)
    assert all("ζ" in row.generation.reasoning for row in read)
    assert any("4 of 24 texts ended inside the reasoning and are left out" in str(note) for note in record.notes)
    assert "thinking" not in record.results[0].signature
    for thinking in ("keep", "only"):
        record, read = score(tmp_path, flat(HUMAN), rows, thinking=thinking)
        assert len(read) == 24
        assert all("ζ" in text for text in read.texts)
        assert any(TEXTS[1] in text for text in read.texts) == (thinking == "keep")
        assert f"thinking:{thinking}" in record.results[0].signature


def test_texts_without_reasoning_have_no_column_of_it(tmp_path):
    _, read = score(tmp_path, flat(HUMAN), flat(TEXTS))
    assert not read.has_reasoning


PART = {"role": "assistant", "content": [{"type": "reasoning", "reasoning": "ζ"}]}
LOG = {
    "version": 2, "status": "success", "eval": {"dataset": {"samples": 1, "sample_ids": ["a"]}},
    "samples": [{"id": "a", "epoch": 1, "input": "say", "target": "", "output": {"model": "m", "completion": "",
                 "choices": [{"message": PART, "stop_reason": "max_tokens"}]}}],
}  # fmt: skip
CUT = {"choices": [{"message": {"content": None, "reasoning_content": "ζ"}, "finish_reason": "length"}]}
RESPONSE = {
    "status": "incomplete",
    "incomplete_details": {"reason": "max_output_tokens"},
    "output": [{"type": "reasoning"}],
}


@cases(
    "name, content, expected",
    ("log.json", LOG, [("", "ζ")]),
    ("lm.jsonl", {"doc_id": 0, "arguments": {}, "resps": [[None, "B"]], "target": "C"}, [("", ""), ("B", None)]),
    ("batch.jsonl", {"custom_id": "a", "response": {"status_code": 200, "body": CUT}}, [("", "ζ")]),
    ("responses.jsonl", {"custom_id": "a", "response": {"status_code": 200, "body": RESPONSE}}, [("", "")]),
)
def test_logs_of_other_frameworks_keep_their_reasoning_apart(tmp_path, name, content, expected):
    path = write_file(tmp_path / name, json.dumps(content) + "\n")
    assert [(text.text, text.reasoning) for text in read_texts(path)] == expected


@cases(
    "messages, why",
    ([], "field 'messages': expected a list of messages"),
    ([{"content": "a"}], "message 1: expected an object with role and content"),
    ([{"role": "user", "content": 3}], "message 1: content: expected text, got int"),
)
def test_broken_conversations_are_refused_in_one_line(tmp_path, messages, why):
    path = write_jsonl(tmp_path / "a.jsonl", [{"messages": messages}])
    check_error(DataError, f"a.jsonl:1: {why}", list, read_texts(path))
