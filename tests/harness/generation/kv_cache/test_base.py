"""Rows of any lengths on one model: what transformers gives for each alone, and bit for bit the same in any company."""

from __future__ import annotations

import pytest
import torch

from openended.harness.generation.kv_cache.base import round_up_to_tiles, split_prompts
from openended.harness.generation.kv_cache.choose import make_runner
from tests.harness.generation.families import FAMILIES, family
from tests.harness.generation.models import prompt_rows

LENGTHS = (6, 1, 9, 6, 17, 6, 2)


def ragged(vocab_size: int = 300) -> list[tuple[int, ...]]:
    return [prompt_rows(1, length, vocab_size, seed=i)[0] for i, length in enumerate(LENGTHS)]


def all_logits(lm, rows: list[int], prompts: list[tuple[int, ...]], tails: torch.Tensor, *, padded: bool = False):
    """Logits after the prompts and after each of the tails' tokens (rows, steps)."""
    run = make_runner(lm, max(rows) + 1, 40)
    if padded:
        run.keys.padded = True  # what a GPU does
    made = [torch.stack([run.logits(s[-1:])[0] for s in run.start(rows, prompts)])]
    order = sorted(range(len(rows)), key=rows.__getitem__)
    for step in range(tails.shape[1]):
        hidden = run.extend(tails[order, step], [rows[i] for i in order])
        logits = run.logits(hidden)
        made.append(torch.stack([logits[order.index(i)] for i in range(len(rows))]))
    return torch.stack(made, 1)


RAGGED = [name for name in FAMILIES if name != "falcon"]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", RAGGED)
def test_rows_of_any_lengths_equal_transformers(name, padded):
    lm, prompts = family(name), ragged()
    tails = torch.tensor(prompt_rows(len(prompts), 12, 300, seed=50))
    got = all_logits(lm, [4, 0, 1, 2, 6, 3, 5], prompts, tails, padded=padded)
    assert make_runner(lm, 1, 4).ragged
    for i, prompt in enumerate(prompts):
        want = lm.model(torch.tensor([[*prompt, *tails[i].tolist()]])).logits[0, len(prompt) - 1 :]
        torch.testing.assert_close(got[i], want, atol=3e-4, rtol=1e-3)  # float32, other kernels, logits of tens
    assert lm.model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("name", RAGGED)
def test_a_row_is_the_same_bit_for_bit_in_any_company(name):
    lm, prompts = family(name), ragged()
    tails = torch.tensor(prompt_rows(len(prompts), 12, 300, seed=50))
    whole = all_logits(lm, [4, 0, 1, 2, 6, 3, 5], prompts, tails)
    for some in ([0], [4], [0, 3], [6, 2, 1]):
        part = all_logits(lm, list(range(len(some))), [prompts[i] for i in some], tails[some])
        assert torch.equal(part, whole[some])


def test_models_with_attention_of_their_own_run_rows_of_one_length():
    lm = family("falcon")
    run = make_runner(lm, 3, 20)
    assert not run.ragged
    ids = torch.tensor(prompt_rows(3, 9, 300))
    want = lm.model(ids).logits
    hidden = run.start([0, 1, 2], ids[:, :6].tolist())
    torch.testing.assert_close(run.logits(torch.stack(hidden)), want[:, :6], atol=3e-4, rtol=1e-3)
    for t in range(6, 9):
        torch.testing.assert_close(run.logits(run.extend(ids[:, t], [0, 1, 2])), want[:, t], atol=3e-4, rtol=1e-3)


@pytest.mark.parametrize("name", ["gpt2", "llama", "falcon"])
def test_a_copied_row_goes_on_as_its_source(name):
    lm = family(name)
    ids = torch.tensor(prompt_rows(2, 9, 300))
    run = make_runner(lm, 3, 20)
    run.start([0, 1], ids[:, :6].tolist())
    run.extend(ids[:, 6], [0, 1])
    run.copy([1], [0])
    one, two = run.logits(run.extend(ids[1, 7].expand(2), [0, 1]))
    assert torch.equal(one, two)
    run.copy([1], [0], length=6)  # a prompt that another row has run
    assert run.lengths.tolist()[:2] == [6, 8]


def test_prompts_go_through_in_parts():
    assert round_up_to_tiles(5, 4) == 8
    parts = list(split_prompts([(0,) * n for n in (10, 1000, 30, 2000)], "cpu"))
    assert parts == [[3], [1], [2, 0]]
    assert list(split_prompts([(0,) * n for n in (10, 1000, 30)], "cuda")) == [[1, 2, 0]]


def test_the_last_position_alone_is_that_of_all():
    lm, prompts = family("gpt2"), ragged()
    run = make_runner(lm, len(prompts), 17)
    whole = run.start(range(len(prompts)), prompts)
    alone = run.start(range(len(prompts)), prompts, every=False)
    assert all(torch.equal(a[-1], b[-1]) for a, b in zip(whole, alone, strict=True))
    assert {len(a) for a in alone} == {1}


def test_once_keeps_nothing():
    for name in ("gpt2", "llama"):
        lm, prompts = family(name), ragged()
        run = make_runner(lm, len(prompts), 17, once=True)
        states = run.start(range(len(prompts)), prompts)
        assert [len(s) for s in states] == list(LENGTHS)
        for prompt, state in zip(prompts, states, strict=True):
            want = lm.model(torch.tensor([prompt])).logits[0]
            torch.testing.assert_close(run.logits(state), want, atol=3e-4, rtol=1e-3)
        assert not any(run.keys._layers)
