"""Check which model families can generate step by step, and choose how to run them.

A model reads a few tokens step by step, and its logits are compared with those of one pass over all tokens. A family
whose keys and values can be cached runs with the harness's own KV cache. A family with another kind of state (recurrent
and hybrid models, custom caches) reads the whole text again at each step: slower, with the same result. A family that
agrees in neither way is refused. docs/families.md lists the result for all families in transformers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol
from weakref import WeakKeyDictionary

from openended.harness.core import CausalModel, DataError, shorten_error
from openended.harness.models.failures import check_device, describe_broken_weights, is_out_of_memory

if TYPE_CHECKING:
    from torch import Tensor


log = logging.getLogger(__name__)

Kind = Literal["fixed", "equal", "reread"]
KINDS: tuple[Kind, ...] = ("fixed", "equal", "reread")

RUNNER_KINDS: WeakKeyDictionary[Any, Kind] = WeakKeyDictionary()
"""Model of transformers → the kind of its runner, once it was found."""

# Bidirectional families; the first two lines can be used as decoders, with more than an output layer for their logits.
ENCODERS = frozenset({
    "bert", "bert-generation", "big_bird", "camembert", "data2vec-text", "electra", "ernie", "megatron-bert",
    "rembert", "roberta", "roberta-prelayernorm", "roc_bert", "roformer", "xlm-roberta", "xlm-roberta-xl", "xmod",
    "albert", "convbert", "deberta", "deberta-v2", "distilbert", "esm", "eurobert", "flaubert", "gte", "ibert",
    "jina_embeddings_v3", "longformer", "mobilebert", "modernbert", "mpnet", "mra", "nomic_bert", "nystromformer",
    "squeezebert", "yoso",
})  # fmt: skip
REFUSED: Mapping[str, str] = {
    "cpmant": "it puts tokens of its own before a text",
    "inkling_text": "its output layer is not all that makes its logits",
    "modernbert-decoder": "its output layer is not all that makes its logits",
    "prophetnet": "its cache and its own pass disagree",
    "xlm": "its language model looks both ways",
    "xlnet": "it predicts tokens in any order, not from left to right",
}
# Largest relative difference between steps and full pass (`measure_difference`); float noise is far smaller.
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.2, "float16": 0.1}
# Tokens of the check: _FIRST are read at once, then _STEPS one by one.
_FIRST, _STEPS = 6, 4


class Stepper(Protocol):
    """The methods of a model runner that the check uses."""

    def start(self, rows: Sequence[int], prompts: Sequence[Sequence[int]]) -> list[Tensor]:
        """Run prompts in rows; return the hidden states at all positions of each prompt."""

    def extend(self, ids: Tensor, rows: Sequence[int]) -> Tensor:
        """Run one more token in each row; return the hidden states."""

    def logits(self, hidden: Tensor) -> Tensor: ...


def find_refusal(config: Mapping[str, Any]) -> str | None:
    """Return why a family, by its config.json, cannot generate from left to right; None if no reason is known."""
    kind = str(config.get("model_type"))
    if is_encoder(config):
        return f"models of the family {kind} are encoders, which do not generate from left to right"
    return f"models of the family {kind} are not run: {REFUSED[kind]}" if kind in REFUSED else None


def is_encoder(config: Mapping[str, Any]) -> bool:
    """Return whether a model, by its config.json, looks at both sides of a token."""
    names = [str(name) for name in config.get("architectures") or ()]
    return config.get("model_type") in ENCODERS or any("MaskedLM" in name for name in names)


def find_direction(config: Mapping[str, Any]) -> str | None:
    """Return what a config.json says of a model that reads from left to right; None if it does not say so."""
    names = map(str, config.get("architectures") or ())
    causal = next((name for name in names if name.endswith(("ForCausalLM", "LMHeadModel"))), None)
    return f"its architecture {causal} reads from left to right" if causal and not find_refusal(config) else None


def choose_attention(model_class: Any) -> str:  # noqa: ANN401 - a transformers class
    """Return the attention implementation for a class: fused kernels if supported, else plain products."""
    return "sdpa" if getattr(model_class, "_supports_sdpa", False) else "eager"


def get_body(model: Any) -> Any:  # noqa: ANN401 - transformers models
    """Return the part of a causal model that computes hidden states from token ids."""
    from transformers import PreTrainedModel

    for part in (model.get_decoder(), model.base_model, *model.children()):
        if part is not model and isinstance(part, PreTrainedModel):
            return part
    raise TypeError("no part of it makes hidden states of token ids")


def rescale_logits(config: Any, logits: Tensor) -> Tensor:  # noqa: ANN401
    """Apply the scaling and soft caps that some families put after the output matrix."""
    for name in ("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap"):
        cap = getattr(config, name, None)
        if cap:
            logits = (logits / cap).tanh() * cap
    scale = getattr(config, "logit_scale", None)
    if isinstance(scale, float):
        logits = logits * scale
    division = getattr(config, "logits_scaling", None)
    return logits / division if isinstance(division, (int, float)) else logits


def choose_kind(lm: CausalModel, make_runner: Callable[[Kind], Stepper]) -> Kind:
    """Return the first kind of runner whose steps agree with the model's full pass; the answer is cached."""
    if lm.model in RUNNER_KINDS:
        return RUNNER_KINDS[lm.model]
    family = str(lm.model.config.model_type)
    ids, full_logits = _run_full_pass(lm)
    reasons = []
    for kind in KINDS:
        # Recurrent and hybrid models: their past is more than keys and values by position.
        if kind != "reread" and getattr(lm.model, "_is_stateful", False):
            continue
        try:
            difference = measure_difference(lm, make_runner(kind), ids, full_logits)
        except Exception as err:
            check_device(err)
            if is_out_of_memory(err):
                raise
            log.debug("model %s, %s: %s", lm.spec.title, kind, shorten_error(err))
            reasons.append(shorten_error(err))
            continue
        if difference <= TOLERANCE[lm.spec.dtype]:
            if kind == "reread":
                log.warning(
                    "model %s: the family %s has a cache of its own kind: each step reads the whole text again",
                    lm.spec.title, family,
                )  # fmt: skip
            RUNNER_KINDS[lm.model] = kind
            return kind
        reasons.append(f"logits of single steps differ from those of one pass by {difference:.2g} of their norm")
    raise DataError(f"model {lm.spec.title}: the family {family} cannot be run from left to right: {reasons[-1]}")


