"""Serve a GGUF file, or a GPT-2 folder converted to one, with llama.cpp's own server; run by an environment with xllamacpp and gguf.

python llama_server.py MODEL PORT
"""

import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

NAMES = {
    "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
    "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}  # fmt: skip
OUTSIDE = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
AT_ONCE = 4


def rename(name: str) -> str:
    """Return llama.cpp's name of a tensor of transformers' GPT-2."""
    path, _, kind = name.removeprefix("transformer.").rpartition(".")
    if path.startswith("h."):
        _, layer, part = path.split(".", 2)
        return f"blk.{layer}.{NAMES[part]}.{kind}"
    return f"{OUTSIDE[path]}.{kind}"


def convert(folder: Path, target: Path) -> None:
    """Write a model in float32, with its tokenizer."""
    import gguf
    import numpy as np
    from safetensors import safe_open

    config = json.loads((folder / "config.json").read_text())
    tokenizer: dict[str, Any] = json.loads((folder / "tokenizer.json").read_text())
    writer = gguf.GGUFWriter(str(target), "gpt2")
    writer.add_name(folder.name)
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_feed_forward_length(config["n_inner"] or 4 * config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    ids = tokenizer["model"]["vocab"]
    special = {token["id"] for token in tokenizer["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(sorted(ids, key=ids.__getitem__))
    writer.add_token_types(
        [gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL for i in sorted(ids.values())]
    )
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(False)
    with safe_open(folder / "model.safetensors", "np") as tensors:
        for name in tensors.keys():  # noqa: SIM118 - it is no mapping
            tensor = tensors.get_tensor(name).astype(np.float32)
            turned = name.endswith("weight") and tensor.ndim == 2 and ".h." in name
            writer.add_tensor(rename(name), np.ascontiguousarray(tensor.T) if turned else tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def serve(model: Path, port: int) -> None:
    """Serve until the process is ended; llama.cpp's defaults are left as they are."""
    import xllamacpp

    target = model
    if model.is_dir():
        target = Path(tempfile.mkdtemp()) / f"{model.name}.gguf"
        convert(model, target)
    params = xllamacpp.CommonParams()
    params.model.path = str(target)
    params.model_alias = {model.stem}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = AT_ONCE
    params.n_ctx = AT_ONCE * 512
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
