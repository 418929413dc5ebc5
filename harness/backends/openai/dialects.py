"""Table of server dialects: the parameters that each kind of server supports.

Sources: the servers' own code and documentation as of vLLM 0.33, SGLang 0.5.23, llama.cpp's server, TGI (in
maintenance), transformers serve 5.23 and the OpenAI reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from openended.harness.backends.openai.sampling import Sampling, list_supported_decoders, make_sampling
from openended.harness.decoders import Decoder

DialectName = Literal["vllm", "sglang", "llama_cpp", "tgi", "transformers", "openai"]
Shortest = Literal["any", "all", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Parameters that one kind of server supports."""

    name: DialectName
    truncations: frozenset[str]
    """Parameters of `Sampling` beside the temperature that it knows."""
    penalties: frozenset[str] = frozenset()
    orders: frozenset[str] = frozenset({"before"})
    """Where the temperature may stand."""
    sampler: str
    """The order of its sampler, in words; part of the model's identity."""
    shortest: Shortest = "none"
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
    seed_bits: int = 63
    hint: str
    """What to set where it samples otherwise than asked."""


_VLLM_HINT = (
    "start it with --generation-config vllm and without --override-generation-config, --logits-processors and "
    "--logprobs-mode processed_*"
)

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        Dialect(
            name="vllm", truncations=frozenset({"top_k", "top_p", "min_p"}),
            penalties=frozenset({"repetition_penalty"}), sampler="penalties, temperature, min_p, top_k, top_p",
            shortest="any", listed=10_000, echoes=True, copies=True, names_model=True,
            hint=_VLLM_HINT,
        ),
        Dialect(
            name="sglang", truncations=frozenset({"top_k", "top_p", "min_p"}),
            sampler="temperature, top_k, top_p, min_p", shortest="any", listed=10_000,
            keyed_by_text=True, echoes=True, names_model=True,
            hint="start it with --sampling-defaults openai, and with --enable-deterministic-inference for seeds",
        ),
        Dialect(
            name="llama_cpp", truncations=frozenset({"top_k", "top_p", "min_p", "typical_p", "n_sigma"}),
            penalties=frozenset({"repetition_penalty"}), orders=frozenset({"before", "after"}),
            sampler="as `samplers` says, in each request", shortest="all", listed=10_000, seed_bits=31,
            hint="start llama-server without sampling flags (--top-k, --temp, --samplers …), one build for all slots",
        ),
        Dialect(
            name="tgi", truncations=frozenset({"top_p"}), sampler="temperature, top_k, top_p", takes_ids=False,
            hint="look at the model's generation_config.json, or use another server",
        ),
        Dialect(
            name="transformers",
            truncations=frozenset({"top_k", "top_p", "min_p", "typical_p", "epsilon", "eta"}),
            penalties=frozenset({"repetition_penalty", "no_repeat_ngram_size"}),
            sampler="penalties, temperature, truncation", shortest="any", takes_ids=False, serial=True,
            hint="start `transformers serve` without --continuous-batching, which drops what a request asks for",
        ),
        Dialect(
            name="openai", truncations=frozenset({"top_p"}), sampler="temperature, top_p", listed=5,
            keyed_by_text=True, echoes=True, copies=True,
            hint="name the server's own dialect in place of openai if it has one: parameters that this one lacks stay "
            "as the server sets them",
        ),
    )
}  # fmt: skip


def explain_refusal(dialect: Dialect, decoder: Decoder) -> str | None:
    """Return why a dialect cannot express a decoder, with the decoders that it can; None where it can."""
    sampling = make_sampling(decoder)
    missing = _find_missing_option(dialect, sampling)
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
        if getattr(sampling, name) != getattr(Sampling(), name) and name not in dialect.penalties:
            return f"it has no {name}" if name != "repetition_penalty" else f"it has no {name} that counts the prompt"
    return ""


def explain_min_tokens_refusal(dialect: Dialect, least: int, most: int) -> str | None:
    """Return why a dialect cannot forbid the end of text before `least` of `most` tokens; None where it can."""
    if least == 0 or dialect.shortest == "any" or (dialect.shortest == "all" and least == most):
        return None
    accepted = "0, or max_new_tokens" if dialect.shortest == "all" else "0"
    return f"the dialect {dialect.name} does not support min_new_tokens={least}; expected {accepted}"
