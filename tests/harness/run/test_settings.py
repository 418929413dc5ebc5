"""Settings: what they derive, what presets change, and what no run can be, refused in one line."""

import copy
import sys
from pathlib import Path

import pytest

from openended.harness.app.commands.score import convert_preset
from openended.harness.core import DataError, SpecError, list_bundled_choices, load_members, read_node
from openended.harness.models import ModelSpec, load_tokenizer
from openended.harness.run.settings import _apply_preset, read_preset
from openended.harness.run.steps import digest_model
from tests.harness.run.small import make_dataset, make_executor, settings
from tests.helpers import cases, change_settings, check_error, openended, run_process, run_settings, write_file

OWN = ("task=jsonl", "task.path=x.jsonl")


@cases("word", "metric=null", "embedder=null", "scorer=null", "experiment=null", f"seed={'9' * 5000}")
def test_what_may_be_null_is_planned_or_refused_in_one_line(word, tmp_path):
    done = openended(word, "plan_only=true", "num_examples=2", cwd=tmp_path, verbose=False)
    assert done.returncode in (0, 2)
    assert done.stderr.count("\n") <= 1
    assert len(done.stderr) < 2000


@pytest.mark.slow
def test_a_terminal_of_ascii_alone_is_written_to(tmp_path):
    words = (sys.executable, "-m", "openended.harness", "plan_only=true", "num_examples=2", "model.label='é→'")
    assert run_process(*words, cwd=tmp_path, PYTHONIOENCODING="ascii", LC_ALL="C").stdout.isascii()


def test_texts_of_a_file_have_no_model_and_no_decoder(tmp_path):
    chosen = settings(tmp_path, "model=docs-s", "samples=3")
    texts, tokenizer = chosen.texts, chosen.models.row_tokenizer
    assert (texts.num_planned, texts.num_model_texts, tokenizer.path) == (8, 24, "bundled:docs-s")
    imported = settings(tmp_path, "model=docs-s", "samples=3", "generations=texts.jsonl")
    assert (imported.models.model, imported.decoder) == (None, None)
    assert (imported.texts.num_model_texts, imported.models.row_tokenizer.path) == (8, "bundled:docs-m")
    everything = change_settings(chosen, num_examples="all").texts
    assert (everything.num_planned, everything.num_model_texts) == (0, 0)


def test_tokens_are_the_scorers_else_those_of_the_model_else_words(tmp_path):
    chosen = settings(tmp_path, "model=docs-s")
    assert chosen.models.counter.path == "bundled:docs-m"
    unscored = change_settings(chosen, scorer=None)
    assert unscored.models.counter.path == "bundled:docs-s"
    words = change_settings(unscored, generations="perturbation:none", model=None, decoder=None)
    assert words.models.counter is None
    assert make_dataset(words, make_executor(tmp_path, plan_only=True))[1].tokenizer is None


def test_settings_touch_no_file_and_a_digest_says_what_is_missing(tmp_path):
    lost = change_settings(settings(tmp_path), model=ModelSpec(path=str(tmp_path / "lost")))
    assert lost.models.row_tokenizer == lost.models.model
    for act in (lambda: make_dataset(lost, make_executor(tmp_path)), lambda: digest_model(lost.models.model)):
        check_error(DataError, "lost", act)


@cases(
    "words, found",
    ((), ("docs-m", "docs-m")), (("model=gpt2",), ("docs-m", "docs-m")), (OWN, (None, None)),
    (("task=webtext",), (None, None)), ((*OWN, "scorer=gpt2-large"), ("gpt2-large", None)),
    ((*OWN, "scoring=gpt2-large"), ("gpt2-large", "gpt2-large")), ((*OWN, "scoring=gpt2"), ("gpt2", "gpt2")),
    ((*OWN, "scoring=docs-m"), ("docs-m", "docs-m")), (("scoring=none",), (None, None)),
    ((*OWN, "scoring=gpt2-large", "scorer=docs-m"), ("docs-m", "gpt2-large")),
    (("experiment=webtext_nucleus",), ("gpt2-large", "gpt2-large")),
    (("experiment=webtext_nucleus", "scoring=gpt2"), ("gpt2", "gpt2")),
    (("experiment=mauve_table3_docs",), ("docs-m", "docs-m")), (("experiment=quickstart",), ("docs-m", "docs-m")),
)  # fmt: skip
def test_the_bundled_models_score_their_own_domain_alone(words, found):
    made = run_settings(*words).models
    assert (made.scorer and made.scorer.title, made.embedder and made.embedder.title) == found


