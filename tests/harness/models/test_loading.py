"""Models: specs, digests and sizes; loading: files, weights that do not fit, untrusted code, and what is missing."""

import copy
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from openended.harness import models as harness_models
from openended.harness.backends.transformers import make_backend
from openended.harness.core import DataError, Runtime, SpecError, digest
from openended.harness.decoders.base import Prompt
from openended.harness.decoders.sampling import Ancestral, Greedy, Nucleus
from openended.harness.generation import compute_q_statistics, runners
from openended.harness.generation.adversarial import Adversarial
from openended.harness.generation.beam_search import Beam, BeamSample
from openended.harness.generation.contrastive import ContrastiveDecoding, ContrastiveSearch
from openended.harness.models import ModelSpec, compute_token_nll, load_model, spec as spec_module
from openended.harness.models.files import INDEX, digest_files, list_model_files, list_tokenizer_files
from openended.harness.models.tokenizer import decode_continuation, load_tokenizer
from tests.harness.generation.models import gpt2, wrap
from tests.helpers import (
    cases,
    change_json,
    check_error,
    copy_without,
    generate,
    q_request,
    ragged,
    scoring,
    tiny_model,
    write_file,
)
from tests.lazy import LazyModule, torch

# Loading a model: its files, their digests, weights that do not fit, untrusted code, and what is missing

safetensors = LazyModule("safetensors.torch")


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def changed(original: Path, tmp_path: Path, weights: Any = None, **config: Any) -> ModelSpec:
    """A copy with other weights and another config."""
    folder = tmp_path / "copy"
    shutil.copytree(original, folder)
    if weights is not None:
        path = folder / WEIGHTS
        safetensors.save_file(weights(safetensors.load_file(path)), path, {"format": "pt"})
    change_json(folder / "config.json", **config)
    return ModelSpec(path=str(folder))


GPTJ = {"model_type": "gptj", "rotary_dim": 4, "architectures": ["GPTJForCausalLM"]}


def renamed(weights: dict[str, Any]) -> dict[str, Any]:
    name = next(k for k in weights if k.endswith("h.0.mlp.c_fc.weight"))
    return {("lost" if k == name else k): v for k, v in weights.items()}


@cases(
    "weights, config, message",
    (renamed, {}, r"1 missing: .*h\.0\.mlp\.c_fc\.weight; 1 that the model has no use for: lost"),
    (None, {"n_layer": 2}, r"missing: .*h\.1\..*, …\)"),
    (None, {"n_layer": 0}, r"that the model has no use for: .*h\."),
    (None, {"n_positions": 32, "n_ctx": 32}, r"of another shape: .*wpe\.weight \(64x\d+ for 32x\d+\)"),
    (None, GPTJ, r"its weights do not fit its config\.json \(.* missing: .*no use for"),
    ids=["renamed", "more layers", "fewer layers", "another width", "another family"],
)
def test_weights_that_do_not_fit_are_refused_by_name(original, tmp_path, weights, config, message):
    check_error(DataError, message, load_model, changed(original, tmp_path, weights, **config))


def broken(value: float) -> Any:
    """A model one number of whose output layer is none, as after an overflow."""
    model = copy.deepcopy(gpt2(seed=7).model)
    model.lm_head.weight.data[3, 0] = value
    lm = wrap(model)
    runners.RUNNER_KINDS[model] = "fixed"  # the check at load would see it first: what counts here is a later overflow
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
        generate(lm, [Prompt("a", 0, (5, 6))], decoder, seed=0, max_new_tokens=4, batch_size=1, companions={"amateur": gpt2(seed=1)})  # fmt: skip


def test_nor_do_they_become_a_statistic():
    request = q_request(ragged([[5]]), ragged([[6, 7]]), [Nucleus()], batch_size=1)
    check_error(DataError, "its logits are not finite", compute_q_statistics, broken(float("nan")), request)


def test_an_overflow_of_float16_is_seen_at_load(original, tmp_path):
    def large(weights: dict[str, Any]) -> dict[str, Any]:
        return {k: v * 1e6 if k.endswith("ln_f.weight") else v for k, v in weights.items()}

    spec = changed(original, tmp_path, large)
    spec.load()
    half = ModelSpec(path=spec.path, dtype="float16")
    check_error(DataError, r"not finite in float16; its weights are broken, or try dtype=float32", half.load)


