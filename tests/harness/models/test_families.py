"""Families: each is run as its own full pass says, slowly where its cache is not understood, or refused by name."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core import DataError, Generation
from openended.harness.decoders.base import Prompt
from openended.harness.decoders.sampling import Ancestral, Greedy
from openended.harness.generation import compute_q_statistics, runners
from openended.harness.generation.beam_search import Beam
from openended.harness.generation.contrastive import ContrastiveSearch
from openended.harness.generation.runners import GeneralRunner, make_runner
from openended.harness.models import ModelSpec, families, load_model
from openended.harness.models.score import compute_token_nll
from tests.harness.generation.models import wrap
from tests.harness.models.tiny_families import how, table, tiny_config, tiny_family
from tests.helpers import change_json, check_error, generate, q_request, ragged, scoring, tiny_model
from tests.lazy import torch

REREAD = ["mamba", "mamba2", "rwkv", "openai-gpt", "recurrent_gemma", "jamba", "qwen3_next", "granitemoehybrid"]
FIXED = ["gpt_neox", "opt", "mixtral", "llama", "qwen3"]
EQUAL = ["gemma2", "gpt_oss", "bart", "llama4_text"]


@pytest.mark.parametrize("kind", [*REREAD, *FIXED, *EQUAL, "bert", "xlnet", "modernbert-decoder"])
def test_the_table_of_families_says_what_is_true(kind):
    support = table()[kind]
    assert support == how(kind)
    ways = ((REREAD, "reread"), (FIXED, "fixed"), (EQUAL, "equal"))
    assert support.startswith(next((way for kinds, way in ways if kind in kinds), "refused: "))


@pytest.mark.long
def test_the_whole_table_of_families_is_true():
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as names

    if f"transformers {transformers.__version__} " not in Path("docs/families.md").read_text():
        pytest.skip("the table is of another version of transformers")
    support = table()
    assert set(support) == set(names)
    for kind in sorted(names):
        assert support[kind] == how(kind)


def by_full_passes(lm: Any, prompt: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Greedy tokens, each from the model's own pass over all before it."""
    ids = list(prompt)
    for _ in range(count):
        with torch.no_grad():
            ids.append(int(lm.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    return tuple(ids[len(prompt) :])


def texts(lm: Any, decoder: Any, prompts: list[Prompt], batch_size: int = 4) -> list[Generation]:
    return generate(lm, prompts, decoder, seed=1, max_new_tokens=8, batch_size=batch_size)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*REREAD, *EQUAL, "llama4_text"])
def test_greedy_texts_are_those_of_full_passes(kind):
    lm = dataclasses.replace(tiny_family(kind), eos_ids=())
    prompts = [Prompt("a", 0, (5, 9, 30, 2)), Prompt("b", 0, (7, 8, 20, 33)), Prompt("c", 0, (3, 4))]
    made = texts(lm, Greedy(), prompts)
    assert [g.token_ids for g in made] == [by_full_passes(lm, p.token_ids, 8) for p in prompts]


@pytest.mark.parametrize("decoder", [Ancestral(), Beam(num_beams=3), ContrastiveSearch(k=3)], ids=lambda d: d.name)
def test_what_is_read_again_depends_on_no_batch(decoder):
    lm = dataclasses.replace(tiny_family("mamba"), eos_ids=(11, 12))
    prompts = [Prompt(str(i), 0, (5 + i, 9, 30)) for i in range(5)]
    whole = texts(lm, decoder, prompts, 64)
    assert [g.token_ids for g in texts(lm, decoder, prompts, 1)] == [g.token_ids for g in whole]


@pytest.mark.parametrize("kind", ["mamba", "rwkv", "recurrent_gemma", "jamba"])
def test_scores_and_q_are_those_of_the_models_own_pass(kind):
    lm = tiny_family(kind)
    prompts, rest = ragged([[5, 9], [7]]), ragged([[30, 40, 50], [60, 70, 80, 90]])
    want = []
    for prompt, tail in zip(prompts, rest, strict=True):
        ids = torch.tensor([[*prompt, *tail]])
        with torch.no_grad():
            log_p = lm.model(input_ids=ids, use_cache=False).logits[0].double().log_softmax(-1)
        at = torch.arange(len(prompt), ids.shape[1])
        want += (-log_p[at - 1, ids[0, at]]).tolist()
    assert compute_token_nll(lm, scoring(prompts, rest, batch_size=2)).values == pytest.approx(want, abs=1e-4)
    (stats,) = compute_q_statistics(lm, q_request(prompts, rest, [Ancestral()], batch_size=2))
    assert -torch.tensor(stats.gold_prob).log().numpy() == pytest.approx(want, abs=1e-4)


def test_a_cache_that_goes_wrong_is_seen(monkeypatch):
    def forgetful(self: Any, ids: Any, rows: Any) -> Any:
        return torch.stack([hidden[-1] for hidden in self.start(rows, [[int(i)] for i in ids])])  # nothing before it

    monkeypatch.setattr(GeneralRunner, "extend", forgetful)
    lm = tiny_family("llama")
    make_runner(lm, 1, 16)
    assert runners.RUNNER_KINDS[lm.model] == "equal"
    monkeypatch.setattr(runners, "RUNNERS", {"fixed": GeneralRunner})
    message = r"the family llama cannot be run from left to right"
    check_error(DataError, message, make_runner, tiny_family("llama"), 1, 16)


def saved(kind: str, tmp_path: Path, **config: Any) -> ModelSpec:
    """A folder with the weights of a tiny model of the family, and the tokenizer of another."""
    folder = tmp_path / kind
    tiny_family(kind).model.save_pretrained(folder)
    tokenizer = json.loads((tiny_model(tmp_path / "tokenizer") / "tokenizer.json").read_text())
    size = tiny_config(kind).vocab_size
    tokenizer["model"]["vocab"] = {token: i for token, i in tokenizer["model"]["vocab"].items() if i < size}
    tokenizer["added_tokens"] = [token for token in tokenizer["added_tokens"] if token["id"] < size]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    change_json(folder / "config.json", **config)
    return ModelSpec(path=str(folder))


@pytest.mark.parametrize("kind", ["mamba", "rwkv", "openai-gpt"])
def test_what_has_no_fast_attention_is_loaded_with_the_plain_one(kind, tmp_path, caplog):
    backend = saved(kind, tmp_path).load()
    assert runners.RUNNER_KINDS[backend.model] == "reread"
    assert "each step reads the whole text again" in caplog.text
    assert families.choose_attention(type(backend.model)) == "eager"


def test_a_model_that_looks_both_ways_is_refused_before_its_weights_are_read(tmp_path):
    spec = saved("bert", tmp_path)
    (Path(spec.path) / "model.safetensors").write_bytes(b"never read")
    for call in (spec.load, lambda: load_model(spec)):
        check_error(DataError, "family bert are encoders, which do not generate from left to right", call)
    assert spec.cannot("generate")


def test_the_config_does_not_choose_the_attention(tmp_path):
    spec = saved("llama", tmp_path, _attn_implementation="eager", attn_implementation="eager")
    assert load_model(spec).model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("is_decoder", [False, True])
def test_an_encoder_given_to_generate_is_refused(is_decoder):
    from transformers import AutoModelForCausalLM

    config = tiny_config("bert")
    config.is_decoder = is_decoder
    lm = wrap(AutoModelForCausalLM.from_config(config))
    with pytest.raises(DataError, match="family bert cannot be run from left to right"):
        texts(lm, Greedy(), [Prompt("a", 0, (5, 9, 30, 2))])
