"""Embeddings, token losses, gradients and classifiers: hand values, an oracle that runs one text at a time, and the edges."""

import copy
import math
import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core import DataError, ExtraNotInstalled, Ragged, SpecError
from openended.harness.models import embedder as f, failures, finetune_classifier, score, tokenizer as tokenizers_
from openended.harness.models.failures import check_finite, check_logits
from openended.harness.models.forward import ForwardRequest, ForwardRow, Pool, is_batch_invariant, run_forward
from openended.harness.models.requests import GradientRequest, ScoringRequest
from openended.harness.models.score import plan_scoring, sketch_gradients, split_columns
from openended.harness.models.spec import ModelSpec
from openended.harness.models.tokenizer import TextTokenizer
from openended.harness.models.transformers import load_embedder
from tests.harness.generation.models import FAMILIES, gpt2, make_family_model, wrap
from tests.harness.models.tiny_families import tiny_family
from tests.helpers import cases, check_error, embed_one, embedding, openended, ragged, scoring, tiny_model
from tests.lazy import torch

# Embeddings, token losses and gradients: hand values, an oracle that runs one text at a time, and the edges

VOCAB, CONTEXT = 97, 32


EMPTY: list[int] = []


def spec(**options: Any) -> f.EmbedderSpec:
    return f.EmbedderSpec(**{"path": "tiny/model", "kind": "causal", "pooling": "last", **options})


def _wrap(model: Any, context: int | None = CONTEXT) -> Any:
    return wrap(model, eos_ids=(VOCAB - 1,), context_length=context, vocab_size=VOCAB)


@pytest.fixture(scope="module")
def lm() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCAB, n_positions=CONTEXT, n_embd=16, n_layer=2, n_head=2, bos_token_id=96, eos_token_id=96,
        initializer_range=0.4,
    )  # fmt: skip
    return _wrap(GPT2LMHeadModel(config))


@pytest.fixture(scope="module")
def masked() -> Any:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=CONTEXT,
    )  # fmt: skip
    return replace(_wrap(BertModel(config)), added_ids=([1], [2]))


def nll_of(lm: Any, prompts: Ragged, texts: Ragged, **options: Any) -> Ragged:
    return score.compute_token_nll(lm, scoring(prompts, texts, **options))


def rows(seed: int, n: int, low: int, high: int) -> Ragged:
    rng = np.random.default_rng(seed)
    return ragged([rng.integers(0, VOCAB, rng.integers(low, high + 1)).tolist() for _ in range(n)])


def oracle_nll(lm: Any, ids: list[int], first: int) -> list[float]:
    """-log p(ids[t]) from one unpadded pass a token, in float64."""
    out = []
    for t in range(first, len(ids)):
        with torch.no_grad():
            logits = lm.model(torch.tensor([ids[:t]])).logits[0, -1].double().numpy()
        logits -= logits.max()
        out.append(float(np.log(np.exp(logits).sum()) - logits[ids[t]]))
    return out


def test_token_ids_in_a_batch_are_those_of_one_text_at_a_time() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    inner = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = TextTokenizer(inner, (), byte_level=False)
    texts = ["a b a", "", "b zzz"] * 400
    got = tokenizers_.tokenize_texts(tokenizer, texts)
    assert [row.tolist() for row in got] == [tokenizer.encode(t) for t in texts]

    class Slow:
        encode, decode = tokenizer.encode, tokenizer.decode

    assert np.array_equal(tokenizers_.tokenize_texts(Slow(), texts).values, got.values)
    assert len(tokenizers_.tokenize_texts(tokenizer, [])) == 0


