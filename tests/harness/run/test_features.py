"""Features: the union of what all metrics need, one pass of each model over each source, and whose token ids it reads."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openended.harness.core import DataError, Generation, Need, SpecError, UndefinedMetric, digest_file
from openended.harness.decoders.sampling import Nucleus
from openended.harness.models import EmbedderSpec, LanguageModel, ModelSpec
from openended.harness.run.dataset import CHAT, REFERENCE_ROWS
from openended.harness.run.features import FeatureTable
from openended.harness.run.generate import DATA
from openended.harness.run.pipeline import make_texts, plan, run
from openended.harness.run.read import ScoringOptions, TextPass, TextReader
from openended.harness.run.request import Generator, open_request
from openended.harness.run.steps import Executor, TextRows
from openended.harness.storage import Entry, Row, RowFile, load_array, load_next_token, load_ragged, write_rows
from tests.harness.run.small import (
    ONE_MODEL,
    load_side,
    make_executor,
    make_finished_step,
    measure_rows,
    open_session,
    settings,
)
from tests.helpers import cases, change_settings, check_error, q_request, ragged, write_jsonl

SPEC, EMBEDDER = ModelSpec(path="bundled:docs-s"), EmbedderSpec(path="bundled:docs-s")
TEXTS = [("a", "Return the", " number of rows."), ("b", "Raise an", " error if it is"), ("c", "Write", " it.")]
WHOLE: Any = "prompt_and_continuation"
TAIL = ScoringOptions(scope="continuation")
TWO_MODELS = ("embedder.path=bundled:docs-s", "scorer.path=bundled:docs-m")


@pytest.fixture
def counted(monkeypatch):
    """Of each pass of a model over a source: whether it scored, whether it embedded."""
    seen: list[tuple[bool, bool]] = []
    whole = LanguageModel.forward

    def forward(lm: Any, request: Any, advance: Any) -> Any:
        seen.append((request.nll is not None, request.pool is not None))
        return whole(lm, request, advance)

    monkeypatch.setattr(LanguageModel, "forward", forward)
    return seen


@cases(
    "models, before, metrics, passes",
    # Human and model side; the further human texts of the ceiling are embedded alone.
    (ONE_MODEL, None, "frechet,gen_ppl,kid,zipf", {(True, True): 2, (False, True): 1}),
    (ONE_MODEL, "gen_ppl", "gen_ppl,frechet", {(True, True): 2, (False, True): 1}),
    (ONE_MODEL, "frechet,gen_ppl", "gen_ppl", {}),  # what gave more is as good
    (ONE_MODEL, "frechet,gen_ppl", "frechet", {}),
    (TWO_MODELS, None, "frechet,gen_ppl,kid", {(True, False): 2, (False, True): 3}),
)
def test_a_model_passes_once_over_a_source_and_what_is_there_is_not_made_again(
    tmp_path, counted, models, before, metrics, passes
):
    if before is not None:
        run(settings(tmp_path, *models, f"metric=[{before}]"), open_session(tmp_path))
        assert Counter(counted) == ({(True, False): 2} if before == "gen_ppl" else {(True, True): 2, (False, True): 1})
        counted.clear()
    session = open_session(tmp_path)
    run(settings(tmp_path, *models, f"metric=[{metrics}]"), session)
    assert Counter(counted) == passes
    assert models is TWO_MODELS or session.loads == ["docs-s"] or not passes


def test_a_larger_run_reads_the_new_rows_alone_and_its_bytes_are_those_of_a_fresh_one(tmp_path, monkeypatch):
    """What is damaged is not reused."""
    lengths: list[int] = []
    forward = LanguageModel.forward

    def count(lm: Any, request: Any, advance: Any) -> Any:
        lengths.append(len(request.rows))
        return forward(lm, request, advance)

    monkeypatch.setattr(LanguageModel, "forward", count)
    store = tmp_path / "out" / "store"

    def read_passes(number: int, metrics: str = "frechet,gen_ppl") -> tuple[list[int], dict[str, str]]:
        lengths.clear()
        sizes = (f"num_examples={number}", "min_new_tokens=12", f"metric=[{metrics}]")
        run(settings(tmp_path, *ONE_MODEL, "human_examples=null", *sizes), open_session(tmp_path))
        paths = list((store / "read").glob("*/*/*.npy"))
        return list(lengths), {str(path.relative_to(store)): digest_file(path) for path in paths}

    fresh_rows, fresh = read_passes(16)
    shutil.rmtree(store)
    read_passes(8)
    shutil.copytree(store, tmp_path / "eight")
    grown_rows, grown = read_passes(16)
    assert fresh.items() <= grown.items()
    assert sum(fresh_rows) == 32
    assert sum(grown_rows) == 16
    shutil.rmtree(store / "read")
    assert read_passes(16) == (fresh_rows, fresh), "an artifact that was deleted is not missed"
    shutil.rmtree(store)
    (tmp_path / "eight").rename(store)
    for path in store.glob("read/*/*/[ne]*.npy"):
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    again_rows, again = read_passes(16)
    assert again_rows == fresh_rows
    assert fresh.items() <= again.items()


def test_what_a_decoder_needs_of_the_human_side_is_a_need(tmp_path, counted):
    """The perplexity that the adversarial decoder aims at comes of the pass that serves the metrics, too."""
    made = settings(tmp_path, *ONE_MODEL, "decoder=adversarial", "metric=[frechet,gen_ppl]")
    session = open_session(tmp_path)
    states = {line.step.stage: line.state for line in plan(made, session).plan}
    assert (states["examples"], states["read"], states["generate"]) == ("make", "waits", "waits")
    assert session.loads == []
    stages = [line.step.stage for line in run(made, session).plan]
    assert Counter(counted) == {(True, True): 2, (False, True): 1}
    assert stages.index("read") < stages.index("generate")
    counted.clear()
    assert {step.state for step in plan(made, open_session(tmp_path)).plan} == {"hit"}
    assert run(made, open_session(tmp_path)).num_computed == 0
    assert counted == []


def test_sides_are_shared_by_contents(tmp_path):
    made, session = settings(tmp_path, *ONE_MODEL, "metric=[frechet]"), open_session(tmp_path)
    (need,) = made.metrics[0].needs()
    sides = []
    for _ in range(2):
        executor = Executor(session, plan_only=False)
        texts = make_texts(made, executor)
        executor.run(*texts.features.declare([(texts.human_rows, (need,))]))
        sides.append(load_side(texts.features, texts.human_rows, need))
    assert sides[0] is sides[1]
    assert not sides[0][need].flags.owndata  # a memory map


def test_what_a_source_cannot_have_is_a_reason_and_an_unknown_option_is_refused(tmp_path):
    made = change_settings(settings(tmp_path, "decoder=beam", "metric=[zipf]"), embedder=None)
    texts = make_texts(made, make_executor(tmp_path))
    vectors, q = Need("embeddings", by="embedder"), Need("next_token", by="decoder")
    assert texts.features.declare([(texts.human_rows, (vectors, q))]) == []
    for need, reason in ((vectors, "set embedder=gpt2-large"), (q, "beam")):
        check_error(UndefinedMetric, reason, load_side, texts.features, texts.human_rows, need)
    unknown = Need("token_nll", by="scorer", options=(("beta", 1),))
    with pytest.raises(SpecError, match="token_nll: no option beta"):
        texts.features.declare([(texts.human_rows, (unknown,))])


@pytest.mark.slow
def test_features_and_keys_do_not_depend_on_the_batch(tmp_path):
    """How many rows a pass takes is no matter of numbers: on a CPU, features are the same bytes at every batch size."""

    def compute(rows: int) -> dict[str, bytes]:
        words = ("model=docs-s", "scorer.path=bundled:docs-s", "embedder.path=bundled:docs-m", "seed=3")
        folder = tmp_path / str(rows)
        made = settings(
            tmp_path, *words, f"outputs_dir={folder / 'out'}", "metric=[frechet,gen_ppl,eps_ppl]", "runtime.device=cpu",
            f"runtime.feature_batch_size={rows}",
        )  # fmt: skip
        run(made, open_session(folder))
        return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*.npy"))}

    one, other = compute(64), compute(3)
    assert {name.split("/")[2] for name in one} >= {"read", "next_token"}
    assert one == other


def test_default_scoring_options_are_in_no_key_and_others_are():
    plain = ScoringOptions.from_need(Need("token_nll", by="scorer", options=(("bos", False),)))
    assert plain.facts() == {"scope": "continuation", "bos": False}  # as stores have had it
    assert plain.title == "continuation"
    options = (("bos", True), ("retokenize", True), ("stride", 2), ("window", 4))
    other = ScoringOptions.from_need(Need("token_nll", options=options))
    assert other.facts() == {"scope": "continuation", "bos": True, "retokenize": True, "window": 4, "stride": 2}
    assert other.token_facts() == {"scope": "continuation", "retokenize": True}
    assert other.title == "continuation bos retokenize window=4 stride=2"
    assert other.tokenizes_again


@pytest.fixture
def executor(tmp_path) -> Executor:
    return make_executor(tmp_path)


@pytest.fixture
def source(tmp_path, executor):
    """Make rows whose own ids are 1, 2, … and not those that a tokenizer would give."""

    def make(*, tokenizer: ModelSpec | None = None, chat: bool = False) -> TextRows:
        rows = [
            Row(prompt, (1, 2), Generation(name, 0, text, tuple(range(3, 6 + i)), "length", 0.0))
            for i, (name, prompt, text) in enumerate(TEXTS)
        ]
        folder = tmp_path / "rows"
        folder.mkdir(exist_ok=True)
        write_rows(folder / DATA, rows)
        # The chat's rows come in another order: they are found by their example's name.
        spoken = [replace(row, prompt_ids=(7 + i, 8, 9)) for i, row in enumerate(rows)]
        write_rows(folder / CHAT, spoken[::-1])
        step = make_finished_step(Entry("generate", "0" * 64, folder, {DATA: "0", CHAT: "1"}, {}), executor)
        return TextRows("model", step, DATA, tokenizer, step if chat else None)

    return make


@pytest.fixture
def make_table(tmp_path, executor):
    """Make the features of a run with other models."""

    def make(**change: Any) -> FeatureTable:
        made = settings(tmp_path, "runtime.feature_batch_size=2", "runtime.progress=false", "runtime.device=cpu")
        request = open_request(made, executor)
        return FeatureTable(replace(request, models=replace(request.models, **change)), executor)

    return make


@pytest.fixture
def read(tmp_path, make_table):
    """Make a text_pass of rows; return its folder."""
    features = make_table(scorer=SPEC, embedder=EMBEDDER)

    def make(rows: TextRows, options: ScoringOptions = TAIL, **outputs: Any) -> Path:
        step = features._declare_pass(rows, features._make_pass(rows, SPEC, options, **outputs))
        return features.executor.get(step).path

    return make


def test_what_is_read_of_the_rows_themselves(source, executor, make_table):
    rows, features = source(), make_table()
    path, tokenizer = executor.locate(rows), executor.session.tokenizer(SPEC)
    file = RowFile(path)
    assert list(file.iterate_texts("continuation")) == [text for _, _, text in TEXTS]
    assert next(file.iterate_texts(WHOLE)) == "Return the number of rows."
    assert file.load_tokens("continuation")[0].tolist() == [3, 4, 5]
    assert file.load_tokens(WHOLE)[0].tolist() == [1, 2, 3, 4, 5]
    words = Need("tokens", by="words", scope=WHOLE)
    assert features.declare([(rows, [words])]) == []
    assert [len(ids) for ids in load_side(features, rows, words)[words]] == [5, 6, 2]
    decoded = [tokenizer.decode(ids.tolist()) for ids in features.reader.tokenize(SPEC, path, TAIL)]
    assert decoded == [text for _, _, text in TEXTS]
    whole = features.reader.tokenize(SPEC, path, ScoringOptions(scope=WHOLE))
    assert [tokenizer.decode(ids.tolist()) for ids in whole] == [prompt + text for _, prompt, text in TEXTS]


def test_reports_read_what_was_read_of_the_human_side_and_not_of_its_references(source, make_table):
    rows, features = source(), make_table(scorer=SPEC, embedder=EMBEDDER)
    text_pass = features._make_pass(rows, SPEC, TAIL, losses=True)
    steps = [features._declare_pass(each, text_pass) for each in (rows, replace(rows, file=REFERENCE_ROWS))]
    assert [dict(step.gives) for step in steps] == [{"losses": "continuation"}, {}]


def test_the_prompt_is_scored_and_embedded_where_the_scope_says_so(source, read):
    rows, scopes = source(), ("continuation", WHOLE)
    tail, whole = (load_ragged(read(rows, ScoringOptions(scope=scope), losses=True), "nll_") for scope in scopes)
    assert (whole.lengths - tail.lengths).tolist() == [1, 2, 0]  # the first token of a text has no score
    np.testing.assert_allclose(whole[0][-len(tail[0]) :], tail[0], rtol=1e-5)
    alone, after = (
        load_array(read(rows, ScoringOptions(scope=scope), embedder=EMBEDDER, vector_scope=scope) / "embeddings.npy")
        for scope in scopes
    )
    assert not np.allclose(alone, after, atol=1e-3)
    both = read(rows, losses=True, ranks=True, embedder=EMBEDDER)
    assert (load_ragged(both, "nll_").values == tail.values).all()
    assert load_ragged(both, "rank_").values.dtype == np.int64
    np.testing.assert_allclose(load_array(both / "embeddings.npy"), after, rtol=1e-4, atol=1e-5)


def test_q_is_read_on_the_ids_that_the_rows_hold(tmp_path, source, executor, make_table):
    reader: TextReader = make_table().reader
    generator = Generator(SPEC, Nucleus(p=0.9), 1, None)
    facts = reader.write_q(tmp_path, {"rows": executor.locate(source())}, generator, 1, "", entropy=False)
    got = load_next_token(tmp_path)
    assert facts["n"] == 3
    prompts, tails = ragged([[1, 2]] * 3), ragged([[3, 4, 5], [3, 4, 5, 6], [3, 4, 5, 6, 7]])
    lm = reader.session.model(SPEC, reader.runtime)
    (expected,) = lm.q_statistics(q_request(prompts, tails, [Nucleus(p=0.9)], min_new_tokens=1, batch_size=2))
    assert got.gold.tolist() == tails.values.tolist()
    assert [ids.tolist() for ids in got.context] == [[1, 2]] * 3
    np.testing.assert_allclose(got.gold_prob, expected.gold_prob, rtol=1e-5)  # rows of another batch: float noise
    assert (got.support == expected.support).all()


def test_the_rows_ids_are_kept_where_the_tokenizer_is_theirs_and_that_is_in_the_key(source, read, make_table):
    own, other = source(tokenizer=SPEC), source()
    kept, made = (load_ragged(read(rows, losses=True), "nll_") for rows in (own, other))
    assert kept.lengths.tolist() == [3, 4, 5]
    features = make_table()
    assert made.lengths.tolist() == features.reader.tokenize(SPEC, features.executor.locate(own), TAIL).lengths.tolist()
    for options, stored in ((TAIL, True), (replace(TAIL, retokenize=True), False)):
        text_pass = features._make_pass(own, SPEC, options, losses=True)
        assert text_pass.facts()["stored_ids"] is stored
        need = Need("gradients", by="scorer", options=(("size", 8), ("retokenize", options.retokenize)))
        gradients = features._declare_gradients(own, need)
        assert gradients.content.spec["stored_ids"] is stored
    assert not TextPass(model=SPEC, options=TAIL, stored_ids=False, embedder=EMBEDDER).facts()["stored_ids"]


def copy_model(folder: Path, **changed: Any) -> str:
    """Copy the bundled model with its tokenizer.json written in another way; return what selects it."""
    (folder / "copy").mkdir(exist_ok=True)
    for path in SPEC.folder.iterdir():
        shutil.copy(path, folder / "copy" / path.name)
    path = folder / "copy" / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed, indent=3))
    return f"model.path={folder / 'copy'}"


@pytest.mark.parametrize("changed", [{}, {"normalizer": {"type": "NFC"}}])
def test_a_value_does_not_depend_on_what_the_store_had(tmp_path, changed):
    """Texts of a model with another tokenizer are tokenized again; one that is only written otherwise is the same."""
    words = (*ONE_MODEL, "decoder=ancestral", "metric=[gen_ppl,mauve,zipf]", "intervals=0", "num_examples=8")
    clean, used = (tmp_path / "clean", tmp_path / "used")
    for folder in (clean, used):
        folder.mkdir()
    _, alone = measure_rows(clean, *words)
    _, before = measure_rows(used, *words, copy_model(tmp_path, **changed))
    _, after = measure_rows(used, *words)
    for metric in ("gen_ppl", "mauve", "zipf"):
        key = ("model", metric)
        assert after[key].values == alone[key].values
        assert after[key].signature == alone[key].signature
        assert before[key].notes == after[key].notes + (("computed on re-tokenized text",) if changed else ())
        assert (before[key].artifact == after[key].artifact) == (not changed)
    same = [before[key].values == after[key].values for key in before]
    assert all(same) == (not changed)


def test_the_end_tokens_are_in_the_keys(tmp_path, source, make_table):
    """Two models of one tokenizer whose configs name different ends of a text."""
    rows, need = source(), Need("end_tokens", by="scorer")
    copy_model(tmp_path)
    config = tmp_path / "copy" / "config.json"
    config.write_text(config.read_text().replace('"eos_token_id": 0', '"eos_token_id": 5'))
    found = []
    for spec in (SPEC, ModelSpec(path=str(tmp_path / "copy"))):
        features = make_table(scorer=spec)
        features.declare([(rows, [need])])
        _, content = features.list_inputs("model", rows, [need]).values()
        found.append((features.executor.digest(content), load_side(features, rows, need).data[need].tolist()))
    assert found[0][0] != found[1][0]
    assert [ends for _, ends in found] == [[0], [5]]


def test_a_model_under_test_reads_its_chat_prompts_by_name(source, executor, make_table):
    chats, reader = replace(SPEC, chat_template=True), make_table().reader
    own = source(tokenizer=chats, chat=True)
    rows, chat = executor.locate(own), executor.get(own.chat).path / CHAT
    prompts, texts = reader._read_ids(
        {"rows": rows, "chat": chat}, TextPass(model=chats, options=TAIL, stored_ids=True)
    )
    assert [ids.tolist() for ids in prompts] == [[7, 8, 9], [8, 8, 9], [9, 8, 9]]
    assert texts.lengths.tolist() == [3, 4, 5]


VECTORS = Need("embeddings", by="embedder")


@pytest.fixture
def with_vectors(tmp_path):
    """Make the settings of two files of loose texts with the user's own vectors."""
    for name, n in (("h", 6), ("m", 5)):
        write_jsonl(tmp_path / f"{name}.jsonl", ({"text": f"{name} {i}"} for i in range(n)))
        np.save(tmp_path / f"{name}.npy", np.arange(n * 2, dtype=np.float64).reshape(n, 2))

    def make(*words):
        own = [f"features.human={tmp_path}/h.npy", f"features.model={tmp_path}/m.npy", "max_new_tokens=null"]
        files = ["task=texts", f"task.path={tmp_path}/h.jsonl", f"generations={tmp_path}/m.jsonl"]
        return settings(tmp_path, *files, "metric=[frechet]", "scorer=none", "num_examples=all", *own, *words)

    return make


