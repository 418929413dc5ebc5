"""What vLLM loads from the harness: rows without texts of ours, failed calls, decoders that cross to workers, slots."""

from __future__ import annotations

import pytest

from openended.harness.backends.vllm import rows as vllm_rows
from openended.harness.backends.vllm.rows import make_group, make_order
from openended.harness.core import Ragged, build, load_members
from openended.harness.decoders.base import Prompt, QDecoder
from openended.harness.decoders.sampling import Ancestral, Greedy
from tests.helpers import generation, q_request
from tests.lazy import torch

EOS = (0, 5)
PROMPT = Prompt("t/0", 0, (1, 2, 3))


def test_rows_without_an_order_keep_their_logits():
    rows = vllm_rows.BatchRows("cpu")
    request = generation([PROMPT], Greedy(), seed=0, max_new_tokens=2, batch_size=1)
    assert rows.begin(None) is None
    rows.rows[1] = rows.begin(make_order(make_group(request, EOS), PROMPT), [])
    logits = torch.arange(12.0).reshape(2, 6)
    before = logits.clone()
    masked = rows.choose_tokens(logits)
    assert torch.equal(masked[0], before[0])
    assert masked[1].tolist() == [float("-inf")] * 5 + [0.0]


@pytest.mark.parametrize(
    "cls", [c for c in load_members("decoder").values() if issubclass(c, QDecoder)], ids=lambda c: c.name
)
def test_every_decoder_with_a_q_crosses_to_the_worker(cls):
    decoder = cls()
    assert build("decoder", vllm_rows.describe_decoder(decoder)) == decoder


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
    group = make_group(generation([PROMPT], Ancestral(), seed=0, max_new_tokens=4, batch_size=1), EOS)
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