def _run_full_pass(lm: CausalModel) -> tuple[Tensor, Tensor]:
    """Return test tokens (1, t) and the float32 logits of the model's own forward pass over them (t, V)."""
    import torch

    size = _FIRST + _STEPS if lm.context_length is None else min(_FIRST + _STEPS, lm.context_length)
    # Distinct tokens across the vocabulary; the first ids are often special tokens.
    ids = (torch.arange(1, size + 1) * max(1, lm.vocab_size // (size + 2)) + 1).clamp(max=lm.vocab_size - 1)
    ids = ids[None].to(lm.device)
    with torch.inference_mode():
        logits: Tensor = lm.model(input_ids=ids, use_cache=False).logits[0].float()
    if not bool(torch.isfinite(logits).all()):
        raise DataError(describe_broken_weights(lm, "its logits are not finite"))
    return ids, logits


def measure_difference(lm: CausalModel, runner: Stepper, ids: Tensor, full_logits: Tensor) -> float:
    """Return the distance between logits of single steps and of one pass, relative to the norm of the centered logits.

    Float32 uses the maximum over positions. In half precision, rounding can flip a near-tie (for example of a router)
    at a single position, so the median is used.
    """
    import torch

    first = min(_FIRST, ids.shape[1] - 1)
    logits = [runner.logits(runner.start([0], [ids[0, :first].tolist()])[0])]
    logits += [runner.logits(runner.extend(ids[0, t : t + 1], [0])) for t in range(first, ids.shape[1])]
    step_logits = torch.cat(logits).float()
    norms = (full_logits - full_logits.mean(-1, keepdim=True)).norm(dim=-1)
    differences = (step_logits - full_logits).norm(dim=-1) / norms.clamp_min(1e-12)
    value = differences.max() if lm.spec.dtype == "float32" else differences.median()
    return float(value) if bool(torch.isfinite(differences).all()) else float("inf")
