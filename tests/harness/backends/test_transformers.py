"""The backend in this process: it does what the functions do, through the Protocol."""

import dataclasses
from typing import ClassVar

import pytest

from openended.harness.backends.transformers import TransformersBackend
from openended.harness.core import Generation, Runtime, SpecError
from openended.harness.decoders.base import Prompt
from openended.harness.decoders.sampling import Greedy
from openended.harness.generation.contrastive import ContrastiveDecoding
from openended.harness.generation.generate import generate_texts
from openended.harness.models import Ability, BackendSpec, LanguageModel, ModelSpec
from openended.harness.run.session import Session
from openended.harness.storage.store import Store
from tests.helpers import generation, tiny_model


@pytest.fixture(scope="module")
def spec(tmp_path_factory) -> ModelSpec:
    return ModelSpec(path=str(tiny_model(tmp_path_factory.mktemp("models") / "tiny")))


def generated(backend: TransformersBackend, decoder: ContrastiveDecoding, **options: object) -> list[Generation]:
    made: list[Generation] = []
    backend.generate(
        generation([Prompt("a", 0, (5, 9))], decoder, seed=0, max_new_tokens=5, batch_size=1, **options), made.extend
    )
    return made


def test_the_amateur_loads_through_the_session(spec, tmp_path):
    session, runtime = Session(Store(tmp_path)), Runtime(device="cpu")
    decoder = ContrastiveDecoding(amateur={"path": spec.path})
    lm, companions = session.model(spec, runtime), session.companions(decoder, runtime)
    assert companions == {"amateur": lm}  # the same weights: loaded once
    assert session.loads == [spec.title]
    assert len(generated(lm, decoder, companions=companions)) == 1
    assert set(decoder.inputs()) == {"amateur"}
    with pytest.raises(SpecError, match="needs its amateur loaded"):
        generated(lm, decoder)
    other = dataclasses.replace(lm, vocab_size=lm.vocab_size + 1)
    with pytest.raises(SpecError, match=r"amateur: tiny has 258 logits, the expert 257"):
        generated(lm, decoder, companions={"amateur": other})


def test_a_language_model_with_another_model_uses_the_weights_of_that_one():
    from tests.harness.generation.models import gpt2

    def write(lm: LanguageModel) -> tuple[int, ...]:
        texts: list[Generation] = []
        request = generation([Prompt("a", 0, (5, 9))], Greedy(), seed=0, max_new_tokens=8, batch_size=1)
        generate_texts(lm, request, texts.extend)
        return texts[0].token_ids

    first, second = gpt2(seed=0), gpt2(seed=1)
    before = write(first)
    assert write(dataclasses.replace(first, model=second.model)) == write(second) != before


def test_what_a_backend_cannot_do_it_says_while_planning(spec):
    class Server(BackendSpec):
        name: ClassVar[str] = "server"
        abilities: ClassVar[frozenset[Ability]] = frozenset({"generate"})
        title: ClassVar[str] = "far"  # type: ignore[assignment]

    Server().demand("generate")
    with pytest.raises(SpecError, match="model far: the backend server cannot do q_statistics"):
        Server().demand("q_statistics")
    for ability in ("generate", "score", "q_statistics", "embed"):
        spec.demand(ability)
