"""Teacher-forced statistics against the direct computation on the full softmax in float64."""

from __future__ import annotations

import numpy as np
import pytest

from openended.harness.core import DataError, Ragged
from openended.harness.decoders import apply_penalties, compute_dense_q, sampling
from openended.harness.generation.teacher_forcing import compute_q_statistics
from tests.harness.generation.models import gpt2, llama, prompt_rows
from tests.helpers import q_request
from tests.lazy import torch

DECODERS = [
    sampling.Greedy(), sampling.Ancestral(), sampling.Temperature(), sampling.TopK(k=5), sampling.Nucleus(p=0.9),
    sampling.Nucleus(p=0.9, temperature=0.7), sampling.MinP(),
    sampling.Nucleus(p=0.8, temperature=0.7, temperature_order="after"),
    sampling.Nucleus(p=1.0, temperature=0.7, temperature_order="after"), sampling.Typical(mass=0.5),
    sampling.Typical(mass=0.95), sampling.Epsilon(eps=0.01), sampling.Eta(eps=0.05), sampling.TopNSigma(),
    sampling.TopH(), sampling.Mirostat(), sampling.Mirostat(algorithm="threshold", tau=1.0), sampling.Entmax(alpha=1.5),
    sampling.Entmax(alpha=2.0), sampling.Greedy(repetition_penalty=1.3), sampling.Ancestral(no_repeat_ngram_size=1),
    sampling.Nucleus(repetition_penalty=2.0), sampling.PLess(), sampling.PLess(norm=True, temperature=2.0),
    sampling.MinK(), sampling.MinK(tau=900.0, temperature=0.7), sampling.Xtc(),
    sampling.Xtc(threshold=0.01, probability=1.0),
    sampling.Xtc(threshold=0.02, temperature=0.7, temperature_order="after"), sampling.Dry(allowed_length=1),
    sampling.Dry(allowed_length=1, p=0.9),
]  # fmt: skip


def by_hand(lm, decoder, prompts, continuations, least=0):
    rows = []
    for prompt, tail in zip(prompts, continuations, strict=True):
        start = list(prompt) or [lm.tokenizer.start_id]
        with torch.no_grad():
            logits = lm.model(torch.tensor([start + list(tail)])).logits[0, len(start) - 1 :].float()
        first = decoder.first_state()
        state = torch.tensor([first], dtype=torch.float64) if first else None
        for t, gold in enumerate(tail):
            row = logits[t : t + 1]
            # As the sampler's: an empty prompt is the start token, which is part of the history.
            row = apply_penalties(decoder, row, torch.tensor([start + list(tail[:t])], dtype=torch.int64))
            if t < least:
                row = row.clone()
                row[:, list(lm.eos_ids)] = float("-inf")
            q = compute_dense_q(decoder, row, state)[0]
            rows.append([q[gold], (q * q).sum(), (q > 0).sum(), q.argmax()])
            surprise = -torch.log_softmax(row.double() / decoder.temperature_and_order()[0], -1)[:, gold]
            state = decoder.next_state(state, surprise)
    return np.array(rows, dtype=np.float64).T


def assert_statistics(got, decoder, expected):
    """float32 logits of two forward passes (ours, transformers'): 1e-5 relative."""
    gold_prob, sum_sq, support, argmax = expected
    np.testing.assert_allclose(got.gold_prob, gold_prob, rtol=2e-5, atol=1e-9, err_msg=decoder.title)
    np.testing.assert_allclose(got.sum_sq, sum_sq, rtol=2e-5, err_msg=decoder.title)
    assert (got.argmax == argmax).all(), decoder.title
    if not isinstance(decoder, sampling.Mirostat):  # its cut moves with the last bits of the surprises
        assert (got.support == support).all(), decoder.title


@pytest.mark.slow
@pytest.mark.parametrize("make", [gpt2, llama])
def test_equals_the_direct_computation(make):
    lm = make()
    prompts = [*prompt_rows(2, 4, 300), (), *prompt_rows(1, 9, 300, seed=3)]
    tails = [*prompt_rows(2, 12, 300, seed=1), *prompt_rows(1, 5, 300, seed=2), ()]
    p, c = Ragged.from_rows(prompts, np.int64), Ragged.from_rows(tails, np.int64)
    together = compute_q_statistics(lm, q_request(p, c, DECODERS, batch_size=2))
    for decoder, among_others in zip(DECODERS, together, strict=True):
        expected = by_hand(lm, decoder, prompts, tails)
        for got in (among_others, *compute_q_statistics(lm, q_request(p, c, [decoder], batch_size=3))):
            assert_statistics(got, decoder, expected)
            assert got.vocab_size == 300
            assert (got.gold == c.values).all()


def test_q_forbids_the_end_of_text_where_generation_does():
    lm = gpt2(vocab_size=12, sharp=1.0)
    prompts, tails = prompt_rows(2, 4, 12), prompt_rows(2, 9, 12, seed=1)
    p, c = Ragged.from_rows(prompts, np.int64), Ragged.from_rows(tails, np.int64)
    for decoder in DECODERS:
        got = compute_q_statistics(lm, q_request(p, c, [decoder], min_new_tokens=5, batch_size=2))[0]
        assert_statistics(got, decoder, by_hand(lm, decoder, prompts, tails, least=5))
    full = compute_q_statistics(lm, q_request(p, c, [sampling.Ancestral()], min_new_tokens=5, batch_size=2))[0]
    assert (full.support == [11] * 5 + [12] * 4 + [11] * 5 + [12] * 4).all()


def test_limits_of_the_context_and_no_rows():
    lm = gpt2()
    p = Ragged.from_rows(prompt_rows(3, 4, 300), np.int64)
    c = Ragged.from_rows(prompt_rows(3, 10, 300, seed=1), np.int64)
    greedy, full = compute_q_statistics(lm, q_request(p, c, [sampling.Greedy(), sampling.Ancestral()], batch_size=8))
    assert set(greedy.gold_prob) <= {0.0, 1.0}
    assert (greedy.sum_sq == 1).all()
    assert (greedy.support == 1).all()
    assert (full.support == 300).all()
    assert (greedy.argmax == full.argmax).all()

    p, c = Ragged.from_rows([(1, 2)], np.int64), Ragged.from_rows([tuple(range(1, 130))], np.int64)
    with pytest.raises(DataError, match="128 positions"):
        compute_q_statistics(lm, q_request(p, c, [sampling.Greedy()], batch_size=1))

    empty = Ragged.from_rows([], np.int64)
    (stats,) = compute_q_statistics(gpt2(), q_request(empty, empty, [sampling.Greedy()], batch_size=4))
    assert len(stats.gold_prob) == 0
