"""One model over one source: what comes of one pass is what comes of two, and whose token ids it reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from openended.harness.core.errors import SpecError
from openended.harness.core.types import Generation, Ragged
from openended.harness.decoders.sampling import Nucleus
from openended.harness.models.embedder import EmbedderSpec
from openended.harness.models.spec import ModelSpec, list_bundled_models
from openended.harness.models.tokenizer import tokenizer_digest
from openended.harness.run import artifact_files as stages
from openended.harness.run.artifacts import Build, TextRows
from openended.harness.run.features.passes import ModelPasses, load_row_tokens, load_texts
from openended.harness.run.features.scoring_options import ScoringOptions
from openended.harness.run.session import Session
from openended.harness.storage.rows import Row, write_rows
from openended.harness.storage.store import Entry, Store
from tests.harness.run.small import settings
from tests.helpers import q_request, ragged

pytestmark = pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there")
SPEC, EMBEDDER = ModelSpec(path="bundled:docs-s"), EmbedderSpec(path="bundled:docs-s")
TEXTS = [("a", "Return the", " number of rows."), ("b", "Raise an", " error if it is"), ("c", "Write", " it.")]
WHOLE = "prompt_and_continuation"


def source(folder: Path, *, tokenizer: str | None = None, chat: bool = False) -> TextRows:
    """Rows whose own ids are 1, 2, … and not those that a tokenizer would give."""
    rows = [
        Row(prompt, (1, 2), Generation(name, 0, text, tuple(range(3, 6 + i)), "length", 0.0))
        for i, (name, prompt, text) in enumerate(TEXTS)
    ]
    folder.mkdir(exist_ok=True)
    write_rows(folder / stages.DATA, rows)
    # The chat's rows come in another order: they are found by their example's name.
    spoken = [replace(row, prompt_ids=(7 + i, 8, 9)) for i, row in enumerate(rows)]
    write_rows(folder / stages.CHAT, spoken[::-1])
    entry = Entry("generate", "0" * 64, folder, {stages.DATA: "0"}, {})
    return TextRows("model", entry, stages.DATA, tokenizer, entry if chat else None)


@pytest.fixture(scope="module")
def passes(tmp_path_factory: pytest.TempPathFactory) -> ModelPasses:
    folder = tmp_path_factory.mktemp("run")
    made = settings(folder, "runtime.feature_batch_size=2", "runtime.progress=false", "runtime.device=cpu")
    return ModelPasses(made.runtime, Session(Store(folder / "store")))


def scores(build: Build, folder: Path) -> Ragged:
    folder.mkdir()
    assert build(folder)["device"] == "cpu"
    return stages.load_ragged(folder)


def vectors(build: Build, folder: Path) -> np.ndarray:
    folder.mkdir()
    build(folder)
    return stages.load_array(folder / stages.VECTORS)


def test_what_is_read_of_the_rows_themselves(tmp_path, passes):
    rows = source(tmp_path)
    assert load_texts(rows, "continuation") == [text for _, _, text in TEXTS]
    assert load_texts(rows, WHOLE)[0] == "Return the number of rows."
    assert load_row_tokens(rows, "continuation")[0].tolist() == [3, 4, 5]
    assert load_row_tokens(rows, WHOLE)[0].tolist() == [1, 2, 3, 4, 5]
    assert [len(ids) for ids in passes.words(rows, WHOLE)] == [5, 6, 2]


def test_tokens_of_a_continuation_and_of_a_whole_text(tmp_path, passes):
    rows, tokenizer = source(tmp_path), passes.session.tokenizer(SPEC)
    decoded = [
        tokenizer.decode(ids.tolist()) for ids in passes.tokens(SPEC, rows, ScoringOptions(scope="continuation"))
    ]
    assert decoded == [text for _, _, text in TEXTS]
    decoded = [tokenizer.decode(ids.tolist()) for ids in passes.tokens(SPEC, rows, ScoringOptions(scope=WHOLE))]
    assert decoded == [prompt + text for _, prompt, text in TEXTS]


def test_one_pass_gives_what_two_give(tmp_path, passes):
    rows = source(tmp_path)
    both = passes.score_and_embed(SPEC, EMBEDDER, rows, ScoringOptions(scope="continuation"), ["score", "embed"])
    (score,) = passes.score_and_embed(SPEC, EMBEDDER, rows, ScoringOptions(scope="continuation"), ["score"])
    (embedding,) = passes.score_and_embed(SPEC, EMBEDDER, rows, ScoringOptions(scope="continuation"), ["embed"])
    assert len(both) == 2
    one, other = scores(both[0], tmp_path / "1"), scores(score, tmp_path / "2")
    np.testing.assert_allclose(one.values, other.values, rtol=1e-5)
    assert (one.offsets == other.offsets).all()
    pair = vectors(both[1], tmp_path / "3"), vectors(embedding, tmp_path / "4")
    np.testing.assert_allclose(*pair, rtol=1e-4, atol=1e-4)
    assert pair[0].shape[0] == 3


def test_the_prompt_is_scored_and_embedded_where_the_scope_says_so(tmp_path, passes):
    rows = source(tmp_path)
    tail, whole = (
        scores(passes.score_and_embed(SPEC, None, rows, ScoringOptions(scope=scope), ["score"])[0], tmp_path / scope)
        for scope in ("continuation", WHOLE)
    )
    assert (whole.lengths - tail.lengths).tolist() == [1, 2, 0]  # the first token of a text has no score
    np.testing.assert_allclose(whole[0][-len(tail[0]) :], tail[0], rtol=1e-5)
    alone, after = (
        vectors(passes.embed([EMBEDDER], rows, scope, [0])[0], tmp_path / f"v {scope}")
        for scope in ("continuation", WHOLE)
    )
    assert not np.allclose(alone, after, atol=1e-3)


def test_several_lengths_are_embedded_at_once_and_given_in_the_order_asked_for(tmp_path, passes):
    rows = source(tmp_path)
    specs = [replace(EMBEDDER, max_length=n, lengths=(2, 4)) for n in (4, 2)]
    made = [vectors(b, tmp_path / f"m{i}") for i, b in enumerate(passes.embed(specs, rows, WHOLE, [0, 1]))]
    (last,) = passes.embed(specs, rows, WHOLE, [1])
    for n, found in zip((4, 2), made, strict=True):
        (alone,) = passes.embed([replace(EMBEDDER, max_length=n)], rows, WHOLE, [0])
        np.testing.assert_allclose(found, vectors(alone, tmp_path / f"a{n}"), rtol=1e-4, atol=1e-4)
    assert (vectors(last, tmp_path / "last") == made[1]).all()


def test_q_is_read_on_the_ids_that_the_rows_hold(tmp_path, passes):
    facts = passes.read_q(tmp_path, SPEC, Nucleus(p=0.9), source(tmp_path), 1)
    got = stages.load_next_token(tmp_path, facts)
    prompts, tails = ragged([[1, 2]] * 3), ragged([[3, 4, 5], [3, 4, 5, 6], [3, 4, 5, 6, 7]])
    lm = passes.session.model(SPEC, passes.runtime)
    (expected,) = lm.q_statistics(q_request(prompts, tails, [Nucleus(p=0.9)], min_new_tokens=1, batch_size=2))
    assert got.gold.tolist() == tails.values.tolist()
    np.testing.assert_allclose(got.gold_prob, expected.gold_prob, rtol=1e-5)  # rows of another batch: float noise
    assert (got.support == expected.support).all()


def test_the_rows_ids_are_kept_where_the_tokenizer_is_theirs(tmp_path, passes):
    own = source(tmp_path, tokenizer=tokenizer_digest(SPEC))
    made = [
        scores(
            passes.score_and_embed(SPEC, None, rows, ScoringOptions(scope="continuation"), ["score"])[0],
            tmp_path / name,
        )
        for name, rows in (("own", own), ("other", source(tmp_path)))
    ]
    assert made[0].lengths.tolist() == [3, 4, 5]
    assert made[1].lengths.tolist() == passes.tokens(SPEC, own, ScoringOptions(scope="continuation")).lengths.tolist()


def test_a_model_under_test_reads_its_chat_prompts_by_name(tmp_path, passes):
    chats = replace(SPEC, chat_template=True)
    own = source(tmp_path, tokenizer=tokenizer_digest(chats), chat=True)
    with pytest.raises(SpecError, match="chat template were not made yet"):
        passes._read_ids(replace(own, chat=None), chats, ScoringOptions(scope="continuation"))
    prompts, texts = passes._read_ids(own, chats, ScoringOptions(scope="continuation"))
    assert [ids.tolist() for ids in prompts] == [[7, 8, 9], [8, 8, 9], [9, 8, 9]]
    assert texts.lengths.tolist() == [3, 4, 5]
