"""Device maps: accelerate spreads a model; what is read from it is the same."""

import dataclasses
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from openended.harness.core import ExtraNotInstalled, Ragged, Runtime
from openended.harness.decoders.base import Decoder, Prompt
from openended.harness.decoders.sampling import Ancestral, Greedy, Nucleus
from openended.harness.generation import compute_q_statistics
from openended.harness.generation.beam_search import Beam
from openended.harness.generation.contrastive import ContrastiveSearch
from openended.harness.models import EmbedderSpec, ModelSpec, embed_and_score, list_bundled_models
from openended.harness.models.transformers import LanguageModel, gather_outputs, has_many_devices, load_model
from openended.harness.run.session import Session
from openended.harness.storage.store import Store
from tests.helpers import embedding, generate, q_request
from tests.lazy import LazyModule

pytestmark = [
    pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there"),
    pytest.mark.skipif(find_spec("accelerate") is None, reason="accelerate is not installed (extra `large`)"),
]
accelerate = LazyModule("accelerate")
SPEC = ModelSpec(path="bundled:docs-s")


@pytest.fixture(scope="module")
def whole() -> LanguageModel:
    return load_model(SPEC)


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    """The model with a part of its weights on disk, brought in when their module runs."""
    lm = load_model(SPEC)
    blocks = {f"transformer.h.{i}": "disk" if i % 2 else "cpu" for i in range(len(lm.model.transformer.h))}
    ends = {"transformer.wte": "cpu", "transformer.wpe": "cpu", "transformer.ln_f": "disk", "lm_head": "cpu"}
    folder = str(tmp_path_factory.mktemp("offloaded"))
    model = accelerate.dispatch_model(lm.model, device_map=blocks | ends, offload_dir=folder, main_device="cpu")
    assert has_many_devices(model)
    return dataclasses.replace(lm, model=model, device=gather_outputs(model))


def texts(lm: LanguageModel) -> tuple[Ragged, Ragged]:
    pairs = [
        ("Return the", " sum of the array."),
        ("The mean", " is over all axes, unless one is given."),
        ("If", " not"),
    ]
    halves = [[lm.tokenizer.encode(pair[side]) for pair in pairs] for side in (0, 1)]
    return Ragged.from_rows(halves[0], np.int64), Ragged.from_rows(halves[1], np.int64)


def generated(lm: LanguageModel, decoder: Decoder) -> dict[str, tuple[int, ...]]:
    prompts = [Prompt(str(i), 0, tuple(row.tolist())) for i, row in enumerate(texts(lm)[0])]
    made = generate(lm, prompts, decoder, seed=3, max_new_tokens=8, batch_size=4)
    return {g.example_id: g.token_ids for g in made}


@pytest.mark.parametrize("decoder", [Greedy(), Nucleus(), Beam(), ContrastiveSearch()], ids=lambda d: d.name)
def test_a_spread_model_generates_the_same(whole: LanguageModel, spread: LanguageModel, decoder: Decoder) -> None:
    assert generated(spread, decoder) == generated(whole, decoder)


def test_a_spread_model_scores_and_embeds_the_same(whole: LanguageModel, spread: LanguageModel) -> None:
    spec = EmbedderSpec(path="bundled:docs-s")
    prompts, rest = texts(whole)
    request = embedding(prompts, rest, spec, batch_size=2)
    (first, nll), (second, other) = (embed_and_score(lm, request) for lm in (whole, spread))
    np.testing.assert_allclose(first.vectors, second.vectors, atol=1e-5)
    np.testing.assert_allclose(nll.values, other.values, atol=1e-5)
    asked = q_request(prompts, rest, [Ancestral()], batch_size=2)
    stats = [compute_q_statistics(lm, asked)[0].gold_prob for lm in (whole, spread)]
    np.testing.assert_allclose(stats[0], stats[1], rtol=1e-4)


def test_auto_on_one_device_is_that_device(tmp_path: Path, whole: LanguageModel) -> None:
    session = Session(Store(tmp_path))
    lm = session.model(SPEC, Runtime(device_map="auto"))
    assert not has_many_devices(lm.model)
    if lm.device == whole.device:
        assert generated(lm, Greedy()) == generated(whole, Greedy())
    assert session.model(SPEC, Runtime(device_map="auto")) is lm
    assert session.model(SPEC, Runtime(device="cpu")) is not lm


def test_without_accelerate_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(ExtraNotInstalled, match=r"accelerate is not installed; pip install 'openended\[large\]'"):
        load_model(SPEC, device_map="auto")
