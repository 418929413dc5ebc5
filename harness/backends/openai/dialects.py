"""Dialects of servers: the parameters that each kind supports, its requests and its replies.

Every parameter is sent, neutral ones too, so that a server's own defaults never apply.

Sources: the servers' own code and documentation as of vLLM 0.33, SGLang 0.5.23, llama.cpp's server, TGI (in
maintenance), transformers serve 5.23 and the OpenAI reference.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from openended.harness.backends.openai.replies import (
    PromptLogProbs,
    Reply,
    parse_reply,
    read_prompt_log_probs,
    read_sglang_log_probs,
    require_object,
)
from openended.harness.backends.openai.requests import (
    NEUTRAL,
    CompletionRequest,
    Sampling,
    ServedModel,
    list_supported_decoders,
    make_sampling,
)
from openended.harness.core import DataError
from openended.harness.decoders import Decoder

DialectName = Literal["vllm", "sglang", "llama_cpp", "tgi", "transformers", "openai"]
Body = dict[str, Any]
_NO_PENALTIES = {"presence_penalty": 0.0, "frequency_penalty": 0.0}


class Dialect:
    """What one kind of server supports, what it is sent, and how its replies are read."""

    name: DialectName
    truncations: frozenset[str]
    """Parameters of `Sampling` in addition to the temperature that it knows."""
    penalties: frozenset[str] = frozenset()
    orders: frozenset[str] = frozenset({"before"})
    """Where the temperature may stand."""
    sampler: str
    """The order of its sampler, in words; part of the model's identity."""
    shortest: Literal["any", "all", "none"] = "none"
    """`min_new_tokens` that it keeps: any; 0 or all (it can forbid the end of text altogether); none but 0."""
    takes_ids: bool = True
    """Prompts may be token ids."""
    listed: int = 0
    """Most probable tokens that a reply lists with their log-probabilities, as servers can be set to; 0: none."""
    keyed_by_text: bool = False
    """The list names tokens by their texts, which two tokens can share."""
    echoes: bool = False
    """Gives the log-probabilities of a given text."""
    names_model: bool = False
    """Its replies name the model as it was requested."""
    copies: bool = False
    """Several independent draws in one request."""
    serial: bool = False
    """Its seed is one for all requests: only one may be under way."""
    seed_names: tuple[str, ...] = ("seed",)
    seed_bits: int = 63
    hint: str
    """What to set where it samples otherwise than asked."""
    product: str
    version_path: str | None = None
    """Where it tells its version; None: nowhere."""
    version_field: str = "version"

    def path(self, served: ServedModel, request: CompletionRequest) -> str:
        """Return the path of a request below the server's root."""
        del request
        return "/v1/chat/completions" if served.chat else "/v1/completions"

    def body(self, served: ServedModel, request: CompletionRequest) -> Body:
        """Return the JSON body of a request."""
        body: Body = {"model": served.name}
        if served.chat:
            before = [{"role": "system", "content": served.instruction}] if served.instruction else []
            body["messages"] = [*before, {"role": "user", "content": request.text}]
        else:
            body["prompt"] = list(request.ids) if served.sends_ids else request.text
        body |= self.build_options(served, request)
        if served.seeded:
            body |= dict.fromkeys(self.seed_names, request.seed % (1 << self.seed_bits))
        if request.listed or request.echo:
            body |= self.build_listing(served, request)
        return body

    def build_options(self, served: ServedModel, request: CompletionRequest) -> Body:
        """Return the parameters of sampling and length."""
        raise NotImplementedError

    def build_listing(self, served: ServedModel, request: CompletionRequest) -> Body:
        """Return the parameters that ask for log-probabilities."""
        if served.chat:
            return {"logprobs": True, "top_logprobs": request.listed}
        return {"logprobs": request.listed, **({"echo": True} if request.echo else {})}

    def read(self, served: ServedModel, request: CompletionRequest, value: Any) -> Reply:  # noqa: ANN401 - JSON
        """Return a reply; an error if it cannot belong to the request."""
        model = require_object(value).get("model")
        if self.names_model and model is not None and model != served.name:
            raise DataError(f"field model: it answers for {str(model)[:80]!r}, {served.name!r} was requested")
        return parse_reply(value, served, request)

    def read_log_probs(self, served: ServedModel, request: CompletionRequest, reply: Reply) -> PromptLogProbs:
        """Return the log-probabilities of the prompt's tokens."""
        return read_prompt_log_probs(reply, served, request)