@given(st.integers(0, 10**6), st.booleans(), st.booleans(), st.integers(1, 5))
@settings(max_examples=12, deadline=None)
def test_nll_is_the_oracles(lm: Any, seed: int, include_prompt: bool, bos: bool, batch_size: int) -> None:
    prompts, texts = rows(seed, 4, 0, 6), rows(seed + 1, 4, 0, 8)
    got = nll_of(lm, prompts, texts, include_prompt=include_prompt, bos=bos, batch_size=batch_size)
    for i in range(4):
        ids = [96] * bos + prompts[i].tolist() + texts[i].tolist()
        first = max(1, bos + (0 if include_prompt else len(prompts[i])))
        want = oracle_nll(lm, ids, first)
        # float32 model, sums of 16 products: 1e-4 nats.
        assert got[i] == pytest.approx(want, abs=1e-4)


def test_nll_of_long_rows_and_of_nothing(lm: Any) -> None:
    prompts, texts = rows(3, 2, 5, 5), rows(4, 2, 80, 90)
    got = nll_of(lm, prompts, texts, batch_size=3)
    assert got.lengths.tolist() == texts.lengths.tolist()
    ids = np.concatenate([prompts[0], texts[0]]).tolist()
    # Tokens 5…31 see all before them; token 32 opens the second window, which begins at 16.
    assert got[0][:27] == pytest.approx(oracle_nll(lm, ids[:CONTEXT], 5), abs=1e-4)
    assert got[0][27] == pytest.approx(oracle_nll(lm, ids[16:33], 16)[0], abs=1e-4)
    assert np.isfinite(got.values).all()

    got = nll_of(lm, rows(5, 1, 50, 50), rows(6, 1, 4, 4), batch_size=1)
    assert got.lengths.tolist() == [4]
    assert np.isfinite(got.values).all()

    empty = ragged([EMPTY, EMPTY])
    assert nll_of(lm, empty, empty, batch_size=2).lengths.tolist() == [0, 0]
    assert nll_of(lm, empty, ragged([EMPTY, [3]]), batch_size=2).lengths.tolist() == [0, 0]
    assert nll_of(lm, empty, ragged([EMPTY, [3]]), bos=True, batch_size=2).lengths.tolist() == [0, 1]
    assert len(nll_of(lm, ragged([]), ragged([]), batch_size=2)) == 0

    check_error(ValueError, "2 prompts, 1 continuations", nll_of, lm, ragged([[1], [2]]), ragged([[1]]), batch_size=1)


@pytest.mark.parametrize("pooling", ["last", "first", "mean"])
@pytest.mark.parametrize("layer", [-1, 1, 0])
def test_embedding_is_that_of_one_text_at_a_time(lm: Any, pooling: Any, layer: int) -> None:
    prompts, texts = rows(7, 6, 0, 5), rows(8, 6, 1, 20)
    vectors, truncated = embed_one(lm, spec(pooling=pooling, layer=layer, max_length=16), prompts, texts, batch_size=4)
    assert vectors.dtype == np.float32
    assert truncated == int((prompts.lengths + texts.lengths > 16).sum())
    for i in range(6):
        ids = np.concatenate([prompts[i], texts[i]])[:16]
        with torch.no_grad():
            out = lm.model.base_model(torch.from_numpy(ids)[None], output_hidden_states=True).hidden_states[layer][0]
        want = {"last": out[-1], "first": out[0], "mean": out.mean(dim=0)}[pooling]
        np.testing.assert_allclose(vectors[i], want.numpy(), atol=1e-5)


@pytest.mark.parametrize(("pooling", "normalize"), [("last", False), ("mean", False), ("mean", True)])
def test_a_model_that_looks_both_ways_gets_its_special_tokens_and_a_mask(
    masked: Any, pooling: Any, normalize: bool
) -> None:
    texts = rows(9, 5, 1, 20)
    none = ragged([EMPTY] * 5)
    embedder = spec(kind="masked", pooling=pooling, normalize=normalize, max_length=12)
    vectors, truncated = embed_one(masked, embedder, none, texts, batch_size=5)
    assert truncated == int((texts.lengths + 2 > 12).sum())
    for i in range(5):
        ids = torch.tensor([[1, *texts[i][:10].tolist(), 2]])
        with torch.no_grad():
            out = masked.model(ids).last_hidden_state[0]
        want = out[-1] if pooling == "last" else out.mean(dim=0)
        length = want.norm() if normalize else 1
        np.testing.assert_allclose(vectors[i], (want / length).numpy(), atol=1e-5)


