"""Dialects of servers: the parameters that each kind supports, and its requests.

Every parameter is sent, neutral ones too, so that a server's own defaults never apply. Sources: the servers' own code
and documentation as of vLLM 0.33, SGLang 0.5.23, llama.cpp's server, transformers serve 5.23 and
the OpenAI reference.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from openended.harness.backends.openai.client import MAX_REPLY
from openended.harness.core import load_members
from openended.harness.decoders import Decoder, QDecoder, SamplingDecoder

DialectName = Literal["vllm", "sglang", "llama_cpp", "transformers", "openai"]
Body = dict[str, Any]
_MAX_ENTRY_BYTES = 256  # bytes of one listed token in a reply, at most
_NO_PENALTIES = {"presence_penalty": 0.0, "frequency_penalty": 0.0}


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters; the defaults sample from the unmodified distribution of the model."""

    temperature: float = 1.0  # 0: the most probable token
    order: Literal["before", "after"] = "before"  # whether the temperature comes before the truncation
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    epsilon: float = 0.0
    eta: float = 0.0
    n_sigma: float = 0.0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0

    @property
    def truncations(self) -> tuple[str, ...]:
        return tuple(name for name in TRUNCATIONS if getattr(self, name) != getattr(NEUTRAL, name))

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


TRUNCATIONS = ("top_k", "top_p", "min_p", "typical_p", "epsilon", "eta", "n_sigma")
NEUTRAL = Sampling()


def make_sampling(decoder: Decoder) -> Sampling | None:
    """Return a decoder's sampling parameters; None if servers have no parameters for it."""
    options = _get_server_options(type(decoder))
    if options is None or not isinstance(decoder, QDecoder):
        return None
    sampling = Sampling(
        temperature=0.0 if decoder.one_hot else decoder.temperature_and_order()[0],
        repetition_penalty=decoder.repetition_penalty,
        no_repeat_ngram_size=decoder.no_repeat_ngram_size,
        **{parameter: getattr(decoder, option) for parameter, option in options.items()},
    )
    if isinstance(decoder, SamplingDecoder) and not decoder.untruncated and decoder.temperature != 1:
        sampling = dataclasses.replace(sampling, order=decoder.temperature_order)
    return sampling


def list_supported_decoders(truncations: frozenset[str]) -> list[str]:
    """Return the names of the decoders that need only these truncations."""
    options = {name: _get_server_options(cls) for name, cls in load_members("decoder").items()}
    return sorted(name for name, needed in options.items() if needed is not None and truncations >= needed.keys())


def _get_server_options(cls: type) -> Mapping[str, str] | None:
    """Return the server options that a class itself declares, not those it inherits; None if it declares none."""
    return vars(cls).get("server_options")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model as a server knows it, and how it is asked."""

    name: str  # the server's id of the model
    chat: bool = False
    instruction: str | None = None
    template_arguments: Mapping[str, Any] | None = None  # of the chat template
    seeded: bool = True  # whether a seed is sent
    sends_ids: bool = True  # whether prompts are sent as token ids
    end_ids: tuple[int, ...] = ()  # token ids that end a text
    vocab_size: int = 0  # number of token ids that a reply may hold; 0: unknown
    listed: int = 0  # most probable tokens that the server lists at a position


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """A completion to request, independent of the dialect."""

    ids: tuple[int, ...]  # token ids of the prompt with the beginning-of-text token; empty without a tokenizer
    text: str  # the prompt as text, without that token; sent if the server accepts no ids
    messages: tuple[Mapping[str, str], ...] = ()  # the turns of the prompt; none: it is the user's turn
    max_tokens: int
    min_tokens: int = 0
    sampling: Sampling = NEUTRAL
    seed: int = 0
    copies: int = 1
    repeats: bool = False  # the prompt is sent several times: the server may keep what it computed of it
    listed: int = 0  # most probable tokens to list at each position
    echo: bool = False  # whether to return the log-probabilities of the prompt's tokens

    @property
    def max_reply(self) -> int:
        """Maximum size of the reply in bytes."""
        positions = self.copies * self.max_tokens + (len(self.ids) if self.echo else 0)
        return MAX_REPLY + _MAX_ENTRY_BYTES * positions * (self.listed + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What one kind of server supports, and what it is sent."""

    name: DialectName
    product: str
    sampler: str  # the order of its sampler, in words; part of the model's identity
    hint: str  # what to set where it samples otherwise than asked
    options: Callable[[ServedModel, CompletionRequest], Body]  # the parameters of sampling and length
    truncations: frozenset[str]  # parameters of `Sampling` in addition to the temperature that it knows
    penalties: frozenset[str] = frozenset()
    orders: frozenset[str] = frozenset({"before"})  # where the temperature may stand
    shortest: Literal["any", "all", "none"] = "none"  # `min_new_tokens` that it keeps; all: 0 or all; none: 0
    takes_ids: bool = True  # prompts may be token ids
    listed: int = 0  # most probable tokens that a reply lists, as servers can be set to; 0: none
    keyed_by_text: bool = False  # the list names tokens by their texts, which two tokens can share
    echo: Literal["echo", "prompt_logprobs", "/generate"] | None = None  # how it is asked to score a text; None: not
    names_model: bool = False  # its replies name the model as it was requested
    copies: bool = False  # several independent draws in one request
    template_arguments: bool = False  # a request may set arguments of the chat template
    serial: bool = False  # its seed is one for all requests: only one may be under way
    seed_names: tuple[str, ...] = ("seed",)
    seed_bits: int = 63
    version_path: str | None = None  # where it tells its version; None: nowhere
    version_field: str = "version"

    def path(self, served: ServedModel, request: CompletionRequest) -> str:
        if request.echo and self.echo == "/generate":
            return self.echo
        return "/v1/chat/completions" if served.chat else "/v1/completions"

    def body(self, served: ServedModel, request: CompletionRequest) -> Body:
        if request.echo and self.echo == "/generate":
            listing = {"return_logprob": True, "logprob_start_len": 0, "top_logprobs_num": request.listed}
            one_token = {"temperature": 0.0, "max_new_tokens": 1}
            return {"input_ids": list(request.ids), **listing, "sampling_params": one_token, "stream": False}
        body: Body = {"model": served.name}
        if served.chat:
            before = [{"role": "system", "content": served.instruction}] if served.instruction else []
            turns = request.messages or ({"role": "user", "content": request.text},)
            body["messages"] = [*before, *turns]
            if served.template_arguments:
                body["chat_template_kwargs"] = dict(served.template_arguments)
        else:
            body["prompt"] = list(request.ids) if served.sends_ids else request.text
        body |= self.options(served, request)
        if served.seeded:
            body |= dict.fromkeys(self.seed_names, request.seed % (1 << self.seed_bits))
        if not (request.listed or request.echo):
            return body
        if served.chat:
            return body | {"logprobs": True, "top_logprobs": request.listed}
        if self.echo == "prompt_logprobs":
            if request.echo:
                return body | {"prompt_logprobs": request.listed}
            return body | {"logprobs": request.listed, "return_tokens_as_token_ids": True}
        return body | {"logprobs": request.listed, **({"echo": True} if request.echo else {})}


