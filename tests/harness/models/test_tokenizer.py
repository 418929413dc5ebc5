"""Tokenizers and chat templates: begin tokens, continuations as a model would write them, pieces, turns and their ends."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from openended.harness.backends.transformers import TransformersBackend
from openended.harness.core import Example, Generation, Ragged
from openended.harness.core.errors import DataError
from openended.harness.decoders.base import Prompt
from openended.harness.decoders.sampling import Ancestral, Greedy
from openended.harness.generation import compute_q_statistics
from openended.harness.models import tokenizer as tokenization
from openended.harness.models.chat import Turns, load_template, split_into_turns
from openended.harness.models.embedder import EmbedderSpec
from openended.harness.models.score import compute_token_nll, embed_and_score
from openended.harness.models.spec import ModelSpec, list_bundled_models
from openended.harness.models.tokenizer import LengthLimit, load_tokenizer
from openended.harness.models.transformers import load_embedder, load_model
from openended.harness.run.dataset import build_human_row
from openended.harness.run.notes import warn_of_special_tokens
from tests.helpers import (
    cases,
    change_json,
    check_error,
    copy_without,
    embed_one,
    embedding,
    generate,
    q_request,
    ragged,
    scoring,
    tiny_masked_model,
    tiny_model,
)
from tests.lazy import torch

# Tokenizers: begin tokens and continuations as a model would write them; texts read piece by piece

BOS = 1


WORDS = "the cat sat on a mat and the hat was on the cat while a rat looked at that mat in the hall".split()


def sentencepiece(path: Path, *, bos: bool = True) -> None:
    """A tokenizer as Llama's: words begin with "▁", and so does every text; a begin token where one is asked for."""
    from tokenizers import decoders, models, pre_tokenizers, processors, trainers

    inner = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    inner.decoder = decoders.Sequence(steps)
    special = ["<unk>", "<s>", "</s>", "<0x0A>"]
    trainer = trainers.BpeTrainer(vocab_size=120, special_tokens=special, show_progress=False)
    inner.train_from_iterator([" ".join(WORDS[i:] + WORDS[:i]) for i in range(len(WORDS))], trainer)
    if bos:
        inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BOS)])
    told = json.loads(inner.to_str())
    steps = [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
    told |= {"pre_tokenizer": None, "normalizer": {"type": "Sequence", "normalizers": steps}}  # once words are learnt
    path.write_text(json.dumps(told))


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> ModelSpec:
    folder = tiny_model(tmp_path_factory.mktemp("models") / "llama-like")
    for file in folder.glob("tokenizer*"):
        file.unlink()
    sentencepiece(folder / "tokenizer.json")
    return ModelSpec(path=str(folder))


@pytest.fixture(scope="module")
def backend(spec: ModelSpec) -> Any:
    return spec.load()


def pieces(tokenizer: Any, ids: list[int]) -> list[str]:
    return [tokenizer.inner.id_to_token(i) for i in ids]


PAIRS = [("the cat", " sat on a mat"), ("the c", "at sat"), ("the cat ", "sat on"), ("a mat", ""), ("", "the cat")]


@pytest.mark.parametrize(("prompt", "text"), PAIRS)
def test_a_continuation_has_no_mark_of_its_own_beginning(spec, prompt, text):
    tokenizer = load_tokenizer(spec)
    before = tokenizer.encode(prompt)
    ids = tokenization.tokenize_continuation(tokenizer, prompt, before, text)
    assert tokenization.decode_continuation(tokenizer, before, ids) == text
    if not prompt:
        assert ids == tokenizer.encode(text)
    else:
        assert "▁" not in pieces(tokenizer, ids)
    rows = tokenization.tokenize_pairs(tokenizer, [prompt, prompt], [text, text])
    assert [r.tolist() for r in rows[0]] == [before] * 2
    assert [r.tolist() for r in rows[1]] == [ids] * 2


def test_the_human_side_has_the_tokens_that_a_model_would_write(spec):
    tokenizer = load_tokenizer(spec)
    alone = tokenizer.encode(" sat on a mat")
    assert pieces(tokenizer, alone)[0] == "▁"  # what the human side got before: one token more
    row = build_human_row(Example("a", "the cat", " sat on a mat"), tokenizer, LengthLimit(2))
    ids = row.generation.token_ids
    assert list(ids) == tokenizer.encode("the cat sat on a mat")[len(row.prompt_ids) :][:2]
    assert row.generation.text == tokenization.decode_continuation(tokenizer, row.prompt_ids, ids)
    assert row.generation.text.startswith(" ")


def test_byte_level_tokens_stay_what_they_were(tmp_path):
    tokenizer = load_tokenizer(ModelSpec(path="bundled:docs-s"))
    for prompt, text in PAIRS:
        tokens = tokenization.tokenize_continuation(tokenizer, prompt, tokenizer.encode(prompt), text)
        assert tokens == tokenizer.encode(text)
    assert tokenizer.bos_prefix == ()
    assert load_tokenizer(ModelSpec(path=str(tiny_model(tmp_path / "tiny")))).bos_prefix == ()


def copied(spec: ModelSpec, tmp_path: Path, *, bos: bool = True, config: Any = None, **options: Any) -> ModelSpec:
    folder = tmp_path / "copy"
    shutil.copytree(spec.path, folder)
    sentencepiece(folder / "tokenizer.json", bos=bos)
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return ModelSpec(path=str(folder), **options)


@cases(
    "does, config, option, lead",
    (True, None, None, (BOS,)), (False, None, None, ()), (True, None, False, ()),
    (False, {"bos_token": "<s>"}, True, (BOS,)), (False, {"bos_token": {"content": "<s>"}}, True, (BOS,)),
    (False, {"bos_token": "<s>", "add_bos_token": True}, None, (BOS,)), (True, {"add_bos_token": False}, None, ()),
    (False, {"bos_token": "<s>", "add_bos_token": True}, False, ()),
)  # fmt: skip
def test_the_begin_token_is_an_option_whose_default_is_the_tokenizers(spec, tmp_path, does, config, option, lead):
    made = copied(spec, tmp_path, bos=does, config=config)
    chosen = ModelSpec(path=made.path, bos=option)
    assert load_tokenizer(chosen).bos_prefix == lead
    assert tokenization.tokenizer_digest(chosen) == tokenization.tokenizer_digest(made)  # the rows' ids are the same
    assert (chosen.identity() == made.identity()) == (option is None)


def test_a_tokenizer_is_what_its_file_says_and_not_how(tmp_path):
    """One file, indented and as an earlier `tokenizers` wrote it; each change of what it says is another tokenizer."""
    bundled = ModelSpec(path="bundled:docs-s")
    text = (bundled.folder / "tokenizer.json").read_text()

    def write(name: str, content: str) -> ModelSpec:
        folder = tmp_path / name
        shutil.copytree(bundled.folder, folder)
        (folder / "tokenizer.json").write_text(content)
        return ModelSpec(path=str(folder))

    def change(name: str, act: Any) -> ModelSpec:
        content = json.loads(text)
        act(content)
        return write(name, json.dumps(content))

    def write_as_before(content: Any) -> None:
        model = content["model"]
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
        del model["byte_fallback"], model["ignore_merges"], content["pre_tokenizer"]["use_regex"]
        model["end_of_word_suffix"] = ""

    same = [write("indented", json.dumps(json.loads(text), indent=2)), change("earlier", write_as_before)]
    for spec in same:
        assert tokenization.digest_encoding(spec) == tokenization.digest_encoding(bundled)
        assert spec.identity() == bundled.identity()
        assert load_tokenizer(spec).encode("a b  c") == load_tokenizer(bundled).encode("a b  c")
    config = Path(same[0].path) / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()), indent=3))  # it decides no id of a text
    assert tokenization.digest_encoding(same[0]) == tokenization.digest_encoding(bundled)
    other = [
        change("merges", lambda content: content["model"]["merges"].pop()),
        change("vocabulary", lambda content: content["model"]["vocab"].update({"!": 2, '"': 1})),
        change("added", lambda content: content["added_tokens"][0].update(lstrip=True)),
        change("regex", lambda content: content["pre_tokenizer"].update(use_regex=False)),
        change("normalizer", lambda content: content.update(normalizer={"type": "NFC"})),
        write("broken", text[:-2]),
    ]
    digests = {tokenization.digest_encoding(spec) for spec in (bundled, *other)}
    assert len(digests) == 1 + len(other)
    assert all(spec.identity() != bundled.identity() for spec in other)


