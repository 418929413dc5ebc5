"""Runners with a cache: rows of any lengths give what transformers gives for each alone, bit for bit in any company."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import pytest

from openended.harness.generation import kv_cache
from openended.harness.generation.kv_cache import round_up_to_tiles
from openended.harness.generation.runners import SameLengthRunner, make_runner
from openended.harness.models.onednn import is_packed
from tests.harness.generation.models import FAMILIES, make_family_model, prompt_rows
from tests.lazy import torch

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
    lm, prompts = make_family_model(name), ragged()
    tails = torch.tensor(prompt_rows(len(prompts), 8, 300, seed=50))
    got = all_logits(lm, [4, 0, 1, 2, 6, 3, 5], prompts, tails, padded=padded)
    assert make_runner(lm, 1, 4).ragged
    for i, prompt in enumerate(prompts):
        want = lm.model(torch.tensor([[*prompt, *tails[i].tolist()]])).logits[0, len(prompt) - 1 :]
        torch.testing.assert_close(got[i], want, atol=3e-4, rtol=1e-3)  # float32, other kernels, logits of tens
    assert lm.model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(("name", "packs"), [*((name, True) for name in RAGGED), ("gpt2", False), ("llama", False)])
def test_a_row_is_the_same_bit_for_bit_in_any_company(name, packs, monkeypatch):
    if not packs:  # as on a machine without oneDNN
        monkeypatch.setattr("openended.harness.models.onednn._TRIALS", {})
        monkeypatch.setattr("openended.harness.models.onednn._passes_trial", lambda *_: False)
        monkeypatch.setattr("openended.harness.models.onednn._PACKED", WeakKeyDictionary())
    lm, prompts = make_family_model(name), ragged()
    assert is_packed(lm.model) == packs or name in ("mixtral", "qwen2_moe")
    tails = torch.tensor(prompt_rows(len(prompts), 8, 300, seed=50))
    whole = all_logits(lm, [4, 0, 1, 2, 6, 3, 5], prompts, tails)
    for some in ([0], [4], [0, 3], [6, 2, 1]):
        part = all_logits(lm, list(range(len(some))), [prompts[i] for i in some], tails[some])
        assert torch.equal(part, whole[some])


@pytest.mark.parametrize("name", ["gpt2", "llama", "falcon"])
def test_a_copied_row_goes_on_as_its_source(name):
    lm = make_family_model(name)
    ids = torch.tensor(prompt_rows(2, 9, 300))
    run = make_runner(lm, 3, 20)
    run.start([0, 1], ids[:, :6].tolist())
    run.extend(ids[:, 6], [0, 1])
    run.copy([1], [0])
    one, two = run.logits(run.extend(ids[1, 7].expand(2), [0, 1]))
    assert torch.equal(one, two)
    run.copy([1], [0], length=6)  # a prompt that another row has run
    assert run.lengths.tolist()[:2] == [6, 8]


def test_rows_of_one_cache_whose_lengths_differ_are_extended_together():
    lm, ids = make_family_model("gpt2"), torch.tensor(prompt_rows(3, 9, 300))
    run = SameLengthRunner(lm, 3, 20)
    run.start([0, 1, 2], ids[:, :6].tolist())
    run.extend(ids[:, 6], [0, 1, 2])
    run.copy([1], [1], length=6)
    for ends in ([7, 6, 7], [8, 7, 8]):
        logits = run.logits(run.extend(ids[torch.arange(3), ends], [0, 1, 2]))
        for row, end in enumerate(ends):
            want = lm.model(ids[row : row + 1, : end + 1]).logits[0, -1]
            torch.testing.assert_close(logits[row], want, atol=3e-4, rtol=1e-3)


def test_once_keeps_nothing():
    for name in ("gpt2", "llama"):
        lm, prompts = make_family_model(name), ragged()
        run = make_runner(lm, len(prompts), 17, once=True)
        states = run.start(range(len(prompts)), prompts)
        assert [len(s) for s in states] == list(LENGTHS)
        for prompt, state in zip(prompts, states, strict=True):
            want = lm.model(torch.tensor([prompt])).logits[0]
            torch.testing.assert_close(run.logits(state), want, atol=3e-4, rtol=1e-3)
        assert not any(run.keys._layers)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("heads", "shared", "masked"), [(6, 6, False), (6, 2, True)])
def test_attention_of_one_token_is_that_of_pytorch(heads, shared, masked, dtype):
    sizes = (8, heads, 1, 8), (8, shared, 20, 8), (8, shared, 20, 5)
    query, keys, values = (torch.randn(size, dtype=getattr(torch, dtype)) for size in sizes)
    mask = torch.rand(8, 1, 1, 20) < 0.8 if masked else None
    for scale in (None, 0.3):
        want = torch.nn.functional.scaled_dot_product_attention(
            query.double(), keys.double(), values.double(), attn_mask=mask, scale=scale, enable_gqa=True
        ).to(query.dtype)
        torch.testing.assert_close(kv_cache.attend_one_token(query, keys, values, mask, scale), want)


def test_masked_positions_change_no_bit_of_attention():
    query, keys, values = torch.randn(4, 3, 1, 16), torch.randn(4, 3, 704, 16), torch.randn(4, 3, 704, 16)
    at = torch.arange(704)
    for first, end in [(0, 1), (0, 15), (0, 17), (3, 40), (0, 255), (0, 300), (100, 513), (0, 699)]:
        mask, alone = ((at >= first) & (at < end)).expand(4, 1, 1, 704), slice(0, round_up_to_tiles(end, 16))
        together = kv_cache.attend_one_token(query, keys, values, mask)
        row = kv_cache.attend_one_token(query[2:3], keys[2:3, :, alone], values[2:3, :, alone], mask[2:3, ..., alone])
        assert torch.equal(row, together[2:3])


@pytest.mark.parametrize(("shared", "group", "size"), [(2, 3, 32), (1, 4, 64)], ids=str)
def test_heads_that_share_keys_attend_by_products_whose_rows_stand_alone(shared, group, size, monkeypatch):
    lengths = torch.tensor([3, 40, 128, 131, 290, 300])
    mask = (torch.arange(304) < lengths[:, None])[:, None, None]
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(6, shared * group, 1, size, generator=generator)
    keys, values = torch.randn(2, 6, shared, 304, size, generator=generator)
    together = kv_cache.attend_one_token(query, keys, values, mask)
    for row, length in enumerate(lengths.tolist()):
        at, end = slice(row, row + 1), round_up_to_tiles(length, 16)
        alone = kv_cache.attend_one_token(query[at], keys[at, :, :end], values[at, :, :end], mask[at, ..., :end])
        assert torch.equal(alone, together[at])
    monkeypatch.setattr(kv_cache, "has_batch_invariant_products", lambda *_: False)
    torch.testing.assert_close(together, kv_cache.attend_one_token(query, keys, values, mask), atol=1e-5, rtol=1e-5)


def test_a_product_that_depends_on_the_other_rows_is_found(monkeypatch):
    whole = kv_cache._attend_by_products
    monkeypatch.setattr(kv_cache, "_attend_by_products", lambda query, *rest: whole(query, *rest) + 1e-6 * len(query))
    assert not kv_cache.has_batch_invariant_products.__wrapped__(2, 3, 32, 32, torch.get_num_threads())
