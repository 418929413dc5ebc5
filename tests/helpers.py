"""Small builders that several tests share."""

import ast
import contextlib
import functools
import io
import json
import logging
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from openended.harness.core import Features, Generation, HarnessError, Metric, Need, Ragged, Side
from openended.harness.decoders.base import Decoder, GenerationRequest, Prompt, QDecoder
from openended.harness.models import EmbedderSpec, ModelSpec
from openended.harness.models.requests import EmbeddingRequest, QStatisticsRequest, ScoringRequest, TextVectors
from openended.harness.models.score import embed_rows
from openended.harness.run.settings import Settings, build_settings

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"
"""The folder with published data; tests that read it are skipped where it is not beside the repository."""


@functools.cache
def parse_file(path: Path) -> ast.Module:
    """Parse a source file, once for all tests that check the source."""
    return ast.parse(path.read_text(encoding="utf-8"))


def ragged(rows: Sequence[Sequence[Any]], dtype: Any = np.int64) -> Ragged:
    return Ragged.from_rows(rows, dtype)


def side(system: str, n: int, data: Mapping[Need, Any]) -> Side:
    return Side(system, tuple(f"t/{i:06d}" for i in range(n)), dict(data))


def features(metric: Metric, *, human: Any, model: Any, n_human: int, n_model: int) -> Features:
    """Give every need of a metric the same value on each side."""
    needs = metric.needs()
    facts = {"n": f"{n_human}/{n_model}", "task": "t@000000"}
    sides = (side("human", n_human, dict.fromkeys(needs, human)), side("model", n_model, dict.fromkeys(needs, model)))
    return Features(*sides, facts)


def save_byte_tokenizer(where: Path, **tokens: str) -> int:
    """Write a tokenizer with a token a byte and one that ends a text; returns the size of its vocabulary."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({"<|endoftext|>": 0, **{c: i + 1 for i, c in enumerate(letters)}}, []))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|endoftext|>", **tokens)
    tokenizer.save_pretrained(where)
    return len(tokenizer)


def tiny_model(where: Path, positions: int = 64) -> Path:
    """Write a model folder: GPT-2 shape, one layer, a token a byte, generation settings that must not leak."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    vocab_size = save_byte_tokenizer(where)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = GPT2Config(
            vocab_size=vocab_size, n_positions=positions, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
        )
        GPT2LMHeadModel(config).save_pretrained(where)
    change_json(where / "generation_config.json", top_k=7, do_sample=True)
    return where


def tiny_masked_model(where: Path, positions: int = 64) -> Path:
    """Write a folder of a masked language model: BERT's shape, one layer, a token a byte and a mask token."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    vocab_size = save_byte_tokenizer(where, mask_token="<|mask|>")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=vocab_size, max_position_embeddings=positions, hidden_size=16, num_hidden_layers=1,
            num_attention_heads=2, intermediate_size=32, eos_token_id=0,
        )  # fmt: skip
        BertForMaskedLM(config).save_pretrained(where)
    return where


def write_jsonl(path: Path, rows: Iterable[Any]) -> Path:
    """Write objects as JSON lines; returns the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_file(path: Path, text: str) -> Path:
    """Write a text; returns the path."""
    path.write_text(text, encoding="utf-8")
    return path


def change_json(path: Path, **changes: Any) -> Path:
    """Write the JSON object of a file again with other values; returns the path."""
    return write_file(path, json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes))


def cases(names: str, /, *rows: Any, **options: Any) -> pytest.MarkDecorator:
    """Run a test on rows of values for these of its arguments, as `pytest.mark.parametrize` of a list does."""
    return pytest.mark.parametrize(names, rows, **options)


def check_error(error: Any, words: str, call: Callable[..., object], /, *args: Any, **options: Any) -> str:
    """Check that a call raises an error that says these words, a regular expression, and ours in one line; returns the line."""
    with pytest.raises(error, match=words or None) as caught:
        call(*args, **options)
    message = str(caught.value)
    assert "\n" not in message or not isinstance(caught.value, HarnessError)
    return message


def copy_without(folder: Path, tmp_path: Path, *names: str) -> ModelSpec:
    """Return the model of a copy of a folder, less some files."""
    target = tmp_path / "partial"
    shutil.copytree(folder, target)
    for name in names:
        (target / name).unlink()
    return ModelSpec(path=str(target))