def test_no_begin_token_is_an_error(spec, tmp_path):
    made = copied(spec, tmp_path, bos=False)
    change_json(Path(made.path) / "config.json", bos_token_id=None)
    message = r"bos=true, but neither its tokenizer nor its config\.json names such a token"
    check_error(DataError, message, load_tokenizer, ModelSpec(path=made.path, bos=True))


ROWS: tuple[Ragged, Ragged] = ragged([[5, 9], [7], []]), ragged([[13, 24, 18], [12, 16], [17, 18]])


def nll_of(backend: Any, *rows: Ragged, **options: Any) -> Ragged:
    return compute_token_nll(backend, scoring(*rows, batch_size=2, **options))


def led(rows: Ragged) -> Ragged:
    return Ragged.from_rows([[BOS, *row] for row in rows], np.int64)


def plain(backend: TransformersBackend) -> Any:
    """The same model without a begin token."""
    return replace(backend, tokenizer=replace(backend.tokenizer, bos_prefix=()))


def test_the_model_reads_the_begin_token_first_everywhere(backend):
    bare = plain(backend)
    want = nll_of(bare, led(ROWS[0]), ROWS[1])
    assert nll_of(backend, *ROWS).values == pytest.approx(want.values)
    assert nll_of(backend, led(ROWS[0]), ROWS[1]).values == pytest.approx(want.values)  # once
    whole = nll_of(backend, *ROWS, include_prompt=True)
    assert whole.lengths.tolist() == [5, 3, 2]  # the first token has a prediction now
    stats = compute_q_statistics(backend, q_request(*ROWS, [Ancestral()], batch_size=2))[0]
    assert -np.log(stats.gold_prob) == pytest.approx(want.values, abs=1e-5)
    assert [row.tolist() for row in stats.context] == [row.tolist() for row in ROWS[0]]
    embedder = EmbedderSpec(path="x", kind="causal", pooling="last")
    vectors = embed_one(backend, embedder, *ROWS, batch_size=2).vectors
    after = embed_one(bare, embedder, led(ROWS[0]), ROWS[1], batch_size=2).vectors
    np.testing.assert_allclose(vectors, after, rtol=1e-5, atol=1e-6)
    both = embed_and_score(backend, embedding(*ROWS, embedder, batch_size=2))[0].vectors
    np.testing.assert_allclose(vectors, both, rtol=1e-5, atol=1e-6)