def test_a_preset_sets_options_of_the_metrics_there_are_and_keeps_what_the_user_set():
    given = {
        "metric": copy.deepcopy({**read_node("metric", "gen_ppl"), **read_node("metric", "zipf")}),
        "embedder": None,
        "compat": dict(read_node("compat", "mdlm")),
    }
    given["metric"]["gen_ppl"]["average"] = "macro"
    applied = _apply_preset(given)
    assert set(applied) == {"metric", "embedder"}
    assert applied["metric"]["gen_ppl"]["end_tokens"] == "first"
    assert applied["metric"]["gen_ppl"]["average"] == "macro"
    assert applied["metric"]["zipf"] == given["metric"]["zipf"]
    assert applied["embedder"] is None
    for length, kept in ((None, 1024), (64, 64)):
        assert _apply_preset({**given, "embedder": {"max_length": length}})["embedder"]["max_length"] == kept
    assert _apply_preset({"metric": given["metric"], "compat": {}})["metric"] is given["metric"]


@pytest.mark.parametrize("name", list_bundled_choices("compat"))
def test_the_options_of_every_preset_are_accepted(name):
    for metric, options in read_preset(name).get("metric", {}).items():
        load_members("metric")[metric](**options)


def test_a_protocol_names_itself_in_the_signature_of_metrics_that_have_its_options():
    made = run_settings("compat=mauve2021", "metric=[mauve,repetition,zipf]", "metric.zipf.max_rank=100")
    assert (made.protocol, made.texts.num_examples) == ("mauve2021", 5000)
    assert run_settings("compat=pr2024", "num_examples=500").texts.num_examples == 500
    assert run_settings("compat=mdlm").protocol is None
    by_name = {metric.name: metric for metric in made.metrics}
    assert (by_name["repetition"].loop, by_name["mauve"].unit_norm) == ("two_copies", "after_pca")
    (of_code,) = run_settings("compat=mauve2021_code", "metric=[zipf]").metrics
    assert (by_name["zipf"].definition, of_code.definition) == ("degen", "log_thinned")


def test_a_word_of_the_score_command_is_a_preset_unless_it_is_a_file(tmp_path):
    assert convert_preset(["a.jsonl", "compat=mdlm"]) == ["a.jsonl", "--compat=mdlm"]
    assert convert_preset(["a.jsonl", "--compat", "sedd"]) == ["a.jsonl", "--compat", "sedd"]
    file = write_file(tmp_path / "texts.jsonl", "{}")
    assert convert_preset([f"compat={file}"]) == [f"compat={file}"]


def test_files_outside_the_working_directory_are_listed_once(tmp_path, monkeypatch):
    chosen = settings(tmp_path, "metric=[novelty]", f"metric.novelty.corpus={tmp_path}/own.jsonl", "model.path=/")
    assert chosen.list_outside_paths({}) == sorted([Path("/"), (tmp_path / "own.jsonl").resolve()])
    monkeypatch.chdir(tmp_path)
    assert chosen.list_outside_paths({}) == [Path("/")]


def test_a_length_in_words_is_measured_in_the_models_tokens(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"prompt": "one two", "human": " three four five six seven eight"}\n')
    words = ["task=jsonl", f"task.path={tmp_path / 't.jsonl'}", "model=docs-s", "max_new_tokens=4w"]
    built = settings(tmp_path, *words)
    spec = built.models.model
    tokens = len(load_tokenizer(spec).encode("one two three four five six seven eight"))
    assert built.texts.max_new_tokens == round(4 * tokens / 8)
    with pytest.raises(
        SpecError, match="max_new_tokens: expected a number of tokens, or of words as 330w, or null, got '4 w'"
    ):
        settings(tmp_path, *words[:-1], "max_new_tokens='4 w'")
