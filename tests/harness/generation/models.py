"""Small random models with fixed weights, of many families."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from openended.harness.models import LanguageModel, ModelSpec, TextTokenizer
from openended.harness.models.onednn import pack_layers
from tests.lazy import torch


class Letters:
    """A tokenizer whose tokens are numbers."""

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        return [int(w) for w in text.split()]

    def decode(self, ids: list[int], **_: Any) -> str:
        return " ".join(map(str, ids))


def wrap(model: Any, *, eos_ids=(0,), context_length: int | None = 128, vocab_size: int | None = None) -> LanguageModel:
    pack_layers(model)  # as `load_model` does
    tokenizer = TextTokenizer(Letters(), eos_ids, byte_level=True, bos_id=getattr(model.config, "bos_token_id", None))
    return LanguageModel(
        model=model.eval().requires_grad_(False), tokenizer=tokenizer, device=torch.device("cpu"), dtype=torch.float32,
        eos_ids=eos_ids, context_length=context_length, spec=ModelSpec(path="gpt2"),
        vocab_size=vocab_size or model.get_output_embeddings().weight.shape[0],
    )  # fmt: skip


def prompt_rows(n: int, length: int, vocab_size: int, seed: int = 0) -> list[tuple[int, ...]]:
    generator = torch.Generator().manual_seed(seed)
    return [tuple(r) for r in torch.randint(1, vocab_size, (n, length), generator=generator).tolist()]


_SIZES = {
    "vocab_size": 300, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None,
}  # fmt: skip
_MANY_HEADS = _SIZES | {"num_key_value_heads": 4}
_CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2Config", {"vocab_size": 300, "n_positions": 128, "n_embd": 32, "n_layer": 2, "n_head": 2,
                            "bos_token_id": 0, "eos_token_id": 0, "tie_word_embeddings": False}),
    "gpt_neox": ("GPTNeoXConfig", _MANY_HEADS),
    "opt": ("OPTConfig", {"vocab_size": 300, "hidden_size": 32, "ffn_dim": 64, "num_hidden_layers": 2, "word_embed_proj_dim": 32,
                          "num_attention_heads": 4, "max_position_embeddings": 128, "bos_token_id": 0, "eos_token_id": 0,
                          "pad_token_id": 1, "dropout": 0.0}),
    "llama": ("LlamaConfig", _SIZES),
    "mistral": ("MistralConfig", _SIZES | {"sliding_window": 8}),
    "qwen2": ("Qwen2Config", _SIZES),
    "qwen3": ("Qwen3Config", _SIZES | {"head_dim": 8}),
    "gemma": ("GemmaConfig", _SIZES | {"head_dim": 8}),
    "gemma3": ("Gemma3TextConfig", _SIZES | {"head_dim": 8, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}),
    "phi": ("PhiConfig", _MANY_HEADS),
    "phi3": ("Phi3Config", _SIZES),
    "falcon": ("FalconConfig", {"vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
                                "max_position_embeddings": 128, "bos_token_id": 0, "eos_token_id": 0, "alibi": False}),
    "mixtral": ("MixtralConfig", _SIZES | {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen2_moe": ("Qwen2MoeConfig", _SIZES | {"moe_intermediate_size": 16, "shared_expert_intermediate_size": 32,
                                              "num_experts": 4, "num_experts_per_tok": 2}),
}  # fmt: skip
FAMILIES = tuple(_CONFIGS)


@lru_cache
def make_family_model(name: str, sharp: float = 20.0, seed: int = 0, eos_ids=(0,), **more: Any) -> LanguageModel:
    """A tiny random model; its output matrix is scaled, so that it prefers some tokens clearly."""
    import transformers

    config_name, options = _CONFIGS[name]
    with torch.inference_mode(mode=False), torch.random.fork_rng():
        torch.manual_seed(seed)
        config = getattr(transformers, config_name)(**(options | {"tie_word_embeddings": False} | more))
        config._attn_implementation = "sdpa"
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
        model.lm_head.weight.data *= sharp
    return wrap(model, eos_ids=eos_ids)


def gpt2(**options: Any) -> LanguageModel:
    return make_family_model("gpt2", **options)


def llama() -> LanguageModel:
    return make_family_model("llama")
