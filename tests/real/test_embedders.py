"""Vectors of published embedders: those of sentence-transformers, and the MAUVE of mauve-text on them."""

import json
import subprocess

import numpy as np
import pytest

import openended as oe
from openended.harness.core import Ragged
from openended.harness.models import EmbedderSpec, EmbeddingRequest, embed_rows, tokenize_texts
from openended.harness.models.transformers import load_embedder

ORACLE = """
import json, sys
import numpy as np
from sentence_transformers import SentenceTransformer
texts = json.load(sys.stdin)
np.save(sys.argv[2], SentenceTransformer(sys.argv[1]).encode(texts, batch_size=8))
"""


@pytest.fixture
def passages(real_models):
    lines = (real_models / "texts/sotu.jsonl").read_text().splitlines()
    return [json.loads(line)["text"] for line in lines[:80]]


def embed(path, texts):
    spec = EmbedderSpec(path=str(path))
    model = load_embedder(spec)
    ids = tokenize_texts(model.tokenizer, texts)
    nothing = Ragged(ids.values[:0], np.zeros_like(ids.offsets))
    request = EmbeddingRequest(prompts=nothing, continuations=ids, embedder=spec, batch_size=8)
    return embed_rows(model, request).vectors


def test_vectors_are_those_of_sentence_transformers(real_models, passages, tmp_path):
    short = [" ".join(text.split()[:n]) for n, text in enumerate(passages[:40], 1)]
    texts = [*passages[40:64], *short, "a", "ÜBER die Straße, naïve 東京", "an <|im_end|> in a text"]
    command = [real_models / "venv/bin/python", "-c", ORACLE, real_models / "minilm", tmp_path / "oracle.npy"]
    subprocess.run(command, input=json.dumps(texts), text=True, check=True, capture_output=True)
    expected = np.load(tmp_path / "oracle.npy")
    vectors = embed(real_models / "minilm", texts)
    assert np.abs(vectors - expected).max() < 1e-5
    assert (vectors * expected).sum(1).min() > 0.99999


def test_mauve_of_an_encoder_is_that_of_mauve_text(real_models, passages, tmp_path):
    mauve = pytest.importorskip("mauve")
    encoder = tmp_path / "bert"  # mauve-text takes a model whose name says what it is
    encoder.symlink_to(real_models / "minilm")
    sides = {"p_text": passages[:40], "q_text": [" ".join(text.split()[:60]) for text in passages[40:]]}
    options = {"featurize_model_name": str(encoder), "num_buckets": 5, "max_text_length": 96, "verbose": False}
    expected = mauve.compute_mauve(**sides, **options).mauve
    assert oe.compute_mauve(**sides, **options).mauve == pytest.approx(expected, abs=1e-6)