def _list_parameters(request: CompletionRequest, *names: str) -> Body:
    """Return parameters of sampling by the names that they have everywhere."""
    return {name: getattr(request.sampling, name) for name in names}


def _build_common_options(served: ServedModel, request: CompletionRequest) -> Body:
    """Return the options that vLLM and SGLang share."""
    body = _list_parameters(request, "temperature", "top_p", "min_p") | _NO_PENALTIES | {"ignore_eos": False}
    body |= {"max_tokens": request.max_tokens, "min_tokens": request.min_tokens, "stop": [], "stream": False}
    ends = {"stop_token_ids": list(served.end_ids), "skip_special_tokens": False, "return_token_ids": True}
    return body | ends


def _build_sglang_options(served: ServedModel, request: CompletionRequest) -> Body:
    fixed = {"top_k": request.sampling.top_k or -1, "repetition_penalty": 1.0, "n": 1}
    return _build_common_options(served, request) | fixed


def _build_vllm_options(served: ServedModel, request: CompletionRequest) -> Body:
    body = _build_common_options(served, request) | _list_parameters(request, "top_k", "repetition_penalty")
    completion = {} if served.chat else {"add_special_tokens": not served.sends_ids, "echo": False}
    return body | {"n": request.copies} | completion


def _build_llama_cpp_options(_: ServedModel, request: CompletionRequest) -> Body:
    s = request.sampling
    names = {"typical_p": "typ_p", "n_sigma": "top_n_sigma"}
    cut = [names.get(name, name) for name in s.truncations]
    order = [*cut, "temperature"] if s.order == "after" else ["temperature", *cut]
    penalized = s.repetition_penalty != 1
    body = _list_parameters(request, "temperature", "top_p", "top_k", "min_p", "typical_p") | _NO_PENALTIES
    body |= {"top_n_sigma": s.n_sigma or -1.0, "repeat_penalty": s.repetition_penalty, "dynatemp_range": 0.0}
    body |= {"repeat_last_n": -1 if penalized else 0, "dry_multiplier": 0.0, "xtc_probability": 0.0, "mirostat": 0}
    body |= {"samplers": ["penalties"] * penalized + order, "cache_prompt": request.repeats, "stop": []}
    body |= {"max_tokens": request.max_tokens, "ignore_eos": request.min_tokens > 0, "stream": False}
    # Its replies name the tokens only with their log-probabilities: `return_tokens` is for `/completion` alone.
    return body | {"n_probs": max(request.listed, 1), "post_sampling_probs": False}


