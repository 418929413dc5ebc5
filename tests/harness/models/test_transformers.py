"""Model specs: titles, digests, context lengths, and what is missing said in one line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from openended.harness.decoding.base import Decoder
from openended.harness.errors import DataError, SpecError
from openended.harness.models.transformers import (
    ModelSpec,
    bundled_models,
    load_model,
    load_tokenizer,
    tokenizer_digest,
)
from openended.harness.registry import build, members
from openended.harness.signature import canonical, digest
from tests.helpers import tiny_model

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny model folder: GPT-2 shape, byte-level tokenizer."""
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def copy_without(folder: Path, tmp_path: Path, *names: str) -> ModelSpec:
    target = tmp_path / "partial"
    shutil.copytree(folder, target)
    for name in names:
        (target / name).unlink()
    return ModelSpec(path=str(target))


def test_load_encode_and_decode(folder):
    spec = ModelSpec(path=str(folder))
    lm = load_model(spec)
    assert (lm.vocab_size, lm.context_length, lm.eos_id) == (257, 64, 0)
    assert lm.model.generation_config.top_k != 7  # the model's own generation settings are put aside
    assert not lm.model.training
    for text in ("Hello, wörld  with\nlines", "", " leading"):
        assert lm.decode(lm.encode(text)) == text
        assert load_tokenizer(spec).encode(text) == lm.encode(text)
    assert lm.continuation(lm.encode("a"), lm.encode(" b")) == " b"


def test_title_and_context(folder):
    assert ModelSpec(path=str(folder)).title == "tiny"
    assert ModelSpec(path="openai-community/gpt2-large").title == "gpt2-large"
    assert ModelSpec(path="x/y", label="mine").title == "mine"
    assert ModelSpec(path=str(folder)).context_length() == 64


