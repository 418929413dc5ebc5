"""Scores through a server are those of the model itself; statistics of Q are exact where the lists decide them, or none."""

from __future__ import annotations

import numpy as np
import pytest

from openended.harness.backends.transformers import TransformersBackend
from openended.harness.core.errors import DataError, SpecError, UndefinedMetric
from openended.harness.core.types import Ragged
from openended.harness.decoders.base import QDecoder
from openended.harness.decoders.sampling import Ancestral, Epsilon, Greedy, MinP, Nucleus, Temperature, TopK, Typical
from openended.harness.models.spec import ModelSpec
from tests.harness.backends.openai.fake import ID, Fake, Fault, server
from tests.helpers import q_request, ragged, scoring


@pytest.fixture(scope="module")
def local() -> TransformersBackend:
    made = ModelSpec(path=f"bundled:{ID}").load()
    assert isinstance(made, TransformersBackend)
    return made


@pytest.fixture(scope="module")
def rows(local) -> tuple[Ragged, Ragged]:
    """Texts of some length, one without a prompt, one without a token."""
    texts = [
        ("Return the", " number of rows in the array."),
        ("", "The name of a file."),
        ("If not", ""),
        ("x", " is a number"),
    ]
    return ragged([local.encode(p) for p, _ in texts]), ragged([local.encode(t) for _, t in texts])


@pytest.mark.parametrize("options", [{}, {"include_prompt": True}, {"bos": True}], ids=str)
def test_losses_are_those_of_the_model_itself(local, rows, options):
    ours, theirs = (
        server(probe=True).score(scoring(*rows, batch_size=1, **options)),
        local.score(scoring(*rows, batch_size=4, **options)),
    )
    assert ours.offsets.tolist() == theirs.offsets.tolist()
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-5)


def test_a_text_longer_than_the_context_is_read_in_windows(local, rows):
    """Windows of 12 where the server tells 13: the token that it writes behind a text takes a place."""
    fake = Fake(context=13)
    long = ragged([np.concatenate([rows[1][0]] * 4)])
    made = server(fake).score(scoring(ragged([[]]), long, batch_size=1))
    assert len(made.values) == len(long.values) - 1
    assert np.isfinite(made.values).all()
    assert max(len(b["prompt"]) for b in fake.bodies) == 12


CERTAIN: list[tuple[QDecoder, int]] = [
    (Greedy(), 2), (TopK(k=5), 6), (TopK(k=5, temperature=0.7), 6), (TopK(k=5, temperature=0.7, temperature_order="after"), 6),
    (MinP(p=0.5), 20), (MinP(p=0.5, temperature=1.5), 20), (Epsilon(eps=0.03), 20), (Nucleus(p=0.02), 20),
    (Nucleus(p=0.9), 4000), (Nucleus(p=0.9, temperature=0.7), 4000), (MinP(p=0.001), 4000),
]  # fmt: skip


@pytest.mark.thin(2)
@pytest.mark.parametrize(("decoder", "listed"), CERTAIN, ids=[f"{d.title} {n}" for d, n in CERTAIN])
@pytest.mark.parametrize("least", [0, 3])
def test_certified_statistics_are_those_of_the_model_itself(local, rows, decoder, listed, least):
    (ours,) = server(logprobs=listed).q_statistics(q_request(*rows, [decoder], min_new_tokens=least, batch_size=1))
    (theirs,) = local.q_statistics(q_request(*rows, [decoder], min_new_tokens=least, batch_size=4))
    np.testing.assert_allclose(ours.gold_prob, theirs.gold_prob, atol=1e-5)
    np.testing.assert_allclose(ours.sum_sq, theirs.sum_sq, atol=1e-5)
    assert ours.support.tolist() == theirs.support.tolist()
    assert ours.argmax.tolist() == theirs.argmax.tolist()
    assert (ours.vocab_size, ours.gold.tolist()) == (theirs.vocab_size, theirs.gold.tolist())


def test_ancestral_needs_no_list_but_has_no_squares(local, rows):
    (ours,) = server().q_statistics(q_request(*rows, [Ancestral()], batch_size=1))
    (theirs,) = local.q_statistics(q_request(*rows, [Ancestral()], batch_size=4))
    np.testing.assert_allclose(ours.gold_prob, theirs.gold_prob, rtol=1e-5, atol=1e-6)
    assert ours.argmax.tolist() == theirs.argmax.tolist()
    assert np.isnan(ours.sum_sq).all()


def test_what_the_lists_do_not_decide_is_nothing_with_its_share(rows):
    with pytest.raises(UndefinedMetric, match=r"do not determine Q at \d+ of \d+ positions \(\d+\.\d%\)"):
        server().q_statistics(q_request(*rows, [Nucleus(p=0.99)], batch_size=1))
    with pytest.raises(UndefinedMetric, match=r"\(100.0%\)"):  # the end of text is forbidden, and not listed
        server(logprobs=1).q_statistics(q_request(*rows, [Ancestral()], min_new_tokens=99, batch_size=1))


def test_what_no_list_can_decide_is_refused(rows):
    for decoder in (Typical(), Temperature(temperature=0.5), Greedy(repetition_penalty=1.2)):
        with pytest.raises(SpecError, match=r"needs? the whole distribution"):
            server().q_statistics(q_request(*rows, [decoder], batch_size=1))
    with pytest.raises(SpecError, match="the dialect llama_cpp gives no log-probabilities of a given text"):
        server(dialect="llama_cpp").score(scoring(*rows, batch_size=1))
    with pytest.raises(SpecError, match="needs tokenizer=HUB_ID_OR_FOLDER"):
        server(tokenizer=None).score(scoring(*rows, batch_size=1))


def test_a_server_that_cannot_score_is_told_at_once(rows):
    with pytest.raises(
        DataError, match=r"failed the sampling check: echo: it gives no log-probabilities of a given text"
    ):
        server(Fake(Fault(no_echo=True)), probe=True).score(scoring(*rows, batch_size=1))
    with pytest.raises(DataError, match=r"text \d of 4: server \S+ it gives no log-probabilities"):
        server(Fake(Fault(no_echo=True))).score(scoring(*rows, batch_size=1))