def test_each_window_of_a_long_text_starts_with_the_begin_token(backend):
    ids = [3 + i * 7 % 100 for i in range(40)]

    def score(read: list[int], count: int) -> list[float]:
        logits = backend.model(torch.tensor([[BOS, *read]])).logits[0, -count - 1 : -1]
        return (-logits.log_softmax(-1)[range(count), read[-count:]]).tolist()

    with torch.inference_mode():
        want, done = score(ids[:15], 15), 15
        while done < len(ids):
            end = min(done + 6, len(ids))
            want += score(ids[end - 15 : end], end - done)
            done = end
    for rows in (ragged([ids]), led(ragged([ids]))):
        nll = nll_of(backend, ragged([[]]), rows, window=16, stride=6)
        assert nll.values == pytest.approx(want, abs=1e-4)
    assert len(nll_of(backend, ragged([[]]), ragged([ids]), window=16, stride=15).values) == len(ids)


def test_texts_are_those_after_the_begin_token(backend):
    def made(lm: Any, prompt: tuple[int, ...]) -> Generation:
        return generate(lm, [Prompt("a", 0, prompt)], Greedy(), seed=0, max_new_tokens=6, batch_size=1)[0]

    assert made(backend, (5, 9)).token_ids == made(plain(backend), (BOS, 5, 9)).token_ids
    assert made(backend, (BOS, 5, 9)).token_ids == made(backend, (5, 9)).token_ids


