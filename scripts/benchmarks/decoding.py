"""Time decoding against transformers' `generate`, and teacher forcing against one full pass per metric and decoder.

The teacher-forcing peer follows the usual approach of public experiment code: for each metric and decoder it truncates,
renormalizes and reads the whole vocabulary again.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

from openended.harness.decoders.base import Decoder, GenerationRequest, QDecoder
from openended.harness.decoders.q_statistics import LogitChunk, QTable, TextPosition
from openended.harness.decoders.sampling import Ancestral, Greedy, Nucleus, TopK
from openended.harness.generation.beam_search import Beam
from openended.harness.generation.generate import Prompt, generate_texts
from openended.harness.generation.teacher_forcing import CHUNK_CPU, score_chunk
from openended.harness.models.spec import ModelSpec
from openended.harness.models.transformers import LanguageModel, load_model
from openended.metrics.eps_ppl import eps_ppl
from openended.metrics.jensen_shannon import jensen_shannon
from openended.metrics.sparsemax_score import sparsemax_score
from scripts.benchmarks._work import Benchmark

ROWS, PROMPT, NEW = 64, 35, 128
VOCAB, LENGTH = 50257, 1024


def _load_bundled() -> LanguageModel:
    warnings.simplefilter("ignore")
    lm = load_model(ModelSpec(path="bundled:docs-s"))
    for make in (_make_harness_run(Greedy()), _make_peer_run(do_sample=False)):
        make(lm, new=4)
    return lm


def _sample_prompts() -> torch.Tensor:
    return torch.randint(1, 4096, (ROWS, PROMPT), generator=torch.Generator().manual_seed(0))


def _make_harness_run(decoder: Decoder, least: int = 0) -> Any:  # noqa: ANN401
    def run(lm: LanguageModel, new: int = NEW) -> dict[str, float]:
        prompts = [Prompt(f"b/{i}", 0, tuple(r)) for i, r in enumerate(_sample_prompts().tolist())]
        lengths: list[int] = []
        generate_texts(
            lm,
            GenerationRequest(
                prompts=prompts, decoder=decoder, seed=0, max_new_tokens=new, min_new_tokens=least, batch_size=ROWS
            ),
            lambda rows: lengths.extend(len(g.token_ids) for g in rows),
        )
        return {"tokens": float(sum(lengths))}

    return run


def _make_peer_run(**options: Any) -> Any:  # noqa: ANN401
    def run(lm: LanguageModel, new: int = NEW) -> dict[str, float]:
        torch.manual_seed(0)
        ids = _sample_prompts()
        generated = lm.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=new,
            eos_token_id=lm.eos_ids[0],
            pad_token_id=lm.eos_ids[0],
            **options,
        )[:, PROMPT:]
        texts = [row[: row.index(lm.eos_ids[0])] if lm.eos_ids[0] in row else row for row in generated.tolist()]
        return {"tokens": float(sum(map(len, texts))), "text": float(len([lm.decode(t) for t in texts]))}

    return run


def _compare_token_counts(harness: dict[str, float], peer: dict[str, float]) -> str:
    return f"{harness['tokens']:.0f} / {peer['tokens']:.0f} tokens"


def _make_generation_work(decoder: Decoder, at_least: float, least: int = 0, **options: Any) -> Benchmark:  # noqa: ANN401
    return Benchmark(
        name=f"{decoder.title}, {ROWS} × {NEW} tokens, docs-s{', no random ends' if least else ''}",
        prepare=_load_bundled,
        harness=_make_harness_run(decoder, least),
        against="transformers generate",
        peer=_make_peer_run(**options),
        at_least=at_least,
        agree=_compare_token_counts,
    )


def _sample_logits() -> tuple[torch.Tensor, torch.Tensor]:
    """Sample logits of one text and its tokens; the forward pass is not part of the work.

    Entropies are 1 to 6 nats, typical of a language model, so a nucleus holds tens to thousands of tokens.
    """
    generator = torch.Generator().manual_seed(0)
    gold = torch.randint(0, VOCAB, (LENGTH,), generator=generator)
    sharpness = 3.0 + 1.5 * torch.rand(LENGTH, 1, generator=generator)
    return torch.randn(LENGTH, VOCAB, generator=generator) * sharpness, gold


def _make_harness_teacher_forcing(decoders: list[QDecoder]) -> Any:  # noqa: ANN401
    def run(data: tuple[torch.Tensor, torch.Tensor]) -> dict[str, float]:
        logits, gold = data
        tables = [QTable.empty(LENGTH) for _ in decoders]
        size = CHUNK_CPU // VOCAB
        with torch.inference_mode():
            for start in range(0, LENGTH, size):
                part = slice(start, start + size)
                positions = [TextPosition(0, t) for t in range(*part.indices(LENGTH))]
                chunk = LogitChunk(logits[part], gold[part], positions)
                statistics = score_chunk(decoders, tables, chunk, lambda _: np.zeros(0, dtype=np.int64))
                for table, values in zip(tables, statistics, strict=True):
                    table.write(np.arange(LENGTH)[part], values)
        return {
            "sp": sparsemax_score(tables[0].gold_prob, tables[0].sum_sq),
            "js": jensen_shannon(tables[0].gold_prob),
            "eps_ppl": eps_ppl(tables[0].gold_prob, vocab_size=VOCAB, eps=1e-5),
        }

    return run


def _make_peer_teacher_forcing(p: float) -> Any:  # noqa: ANN401
    def q(logits: torch.Tensor) -> torch.Tensor:
        if p < 1:
            ordered, ids = torch.sort(logits, descending=True)
            above = ordered.softmax(-1).cumsum(-1)
            drop = above > p
            drop[:, 1:] = drop[:, :-1].clone()
            drop[:, 0] = False
            logits = logits.masked_fill(drop.scatter(1, ids, drop), float("-inf"))
        return logits.softmax(-1)

    def run(data: tuple[torch.Tensor, torch.Tensor]) -> dict[str, float]:
        logits, gold = data[0], data[1][:, None]
        with torch.inference_mode():
            first = q(logits)
            sp = first.gather(1, gold).squeeze(1) + 0.5 * (1 - (first**2).sum(-1))
            second = q(logits).gather(1, gold).squeeze(1).double()
            third = q(logits).gather(1, gold).squeeze(1).double()
        return {
            "sp": float(sp.mean()),
            "js": jensen_shannon(second.clamp(max=1).numpy()),
            "eps_ppl": float(((third + 1e-5) / (1 + 1e-5 * VOCAB)).log().mean().neg().exp()),
        }

    return run


def _compare_relative(harness: dict[str, float], peer: dict[str, float]) -> str:
    return f"≤ {max(abs(harness[k] / peer[k] - 1) for k in peer):.0e} relative"


TWENTY: list[QDecoder] = [
    Nucleus(p=0.95),
    *(Nucleus(p=round(0.5 + 0.05 * i, 2)) for i in range(9)),
    *(TopK(k=5 * 2**i) for i in range(8)),
    Ancestral(),
    Greedy(),
]

WORKS = [
    _make_generation_work(Greedy(), 1.5, do_sample=False),
    _make_generation_work(Ancestral(), 1.5, do_sample=True, top_k=0),
    _make_generation_work(Nucleus(p=0.95), 1.5, do_sample=True, top_k=0, top_p=0.95),
    # Where no text ends early there are no free slots to refill: the gain is that of the kernels alone.
    _make_generation_work(Nucleus(p=0.95), 1.0, least=NEW, do_sample=True, top_k=0, top_p=0.95, min_new_tokens=NEW),
    _make_generation_work(Beam(num_beams=4), 1.0, do_sample=False, num_beams=4),
    Benchmark(
        name=f"teacher-forced, one untruncated Q, V = {VOCAB:,}, T = {LENGTH:,}",
        prepare=_sample_logits,
        harness=_make_harness_teacher_forcing([Ancestral()]),
        against="a full pass a metric",
        peer=_make_peer_teacher_forcing(1.0),
        at_least=5,
        agree=_compare_relative,
    ),
    Benchmark(
        name=f"teacher-forced, one nucleus, V = {VOCAB:,}, T = {LENGTH:,}",
        prepare=_sample_logits,
        harness=_make_harness_teacher_forcing([Nucleus(p=0.95)]),
        against="a full pass a metric",
        peer=_make_peer_teacher_forcing(0.95),
        at_least=15,
        agree=_compare_relative,
    ),
    Benchmark(
        name=f"teacher-forced, twenty decoders, V = {VOCAB:,}, T = {LENGTH:,}",
        prepare=_sample_logits,
        harness=_make_harness_teacher_forcing(TWENTY),
        against="a full pass a metric and decoder (one timed)",
        peer=_make_peer_teacher_forcing(0.95),
        peer_share=1 / 20,
        at_least=40,
        agree=_compare_relative,
    ),
]
