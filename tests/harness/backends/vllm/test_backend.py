"""The backend on a stand-in for vLLM that preempts, moves and swaps at random: everything equals the reference."""

import importlib.util
import sys

import numpy as np
import pytest

from openended.harness.backends.transformers import load_backend
from openended.harness.backends.vllm import backend as backend_module, rows as vllm_rows, spec as spec_module
from openended.harness.backends.vllm.backend import VllmBackend, build_engine_options, load_vllm
from openended.harness.backends.vllm.spec import VllmSpec
from openended.harness.core import DataError, ExtraNotInstalled, Generation, Ragged, SpecError, load_members
from openended.harness.decoders.base import Prompt, QDecoder
from openended.harness.decoders.sampling import Ancestral, Dry, Greedy, Mirostat, Nucleus, TopK, Typical, Xtc
from openended.harness.models import ModelSpec, compute_token_nll, load_model
from tests.harness.backends.vllm.fake import fake_vllm
from tests.helpers import check_error, generate, generation, q_request, scoring

PATH = "bundled:docs-s"
ROWS = ((314, 159, 265, 358, 97), (271, 82, 81, 8, 284), (161, 80, 339, 88, 74), ())
PROMPTS = [Prompt(f"t/{i}", sample, row) for i, row in enumerate(ROWS) for sample in range(2)]
DECODERS = [
    Greedy(), Ancestral(), Nucleus(p=0.8), TopK(), Typical(), Xtc(), Mirostat(), Dry(allowed_length=1),
    Nucleus(repetition_penalty=1.4, no_repeat_ngram_size=3), Mirostat(algorithm="threshold", repetition_penalty=1.2),
]  # fmt: skip


@pytest.fixture(scope="module")
def reference():
    return load_backend(ModelSpec(path="bundled:docs-s"))


@pytest.fixture
def engine(reference, monkeypatch):
    monkeypatch.setattr(vllm_rows, "FIRST_SLOTS", 2)  # so that the slots grow, and are used again
    with fake_vllm(reference) as fake:
        yield fake


def make(**options):
    return VllmBackend(VllmSpec(path=PATH, **options), "cpu")


def texts(backend, decoder: QDecoder) -> dict[tuple[str, int], Generation]:
    out = generate(backend, PROMPTS, decoder, seed=1, max_new_tokens=4, min_new_tokens=1, batch_size=4)
    assert len(out) == len(PROMPTS)
    return {(g.example_id, g.sample): g for g in out}


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda d: d.title)
def test_texts_equal_those_of_the_reference(engine, reference, decoder):
    made, expected = texts(make(), decoder), texts(reference, decoder)
    for key, text in expected.items():
        assert (made[key].text, made[key].token_ids, made[key].stop) == (text.text, text.token_ids, text.stop)
        assert made[key].log_prob == pytest.approx(text.log_prob, abs=1e-4)


def test_losses_and_statistics_equal_those_of_the_reference(engine, reference):
    rows = [(5, 6, 7, 8), (9,), (), (3, 4)]
    prompts = Ragged.from_rows([(1, 2), (), (7,), (8, 9, 10)], np.int64)
    continuations = Ragged.from_rows(rows, np.int64)
    done: list[int] = []
    mine = compute_token_nll(make(), scoring(prompts, continuations, include_prompt=True, batch_size=2), done.append)
    theirs = compute_token_nll(reference, scoring(prompts, continuations, include_prompt=True, batch_size=2))
    assert mine.offsets.tolist() == theirs.offsets.tolist()
    np.testing.assert_allclose(mine.values, theirs.values, atol=1e-5)
    assert sum(done) == 4
    request = q_request(prompts, continuations, DECODERS, min_new_tokens=2, batch_size=2)
    done.clear()
    for one, other in zip(make().q_statistics(request, done.append), reference.q_statistics(request), strict=True):
        np.testing.assert_allclose(one.gold_prob, other.gold_prob, atol=1e-5)
        np.testing.assert_allclose(one.sum_sq, other.sum_sq, atol=1e-5)
        assert one.support.tolist() == other.support.tolist()
        assert one.argmax.tolist() == other.argmax.tolist()
    assert sum(done) == 7


def test_the_record_says_how_the_engine_computes(engine):
    backend = make()
    assert backend.provenance() == {}
    texts(backend, Nucleus())
    facts = backend.provenance()
    assert facts["engine"]["attention"] == "FAKE_ATTN"
    assert "vLLM" in facts["notes"][0]
    rows = Ragged.from_rows([(5, 6)], np.int64)
    compute_token_nll(backend, scoring(rows, rows, batch_size=1))
    assert "notes" not in backend.provenance()  # no texts were made in this call


