"""Small builders that several tests share."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from openended.harness.contract import Features, Metric, Need, Side
from openended.harness.types import Ragged


def ragged(rows: Sequence[Sequence[Any]], dtype: Any = np.int64) -> Ragged:
    return Ragged.from_rows(rows, dtype)


def side(system: str, n: int, data: Mapping[Need, Any]) -> Side:
    return Side(system, tuple(f"t/{i:06d}" for i in range(n)), dict(data))


def features(metric: Metric, *, human: Any, model: Any, n_human: int, n_model: int) -> Features:
    """Give every need of a metric the same value on each side."""
    needs = metric.needs()
    facts = {"n": f"{n_human}/{n_model}", "task": "t@000000"}
    return Features(
        side("human", n_human, dict.fromkeys(needs, human)), side("model", n_model, dict.fromkeys(needs, model)), facts
    )


def tiny_model(where: Path) -> Path:
    """Write a model folder: GPT-2 shape, one layer, a token a byte, generation settings that must not leak."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({"<|endoftext|>": 0, **{c: i + 1 for i, c in enumerate(letters)}}, []))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|endoftext|>").save_pretrained(where)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = GPT2Config(
            vocab_size=len(letters) + 1, n_positions=64, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
        )
        GPT2LMHeadModel(config).save_pretrained(where)
    settings = json.loads((where / "generation_config.json").read_text()) | {"top_k": 7, "do_sample": True}
    (where / "generation_config.json").write_text(json.dumps(settings))
    return where


@contextmanager
def quiet_logging() -> Iterator[None]:
    """Leave no handler and no level behind that a command in this process configures."""
    root = logging.getLogger()
    names = ("openended", "openended.harness.run")
    handlers, levels = root.handlers[:], {name: logging.getLogger(name).level for name in names}
    level = root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        for name, old in levels.items():
            logging.getLogger(name).setLevel(old)


def exit_code(main: Callable[[], object], monkeypatch: Any, *words: str) -> int:
    """Call a command in this process with these words; returns its exit code."""
    monkeypatch.setattr("sys.argv", ["command", *words])
    with quiet_logging():
        try:
            main()
        except SystemExit as left:
            return int(left.code or 0)
    return 0
