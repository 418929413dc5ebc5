"""The spec of a served model: what it refuses, what identifies it, and that no address or key does."""

import dataclasses

import pytest

from openended.harness.backends.openai.spec import ServerSpec
from openended.harness.core import DataError, SpecError, digest, load_members
from openended.harness.decoders.sampling import Ancestral, Nucleus, Temperature
from openended.harness.generation.beam_search import Beam
from openended.harness.models.spec import ModelSpec
from openended.harness.run.facts import _collect_model_axes as axes_of

SPEC = ServerSpec(path="org/docs-s", base_url="http://127.0.0.1:9/v1/", tokenizer="bundled:docs-s")
SECRET = "sk-0123456789abcdefghij"


def with_(**options) -> ServerSpec:
    return dataclasses.replace(SPEC, **options)


def test_it_is_a_model_and_says_what_it_is():
    assert load_members("model")["openai"] is ServerSpec
    assert SPEC.title == "docs-s (vllm)"
    assert with_(label="mine", dialect="sglang", chat=True).title == "mine (sglang chat)"
    assert SPEC.roots == ("http://127.0.0.1:9",)
    assert with_(endpoints=("http://a/", "https://b/v1")).roots == ("http://a", "https://b")
    assert with_(probe=False, chat=True, seeded=False).signature_note == "chat, not probed, no seeds"
    assert SPEC.signature_note == ""
    assert (SPEC.chat_template, SPEC.dtype) == (False, "as served")
    assert SPEC.context_length() is None  # nobody is there, which no plan minds
    SPEC.check_ready()
    with pytest.raises(DataError, match=r"no such folder|no tokenizer"):
        with_(tokenizer="./nowhere").check_ready()


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": f"http://user:{SECRET}@host:8000"},
        {"base_url": f"http://host:8000/v1?key={SECRET}"},
        {"api_key_env": SECRET},
    ],
    ids=["password", "query", "key"],
)
def test_a_key_in_the_wrong_place_is_refused_and_not_shown(options):
    with pytest.raises(SpecError) as caught:
        with_(**options)
    assert SECRET not in str(caught.value)


def test_how_it_is_reached_is_no_part_of_what_it_is():
    reached = with_(
        endpoints=("http://a", "http://b"), api_key_env="SOME_KEY", concurrency=2, timeout=1.0, retries=1,
        logprobs=5, label="docs-s",
    )  # fmt: skip
    assert reached.identity() == SPEC.identity()
    assert axes_of("model", reached) == axes_of("model", SPEC)
    assert "127.0.0.1" not in str(axes_of("model", SPEC))


@pytest.mark.parametrize(
    "options",
    [
        {"path": "org/docs-m"}, {"dialect": "sglang"}, {"tokenizer": None}, {"revision": "v2"}, {"server": "vllm 0.33.0"},
        {"chat": True}, {"chat": True, "instruction": "Go on."}, {"prompts_as_text": True}, {"seeded": False},
        {"probe": False},
    ],
    ids=str,
)  # fmt: skip
def test_what_can_move_a_text_moves_identity_and_axes(options):
    other = with_(**options)
    assert digest(other.identity()) != digest(SPEC.identity())
    assert axes_of("model", other) != axes_of("model", SPEC)


def test_a_server_never_shares_a_key_with_a_model_in_this_process():
    assert digest(SPEC.identity()) != digest(ModelSpec(path="bundled:docs-s").identity())
    assert SPEC.identity()["backend"] == "openai"


def test_abilities_by_dialect():
    assert (
        SPEC.cannot("generate", Nucleus()) is SPEC.cannot("score") is SPEC.cannot("q_statistics", Ancestral()) is None
    )
    assert "cannot express beam" in str(SPEC.cannot("generate", Beam()))
    assert "needs the whole distribution" in str(SPEC.cannot("q_statistics", Temperature()))
    assert "cannot do embed" in str(SPEC.cannot("embed"))
    assert "at its chat endpoint" in str(with_(chat=True).cannot("score"))
    assert "dialect transformers gives no log-probabilities" in str(with_(dialect="transformers").cannot("score"))
    with pytest.raises(
        SpecError, match=r"model docs-s \(openai\): the dialect openai does not support min_new_tokens=3"
    ):
        with_(dialect="openai").check_lengths(Nucleus(), max_new_tokens=9, min_new_tokens=3)
    assert SPEC.listed == 20
    assert with_(dialect="openai").listed == 5