class _Vllm(Dialect):
    name = "vllm"
    truncations = frozenset({"top_k", "top_p", "min_p"})
    penalties = frozenset({"repetition_penalty"})
    sampler = "penalties, temperature, min_p, top_k, top_p"
    shortest = "any"
    listed = 10_000
    echoes = copies = names_model = True
    hint = (
        "start it with --generation-config vllm and without --override-generation-config, --logits-processors and "
        "--logprobs-mode processed_*"
    )
    product, version_path = "vllm", "/version"

    def build_options(self, served: ServedModel, request: CompletionRequest) -> Body:
        s = request.sampling
        return {
            "temperature": s.temperature, "top_p": s.top_p, "top_k": s.top_k, "min_p": s.min_p,
            "repetition_penalty": s.repetition_penalty, **_NO_PENALTIES, "max_tokens": request.max_tokens,
            "min_tokens": request.min_tokens, "n": request.copies, "stop": [], "stop_token_ids": list(served.end_ids),
            "ignore_eos": False, "skip_special_tokens": False, "return_token_ids": True, "stream": False,
            **({} if served.chat else {"add_special_tokens": not served.sends_ids, "echo": False}),
        }  # fmt: skip

    def build_listing(self, served: ServedModel, request: CompletionRequest) -> Body:
        if served.chat:
            return super().build_listing(served, request)
        if request.echo:
            return {"prompt_logprobs": request.listed}
        return {"logprobs": request.listed, "return_tokens_as_token_ids": True}


class _Sglang(Dialect):
    name = "sglang"
    truncations = frozenset({"top_k", "top_p", "min_p"})
    sampler = "temperature, top_k, top_p, min_p"
    shortest = "any"
    listed = 10_000
    keyed_by_text = echoes = names_model = True
    seed_names = ("seed", "sampling_seed")
    hint = "start it with --sampling-defaults openai, and with --enable-deterministic-inference for seeds"
    product, version_path = "sglang", "/get_server_info"

    def path(self, served: ServedModel, request: CompletionRequest) -> str:
        return "/generate" if request.echo else super().path(served, request)

    def body(self, served: ServedModel, request: CompletionRequest) -> Body:
        if not request.echo:
            return super().body(served, request)
        return {
            "input_ids": list(request.ids), "return_logprob": True, "logprob_start_len": 0,
            "top_logprobs_num": request.listed,
            "sampling_params": {"temperature": 0.0, "max_new_tokens": 1}, "stream": False,
        }  # fmt: skip

    def build_options(self, served: ServedModel, request: CompletionRequest) -> Body:
        s = request.sampling
        return {
            "temperature": s.temperature, "top_p": s.top_p, "top_k": s.top_k or -1, "min_p": s.min_p,
            "repetition_penalty": 1.0, **_NO_PENALTIES, "max_tokens": request.max_tokens,
            "min_tokens": request.min_tokens, "n": 1,
            "stop": [], "stop_token_ids": list(served.end_ids), "ignore_eos": False, "skip_special_tokens": False,
            "return_token_ids": True, "stream": False,
        }  # fmt: skip

    def read(self, served: ServedModel, request: CompletionRequest, value: Any) -> Reply:  # noqa: ANN401 - JSON
        if request.echo:
            return Reply(require_object(value), ())
        return super().read(served, request, value)

    def read_log_probs(self, served: ServedModel, request: CompletionRequest, reply: Reply) -> PromptLogProbs:
        del served
        return read_sglang_log_probs(reply.json, request)


class _LlamaCpp(Dialect):
    name = "llama_cpp"
    truncations = frozenset({"top_k", "top_p", "min_p", "typical_p", "n_sigma"})
    penalties = frozenset({"repetition_penalty"})
    orders = frozenset({"before", "after"})
    sampler = "as `samplers` says, in each request"
    shortest = "all"
    listed = 10_000
    seed_bits = 31
    hint = "start llama-server without sampling flags (--top-k, --temp, --samplers …), one build for all slots"
    product, version_path, version_field = "llama.cpp", "/props", "build_info"

    def build_options(self, served: ServedModel, request: CompletionRequest) -> Body:
        del served
        s = request.sampling
        names = {"typical_p": "typ_p", "n_sigma": "top_n_sigma"}
        cut = [names.get(name, name) for name in s.truncations]
        order = [*cut, "temperature"] if s.order == "after" else ["temperature", *cut]
        penalized = s.repetition_penalty != 1
        return {
            "temperature": s.temperature, "top_p": s.top_p, "top_k": s.top_k, "min_p": s.min_p,
            "typical_p": s.typical_p, "top_n_sigma": s.n_sigma or -1.0, "repeat_penalty": s.repetition_penalty,
            **_NO_PENALTIES, "repeat_last_n": -1 if penalized else 0, "dry_multiplier": 0.0, "xtc_probability": 0.0,
            "dynatemp_range": 0.0, "mirostat": 0, "samplers": [*(["penalties"] if penalized else []), *order],
            "max_tokens": request.max_tokens, "ignore_eos": request.min_tokens > 0, "stop": [], "cache_prompt": False,
            "return_tokens": True, "post_sampling_probs": False, "stream": False,
        }  # fmt: skip


