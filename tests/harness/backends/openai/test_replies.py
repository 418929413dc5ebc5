"""Replies are read in every server's form, and one that disagrees with its request is an error."""

from __future__ import annotations

import numpy as np
import pytest

from openended.harness.backends.openai.dialects import DIALECTS
from openended.harness.backends.openai.logprobs import read_echo
from openended.harness.backends.openai.replies import (
    find_prompt_fault,
    read_choices,
    read_completion,
    read_first_tokens,
    read_listings,
)
from openended.harness.backends.openai.requests import CompletionRequest, RequestBuilder
from openended.harness.core.errors import DataError
from openended.harness.models.spec import ModelSpec
from openended.harness.models.tokenizer import load_tokenizer

TOKENIZER = load_tokenizer(ModelSpec(path="bundled:docs-s"))
END = TOKENIZER.eos_ids[0]
PROMPT = "Return the"
IDS = tuple(TOKENIZER.encode(PROMPT))
WORDS = tuple(TOKENIZER.encode(" number of rows"))
VLLM = RequestBuilder(dialect=DIALECTS["vllm"], model="m", end_ids=(END,))
TEXTS = RequestBuilder(dialect=DIALECTS["tgi"], model="m", end_ids=(END,))


def ask(most: int, least: int = 0) -> CompletionRequest:
    return CompletionRequest(ids=IDS, text=PROMPT, max_tokens=most, min_tokens=least)


def reply(ids, reason, **more):
    usage = {"prompt_tokens": len(IDS), "completion_tokens": len(ids)}
    return {
        "choices": [{"token_ids": list(ids), "finish_reason": reason, "text": TOKENIZER.decode(ids), **more}],
        "usage": usage,
    }


def read(told, asked, speech=VLLM):
    return read_completion(told, speech, asked, TOKENIZER, PROMPT)


def test_a_text_and_its_end():
    made = read(reply((*WORDS, END), "stop"), ask(9))
    assert (made.ids, made.text, made.stop, made.encoded) == (WORDS, " number of rows", "eos", False)
    assert read(reply(WORDS, "length"), ask(len(WORDS))).stop == "length"


def test_a_text_without_ids_is_encoded_again_and_marked():
    told = reply(WORDS, "length")
    del told["choices"][0]["token_ids"]
    made = read(told, ask(len(WORDS)), TEXTS)
    assert (made.ids, made.encoded) == (WORDS, True)
    assert read_completion(told, TEXTS, ask(len(WORDS)), None, PROMPT).ids == ()


@pytest.mark.parametrize(
    ("told", "asked", "why"),
    [
        (reply(WORDS, "length"), ask(len(WORDS) - 1), "it keeps no max_tokens"),
        (reply(WORDS, "length"), ask(len(WORDS) + 1), "its own limit is lower"),
        (reply((*WORDS, END), "stop"), ask(40, least=20), "in spite of min_new_tokens=20"),
        (reply(WORDS, "content_filter"), ask(40), "finish_reason 'content_filter'"),
        (reply(WORDS, "stop", prompt_token_ids=[END, *IDS]), ask(40), "1 tokens of its own before the prompt"),
        (reply(WORDS, "stop", prompt_token_ids=list(IDS[1:])), ask(40), "it cuts prompts"),
        (reply(WORDS, "stop", prompt_token_ids=[*IDS[:-1], 1, 2]), ask(40), "another prompt than was sent"),
        ({**reply(WORDS, "stop"), "usage": {"prompt_tokens": 99}}, ask(40), "it read 99 tokens of a prompt of"),
        ({"choices": []}, ask(40), "holds no choices"),
    ],
)
def test_what_was_not_asked_for_is_an_error(told, asked, why):
    with pytest.raises(DataError, match=why):
        read(told, asked)


