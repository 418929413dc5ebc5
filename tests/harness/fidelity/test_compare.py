"""Distances between two models against brute force, their intervals, and the memory of a large vocabulary."""

import math

import numpy as np
import pytest
import torch

from openended.harness import core
from openended.harness.decoders import Nucleus, parse_q_decoder
from openended.harness.fidelity.compare import COLUMNS, estimate_ratio, measure_distances, measure_rows
from openended.harness.models import ModelSpec, TextRequest, load_model
from tests.helpers import openended, ragged, write_jsonl


def test_distances_are_those_of_brute_force():
    first, second = (load_model(ModelSpec(path=f"bundled:docs-{size}")) for size in "sm")
    rng = np.random.default_rng(0)
    rows = [rng.integers(1, 4096, 9), rng.integers(1, 4096, 5)]
    request = TextRequest(prompts=ragged([[3], [4, 5]]), continuations=ragged(rows))
    decoders = [parse_q_decoder("ancestral"), Nucleus(p=0.9)]
    plain, cut = measure_distances(first, second, request, decoders, 2, lambda _: None)
    at = 0
    for prompt, row in zip(([3], [4, 5]), rows, strict=True):
        ids = torch.tensor([[*prompt, *row[:-1]]])
        with torch.inference_mode():
            p, q = (lm.model(ids).logits[0, len(prompt) - 1 :].double().softmax(-1).numpy() for lm in (first, second))
        for step, token in enumerate(row):
            kl = sum(a * math.log(a / b) for a, b in zip(p[step], q[step], strict=True))
            reverse = sum(b * math.log(b / a) for a, b in zip(p[step], q[step], strict=True))
            assert plain[0, at] == pytest.approx(kl, rel=1e-5)  # logits of single precision
            assert plain[1, at] == pytest.approx(reverse, rel=1e-5)
            assert plain[2, at] == pytest.approx(abs(p[step] - q[step]).sum() / 2, rel=1e-5)
            assert plain[3, at] == (p[step].argmax() == q[step].argmax())
            assert plain[5, at] == pytest.approx(math.log(p[step, token] / q[step, token]), abs=1e-4)
            at += 1
    assert (cut[6] > 0).any()
    assert np.isinf(cut[0][cut[6] > 0]).all()


def test_distances_by_hand():
    a, b = np.array([[0.5, 0.5, 0.0]]), np.array([[0.25, 0.25, 0.5]])
    by_hand = [math.log(2), math.inf, 0.5, 0, math.log(2), math.log(2), 0, 0.5, 1]
    assert len(by_hand) == len(COLUMNS)
    assert measure_rows(a, b, np.array([1]))[:, 0] == pytest.approx(by_hand)
    outside = measure_rows(a, b, np.array([2]))[:, 0]  # the token is outside A
    assert np.isnan(outside[4:6]).all()
    assert outside[8] == 0  # and the table says of how many tokens the differences are


@pytest.mark.parametrize("texts", [20, 100])
def test_intervals_cover_the_mean_of_all_texts(texts):
    rng = np.random.default_rng(texts)
    covered = 0
    for _ in range(2000):
        lengths = rng.integers(20, 60, texts)
        level = rng.gamma(8, 1 / 8, texts)  # texts differ, positions within one too: mean 1 whatever the length
        values = np.repeat(level, lengths) * rng.gamma(0.5, 2, lengths.sum())
        mean, half = estimate_ratio(values, np.repeat(np.arange(texts), lengths))
        covered += abs(mean - 1) <= half
    assert 0.93 <= covered / 2000 <= 0.97


def test_two_models_are_compared(tmp_path):
    texts = ("The house is on the hill.", "We went home by the sea.")
    write_jsonl(tmp_path / "texts.jsonl", ({"text": text} for text in texts))
    words = ("fidelity", "bundled:docs-m", "bundled:docs-m", "--texts", "texts.jsonl", "--decoder", "top_k,k=5")
    done = openended(*words, "--report", "out", cwd=tmp_path, verbose=False, code=0)
    assert "docs-m (A) and docs-m (B): 2 texts" in done.stdout
    assert "k=5" in (tmp_path / "out/fidelity.md").read_text()
    done = openended(*words[:-1], "beam", cwd=tmp_path, verbose=False, code=core.BAD_INPUT)
    assert "decoder beam: it does not draw each token from a Q" in done.stderr
