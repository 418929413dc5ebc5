"""Build requests in each dialect; every parameter is sent, neutral ones too, so that server defaults never apply."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from openended.harness.backends.openai.bodies import MAX_REPLY
from openended.harness.backends.openai.dialects import Dialect
from openended.harness.backends.openai.sampling import NEUTRAL, Sampling

Body = dict[str, Any]
_ENTRY = 256  # bytes of one listed token in a reply, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """A completion to request, independent of the dialect."""

    ids: tuple[int, ...]
    """Token ids of the prompt with the beginning-of-text token; empty without a tokenizer."""
    text: str
    """The prompt as text, without that token; sent if the server accepts no ids."""
    max_tokens: int
    min_tokens: int = 0
    sampling: Sampling = NEUTRAL
    seed: int = 0
    copies: int = 1
    listed: int = 0
    """Most probable tokens to list at each position."""
    echo: bool = False
    """Whether to return the log-probabilities of the prompt's tokens."""

    @property
    def max_reply(self) -> int:
        """Maximum size of the reply in bytes."""
        positions = self.copies * self.max_tokens + (len(self.ids) if self.echo else 0)
        return MAX_REPLY + _ENTRY * positions * (self.listed + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestBuilder:
    """Builds the requests for one served model in its dialect."""

    dialect: Dialect
    model: str
    """The server's id of the model."""
    chat: bool = False
    instruction: str | None = None
    seeded: bool = True
    """Whether a seed is sent."""
    as_text: bool = False
    """Whether prompts are sent as text even if the server accepts ids."""
    end_ids: tuple[int, ...] = ()
    """Token ids that end a text."""
    vocab_size: int = 0
    """Number of token ids that a reply may hold; 0: unknown."""

    @property
    def sends_ids(self) -> bool:
        """Whether prompts are sent as token ids."""
        return self.dialect.takes_ids and not self.as_text and not self.chat

    def path(self, request: CompletionRequest) -> str:
        """Return the path of a request below the server's root."""
        if request.echo and self.dialect.name == "sglang":
            return "/generate"
        return "/v1/chat/completions" if self.chat else "/v1/completions"

    def body(self, request: CompletionRequest) -> Body:
        """Return the JSON body of a request."""
        if request.echo and self.dialect.name == "sglang":
            return _build_sglang_scoring(request)
        body: Body = {"model": self.model, **self._build_prompt(request), **_WORDS[self.dialect.name](self, request)}
        if self.seeded:
            body |= dict.fromkeys(_list_seed_names(self.dialect), request.seed % (1 << self.dialect.seed_bits))
        if request.listed or request.echo:
            body |= self._build_listing_fields(request)
        return body

    def _build_prompt(self, request: CompletionRequest) -> Body:
        if self.chat:
            before = [{"role": "system", "content": self.instruction}] if self.instruction else []
            return {"messages": [*before, {"role": "user", "content": request.text}]}
        return {"prompt": list(request.ids) if self.sends_ids else request.text}

    def _build_listing_fields(self, request: CompletionRequest) -> Body:
        if self.chat:
            return {"logprobs": True, "top_logprobs": request.listed}
        if self.dialect.name == "vllm":
            if request.echo:
                return {"prompt_logprobs": request.listed}
            return {"logprobs": request.listed, "return_tokens_as_token_ids": True}
        return {"logprobs": request.listed, **({"echo": True} if request.echo else {})}


def _list_seed_names(dialect: Dialect) -> tuple[str, ...]:
    return ("seed", "sampling_seed") if dialect.name == "sglang" else ("seed",)


def _make_neutral_penalties() -> Body:
    return {"presence_penalty": 0.0, "frequency_penalty": 0.0}


def _build_vllm(builder: RequestBuilder, request: CompletionRequest) -> Body:
    s = request.sampling
    return {
        "temperature": s.temperature, "top_p": s.top_p, "top_k": s.top_k, "min_p": s.min_p,
        "repetition_penalty": s.repetition_penalty, **_make_neutral_penalties(), "max_tokens": request.max_tokens,
        "min_tokens": request.min_tokens, "n": request.copies, "stop": [], "stop_token_ids": list(builder.end_ids),
        "ignore_eos": False, "skip_special_tokens": False, "return_token_ids": True, "stream": False,
        **({} if builder.chat else {"add_special_tokens": not builder.sends_ids, "echo": False}),
    }  # fmt: skip


def _build_sglang(builder: RequestBuilder, request: CompletionRequest) -> Body:
    s = request.sampling
    return {
        "temperature": s.temperature, "top_p": s.top_p, "top_k": s.top_k or -1, "min_p": s.min_p,
        "repetition_penalty": 1.0, **_make_neutral_penalties(), "max_tokens": request.max_tokens,
        "min_tokens": request.min_tokens, "n": 1,
        "stop": [], "stop_token_ids": list(builder.end_ids), "ignore_eos": False, "skip_special_tokens": False,
        "return_token_ids": True, "stream": False,
    }  # fmt: skip


def _build_sglang_scoring(request: CompletionRequest) -> Body:
    """Build the scoring request of SGLang, which has a separate address for it."""
    return {
        "input_ids": list(request.ids), "return_logprob": True, "logprob_start_len": 0,
        "top_logprobs_num": request.listed,
        "sampling_params": {"temperature": 0.0, "max_new_tokens": 1}, "stream": False,
    }  # fmt: skip


def _build_llama_cpp(builder: RequestBuilder, request: CompletionRequest) -> Body:  # noqa: ARG001 - all dialects are called alike
    s = request.sampling
    penalized = s.repetition_penalty != 1
    cut = [_LLAMA[name] for name in s.truncations]
    order = [*cut, "temperature"] if s.order == "after" else ["temperature", *cut]
    return {
        "temperature": s.temperature, "top_p": s.top_p, "top_k": s.top_k, "min_p": s.min_p, "typical_p": s.typical_p,
        "top_n_sigma": s.n_sigma or -1.0, "repeat_penalty": s.repetition_penalty, **_make_neutral_penalties(),
        "repeat_last_n": -1 if penalized else 0, "dry_multiplier": 0.0, "xtc_probability": 0.0, "dynatemp_range": 0.0,
        "mirostat": 0, "samplers": [*(["penalties"] if penalized else []), *order], "max_tokens": request.max_tokens,
        "ignore_eos": request.min_tokens > 0, "stop": [], "cache_prompt": False, "return_tokens": True,
        "post_sampling_probs": False, "stream": False,
    }  # fmt: skip


_LLAMA = {"top_k": "top_k", "top_p": "top_p", "min_p": "min_p", "typical_p": "typ_p", "n_sigma": "top_n_sigma"}


def _build_tgi(builder: RequestBuilder, request: CompletionRequest) -> Body:  # noqa: ARG001
    s = request.sampling
    # TGI refuses the neutral top_p, 1.0, and a frequency penalty of none is its default.
    cut = {"top_p": s.top_p} if s.top_p < 1 else {}
    return {"temperature": s.temperature, **cut, "max_tokens": request.max_tokens, "stream": False}


def _build_transformers(builder: RequestBuilder, request: CompletionRequest) -> Body:
    s = request.sampling
    config: Body = {
        "do_sample": not s.greedy, "temperature": s.temperature or 1.0, "top_k": s.top_k, "top_p": s.top_p,
        "min_p": s.min_p or None, "typical_p": s.typical_p, "epsilon_cutoff": s.epsilon, "eta_cutoff": s.eta,
        "repetition_penalty": s.repetition_penalty, "no_repeat_ngram_size": s.no_repeat_ngram_size, "num_beams": 1,
        "max_new_tokens": request.max_tokens, "min_new_tokens": request.min_tokens or None, "use_cache": True,
    }  # fmt: skip
    if builder.end_ids:
        config |= {"eos_token_id": list(builder.end_ids), "pad_token_id": builder.end_ids[0]}
    # The server takes missing options from the model's generation_config, such as a top-k of 50: send all of them.
    return {"generation_config": json.dumps(config), "max_tokens": request.max_tokens, "stream": False}


def _build_openai(builder: RequestBuilder, request: CompletionRequest) -> Body:
    s = request.sampling
    length = "max_completion_tokens" if builder.chat else "max_tokens"
    plain = {} if builder.chat else {"echo": False, "best_of": request.copies}
    return {
        "temperature": s.temperature, "top_p": s.top_p, **_make_neutral_penalties(), length: request.max_tokens,
        "n": request.copies, "stream": False, **plain,
    }  # fmt: skip


_WORDS: dict[str, Callable[[RequestBuilder, CompletionRequest], Body]] = {
    "vllm": _build_vllm, "sglang": _build_sglang, "llama_cpp": _build_llama_cpp, "tgi": _build_tgi,
    "transformers": _build_transformers, "openai": _build_openai,
}  # fmt: skip
