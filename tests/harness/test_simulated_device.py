"""Paths that an accelerator takes: the same texts and numbers as on the CPU, and few copies between the devices."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openended.harness.backends.denoiser.backend import DenoiserSpec
from openended.harness.backends.denoiser.denoising import Llada, Mdlm
from openended.harness.core import DataError, build, list_choices, read_node
from openended.harness.decoders import Decoder, Prompt, sampling
from openended.harness.decoders.user_processor import UserProcessor
from openended.harness.generation import (
    choose_runner_kind,
    compute_q_statistics,
    depends_on_batch,
    generate_texts,
    runners,
)
from openended.harness.generation.beam_search import Beam
from openended.harness.generation.contrastive import ContrastiveDecoding, ContrastiveSearch
from openended.harness.generation.kv_cache import CacheRunner
from openended.harness.models import EmbedderSpec, ModelSpec
from openended.harness.models.failures import run_in_batches
from openended.harness.models.score import compute_token_nll, embed_rows
from openended.harness.models.transformers import gather_outputs, load_embedder
from tests.harness.backends.denoiser import test_denoising
from tests.harness.generation import test_generate
from tests.harness.generation.models import FAMILIES, gpt2, llama, make_family_model
from tests.helpers import check_error, embedding, generation, openended, q_request, ragged, read_records, scoring
from tests.lazy import sampler_laws, simulated_device, torch

LIMIT = 6
LOST = "CUDA error: unspecified launch failure"
Texts = dict[tuple[str, int], tuple[int, ...]]
DECODERS = [
    *test_generate.ALL, sampling.MinK(), sampling.PLess(), sampling.Xtc(), sampling.Dry(allowed_length=1),
    sampling.Mirostat(algorithm="threshold"), ContrastiveDecoding(alpha=0.2), UserProcessor(),
]  # fmt: skip


def move(lm: Any) -> Any:
    """Return a copy of a model on the simulated device, whose runner is chosen."""
    moved = dataclasses.replace(lm, model=copy.deepcopy(lm.model).to("sim"), device=torch.device("sim:0"))
    choose_runner_kind(moved)
    return moved


def generate(lm, decoder, rows: Sequence[Prompt], batch_size: int = 64, amateur=None) -> tuple[Texts, int]:
    """Return the texts by example and sample, and the number of steps."""
    texts: list[Any] = []
    steps: list[int] = []
    request = generation(
        rows, decoder, seed=5, max_new_tokens=LIMIT, min_new_tokens=1, batch_size=batch_size,
        companions={} if amateur is None else {"amateur": amateur},
    )  # fmt: skip
    generate_texts(lm, request, texts.extend, steps.append)
    assert len(texts) == len(rows)
    return {(g.example_id, g.sample): g.token_ids for g in texts}, len(steps)


def count_waits(lm: Any, decoder: Decoder, rows: Sequence[Prompt], batch_size: int = 64) -> tuple[Texts, float]:
    """Return the texts of the simulated device, and how often the host waits for it in a step."""
    with simulated_device.simulate_device() as counts:
        model, amateur = move(lm), move(gpt2(seed=1)) if isinstance(decoder, ContrastiveDecoding) else None
        counts.clear()
        texts, steps = generate(model, decoder, rows, batch_size, amateur)
        return texts, counts["waits"] / steps


@pytest.mark.thin(3)
@pytest.mark.parametrize(
    ("make", "decoder"), [*((gpt2, d) for d in DECODERS), *((llama, d) for d in test_generate.LOOPS)],
    ids=lambda one: getattr(one, "title", getattr(one, "__name__", None)),
)  # fmt: skip
def test_texts_are_those_of_the_cpu_and_the_host_waits_once_a_step(make, decoder):
    lm, rows = make(), test_generate.prompts()
    expected, _ = generate(lm, decoder, rows, amateur=gpt2(seed=1))
    texts, waits = count_waits(lm, decoder, rows, 4)
    assert texts == expected
    assert waits == 1


def test_every_decoder_runs_on_the_simulated_device():
    tested = {type(d) for d in (*DECODERS, *test_denoising.SAMPLERS)}
    assert tested == {type(build("decoder", read_node("decoder", name))) for name in list_choices("decoder")}


def test_more_rows_need_no_more_waits_and_a_head_that_does_not_decide_one():
    rows = test_generate.prompts()
    more = [dataclasses.replace(p, sample=p.sample + 2 * i) for i in range(4) for p in rows]
    assert count_waits(gpt2(), Beam(num_beams=3), more)[1] == 1
    for sharp, expected in ((20.0, 1), (0.1, 2)):
        lm = gpt2(vocab_size=1200, sharp=sharp)
        texts, waits = count_waits(lm, sampling.Nucleus(p=0.9), rows)
        assert (texts, waits) == (generate(lm, sampling.Nucleus(p=0.9), rows)[0], expected)


@pytest.mark.thin(4)
@pytest.mark.parametrize("kind", [*FAMILIES, *runners.RUNNERS])
def test_models_of_all_families_and_runners_give_the_texts_of_the_cpu(kind, monkeypatch):
    lm = llama() if kind in runners.RUNNERS else make_family_model(kind)
    if kind in runners.RUNNERS:
        lm = dataclasses.replace(lm, model=copy.deepcopy(lm.model))
        monkeypatch.setattr(runners, "RUNNERS", {kind: runners.RUNNERS[kind]})
    decoder, rows = sampling.Nucleus(p=0.9), test_generate.prompts()
    expected, _ = generate(lm, decoder, rows)
    texts, waits = count_waits(lm, decoder, rows, 4)
    assert texts == expected
    assert waits <= {"reread": 3, "falcon": 5}.get(kind, 1)  # transformers' own code asks the device there


@pytest.mark.parametrize("decoder", test_denoising.SAMPLERS, ids=lambda d: f"{d.title} {d.precision}")
def test_denoised_texts_are_those_of_the_cpu(decoder, monkeypatch):
    world = test_denoising.small_world()
    expected = test_denoising.sample(world, decoder, 20)
    denoise = sampler_laws.WorldDenoiser.denoise
    monkeypatch.setattr(
        sampler_laws.WorldDenoiser, "denoise",
        lambda lm, ids, level: denoise(lm, ids.on_cpu, level).to(ids.device, non_blocking=True),
    )  # fmt: skip
    with simulated_device.simulate_device() as counts:
        assert test_denoising.sample(world, decoder, 20, model={"device": torch.device("sim:0")}) == expected
        assert counts["waits"] <= decoder.count_steps(world.length)


def test_a_masked_model_denoises_as_on_the_cpu():
    spec, rows = DenoiserSpec(path="bundled:docs-mlm"), [Prompt(f"t/{i}", 0, (5, 6, 7 + i)) for i in range(3)]
    for decoder in (Mdlm(steps=4), Llada(steps=4, block_length=4)):
        with simulated_device.simulate_device():
            texts, expected = ({}, {})
            for device, out in (("cpu", expected), ("sim:0", texts)):
                request = generation(rows, decoder, seed=1, max_new_tokens=LIMIT, batch_size=2)
                spec.load(device=device).generate(
                    request, lambda made, out=out: out.update({g.example_id: g.token_ids for g in made})
                )
        assert texts == expected


def test_scores_vectors_and_statistics_are_those_of_the_cpu():
    rng = np.random.default_rng(0)
    prompts, texts = (ragged([rng.integers(1, 250, size).tolist() for size in sizes]) for sizes in ((3, 5), (9, 4)))
    pools = (("last", -1), ("mean", 1))
    specs = [EmbedderSpec(path="gpt2", kind="causal", pooling=pooling, layer=layer) for pooling, layer in pools]
    masked = EmbedderSpec(path="bundled:docs-mlm")
    decoders = [d for d in DECODERS if d.has_q]

    def read(lm: Any, encoder: Any) -> list[np.ndarray]:
        requests = (scoring(prompts, texts, batch_size=2, ranks=ranks) for ranks in (False, True))
        scores = [compute_token_nll(lm, request).values for request in requests]
        vectors = [
            embed_rows(model, embedding(prompts, texts, spec, batch_size=2)).vectors
            for model, spec in ((lm, specs[0]), (lm, specs[1]), (encoder, masked))
        ]
        q = compute_q_statistics(lm, q_request(prompts, texts, decoders, batch_size=2))
        return [*scores, *vectors, *(v for t in q for v in (t.gold_prob, t.sum_sq, t.support, t.argmax))]

    expected = read(gpt2(vocab_size=1200), load_embedder(masked))
    with simulated_device.simulate_device():
        values = read(move(gpt2(vocab_size=1200)), load_embedder(masked, device="sim:0"))
    for on_device, on_cpu in zip(values, expected, strict=True):
        np.testing.assert_allclose(on_device, on_cpu, rtol=1e-4, atol=1e-5)


def use_device(patch: pytest.MonkeyPatch, device: str) -> None:
    """Let runs compute on a device; the package, which looks a name up once, must not keep the patched function."""
    for module in ("models", "models.model_cache"):
        patch.setattr(f"openended.harness.{module}.pick_device", lambda _: device)


def read_values(folder: Path, device: str) -> dict[tuple[str, str, str], float]:
    """Return the values of a run with all metrics."""
    words = ("task=docs", "model=docs-s", "decoder=nucleus", "num_examples=4", "max_new_tokens=8", "metric=all")
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch, simulated_device.simulate_device():
        use_device(patch, device)
        openended(*words, cwd=folder, code=0)
    (record,) = read_records(folder / "outputs/runs")
    return {
        (m["metric"], m["system"], key): value
        for m in record["results"] for key, value in m["values"].items() if value is not None
    }  # fmt: skip


@pytest.mark.slow
def test_a_run_with_all_metrics_has_the_values_of_the_cpu(tmp_path):
    values, expected = (read_values(tmp_path / device, device) for device in ("sim:0", "cpu"))
    assert values == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert {"mauve", "sparsemax_score"} <= {metric for metric, _, _ in values}


@pytest.mark.slow
def test_a_run_on_a_device_that_fails_says_so_and_is_resumed(tmp_path, monkeypatch):
    words = ("task=docs", "model=docs-s", "decoder=nucleus", "num_examples=8", "max_new_tokens=12", "metric=length")
    options = ("runtime.batch_size=4", "runtime.flush_seconds=0")
    use_device(monkeypatch, "sim:0")
    with simulated_device.simulate_device():
        with simulated_device.fail_at("native_layer_norm", 190, LOST):
            failed = openended(*words, *options, cwd=tmp_path)
        resumed = openended(*words, *options, cwd=tmp_path, code=0)
        planned = openended(*words, "seed=1", "model.dtype=bfloat16", "plan_only=true", cwd=tmp_path, code=0)
    last = failed.stderr.splitlines()[-1]
    assert last.startswith(f"openended: the device failed: {LOST}; finished texts are kept")
    assert "resuming after 4 of 8 generations" in resumed.stdout + resumed.stderr
    warning = "a text can depend on the other texts of its batch: float32 on sim:0, 4 at once"
    assert warning in " ".join(resumed.stdout.split())
    assert "a text can depend on the other texts of its batch: bfloat16" in planned.stderr


def test_reduced_precision_is_tried_for_whether_a_text_depends_on_its_batch(monkeypatch):
    lm, project = gpt2(), CacheRunner.compute_logits
    half, spec = copy.deepcopy(lm.model).bfloat16(), ModelSpec(path="gpt2", dtype="bfloat16")
    reduced = dataclasses.replace(lm, model=half, dtype=torch.bfloat16, spec=spec)
    monkeypatch.setattr(
        CacheRunner, "compute_logits", lambda run, hidden: project(run, hidden) * (1 + (len(hidden) > 16) / 64)
    )
    models = (lm, reduced, make_family_model("mixtral"))  # the experts of the last are in no packed layer
    assert [depends_on_batch(model) for model in models] == [False, True, True]  # such a kernel rounds by its rows
    monkeypatch.setattr(CacheRunner, "compute_logits", lambda run, hidden: project(run, hidden).float().round())
    assert not depends_on_batch(reduced)
    monkeypatch.undo()
    with simulated_device.simulate_device():
        assert depends_on_batch(move(lm))


def test_a_device_without_memory_gets_half_the_rows():
    lengths, done = np.array([5, 9, 1, 7, 3]), []
    with simulated_device.simulate_device():
        data = torch.ones(5, 4).to("sim")
        with simulated_device.fail_at("mm", 1, "SIM out of memory. Tried to allocate 2 GiB"):
            run_in_batches(lengths, 4, lambda rows: done.append((data[rows] @ data.T).cpu().shape[0]), None, None)
    assert done == [2, 2, 1]


def test_a_device_without_memory_loses_no_text(caplog):
    lm, rows = gpt2(), test_generate.prompts()
    expected, _ = generate(lm, sampling.Nucleus(), rows)
    with simulated_device.simulate_device():
        model = move(lm)
        with simulated_device.fail_at("addmm", 50, "SIM out of memory. Tried to allocate 2 GiB"):
            texts, _ = generate(model, sampling.Nucleus(), rows, 8)
    assert texts == expected
    assert "out of memory with 8 rows; continuing with 4" in caplog.text


@pytest.mark.parametrize("call", [3, 120])
def test_a_device_that_fails_is_an_error_and_no_finished_text_is_lost(call):
    texts: list[Any] = []
    with simulated_device.simulate_device():
        lm = gpt2()
        model = dataclasses.replace(move(lm), model=copy.deepcopy(lm.model).to("sim"))  # its runner is not chosen yet
        request = generation(test_generate.prompts(), sampling.Greedy(), seed=0, max_new_tokens=LIMIT, batch_size=4)
        with (
            simulated_device.fail_at("native_layer_norm", call, LOST), pytest.raises(DataError, match=f"the device failed: .*{LOST}; finished texts are kept"),
        ):  # fmt: skip
            generate_texts(model, request, texts.extend)
    assert bool(texts) == (call > 100)


def test_a_model_on_two_devices_gives_the_same_texts():
    accelerate = pytest.importorskip("accelerate")
    lm, rows = gpt2(), test_generate.prompts()
    parts = {
        "transformer.wte": 0, "transformer.wpe": 0, "transformer.h.0": 0, "transformer.h.1": 1, "transformer.ln_f": 1,
        "lm_head": 1,
    }  # fmt: skip
    with simulated_device.simulate_device():
        devices = {part: f"sim:{index}" for part, index in parts.items()}
        options = {"device_map": devices, "main_device": "sim:0", "force_hooks": True}
        model = accelerate.dispatch_model(copy.deepcopy(lm.model), **options)
        spread = dataclasses.replace(lm, model=model, device=gather_outputs(model))
        for decoder in (sampling.Nucleus(), Beam(num_beams=2), ContrastiveSearch(k=2)):
            assert generate(spread, decoder, rows)[0] == generate(lm, decoder, rows)[0]


def test_the_device_behaves_like_an_accelerator():
    with simulated_device.simulate_device() as copies:
        x = torch.ones(2, 3).to("sim")
        with pytest.raises(RuntimeError, match="same device"):
            x + torch.ones(3)
        check_error(TypeError, "numpy", x.numpy)
        assert torch.empty(2, device="sim").cpu().isnan().all()
        assert (x + torch.tensor(1.0))[[0]].cpu().tolist() == [[2, 2, 2]]
        assert (copies["to device"], copies["to host"]) == (2, 2)
