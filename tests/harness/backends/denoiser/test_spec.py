"""Options of `model=denoiser`, what it refuses while a run is planned, and what identifies it."""

from __future__ import annotations

import json
import shutil

import pytest

from openended.harness.backends.denoiser.spec import DenoiserSpec, find_mask_id
from openended.harness.backends.vllm.spec import VllmSpec
from openended.harness.core.errors import DataError, SpecError
from openended.harness.core.registry import load_members
from openended.harness.decoders.sampling import Nucleus
from openended.harness.generation.denoising.decoders import DenoisingDecoder, Duo, Llada, Mdlm
from openended.harness.models.spec import ModelSpec
from tests.helpers import tiny_masked_model, tiny_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_masked_model(tmp_path_factory.mktemp("models") / "masked")


def copy_with(folder, target, name, **fields):
    """Copy a model folder and set fields of one of its JSON files; a field set to None is taken out."""
    shutil.copytree(folder, target)
    values = json.loads((target / name).read_text()) | fields
    (target / name).write_text(json.dumps({k: v for k, v in values.items() if v is not None}))
    return str(target)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask_id": -1}, "model.mask_id: expected 0 or more, or null"),
        ({"block_size": 0}, "model.block_size: expected 1 or more, or null"),
        ({"infill": ""}, "model.infill: expected a text"),
        ({"infill": "_", "block_size": 4}, "model.infill: expected null with block_size"),
        ({"time_input": "t"}, "one of none, sigma"),
        ({"noise": "gauss"}, "one of mask, uniform"),
    ],
)
def test_options_out_of_range_are_one_line(folder, options, message):
    with pytest.raises(SpecError, match=message):
        DenoiserSpec(path=str(folder), **options)


@pytest.mark.parametrize("revision", [None, "main", COMMIT[:12], COMMIT.upper()])
def test_remote_code_needs_a_commit(revision):
    with pytest.raises(SpecError, match=r"model.revision: expected a commit \(40 hexadecimal digits\)"):
        DenoiserSpec(path="somebody/mdlm", revision=revision, trust_remote_code=True)
    assert DenoiserSpec(path="somebody/mdlm", revision=COMMIT, trust_remote_code=True).revision == COMMIT


def test_remote_code_of_a_folder_is_refused(folder):
    with pytest.raises(SpecError, match=r"model.path: expected a hub id with trust_remote_code=true"):
        DenoiserSpec(path=str(folder), trust_remote_code=True)


def test_a_model_with_code_of_its_own_says_how_to_run_it(folder, tmp_path):
    auto_map = {"AutoConfig": "config.C", "AutoModelForMaskedLM": "model.M"}
    spec = DenoiserSpec(path=copy_with(folder, tmp_path / "m", "config.json", auto_map=auto_map))
    with pytest.raises(SpecError, match=r"set model.trust_remote_code=true and model.revision=COMMIT"):
        spec.demand("generate", Mdlm())
    assert spec.remote_class() == "AutoModelForMaskedLM"
    with pytest.raises(SpecError, match="trust_remote_code"):
        spec.load()


def test_code_in_another_repository_is_refused(folder, tmp_path):
    auto_map = {"AutoModel": "another/repository--model.M"}
    spec = DenoiserSpec(path=copy_with(folder, tmp_path / "m", "config.json", auto_map=auto_map))
    with pytest.raises(DataError, match="its code lies in another repository, which no commit pins"):
        spec.remote_class()


def test_only_samplers_for_its_noise_are_taken(folder):
    masked, uniform = DenoiserSpec(path=str(folder)), DenoiserSpec(path=str(folder), noise="uniform")
    for cls in load_members("decoder").values():
        if not issubclass(cls, DenoisingDecoder):
            with pytest.raises(SpecError, match="writes from left to right; use decoder=mdlm"):
                masked.demand("generate", cls())
        elif cls.noise == "mask":
            masked.demand("generate", cls())
            with pytest.raises(SpecError, match=r"is for model.noise=mask, got model.noise=uniform"):
                uniform.demand("generate", cls())
    uniform.demand("generate", Duo())
    with pytest.raises(SpecError, match=r"duo is for model.noise=uniform"):
        masked.demand("generate", Duo())


@pytest.mark.parametrize("cls", [ModelSpec, VllmSpec])
def test_models_that_write_from_left_to_right_refuse_samplers(cls):
    spec = cls(path="bundled:docs-s")
    with pytest.raises(SpecError, match="mdlm fills positions in any order; it needs model=denoiser"):
        spec.demand("generate", Mdlm())
    spec.demand("generate", Nucleus())


def test_a_denoiser_scores_and_embeds_nothing(folder):
    for ability in ("score", "rank", "gradients", "q_statistics", "embed"):
        with pytest.raises(SpecError, match="no distribution over the next token"):
            DenoiserSpec(path=str(folder)).demand(ability)


def test_cached_draws_need_a_model_without_a_time_input(folder):
    with pytest.raises(SpecError, match=r"decoder.cached=true needs model.time_input=none"):
        DenoiserSpec(path=str(folder), time_input="sigma").demand("generate", Mdlm(cached=True))
    DenoiserSpec(path=str(folder)).demand("generate", Mdlm(cached=True))


def test_llada_has_blocks_of_its_own(folder):
    with pytest.raises(SpecError, match=r"llada has blocks of its own"):
        DenoiserSpec(path=str(folder), block_size=4).demand("generate", Llada())


def test_the_mask_token_by_option_config_tokenizer_and_usual_name(folder, tmp_path):
    assert find_mask_id(DenoiserSpec(path=str(folder))) == 257
    assert find_mask_id(DenoiserSpec(path=str(folder), mask_id=5)) == 5
    named = copy_with(folder, tmp_path / "named", "config.json", mask_token_id=7)
    assert find_mask_id(DenoiserSpec(path=named)) == 7
    usual = copy_with(folder, tmp_path / "usual", "tokenizer_config.json", mask_token=None)
    assert find_mask_id(DenoiserSpec(path=usual)) == 257


def test_a_model_without_a_mask_token_is_refused(folder, tmp_path):
    causal = DenoiserSpec(path=str(tiny_model(tmp_path / "causal")))
    with pytest.raises(SpecError, match=r"no mask token in its config.json or tokenizer; set model.mask_id"):
        causal.demand("generate", Mdlm())
    with pytest.raises(SpecError, match=r"model.mask_id=900 is beyond the 258 tokens"):
        DenoiserSpec(path=str(folder), mask_id=900).demand("generate", Mdlm())


def test_the_tokenizer_may_be_another_models(folder, tmp_path):
    other = str(tiny_model(tmp_path / "other"))
    spec = DenoiserSpec(path=str(folder), tokenizer=other, mask_id=257)
    assert spec.tokenizer_spec().path == other
    assert spec.identity()["tokenizer"] != DenoiserSpec(path=str(folder)).identity()["tokenizer"]


def test_the_context_is_the_smaller_limit(folder, tmp_path):
    assert DenoiserSpec(path=str(folder)).context_length() == 64
    short = copy_with(folder, tmp_path / "short", "tokenizer_config.json", model_max_length=62)
    assert DenoiserSpec(path=short).context_length() == 62
