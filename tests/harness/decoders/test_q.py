"""Q against transformers' own warpers, the laws it must keep, its boundary cases, its statistics on chunks; DRY."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core import load_members
from openended.harness.decoders import LogitChunk, QDecoder, QTable, TextPosition, q as q_module, read_q, sampling
from openended.harness.decoders.descending_logits import sort_logits, take_largest
from openended.harness.decoders.q import (
    apply_penalties,
    apply_repetition_penalty,
    ban_ngrams,
    compute_dense_q,
    draw_tokens,
)
from openended.harness.decoders.sampling import Dry, Nucleus, TopK
from tests.helpers import cases
from tests.lazy import torch
from tests.oracles import decoders as oracle


def warper(name: str, *args: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    import transformers.generation.logits_process as theirs

    made = getattr(theirs, name)(*args)
    return lambda scores: made(None, scores)


def softmax(scores: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scores.double(), -1)


@st.composite
def logits(draw_: Any, vocab_size: int = 40, rows: int = 3) -> torch.Tensor:
    """Random rows; about half have ties, because values come from a coarse grid."""
    generator = torch.Generator().manual_seed(draw_(st.integers(0, 2**31)))
    made = torch.randn(rows, vocab_size, generator=generator) * draw_(st.sampled_from([0.1, 1.0, 3.0, 8.0]))
    return made.mul(2).round().div(2) if draw_(st.booleans()) else made


def near_boundary(q: torch.Tensor, edge: torch.Tensor | float, margin: float = 1e-5) -> torch.Tensor:
    """Rows in which a quantity that is compared with an edge comes within rounding of it."""
    return ((q - edge).abs() < margin).any(-1)


PARITY = [
    (sampling.Temperature(temperature=0.7), [("TemperatureLogitsWarper", 0.7)]),
    (TopK(k=5), [("TopKLogitsWarper", 5)]),
    (TopK(k=100), [("TopKLogitsWarper", 100)]),
    (sampling.MinP(p=0.2), [("MinPLogitsWarper", 0.2)]),
    (sampling.Epsilon(eps=0.02), [("EpsilonLogitsWarper", 0.02)]),
    (sampling.Eta(eps=0.03), [("EtaLogitsWarper", 0.03)]),
    (sampling.TopH(h=0.4, candidates=40), [("TopHLogitsWarper", 0.4)]),
    (TopK(k=5, temperature=2.0), [("TemperatureLogitsWarper", 2.0), ("TopKLogitsWarper", 5)]),
    (sampling.Epsilon(eps=0.02, temperature=0.5), [("TemperatureLogitsWarper", 0.5), ("EpsilonLogitsWarper", 0.02)]),
    *((Nucleus(p=p), [("TopPLogitsWarper", p)]) for p in (0.1, 0.5, 0.9, 0.95)),
    *(
        (Nucleus(p=p, temperature=0.7), [("TemperatureLogitsWarper", 0.7), ("TopPLogitsWarper", p)])
        for p in (0.5, 0.95)
    ),
    *((sampling.Typical(mass=mass), [("TypicalLogitsWarper", mass)]) for mass in (0.2, 0.9)),
]


def edge_rows(decoder: Any, rows: torch.Tensor) -> torch.Tensor:
    """Rows that float32 may decide either way: left out of the comparison with float32 warpers."""
    hot = rows / decoder.temperature_and_order()[0] if decoder.temperature_and_order()[1] else rows
    p = softmax(hot)
    ranked = sort_logits(hot, None)
    if isinstance(decoder, Nucleus):
        return near_boundary(ranked.mass_before, decoder.p)
    if isinstance(decoder, sampling.Typical):
        deviation = (ranked.surprisal - ranked.entropy).abs().sort(-1)
        cumulative = ranked.p.gather(1, deviation.indices).cumsum(-1)
        ties = (deviation.values.diff(dim=-1) < 1e-5).any(-1)
        return near_boundary(cumulative, decoder.mass) | ties
    if isinstance(decoder, sampling.Epsilon):
        return near_boundary(p, decoder.eps, 1e-7)
    if isinstance(decoder, sampling.Eta):
        edge = torch.minimum(torch.tensor(decoder.eps), math.sqrt(decoder.eps) * (-ranked.entropy).exp())
        return near_boundary(p / edge, 1.0)
    if isinstance(decoder, sampling.MinP):
        return near_boundary(p / p.amax(-1, keepdim=True), decoder.p)
    if isinstance(decoder, sampling.TopH):
        log_p = torch.log_softmax(ranked.z, -1)
        terms = -log_p.exp() * log_p
        return near_boundary(terms.cumsum(-1), terms.sum(-1, keepdim=True) * decoder.h)
    return torch.zeros(len(rows), dtype=torch.bool)


def compare(decoder: Any, theirs: Any, rows: torch.Tensor, *, by_position: bool = False) -> None:
    kept = ~edge_rows(decoder, rows)
    scores = rows
    for name, *args in theirs:
        scores = warper(name, *args)(scores)
    ours, want = compute_dense_q(decoder, rows)[kept], softmax(scores)[kept]
    if by_position:  # of equal logits transformers keeps whichever its unstable sort brings; the values are the same
        ours, want = ours.sort(-1).values, want.sort(-1).values
    np.testing.assert_allclose(ours, want, atol=2e-6)  # float32 softmax of the warpers' scores
    assert ((ours > 0) == (want > 0)).all()


@pytest.mark.parametrize(("decoder", "theirs"), PARITY, ids=lambda v: getattr(v, "title", ""))
@settings(max_examples=20, deadline=None)
@given(rows=logits())
def test_equals_transformers(decoder, theirs, rows):
    compare(decoder, theirs, rows, by_position=isinstance(decoder, (sampling.TopH, Nucleus)))


@settings(max_examples=20, deadline=None)
@given(rows=logits(), seed=st.integers(0, 1000))
def test_penalties_equal_transformers(rows, seed):
    import transformers.generation.logits_process as theirs

    history = torch.randint(0, 6, (3, 12), generator=torch.Generator().manual_seed(seed))
    want = theirs.RepetitionPenaltyLogitsProcessor(1.3)(history, rows)
    assert torch.equal(apply_repetition_penalty(rows, history, 1.3), want)
    for order in (1, 2, 3, 13):
        want = theirs.NoRepeatNGramLogitsProcessor(order)(history, rows)
        assert torch.equal(ban_ngrams(rows, history, order), want), order
    both = theirs.NoRepeatNGramLogitsProcessor(2)(history, theirs.RepetitionPenaltyLogitsProcessor(1.3)(history, rows))
    decoder = sampling.Greedy(repetition_penalty=1.3, no_repeat_ngram_size=2)
    assert torch.equal(apply_penalties(decoder, rows, history), both)


REGISTERED = [cls() for cls in load_members("decoder").values() if issubclass(cls, QDecoder)]
EVERY = [
    *(d for d in REGISTERED if not d.first_state()),
    TopK(k=3), Nucleus(p=0.8), sampling.Typical(mass=0.2), sampling.Typical(mass=0.7), sampling.Epsilon(eps=0.05), sampling.Eta(eps=0.1), sampling.TopH(candidates=20),
    sampling.Entmax(alpha=1.5), sampling.Entmax(alpha=2.0), Nucleus(p=0.8, temperature=0.5, temperature_order="after"), sampling.PLess(norm=True),
    sampling.MinK(tau=20.0), sampling.Xtc(threshold=0.05), sampling.Xtc(threshold=0.02, probability=1.0), Dry(p=0.9),
    sampling.Xtc(threshold=0.05, temperature=0.5, temperature_order="after"),
]  # fmt: skip


def log(*p: float) -> torch.Tensor:
    return torch.tensor([p], dtype=torch.float64).log().float()


def support(decoder: Any, rows: torch.Tensor) -> list[int]:
    return (compute_dense_q(decoder, rows)[0] > 0).nonzero().squeeze(1).tolist()


def test_ties():
    row = log(0.25, 0.25, 0.25, 0.25)
    assert support(Nucleus(p=0.4), row) == [0, 1]  # by position: the lower ids stay
    assert support(TopK(k=1), row) == [0, 1, 2, 3]  # tokens equal to the k-th stay
    assert support(sampling.MinP(p=1.0), row) == [0, 1, 2, 3]
    assert support(sampling.Epsilon(eps=0.9), row) == [0, 1, 2, 3]  # nobody reaches eps: the best, with its ties
    assert support(sampling.Greedy(), row) == [0]


def test_at_least_one_token_and_extremes():
    for gap in (1e3, 1e30):
        row = torch.tensor([[0.0, gap, -gap]])
        for decoder in EVERY:
            q = compute_dense_q(decoder, row)
            assert q[0, 1] == 1, decoder.title
            assert torch.isfinite(q).all()
    banned = torch.tensor([[1.0, float("-inf"), 0.5, 0.2]])
    wide = [Nucleus(p=0.99), sampling.TopNSigma(n=9.0), sampling.TopH(h=1.0, candidates=4), sampling.MinK(tau=99.0)]
    for decoder in (*EVERY, *wide):
        assert compute_dense_q(decoder, banned)[0, 1] == 0, decoder.title
        assert torch.isfinite(compute_dense_q(decoder, banned)).all(), decoder.title


@pytest.mark.parametrize("decoder", EVERY, ids=lambda d: d.title)
@settings(max_examples=20, deadline=None)
@given(rows=logits())
def test_q_is_a_distribution(decoder, rows):
    before = rows.clone()
    q = compute_dense_q(decoder, rows)
    assert torch.equal(rows, before)
    assert (q >= 0).all()
    np.testing.assert_allclose(q.sum(-1), 1, atol=2e-7)  # the log-sum-exp of an untruncated row is float32
    alone = compute_dense_q(decoder, rows[1:2])[0]
    assert torch.equal(alone, q[1])


@settings(max_examples=20, deadline=None)
@given(rows=logits())
def test_entmax_keeps_its_definition(rows):
    # sparsemax: the Euclidean projection on the simplex; tau from the sorted logits (Martins and Astudillo 2016)
    z = rows.double()
    ordered = z.sort(-1, descending=True).values
    k = torch.arange(1, z.shape[1] + 1)
    size = ((1 + k * ordered) > ordered.cumsum(-1)).sum(-1, keepdim=True)
    tau = (ordered.cumsum(-1).gather(1, size - 1) - 1) / size
    np.testing.assert_allclose(compute_dense_q(sampling.Entmax(alpha=2.0), rows), (z - tau).clamp_min(0), atol=1e-9)
    # alpha → 1 is softmax
    near = rows.clamp(-2, 2)
    np.testing.assert_allclose(compute_dense_q(sampling.Entmax(alpha=1.01), near), softmax(near), atol=0.02)


def test_temperature_after_truncation_keeps_the_set():
    rows = torch.randn(4, 30, generator=torch.Generator().manual_seed(0)) * 3
    plain = compute_dense_q(Nucleus(p=0.7), rows)
    after = compute_dense_q(Nucleus(p=0.7, temperature=0.5, temperature_order="after"), rows)
    assert ((plain > 0) == (after > 0)).all()
    want = torch.where(plain > 0, plain**2, 0.0)
    np.testing.assert_allclose(after, want / want.sum(-1, keepdim=True), atol=1e-12)


def test_the_limit_of_mirostat_moves_against_the_error():
    decoder = sampling.Mirostat(tau=3.0, learning_rate=0.5)
    moved = decoder.next_state(torch.tensor([[6.0]]), torch.tensor([5 * math.log(2)]))
    assert moved.item() == pytest.approx(6 - 0.5 * (5 - 3), abs=1e-6)
    rows, state = log(0.4, 0.3, 0.2, 0.1), torch.tensor([[2.0]], dtype=torch.float64)  # bits: p >= 1/4
    q = compute_dense_q(sampling.Mirostat(algorithm="threshold"), rows, state)
    np.testing.assert_allclose(q[0], [4 / 7, 3 / 7, 0, 0], atol=1e-6)


SAMPLED = [
    *(d for d in EVERY if d.stochastic),
    sampling.Mirostat(tau=2.0, candidates=12),
    sampling.Mirostat(tau=2.0, algorithm="threshold"),
]
# chi-square, 99.9 % point by degrees of freedom 1…12
CRITICAL = [0, 10.83, 13.82, 16.27, 18.47, 20.52, 22.46, 24.32, 26.12, 27.88, 29.59, 31.26, 32.91]


@pytest.mark.parametrize("decoder", SAMPLED, ids=lambda d: d.title)
def test_draws_follow_q_and_do_not_depend_on_the_batch(decoder):
    row = torch.tensor([[1.2, -0.5, 0.9, 0.1, 0.9, -2.0, 1.1, 0.0, 0.3, -1.0, 0.8, 0.5]])
    first = decoder.first_state()
    state = torch.tensor([first], dtype=torch.float64) if first else None
    q = compute_dense_q(decoder, row, state)[0]
    n = 64 * 40
    u = torch.from_numpy(np.random.default_rng(7).random(n))

    def draw(uniforms):
        rows = row.expand(len(uniforms), -1).contiguous()
        states = None if state is None else state.expand(len(uniforms), -1)
        token, log_q, _ = draw_tokens(decoder, rows, uniforms, states)
        np.testing.assert_allclose(log_q.exp(), q[token], rtol=1e-9)
        return token

    tokens = torch.cat([draw(part) for part in u.split(64)])
    assert torch.equal(torch.cat([draw(one) for one in u[:64].split(1)]), tokens[:64])
    counts = torch.bincount(tokens, minlength=12)
    kept = q > 0
    assert counts[~kept].sum() == 0
    statistic = float(((counts[kept] - n * q[kept]) ** 2 / (n * q[kept])).sum())
    assert statistic <= CRITICAL[int(kept.sum()) - 1]  # both are 0 where one token is kept


WIDE = [
    sampling.PLess(temperature=4.0), sampling.PLess(norm=True, temperature=2.0), sampling.MinK(tau=9000.0), sampling.MinK(tau=3.0, temperature=3.0),
    sampling.Xtc(threshold=0.01), sampling.Xtc(threshold=0.002, probability=1.0, temperature=2.0),
    sampling.Xtc(threshold=0.01, temperature=3.0, temperature_order="after"),
]  # fmt: skip


def test_the_head_draws_what_whole_rows_draw(monkeypatch):
    rows = torch.randn(16, 3000, generator=torch.Generator().manual_seed(3)) * 2
    u = torch.from_numpy(np.random.default_rng(1).random(16))
    longer = [TopK(k=700), Nucleus(p=0.999), sampling.Mirostat(tau=9.0), sampling.Entmax(alpha=1.05)]
    for decoder in (*SAMPLED, *longer, *WIDE):
        first = decoder.first_state()
        state = torch.tensor([first] * 16, dtype=torch.float64) if first else None
        monkeypatch.setattr(q_module, "LONG_HEAD", 1500)
        token, log_q, _ = draw_tokens(decoder, rows, u, state)
        monkeypatch.setattr(type(decoder), "head", property(lambda _: 3000))
        again, log_again, _ = draw_tokens(decoder, rows, u, state)
        monkeypatch.undo()
        assert torch.equal(token, again), decoder.title
        np.testing.assert_allclose(log_q, log_again, atol=1e-5)


def test_common_random_numbers():
    """Nucleus 0.9 and 0.95 agree on a draw wherever their supports are the same."""
    rows = torch.randn(200, 50, generator=torch.Generator().manual_seed(0)) * 4
    u = torch.from_numpy(np.random.default_rng(0).random(200))
    narrow, wide = Nucleus(p=0.9), Nucleus(p=0.95)
    a, b = draw_tokens(narrow, rows, u)[0], draw_tokens(wide, rows, u)[0]
    same = ((compute_dense_q(narrow, rows) > 0) == (compute_dense_q(wide, rows) > 0)).all(-1)
    assert 20 < int(same.sum()) < 180
    assert torch.equal(a[same], b[same])
    assert (a == b).double().mean() > 0.75  # and mostly elsewhere


def test_equal_logits_are_drawn_by_rank_and_large_rows_ordered_by_head():
    row = torch.zeros(1, 8).index_fill(1, torch.tensor([2]), -1.0)
    rolls = (torch.tensor([u], dtype=torch.float64) for u in np.linspace(0, 0.999, 200))
    found = {int(draw_tokens(sampling.Ancestral(), row, roll)[0]) for roll in rolls}
    assert found == set(range(8))

    rows = torch.randn(3, 9000, generator=torch.Generator().manual_seed(0))
    for count in (50, 4096, 9000):
        assert torch.equal(take_largest(rows, count), rows.sort(-1, descending=True).values[:, :count])


@pytest.mark.parametrize("decoder", [Nucleus, sampling.MinP, sampling.Typical], ids=lambda d: d.name)
def test_a_temperature_after_a_cut_that_cuts_nothing_counts(decoder):
    nothing = {"nucleus": {"p": 1.0}, "min_p": {"p": 0.0}, "typical": {"mass": 1.0}}[decoder.name]
    scores = torch.randn(4, 50, generator=torch.Generator().manual_seed(0)) * 3
    for order in ("before", "after"):
        q = compute_dense_q(decoder(temperature=0.5, temperature_order=order, **nothing), scores)
        torch.testing.assert_close(q, softmax(scores / 0.5), rtol=1e-5, atol=1e-9)


def test_the_hottest_temperature_is_uniform_and_top_h_of_one_keeps_every_candidate():
    scores = torch.randn(1, 1000, generator=torch.Generator().manual_seed(0)) * 3
    u = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000
    token, log_q, _ = draw_tokens(sampling.Temperature(temperature=1e6), scores.expand(1000, -1).contiguous(), u)
    assert token.unique().numel() == 1000
    assert (log_q + math.log(1000)).abs().max() < 1e-4

    scores = torch.randn(500, 300, generator=torch.Generator().manual_seed(0)) * 3
    assert ((compute_dense_q(sampling.TopH(h=1.0, candidates=100), scores) > 0).sum(-1) == 100).all()


@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0, 6.0])
def test_the_log_normalizer_of_a_wide_row_is_exact(spread):
    scores = torch.randn(8, 50257, generator=torch.Generator().manual_seed(1)) * spread
    want = scores.double().logsumexp(-1, keepdim=True)
    assert (sort_logits(scores, 512).log_z - want).abs().max() < 3e-7


# Statistics of Q on chunks of logits: against the whole distribution, however long the head.

ROWS, WIDTH = 40, 30
READ = [
    *(d for d in REGISTERED if not hasattr(d, "candidates")), sampling.TopH(candidates=4),  # no head is shorter than these
    sampling.Temperature(temperature=0.5), TopK(k=5), Nucleus(p=0.6, temperature=0.5), sampling.Typical(mass=0.3), sampling.Epsilon(eps=0.02),
    Nucleus(p=0.8, temperature=0.7, temperature_order="after"), sampling.Eta(eps=0.05), sampling.Entmax(alpha=1.5), sampling.Entmax(alpha=2.0),
    sampling.PLess(norm=True), sampling.MinK(tau=40.0), sampling.MinK(tau=70.0), sampling.Xtc(threshold=0.05, probability=1.0),
    sampling.Xtc(threshold=0.05, probability=0.9, temperature=0.5, temperature_order="after"),
]  # fmt: skip


def chunk(*, ties: bool = False, banned: bool = False, rows: int = ROWS, first_step: int = 0) -> LogitChunk:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(rows, WIDTH, generator=generator) * 2
    logits = logits.mul(2).round().div(2) if ties else logits
    if banned:
        logits[:, 7] = float("-inf")
    gold = torch.randint(8, WIDTH, (rows,), generator=generator)
    return LogitChunk(logits, gold, [TextPosition(0, first_step + i) for i in range(rows)], banned)


def read(decoder: QDecoder, logits: LogitChunk, head: int = WIDTH) -> list[torch.Tensor]:
    return list(read_q(decoder, QTable.empty(len(logits.gold)), logits, head))


@pytest.mark.parametrize("head", [WIDTH, 4])
@pytest.mark.parametrize("kind", [{}, {"ties": True}, {"banned": True}], ids=str)
@pytest.mark.parametrize("decoder", READ, ids=lambda d: d.title)
def test_equals_the_whole_distribution(decoder, kind, head):
    logits = chunk(**kind)
    q = compute_dense_q(decoder, logits.logits)
    gold_prob, sum_sq, support, argmax = read(decoder, logits, head)
    # Q of the untruncated decoders is a float32 softmax: 1e-5 relative
    torch.testing.assert_close(gold_prob, q.gather(1, logits.gold[:, None]).squeeze(1), rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(sum_sq, (q * q).sum(-1), rtol=1e-5, atol=0)
    assert torch.equal(support, (q > 0).sum(-1))
    assert torch.equal(argmax, q.argmax(-1))


def test_decoders_of_one_temperature_share_a_view_and_each_gets_its_own_numbers():
    shared = chunk()
    together = [read(decoder, shared) for decoder in READ]
    assert set(shared.sorted_at) == {(1.0, WIDTH), (0.5, WIDTH)}
    for decoder, found in zip(READ, together, strict=True):
        for one, other in zip(found, read(decoder, chunk()), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=0)


@cases("decoder", sampling.Mirostat(), sampling.Mirostat(algorithm="threshold", tau=1.0), ids=lambda d: d.title)
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
        found.append(read_q(decoder, table, piece, WIDTH)[0])
    torch.testing.assert_close(torch.cat(found), torch.stack(expected), rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(table.states[1, 4], state, rtol=1e-5, atol=0)


# DRY: worked by hand, and against a loop over the text.

SIZE = 7


def taken(decoder: Dry, rows: list[list[int]]) -> torch.Tensor:
    """What is taken off each token, shape (n, V); rows of different lengths share a batch."""
    longest = max(map(len, rows))
    history = torch.tensor([row + [row[0]] * (longest - len(row)) for row in rows])
    logits = torch.zeros(len(rows), SIZE)
    return -apply_penalties(decoder, logits, history, torch.tensor([len(row) for row in rows]))


def test_by_hand_with_breakers_and_a_window():
    # ... 1 2 3 | 1 2: 3 would go on with a repeat of two tokens, which costs 0.8; of three, 0.8 · 1.75.
    assert taken(Dry(), [[1, 2, 3, 1, 2]]).tolist()[0] == pytest.approx([0, 0, 0, 0.8, 0, 0, 0])
    assert taken(Dry(), [[5, 1, 2, 3, 5, 1, 2]]).tolist()[0] == pytest.approx([0, 0, 0, 1.4, 0, 0, 0])
    assert not taken(Dry(), [[2, 3, 1, 2]]).any()  # one token alone is allowed
    assert taken(Dry(allowed_length=1), [[2, 3, 2, 4, 2]]).tolist()[0] == pytest.approx([0, 0, 0, 0.8, 0.8, 0, 0])
    assert not taken(Dry(), [[1]]).any()
    assert not taken(Dry(multiplier=0.0), [[1, 2, 3, 1, 2]]).any()

    text = [5, 1, 2, 3, 5, 1, 2]
    assert taken(Dry(breakers=(5,)), [text])[0, 3] == pytest.approx(0.8)  # the stretch ends before 5
    assert not taken(Dry(breakers=(2,)), [text]).any()  # the text ends with a breaker
    assert not taken(Dry(breakers=(3,)), [text]).any()  # the token that goes on is one
    assert taken(Dry(window=6), [text])[0, 3] == pytest.approx(0.8)
    assert not taken(Dry(window=5), [text]).any()


@cases("options", {}, {"base": 1.0}, {"window": 9}, {"breakers": (0, 3)}, {"allowed_length": 1}, ids=str)
def test_equals_a_loop_over_the_text(options):
    g = np.random.default_rng(0)
    rows = [g.integers(0, int(g.integers(2, SIZE + 1)), int(g.integers(1, 30))).tolist() for _ in range(200)]
    decoder = Dry(**options)
    found = taken(decoder, rows)
    for row, one in zip(rows, found, strict=True):
        want = oracle.dry(
            row, SIZE, multiplier=decoder.multiplier, base=decoder.base, allowed=decoder.allowed_length,
            window=decoder.window, breakers=decoder.breakers,
        )  # fmt: skip
        np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-7)
        alone = -apply_penalties(decoder, torch.zeros(1, SIZE), torch.tensor([row]))[0]
        assert torch.equal(alone, one), "a row depends on its batch"
    assert (found > 0.5).any()


def test_a_long_loop_costs_a_finite_number():
    text = [1, 2] * 300
    decoder = Dry()
    off = taken(decoder, [text])[0]
    assert off[1] == pytest.approx(sampling.LARGEST)
    assert int(sampling.count_repeats(torch.tensor([text]), None, longest=10**6).max()) == 598
    row = apply_penalties(decoder, torch.tensor([[0.0, 9.0, 8.0, 1.0, 0.0, 0.0, float("-inf")]]), torch.tensor([text]))
    q = torch.softmax(row.double(), -1)[0]
    assert q[1] == 0
    assert torch.isfinite(q).all()


def test_it_stands_between_the_other_penalties():
    history = torch.tensor([[1, 2, 3, 1, 2]])
    logits = torch.tensor([[1.0, -1.0, 2.0, 3.0, 0.5, 0.0, 0.1]])
    both = apply_penalties(Dry(repetition_penalty=1.5), logits, history)
    want = apply_repetition_penalty(logits, history, 1.5)
    want[0, 3] -= 0.8
    torch.testing.assert_close(both, want)
    assert apply_penalties(Dry(no_repeat_ngram_size=3), logits, history)[0, 3] == float("-inf")