def test_one_pass_for_both_gives_the_same(lm: Any) -> None:
    prompts, texts = rows(12, 7, 1, 4), rows(13, 7, 0, 45)
    embedded, nll = score.embed_and_score(lm, embedding(prompts, texts, spec(max_length=20), batch_size=3))
    alone = embed_one(lm, spec(max_length=20), prompts, texts, batch_size=3)
    np.testing.assert_allclose(embedded.vectors, alone.vectors, atol=1e-5)
    assert embedded.truncated == alone.truncated
    np.testing.assert_allclose(nll.values, nll_of(lm, prompts, texts, batch_size=3).values, atol=1e-5)
    with pytest.raises(SpecError, match="causal"):
        score.embed_and_score(lm, embedding(prompts, texts, spec(kind="masked"), batch_size=3))


def test_batches_change_float_noise_alone_and_count_every_text(lm: Any) -> None:
    prompts, texts = rows(14, 9, 1, 4), rows(15, 9, 1, 20)
    first = embed_one(lm, spec(), prompts, texts, batch_size=9).vectors
    assert np.array_equal(first, embed_one(lm, spec(), prompts, texts, batch_size=9).vectors)
    for size in (1, 4):
        np.testing.assert_allclose(first, embed_one(lm, spec(), prompts, texts, batch_size=size).vectors, atol=1e-5)

    vectors, truncated = embed_one(lm, spec(), ragged([EMPTY, [96]]), ragged([EMPTY, EMPTY]), batch_size=2)
    np.testing.assert_allclose(vectors[0], vectors[1], rtol=1e-5, atol=1e-6)
    assert truncated == 0
    assert embed_one(lm, spec(), ragged([]), ragged([]), batch_size=2).vectors.shape[0] == 0

    done: list[int] = []
    embed_one(lm, spec(), rows(1, 7, 1, 2), rows(2, 7, 1, 9), batch_size=3, advance=done.append)
    assert done == [3, 3, 1]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_text_gets_the_same_bits_in_any_company(name: str) -> None:
    """On a CPU, where every weight matrix is in a packed layer; those of experts and of Falcon's own layers are not."""
    model = make_family_model(name)
    rows = [torch.randint(1, 300, (length,)).numpy() for length in (40, 3, 17, 127, 40, 16, 33, 1)]

    def read(part: list[int]) -> tuple[Any, Any]:
        jobs = [ForwardRow(i, rows[k], 1, i * 128) for i, k in enumerate(part)]
        pool, nll = Pool(-1, "last", 128, len(part)), np.zeros(128 * len(part))
        run_forward(model, ForwardRequest(jobs, 64, pool, nll))
        return pool.vectors[0], nll.reshape(len(part), 128)

    together = read(list(range(len(rows))))
    assert is_batch_invariant(model) == (name not in ("falcon", "mixtral", "qwen2_moe"))
    if is_batch_invariant(model):
        for part in ([2], [4, 0], [7, 3, 1]):
            for alone, all_texts in zip(read(part), together, strict=True):
                assert np.array_equal(alone, all_texts[part])


def test_scaled_logits_are_the_models_own() -> None:
    """Some models scale or cap their logits after the output layer."""
    lm, prompts, texts = tiny_family("gemma2"), ragged([[5, 6], [7]]), ragged([[8, 9, 10], [11, 12]])
    assert lm.model.config.final_logit_softcapping
    got = nll_of(lm, prompts, texts, batch_size=2)
    for i in range(2):
        ids = np.concatenate([prompts[i], texts[i]]).tolist()
        assert got[i] == pytest.approx(oracle_nll(lm, ids, len(prompts[i])), abs=1e-4)


