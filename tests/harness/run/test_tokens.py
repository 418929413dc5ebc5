"""Models of several tokenizers: one human side, texts of equal length, one table."""

from functools import cache

import pytest

from openended.harness.core import Generation, SpecError, parse_signature
from openended.harness.models import LengthLimit, ModelSpec, load_tokenizer
from openended.harness.models.tokenizer import cut_continuation
from openended.harness.report.build import build_report
from openended.harness.results import read_results
from openended.harness.run.generate import cut_generation, list_own_lengths
from openended.harness.storage import Row, RowFile
from tests.harness.run.small import measured, settings
from tests.helpers import openended, tiny_model, write_jsonl


@cache
def words_of(path):
    return load_tokenizer(ModelSpec(path=path))


@pytest.fixture(scope="module")
def bytes_model(tmp_path_factory):
    """Return a model with a token per byte, which is one of several models that nobody confuses with docs-s."""
    return tiny_model(tmp_path_factory.mktemp("models") / "bytes", positions=512)


def write_texts(folder):
    text = "The naïve committee reported that the river had risen, and every bridge of the county was closed at once. "
    return write_jsonl(folder / "own.jsonl", [{"text": f"{n} {text * 4}"} for n in range(12)])


def test_a_text_is_cut_in_the_tokens_of_another_tokenizer():
    other, own = words_of("bundled:docs-s"), None
    text = " the quick naïve fox returns 日本語 an array of shape (n, 3)"
    whole = other.encode(text)
    for most in range(1, len(whole) + 2):
        cut = LengthLimit(most, tokenizer=other).cut("A prompt", text)
        assert text.startswith(cut)
        assert most - 3 <= len(other.encode(cut)) <= most or cut == text
    assert cut_continuation(own, "A prompt", (), text, (), LengthLimit(3, tokenizer=other))[2]


def test_the_ids_of_a_cut_text_are_the_fewest_that_contain_it(bytes_model):
    own, other = words_of(str(bytes_model)), words_of("bundled:docs-s")
    text = " raise an error if the naïve number is too large."
    for most in (1, 4, 7):
        limit = LengthLimit(most, tokenizer=other)
        row = Row("p", tuple(own.encode("p")), Generation("1", 0, text, tuple(own.encode(text)), "length", -1.0))
        cut = cut_generation(own, limit, row, is_last=False)
        assert cut.generation.token_ids == tuple(own.encode(cut.generation.text)), "a token per byte covers no more"
        assert (cut.generation.stop, cut.generation.text) == ("length", limit.cut("p", text))
    short = LengthLimit(400, tokenizer=other)
    assert cut_generation(own, short, row, is_last=False) is None, "asked for again, with more tokens"
    assert cut_generation(own, short, row, is_last=True) == row


def test_a_model_is_asked_for_more_tokens_until_its_context_ends(bytes_model):
    own, other = words_of(str(bytes_model)), words_of("bundled:docs-s")
    lengths = list_own_lengths(16, own, other, 512, 40)
    assert lengths[0] > 3 * 16, "a token of words has several bytes"
    assert lengths[-1] == 8 * 16
    assert lengths == sorted(set(lengths))
    assert list_own_lengths(16, own, other, 90, 40)[-1] == 50


def test_a_grid_of_two_tokenizers_is_one_table(tmp_path, bytes_model):
    path = write_texts(tmp_path)
    shared = ["task=webtext", f"task.path={path}", "task.prompt_length=5", "num_examples=4", "max_new_tokens=8"]
    shared += ["scorer.path=bundled:docs-m", "scorer=docs-m", "metric=[length,distinct_n]", "embedder=none"]
    models = f"model.path=bundled:docs-s,{bytes_model}"
    done = openended("-m", "model=folder", models, "decoder=greedy,ancestral", *shared, "name=two", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    note = "2 tokenizers: prompts, human texts and generated texts are cut in the tokens of the scorer docs-m"
    assert note in done.stderr.splitlines()[0], "before the first job"
    (table,) = (tmp_path / "outputs/reports/two/tables").glob("*.md")
    rows = [line for line in table.read_text().splitlines() if line.startswith("|")]
    labels = [row.split("|")[1].strip() for row in rows[2:]]
    assert labels == ["*human*", "docs-s greedy", "docs-s ancestral", "bytes greedy", "bytes ancestral"], "as typed"
    results = read_results([tmp_path / "outputs/runs"])
    humans = [value for value in results.values if value.system == "human" and value.key == "length"]
    assert [human.mean for human in humans] == [8.0]
    fields = {parse_signature(value.signature)["length"] for value in results.values}
    assert len(fields) == 1
    assert fields.pop().startswith("8 tokens@")
    texts = {run.axes["model"]: run for run in results.runs if run.axes["decoder"] == "ancestral"}
    other = words_of("bundled:docs-m")
    for run in texts.values():
        rows = RowFile(run.store.joinpath(*run.find_rows("model")))
        counts = {text: len(other.encode(text)) for text in rows.each("text")}
        assert max(counts.values()) <= 8, counts
    # A run made alone is comparable where it names the tokenizer, and finds the texts of the grid.
    alone = ["model=folder", f"model.path={bytes_model}", "decoder=greedy", "task.tokens=bundled:docs-m"]
    done = openended(*alone, *shared, cwd=tmp_path, code=0)
    both = build_report([tmp_path / "outputs/runs"], tmp_path / "both", page=False, figures=False, layout="default")
    assert len(both.tables) == 1


def test_without_the_option_separate_runs_are_titled_in_words(tmp_path, bytes_model):
    path = write_texts(tmp_path)
    words = [f"task.path={path}", "task=webtext", "task.prompt_length=5", "num_examples=3", "max_new_tokens=6"]
    for model in ("bundled:docs-s", str(bytes_model)):
        measured(tmp_path, *words, "model=folder", f"model.path={model}", "metric=[length]", "scoring=docs-m")
    report = build_report([tmp_path / "out/runs"], tmp_path / "report", page=False, figures=False, layout="default")
    titles = sorted(table.title for table in report.tables)
    assert titles == [
        "Results on webtext, model=bytes, task.tokens=bytes", "Results on webtext, model=docs-s, task.tokens=docs-s"
    ]  # fmt: skip
    labels = [row.label for table in report.tables for row in table.rows if row.label != "human"]
    assert labels == ["bytes greedy", "docs-s greedy"]


def test_the_option_names_a_tokenizer(tmp_path):
    with pytest.raises(SpecError, match=r"task.tokens: expected .*, got 'docs s'"):
        settings(tmp_path, "task.tokens='docs s'").models
    named = settings(tmp_path, "task.tokens=owner/name@abc").models.tokens
    assert (named.path, named.revision) == ("owner/name", "abc")
    spec = settings(tmp_path, "task.tokens=bundled:docs-m").describe()
    assert spec["models"]["tokens"]["path"] == "bundled:docs-m"


def test_a_scorer_outside_the_working_directory_keeps_the_report(tmp_path, bytes_model):
    path = write_texts(tmp_path)
    words = ["task=webtext", f"task.path={path}", "task.prompt_length=5", "num_examples=3", "max_new_tokens=6"]
    words += ["model=docs-s", "scorer=docs-m", f"scorer.path={bytes_model}", "embedder=none", "metric=[gen_ppl]"]
    openended(*words, "decoder=greedy", cwd=tmp_path, code=0)
    (page,) = (tmp_path / "outputs").rglob("report.html")
    assert "0 The na" in page.read_text()
