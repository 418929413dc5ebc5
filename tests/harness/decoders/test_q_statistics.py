"""Statistics of Q on chunks of logits: against the whole distribution, however long the head, whoever shares the ranked."""

from __future__ import annotations

import pytest

from openended.harness.decoders import LogitChunk, QDecoder, QTable, TextPosition, compute_dense_q, read_q
from openended.harness.decoders.sampling import (
    Ancestral,
    Entmax,
    Epsilon,
    Greedy,
    MinK,
    MinP,
    Mirostat,
    Nucleus,
    PLess,
    Temperature,
    TopK,
    Typical,
    Xtc,
)  # fmt: skip
from tests.lazy import torch

ROWS, SIZE = 40, 30
DECODERS = [
    Greedy(), Ancestral(), Temperature(temperature=0.6), TopK(k=5), Nucleus(p=0.9), Nucleus(p=0.6, temperature=0.5),
    Nucleus(p=0.8, temperature=0.7, temperature_order="after"), MinP(), Typical(mass=0.3), Epsilon(eps=0.02),
    Entmax(alpha=1.5), Entmax(alpha=2.0), PLess(), PLess(norm=True), MinK(), MinK(tau=40.0), Xtc(), Xtc(threshold=0.05, probability=1.0),
    Xtc(threshold=0.05, probability=0.9, temperature=0.5, temperature_order="after"),
]  # fmt: skip


def chunk(*, ties: bool = False, banned: bool = False, rows: int = ROWS, first_step: int = 0) -> LogitChunk:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(rows, SIZE, generator=generator) * 2
    logits = logits.mul(2).round().div(2) if ties else logits
    if banned:
        logits[:, 7] = float("-inf")
    gold = torch.randint(8, SIZE, (rows,), generator=generator)
    return LogitChunk(logits, gold, [TextPosition(0, first_step + i) for i in range(rows)], banned)


def read(decoder: QDecoder, logits: LogitChunk, head: int = SIZE) -> list[torch.Tensor]:
    return list(read_q(decoder, QTable.empty(len(logits.gold)), logits, head))


@pytest.mark.parametrize("head", [SIZE, 4])
@pytest.mark.parametrize("kind", [{}, {"ties": True}, {"banned": True}], ids=str)
@pytest.mark.parametrize("decoder", DECODERS, ids=lambda d: d.title)
def test_equals_the_whole_distribution(decoder, kind, head):
    logits = chunk(**kind)
    q = compute_dense_q(decoder, logits.logits)
    gold_prob, sum_sq, support, argmax = read(decoder, logits, head)
    # Q of the untruncated decoders is a float32 softmax: 1e-5 relative
    torch.testing.assert_close(gold_prob, q.gather(1, logits.gold[:, None]).squeeze(1), rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(sum_sq, (q * q).sum(-1), rtol=1e-5, atol=0)
    assert torch.equal(support, (q > 0).sum(-1))
    assert torch.equal(argmax, q.argmax(-1))


def test_the_typical_set_may_leave_the_best_token_out():
    logits = chunk()
    argmax = read(Typical(mass=0.3), logits)[3]
    assert not torch.equal(argmax, logits.logits.argmax(-1)), "such rows are what the arg max of Q is for"


def test_decoders_of_one_temperature_share_a_view_and_each_gets_its_own_numbers():
    shared = chunk()
    together = [read(decoder, shared) for decoder in DECODERS]
    assert set(shared.sorted_at) == {(1.0, SIZE), (0.5, SIZE)}
    for decoder, found in zip(DECODERS, together, strict=True):
        for one, other in zip(found, read(decoder, chunk()), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=0)


def test_a_longer_head_after_a_shorter_one_is_ordered_anew():
    logits = chunk()
    read(TopK(k=3), logits, head=4)
    for one, other in zip(read(TopK(k=9), logits, head=16), read(TopK(k=9), chunk(), head=16), strict=True):
        assert torch.equal(one, other)
    assert logits.sorted_at[1.0, 16].z.shape == (ROWS, 16)


@pytest.mark.parametrize("decoder", [Mirostat(), Mirostat(algorithm="threshold", tau=1.0)], ids=lambda d: d.title)
def test_the_state_follows_the_text_over_chunks_and_starts_anew_with_the_next(decoder):
    whole = chunk(rows=9)
    whole.positions = [TextPosition(i // 5, i % 5) for i in range(9)]  # two texts, of five tokens and of four
    expected, state = [], None
    for i, position in enumerate(whole.positions):
        if position.step == 0:
            state = torch.tensor([decoder.first_state()], dtype=torch.float64)
        row = whole.logits[i : i + 1]
        expected.append(compute_dense_q(decoder, row, state)[0, whole.gold[i]])
        state = decoder.next_state(state, -torch.log_softmax(row.double(), -1)[:, whole.gold[i]])
    table, found = QTable.empty(9), []
    for a, b in ((0, 3), (3, 7), (7, 9)):
        piece = LogitChunk(whole.logits[a:b], whole.gold[a:b], whole.positions[a:b])
        found.append(read_q(decoder, table, piece, SIZE)[0])
    torch.testing.assert_close(torch.cat(found), torch.stack(expected), rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(table.states[1, 4], state, rtol=1e-5, atol=0)
