"""Which model families can generate from left to right, by what their config.json says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


# Bidirectional families; the first two lines can be used as decoders, with more than an output layer for their logits.
_ENCODERS = """
bert bert-generation big_bird camembert data2vec-text electra ernie megatron-bert rembert roberta roberta-prelayernorm
roc_bert roformer xlm-roberta xlm-roberta-xl xmod
albert convbert deberta deberta-v2 distilbert esm eurobert flaubert gte ibert jina_embeddings_v3 longformer mobilebert
modernbert mpnet mra nomic_bert nystromformer squeezebert yoso
"""
ENCODERS = frozenset(_ENCODERS.split())
REFUSED: Mapping[str, str] = {
    "cpmant": "it puts tokens of its own before a text",
    "inkling_text": "its output layer is not all that makes its logits",
    "modernbert-decoder": "its output layer is not all that makes its logits",
    "prophetnet": "its cache and its own pass disagree",
    "xlm": "its language model looks both ways",
    "xlnet": "it predicts tokens in any order, not from left to right",
}


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
    config = config.get_text_config()
    for name in ("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap"):
        cap = getattr(config, name, None)
        if cap:
            logits = (logits / cap).tanh() * cap
    divides = config.model_type != "hyperclovax"  # which multiplies by what others divide by
    for name in ("logit_scale", "lm_head_multiplier", "logits_scaling"):
        scale = getattr(config, name, None)
        if isinstance(scale, (int, float)):
            logits = logits / scale if name == "logits_scaling" and divides else logits * scale
    return logits
