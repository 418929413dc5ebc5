"""GGUF files as model, scorer and embedder: what they hold, what they are called, and files that are none."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openended.harness.core import DataError, ExtraNotInstalled, SpecError, load_members
from openended.harness.models import EmbedderSpec, ModelSpec, compute_token_nll
from openended.harness.models.tokenizer import load_tokenizer
from tests.helpers import cases, check_error, embed_one, ragged, scoring
from tests.lazy import torch

gguf = pytest.importorskip("gguf")
pytest.importorskip("accelerate")

WIDTH, LAYERS = 32, 1
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


def write_gguf(path: Path, *, seed: int = 0, **kinds: int) -> Path:
    """Write a Llama of one layer, with a token per byte and weights in Q8_0."""
    from tokenizers import pre_tokenizers

    letters = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "ab"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_file_type(kinds.get("file_type", gguf.LlamaFileType.MOSTLY_Q8_0))
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // 2)
    writer.add_vocab_size(len(letters) + 1)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["<end>", *letters])
    writer.add_token_types([gguf.TokenType.CONTROL, *[gguf.TokenType.NORMAL] * len(letters)])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_chat_template(TEMPLATE)
    rng = np.random.default_rng(seed)
    shapes = {"token_embd": (len(letters) + 1, WIDTH), "output": (len(letters) + 1, WIDTH), "output_norm": (WIDTH,)}
    names = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    shapes |= {f"blk.0.{name}": (WIDTH, WIDTH) for name in names}
    shapes |= {f"blk.0.{name}": (WIDTH,) for name in ("attn_norm", "ffn_norm")}
    for name, shape in shapes.items():
        weights = rng.normal(size=shape).astype(np.float32)
        kind = gguf.GGMLQuantizationType.Q8_0 if len(shape) == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(f"{name}.weight", gguf.quantize(weights, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENENDED_CACHE", str(tmp_path / "cache"))
    return write_gguf(tmp_path / "tiny.gguf")


def test_a_gguf_file_is_a_model_a_scorer_and_an_embedder(path):
    from transformers import AutoModelForCausalLM

    spec = ModelSpec(path=str(path))
    spec.demand("generate")
    assert (spec.title, spec.context_length(), spec.end_ids()) == ("tiny Q8_0", 64, (0,))
    assert spec.describe_size().here
    assert spec.describe_size().parameters == 2 * 258 * WIDTH + 7 * WIDTH**2 + 3 * WIDTH
    ids = load_tokenizer(spec).encode("Two café words.")
    assert load_tokenizer(spec).decode(ids) == "Two café words."
    lm = spec.load()
    plain = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    with torch.inference_mode():
        logits = plain(torch.tensor([ids]))
        out = plain(torch.tensor([ids]), output_hidden_states=True)
    want = -logits.logits[0, :-1].log_softmax(-1)[range(len(ids) - 1), ids[1:]]
    nll = compute_token_nll(lm, scoring(ragged([[]]), ragged([ids]), batch_size=1))
    assert nll.values == pytest.approx(want.numpy(), abs=1e-4)
    embedder = EmbedderSpec(path=str(path))
    assert embedder.title == spec.title
    vectors = embed_one(lm, embedder, ragged([[]]), ragged([ids]), batch_size=1).vectors
    np.testing.assert_allclose(vectors[0], out.hidden_states[-1][0, -1].numpy(), atol=1e-4)


def test_its_identity_is_of_its_bytes_and_its_name_has_the_quantization_once(path, tmp_path):
    spec = ModelSpec(path=str(path))
    assert spec.identity()["quantization"] == "Q8_0"
    moved = write_gguf(tmp_path / "other-q8_0.gguf")
    assert ModelSpec(path=str(moved)).identity() == spec.identity()
    assert ModelSpec(path=str(moved)).title == "other-q8_0"
    assert ModelSpec(path=str(path), label="mine", chat_template=True).title == "mine (chat)"
    other = ModelSpec(path=str(write_gguf(tmp_path / "other.gguf", seed=1)))
    assert other.identity() != spec.identity()
    unknown = ModelSpec(path=str(write_gguf(tmp_path / "unknown.gguf", file_type=9999)))
    assert unknown.title == "unknown Q8_0"  # as most of its weights are stored


@cases(
    "act, message",
    (lambda path: path.unlink(), "no such file"),
    (lambda path: path.write_bytes(b"no model"), "cannot be read as GGUF"),
    (lambda path: path.write_bytes(path.read_bytes()[:3000]), "cannot be read as GGUF"),
)
def test_a_file_that_is_no_gguf_is_one_line(path, act, message):
    act(path)
    check_error(DataError, rf"^model .*tiny\.gguf: {message}", ModelSpec(path=str(path)).config)


def test_options_and_packages_that_a_gguf_file_needs(path, monkeypatch):
    check_error(SpecError, r"model=folder reads GGUF files", load_members("model")["vllm"], path=str(path))
    check_error(SpecError, r"revision: expected null for a folder or file", ModelSpec, path=str(path), revision="main")
    find: Any = __import__("importlib.util").util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "gguf" else find(name))
    with pytest.raises(ExtraNotInstalled, match=r"gguf is not installed; pip install 'openended\[gguf\]'"):
        ModelSpec(path=str(path)).config()