@contextlib.contextmanager
def undrawn_figures() -> Iterator[None]:
    """Make the figures of reports, but do not render them: that takes most of a report's time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("openended.harness.report.figures.draw.save_pictures", lambda *_: [])
        yield


def exit_code(main: Callable[[], object], *words: str, draw: bool = False) -> int:
    """Call a command in this process with these words; returns its exit code. Figures are rendered only with `draw`."""
    with as_a_process(("command", *words), Path.cwd()), contextlib.nullcontext() if draw else undrawn_figures():
        try:
            main()
        except SystemExit as left:
            return int(left.code or 0)
    return 0


def openended(
    *words: str, cwd: Path, verbose: bool = True, draw: bool = False, code: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, from `cwd`: exit code, standard output and standard error.

    Figures are made, but rendered only with `draw`. With `code`, any other exit code is a failure.

    A test that kills, interrupts or counts processes, or that asks what is imported, needs a process of its own.
    """
    from openended.harness.app.cli import main

    out, err = io.StringIO(), io.StringIO()
    left = 0
    with (
        as_a_process(("openended", *(["-v"] if verbose else []), *words), cwd),
        contextlib.nullcontext() if draw else undrawn_figures(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            if isinstance(end.code, str):
                print(end.code, file=err)
            left = end.code if isinstance(end.code, int) else int(bool(end.code))
    assert code in (None, left), err.getvalue()
    return subprocess.CompletedProcess(list(words), left, out.getvalue(), err.getvalue())


def run_process(
    *words: str | Path, cwd: Path = ROOT, code: int | None = 0, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a program on this checkout with more environment variables; any exit code but `code` is a failure."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    options: Any = {"cwd": cwd, "env": env, "capture_output": True, "text": True, "timeout": 540}
    done = subprocess.run([*map(str, words)], check=False, **options)
    assert code in (None, done.returncode), done.stdout[-2000:] + done.stderr[-2000:]
    return done


def read_records(folder: Path) -> list[dict[str, Any]]:
    """Return the records of all runs under a folder as they are on the disk, by path."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("record.json"))]


@contextlib.contextmanager
def as_a_process(argv: Sequence[str], cwd: Path) -> Iterator[None]:
    """Give the block a process's state as it is at the start, and put back everything that a run changes of it."""
    import torch
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.hydra_config import HydraConfig

    def forget() -> None:
        GlobalHydra.instance().clear()
        HydraConfig.instance().cfg = None

    known = [name for name in logging.root.manager.loggerDict if name.startswith(("openended.", "hydra."))]
    names = [None, "openended", "hydra", *known]
    loggers = [logging.getLogger(name) for name in names]
    before = [(one, one.handlers[:], one.level, one.propagate, one.disabled) for one in loggers]
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(cwd), warnings.catch_warnings():
        warnings.simplefilter("default")
        patch.setattr(sys, "argv", list(argv))
        environment = dict(os.environ)
        forget()
        try:
            yield
        finally:
            forget()
            os.environ.clear()
            os.environ.update(environment)
            torch.set_num_threads(threads)
            for name, logger in logging.root.manager.loggerDict.items():
                if name.startswith("openended.") and name not in known and getattr(logger, "level", 0):
                    logger.setLevel(logging.NOTSET)
            for one, handlers, level, propagate, disabled in before:
                for added in (handler for handler in one.handlers if handler not in handlers):
                    added.close()
                one.handlers[:], one.propagate, one.disabled = handlers, propagate, disabled
                one.setLevel(level)


@functools.cache
def config(*words: str) -> Mapping[str, Any]:
    """Compose the configuration of a run with these words, each set of words once."""
    return MappingProxyType({**_make_composer().compose_plain(words).node, "experiment": "test"})


def run_settings(*words: str) -> Settings:
    """Return the settings of a run with these words."""
    return build_settings(config(*words))


def change_settings(settings: Settings, **options: Any) -> Settings:
    """Return settings with other options, in whichever part of them."""
    parts = {}
    for name in ("texts", "models"):
        part: Any = getattr(settings, name)
        own = {option: options.pop(option) for option in [*options] if option in part.__dataclass_fields__}
        parts[name] = replace(part, **own)
    return replace(settings, **parts, **options)


@functools.cache
def _make_composer() -> Any:
    from openended.harness.app.hydra.compose import Composer

    return Composer()


def generation(prompts: Sequence[Prompt], decoder: Decoder, **options: Any) -> GenerationRequest:
    """Return what a backend is asked for to continue prompts."""
    return GenerationRequest(prompts=prompts, decoder=decoder, **options)


def generate(
    lm: Any, prompts: Sequence[Prompt], decoder: Decoder, advance: Any = None, **options: Any
) -> list[Generation]:
    """Continue prompts with a backend or a model in memory; the texts come in the order of examples and samples."""
    from openended.harness.generation import generate_texts
    from openended.harness.models import LanguageModel

    texts: list[Generation] = []
    run = partial(generate_texts, lm) if type(lm) is LanguageModel else lm.generate
    run(generation(prompts, decoder, **options), texts.extend, advance)
    return sorted(texts, key=lambda g: (g.example_id, g.sample))


def scoring(prompts: Ragged, continuations: Ragged, **options: Any) -> ScoringRequest:
    """Return what a backend is asked for to score texts."""
    return ScoringRequest(prompts=prompts, continuations=continuations, **options)


def q_request(
    prompts: Ragged, continuations: Ragged, decoders: Sequence[QDecoder], **options: Any
) -> QStatisticsRequest:
    """Return what a backend is asked for to read each decoder's Q."""
    return QStatisticsRequest(prompts=prompts, continuations=continuations, decoders=decoders, **options)


def embedding(prompts: Ragged, continuations: Ragged, embedder: EmbedderSpec, **options: Any) -> EmbeddingRequest:
    """Return what a backend is asked for to embed texts."""
    return EmbeddingRequest(prompts=prompts, continuations=continuations, embedder=embedder, **options)


def embed_one(
    lm: Any, embedder: EmbedderSpec, prompts: Ragged, continuations: Ragged, *, batch_size: int, advance: Any = None
) -> TextVectors:
    """Embed texts."""
    return embed_rows(lm, embedding(prompts, continuations, embedder, batch_size=batch_size), advance)
