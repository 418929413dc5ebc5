"""What files beside the weights say, with published models and tokenizers, against transformers and sentence-transformers."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openended.harness.decoders.base import Prompt
from openended.harness.decoders.sampling import Greedy
from openended.harness.generation import generate_texts
from openended.harness.generation.beam_search import Beam
from openended.harness.models import (
    EmbedderSpec,
    LanguageModel,
    ModelSpec,
    Turns,
    load_model,
    load_template,
    load_tokenizer,
    tokenize_texts,
)
from openended.harness.models.score import compute_token_nll
from openended.harness.models.transformers import load_embedder
from openended.metrics.vendi import vendi
from tests.helpers import embed_one, generation, ragged, scoring
from tests.lazy import torch

MODELS = ("smollm2", "gemma3")

TOKENIZERS = ("deepseek_v3", "gemma3", "gptoss", "llama2", "llama3", "llama3_1", "qwen3")
TEXTS = (
    "Hello world.\n\n  It is 12,345 naïve words — 漢字 and 😀.", " a leading space", "def f(x):\n\treturn x  # tab", "a", "",
    "Control <|im_end|> and <bos> and </s> written out.",
)  # fmt: skip
PADDED = {
    "truncation": {"max_length": 16, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
    "padding": {"strategy": {"Fixed": 32}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"},
}  # fmt: skip


def read_passages(folder: Path, count: int) -> list[str]:
    lines = (folder / "texts/sotu.jsonl").read_text(encoding="utf-8").splitlines()[:count]
    return [json.loads(line)["text"] for line in lines]


def pad_tokenizer(folder: Path, target: Path) -> Path:
    """Link a model's files into a folder whose tokenizer.json carries truncation and padding."""
    target.mkdir()
    for file in folder.iterdir():
        (target / file.name).symlink_to(file)
    (target / "tokenizer.json").unlink()
    description = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    (target / "tokenizer.json").write_text(json.dumps(description | PADDED), encoding="utf-8")
    return target


def compute_losses(model: Any, ids: Sequence[int]) -> np.ndarray[Any, Any]:
    with torch.inference_mode():
        logits = model(torch.tensor([list(ids)])).logits[0, :-1]
    return np.asarray(-logits.log_softmax(-1)[range(len(ids) - 1), list(ids)[1:]])


