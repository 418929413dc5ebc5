"""Time the loading of a task's documents: cut prompts, tokenize both sides, write the rows that a run reads."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from openended.harness.run import dataset as stages
from openended.harness.storage.rows import RowFile
from openended.tasks.webtext import WebText
from scripts.benchmarks._work import Benchmark

DOCUMENTS = 5_000
WORDS = 350  # mean of a document: about 600 tokens in the bundled vocabulary, like WebText in GPT-2's
PROMPT, LONGEST = 35, 1024


def write_documents() -> dict[str, Any]:
    """Write documents of Zipf-distributed words in the GPT-2 output format; return folder and tokenizer."""
    import pyarrow as pa  # noqa: F401 - imports are not timed

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
            word_ids = rng.choice(len(words), size=int(rng.integers(100, 2 * WORDS - 100)), p=share / share.sum())
            text = "".join(words[i] + ("." if k % 17 == 16 else "") for k, i in enumerate(word_ids)).strip()
            handle.write(json.dumps({"id": number, "ended": True, "length": 0, "text": text}) + "\n")
    return {"folder": folder, "tokenizer": tokenizer}


def load_with_harness(data: dict[str, Any]) -> dict[str, int]:
    """Run both loading stages, from the file to the rows on disk."""
    task = WebText(path=str(data["folder"] / "webtext.jsonl"), prompt_length=PROMPT, max_length=LONGEST)
    stages.make_examples(data["folder"] / "examples", task, data["tokenizer"], DOCUMENTS, 0)
    stages.make_human(data["folder"] / "human", data["folder"] / "examples", data["tokenizer"], LONGEST)
    rows = RowFile(data["folder"] / "human" / stages.HUMAN_ROWS)
    return _summarize(rows.prompts, len(rows.token_ids.values))


def load_plainly(data: dict[str, Any]) -> dict[str, int]:
    """Tokenize each whole document and decode its first 35 tokens; nothing is written."""
    inner, prompts, tokens = data["tokenizer"].inner, [], 0
    with (data["folder"] / "webtext.jsonl").open(encoding="utf-8") as handle:
        for line in handle:
            text = json.loads(line)["text"]
            whole = inner.encode(text, add_special_tokens=False).ids[:LONGEST]
            prompts.append(inner.decode(whole[:PROMPT], skip_special_tokens=False))
            human = inner.decode(whole, skip_special_tokens=False)[len(prompts[-1]) :]
            tokens += len(inner.encode(human, add_special_tokens=False).ids)
    return _summarize(prompts, tokens)


def _summarize(prompts: list[str], tokens: int) -> dict[str, int]:
    return {"documents": len(prompts), "characters of prompts": sum(map(len, prompts)), "tokens": tokens}


def compare_counts(harness: dict[str, int], peer: dict[str, int]) -> str:
    """Report whether both sides have equally many prompts and tokens."""
    return "the same prompts and tokens" if harness == peer else f"differ: {harness} {peer}"


WORKS = [
    Benchmark(
        name="load 5,000 documents: cut prompts, tokenize both sides, write rows",
        prepare=write_documents,
        harness=load_with_harness,
        against="json and tokenizers, document by document, nothing written",
        peer=load_plainly,
        clock="cpu",
        at_most_seconds=5.0,
        at_most_mib=500.0,
        agree=compare_counts,
        say=lambda harness: f"{harness['tokens']:,} tokens",
    )
]
