"""Paths that an accelerator takes: the same texts and numbers as on the CPU, and few copies between the devices."""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openended.harness.decoders.sampling import Greedy, Nucleus
from openended.harness.models import EmbedderSpec
from openended.harness.models.failures import run_in_batches
from openended.harness.models.score import compute_token_nll, embed_rows
from tests.harness.generation import test_denoising, test_generate
from tests.harness.generation.models import gpt2, llama
from tests.helpers import embedding, openended, ragged, scoring
from tests.lazy import sampler_worlds, simulated_device, torch


def move(lm: Any) -> Any:
    """Return a copy of a model on the simulated device."""
    return dataclasses.replace(lm, model=copy.deepcopy(lm.model).to("sim"), device=torch.device("sim:0"))


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    ("make", "decoder"),
    [*((gpt2, d) for d in test_generate.ALL), *((llama, d) for d in test_generate.LOOPS)],
    ids=lambda one: getattr(one, "title", getattr(one, "__name__", None)),
)
def test_texts_are_those_of_the_cpu(make, decoder):
    rows, lm = test_generate.prompts(), make()
    expected = [g.token_ids for g in test_generate.texts(lm, decoder, rows, 64)]
    with simulated_device.simulate_device():
        texts = test_generate.texts(move(lm), decoder, rows, 4)
    assert [g.token_ids for g in texts] == expected


@pytest.mark.parametrize("decoder", test_denoising.SAMPLERS[::3], ids=lambda d: d.title)
def test_denoised_texts_are_those_of_the_cpu(decoder, monkeypatch):
    world = test_denoising.small_world()
    expected = test_denoising.sample(world, decoder, 20)
    denoise = sampler_worlds.WorldDenoiser.denoise
    monkeypatch.setattr(
        sampler_worlds.WorldDenoiser, "denoise", lambda lm, ids, level: denoise(lm, ids.cpu(), level).to(ids.device)
    )
    with simulated_device.simulate_device():
        assert test_denoising.sample(world, decoder, 20, model={"device": torch.device("sim:0")}) == expected


def test_steps_wait_for_the_device_a_fixed_number_of_times():
    rows = test_generate.prompts()
    waits = {}
    for count in (len(rows), 4 * len(rows)):
        prompts = [dataclasses.replace(p, sample=p.sample + 2 * i) for i in range(count // len(rows)) for p in rows]
        for limit in (6, 12):
            with simulated_device.simulate_device() as copies:
                lm = move(gpt2(eos_ids=()))
                copies.clear()
                test_generate.texts(lm, Nucleus(p=0.9), prompts, 64, limit=limit)
                waits[count, limit] = copies["to host"]
    by_step = [(waits[count, 12] - waits[count, 6]) / 6 for count, _ in list(waits)[::2]]
    assert by_step[0] == by_step[1] <= 2  # no more for more rows


def test_scores_and_vectors_are_those_of_the_cpu():

    rng = np.random.default_rng(0)
    prompts, texts = (ragged([rng.integers(1, 300, size).tolist() for size in sizes]) for sizes in ((3, 5), (9, 4)))
    spec, lm = EmbedderSpec(path="gpt2"), gpt2()

    def read(model: Any) -> list[np.ndarray]:
        scores = compute_token_nll(model, scoring(prompts, texts, batch_size=2))
        vectors = embed_rows(model, embedding(prompts, texts, spec, batch_size=2))
        return [scores.values, *(v.vectors for v in vectors.values())]

    expected = read(lm)
    with simulated_device.simulate_device():
        for values, on_cpu in zip(read(move(lm)), expected, strict=True):
            np.testing.assert_allclose(values, on_cpu, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_run_with_all_metrics_has_the_values_of_the_cpu(tmp_path, monkeypatch):
    def read_values(folder: Path) -> dict[tuple[str, str, str], float]:
        words = ("task=docs", "model=docs-s", "decoder=nucleus", "num_examples=16", "max_new_tokens=24", "metric=all")
        folder.mkdir()
        openended(*words, cwd=folder, code=0)
        (record,) = folder.glob("outputs/runs/*/*/record.json")
        measures = json.loads(record.read_text())["results"]
        return {
            (m["metric"], m["system"], key): value
            for m in measures for key, value in m["values"].items() if value is not None
        }  # fmt: skip

    expected = read_values(tmp_path / "cpu")
    monkeypatch.setattr("openended.harness.models.model_cache.pick_device", lambda _: "sim:0")
    with simulated_device.simulate_device():
        assert read_values(tmp_path / "sim") == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_a_device_without_memory_gets_half_the_rows():
    lengths, done = np.array([5, 9, 1, 7, 3]), []
    with simulated_device.simulate_device():
        data = torch.ones(5, 4).to("sim")
        with simulated_device.fail_at("mm", 1, "SIM out of memory. Tried to allocate 2 GiB"):
            run_in_batches(lengths, 4, lambda rows: done.append((data[rows] @ data.T).cpu().shape[0]))
    assert done == [2, 2, 1]


def test_a_device_that_fails_is_an_error():
    lm = gpt2()
    with simulated_device.simulate_device():
        model = move(lm)
        with (
            simulated_device.fail_at("native_layer_norm", 60, "SIM error: device is lost"),
            pytest.raises(RuntimeError, match="lost"),
        ):
            test_generate.texts(model, Greedy(), test_generate.prompts(), 4)


def test_the_device_behaves_like_an_accelerator():
    with simulated_device.simulate_device() as copies:
        x = torch.ones(2, 3).to("sim")
        with pytest.raises(RuntimeError, match="same device"):
            x + torch.ones(3)
        with pytest.raises(TypeError, match="numpy"):
            x.numpy()
        assert torch.empty(2, device="sim").cpu().isnan().all()
        assert (x + torch.tensor(1.0))[[0]].cpu().tolist() == [[2, 2, 2]]
        assert (copies["to device"], copies["to host"]) == (2, 2)