@pytest.fixture(scope="module", params=MODELS)
def pair(request: pytest.FixtureRequest, real_models: Path) -> tuple[Any, Any, LanguageModel]:
    """A tokenizer and a model of transformers, and the same model here."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = real_models / request.param
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return AutoTokenizer.from_pretrained(folder), plain, ModelSpec(path=str(folder)).load()


@pytest.mark.parametrize("name", TOKENIZERS)
def test_ids_begin_tokens_and_chat_templates_are_those_of_transformers(real_models, tmp_path, name):
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    folder = tmp_path / name
    shutil.copytree(real_models / "tokenizers" / name, folder)
    (folder / "config.json").write_text('{"model_type": "llama"}')
    # The class that transformers 5 chooses for Llama 2 drops a space at the start, which its file keeps.
    plain = (PreTrainedTokenizerFast if name == "llama2" else AutoTokenizer).from_pretrained(folder)
    spec = ModelSpec(path=str(folder), chat_template=True)
    tokenizer = load_tokenizer(spec)
    lead = list(tokenizer.bos_prefix)
    for text in TEXTS:
        bare = plain.encode(text, add_special_tokens=False)
        assert tokenizer.encode(text) == bare
        if name != "deepseek_v3":
            assert plain.encode(text)[: len(lead) + len(bare)] == [*lead, *bare]
    if name == "deepseek_v3":  # add_bos_token=true without a post-processor, which transformers 5 no longer obeys
        assert lead == [plain.bos_token_id]
    assert tokenize_texts(tokenizer, TEXTS)[0].tolist() == plain.encode(TEXTS[0], add_special_tokens=False)
    padded = load_tokenizer(ModelSpec(path=str(pad_tokenizer(folder, tmp_path / "padded"))))
    assert [padded.encode(text) for text in TEXTS] == [tokenizer.encode(text) for text in TEXTS]
    assert padded.bos_prefix == tokenizer.bos_prefix
    if plain.chat_template:
        messages = [{"role": "user", "content": "What is a choir?"}]
        want = plain.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert load_template(spec).render(Turns("What is a choir?", "")) == want


def test_losses_are_those_of_transformers_whatever_the_tokenizer_file_carries(pair, real_models, tmp_path):
    plain_tokenizer, plain, lm = pair
    padded = load_tokenizer(ModelSpec(path=str(pad_tokenizer(lm.spec.folder, tmp_path / "padded"))))
    texts = read_passages(real_models, 2)
    want = [compute_losses(plain, plain_tokenizer.encode(text)) for text in texts]
    for tokenizer in (lm.tokenizer, padded):
        ids = tokenize_texts(tokenizer, texts)
        nll = compute_token_nll(lm, scoring(ragged([[]] * len(texts)), ids, batch_size=2))
        for row, losses in zip(nll, want, strict=True):
            np.testing.assert_allclose(row, losses, atol=1e-4)


def test_each_window_has_the_losses_of_transformers_with_the_begin_token(pair, real_models):
    _, plain, lm = pair
    (text,) = read_passages(real_models, 1)
    ids, lead = lm.tokenizer.encode(text)[:150], list(lm.tokenizer.bos_prefix)
    first = 64 - len(lead)
    want = [compute_losses(plain, [*lead, *ids[:first]])]
    for done in range(first, len(ids), 32):
        end = min(done + 32, len(ids))
        window = [*lead, *ids[end - first : end]]
        want.append(compute_losses(plain, window)[-(end - done) :])
    nll = compute_token_nll(lm, scoring(ragged([[]]), ragged([ids]), window=64, stride=32, batch_size=4))
    np.testing.assert_allclose(nll.values, np.concatenate(want), atol=1e-4)


@pytest.mark.parametrize("beams", [1, 3])
def test_greedy_and_beam_search_write_the_tokens_of_transformers(pair, beams):
    tokenizer, plain, lm = pair
    ids = tokenizer.encode("The state of the Union is")
    decoder = Beam(num_beams=beams) if beams > 1 else Greedy()
    rows: list[Any] = []
    request = generation([Prompt("a", 0, tuple(ids))], decoder, seed=0, max_new_tokens=24, batch_size=1)
    generate_texts(lm, request, rows.extend)
    out = plain.generate(torch.tensor([ids]), max_new_tokens=24, num_beams=beams, do_sample=False)[
        0, len(ids) :
    ].tolist()
    ends = [i for i, token in enumerate(out) if token in lm.eos_ids]
    assert list(rows[0].token_ids) == out[: ends[0] if ends else None]


@pytest.mark.parametrize("name", MODELS)
def test_a_gguf_file_is_its_dequantized_folder(real_models, tmp_path, monkeypatch, name):
    pytest.importorskip("gguf")
    monkeypatch.setenv("OPENENDED_CACHE", str(tmp_path))
    file, folder = (ModelSpec(path=str(real_models / path)) for path in (f"{name}.gguf", name))
    tokenizers = [load_tokenizer(spec) for spec in (file, folder)]
    assert [tokenizers[0].encode(text) for text in TEXTS] == [tokenizers[1].encode(text) for text in TEXTS]
    assert tokenizers[0].bos_prefix == tokenizers[1].bos_prefix
    assert (file.end_ids(), file.context_length()) == (folder.end_ids(), folder.context_length())
    assert file.title == f"{name} {'Q4_1' if name == 'smollm2' else 'Q4_K_M'}"
    ids = ragged([tokenizers[0].encode(TEXTS[0])])
    request = scoring(ragged([[]]), ids, batch_size=1)
    losses = [compute_token_nll(load_model(spec), request).values for spec in (file, folder)]
    np.testing.assert_allclose(*losses, atol=1e-5)


SHORT = (
    "The ferry was late again.", "Photosynthesis turns light into sugar.", "He sold the blue car in March.",
    "Interest rates rose by a quarter point.", "My grandmother kept bees.", "The goalkeeper saved two penalties.",
    "Boil the pasta for nine minutes.", "A comet was seen over the harbour.", "The court dismissed the appeal.",
    "She paints with ground minerals.", "Snow closed the pass for a week.", "The choir sang in Latin.",
)  # fmt: skip


def test_short_texts_are_as_diverse_as_the_published_embedder_says(real_models):
    spec = EmbedderSpec(path=str(real_models / "minilm"))
    encoder = load_embedder(spec)
    ids = tokenize_texts(encoder.tokenizer, SHORT)
    assert tokenize_texts(encoder.tokenizer, ["a"]).lengths.tolist() == [1]  # 128 as the file pads
    vectors = embed_one(encoder, spec, ragged([[]] * len(SHORT)), ids, batch_size=4).vectors
    assert vendi(vectors) == pytest.approx(11.34, abs=0.01)  # of sentence-transformers' vectors; 2.41 with padding
