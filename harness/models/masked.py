"""Masked language models (BERT and similar) as embedders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openended.harness.core import DataError, shorten_error
from openended.harness.models.loading.tokenizer_checks import check_ids
from openended.harness.models.loading.weights import check_weights, hide_loading_report

if TYPE_CHECKING:
    from openended.harness.models.spec import ModelSpec
    from openended.harness.models.transformers import LanguageModel


def load_masked(spec: ModelSpec, *, device: str = "cpu") -> LanguageModel:
    """Load the body of a masked language model; `openended_before` and `openended_after` hold its special tokens."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    from openended.harness.models.tokenizer import find_added_ids, load_tokenizer
    from openended.harness.models.transformers import LanguageModel

    spec.check_ready()
    where, revision = str(spec.folder or spec.path), None if spec.folder else spec.revision
    dtype = getattr(torch, spec.dtype)
    try:
        with hide_loading_report():
            model, info = AutoModel.from_pretrained(
                where, revision=revision, dtype=dtype, trust_remote_code=False, use_safetensors=True,
                ignore_mismatched_sizes=True, output_loading_info=True,
            )  # fmt: skip
        slow = AutoTokenizer.from_pretrained(where, revision=revision, trust_remote_code=False)
    except Exception as err:
        raise DataError(f"embedder {spec.path}: cannot be loaded ({shorten_error(err)})") from err
    check_weights(spec.title, info, unused=_is_head_weight)
    model = model.to(device).eval().requires_grad_(requires_grad=False)
    model.openended_before, model.openended_after = find_added_ids(slow)
    tokenizer = load_tokenizer(spec)
    check_ids(spec.path, tokenizer.vocabulary(), int(model.get_input_embeddings().weight.shape[0]))
    return LanguageModel(
        model=model,
        tokenizer=tokenizer,
        device=torch.device(device),
        dtype=dtype,
        eos_ids=tokenizer.eos_ids,
        vocab_size=int(model.config.vocab_size),
        context_length=_find_context_length(spec, slow.model_max_length),
        spec=spec,
    )


def _is_head_weight(name: str) -> bool:
    """Return whether a weight is of a head, which is not read, or of the pooler, which masked models do not train."""
    heads = ("cls.", "lm_head.", "classifier.", "predictions.", "generator_", "head.", "decoder.")
    return name.startswith(heads) or "pooler." in name


def _find_context_length(spec: ModelSpec, tokenizer_limit: int) -> int | None:
    """Return the smaller of the two limits: RoBERTa's config counts two positions that no text can use."""
    limits = [n for n in (spec.context_length(), tokenizer_limit) if n is not None and n < 10**9]
    return min(limits) if limits else None