@pytest.mark.slow
def test_an_engine_that_dies_is_one_line_and_keeps_what_was_finished(reference):
    with fake_vllm(reference, fails_at=9):
        backend, kept = make(max_num_seqs=2), list[Generation]()
        request = generation(PROMPTS, Nucleus(), seed=1, max_new_tokens=3, batch_size=4)
        message = check_error(DataError, "vLLM stopped", backend.generate, request, kept.extend)
        assert "RuntimeError: CPU Generator does not use offset" in message
        assert "repeat the command" in message
        assert kept
        left = [p for p in PROMPTS if (p.example_id, p.sample) not in {(g.example_id, g.sample) for g in kept}]
    with fake_vllm(reference):  # the engine starts again
        backend.generate(generation(left, Nucleus(), seed=1, max_new_tokens=3, batch_size=4), kept.extend)
    assert len(kept) == len(PROMPTS)


def test_an_error_of_the_caller_ends_the_requests_of_its_call(engine):
    backend = make()

    def full(_: list[Generation]) -> None:
        raise OSError("disk full")

    request = generation(PROMPTS, Greedy(), seed=1, max_new_tokens=3, batch_size=4)
    check_error(OSError, "disk full", backend.generate, request, full)
    assert len(texts(backend, Greedy())) == len(PROMPTS)


def test_on_a_gpu_the_engine_sleeps_between_calls(reference, monkeypatch):
    with fake_vllm(reference, platform="cuda") as fake:
        monkeypatch.setattr(backend_module.models, "load_tokenizer", lambda _: reference.tokenizer)
        backend = make()
        backend.device = type("D", (), {"type": "cuda"})()
        texts(backend, Greedy())
        texts(backend, Greedy())
        assert fake.sleeping == ["sleep 1", "wake", "sleep 1"]
        del backend
        assert fake.sleeping[-1] == "shutdown"


def test_a_build_for_another_device_is_refused(reference):
    with fake_vllm(reference, platform="cuda"), pytest.raises(DataError, match="built for cuda"):
        texts(make(), Greedy())


def test_options_reach_the_engine_by_name(engine):
    options = build_engine_options(VllmSpec(path=PATH, max_num_seqs=7, engine={"block_size": 32}), {"block_size"})
    assert (options["max_num_seqs"], options["block_size"], options["async_scheduling"]) == (7, 32, False)
    with pytest.raises(SpecError, match=r"no option 'blocksize'.*block_size"):
        build_engine_options(VllmSpec(path=PATH, engine={"blocksize": 32}), {"block_size"})


def test_lengths_beyond_the_context_are_refused(engine):
    context = load_model(ModelSpec(path=PATH)).context_length
    with pytest.raises(SpecError, match="positions"):
        make().generate(generation(PROMPTS, Greedy(), seed=1, max_new_tokens=context, batch_size=1), print)


def test_what_vllm_lacks_is_one_line(monkeypatch):
    spec = VllmSpec(path=PATH)
    check_error(SpecError, "tensor_parallel_size", load_vllm, spec, device_map="auto")
    monkeypatch.setitem(sys.modules, "vllm", None)
    check_error(DataError, "vLLM cannot be imported", texts, make(), Greedy())
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    check_error(ExtraNotInstalled, r"openended\[vllm\]", spec.check_ready)


def test_decoders_that_draw_from_q_are_taken_and_others_refused_by_name():
    spec = VllmSpec(path=PATH)
    for name, cls in load_members("decoder").items():
        if issubclass(cls, QDecoder):
            assert spec.cannot("generate", cls()) is None
        elif name in ("beam", "contrastive"):
            check_error(SpecError, f"{name} does not draw.*use model=transformers", spec.demand, "generate", cls())


def test_what_can_move_a_logit_is_in_the_identity(monkeypatch):
    base = VllmSpec(path=PATH)
    for change in ({"quantization": "fp8"}, {"tensor_parallel_size": 2}, {"engine": {"block_size": 32}}):
        assert VllmSpec(path=PATH, **change).identity() != base.identity()
    for change in ({"max_num_seqs": 1}, {"gpu_memory_utilization": 0.5}):
        assert VllmSpec(path=PATH, **change).identity() == base.identity()
    before = base.identity()
    monkeypatch.setattr(spec_module, "find_version", lambda: "9.9")
    assert base.identity() != before
    assert base.signature_note == "vLLM 9.9"
    assert base.tokenizer_spec().identity().items() <= base.identity().items()


def test_the_context_is_the_smaller_one():
    whole = VllmSpec(path=PATH).context_length()
    assert whole is not None
    assert VllmSpec(path=PATH, max_model_len=32).context_length() == 32
    assert VllmSpec(path=PATH, max_model_len=10**6).context_length() == whole
