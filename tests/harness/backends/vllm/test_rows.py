"""The texts in vLLM's batch, in random order, against the reference loop; and what vLLM loads from the harness."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from openended.harness.backends.vllm import rows as vllm_rows
from openended.harness.backends.vllm.rows import make_group, make_order
from openended.harness.core import Generation, Ragged, build, load_members
from openended.harness.decoders.base import Prompt, QDecoder
from openended.harness.decoders.sampling import Ancestral, Dry, Greedy, Mirostat, Nucleus, Typical, Xtc
from openended.harness.generation import compute_q_statistics, generate_texts
from tests.harness.backends.vllm.fake import compute_logits
from tests.harness.generation.models import gpt2
from tests.helpers import generation, q_request
from tests.lazy import torch

LENGTH, LEAST = 9, 3
EOS = (0, 5)
ROWS = np.random.default_rng(0).integers(1, 60, (12, 4)).tolist()
PROMPTS = [Prompt(f"t/{i % 5}", i // 5, tuple(row)) for i, row in enumerate(ROWS)]
DECODERS = [
    Greedy(), Ancestral(), Nucleus(p=0.8), Typical(), Xtc(), Mirostat(), Dry(allowed_length=1),
    Nucleus(repetition_penalty=1.4, no_repeat_ngram_size=3), Mirostat(algorithm="threshold", repetition_penalty=1.2),
]  # fmt: skip


class Text:
    """A text in the batch."""

    def __init__(self, group: vllm_rows.TextGroup, prompt: Prompt, gold: tuple[int, ...] = ()) -> None:
        self.order, self.gold = make_order(group, prompt, gold), gold
        self.prompt, self.tokens = prompt, list[int]()

    def is_over(self) -> bool:
        if self.gold:
            return len(self.tokens) == len(self.gold)
        return len(self.tokens) == LENGTH or (bool(self.tokens) and self.tokens[-1] in EOS)


def run_in_random_order(texts: list[Text], seed: int, size: int = 5) -> dict[tuple[str, str, int], Any]:
    """Add, move, swap, remove and repeat at random until all texts are over; returns the result of each."""
    draw, lm = random.Random(seed), gpt2(vocab_size=60, eos_ids=EOS)
    rows, batch, waiting = vllm_rows.BatchRows("cpu"), dict[int, Text](), list(texts)
    results = {}
    while waiting or batch:
        for index in list(batch):
            if draw.random() < 0.15:  # preempted
                waiting.insert(0, batch.pop(index))
                rows.remove(index)
        for index in draw.sample(range(size), size):
            if waiting and index not in batch and draw.random() < 0.8:
                batch[index] = waiting.pop(0)
                rows.add(index, batch[index].order, batch[index].tokens)
        if len(batch) > 1:
            a, b = draw.sample(sorted(batch), 2)
            batch[a], batch[b] = batch[b], batch[a]
            rows.swap(a, b)
        while batch and max(batch) >= len(batch):
            source, target = max(batch), min(set(range(size)) - set(batch))
            batch[target] = batch.pop(source)
            rows.move(source, target)
        if not batch:
            continue
        in_order = [batch[i] for i in range(len(batch))]
        logits = torch.stack([compute_logits(lm, [*text.prompt.token_ids, *text.tokens])[-1] for text in in_order])
        masked = rows.choose_tokens(logits)
        assert (masked > float("-inf")).sum(-1).tolist() == [1] * len(batch)
        for index, token in enumerate(masked.argmax(-1).tolist()):
            text = batch[index]
            if draw.random() < 0.2:  # thrown away, as the sample of a part of a prompt is
                continue
            text.tokens.append(token)
            if text.is_over():
                group, example_id, sample = text.order["group"]["id"], text.prompt.example_id, text.prompt.sample
                ended = [(example_id, sample, len(text.tokens))]
                (results[group, example_id, sample],) = rows.take_results(group, ended)
                rows.remove(index)
                del batch[index]
    assert len(rows) == 0
    return results


def reference(decoder: QDecoder, least: int) -> dict[tuple[str, int], Generation]:
    out: list[Generation] = []
    request = generation(PROMPTS, decoder, seed=3, max_new_tokens=LENGTH, min_new_tokens=least, batch_size=4)
    generate_texts(gpt2(vocab_size=60, eos_ids=EOS), request, out.extend)
    return {(g.example_id, g.sample): g for g in out}


@pytest.mark.slow
@pytest.mark.thin(3)
@pytest.mark.parametrize("least", [0, LEAST])
@pytest.mark.parametrize("decoder", DECODERS, ids=lambda d: d.title)
def test_texts_in_random_order_equal_those_of_the_reference_loop(decoder, least):
    request = generation(PROMPTS, decoder, seed=3, max_new_tokens=LENGTH, min_new_tokens=least, batch_size=4)
    group = make_group(request, EOS)
    texts = [Text(group, prompt) for prompt in PROMPTS]
    results = run_in_random_order(texts, seed=least)
    for text in texts:
        expected = reference(decoder, least)[text.prompt.example_id, text.prompt.sample]
        ended = text.tokens[-1] in EOS
        assert tuple(text.tokens[: len(text.tokens) - ended]) == expected.token_ids
        assert ended == (expected.stop == "eos")
        (log_prob,) = results[group["id"], text.prompt.example_id, text.prompt.sample]
        assert log_prob == pytest.approx(expected.log_prob, abs=2e-4)


@pytest.mark.slow
def test_decoders_in_one_batch_do_not_disturb_each_other():
    groups = [
        make_group(generation(PROMPTS, d, seed=3, max_new_tokens=LENGTH, batch_size=4), EOS) for d in DECODERS[:6]
    ]
    texts = [Text(group, prompt) for prompt in PROMPTS[:4] for group in groups]
    run_in_random_order(texts, seed=1, size=9)
    for text, decoder in zip(texts, DECODERS[:6] * 4, strict=True):
        expected = reference(decoder, 0)[text.prompt.example_id, text.prompt.sample]
        assert tuple(t for t in text.tokens if t not in EOS) == tuple(t for t in expected.token_ids if t not in EOS)


def test_forced_texts_give_the_statistics_of_the_reference_in_any_order():
    draw = random.Random(0)
    golds = [tuple(draw.randrange(60) for _ in range(draw.randrange(1, 8))) for _ in PROMPTS]
    prompts = Ragged.from_rows((p.token_ids for p in PROMPTS), np.int64)
    request = q_request(prompts, Ragged.from_rows(golds, np.int64), DECODERS, min_new_tokens=2, batch_size=4)
    expected = compute_q_statistics(gpt2(vocab_size=60, eos_ids=EOS), request)
    group = make_group(request, EOS)
    texts = [Text(group, Prompt(str(i), 0, p.token_ids), gold) for i, (p, gold) in enumerate(zip(PROMPTS, golds))]
    results = run_in_random_order(texts, seed=2)
    for i, text in enumerate(texts):
        assert tuple(text.tokens) == golds[i]
        part = slice(prompts_offset(golds, i), prompts_offset(golds, i + 1))
        for statistics, columns in zip(expected, results[group["id"], str(i), 0], strict=True):
            np.testing.assert_allclose(columns[0], statistics.gold_prob[part], atol=1e-5)
            np.testing.assert_allclose(columns[1], statistics.sum_sq[part], atol=1e-5)
            assert columns[2] == statistics.support[part].tolist()
            assert columns[3] == statistics.argmax[part].tolist()


def prompts_offset(golds: list[tuple[int, ...]], row: int) -> int:
    return sum(map(len, golds[:row]))


def test_rows_without_an_order_keep_their_logits():
    rows = vllm_rows.BatchRows("cpu")
    request = generation(PROMPTS, Greedy(), seed=0, max_new_tokens=2, batch_size=1)
    rows.add(0, None)
    rows.add(1, make_order(make_group(request, EOS), PROMPTS[0]), [])
    logits = torch.arange(12.0).reshape(2, 6)
    before = logits.clone()
    masked = rows.choose_tokens(logits)
    assert torch.equal(masked[0], before[0])
    assert masked[1].tolist() == [float("-inf")] * 5 + [0.0]
    rows.move(0, 1)  # a row of another user takes the place of ours
    assert len(rows) == 0


def test_a_failed_call_leaves_nothing_behind():
    rows = vllm_rows.BatchRows("cpu")
    group = make_group(generation(PROMPTS, Greedy(), seed=0, max_new_tokens=2, batch_size=1), EOS)
    rows.add(0, make_order(group, PROMPTS[0]), [])
    rows.forget()
    assert len(rows) == 0
    with pytest.raises(KeyError):
        rows.take_results(group["id"], [("t/0", 0, 1)])


@pytest.mark.parametrize(
    "cls", [c for c in load_members("decoder").values() if issubclass(c, QDecoder)], ids=lambda c: c.name
)
def test_every_decoder_with_a_q_crosses_to_the_worker(cls):
    decoder = cls()
    assert build("decoder", vllm_rows.describe_decoder(decoder)) == decoder


PROMPT = Prompt("t/0", 0, (1, 2, 3))


def order(decoder: QDecoder | None = None) -> vllm_rows.TextOrder:
    request = generation([PROMPT], decoder or Greedy(), seed=0, max_new_tokens=4, batch_size=1)
    return make_order(make_group(request, (0,)), PROMPT)


def test_slots_of_forced_texts_are_used_again():
    one = Ragged.from_rows([(4, 5)], int)
    group = make_group(q_request(one, one, [Greedy()], batch_size=1), (0,))
    forced = vllm_rows.TeacherForcer(group, "cpu")
    for name in ("a", "b", "c"):
        slot = forced.add(make_order(group, Prompt(name, 0, (1,)), (4, 5)))
        assert slot == 0
        for step, gold in enumerate((4, 5)):
            logits = torch.zeros(1, 8)
            logits[0, gold] = 1.0
            assert forced.choose(logits, [slot], [step]).tolist() == [gold]
        assert forced.take_result(name, 0, 2) == [[[1.0, 1.0], [1.0, 1.0], [1, 1], [4, 5]]]
        assert len(forced) == 0


def test_a_sampler_grows_and_uses_slots_again():
    group = order(Ancestral())["group"]
    sampler = vllm_rows.TextSampler(group, "cpu")
    texts = [make_order(group, Prompt(f"t/{i}", 0, (1,) * (1 + i % 7))) for i in range(3 * vllm_rows.FIRST_SLOTS)]
    slots = [sampler.add(text) for text in texts]
    assert slots == [sampler.add(text) for text in texts] == list(range(len(texts)))
    logits = torch.randn(1, 50, generator=torch.Generator().manual_seed(0))
    alone = vllm_rows.TextSampler(group, "cpu")
    for slot, text in zip(slots, texts, strict=True):
        mine = sampler.choose(logits.clone(), [slot], [0])
        assert torch.equal(mine, alone.choose(logits.clone(), [alone.add(text)], [0]))
    assert sampler.take_result("t/5", 0, 0) == [0.0]
    assert sampler.add(make_order(group, Prompt("new", 0, (1,)))) == 5
