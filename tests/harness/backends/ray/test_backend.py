"""A model in many workers gives the same bytes as one here, whatever the chunks: texts, scores, vectors, statistics of Q."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openended.harness.backends.ray.backend import RayBackend, cut_chunks, load_ray_backend, make_model_ref
from openended.harness.backends.ray.cluster import Worker
from openended.harness.backends.transformers import TransformersBackend
from openended.harness.core import DataError, Ragged, Runtime
from openended.harness.decoders import Nucleus, Prompt
from openended.harness.generation.contrastive import ContrastiveDecoding
from openended.harness.models import (
    EmbedderSpec,
    ModelSpec,
    compute_token_nll,
    embed_and_score,
    embed_rows,
    list_bundled_models,
)
from openended.harness.models.requests import GradientRequest
from openended.harness.models.transformers import load_embedder
from tests.helpers import cases, embed_one, embedding, generate, q_request, ragged, scoring, tiny_model

pytestmark = pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there")
SPEC = ModelSpec(path="bundled:docs-s")
RNG = np.random.default_rng(0)


class Here:
    """Workers without Ray: one in this process, who takes the chunks last first."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.worker = Worker(Runtime(device="cpu"))
        self.asked: list[int] = []
        """Number of chunks of each call."""

    def map(self, task: str, chunks: Sequence[Sequence[Any]]) -> Iterator[tuple[int, Any]]:
        self.asked.append(len(chunks))
        for number in reversed(range(len(chunks))):
            answer = self.worker.do(task, chunks[number])
            assert answer.error is None, answer.error
            yield number, answer.value


def rows(count: int, least: int, most: int) -> Ragged:
    return ragged([RNG.integers(2, 200, RNG.integers(least, most + 1)) for _ in range(count)])


PROMPTS = rows(40, 0, 9)
TEXTS = rows(40, 0, 30)


@pytest.fixture(scope="module")
def here() -> TransformersBackend:
    made = SPEC.load(device="cpu")
    assert isinstance(made, TransformersBackend)
    return made


@pytest.fixture(scope="module")
def there() -> RayBackend:
    return load_ray_backend(Here(3), SPEC)


def test_what_is_known_of_a_model_without_its_weights(here, there):
    for name in ("device", "dtype", "eos_ids", "vocab_size", "context_length", "spec"):
        assert getattr(there, name) == getattr(here, name), name
    assert there.tokenizer.complete_prompt([]) == here.tokenizer.complete_prompt([])


@pytest.mark.slow
def test_texts(here, there):
    prompts = [Prompt(f"t/{i:03d}", s, tuple(row.tolist())) for i, row in enumerate(PROMPTS) for s in range(2)][:40]
    options = {"seed": 3, "max_new_tokens": 6, "batch_size": 4}
    steps: list[int] = []
    made = generate(there, prompts, Nucleus(p=0.9), steps.append, **options)
    assert made == generate(here, prompts, Nucleus(p=0.9), **options)
    assert sum(steps) == sum(len(g.token_ids) for g in made)
    assert there.workers.asked[-1] > 2


@pytest.mark.slow
def test_texts_of_a_decoder_that_needs_another_model(here, there):
    decoder = ContrastiveDecoding(amateur={"path": "bundled:docs-m"})
    prompts = [
        Prompt(f"t/{i}", 0, tuple(here.tokenizer.encode(text)))
        for i, text in enumerate(["Return the", "If", "Raise an"])
    ]
    ((name, spec),) = decoder.companions().items()
    made = [
        generate(lm, prompts, decoder, seed=0, max_new_tokens=5, batch_size=1, companions={name: other})
        for lm, other in ((here, spec.load()), (there, load_ray_backend(there.workers, spec)))
    ]
    assert str(made[0]) == str(made[1])  # a log-probability that is none is equal to itself then


def test_windows_of_long_texts_fall_into_batches_without_regard_to_whose_they_are(tmp_path):
    spec = ModelSpec(path=str(tiny_model(tmp_path)))
    texts = ragged([*TEXTS, *rows(11, 65, 300)])
    prompts = ragged([*PROMPTS, *rows(11, 0, 9)])
    here, there = spec.load(), load_ray_backend(Here(3), spec)
    both = [compute_token_nll(lm, scoring(prompts, texts, include_prompt=True, batch_size=7)) for lm in (here, there)]
    assert np.array_equal(both[0].values, both[1].values)
    assert there.workers.asked[-1] > 3


@pytest.mark.thin(2)
@pytest.mark.parametrize("batch_size", [4, 7, 64])
def test_scores_and_vectors(here, there, batch_size):
    embedder = EmbedderSpec(path=SPEC.path, max_length=20)
    request = embedding(PROMPTS, TEXTS, embedder, include_prompt=True, batch_size=batch_size)
    done: list[int] = []
    (vectors, cut), nll = embed_and_score(there, request, done.append)
    (want, want_cut), want_nll = embed_and_score(here, request)
    assert np.array_equal(vectors, want)
    assert np.array_equal(nll.values, want_nll.values)
    assert (cut, nll.offsets.tolist()) == (want_cut, want_nll.offsets.tolist())
    assert sum(done) == len(TEXTS)
    assert there.workers.asked[-1] > 1 or batch_size == 64


