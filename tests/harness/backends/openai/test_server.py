"""Texts, scores and statistics through a server are those of the model; what its lists do not decide is refused."""

from typing import Any

import numpy as np
import pytest

from openended.harness.backends.openai.listed_q import compute_listed_q
from openended.harness.backends.openai.replies import Listing
from openended.harness.backends.transformers import TransformersBackend
from openended.harness.core import DataError, Ragged, SpecError
from openended.harness.decoders.base import Prompt
from openended.harness.decoders.sampling import Ancestral, Epsilon, Greedy, MinP, Nucleus, TopK
from openended.harness.generation.beam_search import Beam
from openended.harness.models import ModelSpec, compute_token_nll
from tests.harness.backends.openai.fake import ID, Fake, Fault, server
from tests.helpers import cases, check_error, generate, ragged, scoring

STARTS = ("The name of the", "Return a", "If the value is", "A list of", "This function", "Raised when")


@pytest.fixture(scope="module")
def local() -> TransformersBackend:
    made = ModelSpec(path=f"bundled:{ID}").load()
    assert isinstance(made, TransformersBackend)
    return made


def write(backend, prompts, decoder, most, seed=0, least=0):
    return generate(backend, prompts, decoder, seed=seed, max_new_tokens=most, min_new_tokens=least, batch_size=64)


def prompts_of(local: TransformersBackend, samples: int) -> list[Prompt]:
    return [
        Prompt(f"t/{i}", s, tuple(local.tokenizer.encode(t)), t) for i, t in enumerate(STARTS) for s in range(samples)
    ]


def test_greedy_texts_are_the_models_own(local):
    prompts = prompts_of(local, 1)
    ours, theirs = (write(b, prompts, Greedy(), 6) for b in (server(), local))
    assert [(g.token_ids, g.text, g.stop) for g in ours] == [(g.token_ids, g.text, g.stop) for g in theirs]


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
        "answers_as": ID, "endpoints": ["http://fake"], "chat": False, "probe": "", "texts_encoded_again": 0,
        "change": None,
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
    assert counts[1] == len(STARTS) < min(counts[0], counts[2])


def test_replies_that_name_another_model_midway_are_marked(local):
    fake, names = Fake(), iter(["snapshot-1"] * 3 + ["snapshot-2"] * 9)
    reply = fake.reply

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        return reply(body) | {"model": next(names)}

    fake.reply = answer  # type: ignore[method-assign]
    backend = server(fake, dialect="openai")
    for _ in range(2):
        write(backend, prompts_of(local, 1), Ancestral(), 1)
        (fault,), served = backend.provenance()["faults"], backend.provenance()["served"]
        assert "the server changed during the run" in fault
        assert "its replies name the model 'snapshot-1', then 'snapshot-2'" in fault
        assert served["answers_as"] == "snapshot-1"


def test_a_server_without_a_list_of_models_is_told(local):
    backend = server(Fake(Fault(no_list=True)), probe=True)
    write(backend, prompts_of(local, 1), Greedy(), 1)
    probed = backend.provenance()["served"]["probe"]
    assert "not checked: the model's name (/v1/models lists no models)" in probed


def test_a_fault_names_the_endpoint_what_it_means_and_what_to_set(local):
    backend = server(Fake(Fault(top_k=40)), probe=True)
    error = check_error(DataError, "", write, backend, prompts_of(local, 1), Nucleus(), 1)
    assert error.startswith("server http://fake (vllm 0.33.0) failed the sampling check: hidden sampling parameters: ")
    assert "possible causes: a hidden temperature, top-k" in error
    assert "--generation-config vllm" in error
    assert "model.probe=false skips the probe" in error
    assert "\n" not in error


def test_faults_that_come_later_are_found_in_the_replies(local):
    for fault, why in (
        (Fault(one_more=True), "ignores max_tokens"),
        (Fault(cut_prompt=1), "cuts prompts"),
        (Fault(bos=True), "before"),
        (Fault(other_text=True), "is not the text of its token ids"),
    ):
        with pytest.raises(DataError, match=rf"model docs-s \(vllm\): text t/\d/0: .*{why}"):
            write(server(Fake(fault)), prompts_of(local, 1), Ancestral(), 2)


def test_what_does_not_fit_and_what_it_cannot_do_is_refused(local):
    check_error(SpecError, "the longest prompt has", write, server(Fake(context=2)), prompts_of(local, 1), Greedy(), 1)
    check_error(SpecError, "cannot express beam", write, server(), prompts_of(local, 1), Beam(), 1)


@pytest.fixture(scope="module")
def rows(local) -> tuple[Ragged, Ragged]:
    """Texts of some length, one without a prompt, one without a token."""
    texts = [("Return the", " number of rows in the array."), ("", "The name of a file."), ("If not", "")]
    texts += [("x", " is a number")]
    return ragged([local.tokenizer.encode(p) for p, _ in texts]), ragged([local.tokenizer.encode(t) for _, t in texts])


