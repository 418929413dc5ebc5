"""What servers are sent and how their replies are read, in each dialect's words."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from openended.harness.backends.openai import dialects, replies
from openended.harness.backends.openai.dialects import DIALECTS, NEUTRAL, CompletionRequest, Sampling
from openended.harness.backends.openai.spec import ServerSpec
from openended.harness.core import SpecError, load_members
from openended.harness.core.errors import DataError
from openended.harness.decoders import sampling as samplers
from openended.harness.decoders.sampling import Ancestral, Greedy, Nucleus, TopK
from openended.harness.generation.beam_search import Beam
from openended.harness.generation.contrastive import ContrastiveSearch
from openended.harness.models import load_tokenizer
from openended.harness.models.spec import ModelSpec
from openended.harness.run.axes import collect_model_axes as axes_of
from tests.helpers import cases, check_error

# What servers are sent and how their replies are read, in each dialect's words

ASK = CompletionRequest(ids=(5, 6), text="of a", max_tokens=9, seed=2**62 + 7)
NEUTRALS = {
    "vllm": {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0,
             "frequency_penalty": 0.0, "min_tokens": 0, "n": 1, "stop": [], "add_special_tokens": False, "ignore_eos": False},
    "sglang": {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "min_tokens": 0},
    "llama_cpp": {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "typical_p": 1.0, "repeat_penalty": 1.0,
                  "repeat_last_n": 0, "dry_multiplier": 0.0, "xtc_probability": 0.0, "mirostat": 0, "cache_prompt": False,
                  "samplers": ["temperature"], "seed": (2**62 + 7) % 2**31},
    "openai": {"temperature": 1.0, "top_p": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "n": 1, "best_of": 1},
    "transformers": {"prompt": "of a"},
}  # fmt: skip


def body(name: str, sampling: Sampling = NEUTRAL, **options: Any) -> dict[str, Any]:
    request = CompletionRequest(**{**{f: getattr(ASK, f) for f in ASK.__slots__}, "sampling": sampling, **options})
    served = dialects.ServedModel(name="m", sends_ids=DIALECTS[name].takes_ids, end_ids=(3,))
    return DIALECTS[name].body(served, request)


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
    expected = {"do_sample": True, "top_k": 0, "top_p": 0.9, "temperature": 1.0, "eos_token_id": [3]}
    assert expected.items() <= made.items()
    assert json.loads(body("transformers", Sampling(temperature=0.0))["generation_config"])["do_sample"] is False


SPEECH = dialects.ServedModel(name="m", chat=True, instruction="Go on.", seeded=False, sends_ids=False)


def test_parameters_in_each_servers_words():
    llama = {"temperature": 0.7}
    assert body("llama_cpp", Sampling(**llama, top_p=0.9, order="after"))["samplers"] == ["top_p", "temperature"]
    assert body("llama_cpp", Sampling(**llama, typical_p=0.9))["samplers"] == ["temperature", "typ_p"]
    assert body("llama_cpp", Sampling(repetition_penalty=1.2))["repeat_last_n"] == -1
    assert body("llama_cpp", min_tokens=9)["ignore_eos"] is True
    assert body("sglang", Sampling(top_k=3))["sampling_seed"] == ASK.seed
    made = DIALECTS["openai"].body(SPEECH, ASK)
    assert [m["role"] for m in made["messages"]] == ["system", "user"]
    assert made["messages"][1]["content"] == "of a"
    assert made["max_completion_tokens"] == 9
    assert "seed" not in made
    assert DIALECTS["openai"].path(SPEECH, ASK) == "/v1/chat/completions"
    echo = {"echo": True, "listed": 7, "max_tokens": 1}
    assert body("vllm", **echo)["prompt_logprobs"] == 7
    assert DIALECTS["sglang"].path(dialects.ServedModel(name="m"), ECHO) == "/generate"
    assert body("sglang", **echo)["top_logprobs_num"] == 7
    assert body("openai", **echo)["echo"] is True


def test_decoders_as_parameters():
    assert dialects.make_sampling(Nucleus(p=0.9, temperature=0.8)) == Sampling(temperature=0.8, top_p=0.9)
    later = TopK(k=7, temperature=0.8, temperature_order="after")
    assert dialects.make_sampling(later) == Sampling(0.8, "after", top_k=7)
    assert dialects.make_sampling(Greedy()) == Sampling(temperature=0.0)
    assert dialects.make_sampling(samplers.Ancestral()) == NEUTRAL
    alone = samplers.Temperature(temperature=0.5, temperature_order="after")
    assert dialects.make_sampling(alone) == Sampling(temperature=0.5)
    assert dialects.make_sampling(Beam()) is dialects.make_sampling(ContrastiveSearch()) is None
    assert dialects.list_supported_decoders(frozenset({"min_p"})) == ["ancestral", "greedy", "min_p", "temperature"]


@cases(
    "name, decoder, why",
    (
        "vllm",
        Beam(),
        "servers have no parameters for it; it can express ancestral, greedy, min_p, nucleus, temperature, top_k",
    ),
    ("vllm", samplers.Typical(), "it has no typical_p"),
    ("vllm", Nucleus(temperature=0.8, temperature_order="after"), "its temperature comes before the truncation"),
    ("sglang", Greedy(repetition_penalty=1.2), "it has no repetition_penalty that counts the prompt"),
    ("vllm", Greedy(no_repeat_ngram_size=3), "it has no no_repeat_ngram_size"),
    ("openai", TopK(), "it has no top_k; it can express ancestral, greedy, nucleus, temperature"),
    ("openai", samplers.MinP(), "it has no min_p"),
    ("llama_cpp", samplers.Epsilon(), "it has no epsilon"),
)
def test_what_a_dialect_cannot_say_is_refused_with_what_it_can(name, decoder, why):
    refusal = dialects.explain_refusal(DIALECTS[name], decoder)
    assert refusal is not None
    assert refusal.startswith(f"the dialect {name} cannot express {decoder.title}: ")
    assert why in refusal


def test_shortest_texts():
    assert dialects.explain_min_tokens_refusal(DIALECTS["vllm"], 3, 9) is None
    assert dialects.explain_min_tokens_refusal(DIALECTS["llama_cpp"], 9, 9) is None
    assert "expected 0, or max_new_tokens" in str(dialects.explain_min_tokens_refusal(DIALECTS["llama_cpp"], 3, 9))
    refusal = "the dialect openai does not support min_new_tokens=9; expected 0"
    assert dialects.explain_min_tokens_refusal(DIALECTS["openai"], 9, 9) == refusal


TOKENIZER = load_tokenizer(ModelSpec(path="bundled:docs-s"))
END = TOKENIZER.eos_ids[0]
PROMPT = "Return the"
IDS = tuple(TOKENIZER.encode(PROMPT))
WORDS = tuple(TOKENIZER.encode(" number of rows"))
VLLM = dialects.ServedModel(name="m", end_ids=(END,))
ECHO = CompletionRequest(ids=(5, 6, 7), text="", max_tokens=1, echo=True, listed=2)


def ask(most: int, least: int = 0) -> CompletionRequest:
    return CompletionRequest(ids=IDS, text=PROMPT, max_tokens=most, min_tokens=least)


def reply(ids: tuple[int, ...], reason: str, **more: Any) -> dict[str, Any]:
    choice = {"token_ids": list(ids), "finish_reason": reason, "text": TOKENIZER.decode(ids), **more}
    return {"choices": [choice], "usage": {"prompt_tokens": len(IDS), "completion_tokens": len(ids)}}


def make_reply(**message: Any) -> dict[str, Any]:
    return {"choices": [{"finish_reason": "stop", "message": {"content": None, **message}}]}


def read(value: Any, request: CompletionRequest, tokenizer: Any = TOKENIZER) -> Any:
    checked = replies.read_reply(DIALECTS["vllm"], VLLM, request, value)
    return replies.read_completion(checked, VLLM, request, tokenizer, PROMPT)


def parse(*choices: Any) -> replies.Reply:
    request = CompletionRequest(ids=(), text="", max_tokens=9, copies=9)
    return replies.read_reply(DIALECTS["openai"], VLLM, request, {"choices": list(choices)})


def test_a_text_and_its_end():
    made = read(reply((*WORDS, END), "stop"), ask(9))
    assert (made.ids, made.text, made.stop, made.encoded) == (WORDS, " number of rows", "eos", False)
    assert read(reply(WORDS, "length"), ask(len(WORDS))).stop == "length"
    assert read(reply(WORDS, "eos_token"), ask(9)).stop == "eos"
    assert read(make_reply(refusal="I will not."), ask(9)).text == "I will not."
    assert read(reply(WORDS, "stop") | {"usage": {"prompt_tokens": 0}}, ask(9)).ids == WORDS
    assert read(reply(WORDS, "stop", text=None, message={"content": " number of rows"}), ask(9)).ids == WORDS


def test_a_text_without_ids_is_encoded_again_and_marked():
    value = reply(WORDS, "length")
    del value["choices"][0]["token_ids"]
    made = read(value, ask(len(WORDS)))
    assert (made.ids, made.encoded) == (WORDS, True)
    assert read(value, ask(len(WORDS)), None).ids == ()
    value["usage"] = {}
    assert read(value, ask(len(WORDS))).ids == WORDS
    value["choices"][0]["text"] *= 9
    check_error(DataError, "field text: about 27 tokens where 3 were asked for", read, value, ask(len(WORDS)))


def test_llama_cpp_names_its_tokens_with_their_log_probabilities():
    value = reply((*WORDS, END), "stop", token_ids=None, logprobs={"content": [{"id": i} for i in (*WORDS, END)]})
    made = read(value, ask(9))
    assert (made.ids, made.stop, made.encoded) == (WORDS, "eos", False)
    assert (body("llama_cpp")["n_probs"], body("llama_cpp", listed=7)["n_probs"]) == (1, 7)
    value["choices"][0]["logprobs"]["content"][0].pop("id")
    assert read(value, ask(9)).encoded


@cases(
    "value, request_, why",
    (reply(WORDS, "length"), ask(len(WORDS) - 1), "it ignores max_tokens"),
    (reply(WORDS, "length"), ask(len(WORDS) + 1), "its own limit is lower"),
    (reply((*WORDS, END), "stop"), ask(40, least=20), "in spite of min_new_tokens=20"),
    (reply(WORDS, "content_filter"), ask(40), "finish_reason 'content_filter'"),
    ({"choices": [{"finish_reason": "stop", "delta": {"content": "hi"}}]}, ask(40), "neither the field text nor"),
    ({"choices": [{"finish_reason": "stop", "message": "hi"}]}, ask(40), "message: expected an object, got str"),
    (make_reply(tool_calls=[{"type": "function"}]), ask(40), "calls a tool instead of writing a text"),
    (make_reply(function_call={"name": "f"}), ask(40), "calls a tool instead of writing a text"),
    (reply(WORDS, "stop", message={"content": "other"}), ask(40), "expected one text"),
    (make_reply(content=[{"type": "image_url", "image_url": {}}]), ask(40), "expected parts with a text, got"),
    (make_reply(content=[{"type": "thinking", "thinking": 3}]), ask(40), "content: expected text, got int"),
    ({"choices": [{"finish_reason": ["stop"], "text": "hi"}]}, ask(40), r"finish_reason \['stop'\]"),
    (reply(WORDS, "stop", prompt_token_ids=[END, *IDS]), ask(40), "1 tokens of its own before the prompt"),
    (reply(WORDS, "stop", prompt_token_ids=list(IDS[1:])), ask(40), "it cuts prompts"),
    (reply(WORDS, "stop", prompt_token_ids=[*IDS[:-1], 1, 2]), ask(40), "another prompt than was sent"),
    ({**reply(WORDS, "stop"), "usage": {"prompt_tokens": 99}}, ask(40), "it read 99 tokens of a prompt of"),
    ({"choices": []}, ask(40), "holds no choices"),
)
def test_what_was_not_asked_for_is_an_error(value, request_, why):
    check_error(DataError, why, read, value, request_)


def test_the_prompt_of_a_chat_cannot_be_compared():
    value = reply(WORDS, "stop", prompt_token_ids=[1])
    assert replies.read_completion(parse(*value["choices"]), SPEECH, ask(40), TOKENIZER, PROMPT).ids == WORDS


def test_lists_in_every_form():
    """vLLM with names of ids, OpenAI with texts, llama.cpp and chat endpoints with objects."""
    vllm = {"logprobs": {"top_logprobs": [{"token_id:7": -0.5, "token_id:9": -1.5, "token_id:1": -9.0}]}}
    openai = {"logprobs": {"tokens": [" a"], "top_logprobs": [{" a": -0.5, "\ufffd": -0.6, "": -1.0}]}}
    entry = {"token": "x", "id": 4}
    content = {"logprobs": {"content": [{**entry, "top_logprobs": [{**entry, "logprob": -0.1}]}]}}
    many = parse(vllm, openai, content, {"logprobs": None}, {"token_ids": [3, 2]}, {"text": " z"})
    (one,), second, third, none, *_ = (replies.read_listings(choice, 2) for choice in many.choices)
    assert one is not None
    assert one.tokens == (7, 9)
    assert one.mass == pytest.approx(np.exp(-0.5) + np.exp(-1.5))
    assert [x.tokens for x in (*second, *third) if x] == [(" a",), (4,)]
    assert none == []
    assert replies.read_first_tokens(many)[1:] == [" a", 4, "", 3, " z"]
    with pytest.raises(DataError, match=r"expected log-probabilities of 0 or less, got 0\.5"):
        replies.read_listings(parse({"logprobs": {"top_logprobs": [{"a": 0.5}]}}).choices[0], 2)
    with pytest.raises(DataError, match="another form than expected"):
        replies.read_listings(parse({"logprobs": {"top_logprobs": [7]}}).choices[0], 2)


def read_log_probs(name: str, value: dict[str, Any]) -> Any:
    checked = replies.read_reply(DIALECTS[name], VLLM, ECHO, value)
    return replies.read_prompt_log_probs(DIALECTS[name], VLLM, ECHO, checked)


SGLANG = {
    "input_token_logprobs": [[None, 5, "a"], [-1.0, 6, "b"], [-2.0, 7, "c"]],
    "input_top_logprobs": [None, [[-0.5, 1, "x"], [-1.0, 6, "b"]], [[-0.1, 2, "y"]]],
}
LEGACY = {"token_logprobs": [None, -1.0, -2.0, -9.0], "top_logprobs": [None, {"a": -1.0, "b": -0.5}, {}, {}]}
ROWS = [None, {"6": {"logprob": -1.0}, "1": {"logprob": -0.5}}, {"7": {"logprob": -2.0}}]


@cases(
    "name, value",
    ("vllm", {"choices": [{"prompt_logprobs": ROWS}]}),
    ("vllm", {"choices": [{}], "prompt_logprobs": ROWS}),
    ("openai", {"choices": [{"logprobs": LEGACY}]}),
    ("sglang", {"meta_info": SGLANG}),
)
def test_log_probabilities_of_a_text_in_every_form(name, value):
    log_probs = read_log_probs(name, value)
    assert np.isnan(log_probs[0])
    assert log_probs[1:].tolist() == [-1.0, -2.0]


@cases(
    "choice, why",
    ({"logprobs": None}, "gives no log-probabilities of a given text"),
    ({"prompt_logprobs": [None, {"6": {"logprob": -1.0}}]}, "of 2 tokens for a text of 3"),
    ({"prompt_logprobs": [None, {"9": {"logprob": -1.0}}, None]}, "lack the token 6"),
    ({"logprobs": {"token_logprobs": [None, None, -1.0]}}, "log-probability of token 1 of a text is None"),
    ({"logprobs": {"token_logprobs": [None, -1.0, float("nan")]}}, "of token 2 of a text is nan"),
    ({"logprobs": {"token_logprobs": [None, -1.0, 0.1]}}, "of token 2 of a text is 0.1; expected one below 0"),
    ({"logprobs": {"token_logprobs": [None, -1.0]}}, "of 2 tokens for a text of 3"),
)
def test_log_probabilities_that_are_none_are_an_error(choice, why):
    check_error(DataError, why, read_log_probs, "vllm", {"choices": [choice]})


def test_sglang_must_have_read_the_tokens_that_were_sent():
    rows = [[None, 0, "<s>"], *SGLANG["input_token_logprobs"]]
    with pytest.raises(DataError, match="read other tokens than were sent: 4, 3 sent"):
        read_log_probs("sglang", {"meta_info": {"input_token_logprobs": rows}})
    check_error(DataError, "gives no log-probabilities", read_log_probs, "sglang", {"meta_info": {}})


# The spec of a served model: what it refuses, what identifies it, and that no address or key does

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
    check_error(DataError, r"no such folder|no tokenizer", with_(tokenizer="./nowhere").check_ready)


@cases(
    "options",
    {"base_url": f"http://user:{SECRET}@host:8000"},
    {"base_url": f"http://host:8000/v1?key={SECRET}"},
    {"api_key_env": SECRET},
    ids=["password", "query", "key"],
)
def test_a_key_in_the_wrong_place_is_refused_and_not_shown(options):
    assert SECRET not in check_error(SpecError, "", with_, **options)


def test_how_it_is_reached_is_no_part_of_what_it_is():
    reached = with_(
        endpoints=("http://a", "http://b"), api_key_env="SOME_KEY", concurrency=2, timeout=1.0, retries=1,
        logprobs=5, label="docs-s",
    )  # fmt: skip
    assert reached.identity() == SPEC.identity()
    assert axes_of("model", reached) == axes_of("model", SPEC)
    assert "127.0.0.1" not in str(axes_of("model", SPEC))


def test_abilities_by_dialect():
    assert SPEC.cannot("generate", Nucleus()) is SPEC.cannot("score") is None
    assert "cannot express beam" in str(SPEC.cannot("generate", Beam()))
    assert "needs the whole distribution" in str(SPEC.cannot("q_statistics", Ancestral()))
    assert "cannot do embed" in str(SPEC.cannot("embed"))
    assert "at its chat endpoint" in str(with_(chat=True).cannot("score"))
    assert "dialect transformers gives no log-probabilities" in str(with_(dialect="transformers").cannot("score"))
    with pytest.raises(
        SpecError, match=r"model docs-s \(openai\): the dialect openai does not support min_new_tokens=3"
    ):
        with_(dialect="openai").check_lengths(Nucleus(), max_new_tokens=9, min_new_tokens=3)
    assert SPEC.listed == 20
    assert with_(dialect="openai").listed == 5
