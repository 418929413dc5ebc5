"""What vLLM loads from the harness: rows without texts of ours, failed calls, decoders that cross to workers, slots."""

from __future__ import annotations

from openended.harness.backends.vllm import rows as vllm_rows
from openended.harness.backends.vllm.rows import make_group, make_order
from openended.harness.core import build, load_members
from openended.harness.decoders.base import Prompt, QDecoder
from openended.harness.decoders.sampling import Greedy
from tests.helpers import cases, generation
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


@cases("cls", *(c for c in load_members("decoder").values() if issubclass(c, QDecoder)), ids=lambda c: c.name)
def test_every_decoder_with_a_q_crosses_to_the_worker(cls):
    decoder = cls()
    assert build("decoder", vllm_rows.describe_decoder(decoder)) == decoder