def with_description(spec: ModelSpec, tmp_path: Path, **changed: Any) -> ModelSpec:
    """Return the model of a copy of a folder whose tokenizer.json has other parts."""
    other = copy_without(Path(spec.path), tmp_path)
    path = Path(other.path) / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    return other


SAVED_BATCH = {
    "truncation": {"max_length": 4, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
    "padding": {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 2, "pad_type_id": 0, "pad_token": "</s>"},
}  # fmt: skip


@pytest.mark.parametrize("is_bundled", [True, False])
def test_truncation_and_padding_of_a_saved_batch_are_not_applied(spec, tmp_path, is_bundled):
    clean = ModelSpec(path=str(ModelSpec(path="bundled:docs-s").folder)) if is_bundled else spec
    saved = with_description(clean, tmp_path, **SAVED_BATCH)
    (want, got), texts = map(load_tokenizer, (clean, saved)), ["a", "the cat sat on a mat and the hat was on the cat"]
    assert got.bos_prefix == want.bos_prefix
    assert [got.encode(text) for text in texts] == [want.encode(text) for text in texts]
    rows = [tokenization.tokenize_texts(tokenizer, texts) for tokenizer in (want, got)]
    assert np.array_equal(rows[0].values, rows[1].values)
    assert rows[1].lengths.max() > 4


def test_a_masked_embedder_reads_texts_without_the_padding_of_its_file(tmp_path):
    clean = EmbedderSpec(path=str(tiny_masked_model(tmp_path / "bert")), kind="masked", pooling="mean")
    saved = replace(clean, path=with_description(clean.model_spec(), tmp_path, **SAVED_BATCH).path)
    vectors = []
    for embedder in (clean, saved):
        lm = load_embedder(embedder)
        assert lm.added_ids == ([], [])
        rows = tokenization.tokenize_texts(lm.tokenizer, ["a", "a text of more than four tokens"])
        vectors.append(embed_one(lm, embedder, ragged([[], []]), rows, batch_size=2).vectors)
    np.testing.assert_array_equal(*vectors)


def test_special_tokens_that_are_written_out_in_texts_are_counted():
    tokenizer = load_tokenizer(ModelSpec(path="bundled:docs-s"))
    texts = ["a <|endoftext|> b", "plain", "<|endoftext|>", "<|endoftext"]
    ids = tokenization.tokenize_texts(tokenizer, texts)
    columns = {"prompts": (ragged([[], []]), ["", ""]), "human texts": (ids, texts)}
    assert warn_of_special_tokens(tokenizer, columns).startswith("2 of 4 human texts hold '<|endoftext|>', which")
    assert warn_of_special_tokens(tokenizer, {"prompts": (ids, ["written by a model"] * 4)}) is None


def test_ids_beyond_the_models_embeddings_are_refused_at_load(spec, tmp_path):
    description = json.loads((Path(spec.path) / "tokenizer.json").read_text())
    first = description["added_tokens"][0]
    size = len(description["model"]["vocab"])
    more = [{**first, "id": size + i, "content": f"<beyond {i}>"} for i in range(2000)]
    other = with_description(spec, tmp_path, added_tokens=[*description["added_tokens"], *more])
    check_error(DataError, r"tokenizer has the id \d+ \('.*'\), its weights have \d+ embeddings", load_model, other)


pytestmark = pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there")


# Chat templates: where a prompt parts, what the model reads, what ends a turn, and what goes wrong

PLAIN = (
    "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}<|endoftext|>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def folder(tmp_path: Path, template: str | None = PLAIN, *, in_config: bool = False) -> ModelSpec:
    """Copy the bundled model and give its tokenizer a chat template."""
    source = ModelSpec(path="bundled:docs-s").folder
    assert source is not None
    target = tmp_path / "chatty"
    shutil.copytree(source, target)
    if template is not None and in_config:
        change_json(target / "tokenizer_config.json", chat_template=template)
    elif template is not None:
        (target / "chat_template.jinja").write_text(template)
    return ModelSpec(path=str(target), chat_template=True)


@cases(
    "prompt, meta, turns",
    ("Alice went to the", {}, ("Alice went to", "the")),
    ("Two lines\n\nBiography of", {}, ("Two lines\n\nBiography", "of")),
    ("ends in space \n", {}, ("ends in", "space \n")), ("one", {}, ("", "one")), ("", {}, ("", "")),
    (" \n", {}, ("", "")), ("a b c", {"user": "A", "assistant": ""}, ("A", "")),
    ("a b c", {"user": "A"}, ("a b", "c")),
)  # fmt: skip
def test_the_last_word_opens_the_assistants_turn_unless_the_task_says(prompt, meta, turns) -> None:
    assert split_into_turns(prompt, meta) == Turns(*turns)


@pytest.mark.parametrize("in_config", [True, False])
def test_the_continuation_starts_within_the_assistants_turn(tmp_path: Path, in_config: bool) -> None:
    template = load_template(folder(tmp_path, in_config=in_config))
    assert template.render(Turns("Alice went to", "the")) == "[user]Alice went to<|endoftext|>[assistant]the"
    assert template.render(Turns("Tell a story.", "")) == "[user]Tell a story.<|endoftext|>[assistant]"
    assert len(template.digest) == 64


def test_vicuna_has_a_form_of_its_own(tmp_path: Path) -> None:
    spec = replace(folder(tmp_path, None), chat_template="vicuna")
    template = load_template(spec)
    first, second = map(template.render, [Turns("Continue:\nAlice went to", "the"), Turns("Tell a story.", "")])
    assert first.endswith("USER: Continue:\nAlice went to\nASSISTANT: the")
    assert second.endswith("USER: Tell a story.\nASSISTANT:")
    assert template.end() == load_tokenizer(spec).eos_ids[0]


def test_special_tokens_of_the_template_are_tokens(tmp_path: Path) -> None:
    spec = folder(tmp_path)
    tokenizer = load_tokenizer(spec)
    ids = tokenizer.encode(load_template(spec).render(Turns("Alice went to", "the")))
    assert ids.count(*tokenizer.eos_ids) == 1
    assert tokenizer.decode(ids).endswith("[assistant]the")


def test_a_turn_ends_with_the_token_that_the_template_writes(tmp_path: Path) -> None:
    spec = folder(tmp_path, PLAIN.replace("<|endoftext|>", "\n<|end|>"))
    path = Path(spec.path) / "tokenizer.json"
    inner = Tokenizer.from_file(str(path))
    word = inner.id_to_token(7)
    inner.add_special_tokens([word])  # a token of the vocabulary, so that the model need not grow
    inner.save(str(path))
    (Path(spec.path) / "chat_template.jinja").write_text(PLAIN.replace("<|endoftext|>", f"\n{word}"))
    assert load_template(spec).end() == 7
    assert load_model(spec).eos_ids == (0, 7)
    assert load_model(ModelSpec(path=spec.path)).eos_ids == (0,)


def test_a_template_that_ends_turns_with_words_leaves_the_end_of_text(tmp_path: Path) -> None:
    spec = folder(tmp_path, PLAIN.replace("<|endoftext|>", "\n"))
    assert load_template(spec).end() is None
    assert load_model(spec).eos_ids == load_tokenizer(spec).eos_ids == (0,)


def test_a_model_without_a_template_is_one_line(tmp_path: Path) -> None:
    spec = ModelSpec(path="bundled:docs-s", chat_template=True)
    check_error(DataError, r"no chat template; set model\.chat_template=false", load_template, spec)
    spec = ModelSpec(path=str(tmp_path / "none" / "at" / "all"), chat_template=True)
    check_error(DataError, "its tokenizer has no configuration", load_template, spec)


@cases(
    "text, reply, message",
    ("{{ raise_exception('only users may speak') }}{{ messages[0]['content'] }}", "b", " .*only users may speak"),
    ("{% for m in messages %}x{% endfor %}", "b", "|changes the assistant's turn"),
    ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "", ""),
    *((text, "", "") for text in ("{{ 1 // 0 }}", "{{ ''.__class__.__mro__ }}", "{{ messages.x.y }}")),
)
def test_a_template_that_fails_is_one_line(text: str, reply: str, message: str, tmp_path: Path) -> None:
    template = load_template(folder(tmp_path, text))
    check_error(DataError, f"does not take the prompt{message}", template.render, Turns("a", reply))
