"""A tiny random model of each family that `AutoModelForCausalLM` knows, and the table of how each is run.

`python -m tests.harness.models.tiny_families` writes docs/families.md anew (two minutes).
"""

import logging
import warnings
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[3] / "docs" / "families.md"
HEAD = """# Model families

Every family that `AutoModelForCausalLM` of transformers {version} supports, and how the harness runs it. Each was tested
as a tiny random model: single steps were compared with one pass over all tokens. The same check runs whenever a model
is loaded, and a difference is an error.

- **fixed**: keys and values are stored in a cache of fixed size, and rows of different lengths share a forward pass.
- **equal**: the same, but only rows of equal length share a forward pass (attention with a soft cap, sinks or chunks, for example).
- **reread**: the family stores its state in another way (recurrent and hybrid models, for example), so each step
  recomputes the whole text. This is correct, but slower for longer texts; a message appears when the model is loaded.
- **refused**: loading fails with the name of the family and the reason.
- **not tried**: no tiny model could be built here; the check at load time decides.

`python -m tests.harness.models.tiny_families` regenerates this table.

| family | how |
| --- | --- |"""
MOST = 3_000_000  # parameters of a model that counts as tiny
_SIZES: dict[str, Any] = {
    "vocab_size": 97, "hidden_size": 32, "d_model": 32, "n_embd": 32, "embedding_size": 32, "intermediate_size": 48,
    "ffn_dim": 48, "decoder_ffn_dim": 48, "encoder_ffn_dim": 48, "d_ff": 48, "num_hidden_layers": 2, "n_layer": 2,
    "num_layers": 2, "decoder_layers": 2, "encoder_layers": 1, "num_decoder_layers": 2, "num_encoder_layers": 1,
    "num_attention_heads": 4, "n_head": 4, "num_heads": 4, "decoder_attention_heads": 4, "encoder_attention_heads": 4,
    "num_decoder_attention_heads": 4, "num_encoder_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "max_position_embeddings": 64, "n_positions": 64, "n_ctx": 64, "sliding_window": 4, "attention_window": 4,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1,
    "topk_group": 1, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "first_k_dense_replace": 1,
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8,
    "qk_head_dim": 16, "mamba_num_heads": 4, "mamba_head_dim": 16, "mamba_n_heads": 4, "mamba_d_head": 16,
    "mamba_d_state": 8, "mamba_d_ssm": 64, "state_size": 8, "ssm_state_size": 8, "mamba_n_groups": 1, "n_groups": 1,
    "lru_width": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
    "linear_value_head_dim": 8, "linear_num_heads": 4, "linear_head_dim": 8, "mamba_chunk_size": 8, "expand": 2, "mamba_expand": 2, "attention_hidden_size": 32, "rotary_dim": 8,
    "d_inner": 48, "d_kv": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_OWN: dict[str, dict[str, Any]] = {
    "mamba2": {"num_heads": 8, "head_dim": 8, "hidden_size": 32, "n_groups": 1, "chunk_size": 8},
    "zamba2": {"mamba_headdim": 16, "n_mamba_heads": 4, "adapter_rank": 8, "attention_head_dim": 16},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "reformer": {"is_decoder": True},
    "falcon": {"hidden_size": 32, "num_attention_heads": 4},
}


def tiny_config(kind: str) -> Any:
    """A small config of a family: whatever of the usual options it has is made small."""
    from transformers import AutoConfig

    cls = type(AutoConfig.for_model(kind))
    base = cls()
    parts = [name for name in getattr(cls, "sub_configs", {}) if getattr(base, name, None) is not None]
    if parts:
        return cls(**{name: _shrunk(type(getattr(base, name))).to_dict() for name in parts})
    return _shrunk(cls, _OWN.get(kind, {}))


def _shrunk(cls: Any, own: dict[str, Any] | None = None) -> Any:
    base = cls()
    options = {}
    for name, value in _SIZES.items():
        try:
            known = getattr(base, name, None) is not None
        except Exception:
            known = True
        if known:
            options[name] = value
    kinds = list(dict.fromkeys(getattr(base, "layer_types", None) or ()))
    if kinds:
        options["layer_types"] = (kinds * 2)[: max(2, len(kinds))]
        for name in ("num_hidden_layers", "n_layer", "num_layers"):
            if name in options:
                options[name] = len(options["layer_types"])
    if "kv_lora_rank" in options:  # latent attention: no groups, and the rotated part is a head of its own
        options["num_key_value_heads"], options["head_dim"] = options.get("num_attention_heads", 4), 8
    options |= own or {}
    for _ in range(8):  # options that are derived from others are left out, one by one
        try:
            return cls(**options)
        except (AttributeError, NotImplementedError, TypeError) as err:
            longest_first = sorted(options, key=len, reverse=True)
            name = next((n for n in longest_first if f"'{n}'" in str(err) or f"`{n}`" in str(err)), None)
            if name is None:
                name = "layer_types" if "layers_block_type" in str(err) and "layer_types" in options else None
            if name is None:
                raise
            del options[name]
    return cls(**options)


def tiny_family(kind: str) -> Any:
    """A `LanguageModel` around a tiny random model of the family, its weights large enough that the past matters."""
    import torch
    from transformers import AutoModelForCausalLM

    from openended.harness.models.families import choose_attention
    from tests.harness.generation.models import wrap

    config = tiny_config(kind)
    cls = AutoModelForCausalLM._model_mapping[type(config)]
    cls = cls[0] if isinstance(cls, tuple) else cls
    with torch.device("meta"):
        size = sum(p.numel() for p in AutoModelForCausalLM.from_config(config).parameters())
    if size > MOST:
        raise ValueError(f"its smallest config here has {size / 1e6:.0f} M parameters")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, attn_implementation=choose_attention(cls))
        for p in model.parameters():
            if p.dim() >= 2:
                p.data.mul_(3.0)
    return wrap(model.eval().requires_grad_(requires_grad=False), context_length=64)


def how(kind: str) -> str:
    """How the family is run: `fixed`, `reread`, or why not."""
    from openended.harness.core.errors import shorten_error
    from openended.harness.generation.runners import RUNNER_KINDS, make_runner
    from openended.harness.models.families import find_refusal

    reason = find_refusal({"model_type": kind})
    if reason:
        return f"refused: {reason}"
    try:
        lm = tiny_family(kind)
    except Exception as err:
        return f"not tried: {shorten_error(err)[:80]}"
    try:
        make_runner(lm, 1, 16)
    except Exception as err:
        return f"refused: {shorten_error(err).removeprefix('model gpt2: ')}"
    return RUNNER_KINDS[lm.model]


def main() -> None:
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as names

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    rows = [f"| `{kind}` | {how(kind)} |" for kind in sorted(names)]
    _, heading, rest = DOCS.read_text(encoding="utf-8").partition("\n## ")  # what follows the table stays
    text = "\n".join([HEAD.format(version=transformers.__version__), *rows]) + "\n"
    DOCS.write_text(text + heading + rest, encoding="utf-8")


def table() -> dict[str, str]:
    """What docs/families.md says: family → how it is run."""
    lines = [line.strip("| ").split(" | ", 1) for line in DOCS.read_text(encoding="utf-8").splitlines()]
    return {cells[0].strip("`"): cells[1] for cells in lines if len(cells) == 2 and cells[0].startswith("`")}


if __name__ == "__main__":
    main()
