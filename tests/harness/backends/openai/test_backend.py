"""Texts through a server are those of the model: their distribution, their seeds, their form."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2

from openended.harness.backends.transformers import TransformersBackend
from openended.harness.core.errors import DataError, SpecError
from openended.harness.core.types import Generation
from openended.harness.decoders.base import Decoder, Prompt
from openended.harness.decoders.sampling import Ancestral, Greedy, Nucleus
from openended.harness.generation.beam_search import Beam
from openended.harness.models.backend import Backend
from openended.harness.models.embedder import EmbedderSpec
from openended.harness.models.spec import ModelSpec
from openended.metrics.mauve import mauve
from tests.harness.backends.openai.fake import ID, Fake, Fault, log_softmax, logits, server
from tests.helpers import embed_one, embedding, generation, ragged

STARTS = ("The name of the", "Return a", "If the value is", "A list of", "This function", "Raised when")


@pytest.fixture(scope="module")
def local() -> TransformersBackend:
    made = ModelSpec(path=f"bundled:{ID}").load()
    assert isinstance(made, TransformersBackend)
    return made


def write(
    backend: Backend, prompts: list[Prompt], decoder: Decoder, most: int, seed: int = 0, least: int = 0
) -> list[Generation]:
    made: list[Generation] = []
    backend.generate(
        generation(prompts, decoder, seed=seed, max_new_tokens=most, min_new_tokens=least, batch_size=64), made.extend
    )
    return sorted(made, key=lambda g: (g.example_id, g.sample))


def prompts_of(local: TransformersBackend, samples: int) -> list[Prompt]:
    return [Prompt(f"t/{i}", s, tuple(local.encode(t)), t) for i, t in enumerate(STARTS) for s in range(samples)]


def test_greedy_texts_are_the_models_own(local):
    prompts = prompts_of(local, 1)
    ours, theirs = (write(b, prompts, Greedy(), 6) for b in (server(), local))
    assert [(g.token_ids, g.text, g.stop) for g in ours] == [(g.token_ids, g.text, g.stop) for g in theirs]


def test_first_tokens_of_ancestral_texts_have_the_models_distribution(local):
    """Chi-square over the fifteen best tokens and all others: p above 1e-4."""
    ids = tuple(local.encode("The name of the"))
    made = write(server(), [Prompt(f"t/{i}", 0, ids) for i in range(1500)], Ancestral(), 1)
    p = np.exp(log_softmax(logits(list(ids))))
    best = np.argsort(-p)[:15].tolist()
    counts = Counter(g.token_ids[0] if g.token_ids else -1 for g in made)
    seen = np.array([counts[i] for i in best] + [len(made) - sum(counts[i] for i in best)])
    expected = len(made) * np.append(p[best], 1 - p[best].sum())
    assert expected.min() > 5
    assert chi2.sf(((seen - expected) ** 2 / expected).sum(), len(best)) > 1e-4


def test_mauve_of_a_servers_texts_is_that_of_local_ones_within_the_noise_of_seeds(local):
    prompts, embedder = prompts_of(local, 10), EmbedderSpec(path=f"bundled:{ID}")

    def vectors(made: list[Generation]) -> np.ndarray:
        by = {p.example_id: p.token_ids for p in prompts}
        rows = ragged([by[g.example_id] for g in made]), ragged([g.token_ids for g in made])
        return embed_one(local, embedder, *rows, batch_size=64).vectors

    human = vectors(write(local, prompts, Ancestral(), 5, seed=99))

    def value(made: list[Generation]) -> float:
        return float(mauve(human=human, model=vectors(made), num_buckets=5, restarts=2)["mauve"])

    decoder = Nucleus(p=0.5)
    locals_ = [value(write(local, prompts, decoder, 5, seed=s)) for s in range(5)]
    assert abs(value(write(server(), prompts, decoder, 5)) - np.mean(locals_)) < 4 * np.std(locals_, ddof=1)


def test_a_text_has_a_seed_of_its_own(local):
    prompts = prompts_of(local, 3)

    def ids(some: list[Prompt], seed: int = 0) -> list[tuple[int, ...]]:
        return [g.token_ids for g in write(server(), some, Ancestral(), 4, seed=seed)]

    first = ids(prompts)
    assert ids(prompts[::-1]) == first
    assert ids(prompts[3:5]) == first[3:5]
    assert len(set(first)) > len(prompts) // 2
    assert ids(prompts, seed=1) != first


def test_the_end_of_text_is_forbidden_as_long_as_asked(local):
    fake = Fake()
    made = write(server(fake), prompts_of(local, 1), Nucleus(), 6, least=6)
    assert {b["min_tokens"] for b in fake.bodies} == {6}
    assert {(len(g.token_ids), g.stop) for g in made} == {(6, "length")}


def test_texts_alone_and_chats(local):
    """Without a tokenizer nothing is known but the text; a chat endpoint gets the prompt as the user's turn."""
    fake = Fake()
    made = write(server(fake, tokenizer=None), prompts_of(local, 1), Greedy(), 4)
    assert [b["prompt"] for b in fake.bodies] == list(STARTS)
    assert {g.token_ids for g in made} == {()}
    assert [g.text for g in made] == [g.text for g in write(local, prompts_of(local, 1), Greedy(), 4)]
    chat = Fake(Fault(no_ids=True))
    backend = server(chat, chat=True, instruction="Go on.")
    made = write(backend, prompts_of(local, 1), Greedy(), 4)
    assert chat.bodies[0]["messages"][0] == {"role": "system", "content": "Go on."}
    assert all(g.token_ids for g in made)
    assert "6 texts came without token ids and were encoded again" in backend.provenance()["notes"][1]


