"""Loading a task's documents: prompts cut, both sides tokenised, written as the rows that a run reads."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from openended.harness.run import artifact_files as stages
from openended.harness.storage.rows import Rows
from openended.tasks.webtext import WebText
from scripts.benchmarks._work import Work

DOCUMENTS = 5_000
WORDS = 350  # a document's mean: with the bundled vocabulary about 600 tokens, as WebText's under GPT-2's
PROMPT, LONGEST = 35, 1024


def documents() -> dict[str, Any]:
    """Documents of Zipf-distributed words in the form of the GPT-2 output dataset; and the bundled tokenizer."""
    import pyarrow as pa  # noqa: F401 - what loading imports is not timed

    from openended.harness.models.spec import ModelSpec
    from openended.harness.models.tokenizer import load_tokenizer

    rng = np.random.default_rng(0)
    tokenizer = load_tokenizer(ModelSpec(path="bundled:docs-s"))
    parts = [text for i in range(300, 4000) if (text := tokenizer.decode([i])).strip().isalpha()]
    starts, ends = [p for p in parts if p[0] == " "], [p for p in parts if p[0] != " "]
    words = [*starts, *(a + b for a, b in zip(rng.choice(starts, 40_000), rng.choice(ends, 40_000), strict=True))]
    rng.shuffle(words)
    share = 1 / np.arange(1, len(words) + 1)
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with (folder / "webtext.jsonl").open("w", encoding="utf-8") as handle:
        for number in range(DOCUMENTS):
            drawn = rng.choice(len(words), size=int(rng.integers(100, 2 * WORDS - 100)), p=share / share.sum())
            text = "".join(words[i] + ("." if k % 17 == 16 else "") for k, i in enumerate(drawn)).strip()
            handle.write(json.dumps({"id": number, "ended": True, "length": 0, "text": text}) + "\n")
    return {"folder": folder, "tokenizer": tokenizer}


def ours(data: dict[str, Any]) -> dict[str, int]:
    """Both stages of a run, from the file to the rows on disk."""
    task = WebText(path=str(data["folder"] / "webtext.jsonl"), prompt_length=PROMPT, max_length=LONGEST)
    stages.make_examples(data["folder"] / "examples", task, data["tokenizer"], DOCUMENTS)
    stages.make_human(data["folder"] / "human", data["folder"] / "examples", data["tokenizer"], LONGEST)
    rows = Rows(data["folder"] / "human" / stages.HUMAN_ROWS)
    return _facts(rows.prompts, len(rows.token_ids.values))


def plain(data: dict[str, Any]) -> dict[str, int]:
    """Read, tokenise each document as a whole, decode the first 35 tokens; nothing is written."""
    inner, prompts, tokens = data["tokenizer"].inner, [], 0
    with (data["folder"] / "webtext.jsonl").open(encoding="utf-8") as handle:
        for line in handle:
            text = json.loads(line)["text"]
            whole = inner.encode(text, add_special_tokens=False).ids[:LONGEST]
            prompts.append(inner.decode(whole[:PROMPT], skip_special_tokens=False))
            human = inner.decode(whole, skip_special_tokens=False)[len(prompts[-1]) :]
            tokens += len(inner.encode(human, add_special_tokens=False).ids)
    return _facts(prompts, tokens)


def _facts(prompts: list[str], tokens: int) -> dict[str, int]:
    return {"documents": len(prompts), "characters of prompts": sum(map(len, prompts)), "tokens": tokens}


def agree(ours: dict[str, int], peer: dict[str, int]) -> str:
    """Say whether prompts and tokens are as many."""
    return "the same prompts and tokens" if ours == peer else f"differ: {ours} {peer}"


WORKS = [
    Work(
        name="load 5,000 documents: cut prompts, tokenise both sides, write rows",
        prepare=documents,
        ours=ours,
        against="json and tokenizers, document by document, nothing written",
        peer=plain,
        clock="cpu",
        at_most_seconds=5.0,
        at_most_mib=500.0,
        agree=agree,
        say=lambda ours: f"{ours['tokens']:,} tokens",
    ),
]
