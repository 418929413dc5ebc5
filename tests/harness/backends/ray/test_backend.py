"""A model in many workers gives the same bytes as one here, whatever the chunks: texts, scores, vectors, statistics of Q."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from openended.harness.backends.ray.backend import RayBackend, load_ray_backend, make_model_ref
from openended.harness.backends.transformers import TransformersBackend
from openended.harness.core.errors import DataError
from openended.harness.core.types import Ragged
from openended.harness.decoders.base import Prompt
from openended.harness.decoders.sampling import Nucleus
from openended.harness.generation.contrastive import ContrastiveDecoding
from openended.harness.models.embedder import EmbedderSpec
from openended.harness.models.spec import ModelSpec, list_bundled_models
from openended.harness.models.transformers import load_embedder
from tests.harness.backends.ray.here import Here
from tests.helpers import embed_one, embedding, generation, q_request, ragged, scoring, tiny_model

pytestmark = pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there")
SPEC = ModelSpec(path="bundled:docs-s")
RNG = np.random.default_rng(0)


def rows(count: int, least: int, most: int) -> Ragged:
    return ragged([RNG.integers(2, 200, RNG.integers(least, most + 1)) for _ in range(count)])


def alike(made) -> list[str]:
    """The rows in one order; a log-probability that is none is equal to itself then."""
    return sorted(map(str, made))


PROMPTS = rows(40, 0, 9)
TEXTS = rows(40, 0, 30)


@pytest.fixture(scope="module")
def here() -> TransformersBackend:
    made = SPEC.load(device="cpu")
    assert isinstance(made, TransformersBackend)
    return made


@pytest.fixture(scope="module", params=[1, 3], ids=["one", "three"])
def there(request: pytest.FixtureRequest) -> RayBackend:
    return load_ray_backend(Here(request.param), SPEC)


def test_what_is_known_of_a_model_without_its_weights(here, there):
    for name in ("device", "dtype", "eos_ids", "vocab_size", "context_length", "start_id", "spec"):
        assert getattr(there, name) == getattr(here, name), name
    assert there.bos_prefix([3]) == here.bos_prefix([3])


def test_texts(here, there):
    prompts = [Prompt(f"t/{i:03d}", s, tuple(row.tolist())) for i, row in enumerate(PROMPTS) for s in range(2)][:40]
    options = {"seed": 3, "max_new_tokens": 6, "batch_size": 4}
    made: dict[str, list] = {"here": [], "there": []}
    steps: list[int] = []
    here.generate(generation(prompts, Nucleus(p=0.9), **options), made["here"].extend)
    there.generate(generation(prompts, Nucleus(p=0.9), **options), made["there"].extend, advance=steps.append)
    assert alike(made["there"]) == alike(made["here"])
    assert sum(steps) == sum(len(g.token_ids) for g in made["here"])
    assert there.workers.asked[-1] > 2


def test_texts_of_a_decoder_that_needs_another_model(here, there):
    decoder = ContrastiveDecoding(amateur={"path": "bundled:docs-m"})
    prompts = [Prompt(f"t/{i}", 0, tuple(here.encode(text))) for i, text in enumerate(["Return the", "If", "Raise an"])]
    made: list[list] = [[], []]
    ((name, spec),) = decoder.companions().items()
    for lm, other, into in zip((here, there), (spec.load(), load_ray_backend(there.workers, spec)), made, strict=True):
        lm.generate(
            generation(prompts, decoder, seed=0, max_new_tokens=5, batch_size=1, companions={name: other}), into.extend
        )
    assert alike(made[0]) == alike(made[1])


def test_windows_of_long_texts_fall_into_batches_without_regard_to_whose_they_are(tmp_path):
    spec = ModelSpec(path=str(tiny_model(tmp_path)))
    texts = ragged([*TEXTS, *rows(11, 65, 300)])
    prompts = ragged([*PROMPTS, *rows(11, 0, 9)])
    here, there = spec.load(), load_ray_backend(Here(3), spec)
    both = [lm.score(scoring(prompts, texts, include_prompt=True, batch_size=7)) for lm in (here, there)]
    assert np.array_equal(both[0].values, both[1].values)
    assert there.workers.asked[-1] > 3


@pytest.mark.thin(3)
@pytest.mark.parametrize("batch_size", [4, 7, 64])
def test_scores_and_vectors(here, there, batch_size):
    embedder = EmbedderSpec(path=SPEC.path, max_length=20)
    request = embedding(PROMPTS, TEXTS, embedder, batch_size=batch_size)
    done: list[int] = []
    (vectors, cut), nll = there.embed_and_score(request, include_prompt=True, advance=done.append)
    (want, want_cut), want_nll = here.embed_and_score(request, include_prompt=True)
    assert np.array_equal(vectors, want)
    assert np.array_equal(nll.values, want_nll.values)
    assert (cut, nll.offsets.tolist()) == (want_cut, want_nll.offsets.tolist())
    assert sum(done) == len(TEXTS)
    assert there.workers.asked[-1] > 1 or batch_size == 64


def test_vectors_at_several_lengths(here, there):
    embedder = EmbedderSpec(path=SPEC.path, max_length=9, lengths=(3, 9))
    made, want = (lm.embed(embedding(PROMPTS, TEXTS, embedder, batch_size=8)) for lm in (there, here))
    assert all(np.array_equal(made[n].vectors, want[n].vectors) for n in (3, 9))
    assert made.keys() == want.keys()


@pytest.mark.thin(4)
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


def test_no_text_at_all(here, there):
    nothing = ragged([])
    assert len(there.score(scoring(nothing, nothing, batch_size=4))) == 0
    assert there.q_statistics(q_request(nothing, nothing, [Nucleus(p=0.8)], batch_size=4))[0].gold.tolist() == []
    assert there.embed(embedding(nothing, nothing, EmbedderSpec(path=SPEC.path), batch_size=4))[None].vectors.shape == (
        0,
        0,
    )


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