def test_a_model_of_nan_is_an_error(lm: Any) -> None:
    model = copy.deepcopy(lm.model)
    model.transformer.ln_f.weight = torch.nn.Parameter(torch.full((16,), math.nan), requires_grad=False)
    with pytest.raises(DataError, match="3 of 3 are not finite"):
        embed_one(_wrap(model), spec(), rows(1, 3, 1, 2), rows(2, 3, 1, 3), batch_size=3)


def test_lengths_and_layers_beyond_the_model(lm: Any, masked: Any) -> None:
    one = ragged([[1, 2]])
    check_error(SpecError, "at most the context, 32", embed_one, lm, spec(max_length=33), one, one, batch_size=1)
    check_error(SpecError, "layer: expected -3 … 2, got 7", embed_one, lm, spec(layer=7), one, one, batch_size=1)
    with pytest.raises(SpecError, match="special tokens"):
        embed_one(masked, spec(kind="masked", max_length=2), one, one, batch_size=1)


def test_sentence_models_are_an_extra() -> None:
    try:
        import sentence_transformers  # noqa: F401
    except ImportError:
        check_error(ExtraNotInstalled, r"openended\[embedders\]", load_embedder, spec(kind="sentence"))
    check_error(SpecError, "sentence models", score.embed_texts, None, spec(), ["a"], batch_size=1)


def test_sentence_model_counts_what_it_cuts() -> None:
    class Encoder:
        max_seq_length = 3

        def encode(self, texts: list[str], batch_size: int, show_progress_bar: bool) -> Any:
            return np.array([[len(t)] for t in texts], dtype=np.float64)

        def tokenizer(self, text: str, truncation: bool) -> dict[str, list[int]]:
            return {"input_ids": list(range(len(text.split())))}

    got = score.embed_texts(Encoder(), spec(kind="sentence"), ["a b", "a b c d"], batch_size=2)
    assert got.vectors.tolist() == [[3.0], [7.0]]
    assert got.truncated == 1


def test_very_many_vectors_lie_in_a_file(monkeypatch, lm):
    from openended.harness.models import forward

    texts, none = rows(2, 9, 1, 9), ragged([EMPTY] * 9)
    want = embed_one(lm, spec(), none, texts, batch_size=4).vectors
    monkeypatch.setattr(forward, "_MEMORY_LIMIT", 0)
    made = embed_one(lm, spec(), none, texts, batch_size=4).vectors
    assert isinstance(made, np.memmap)
    assert np.array_equal(made, want)


TEXTS = [[5, 6, 7, 8, 9], [9, 8, 7], [5], list(range(1, 40))]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return ModelSpec(path=str(tiny_model(tmp_path_factory.mktemp("tiny")))).load()


def gradient(tiny, ids):
    """The whole gradient of the mean loss of the tokens after the first."""
    row = torch.tensor([ids])
    logits = tiny.model(row).logits[0, :-1]
    loss = torch.nn.functional.cross_entropy(logits, row[0, 1:])
    tiny.model.requires_grad_(True)
    tiny.model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.reshape(-1) for p in tiny.model.parameters() if p.grad is not None]).numpy()


def test_products_of_sketches_are_those_of_gradients(tiny):
    request = GradientRequest(prompts=ragged([[]] * 4), continuations=ragged(TEXTS), size=1 << 16)
    sketches = sketch_gradients(tiny, request)
    assert not sketches[2].any()  # one token has no loss
    tiny.model.requires_grad_(True)
    full = [gradient(tiny, TEXTS[i]) for i in (0, 1, 3)]
    tiny.model.requires_grad_(False)
    kept = sketches[[0, 1, 3]]
    norms = np.linalg.norm(np.array(full), axis=1)
    # sqrt(2 / 65536) = 0.6 % of the norms; five times that
    difference = (kept @ kept.T - np.array(full) @ np.array(full).T) / np.outer(norms, norms)
    assert np.abs(difference).max() < 0.03
    assert np.array_equal(sketches, sketch_gradients(tiny, request))