class _Tgi(Dialect):
    name = "tgi"
    truncations = frozenset({"top_p"})
    sampler = "temperature, top_k, top_p"
    takes_ids = False
    hint = "look at the model's generation_config.json, or use another server"
    product, version_path = "text-generation-inference", "/info"

    def build_options(self, served: ServedModel, request: CompletionRequest) -> Body:
        del served
        s = request.sampling
        # TGI refuses the neutral top_p, 1.0, and a frequency penalty of none is its default.
        cut = {"top_p": s.top_p} if s.top_p < 1 else {}
        return {"temperature": s.temperature, **cut, "max_tokens": request.max_tokens, "stream": False}


class _Transformers(Dialect):
    name = "transformers"
    truncations = frozenset({"top_k", "top_p", "min_p", "typical_p", "epsilon", "eta"})
    penalties = frozenset({"repetition_penalty", "no_repeat_ngram_size"})
    sampler = "penalties, temperature, truncation"
    shortest = "any"
    takes_ids = False
    serial = True
    hint = "start `transformers serve` without --continuous-batching, which drops what a request asks for"
    product = "transformers serve"

    def build_options(self, served: ServedModel, request: CompletionRequest) -> Body:
        s = request.sampling
        config: Body = {
            "do_sample": not s.greedy, "temperature": s.temperature or 1.0, "top_k": s.top_k, "top_p": s.top_p,
            "min_p": s.min_p or None, "typical_p": s.typical_p, "epsilon_cutoff": s.epsilon, "eta_cutoff": s.eta,
            "repetition_penalty": s.repetition_penalty, "no_repeat_ngram_size": s.no_repeat_ngram_size, "num_beams": 1,
            "max_new_tokens": request.max_tokens, "min_new_tokens": request.min_tokens or None, "use_cache": True,
        }  # fmt: skip
        if served.end_ids:
            config |= {"eos_token_id": list(served.end_ids), "pad_token_id": served.end_ids[0]}
        # The server takes missing options from the model's generation_config, such as a top-k of 50: send all of them.
        return {"generation_config": json.dumps(config), "max_tokens": request.max_tokens, "stream": False}


class _OpenAi(Dialect):
    name = "openai"
    truncations = frozenset({"top_p"})
    sampler = "temperature, top_p"
    listed = 5
    keyed_by_text = echoes = copies = True
    hint = (
        "name the server's own dialect in place of openai if it has one: parameters that this one lacks stay as the "
        "server sets them"
    )
    product = "openai"

    def build_options(self, served: ServedModel, request: CompletionRequest) -> Body:
        s = request.sampling
        length = "max_completion_tokens" if served.chat else "max_tokens"
        plain = {} if served.chat else {"echo": False, "best_of": request.copies}
        return {
            "temperature": s.temperature, "top_p": s.top_p, **_NO_PENALTIES, length: request.max_tokens,
            "n": request.copies, "stream": False, **plain,
        }  # fmt: skip


DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (_Vllm(), _Sglang(), _LlamaCpp(), _Tgi(), _Transformers(), _OpenAi())
}


def explain_refusal(dialect: Dialect, decoder: Decoder) -> str | None:
    """Return why a dialect cannot express a decoder, with the decoders that it can; None where it can."""
    missing = _find_missing_option(dialect, make_sampling(decoder))
    if not missing:
        return None
    names = ", ".join(list_supported_decoders(dialect.truncations))
    return f"the dialect {dialect.name} cannot express {decoder.title}: {missing}; it can express {names}"


def _find_missing_option(dialect: Dialect, sampling: Sampling | None) -> str:
    if sampling is None:
        return "servers have no parameters for it"
    unknown = [name for name in sampling.truncations if name not in dialect.truncations]
    if unknown:
        return f"it has no {unknown[0]}"
    if sampling.order not in dialect.orders:
        return f"its temperature comes {next(iter(dialect.orders))} the truncation (temperature_order)"
    for name in ("repetition_penalty", "no_repeat_ngram_size"):
        if getattr(sampling, name) != getattr(NEUTRAL, name) and name not in dialect.penalties:
            return f"it has no {name}" if name != "repetition_penalty" else f"it has no {name} that counts the prompt"
    return ""


def explain_min_tokens_refusal(dialect: Dialect, least: int, most: int) -> str | None:
    """Return why a dialect cannot forbid the end of text before `least` of `most` tokens; None where it can."""
    if least == 0 or dialect.shortest == "any" or (dialect.shortest == "all" and least == most):
        return None
    accepted = "0, or max_new_tokens" if dialect.shortest == "all" else "0"
    return f"the dialect {dialect.name} does not support min_new_tokens={least}; expected {accepted}"