def test_lists_in_every_form():
    """vLLM with names of ids, OpenAI with texts, llama.cpp and chat endpoints with objects."""
    vllm = {"logprobs": {"top_logprobs": [{"token_id:7": -0.5, "token_id:9": -1.5, "token_id:1": -9.0}]}}
    (one,) = read_listings(vllm, 2)
    assert one is not None
    assert one.tokens == (7, 9)
    assert one.mass == pytest.approx(np.exp(-0.5) + np.exp(-1.5))
    openai = {"logprobs": {"tokens": [" a"], "top_logprobs": [{" a": -0.5, "\ufffd": -0.6, "": -1.0}]}}
    assert [x.tokens for x in read_listings(openai, 5) if x] == [(" a",)]
    content = {
        "logprobs": {"content": [{"token": "x", "id": 4, "top_logprobs": [{"token": "x", "id": 4, "logprob": -0.1}]}]}
    }
    assert [x.tokens for x in read_listings(content, 5) if x] == [(4,)]
    assert read_listings({"logprobs": None}, 5) == []
    assert read_first_tokens({"choices": [openai, content, {"token_ids": [3, 2]}, {"text": " z"}]}) == [
        " a",
        4,
        3,
        " z",
    ]
    assert len(read_choices({"choices": [{}]})) == 1


ECHO = CompletionRequest(ids=(5, 6, 7), text="", max_tokens=1, echo=True, listed=2)


def test_log_probabilities_of_a_text_in_every_form():
    vllm = {
        "choices": [
            {"prompt_logprobs": [None, {"6": {"logprob": -1.0}, "1": {"logprob": -0.5}}, {"7": {"logprob": -2.0}}]}
        ]
    }
    made = read_echo(vllm, VLLM, ECHO)
    assert np.isnan(made.log_probs[0])
    assert made.log_probs[1:].tolist() == [-1.0, -2.0]
    assert made.tops[1] is not None
    assert made.tops[1].tokens == (1, 6)
    legacy = {
        "choices": [
            {"logprobs": {"token_logprobs": [None, -1.0, -2.0, -9.0], "top_logprobs": [None, {"a": -1.0}, {}, {}]}}
        ]
    }
    assert read_echo(legacy, RequestBuilder(dialect=DIALECTS["openai"], model="m"), ECHO).log_probs[1:].tolist() == [
        -1.0,
        -2.0,
    ]
    sglang = RequestBuilder(dialect=DIALECTS["sglang"], model="m")
    meta = {"input_token_logprobs": [[None, 5, "a"], [-1.0, 6, "b"], [-2.0, 7, "c"]],
            "input_top_logprobs": [None, [[-0.5, 1, "x"], [-1.0, 6, "b"]], [[-0.1, 2, "y"]]]}  # fmt: skip
    told = read_echo({"meta_info": meta}, sglang, ECHO)
    assert told.log_probs[1:].tolist() == [-1.0, -2.0]
    assert told.tops[1] is not None
    assert told.tops[1].tokens == (1, 6)
    meta["input_token_logprobs"].insert(0, [None, 0, "<s>"])
    with pytest.raises(DataError, match="read other tokens than were sent: 4, 3 sent"):
        read_echo({"meta_info": meta}, sglang, ECHO)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"logprobs": None}, "gives no log-probabilities of a given text"),
        ({"prompt_logprobs": [None, {"6": {"logprob": -1.0}}]}, "of 2 tokens for a text of 3"),
        ({"prompt_logprobs": [None, {"9": {"logprob": -1.0}}, None]}, "lack the token 6"),
        ({"logprobs": {"token_logprobs": [None, None, -1.0]}}, "log-probability of token 1 of a text is None"),
        ({"logprobs": {"token_logprobs": [None, -1.0, float("nan")]}}, "of token 2 of a text is nan"),
        ({"logprobs": {"token_logprobs": [None, -1.0]}}, "of 2 tokens for a text of 3"),
    ],
)
def test_log_probabilities_that_are_none_are_an_error(told, why):
    with pytest.raises(DataError, match=why):
        read_echo({"choices": [told]}, VLLM, ECHO)


def test_nobody_can_tell_of_chats():
    assert (
        find_prompt_fault({"choices": [{}]}, RequestBuilder(dialect=DIALECTS["vllm"], model="m", chat=True), ask(3))
        is None
    )
