from __future__ import annotations

import numpy as np
import pytest
import torch

from openended.harness.core.errors import DataError
from openended.harness.models.backend import GradientRequest, ScoringRequest
from openended.harness.models.gradients import sketch_gradients
from openended.harness.models.score import plan_scoring, split_columns
from openended.harness.models.spec import ModelSpec
from tests.helpers import ragged, tiny_model

TEXTS = [[5, 6, 7, 8, 9], [9, 8, 7], [5], list(range(1, 40))]


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return ModelSpec(path=str(tiny_model(tmp_path_factory.mktemp("tiny")))).load()


def gradient(lm, ids):
    """The whole gradient of the mean loss of the tokens after the first."""
    row = torch.tensor([ids])
    logits = lm.model(row).logits[0, :-1]
    loss = torch.nn.functional.cross_entropy(logits, row[0, 1:])
    lm.model.requires_grad_(True)
    lm.model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.reshape(-1) for p in lm.model.parameters() if p.grad is not None]).numpy()


def test_products_of_sketches_are_those_of_gradients(lm):
    request = GradientRequest(prompts=ragged([[]] * 4), continuations=ragged(TEXTS), size=1 << 16)
    sketches = sketch_gradients(lm, request)
    assert not sketches[2].any()  # one token has no loss
    lm.model.requires_grad_(True)
    full = [gradient(lm, TEXTS[i]) for i in (0, 1, 3)]
    lm.model.requires_grad_(False)
    kept = sketches[[0, 1, 3]]
    norms = np.linalg.norm(np.array(full), axis=1)
    # sqrt(2 / 65536) = 0.6 % of the norms; five times that
    difference = (kept @ kept.T - np.array(full) @ np.array(full).T) / np.outer(norms, norms)
    assert np.abs(difference).max() < 0.03
    assert np.array_equal(sketches, sketch_gradients(lm, request))


def test_ranks_are_a_column_of_the_scores(lm):
    common = {"prompts": ragged([[]] * 4), "continuations": ragged(TEXTS), "batch_size": 2}
    plain = lm.score(ScoringRequest(**common))
    nll, rank = split_columns(lm.score(ScoringRequest(**common, ranks=True)))
    assert np.array_equal(nll.values, plain.values)
    with torch.inference_mode():
        logits = lm.model(torch.tensor([TEXTS[0]])).logits[0]
    want = [1 + int((logits[i] > logits[i, gold]).sum()) for i, gold in enumerate(TEXTS[0][1:])]
    assert rank[0].tolist() == want
    assert rank.lengths.tolist() == [4, 2, 0, 38]
    assert not len(split_columns(plain)[1].values)


def test_windows_and_strides_score_each_token_once(lm):
    common = {"prompts": ragged([[]]), "continuations": ragged([list(range(1, 40))]), "batch_size": 4}
    jobs, out = plan_scoring(lm, ScoringRequest(**common, window=16, stride=4))
    assert [len(job.ids) for job in jobs] == [16] * 7  # 15 tokens, then 4, 4, 4, 4, 4, 3
    scored = [slice(job.out, job.out + len(job.ids) - job.first) for job in jobs]
    assert [s.stop - s.start for s in scored] == [15, 4, 4, 4, 4, 4, 3]
    assert [s.start for s in scored[1:]] == [s.stop for s in scored[:-1]]
    assert len(out.values) == 38
    whole, cut = (lm.score(ScoringRequest(**common, window=w, stride=s)).values for w, s in ((None, None), (16, 4)))
    assert np.allclose(whole[:15], cut[:15], atol=1e-5)
    assert not np.allclose(whole[15:], cut[15:], atol=1e-5)
    with pytest.raises(DataError, match="window: expected at most 64"):
        plan_scoring(lm, ScoringRequest(**common, window=100))