def test_shards_are_those_of_the_index_and_all_of_them_are_digested(original, tmp_path):
    folder = tmp_path / "shards"
    shutil.copytree(original, folder)
    weights = safetensors.load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = sorted(weights)
    parts = {"one.safetensors": names[::2], "two.safetensors": names[1::2]}
    for file, keys in parts.items():
        safetensors.save_file({k: weights[k] for k in keys}, folder / file, {"format": "pt"})
    where = {k: file for file, keys in parts.items() for k in keys}
    index = write_file(folder / INDEX, json.dumps({"metadata": {"total_size": 1}, "weight_map": where}))
    spec = ModelSpec(path=str(folder))
    before = spec.identity()["files"]
    assert {"one.safetensors", "two.safetensors", "model.safetensors.index.json"} <= set(before)
    weights = safetensors.load_file(folder / "two.safetensors")
    safetensors.save_file({k: v + 1 for k, v in weights.items()}, folder / "two.safetensors", {"format": "pt"})
    assert spec.identity()["files"] != before
    same = digest(spec.identity())
    index.write_text(index.read_text() + "\n")
    assert digest(spec.identity()) != same


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
def test_an_adapter_is_refused_wherever_a_model_is_named(original, tmp_path, name):
    """transformers would add its weights if peft is installed, and read the base model alone without."""
    model = copy_without(original, tmp_path)
    (tmp_path / "adapter").mkdir()
    for folder in (Path(model.path), tmp_path / "adapter"):
        (folder / name).write_text("{}")
        spec = ModelSpec(path=str(folder))
        others = [harness_models.EmbedderSpec(path=spec.path, kind=kind) for kind in ("causal", "masked", "sentence")]
        for act in (spec.identity, spec.load, lambda: spec.demand("score"), *(other.identity for other in others)):
            check_error(DataError, rf"{name} belongs to an adapter .* merge it into its base model with merge_", act)


