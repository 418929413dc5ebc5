"""A masked language model of transformers as a denoiser: its texts, what it refuses, and what identifies it."""

from __future__ import annotations

import dataclasses
import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest

from openended.harness.backends.denoiser.backend import DenoiserBackend, DenoiserSpec, find_mask_id
from openended.harness.backends.denoiser.denoising import DenoisingDecoder, Duo, FirstHitting, Llada, Mdlm, Remdm
from openended.harness.backends.transformers import TransformersBackend
from openended.harness.backends.vllm.spec import VllmSpec
from openended.harness.core import DataError, Generation, Runtime, SpecError, load_members
from openended.harness.decoders import Nucleus
from openended.harness.decoders.base import Prompt
from openended.harness.generation.contrastive import ContrastiveDecoding
from openended.harness.models.spec import ModelSpec
from openended.harness.run.session import Session
from openended.harness.storage.store import Store
from tests.helpers import cases, check_error, generate, tiny_masked_model, tiny_model
from tests.lazy import torch

# A masked language model of transformers as a denoiser: its texts, what it refuses, and what identifies it

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PROMPTS = [Prompt(f"t/{i}", s, tuple(range(40, 45 + i % 2)), "text") for i in range(4) for s in range(2)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_masked_model(tmp_path_factory.mktemp("models") / "masked")


@pytest.fixture(scope="module")
def lm(folder):
    return DenoiserSpec(path=str(folder)).load()


def texts(lm, decoder, batch_size=3, **options):
    prompts = options.pop("prompts", PROMPTS)
    made = generate(lm, prompts, decoder, seed=1, max_new_tokens=12, batch_size=batch_size, **options)
    return {(g.example_id, g.sample): g for g in made}


@pytest.mark.parametrize(
    "decoder",
    [Mdlm(steps=6), Mdlm(steps=6, precision="float32"), Remdm(steps=6), FirstHitting(), Llada(steps=6), Duo(steps=6)],
    ids=lambda d: f"{d.name} {d.precision}",
)
def test_texts_do_not_depend_on_the_batch(lm, folder, decoder):
    model = lm if decoder.noise == "mask" else DenoiserSpec(path=str(folder), noise="uniform").load()
    one, seven = (texts(model, decoder, size, continue_after_end=True) for size in (1, 7))
    assert {key: g.token_ids for key, g in one.items()} == {key: g.token_ids for key, g in seven.items()}
    assert len(one) == len(PROMPTS)
    assert {len(g.token_ids) for g in one.values()} == {12}
    if decoder.noise == "mask":
        assert all(lm.mask_id not in g.token_ids for g in one.values())
    if decoder.name != "llada":  # at temperature 0
        assert one["t/0", 0].token_ids != one["t/0", 1].token_ids


def test_the_logits_are_the_models(lm):
    ids = torch.tensor([[1, lm.mask_id, 3]])
    with torch.inference_mode():
        assert torch.equal(lm.denoise(ids, 0.0), lm.model(input_ids=ids).logits)
        shifted = DenoiserBackend(replace(lm.spec, shifted=True), lm.model, "cpu").denoise(ids, 0.0)
        assert torch.equal(shifted[:, 1:], lm.denoise(ids, 0.0)[:, :-1])


class Timed:
    """Gives the noise level as a logit."""

    config = SimpleNamespace(vocab_size=258)

    def get_output_embeddings(self):
        return None

    def forward(self, input_ids, timesteps):
        return timesteps[:, None, None].expand(*input_ids.shape, 258)

    __call__ = forward


def test_a_model_with_a_time_input_reads_minus_log_alpha(folder):
    ids = torch.tensor([[1, 2], [3, 4]])
    spec = DenoiserSpec(path=str(folder), time_input="sigma")
    backend = DenoiserBackend(spec, Timed(), "cpu")
    assert float(backend.denoise(ids, 0.7).max()) == pytest.approx(0.7)
    assert float(backend.denoise(ids, float("inf")).max()) == pytest.approx(6.9)
    without = DenoiserBackend(replace(spec, time_input="none"), Timed(), "cpu")
    assert float(without.denoise(ids, 0.7).max()) == 0


def test_logits_that_are_no_numbers_and_a_missing_time_input_are_refused(folder):
    lm = DenoiserSpec(path=str(folder)).load()
    lm.model.cls.predictions.bias.fill_(float("nan"))
    check_error(DataError, "its logits are not finite in float32; its weights are broken", texts, lm, Mdlm(steps=2))

    with pytest.raises(SpecError, match="time_input=sigma, but its forward pass takes no `timesteps`"):
        DenoiserSpec(path=str(folder), time_input="sigma").load()


def test_other_models_devices_and_decoders_are_one_line(folder, tmp_path, lm):
    causal = DenoiserSpec(path=str(tiny_model(tmp_path / "causal")), mask_id=5)
    check_error(DataError, "cannot be loaded as a masked model", causal.load)
    with pytest.raises(SpecError, match=r"runtime.device_map: a denoiser is on one device"):
        DenoiserSpec(path=str(folder)).load(device_map="auto")
    check_error(SpecError, "nucleus writes from left to right", texts, lm, Nucleus())
    with pytest.raises(SpecError, match="goes beyond the model's 64 positions"):
        texts(lm, Mdlm(steps=2), prompts=[Prompt("t/0", 0, (1,) * 60)])


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(folder, tmp_path):
    small = tiny_masked_model(tmp_path / "small")
    spec = DenoiserSpec(path=str(small), tokenizer=str(folder))
    model = spec.load().model
    model.resize_token_embeddings(200)
    check_error(DataError, "its tokenizer has the id 257", DenoiserBackend, spec, model, "cpu")


def test_infilling_writes_in_place_of_the_mark(folder, monkeypatch):
    lm = DenoiserSpec(path=str(folder), infill="____").load()
    shown = []
    monkeypatch.setattr(lm, "denoise", lambda ids, _: shown.append(ids.tolist()) or torch.zeros(*ids.shape, 258))
    made = texts(lm, FirstHitting(), prompts=[Prompt("t/0", 0, (), "ab____cde")], continue_after_end=True)
    (before, after) = (lm.tokenizer.encode(part) for part in ("ab", "cde"))
    assert shown[0] == [[*before, *[lm.mask_id] * 12, *after]]
    assert len(made["t/0", 0].token_ids) == 12
    for text in ("ab", "a____b____c"):
        with pytest.raises(DataError, match=r"example t/0: expected model.infill='____' once in its prompt"):
            texts(lm, Mdlm(steps=2), prompts=[Prompt("t/0", 0, (), text)])


def test_what_a_tokenizer_puts_around_a_text_stays(folder, tmp_path):
    from transformers import BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    target = tiny_masked_model(tmp_path / "bert")
    (target / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(vocab_file=str(target / "vocab.txt")).save_pretrained(target)
    lm = DenoiserSpec(path=str(target)).load()
    assert lm.mask_id == 4
    shown = []
    lm.denoise = lambda ids, _: shown.append(ids.tolist()) or torch.zeros(*ids.shape, 258)
    texts(lm, FirstHitting(), prompts=[Prompt("t/0", 0, (5,), "a")], continue_after_end=True)
    assert shown[0] == [[2, 5, *[4] * 12, 3]]


def test_the_record_says_how_the_model_was_read_and_that_its_code_ran(lm):
    assert lm.provenance() == {"denoiser": {"mask_id": 257, "noise": "mask", "time_input": "none"}}
    commit = "0" * 40
    lm = DenoiserBackend(lm.spec, lm.model, "cpu")
    lm.spec = DenoiserSpec(path="somebody/mdlm", revision=commit, trust_remote_code=True)
    assert lm.provenance()["denoiser"]["remote_code"] == f"somebody/mdlm@{commit}"
    assert lm.provenance()["notes"] == [f"mdlm: code of the hub was run (somebody/mdlm@{commit})"]


def copy_with(folder, target, name, **fields):
    """Copy a model folder and set fields of one of its JSON files; a field set to None is taken out."""
    shutil.copytree(folder, target)
    values = json.loads((target / name).read_text()) | fields
    (target / name).write_text(json.dumps({k: v for k, v in values.items() if v is not None}))
    return str(target)


@cases(
    "options, decoder, message",
    ({"time_input": "sigma"}, Mdlm(cached=True), r"decoder.cached=true needs model.time_input=none"),
    ({"block_size": 4}, Llada(), "llada has blocks of its own"),
    ({"mask_id": 900}, Mdlm(), "model.mask_id=900 is beyond the 258 tokens"),
    ({}, Duo(), "duo is for model.noise=uniform"),
    ({"noise": "uniform"}, Mdlm(), "mdlm is for model.noise=mask, got model.noise=uniform"),
    ({}, Mdlm(cached=True), None),
    ({"noise": "uniform"}, Duo(), None),
)
def test_only_samplers_that_fit_are_taken(folder, options, decoder, message):
    reason = DenoiserSpec(path=str(folder), **options).cannot("generate", decoder)
    assert message in reason if message else reason is None


def test_decoders_and_models_of_two_kinds_do_not_meet(folder):
    masked = DenoiserSpec(path=str(folder))
    for cls in load_members("decoder").values():
        if not issubclass(cls, DenoisingDecoder):
            check_error(SpecError, "writes from left to right; use decoder=mdlm", masked.demand, "generate", cls())
        elif cls.noise == "mask":
            masked.demand("generate", cls())
    for spec in (ModelSpec(path="bundled:docs-s"), VllmSpec(path="bundled:docs-s")):
        with pytest.raises(SpecError, match="mdlm fills positions in any order; it needs model=denoiser"):
            spec.demand("generate", Mdlm())
    for ability in ("score", "rank", "gradients", "q_statistics", "embed"):
        check_error(SpecError, "no distribution over the next token", masked.demand, ability)


def test_a_model_with_code_of_its_own_says_how_to_run_it(folder, tmp_path):
    auto_map = {"AutoConfig": "config.C", "AutoModelForMaskedLM": "model.M"}
    spec = DenoiserSpec(path=copy_with(folder, tmp_path / "m", "config.json", auto_map=auto_map))
    assert spec.remote_class() == "AutoModelForMaskedLM"
    check_error(SpecError, r"set model.trust_remote_code=true and model.revision=COMMIT", spec.load)
    elsewhere = {"AutoModel": "another/repository--model.M"}
    spec = DenoiserSpec(path=copy_with(folder, tmp_path / "other", "config.json", auto_map=elsewhere))
    check_error(DataError, "its code is in another repository, which no commit pins", spec.remote_class)


def test_the_mask_token_by_option_config_tokenizer_and_usual_name(folder, tmp_path):
    assert find_mask_id(DenoiserSpec(path=str(folder))) == 257
    assert find_mask_id(DenoiserSpec(path=str(folder), mask_id=5)) == 5
    named = copy_with(folder, tmp_path / "named", "config.json", mask_token_id=7)
    assert find_mask_id(DenoiserSpec(path=named)) == 7
    usual = copy_with(folder, tmp_path / "usual", "tokenizer_config.json", mask_token=None)
    assert find_mask_id(DenoiserSpec(path=usual)) == 257


def test_the_tokenizer_may_be_another_models(folder, tmp_path):
    other = str(tiny_model(tmp_path / "other"))
    spec = DenoiserSpec(path=str(folder), tokenizer=other, mask_id=257)
    assert spec.tokenizer_spec().path == other
    chat_spec = dataclasses.replace(spec, chat_template=True, chat_template_kwargs={"enable_thinking": False})
    assert chat_spec.tokenizer_spec().chat_template_kwargs == {"enable_thinking": False}
    assert spec.identity()["tokenizer"] != DenoiserSpec(path=str(folder)).identity()["tokenizer"]


def test_the_context_is_the_smaller_limit(folder, tmp_path):
    assert DenoiserSpec(path=str(folder)).context_length() == 64
    short = copy_with(folder, tmp_path / "short", "tokenizer_config.json", model_max_length=62)
    assert DenoiserSpec(path=short).context_length() == 62


# The backend in this process: it does what the functions do, through the Protocol


@pytest.fixture(scope="module")
def spec(tmp_path_factory) -> ModelSpec:
    return ModelSpec(path=str(tiny_model(tmp_path_factory.mktemp("models") / "tiny")))


def generated(backend: TransformersBackend, decoder: ContrastiveDecoding, **options: object) -> list[Generation]:
    return generate(backend, [Prompt("a", 0, (5, 9))], decoder, seed=0, max_new_tokens=5, batch_size=1, **options)


def test_the_amateur_loads_through_the_session(spec, tmp_path):
    session, runtime = Session(Store(tmp_path)), Runtime(device="cpu")
    decoder = ContrastiveDecoding(amateur={"path": spec.path})
    lm, companions = session.model(spec, runtime), session.load_companions(decoder, runtime)
    assert companions == {"amateur": lm}  # the same weights: loaded once
    assert session.loads == [spec.title]
    assert len(generated(lm, decoder, companions=companions)) == 1
    assert set(decoder.inputs()) == {"amateur"}
    check_error(SpecError, "needs its amateur loaded", generated, lm, decoder)
    other = dataclasses.replace(lm, vocab_size=lm.vocab_size + 1)
    with pytest.raises(SpecError, match=r"amateur: tiny has 258 logits, the expert 257"):
        generated(lm, decoder, companions={"amateur": other})
