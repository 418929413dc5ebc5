"""What is sent: every parameter, in each server's words; what a server does not support is refused with what it can do."""

from __future__ import annotations

import json

import pytest

from openended.harness.backends.openai.dialects import DIALECTS, explain_min_tokens_refusal, explain_refusal
from openended.harness.backends.openai.requests import CompletionRequest, RequestBuilder
from openended.harness.backends.openai.sampling import NEUTRAL, Sampling, list_supported_decoders, make_sampling
from openended.harness.decoders.sampling import (
    Ancestral,
    Epsilon,
    Greedy,
    MinP,
    Nucleus,
    Temperature,
    TopK,
    TopNSigma,
    Typical,
)
from openended.harness.generation.beam_search import Beam
from openended.harness.generation.contrastive import ContrastiveSearch

ASK = CompletionRequest(ids=(5, 6), text="of a", max_tokens=9, seed=2**62 + 7)
NEUTRALS = {
    "vllm": {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0,
             "frequency_penalty": 0.0, "min_tokens": 0, "n": 1, "stop": [], "add_special_tokens": False, "ignore_eos": False},
    "sglang": {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "min_tokens": 0},
    "llama_cpp": {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "typical_p": 1.0, "repeat_penalty": 1.0,
                  "repeat_last_n": 0, "dry_multiplier": 0.0, "xtc_probability": 0.0, "mirostat": 0, "cache_prompt": False,
                  "samplers": ["temperature"], "seed": (2**62 + 7) % 2**31},
    "tgi": {"temperature": 1.0, "prompt": "of a"},
    "openai": {"temperature": 1.0, "top_p": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "n": 1, "best_of": 1},
    "transformers": {"prompt": "of a"},
}  # fmt: skip


def body(name: str, sampling: Sampling = NEUTRAL, **options):
    ask = CompletionRequest(**{**{f: getattr(ASK, f) for f in ASK.__slots__}, "sampling": sampling, **options})
    return RequestBuilder(dialect=DIALECTS[name], model="m", end_ids=(3,)).body(ask)


@pytest.mark.parametrize("name", DIALECTS)
def test_neutral_parameters_are_sent_too(name):
    made = body(name)
    assert NEUTRALS[name].items() <= made.items()
    assert made["max_tokens"] == 9
    assert made["model"] == "m"
    assert made["seed"] in (ASK.seed, ASK.seed % 2**31)
    assert made["prompt"] == ([5, 6] if DIALECTS[name].takes_ids else "of a")


def test_transformers_gets_its_parameters_in_a_config_or_its_own_would_count():
    made = json.loads(body("transformers", Sampling(top_p=0.9))["generation_config"])
    assert {
        "do_sample": True,
        "top_k": 0,
        "top_p": 0.9,
        "temperature": 1.0,
        "eos_token_id": [3],
    }.items() <= made.items()
    assert json.loads(body("transformers", Sampling(temperature=0.0))["generation_config"])["do_sample"] is False


def test_parameters_in_each_servers_words():
    assert body("llama_cpp", Sampling(temperature=0.7, top_p=0.9, order="after"))["samplers"] == [
        "top_p",
        "temperature",
    ]
    assert body("llama_cpp", Sampling(temperature=0.7, typical_p=0.9))["samplers"] == ["temperature", "typ_p"]
    assert body("llama_cpp", Sampling(repetition_penalty=1.2))["repeat_last_n"] == -1
    assert body("llama_cpp", min_tokens=9)["ignore_eos"] is True
    assert body("tgi", Sampling(top_p=0.9))["top_p"] == 0.9
    assert "top_p" not in body("tgi")  # TGI refuses its neutral value
    assert body("sglang", Sampling(top_k=3))["sampling_seed"] == ASK.seed
    speech = RequestBuilder(dialect=DIALECTS["openai"], model="m", chat=True, instruction="Go on.", seeded=False)
    made = speech.body(ASK)
    assert [m["role"] for m in made["messages"]] == ["system", "user"]
    assert made["messages"][1]["content"] == "of a"
    assert made["max_completion_tokens"] == 9
    assert "seed" not in made
    assert speech.path(ASK) == "/v1/chat/completions"
    echo = CompletionRequest(ids=(5, 6), text="", max_tokens=1, echo=True, listed=7)
    assert RequestBuilder(dialect=DIALECTS["vllm"], model="m").body(echo)["prompt_logprobs"] == 7
    sglang = RequestBuilder(dialect=DIALECTS["sglang"], model="m")
    assert sglang.path(echo) == "/generate"
    assert sglang.body(echo)["top_logprobs_num"] == 7
    assert RequestBuilder(dialect=DIALECTS["openai"], model="m").body(echo)["echo"] is True


def test_decoders_as_parameters():
    assert make_sampling(Nucleus(p=0.9, temperature=0.8)) == Sampling(temperature=0.8, top_p=0.9)
    assert make_sampling(TopK(k=7, temperature=0.8, temperature_order="after")) == Sampling(0.8, "after", top_k=7)
    assert make_sampling(Greedy()) == Sampling(temperature=0.0)
    assert make_sampling(Ancestral()) == NEUTRAL
    assert make_sampling(Temperature(temperature=0.5, temperature_order="after")) == Sampling(temperature=0.5)
    assert make_sampling(Beam()) is make_sampling(ContrastiveSearch()) is None
    assert list_supported_decoders(frozenset({"min_p"})) == ["ancestral", "greedy", "min_p", "temperature"]


@pytest.mark.parametrize(
    ("name", "decoder", "why"),
    [
        (
            "vllm",
            Beam(),
            "servers have no parameters for it; it can express ancestral, greedy, min_p, nucleus, temperature, top_k",
        ),
        ("vllm", Typical(), "it has no typical_p"),
        ("vllm", Nucleus(temperature=0.8, temperature_order="after"), "its temperature comes before the truncation"),
        ("sglang", Greedy(repetition_penalty=1.2), "it has no repetition_penalty that counts the prompt"),
        ("vllm", Greedy(no_repeat_ngram_size=3), "it has no no_repeat_ngram_size"),
        ("openai", TopK(), "it has no top_k; it can express ancestral, greedy, nucleus, temperature"),
        ("tgi", MinP(), "it has no min_p"),
        ("llama_cpp", Epsilon(), "it has no epsilon"),
    ],
)
def test_what_a_dialect_cannot_say_is_refused_with_what_it_can(name, decoder, why):
    said = explain_refusal(DIALECTS[name], decoder)
    assert said is not None
    assert said.startswith(f"the dialect {name} cannot express {decoder.title}: ")
    assert why in said


def test_what_a_dialect_can_say_is_not_refused():
    for name, decoder in (
        ("vllm", Nucleus(repetition_penalty=1.2)), ("llama_cpp", TopNSigma()), ("transformers", Epsilon()),
        ("llama_cpp", MinP(temperature=0.5, temperature_order="after")), ("tgi", Nucleus()), ("sglang", TopK()),
    ):  # fmt: skip
        assert explain_refusal(DIALECTS[name], decoder) is None


def test_shortest_texts():
    assert explain_min_tokens_refusal(DIALECTS["vllm"], 3, 9) is None
    assert explain_min_tokens_refusal(DIALECTS["llama_cpp"], 9, 9) is None
    assert "expected 0, or max_new_tokens" in str(explain_min_tokens_refusal(DIALECTS["llama_cpp"], 3, 9))
    assert (
        explain_min_tokens_refusal(DIALECTS["openai"], 9, 9)
        == "the dialect openai does not support min_new_tokens=9; expected 0"
    )
