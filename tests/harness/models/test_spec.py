"""Model specs: titles, digests, sizes, context lengths, end tokens, the registry, and what is missing in one line."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from openended.harness.core import DataError, SpecError, build, digest, load_members
from openended.harness.models import BackendSpec, ModelSpec, list_bundled_models, load_tokenizer, tokenizer_digest
from tests.helpers import copy_without, tiny_model

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny model folder: GPT-2 shape, byte-level tokenizer."""
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def test_title_and_context(folder):
    assert ModelSpec(path=str(folder)).title == "tiny"
    assert ModelSpec(path="openai-community/gpt2-large").title == "gpt2-large"
    assert ModelSpec(path="x/y", label="mine").title == "mine"
    assert ModelSpec(path="x/y", label="mine", chat_template=True).title == "mine (chat)"
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

    from openended.harness.models.files import NAMES, is_reachable

    for name in (*NAMES, "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # the discard port: nothing listens
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    is_reachable.cache_clear()
    spec = ModelSpec(path="nobody/nothing-of-this-name")
    for call in (spec.check_ready, spec.identity, spec.context_length):
        with pytest.raises(DataError, match="hf download nobody/nothing-of-this-name"):
            call()
    assert caplog.text.count("cannot be reached") == 1
    assert constants.HF_HUB_OFFLINE
    is_reachable.cache_clear()


def test_bundled_models_are_well_formed():
    for name in list_bundled_models():
        spec = ModelSpec(path=f"bundled:{name}")
        spec.check_ready()
        assert (spec.title, spec.context_length()) == (name, 512)


def test_specs_import_no_torch():
    code = (
        "import sys\n"
        "import openended.harness.models.transformers\n"
        "from openended.harness.core.registry import load_members\n"
        "[cls().title for cls in load_members('decoder').values()], load_members('model')\n"
        "print([m for m in ('torch', 'transformers', 'tokenizers', 'httpx', 'ray') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, timeout=240
    )
    assert done.stdout.strip() == "[]"


def with_ends(spec: ModelSpec, config: object, generation: object = None) -> ModelSpec:
    """The same folder whose configs name other end tokens."""
    folder = Path(spec.path)
    told = json.loads((folder / "config.json").read_text()) | {"eos_token_id": config}
    (folder / "config.json").write_text(json.dumps(told))
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": generation}))
    return spec


@pytest.mark.parametrize(
    ("config", "generation", "ends"),
    [(3, None, (3,)), ([3, 5], None, (3, 5)), (3, [7, 3], (3, 7)), (None, 7, (7,)), ([4], [4], (4,)), (3, 4, (3, 4))],
)
def test_all_end_tokens_that_the_configs_name_count(folder, tmp_path, config, generation, ends):
    spec = with_ends(copy_without(folder, tmp_path, "generation_config.json"), config, generation)
    assert spec.end_ids() == ends
    assert load_tokenizer(spec).eos_ids == ends


def test_the_generation_config_is_part_of_the_identity(folder, tmp_path):
    spec = copy_without(folder, tmp_path)
    before = digest(spec.identity())
    assert digest(with_ends(spec, 0, [0, 3]).identity()) != before


def test_the_nested_config_of_a_model_of_several_kinds_is_read(tmp_path):
    nested = {"text_config": {"eos_token_id": [1, 2], "max_position_embeddings": 99}}
    (tmp_path / "config.json").write_text(json.dumps(nested))
    spec = ModelSpec(path=str(tmp_path))
    assert (spec.end_ids(), spec.context_length()) == ((1, 2), 99)


def test_the_registry_holds_the_backends(folder):
    assert load_members("model")["transformers"] is ModelSpec
    for name, cls in load_members("model").items():
        assert issubclass(cls, BackendSpec)
        assert cls.name == name
        assert cls.loader or cls.load is not BackendSpec.load
    node = {"_target_": "openended.harness.models.spec.ModelSpec", "path": str(folder)}
    assert build("model", node) == ModelSpec(path=str(folder))
    with pytest.raises(SpecError, match="is not a registered model"):
        build("model", {"_target_": "openended.harness.models.embedder.EmbedderSpec", "path": "x"})


@pytest.mark.parametrize(
    "changed",
    [{"n_layer": 100_000}, {"vocab_size": 10**30}, {"n_embd": -1}, {"eos_token_id": -1}, {"eos_token_id": [0, -1]},
     {"bos_token_id": -1}, {"text_config": {"num_hidden_layers": 10**9}}, {"text_config": 3}],
)  # fmt: skip
def test_sizes_that_no_model_has_are_refused_before_anything_is_built(changed, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "m")
    config = json.loads((tmp_path / "m/config.json").read_text())
    (tmp_path / "m/config.json").write_text(json.dumps(config | changed))
    with pytest.raises(DataError, match=rf"config\.json: {next(iter(changed))}|num_hidden_layers") as caught:
        ModelSpec(path=str(tmp_path / "m")).cannot("score")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("rope", "length"),
    [
        ({"rope_scaling": {"type": "longrope"}, "original_max_position_embeddings": 4096}, 4096),
        ({"rope_scaling": {"type": "su"}, "original_max_position_embeddings": 4096}, 4096),
        ({"rope_parameters": {"rope_type": "longrope", "original_max_position_embeddings": 4096}}, 4096),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "longrope", "original_max_position_embeddings": 64}}},
            64,
        ),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, 131072),
        ({"rope_scaling": {"rope_type": "dynamic", "original_max_position_embeddings": 2048}}, 2048),
        ({"rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 2048}}, 131072),
    ],
)
def test_rotary_embeddings_that_change_with_the_length_end_at_their_original_context(rope, length, tmp_path):
    config = {"model_type": "phi3", "max_position_embeddings": 131072, **rope}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert ModelSpec(path=str(tmp_path)).context_length() == length


def test_a_folder_is_measured_by_the_header_of_its_weights(tmp_path):
    from transformers import GPT2LMHeadModel

    folder = tiny_model(tmp_path / "m")
    size = ModelSpec(path=str(folder)).describe_size()
    counted = sum(p.numel() for p in GPT2LMHeadModel.from_pretrained(folder).parameters())
    assert size.parameters == counted
    assert (size.here, size.get, size.memory) == (True, "", 4 * counted)
    assert ModelSpec(path=str(folder), dtype="bfloat16").describe_size().memory == 2 * counted


def test_a_model_of_the_hub_that_is_not_here_is_as_large_as_our_yaml_says(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    size = ModelSpec(path="openai-community/gpt2-xl", revision="0" * 40).describe_size()
    assert (size.parameters, size.here, size.gated) == (1_600_000_000, False, None)
    assert size.get == f"hf download openai-community/gpt2-xl --revision {'0' * 40}"
    llama = ModelSpec(path="meta-llama/Llama-3.1-8B-Instruct", revision="1" * 40).describe_size()
    assert (llama.parameters, llama.gated) == (None, True)
