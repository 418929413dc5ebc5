"""The adapters to vLLM's two interfaces, and what its workers get."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from openended.harness.backends.vllm.processor.batch import BatchRows
from openended.harness.backends.vllm.processor.orders import KEY, make_forcing_group, make_order, make_sampling_group
from openended.harness.backends.vllm.processor.teacher_forcer import TeacherForcer
from openended.harness.backends.vllm.processor.text_sampler import FIRST_SLOTS, TextSampler
from openended.harness.backends.vllm.processor.worker_extension import WorkerExtension
from openended.harness.core.types import Ragged
from openended.harness.decoders.base import Prompt
from openended.harness.decoders.sampling import Ancestral, Greedy
from tests.harness.backends.vllm.fake import BatchUpdate, MoveDirectionality, SamplingParams, fake_vllm
from tests.harness.generation.models import gpt2
from tests.helpers import generation, q_request

PROMPT = Prompt("t/0", 0, (1, 2, 3))


def order(decoder=None):
    request = generation([PROMPT], decoder or Greedy(), seed=0, max_new_tokens=4, batch_size=1)
    return make_order(make_sampling_group(request, (0,)), PROMPT)


def load(adapter: str):
    with fake_vllm(gpt2()):
        from openended.harness.backends.vllm.processor.v1 import V1Processor
        from openended.harness.backends.vllm.processor.v2 import V2Processor

        return {"v1": V1Processor, "v2": V2Processor}[adapter]


def test_v1_follows_removed_then_added_then_moved():
    processor = load("v1")(None, torch.device("cpu"), False)
    assert not processor.is_argmax_invariant()
    mine, others = SamplingParams(extra_args={KEY: order()}), SamplingParams()
    processor.update_state(BatchUpdate(2, [], [(0, mine, [1, 2, 3], []), (1, others, [4], [])], []))
    processor.update_state(None)
    logits = torch.tensor([[1.0, 3.0, 2.0], [3.0, 2.0, 1.0]])
    assert processor.apply(logits.clone())[0].tolist() == [float("-inf"), 0.0, float("-inf")]
    processor.update_state(BatchUpdate(2, [], [], [(0, 1, MoveDirectionality.SWAP)]))
    assert torch.equal(processor.apply(logits.clone())[0], logits[0])
    processor.update_state(BatchUpdate(1, [0], [], [(1, 0, MoveDirectionality.UNIDIRECTIONAL)]))
    assert processor.apply(logits[:1].clone())[0].tolist() == [float("-inf"), 0.0, float("-inf")]


def test_v2_takes_each_row_by_its_slot_and_counts_steps_from_the_prompt():
    processor = load("v2")(None, SimpleNamespace(device=torch.device("cpu")))
    decoder = Ancestral()
    assert processor.add_request(3, SamplingParams(extra_args={KEY: order(decoder)}))
    assert not processor.add_request(1, SamplingParams())
    logits = torch.zeros(2, 50)
    context = SimpleNamespace(idx_mapping_np=np.array([1, 3]), seq_lens_upper_bound_np=np.array([9, 3 + 2]))
    chosen = processor.apply(logits.clone(), context)
    assert torch.equal(chosen[0], logits[0])
    rows = BatchRows("cpu")
    rows.add(0, order(decoder), [7, 7])  # two tokens after the prompt, by the other way of counting
    assert torch.equal(chosen[1:], rows.choose_tokens(logits[1:].clone()))
    assert not processor.add_request(3, SamplingParams())  # the slot's next user is not ours
    assert torch.equal(processor.apply(logits.clone(), context), logits)


@pytest.mark.parametrize("adapter", ["v1", "v2"])
def test_workers_hand_over_results_of_either_runner(adapter):
    rows = BatchRows("cpu")
    rows.add(0, order(), [])
    rows.choose_tokens(torch.tensor([[1.0, 3.0, 2.0]]))
    processors = [SimpleNamespace(), SimpleNamespace(rows=rows)]
    worker = WorkerExtension()
    worker.model_runner = (
        SimpleNamespace(input_batch=SimpleNamespace(logitsprocs=SimpleNamespace(all=processors)))
        if adapter == "v1"
        else SimpleNamespace(sampler=SimpleNamespace(logits_processors=processors))
    )
    assert worker.take_openended_results(order()["group"]["id"], [("t/0", 0, 1)]) == [[0.0]]
    assert worker.describe_openended_worker() == {"attention": "", "runner": "SimpleNamespace"}
    worker.forget_openended_texts()
    assert len(rows) == 0


def test_slots_of_forced_texts_are_used_again():
    one = Ragged.from_rows([(4, 5)], int)
    group = make_forcing_group(q_request(one, one, [Greedy()], batch_size=1), (0,))
    forced = TeacherForcer(group, "cpu")
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
    sampler = TextSampler(group, "cpu")
    texts = [make_order(group, Prompt(f"t/{i}", 0, (1,) * (1 + i % 7))) for i in range(3 * FIRST_SLOTS)]
    slots = [sampler.add(text) for text in texts]
    assert slots == [sampler.add(text) for text in texts] == list(range(len(texts)))
    logits = torch.randn(1, 50, generator=torch.Generator().manual_seed(0))
    alone = TextSampler(group, "cpu")
    for slot, text in zip(slots, texts, strict=True):
        mine = sampler.choose(logits.clone(), [slot], [0])
        assert torch.equal(mine, alone.choose(logits.clone(), [alone.add(text)], [0]))
    assert sampler.take_result("t/5", 0, 0) == [0.0]
    assert sampler.add(make_order(group, Prompt("new", 0, (1,)))) == 5
