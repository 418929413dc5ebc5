"""Embeddings by vLLM's pooled hidden states, on the stand-in: they equal the reference's."""

from __future__ import annotations

import numpy as np
import pytest

from openended.harness.backends.vllm.backend import VllmBackend
from openended.harness.backends.vllm.pooling_engine import PoolingEngine
from openended.harness.backends.vllm.spec import VllmSpec
from openended.harness.core.errors import DataError
from openended.harness.core.types import Generation
from openended.harness.decoders.base import Prompt
from openended.harness.decoders.sampling import Greedy
from openended.harness.models.embedder import EmbedderSpec
from tests.harness.backends.vllm.fake import fake_vllm
from tests.helpers import embedding, generation, ragged

PATH = "bundled:docs-s"
SPEC = VllmSpec(path=PATH, check_texts=0)


def write_a_text(backend):
    out: list[Generation] = []
    backend.generate(generation([Prompt("t/0", 0, (5,))], Greedy(), seed=1, max_new_tokens=2, batch_size=1), out.extend)
    assert len(out) == 1


def test_without_texts_there_are_no_vectors(engine):
    assert PoolingEngine(SPEC, "cpu", "mean").run([], print) is None
    (made,) = (
        VllmBackend(SPEC, "cpu")
        .embed(embedding(ragged([]), ragged([]), EmbedderSpec(path=PATH), batch_size=1))
        .values()
    )
    assert (made.vectors.shape, made.truncated) == ((0, 0), 0)


@pytest.mark.parametrize("pooling", ["last", "first", "mean"])
def test_vectors_equal_those_of_the_reference(engine, reference, pooling):
    prompts, continuations = ragged([(1, 2), (), (7,), ()]), ragged([(5, 6, 7, 8), (9,), (), (3, 4)])
    spec = EmbedderSpec(path=PATH, pooling=pooling, max_length=2, lengths=(2, 5))
    request = embedding(prompts, continuations, spec, batch_size=2)
    mine, theirs = VllmBackend(SPEC, "cpu").embed(request), reference.embed(request)
    assert list(mine) == [2, 5]
    for length, (vectors, truncated) in theirs.items():
        np.testing.assert_allclose(mine[length].vectors, vectors, atol=1e-5)
        assert mine[length].truncated == truncated
    both = VllmBackend(SPEC, "cpu").embed_and_score(
        embedding(prompts, continuations, EmbedderSpec(path=PATH), batch_size=2)
    )
    expected = reference.embed_and_score(embedding(prompts, continuations, EmbedderSpec(path=PATH), batch_size=2))
    np.testing.assert_allclose(both[0].vectors, expected[0].vectors, atol=1e-5)
    np.testing.assert_allclose(both[1].values, expected[1].values, atol=1e-5)


def test_an_embedding_engine_that_dies_leaves_the_other_running(reference):
    with fake_vllm(reference) as fake:
        backend, rows = VllmBackend(SPEC, "cpu"), ragged([(5, 6), (7,)])
        write_a_text(backend)
        fake.fails_at = 1
        with pytest.raises(DataError, match="vLLM stopped"):
            backend.embed(embedding(ragged([(), ()]), rows, EmbedderSpec(path=PATH), batch_size=2))
        assert fake.sleeping == ["shutdown"]
        assert backend.provenance() == {}
        write_a_text(backend)
        assert fake.sleeping == ["shutdown"]