def test_what_it_was_told_is_kept_for_the_record(local):
    backend = server(probe=True)
    assert backend.provenance() == {}
    write(backend, prompts_of(local, 1), Greedy(), 2)
    told = backend.provenance()
    assert told["served"] | {"probe": ""} == {
        "product": "vllm", "version": "0.33.0", "context": 512, "dtype": None, "model": ID, "dialect": "vllm",
        "endpoints": ["http://fake"], "chat": False, "probe": "", "texts_encoded_again": 0,
    }  # fmt: skip
    assert "checks passed" in told["notes"][0]


def test_a_server_is_probed_once_for_a_decoder(local):
    fake = Fake()
    backend = server(fake, probe=True)
    counts = []
    for decoder in (Greedy(), Greedy(), Nucleus()):
        before = len(fake.bodies)
        write(backend, prompts_of(local, 1), decoder, 1)
        counts.append(len(fake.bodies) - before)
    assert counts[1] == len(STARTS)
    assert min(counts[0], counts[2]) > len(STARTS)


def test_a_fault_names_the_endpoint_what_it_means_and_what_to_set(local):
    with pytest.raises(DataError) as caught:
        write(server(Fake(Fault(top_k=40)), probe=True), prompts_of(local, 1), Nucleus(), 1)
    said = str(caught.value)
    assert said.startswith("server http://fake (vllm 0.33.0) failed the sampling check: hidden sampling parameters: ")
    for word in (
        "possible causes: a hidden temperature, top-k",
        "--generation-config vllm",
        "model.probe=false skips the probe",
    ):
        assert word in said
    assert "\n" not in said


def test_faults_that_come_later_are_found_in_the_replies(local):
    for fault, why in (
        (Fault(one_more=True), "keeps no max_tokens"),
        (Fault(cut_prompt=1), "cuts prompts"),
        (Fault(bos=True), "before"),
    ):
        with pytest.raises(DataError, match=rf"model docs-s \(vllm\): text t/\d/0: .*{why}"):
            write(server(Fake(fault)), prompts_of(local, 1), Ancestral(), 2)


def test_what_does_not_fit_and_what_it_cannot_do_is_refused(local):
    with pytest.raises(SpecError, match="the longest prompt has"):
        write(server(Fake(context=2)), prompts_of(local, 1), Greedy(), 1)
    with pytest.raises(SpecError, match="cannot express beam"):
        write(server(), prompts_of(local, 1), Beam(), 1)
    with pytest.raises(SpecError, match="no hidden states"):
        server().embed(embedding(ragged([[1]]), ragged([[2]]), EmbedderSpec(path=f"bundled:{ID}"), batch_size=1))
    with pytest.raises(SpecError, match="no hidden states"):
        server().embed_and_score(
            embedding(ragged([[1]]), ragged([[2]]), EmbedderSpec(path=f"bundled:{ID}"), batch_size=1)
        )
