"""What the tests of the text statistics share: running a metric on rows, and the published generations."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest
from hypothesis import strategies as st

from openended.harness.core.metric_spec import Features, Side
from openended.harness.core.types import Ragged
from tests.helpers import ragged

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
GENERATIONS = SHARED / "generations"
TEXTS = st.lists(st.lists(st.integers(0, 3), max_size=12), min_size=1, max_size=6)


def needed(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"reference data is not beside the repository: {'/'.join(path.parts[-3:])}")
    return path


def run(metric, rows, **data):
    """Compute a metric of tokens (and further features by kind) on rows."""
    tokens = rows if isinstance(rows, Ragged) else ragged(rows)
    given = {need: tokens if need.kind == "tokens" else data[need.kind] for need in metric.needs()}
    side = Side("model", tuple(f"t/{i:06d}" for i in range(len(tokens))), given)
    return metric.compute(Features(side, side, {"n": str(len(tokens))}))


def expected() -> dict:
    return json.loads(needed(GENERATIONS / "expected.json").read_text(encoding="utf-8"))


@functools.cache
def bpe():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    folder = needed(SHARED / "gpt2_bpe")
    made = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


@functools.cache
def published(file: str, field: str) -> tuple[str, ...]:
    """The continuations of a published file, `generation` or `reference`, as stored."""
    lines = needed(GENERATIONS / file).read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line)[field] for line in lines)


@functools.cache
def published_words(file: str, field: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(text.split()) for text in published(file, field))


@functools.cache
def published_bpe(file: str, field: str) -> tuple[tuple[int, ...], ...]:
    """GPT-2 tokens; empty texts are dropped, as in the expected values."""
    texts = [text for text in published(file, field) if text.strip()]
    return tuple(tuple(e.ids) for e in bpe().encode_batch(texts, add_special_tokens=False))


CORPORA = [
    ("webtext/gpt2-large-greedy.jsonl", "generation"),
    ("webtext/gpt2-large-nucleus.jsonl", "generation"),
    ("wikitext/gpt2-xl-contrastive.jsonl", "generation"),
    ("webtext/gpt2-large-greedy.jsonl", "reference"),
    ("wikitext/gpt2-xl-contrastive.jsonl", "reference"),
]
IDS = ["greedy", "nucleus", "contrastive", "human-webtext", "human-wikitext"]


def computed(file: str, field: str) -> dict:
    book = expected()
    if field == "reference":
        return book["reference_computed"][file.split("/")[0]]
    return next(entry["computed"] for entry in book["files"] if entry["file"] == file)


def stored(file: str) -> dict:
    return next(entry["stored"] for entry in expected()["files"] if entry["file"] == file)


def streams(file: str, field: str):
    """The two token streams, under their names in the expected values."""
    yield "words", [text for text in published_words(file, field) if text]
    yield "gpt2_bpe", published_bpe(file, field)
