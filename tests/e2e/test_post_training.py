"""The protocol after training: requests to a chat server whose stated answers are known, and the experiment itself."""

import re
from collections import Counter

import numpy as np
import pytest

from openended.harness.storage import RowFile, read_record
from tests.harness.backends.openai.fake import ID, Fake, Fault, served
from tests.helpers import openended, write_jsonl

STATED = {"red": 0.5, "green": 0.25, "blue": 0.15, "gold": 0.1}


class Answering(Fake):
    """Answers every request for a list with `STATED`; every third reply cannot be read."""

    unreadable = 3

    def choice(self, ids, body, number, chat):
        self.noise += 1
        prompt = body["messages"][-1]["content"]
        stated = (f"<text>{text}</text><probability>{p}</probability>" for text, p in STATED.items())
        listed = "".join(f"<response>{one}</response>" for one in stated)
        text = listed if prompt.startswith("Give 4 answers") else "red"
        text = "I would rather not." if self.noise % self.unreadable == 0 else text
        message = {"role": "assistant", "content": text}
        return {"index": number, "finish_reason": "stop", "count": 1, "message": message}


def run(tmp_path, address, *words):
    """Ask two questions in NoveltyBench's format; returns the run folder and the texts by question."""
    rows = [{"id": f"curated-{i}", "category": "Creativity", "prompt": f"Name a color, {i}."} for i in range(2)]
    path = write_jsonl(tmp_path / "curated.jsonl", rows)
    done = openended(
        "task=novelty_bench", f"task.path={path}", "model=openai", f"model.path={ID}", f"model.base_url={address}",
        "model.chat=true", "model.probe=false", "model.concurrency=1", "decoder=ancestral", "num_examples=2",
        "max_new_tokens=8", "scoring=none", "metric=[distinct_k]", "prompting.answers=4", "name=asked", *words,
        cwd=tmp_path, code=0,
    )  # fmt: skip
    folder = max((tmp_path / "outputs/runs/asked").iterdir())
    record = read_record(folder)
    (entry,) = (each.artifact for each in record.inputs if each.stage == "generate")
    return done, record, RowFile(folder / record.store / entry / "data.arrow")


@pytest.mark.slow
def test_stated_weights_are_recovered_and_failures_counted(tmp_path):
    fake = Answering(Fault(no_ids=True))
    with served(fake) as (address,):
        asked = ("prompting=verbalized", "samples=400", "prompting.spare_replies=60")
        _, record, rows = run(tmp_path, address, "prompting.weights=draw", *asked)
    counts = Counter(rows.texts)
    expected = 800 * np.array(list(STATED.values()))
    assert counts.keys() == STATED.keys()
    assert np.all(np.abs([counts[text] for text in STATED] - expected) <= 4 * np.sqrt(expected))
    (note,) = (note for note in map(str, record.notes) if note.startswith("prompting="))
    assert note == (f"prompting=verbalized: 800 texts; replies without a readable answer: {2 * 160 // 3}")
    assert "drawn at random" in fake.bodies[0]["messages"][0]["content"]


def test_planted_classes_are_recovered_exactly_and_short_prompts_are_left_out(tmp_path):
    fake = Answering(Fault(no_ids=True))
    with served(fake) as (address,):
        _, record, rows = run(tmp_path, address, "prompting=verbalized", "samples=8")  # the third reply is lost
    assert rows.texts == list(STATED) * 2
    assert rows.samples == tuple(range(8))
    (result,) = record.results
    assert result.values["distinct_k"] == 4
    left_out = "prompts with fewer than 8 answers, left out: 1; prompting.spare_replies=1 asks"
    assert any(left_out in str(note) for note in record.notes)


def test_nothing_readable_is_no_value_instead_of_an_error(tmp_path):
    fake = Answering(Fault(no_ids=True))
    fake.unreadable = 1
    with served(fake) as (address,):
        done, record, rows = run(tmp_path, address, "prompting=list", "samples=2")
    assert len(rows) == 0
    (result,) = record.results
    assert (result.status, result.notes) == ("undefined", ("there are no texts",))
    assert "replies without a readable answer: 2" in re.sub(r"\s+", " ", done.stdout)


@pytest.mark.slow
def test_the_experiment_on_docs(tmp_path):
    openended(
        "-m", "experiment=post_training", "using=docs", "num_examples=4", "samples=2", "prompting=direct,verbalized",
        "max_new_tokens=12", cwd=tmp_path, code=0,
    )  # fmt: skip
    table = (tmp_path / "outputs/reports/post_training_docs/tables/results.md").read_text()
    assert [re.findall(r"docs *\| *([^|]+?) *\| *(\w+)", line) for line in table.splitlines() if "docs |" in line] == [
        [("one answer", "Base")], [("one answer", "SFT")],
        [("answers with probabilities", "Base")], [("answers with probabilities", "SFT")],
    ]  # fmt: skip
    openended("report", "post_training_docs", "--out", "again", cwd=tmp_path, code=0)  # the stages in the same order
    assert (tmp_path / "again/tables/results.md").read_text() == table