def _build_transformers_options(served: ServedModel, request: CompletionRequest) -> Body:
    s = request.sampling
    names = ("top_k", "top_p", "typical_p", "repetition_penalty", "no_repeat_ngram_size")
    config = _list_parameters(request, *names) | {"do_sample": not s.greedy, "temperature": s.temperature or 1.0}
    config |= {"min_p": s.min_p or None, "epsilon_cutoff": s.epsilon, "eta_cutoff": s.eta, "num_beams": 1}
    config |= {"max_new_tokens": request.max_tokens, "min_new_tokens": request.min_tokens or None, "use_cache": True}
    if served.end_ids:
        config |= {"eos_token_id": list(served.end_ids), "pad_token_id": served.end_ids[0]}
    # The server takes missing options from the model's generation_config, such as a top-k of 50: send all of them.
    return {"generation_config": json.dumps(config), "max_tokens": request.max_tokens, "stream": False}


def _build_openai_options(served: ServedModel, request: CompletionRequest) -> Body:
    length = "max_completion_tokens" if served.chat else "max_tokens"
    completion = {} if served.chat else {"echo": False, "best_of": request.copies}
    body = _list_parameters(request, "temperature", "top_p") | _NO_PENALTIES | completion
    return body | {length: request.max_tokens, "n": request.copies, "stream": False}


_ALL = (
    Dialect(
        name="vllm", product="vllm", version_path="/version", options=_build_vllm_options,
        sampler="penalties, temperature, min_p, top_k, top_p", truncations=frozenset({"top_k", "top_p", "min_p"}),
        penalties=frozenset({"repetition_penalty"}), shortest="any", listed=10_000, echo="prompt_logprobs",
        copies=True, names_model=True, template_arguments=True,
        hint="start it with --generation-config vllm and without --override-generation-config, --logits-processors and "
        "--logprobs-mode processed_*",
    ),
    Dialect(
        name="sglang", product="sglang", version_path="/get_server_info", options=_build_sglang_options,
        sampler="temperature, top_k, top_p, min_p", truncations=frozenset({"top_k", "top_p", "min_p"}),
        shortest="any", listed=10_000, keyed_by_text=True, echo="/generate", names_model=True,
        template_arguments=True,
        seed_names=("seed", "sampling_seed"),
        hint="start it with --sampling-defaults openai, and with --enable-deterministic-inference for seeds",
    ),
    Dialect(
        name="llama_cpp", product="llama.cpp", version_path="/props", version_field="build_info",
        options=_build_llama_cpp_options, sampler="as `samplers` says, in each request",
        truncations=frozenset({"top_k", "top_p", "min_p", "typical_p", "n_sigma"}),
        penalties=frozenset({"repetition_penalty"}), orders=frozenset({"before", "after"}), shortest="all",
        listed=10_000, seed_bits=31, template_arguments=True,
        hint="start llama-server without sampling flags (--top-k, --temp, --samplers …), one build for all slots",
    ),
    Dialect(
        name="transformers", product="transformers serve", options=_build_transformers_options,
        sampler="penalties, temperature, truncation", shortest="any", takes_ids=False, serial=True,
        truncations=frozenset({"top_k", "top_p", "min_p", "typical_p", "epsilon", "eta"}),
        penalties=frozenset({"repetition_penalty", "no_repeat_ngram_size"}),
        hint="start `transformers serve` without --continuous-batching, which drops what a request asks for",
    ),
    Dialect(
        name="openai", product="openai", options=_build_openai_options, sampler="temperature, top_p",
        truncations=frozenset({"top_p"}), listed=5, keyed_by_text=True, echo="echo", copies=True,
        hint="name the server's own dialect in place of openai if it has one: parameters that this one lacks stay as "
        "the server sets them",
    ),
)  # fmt: skip
DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in _ALL}


def explain_refusal(dialect: Dialect, decoder: Decoder) -> str | None:
    """Return why a dialect cannot express a decoder, with the decoders that it can; None where it can."""
    sampling = make_sampling(decoder)
    if sampling is None:
        missing = ["servers have no parameters for it"]
    else:
        missing = [f"it has no {name}" for name in sampling.truncations if name not in dialect.truncations]
        if sampling.order not in dialect.orders:
            missing.append(f"its temperature comes {next(iter(dialect.orders))} the truncation (temperature_order)")
        for name, addition in (("repetition_penalty", " that counts the prompt"), ("no_repeat_ngram_size", "")):
            if getattr(sampling, name) != getattr(NEUTRAL, name) and name not in dialect.penalties:
                missing.append(f"it has no {name}{addition}")
    if not missing:
        return None
    names = ", ".join(list_supported_decoders(dialect.truncations))
    return f"the dialect {dialect.name} cannot express {decoder.title}: {missing[0]}; it can express {names}"


def explain_min_tokens_refusal(dialect: Dialect, least: int, most: int) -> str | None:
    """Return why a dialect cannot forbid the end of text before `least` of `most` tokens; None where it can."""
    if least == 0 or dialect.shortest == "any" or (dialect.shortest == "all" and least == most):
        return None
    accepted = "0, or max_new_tokens" if dialect.shortest == "all" else "0"
    return f"the dialect {dialect.name} does not support min_new_tokens={least}; expected {accepted}"