def test_identity_is_the_content(folder, tmp_path):
    spec = ModelSpec(path=str(folder))
    copied = copy_without(folder, tmp_path)
    assert digest(spec.identity()) == digest(copied.identity())
    assert tokenizer_digest(spec) == tokenizer_digest(copied)
    assert digest(spec.identity()) != digest(ModelSpec(path=str(folder), dtype="bfloat16").identity())
    config = Path(copied.path) / "config.json"
    config.write_text(config.read_text() + "\n")
    assert digest(spec.identity()) != digest(copied.identity())
    assert tokenizer_digest(spec) == tokenizer_digest(copied)


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (("model.safetensors",), "no weights"),
        (("config.json",), "no config.json"),
        (("tokenizer.json",), "no tokenizer"),
    ],
)
def test_what_is_missing_is_named(folder, tmp_path, missing, said):
    spec = copy_without(folder, tmp_path, *missing)
    for call in (spec.check_ready, lambda: load_model(spec), spec.identity):
        with pytest.raises(DataError, match=said) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_broken_weights_are_one_line(folder, tmp_path):
    spec = copy_without(folder, tmp_path)
    (Path(spec.path) / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(DataError, match="cannot be loaded") as caught:
        load_model(spec)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_not_there():
    with pytest.raises(DataError, match="no such folder"):
        ModelSpec(path="./not/there").check_ready()


def test_hub_models_without_a_network(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    spec = ModelSpec(path="nobody/nothing-of-this-name")
    for call in (spec.check_ready, spec.identity, spec.context_length):
        with pytest.raises(DataError, match="hf download nobody/nothing-of-this-name"):
            call()
    pinned = ModelSpec(path="nobody/nothing-of-this-name", revision="a" * 40)
    assert pinned.identity()["commit"] == "a" * 40


def test_a_hub_that_cannot_be_reached_is_as_one_that_is_off(monkeypatch, tmp_path, caplog):
    from huggingface_hub import constants

    from openended.harness.models.hub import NAMES, reachable

    for name in (*NAMES, "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # the discard port: nothing listens
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    reachable.cache_clear()
    spec = ModelSpec(path="nobody/nothing-of-this-name")
    for call in (spec.check_ready, spec.identity, spec.context_length):
        with pytest.raises(DataError, match="hf download nobody/nothing-of-this-name"):
            call()
    assert caplog.text.count("cannot be reached") == 1
    assert constants.HF_HUB_OFFLINE
    reachable.cache_clear()


def test_refused_specs(folder):
    with pytest.raises(SpecError, match=r"model\.path"):
        ModelSpec(path=" ")
    with pytest.raises(SpecError, match="bundled"):
        ModelSpec(path="bundled:nothing")
    with pytest.raises(SpecError, match="revision"):
        ModelSpec(path=str(folder), revision="main")
    with pytest.raises(SpecError, match="dtype"):
        ModelSpec(path="gpt2", dtype="int8")  # type: ignore[arg-type]


def test_a_device_that_is_not_there(folder):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(DataError, match="CUDA"):
        load_model(ModelSpec(path=str(folder)), device="cuda")


def test_bundled_models_are_well_formed():
    for name in bundled_models():
        spec = ModelSpec(path=f"bundled:{name}")
        spec.check_ready()
        assert (spec.title, spec.context_length()) == (name, 512)


OPTIONS = sorted((ROOT / "conf/decoder").glob("*.yaml"))


@pytest.mark.parametrize("path", OPTIONS, ids=lambda p: p.stem)
def test_every_decoder_option_is_written_out(path):
    node = yaml.safe_load(path.read_text(encoding="utf-8"))
    decoder = build("decoder", node)
    assert isinstance(decoder, Decoder)
    fields = set(canonical(decoder)) - {"_target_", "version"}  # type: ignore[arg-type]
    assert set(node) - {"_target_"} == fields
    assert path.read_text(encoding="utf-8").startswith("# ")
    if path.stem == decoder.name:  # the YAML of the decoder's own name holds its defaults
        assert canonical(decoder) == canonical(type(decoder)())


def test_every_decoder_has_an_option_and_a_reason():
    named = {p.stem for p in OPTIONS}
    for name, cls in members("decoder").items():
        assert name in named
        assert cls.has_q or cls.no_q_reason
        assert isinstance(cls().title, str)


@pytest.mark.parametrize("path", sorted((ROOT / "conf/model").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_model_option_is_a_spec(path):
    node = yaml.safe_load(path.read_text(encoding="utf-8"))
    options = {k: v for k, v in node.items() if k != "_target_"}
    if options["path"].removeprefix("bundled:") not in bundled_models() and options["path"].startswith("bundled:"):
        pytest.skip("the bundled model is not there yet")
    assert ModelSpec(**options).title


REFUSED = [
    ("nucleus", {"p": 0.0}), ("nucleus", {"p": 1.1}), ("top_k", {"k": 0}), ("temperature", {"temperature": 0.0}),
    ("nucleus", {"temperature": -1.0}), ("nucleus", {"repetition_penalty": 0.0}), ("greedy", {"no_repeat_ngram_size": -1}),
    ("typical", {"mass": 0.0}), ("epsilon", {"eps": 1.0}), ("eta", {"eps": 0.0}), ("min_p", {"p": 1.5}), ("top_h", {"h": 0.0}),
    ("top_h", {"candidates": 1}), ("top_n_sigma", {"n": 0.0}), ("mirostat", {"tau": 0.0}), ("mirostat", {"learning_rate": 0.0}),
    ("mirostat", {"candidates": 1}), ("mirostat", {"temperature_order": "after"}), ("entmax", {"alpha": 1.0}),
    ("entmax", {"temperature_order": "after"}), ("beam", {"num_beams": 1}), ("beam", {"temperature": 0.7}),
    ("beam", {"repetition_penalty": -1.0}), ("beam", {"no_repeat_ngram_size": -1}), ("beam", {"length_penalty": float("inf")}),
    ("beam", {"early_stopping": "soon"}), ("beam_sample", {"top_p": 0.0}), ("beam_sample", {"temperature": 0.0}),
    ("beam_sample", {"top_k": -1}), ("contrastive_search", {"k": 0}), ("contrastive_search", {"alpha": 2.0}),
    ("contrastive_decoding", {"alpha": 0.0}), ("contrastive_decoding", {"amateur": {"pth": "x"}}),
    ("contrastive_decoding", {"amateur_temperature": 0.0}), ("adversarial", {"random_share": 1.0}),
    ("adversarial", {"human_ppl": 0.5}), ("greedy", {"temperature": 0.7}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), REFUSED, ids=str)
def test_refused_decoders(name, options):
    cls = members("decoder")[name]
    node = {"_target_": f"{cls.__module__}.{cls.__qualname__}", **options}
    with pytest.raises(SpecError, match=next(iter(options))) as caught:
        build("decoder", node)
    assert "\n" not in str(caught.value)


def test_adversarial_takes_the_human_perplexity():
    decoder = members("decoder")["adversarial"]()
    assert decoder.needs_human_ppl
    resolved = decoder.resolve(42.0)
    assert not resolved.needs_human_ppl
    assert resolved.human_ppl == 42.0
    with pytest.raises(SpecError, match="takes nothing"):
        members("decoder")["greedy"]().resolve(42.0)


def test_specs_import_no_torch():
    code = (
        "import sys\n"
        "import openended.harness.models.transformers\n"
        "from openended.harness.registry import members\n"
        "[cls().title for cls in members('decoder').values()]\n"
        "print([m for m in ('torch', 'transformers', 'tokenizers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
