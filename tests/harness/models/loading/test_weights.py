"""Weights that do not fit their config are refused by name, and numbers that are none become no text."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from openended.harness.core.errors import DataError
from openended.harness.core.signature import digest
from openended.harness.decoders.sampling import Ancestral, Greedy, Nucleus
from openended.harness.generation.adversarial import Adversarial
from openended.harness.generation.beam_search import Beam, BeamSample
from openended.harness.generation.contrastive import ContrastiveDecoding, ContrastiveSearch
from openended.harness.generation.generate import Prompt, generate_texts
from openended.harness.generation.teacher_forcing import compute_q_statistics
from openended.harness.models import families
from openended.harness.models.embedder import EmbedderSpec
from openended.harness.models.spec import ModelSpec
from openended.harness.models.transformers import load_masked, load_model
from tests.harness.generation.models import gpt2, wrap
from tests.helpers import generation, q_request, ragged, tiny_model


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def changed(original: Path, tmp_path: Path, weights: Any = None, **config: Any) -> ModelSpec:
    """A copy with other weights and another config."""
    folder = tmp_path / "copy"
    shutil.copytree(original, folder)
    if weights is not None:
        save_file(weights(load_file(folder / "model.safetensors")), folder / "model.safetensors", {"format": "pt"})
    told = json.loads((folder / "config.json").read_text()) | config
    (folder / "config.json").write_text(json.dumps(told))
    return ModelSpec(path=str(folder))


def renamed(weights: dict[str, Any]) -> dict[str, Any]:
    name = next(k for k in weights if k.endswith("h.0.mlp.c_fc.weight"))
    return {("lost" if k == name else k): v for k, v in weights.items()}


def test_a_renamed_tensor_is_refused(original, tmp_path):
    with pytest.raises(DataError, match=r"1 missing: .*h\.0\.mlp\.c_fc\.weight; 1 that the model has no use for: lost"):
        load_model(changed(original, tmp_path, renamed))


def test_a_config_with_more_layers_than_weights_is_refused(original, tmp_path):
    layers = json.loads((original / "config.json").read_text())["n_layer"]
    with pytest.raises(DataError, match=rf"missing: .*h\.{layers}\..*, …\)") as caught:
        load_model(changed(original, tmp_path, n_layer=2 * layers))
    assert "\n" not in str(caught.value)


def test_a_config_with_fewer_layers_than_weights_is_refused(original, tmp_path):
    layers = json.loads((original / "config.json").read_text())["n_layer"]
    with pytest.raises(DataError, match=r"that the model has no use for: .*h\."):
        load_model(changed(original, tmp_path, n_layer=layers - 1))


def test_another_width_is_refused(original, tmp_path):
    with pytest.raises(DataError, match=r"of another shape: .*wpe\.weight \(64x\d+ for 32x\d+\)"):
        load_model(changed(original, tmp_path, n_positions=32, n_ctx=32))


def test_weights_of_another_family_are_refused(original, tmp_path):
    spec = changed(original, tmp_path, model_type="gptj", rotary_dim=4, architectures=["GPTJForCausalLM"])
    with pytest.raises(DataError, match=r"its weights do not fit its config\.json \(.* missing: .*no use for"):
        load_model(spec)
    spec = changed(original, tmp_path / "masked", model_type="bert", architectures=["BertModel"])
    with pytest.raises(DataError, match=r"its weights do not fit its config\.json \(.* missing: "):
        load_masked(spec)


def broken(value: float) -> Any:
    """A model one number of whose output layer is none, as after an overflow."""
    made = gpt2(seed=7)
    import copy

    model = copy.deepcopy(made.model)
    model.lm_head.weight.data[3, 0] = value
    lm = wrap(model)
    families.RUNNER_KINDS[model] = "fixed"  # the check at load would see it first: what counts here is a later overflow
    return lm


DECODERS = [
    Greedy(), Ancestral(), Nucleus(), Beam(num_beams=2), BeamSample(num_beams=2), ContrastiveSearch(k=2),
    ContrastiveDecoding(), Adversarial(human_ppl=30.0), Greedy(repetition_penalty=1.2),
]  # fmt: skip


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda d: d.name)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_logits_that_are_no_numbers_become_no_text(decoder, value):
    lm = broken(value)
    with pytest.raises(DataError, match=r"model gpt2: its logits are not finite in float32"):
        generate_texts(lm, generation([Prompt("a", 0, (5, 6))], decoder, seed=0, max_new_tokens=4, batch_size=1, companions={"amateur": gpt2(seed=1)}), lambda _: None)  # fmt: skip


def test_nor_do_they_become_a_statistic():
    with pytest.raises(DataError, match="its logits are not finite"):
        compute_q_statistics(
            broken(float("nan")), q_request(ragged([[5]]), ragged([[6, 7]]), [Nucleus()], batch_size=1)
        )


def test_an_overflow_of_float16_is_seen_at_load(original, tmp_path):
    def large(weights: dict[str, Any]) -> dict[str, Any]:
        return {k: v * 1e6 if k.endswith("ln_f.weight") else v for k, v in weights.items()}

    spec = changed(original, tmp_path, large)
    spec.load()
    half = ModelSpec(path=spec.path, dtype="float16")
    with pytest.raises(DataError, match=r"not finite in float16; its weights are broken, or try dtype=float32"):
        half.load()


def sharded(original: Path, tmp_path: Path) -> tuple[ModelSpec, Path]:
    """The weights in two shards of unusual names."""
    folder = tmp_path / "shards"
    shutil.copytree(original, folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    parts = {"one.part": names[::2], "two.part": names[1::2]}
    for file, keys in parts.items():
        save_file({k: weights[k] for k in keys}, folder / file, {"format": "pt"})
    where = {k: file for file, keys in parts.items() for k in keys}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": where}))
    return ModelSpec(path=str(folder)), folder


def test_shards_are_those_of_the_index_and_all_of_them_are_digested(original, tmp_path):
    spec, folder = sharded(original, tmp_path)
    before = spec.identity()["files"]
    assert {"one.part", "two.part", "model.safetensors.index.json"} <= set(before)
    weights = load_file(folder / "two.part")
    save_file({k: v + 1 for k, v in weights.items()}, folder / "two.part", {"format": "pt"})
    assert spec.identity()["files"] != before
    index = folder / "model.safetensors.index.json"
    same = digest(spec.identity())
    index.write_text(index.read_text() + "\n")
    assert digest(spec.identity()) != same
    (folder / "one.part").unlink()
    with pytest.raises(DataError, match=r"names the shard one\.part, which is not in the folder"):
        spec.identity()


SENTENCE = ["modules.json", "config_sentence_transformers.json", "1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors", "0_Transformer/model.safetensors"]  # fmt: skip


@pytest.mark.parametrize("file", SENTENCE)
def test_all_that_a_sentence_model_loads_is_digested(tmp_path, file):
    for name in [*SENTENCE, "README.md", ".cache/lock"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    spec = EmbedderSpec(path=str(tmp_path), kind="sentence")
    before = digest(spec.identity())
    (tmp_path / "README.md").write_text("another")
    (tmp_path / ".cache/lock").write_text("another")
    assert digest(spec.identity()) == before
    (tmp_path / file).write_text("{} ")
    assert digest(spec.identity()) != before


def test_a_folder_that_is_no_sentence_model_is_refused(original):
    with pytest.raises(DataError, match=r"no modules\.json in the folder"):
        EmbedderSpec(path=str(original), kind="sentence").identity()