def test_ranks_are_a_column_of_the_scores(tiny):
    common = {"prompts": ragged([[]] * 4), "continuations": ragged(TEXTS), "batch_size": 2}
    plain = score.compute_token_nll(tiny, ScoringRequest(**common))
    nll, rank = split_columns(score.compute_token_nll(tiny, ScoringRequest(**common, ranks=True)))
    assert np.array_equal(nll.values, plain.values)
    with torch.inference_mode():
        logits = tiny.model(torch.tensor([TEXTS[0]])).logits[0]
    want = [1 + int((logits[i] > logits[i, gold]).sum()) for i, gold in enumerate(TEXTS[0][1:])]
    assert rank[0].tolist() == want
    assert rank.lengths.tolist() == [4, 2, 0, 38]
    assert not len(split_columns(plain)[1].values)


def test_windows_and_strides_score_each_token_once(tiny):
    common = {"prompts": ragged([[]]), "continuations": ragged([list(range(1, 40))]), "batch_size": 4}
    jobs, out = plan_scoring(tiny, ScoringRequest(**common, window=16, stride=4))
    assert [len(job.ids) for job in jobs] == [16] * 7  # 15 tokens, then 4, 4, 4, 4, 4, 3
    scored = [slice(job.out, job.out + len(job.ids) - job.first) for job in jobs]
    assert [s.stop - s.start for s in scored] == [15, 4, 4, 4, 4, 4, 3]
    assert [s.start for s in scored[1:]] == [s.stop for s in scored[:-1]]
    assert len(out.values) == 38
    requests = (ScoringRequest(**common, window=w, stride=s) for w, s in ((None, None), (16, 4)))
    whole, cut = (score.compute_token_nll(tiny, request).values for request in requests)
    assert np.allclose(whole[:15], cut[:15], atol=1e-5)
    assert not np.allclose(whole[15:], cut[15:], atol=1e-5)
    check_error(DataError, "window: expected at most 64", plan_scoring, tiny, ScoringRequest(**common, window=100))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("place", [(0, 0, 0), (1, 2, 3)])
def test_one_number_that_is_none_anywhere_is_seen(value, place):
    logits = torch.zeros(2, 3, 4)
    logits[place] = value
    with pytest.raises(DataError, match=r"^model gpt2: its logits are not finite in float32; its weights are broken$"):
        check_logits(logits, gpt2())


def test_rows_that_overflow_are_counted_and_a_smaller_dtype_is_named():
    check_error(DataError, "not finite", check_logits, torch.full((1, 8), 3e38), gpt2())

    lm = gpt2()
    half = replace(lm, spec=replace(lm.spec, dtype="float16"))
    advice = "its logits are not finite in float16; its weights are broken, or try dtype=float32"
    assert failures.describe_broken_weights(half) == f"model gpt2: {advice}"

    values = np.zeros((5, 3), np.float32)
    check_finite(values, "vectors of x")
    check_finite(values[:0], "vectors of x")
    values[1, :2], values[4, 0] = np.nan, -np.inf
    with pytest.raises(DataError, match=r"^vectors of x: 2 of 5 are not finite; try dtype=float32$"):
        check_finite(values, "vectors of x")
    check_error(DataError, "1 of 2", check_finite, np.array([0.0, np.inf]), "numbers of x")


@pytest.mark.slow
def test_out_of_memory_halves_the_batch_and_goes_on() -> None:
    sizes: list[int] = []
    done: list[int] = []

    def step(part: Any) -> None:
        sizes.append(len(part))
        if len(part) > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate")
        done.extend(part.tolist())

    failures.run_in_batches(np.array([5, 9, 1, 7, 3]), 5, step, None, None)
    assert sizes == [5, 2, 2, 1]
    assert done == [1, 3, 0, 4, 2]  # longest first


@pytest.mark.slow
@cases(
    "message, sizes, raised",
    ("DefaultCPUAllocator: can't allocate memory: you tried to allocate", [2, 1], MemoryError),
    ("shapes do not agree", [2], RuntimeError),
)
def test_memory_for_no_text_and_other_errors_are_raised(message, sizes, raised):
    calls: list[int] = []

    def step(part: Any) -> None:
        calls.append(len(part))
        raise RuntimeError(message)

    check_error(raised, message, failures.run_in_batches, np.array([1, 2]), 2, step, None, None)
    assert calls == sizes