def test_rows_of_user_vectors_follow_the_texts(tmp_path, with_vectors):
    for words, n in (((), (6, 5)), (("num_examples=2",), (2, 2))):
        texts = make_texts(with_vectors(*words), make_executor(tmp_path))
        rows = (texts.human_rows, texts.model_rows)
        texts.features.declare([(each, (VECTORS,)) for each in rows])
        for each, count in zip(rows, n, strict=True):
            rows_of_file = [[2 * i, 2 * i + 1] for i in range(count)]
            assert load_side(texts.features, each, VECTORS)[VECTORS].tolist() == rows_of_file


def test_a_plan_says_which_vectors_are_missing(tmp_path, with_vectors):
    (tmp_path / "m.npy").unlink()
    check_error(DataError, "features: no such file", make_texts, with_vectors(), make_executor(tmp_path))
    missing = plan(with_vectors(), open_session(tmp_path)).missing
    assert any("features: no such file" in str(err) for err in missing)


@cases(
    "array, message",
    (np.zeros((4, 2)), "4 rows for 5 texts"),
    (np.zeros((6, 2)), "6 rows for 5 texts"),
    (np.zeros(5), r"expected floats of shape \(texts, dimensions\), got float64 \(5,\)"),
    (np.zeros((5, 2), dtype=int), "got int64"),
    (np.array([[1.0, 2]] * 4 + [[np.nan, 0]]), "NaN or infinity in row 4, counted from 0"),
    (np.full((5, 2), 1e300), "NaN or infinity in row 0"),
    (b"\x93NUMPY\1\0\20\0{'descr': (((((((", "not a .npy file of plain numbers"),
    (np.zeros((5, 3)), r"number of dimensions, got 2 \(human\), 3 \(model\)"),
)
@pytest.mark.parametrize("needs", [(VECTORS,), ()], ids=["asked for", "not asked for"])
def test_vectors_that_do_not_fit_the_texts_are_refused(tmp_path, with_vectors, array, message, needs):
    if isinstance(array, bytes):
        (tmp_path / "m.npy").write_bytes(array)
    else:
        np.save(tmp_path / "m.npy", array)
    texts = make_texts(with_vectors(), make_executor(tmp_path))
    with pytest.raises(DataError, match=message):
        texts.features.declare([(texts.human_rows, needs), (texts.model_rows, needs)])


def test_equal_texts_keep_their_own_vectors(tmp_path, with_vectors):
    write_jsonl(tmp_path / "m.jsonl", ({"text": f"h {i}"} for i in range(6)))
    np.save(tmp_path / "m.npy", np.ones((6, 2)))
    texts = make_texts(with_vectors(), make_executor(tmp_path))
    rows = (texts.human_rows, texts.model_rows)
    texts.features.declare([(each, (VECTORS,)) for each in rows])
    sides = [load_side(texts.features, each, VECTORS)[VECTORS] for each in rows]
    assert [vectors[1].tolist() for vectors in sides] == [[2, 3], [1, 1]]
    assert not sides[0].flags.writeable


def test_vectors_of_both_sides_or_none_and_only_with_loose_texts(with_vectors):
    check_error(SpecError, "a file for human and one for model", with_vectors, "features.model=null")
    check_error(SpecError, "task=texts and generations=FILE", with_vectors, "generations=null")
