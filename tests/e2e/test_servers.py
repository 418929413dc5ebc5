"""Runs through a server by the command line: over loopback, killed and resumed, and with keys that nobody may see."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from openended.harness.core.spec import parse_signature
from tests.harness.backends.openai.fake import ID, KEY, Fake, Fault, OtherModel, served
from tests.helpers import openended, read_records, write_jsonl

WORDS = (
    "task=jsonl", "task.path=own.jsonl", "scoring=none", "num_examples=8", "max_new_tokens=6", "decoder=nucleus",
    "model=openai", f"model.path={ID}", f"model.tokenizer=bundled:{ID}", "metric=[length,distinct_n]",
    "runtime.progress=false", "runtime.flush_seconds=0", "model.retries=1", "name=x",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path) -> Path:
    sentence = " raise an error if {} is too large."
    rows = [{"prompt": f"Return {i} and", "human": sentence.format(i) * (1 + i % 2)} for i in range(16)]
    write_jsonl(tmp_path / "own.jsonl", rows)
    return tmp_path


@pytest.mark.slow
def test_a_run_through_a_server_and_no_file_holds_its_key(folder, monkeypatch):
    monkeypatch.setenv("FAKE_API_KEY", KEY)
    fake = Fake()
    with served(fake) as (url,):
        words = (*WORDS, f"model.base_url={url}", "model.api_key_env=FAKE_API_KEY")
        planned = openended(*words, "plan_only=true", cwd=folder)
        assert f"docs-s (vllm): model; at {url}; vllm 0.33.0 answers" in planned.stdout
        done = openended(*words, cwd=folder, code=0)
        openended(
            *WORDS, f"model.base_url={url}", "scorer=openai", f"scorer.path={ID}", f"scorer.base_url={url}",
            f"scorer.tokenizer=bundled:{ID}", "metric=[gen_ppl,jensen_shannon]", cwd=folder, code=0
        )  # fmt: skip
        before = len(fake.bodies)
    assert f"Bearer {KEY}" in fake.keys
    # The server is gone, its texts are not: another metric asks nobody.
    again = openended(*words, "metric=[repetition]", cwd=folder, code=0)
    assert len(fake.bodies) == before
    first, second = (
        next(r for r in read_records(folder) if name in {metric["name"] for metric in r["spec"]["metrics"]})
        for name in ("length", "gen_ppl")
    )
    (texts,) = (each for each in first["inputs"] if each["artifact"].startswith("generate/"))
    assert texts["provenance"]["served"]["version"] == "0.33.0"
    assert any("vllm 0.33.0 answered" in str(note) for note in first["notes"])
    values = {r["metric"]: r for r in second["results"] if r["system"] == "model"}
    assert values["gen_ppl"]["values"]["gen_ppl"] > 1
    assert "scorer:docs-s (vllm)@" in values["gen_ppl"]["signature"]
    assert values["jensen_shannon"]["status"] == "undefined"
    reason = "Q needs the whole distribution; a server lists its best tokens alone"
    assert reason in values["jensen_shannon"]["notes"][0]
    texts = [p.read_bytes() for p in folder.rglob("*") if p.is_file()]
    assert len(texts) > 10
    printed = [text.encode() for done in (planned, done, again) for text in (done.stdout, done.stderr)]
    assert not any(KEY.encode() in text for text in (*texts, *printed))


@pytest.mark.slow
def test_a_server_that_dies_costs_what_was_under_way(folder):
    fake = Fake(Fault(dies_after=5))
    with served(fake) as (url,):
        words = (*WORDS, f"model.base_url={url}", "model.probe=false", "model.concurrency=1", "model.timeout=5")
        done = openended(*words, cwd=folder)
    assert done.returncode == 2
    assert "finished texts are kept; repeat the command to resume" in done.stderr
    alive = Fake()
    with served(alive) as (url,):
        done = openended(*words, f"model.base_url={url}", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert 3 <= len(alive.bodies) <= 4  # the last text of five may not have been on the disk
    assert "resuming after" in done.stderr
    (record,) = read_records(folder)
    assert {parse_signature(r["signature"])["model"] for r in record["results"]} == {"not probed"}


@pytest.mark.slow
def test_texts_of_a_replaced_server_are_not_mixed_in_silence(folder):
    for fake, count in ((Fake(), 2), (Fake(), 4), (OtherModel(), 6)):
        with served(fake) as (url,):
            words = (*WORDS, f"model.base_url={url}", "decoder=greedy", f"num_examples={count}", f"name=n{count}")
            done = openended(*words, cwd=folder, code=0)
        (record,) = (r for r in read_records(folder) if r["spec"]["texts"]["num_examples"] == count)
        warning = "the server's log-probabilities for known prompts are not those of earlier texts"
        faults = [note["arguments"][0] for note in record["notes"] if note["kind"] == "fault"]
        assert any(warning in fault for fault in faults) == (f"DO NOT REPORT: {warning}" in done.stderr) == (count == 6)


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.long
def test_transformers_own_server(folder):
    """The real one: what its dialect can do works, its traps are kept shut, and what it cannot do is refused."""
    pytest.importorskip("openai", reason="needs the extra transformers[serving]")
    pytest.importorskip("fastapi", reason="needs the extra transformers[serving]")
    from openended.harness.models.spec import find_assets_folder

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model, url = str(find_assets_folder() / ID), f"http://127.0.0.1:{port}"
    program = str(Path(sys.executable).with_name("transformers"))
    command = [program, *f"serve {model} --port {port} --device cpu".split()]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    try:
        waited = time.monotonic() + 120
        while not listens(port):
            assert server.poll() is None, "transformers serve did not start"
            assert time.monotonic() < waited
            time.sleep(0.2)
        words = (*WORDS, f"model.path={model}", f"model.base_url={url}", "model.dialect=transformers", "num_examples=3")
        openended(*words, "decoder=ancestral", "model.label=docs-s", cwd=folder, code=0)
        openended(*words, "decoder=greedy", "model.label=docs-s", cwd=folder, code=0)
        local = "num_examples=3 decoder=greedy model=docs-s name=local".split()
        openended(*WORDS[:5], *WORDS[9:12], *local, cwd=folder, code=0)
    finally:
        server.terminate()
        server.wait(10)
    refused = openended(*words, "metric=[gen_ppl]", "scorer=openai", "scorer.dialect=transformers", f"scorer.path={model}",
                        f"scorer.base_url={url}", f"scorer.tokenizer=bundled:{ID}", "plan_only=true", cwd=folder, code=2)  # fmt: skip
    assert "the dialect transformers gives no log-probabilities of a given text" in refused.stderr
    made = {(r["axes"]["model"], r["axes"]["decoder"]): r for r in read_records(folder)}
    lengths = [
        next(x["values"] for x in made[key]["results"] if x["metric"] == "distinct_n" and x["system"] == "model")
        for key in (("docs-s (transformers)", "greedy"), ("docs-s", "greedy"))
    ]
    assert lengths[0] == lengths[1]
    notes = str(made["docs-s (transformers)", "ancestral"]["notes"])
    assert "draws against log-probabilities (it lists none)" in notes
    assert "texts came without token ids and were encoded again" in notes