@pytest.mark.parametrize("options", [{}, {"include_prompt": True}, {"bos": True}], ids=str)
def test_losses_are_those_of_the_model_itself(local, rows, options):
    ours = compute_token_nll(server(probe=True), scoring(*rows, batch_size=1, **options))
    theirs = compute_token_nll(local, scoring(*rows, batch_size=4, **options))
    assert ours.offsets.tolist() == theirs.offsets.tolist()
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-5)


def test_a_text_longer_than_the_context_is_read_in_windows(local, rows):
    """Windows of 12 where the server tells 13: the token that it writes behind a text takes a place."""
    fake = Fake(context=13)
    long = ragged([np.concatenate([rows[1][0]] * 4)])
    made = compute_token_nll(server(fake), scoring(ragged([[]]), long, batch_size=1))
    assert len(made.values) == len(long.values) - 1
    assert np.isfinite(made.values).all()
    assert max(len(b["prompt"]) for b in fake.bodies) == 12


def test_what_a_server_cannot_score_is_refused(rows):
    with pytest.raises(SpecError, match="the dialect llama_cpp gives no log-probabilities of a given text"):
        compute_token_nll(server(dialect="llama_cpp"), scoring(*rows, batch_size=1))
    with pytest.raises(SpecError, match="needs tokenizer=HUB_ID_OR_FOLDER"):
        compute_token_nll(server(tokenizer=None), scoring(*rows, batch_size=1))

    message = r"failed the sampling check: echo: it gives no log-probabilities of a given text"
    request, fault = scoring(*rows, batch_size=1), Fault(no_echo=True)
    check_error(DataError, message, compute_token_nll, server(Fake(fault), probe=True), request)
    with pytest.raises(DataError, match=r"text \d of 4: server \S+ it gives no log-probabilities"):
        compute_token_nll(server(Fake(fault)), request)


# Half, a fifth and a tenth are listed; a fifth of the mass is not.
LISTED = Listing(("a", "b", "c"), np.log([0.5, 0.2, 0.1]))


@cases(
    "decoder, tokens, q, after",
    (TopK(k=2), ["a", "b"], [5 / 7, 2 / 7], "c"),
    (TopK(k=3), ["a", "b", "c"], [5 / 8, 2 / 8, 1 / 8], None),
    (Nucleus(p=0.6), ["a", "b"], [5 / 7, 2 / 7], "c"),
    (Nucleus(p=0.75), ["a", "b", "c"], [5 / 8, 2 / 8, 1 / 8], None),
    (MinP(p=0.3), ["a", "b"], [5 / 7, 2 / 7], "c"),
    (Epsilon(eps=0.15), ["a", "b"], [5 / 7, 2 / 7], "c"),
    # 0.5² : 0.2² = 25 : 4
    (TopK(k=2, temperature=0.5), ["a", "b"], [25 / 29, 4 / 29], "c"),
    (Nucleus(p=0.6, temperature=0.5, temperature_order="after"), ["a", "b"], [25 / 29, 4 / 29], "c"),
)
def test_what_the_list_decides(decoder, tokens, q, after):
    head = compute_listed_q(decoder, LISTED, 100)
    assert head.decided
    assert list(head.tokens) == tokens
    np.testing.assert_allclose(head.q, q)
    assert (head.next, head.share) == (after, (1.0, 1.0))


def test_what_it_does_not_decide_has_bounds():
    # Two more of at most 0.1 each: 0.8 of 0.8 to 1.0.
    made = compute_listed_q(TopK(k=5), LISTED, 100)
    assert not made.decided
    assert made.share == pytest.approx((0.8, 1.0))
    # A nucleus of 0.9 holds 0.9 to 1.0.
    made = compute_listed_q(Nucleus(p=0.9), LISTED, 100)
    assert not made.decided
    assert made.share == pytest.approx((0.8, 0.8 / 0.9))
    assert not compute_listed_q(MinP(p=0.1), LISTED, 100).decided
    assert not compute_listed_q(Epsilon(eps=0.05), LISTED, 100).decided
    assert compute_listed_q(Ancestral(), LISTED, 100).share == pytest.approx((0.8, 0.8))


def test_a_temperature_before_the_cut_is_decided_where_both_bounds_agree():
    """Listed at T = 1/2: .25, .04, .01; 97 others add 0 to .97: the best holds .20 to .83 of the mass."""
    assert not compute_listed_q(Nucleus(p=0.5, temperature=0.5), LISTED, 100).decided
    made = compute_listed_q(Nucleus(p=0.15, temperature=0.5), LISTED, 100)
    assert made.decided
    assert made.tokens == ("a",)