@pytest.mark.thin(2)
@pytest.mark.parametrize("batch_size", [3, 64])
def test_statistics_of_q(here, there, batch_size):
    decoders = [Nucleus(p=0.8), Nucleus(p=0.5, repetition_penalty=1.2)]
    options = {"min_new_tokens": 2, "batch_size": batch_size}
    for made, want in zip(
        *(lm.q_statistics(q_request(PROMPTS, TEXTS, decoders, **options)) for lm in (there, here)), strict=True
    ):
        for name in ("offsets", "gold_prob", "sum_sq", "support", "argmax", "gold"):
            one, other = getattr(made, name), getattr(want, name)
            assert np.array_equal(one, other), name
            assert one.dtype == other.dtype, name
        assert made.vocab_size == want.vocab_size
    with pytest.raises(DataError, match="cut it with max_new_tokens"):
        there.q_statistics(q_request(PROMPTS, ragged([[5] * 2000] * 40), decoders, batch_size=4))


def test_gradients(here, there):
    request = GradientRequest(prompts=PROMPTS, continuations=TEXTS, size=64)
    assert np.array_equal(there.sketch_gradients(request), here.sketch_gradients(request))


def test_no_text_at_all(here, there):
    nothing = ragged([])
    assert len(compute_token_nll(there, scoring(nothing, nothing, batch_size=4))) == 0
    assert there.q_statistics(q_request(nothing, nothing, [Nucleus(p=0.8)], batch_size=4))[0].gold.tolist() == []
    embedded = embed_rows(there, embedding(nothing, nothing, EmbedderSpec(path=SPEC.path), batch_size=4))
    assert embedded.vectors.shape == (0, 0)


def test_a_masked_model(tmp_path):
    from transformers import AutoTokenizer, BertConfig, BertModel

    tiny_model(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    BertModel(
        BertConfig(vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                   intermediate_size=16, max_position_embeddings=64)
    ).save_pretrained(tmp_path)  # fmt: skip
    spec = EmbedderSpec(path=str(tmp_path), kind="masked", pooling="mean", max_length=20)
    texts = rows(30, 1, 40)
    none = ragged([[]] * 30)
    want = embed_one(load_embedder(spec), spec, none, texts, batch_size=4)
    made = embed_one(load_ray_backend(Here(2), spec), spec, none, texts, batch_size=4)
    assert np.array_equal(made.vectors, want.vectors)
    assert made.truncated == want.truncated


def test_a_folder_is_sent_with_its_whole_path(tmp_path, monkeypatch):
    tiny_model(tmp_path / "m")
    monkeypatch.chdir(tmp_path)
    sent = make_model_ref(ModelSpec(path="./m"))
    assert Path(sent.spec.path) == tmp_path / "m"
    assert make_model_ref(SPEC).spec == SPEC


@cases(
    "count, unit, workers, most, sizes",
    (10, 2, 1, 9, [2, 2, 2, 2, 2]),  # five units among one worker: fewer than two a round, so one each
    (10, 4, 1, 9, [4, 4, 2]),  # the last unit is short
    (100, 1, 2, 99, [12] * 8 + [4]),  # 100 // (2 workers × 4 rounds)
    (100, 1, 2, 5, [5] * 20),  # no chunk costs more than five
    (3, 64, 8, 4, [3]),
    (0, 64, 2, 4, []),
)
def test_chunks_are_whole_units_and_shared_out_in_rounds(count, unit, workers, most, sizes):
    parts = cut_chunks(count, unit=unit, workers=workers, most=most)
    assert [part.stop - part.start for part in parts] == sizes
    assert [i for part in parts for i in range(count)[part]] == list(range(count))


@pytest.fixture
def worker() -> Worker:
    return Worker(Runtime(device="cpu"))


def test_other_files_than_the_drivers_are_refused(worker, tmp_path):
    spec = ModelSpec(path=str(tiny_model(tmp_path)))
    other = worker.do("describe_model", (make_model_ref(spec)._replace(identity="0" * 64),))
    assert other.value is None
    assert other.error is not None
    assert other.error[0] == "DataError"
    assert "has other files than the run's own machine" in other.error[1]
    assert worker.do("describe_model", (make_model_ref(spec),)).value["context_length"] == 64


def test_the_worker_says_whether_a_text_depends_on_its_batch():
    lm = load_ray_backend(Here(1), replace(SPEC, dtype="bfloat16"))
    assert lm.provenance().keys() == {"batch_dependent"}


def test_an_embedder_of_the_same_model_is_the_same_weights(worker, tmp_path):
    path = str(tiny_model(tmp_path))
    specs = (ModelSpec(path=path), EmbedderSpec(path=path))
    made = [worker.do("describe_model", (make_model_ref(spec),)).value for spec in specs]
    assert made[0] == made[1]
    assert len(worker._models.loads) == 1


def test_what_a_worker_says_comes_back(worker, monkeypatch):
    log = logging.getLogger("openended.x")
    monkeypatch.setattr(worker, "describe_model", lambda _: log.warning("half as %s", "many"))
    assert worker.do("describe_model", (None,)).remarks == ("half as many",)
    assert not logging.getLogger("openended").handlers, "nobody listens any more"