def put(name: str, content: str | bytes) -> Any:
    def act(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return act


def merge(name: str, **changes: Any) -> Any:
    return lambda folder: change_json(folder / name, **changes)


def remove(*names: str) -> Any:
    return lambda folder: [(folder / name).unlink() for name in names]


WEIGHTS = "model.safetensors"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
BROKEN = "cannot be loaded (Error while deserializing header"
BAD_FOLDERS: dict[str, tuple[tuple[Any, ...], str]] = {
    "gone": ((shutil.rmtree,), "no such folder"),
    "no config": ((remove("config.json"),), "no config.json in the folder"),
    "a checkpoint inside": ((remove("config.json"), put("step-9/config.json", "{}")), "in the folder; name FOLDER/step-9"),
    "config of no JSON": ((put("config.json", "{"),), "FOLDER/config.json: not JSON"),
    "config of a list": ((put("config.json", "[]"),), "FOLDER/config.json: expected a JSON object"),
    "config without a type": ((put("config.json", "{}"),), "Should have a `model_type` key in its config.json"),
    "unknown type": ((merge("config.json", model_type="nothing"),), "does not know model_type 'nothing'"),
    "its own code": ((merge("config.json", model_type="x", auto_map={"AutoConfig": "c.C"}),), "code of its own (auto_map)"),
    "encoder": ((merge("config.json", model_type="bert"),), "family bert are encoders"),
    "no language model": ((merge("config.json", model_type="vit"),), "the family vit has no causal language model"),
    "no weights": ((remove(WEIGHTS),), "no weights in the folder (expected model.safetensors)"),
    "pickle": ((remove(WEIGHTS), put("pytorch_model.bin", "x")), "pickled weights (.bin) are not read: convert them"),
    "GGUF inside": ((remove(WEIGHTS), put("x.gguf", "x")), "(expected model.safetensors); name FOLDER/x.gguf"),
    "empty weights": ((put(WEIGHTS, ""),), BROKEN),
    "half a download": ((lambda folder: os.truncate(folder / WEIGHTS, 2000),), BROKEN),
    "a pointer of LFS": ((put(WEIGHTS, POINTER),), "FOLDER/model.safetensors: a pointer of Git LFS, not the file itself"),
    "lost shard": (
        (remove(WEIGHTS), put(INDEX, '{"weight_map": {"a": "1.safetensors"}}')), "names the shard 1.safetensors, which is not in"
    ),
    "quantization": ((merge("config.json", quantization_config={"quant_method": "gptq", "bits": 4}),), "pip install"),
    "unknown quantization": (
        (merge("config.json", quantization_config={"quant_method": "magic"}),), "names the quantization 'magic', which the inst"
    ),
    **{
        f"{field} {value!r}": ((merge("config.json", **{field: value}),), f"FOLDER/config.json: {field}: expected {expected}")
        for field, value, expected in (
            ("text_config", 3, "an object, got 3"), ("architectures", 5, "a list, got 5"),
            ("model_type", ["gpt2"], "a text, got ['gpt2']"), ("quantization_config", [1], "an object, got [1]"),
            ("auto_map", "a", "an object, got 'a'"),
        )
    },
    "quantization of no name": ((merge("config.json", quantization_config={"quant_method": [1]}),), "the quantization [1], which"),
    "a negative end": ((merge("config.json", eos_token_id=-1),), "is -1, its weights have 257 embeddings"),
    "no tokenizer": ((remove("tokenizer.json", "tokenizer_config.json"),), "no tokenizer in the folder (expected tokenizer.json)"),
    "tokenizer of no JSON": ((put("tokenizer.json", "{"),), "cannot load its tokenizer.json"),
    "tokenizer of a list": ((put("tokenizer.json", "[]"),), "cannot load its tokenizer.json"),
    "unknown tokenizer": ((merge("tokenizer.json", model={"type": "Magic"}),), "cannot load its tokenizer.json"),
    "tokenizer_config": ((put("tokenizer_config.json", "{"),), "FOLDER/tokenizer_config.json: not JSON"),
    "generation_config": ((put("generation_config.json", "[1]"),), "FOLDER/generation_config.json: expected a JSON object"),
    "an end beyond": ((merge("generation_config.json", eos_token_id=[0, 999]),), "is 999, its weights have 257 embeddings"),
    "template": ((put("chat_template.jinja", "{% for %}"),), "its chat template does not take the prompt"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_FOLDERS)
def test_a_bad_folder_is_one_line_that_names_what_is_wrong(original, tmp_path, kind):
    model = copy_without(original, tmp_path)
    acts, message = BAD_FOLDERS[kind]
    for act in acts:
        act(Path(model.path))
    spec = ModelSpec(path=model.path, chat_template=kind == "template")

    def use() -> None:
        spec.demand("score")
        spec.identity()
        load_model(spec)

    assert message.replace("FOLDER", model.path) in check_error((DataError, SpecError), "", use)


def test_a_default_dtype_of_torch_changes_nothing(original, monkeypatch):
    def run() -> list[Any]:
        monkeypatch.setattr("openended.harness.models.onednn._TRIALS", {})
        lm = make_backend(load_model(ModelSpec(path=str(original))))
        decoders = Nucleus(), Beam(num_beams=2), ContrastiveSearch()
        options = {"seed": 0, "max_new_tokens": 6, "batch_size": 1}
        out = [generate(lm, [Prompt("a", 0, (5, 6))], decoder, **options)[0].token_ids for decoder in decoders]
        return [*out, *compute_token_nll(lm, scoring(ragged([[5]]), ragged([[6, 7, 8]]), batch_size=1)).values.tolist()]

    want = run()
    torch.set_default_dtype(torch.float64)
    try:
        assert run() == want
    finally:
        torch.set_default_dtype(torch.float32)


SENTENCE = ["modules.json", "config_sentence_transformers.json", "1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors", "0_Transformer/model.safetensors"]  # fmt: skip


@pytest.mark.parametrize("file", SENTENCE)
def test_all_that_a_sentence_model_loads_is_digested(tmp_path, file):
    unread = ["README.md", ".cache/x.json", "1_Pooling/.git/x", "a.lock"]
    for name in [*SENTENCE, *unread]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    spec = harness_models.EmbedderSpec(path=str(tmp_path), kind="sentence")
    before = digest(spec.identity())
    for name in unread:
        (tmp_path / name).write_text("another")
    assert digest(spec.identity()) == before
    (tmp_path / file).write_text("{} ")
    assert digest(spec.identity()) != before


def test_a_folder_that_is_no_sentence_model_is_refused(original):
    spec = harness_models.EmbedderSpec(path=str(original), kind="sentence")
    check_error(DataError, r"no modules\.json in the folder", spec.identity)


TOKENIZER = {"tokenizer.json", "merges.txt", "tokenizer_config.json"}
CONFIGS = {"config.json", "generation_config.json"}
UNREAD = {"README.md", "pytorch_model.bin", "training_args.json"}


@pytest.fixture
def listed_folder(tmp_path: Path) -> Path:
    weights = [f"{letter}.safetensors" for letter in "abc"]
    for name in (*TOKENIZER, *CONFIGS, *UNREAD, *weights, "chat_template.jinja"):
        (tmp_path / name).write_text(name)
    return tmp_path


def names(files: list[Path]) -> set[str]:
    assert files == sorted(files), "the order must not depend on the file system"
    return {path.name for path in files}


def test_the_template_counts_where_it_is_read(listed_folder: Path) -> None:
    (listed_folder / "model.safetensors").write_text("w")
    plain = TOKENIZER | CONFIGS | {"model.safetensors"}
    assert names(list_model_files(listed_folder, chat=False)) == plain
    assert names(list_model_files(listed_folder, chat=True)) == plain | {"chat_template.jinja"}
    assert names(list_tokenizer_files(listed_folder)) == TOKENIZER


def test_the_shards_are_those_of_the_index_and_the_one_file_comes_first(listed_folder: Path) -> None:
    where = {"x": "b.safetensors", "y": "a.safetensors", "z": "b.safetensors"}
    (listed_folder / INDEX).write_text(json.dumps({"weight_map": where}))
    shards = {INDEX, "a.safetensors", "b.safetensors"}
    assert names(list_model_files(listed_folder, chat=False)) == TOKENIZER | CONFIGS | shards
    (listed_folder / "model.safetensors").write_text("w")
    assert names(list_model_files(listed_folder, chat=False)) == TOKENIZER | CONFIGS | {"model.safetensors"}


UNSAFE = ("pytorch_model.bin", "../a.safetensors")


@cases(
    "text, message",
    *((text, "expected an object with a weight_map") for text in ("[]", "{}", '{"weight_map": ["a.safetensors"]}')),
    *((f'{{"weight_map": {{"x": "{name}"}}}}', rf"expected names of \S+ files, got '{name}'") for name in UNSAFE),
)
def test_an_index_of_another_form_or_with_a_lost_shard_is_refused(listed_folder, text, message):
    (listed_folder / INDEX).write_text(text)
    check_error(DataError, rf"model\.safetensors\.index\.json: {message}", list_model_files, listed_folder, chat=False)


def test_a_digest_is_of_the_bytes_and_follows_a_change_of_equal_size(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "x.json"
    path.parent.mkdir()
    for second, text in enumerate(("one", "two")):
        path.write_text(text)
        os.utime(path, (second, second))  # so that the clock's grain does not decide
        assert digest_files(tmp_path, [path]) == {"sub/x.json": hashlib.sha256(text.encode()).hexdigest()}


def test_load_encode_and_decode(original):
    spec = ModelSpec(path=str(original))
    lm = load_model(spec)
    assert (lm.vocab_size, lm.context_length, lm.eos_ids) == (257, 64, (0,))
    assert lm.model.generation_config.top_k != 7  # the model's own generation settings are put aside
    assert not lm.model.training
    for text in ("Hello, wörld  with\nlines", "", " leading"):
        assert lm.tokenizer.decode(lm.tokenizer.encode(text)) == text
        assert load_tokenizer(spec).encode(text) == lm.tokenizer.encode(text)
    assert decode_continuation(lm.tokenizer, lm.tokenizer.encode("a"), lm.tokenizer.encode(" b")) == " b"


def test_a_device_that_is_not_there(original):
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    check_error(DataError, "CUDA", load_model, ModelSpec(path=str(original)), device="cuda")


def test_the_least_recently_used_goes(tmp_path):
    first, second = (ModelSpec(path=str(tiny_model(tmp_path / name))) for name in ("a", "b"))
    (tmp_path / "b" / "generation_config.json").write_text("{}")
    models, runtime = harness_models.ModelCache(), Runtime(device="cpu", keep_models=1)
    made = models.model(first, runtime)
    assert models.model(first, runtime) is made
    models.model(second, runtime)
    assert models.model(first, runtime) is not made
    assert models.loads == ["a", "b", "a"]


# Model specs: titles, digests, sizes, context lengths, end tokens, the registry, and what is missing in one line


def test_title_and_context(original):
    assert ModelSpec(path=str(original)).title == "tiny"
    assert ModelSpec(path="openai-community/gpt2-large").title == "gpt2-large"
    assert ModelSpec(path="x/y", label="mine").title == "mine"
    assert ModelSpec(path="x/y", label="mine", chat_template=True).title == "mine (chat)"
    assert ModelSpec(path=str(original)).context_length() == 64


def test_identity_is_the_content(original, tmp_path):
    spec = ModelSpec(path=str(original))
    copied = copy_without(original, tmp_path)
    assert digest(spec.identity()) == digest(copied.identity())
    assert harness_models.tokenizer_digest(spec) == harness_models.tokenizer_digest(copied)
    assert digest(spec.identity()) != digest(ModelSpec(path=str(original), dtype="bfloat16").identity())
    with (Path(copied.path) / "config.json").open("a") as config:
        config.write("\n")
    assert digest(spec.identity()) != digest(copied.identity())
    assert harness_models.tokenizer_digest(spec) == harness_models.tokenizer_digest(copied)


@pytest.mark.parametrize("is_off", [True, False], ids=["switched off", "out of reach"])
def test_hub_models_without_a_network(monkeypatch, tmp_path, caplog, is_off):
    from huggingface_hub import constants

    from openended.harness.models.files import NAMES, is_reachable

    for name in (*NAMES, "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    if is_off:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # the discard port: nothing listens
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    is_reachable.cache_clear()
    spec = ModelSpec(path="nobody/nothing-of-this-name")
    for call in (spec.check_ready, spec.identity, spec.context_length):
        check_error(DataError, "hf download nobody/nothing-of-this-name", call)
    assert ModelSpec(path="nobody/nothing-of-this-name", revision="a" * 40).identity()["commit"] == "a" * 40
    assert caplog.text.count("cannot be reached") == (not is_off)
    assert (not is_off) == constants.HF_HUB_OFFLINE
    is_reachable.cache_clear()


@pytest.mark.parametrize(
    ("config", "generation", "ends"),
    [(3, None, (3,)), ([3, 5], None, (3, 5)), (3, [7, 3], (3, 7)), (None, 7, (7,)), ([4], [4], (4,)), (3, 4, (3, 4))],
)
def test_all_end_tokens_that_the_configs_name_count(original, tmp_path, config, generation, ends):
    spec = copy_without(original, tmp_path, "generation_config.json")
    change_json(Path(spec.path) / "config.json", eos_token_id=config)
    if generation is not None:
        write_file(Path(spec.path) / "generation_config.json", json.dumps({"eos_token_id": generation}))
    assert spec.end_ids() == ends
    assert load_tokenizer(spec).eos_ids == ends


def test_the_nested_config_of_a_model_of_several_kinds_is_read(tmp_path):
    nested = {"text_config": {"eos_token_id": [1, 2], "bos_token_id": 3, "max_position_embeddings": 99}}
    (tmp_path / "config.json").write_text(json.dumps(nested))
    spec = ModelSpec(path=str(tmp_path))
    assert (spec.end_ids(), spec.bos_id(), spec.context_length()) == ((1, 2), 3, 99)


LONGROPE = {"rope_type": "longrope", "original_max_position_embeddings": 64}


def test_the_precision_of_a_large_model_is_that_of_its_checkpoint(original, tmp_path, monkeypatch):
    shutil.copytree(original, tmp_path / "m")
    change_json(tmp_path / "m/config.json", dtype="bfloat16")
    spec = ModelSpec(path=str(tmp_path / "m"), dtype="auto")
    assert spec == ModelSpec(path=str(tmp_path / "m"))  # a small model
    monkeypatch.setattr("openended.harness.models.spec._LARGE", 100)
    spec_module._choose_precision.cache_clear()
    spec = ModelSpec(path=str(tmp_path / "m"), dtype="auto")
    assert (spec.dtype, spec.identity()["dtype"]) == ("bfloat16", "bfloat16")
    assert load_model(spec).model.dtype == torch.bfloat16
    with pytest.raises(SpecError, match=r"model.dtype: auto needs the weights of \S+ or the hub; set float32 or"):
        ModelSpec(path=str(tmp_path / "nowhere"), dtype="auto")


@cases(
    "rope, length",
    ({"rope_scaling": {"type": "longrope"}, "original_max_position_embeddings": 4096}, 4096),
    ({"rope_scaling": {"type": "su"}, "original_max_position_embeddings": 4096}, 4096),
    ({"rope_parameters": LONGROPE}, 64),
    ({"rope_parameters": {"full_attention": LONGROPE}}, 64),
    ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, 131072),
    ({"rope_scaling": {"rope_type": "dynamic", "original_max_position_embeddings": 2048}}, 2048),
    ({"rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 2048}}, 131072),
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
    for damaged in (b"", POINTER.encode(), (folder / WEIGHTS).read_bytes()[:2000]):
        (tmp_path / WEIGHTS).write_bytes(damaged)
        assert ModelSpec(path=str(tmp_path)).describe_size().parameters == 0


def test_a_model_of_the_hub_that_is_not_here_has_the_command_that_fetches_it(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    size = ModelSpec(path="openai-community/gpt2-xl", revision="0" * 40).describe_size()
    assert (size.parameters, size.here, size.gated) == (None, False, None)
    assert size.get == f"hf download openai-community/gpt2-xl --revision {'0' * 40}"