@pytest.mark.parametrize("text", ["CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"])
def test_memory_that_runs_out_is_no_lost_device(text):
    failures.check_device(RuntimeError(text))
    assert failures.is_out_of_memory(RuntimeError(text))


# Language models that are fine-tuned to tell model texts from human ones

HUMAN = [f"Return the number {i} of the list as an integer." for i in range(20)]
MODEL = [f"the the the {i} the the the" for i in range(20)]
OPTIONS = {"learning_rate": 1e-3, "epochs": 4, "max_length": 16, "batch_size": 16, "seed": 1}


@pytest.mark.slow
def test_different_texts_are_told_apart_and_training_repeats():
    spec, is_model = ModelSpec(path="bundled:docs-s"), np.repeat([False, True], 16)
    texts, tests = [*HUMAN[:16], *MODEL[:16]], [*HUMAN[16:], *MODEL[16:]]
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    first, second = (finetune_classifier(spec, "cpu", texts, is_model, tests, **OPTIONS) for _ in range(2))
    assert first.tolist() == [False] * 4 + [True] * 4
    assert (first == second).all()
    assert torch.rand(1) == expected  # the random state is what it was


def test_a_model_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(DataError, match=f"classifier {tmp_path} cannot be read"):
        finetune_classifier(ModelSpec(path=str(tmp_path)), "cpu", HUMAN, np.zeros(20, bool), HUMAN, **OPTIONS)


def test_weights_that_are_missing_are_refused_but_those_of_the_output_layer(tmp_path):
    from safetensors.numpy import load_file, save_file

    folder = shutil.copytree("harness/assets/docs-s", tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in weights if ".h.1." in name)
    save_file({key: value for key, value in weights.items() if key != name}, folder / "model.safetensors")
    with pytest.raises(DataError, match=f"cannot be read: .*1 missing: {name}"):
        finetune_classifier(ModelSpec(path=str(folder)), "cpu", HUMAN, np.zeros(20, bool), HUMAN, **OPTIONS)


@pytest.mark.slow
def test_a_run_trains_it_and_its_signature_names_the_weights(tmp_path):
    words = ["model=docs-s", "decoder=greedy", "num_examples=12", "max_new_tokens=8", "metric=finetuned_discriminator"]
    done = openended(*words, "metric.finetuned_discriminator.epochs=1", cwd=tmp_path, code=0)
    assert "Disc. acc. docs-s" in done.stdout
    assert "|weights:docs-s@" in done.stdout


def test_logits_that_a_family_scales_in_its_own_way_are_scored_so_or_refused():
    from types import SimpleNamespace

    from transformers import HyperCLOVAXConfig, HyperCLOVAXForCausalLM

    from openended.harness.models.families import get_body, rescale_logits
    from openended.harness.models.forward import check_output_layer

    config = HyperCLOVAXConfig(
        vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, logits_scaling=0.125,
    )  # fmt: skip
    torch.manual_seed(0)
    model = HyperCLOVAXForCausalLM(config).eval()
    ids = torch.arange(6)[None]
    with torch.inference_mode():
        head = model.get_output_embeddings()(get_body(model)(input_ids=ids).last_hidden_state)
        torch.testing.assert_close(rescale_logits(model.config, head), model(input_ids=ids).logits)
    device, spec = torch.device("cpu"), SimpleNamespace(title="a model")
    lm = SimpleNamespace(model=model, device=device, vocab_size=32, dtype=torch.float32, spec=spec)
    check_output_layer(lm)
    other = HyperCLOVAXForCausalLM(config).eval()
    other.config.model_type = "unknown"
    with pytest.raises(DataError, match="the family unknown changes its logits in a way that is not known here"):
        check_output_layer(SimpleNamespace(**vars(lm) | {"model": other}))
