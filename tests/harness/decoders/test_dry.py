"""DRY: worked by hand, against a loop over the text, and in texts: it breaks a loop and leaves the rest alone."""

from __future__ import annotations

import numpy as np
import pytest

from openended.harness.decoders.penalties import apply_penalties, apply_repetition_penalty
from openended.harness.decoders.sampling import LARGEST, Dry, count_repeats
from tests.lazy import torch
from tests.oracles import decoders as oracle

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


@pytest.mark.parametrize(
    "options", [{}, {"base": 1.0}, {"window": 9}, {"breakers": (0, 3)}, {"allowed_length": 1}], ids=str
)
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
    assert off[1] == pytest.approx(LARGEST)
    assert int(count_repeats(torch.tensor([text]), None, longest=10**6).max()) == 598
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
