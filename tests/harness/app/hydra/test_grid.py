"""The jobs of a grid: how many, in which order, and whether they can run."""

import importlib.util

from openended.harness.app.hydra import check_grid
from openended.harness.app.hydra.command_line import parse_command_line
from openended.harness.app.hydra.compose import Composer
from openended.harness.app.hydra.grid import count_values, find_axes, list_jobs
from openended.harness.core import DataError
from tests.helpers import cases, check_error, openended

SIZES = ["num_examples=8", "max_new_tokens=4"]
SMALL = [*SIZES, "metric=[distinct_n]"]


def jobs_of(sweeper, *words):
    from omegaconf import OmegaConf

    return list_jobs(Composer(), OmegaConf.create({"hydra": {"sweeper": sweeper, "overrides": {"task": list(words)}}}))


def test_grids_are_joined_each_over_the_shared_axes():
    grids = [{"decoder": "greedy"}, {"decoder": "nucleus", "decoder.p": "0.9,0.95"}]
    jobs = jobs_of({"params": {"seed": "0,1"}, "grids": grids}, "num_examples=8")
    assert jobs == [
        ["seed=0", "decoder=greedy", "num_examples=8"],
        ["seed=1", "decoder=greedy", "num_examples=8"],
        ["seed=0", "decoder=nucleus", "decoder.p=0.9", "num_examples=8"],
        ["seed=0", "decoder=nucleus", "decoder.p=0.95", "num_examples=8"],
        ["seed=1", "decoder=nucleus", "decoder.p=0.9", "num_examples=8"],
        ["seed=1", "decoder=nucleus", "decoder.p=0.95", "num_examples=8"],
    ]
    assert find_axes(jobs) == {"seed": 2, "decoder": 2, "decoder.p": 2}


@cases(
    "params, words, jobs",
    ({"seed": "0,1,2"}, ["seed=7"], [["seed=7"]]),  # the command line takes precedence
    ({"seed": "0,1", "generations": None}, [], [["seed=0"], ["seed=1"]]),
    ({"model.label": "'${model.path}'"}, [], [["model.label='${model.path}'"]]),
)
def test_axes_and_the_command_line(params, words, jobs):
    assert jobs_of({"params": params}, *words) == jobs


def test_the_jobs_of_one_model_are_neighbours():
    grids = [{"model": "a,b", "decoder": "greedy"}, {"model": "b,a", "decoder": "nucleus", "decoder.p": "0.9"}]
    jobs = jobs_of({"params": {"seed": "0,1"}, "grids": grids})
    assert [job[1] for job in jobs] == ["model=a"] * 4 + ["model=b"] * 4
    assert [job[0] for job in jobs] == ["seed=0", "seed=1"] * 4


def test_a_typed_value_keeps_the_options_that_the_grids_pair_it_with(caplog):
    grids = [{"decoder": "greedy", "n": "1"}, {"decoder": "nucleus,top_k", "n": "2"}, {"generations": "reference"}]
    two = [["decoder=nucleus", "n=2"], ["generations=reference"]]
    assert jobs_of({"grids": grids}, "decoder=nucleus") == two
    assert jobs_of({"grids": grids}, "decoder=nucleus,greedy") == [["decoder=greedy", "n=1"], *two]
    caplog.set_level("INFO")
    assert jobs_of({"grids": grids[:2]}, "decoder=typical") == [["decoder=typical", "n=1"], ["decoder=typical", "n=2"]]
    replaced = "decoder=typical: not in the experiment, so it replaces greedy, nucleus, top_k next to each of its n"
    assert replaced in caplog.text


def series(*words):
    composer = Composer(parse_command_line(["experiment=paper_docs", *words]))
    return list_jobs(composer, composer.compose_command())


def test_a_series_has_the_jobs_of_each_experiment_and_no_others():
    jobs = series("hydra.sweeper.experiments=[mauve_fig8_k,huse_fig5]", "seed=5", "name=mine")
    chosen = [word for job in jobs for word in job if word.startswith("experiment=")]
    assert chosen == ["experiment=mauve_fig8_k_docs"] * 6 + ["experiment=huse_fig5_docs"] * 4
    assert all("seed=5" in job for job in jobs)
    assert {word for job in jobs for word in job if word.startswith("decoder.k=")} >= {"decoder.k=2", "decoder.k=4096"}
    assert [job[-1] for job in jobs] == ["name=mine-mauve_fig8_k_docs"] * 6 + ["name=mine-huse_fig5_docs"] * 4

    check_error(Exception, "mauve_table33_docs", series, "hydra.sweeper.experiments=[mauve_table33]")


def test_a_series_leaves_out_the_experiments_that_cannot_run(monkeypatch, caplog):
    def find_missing(job, *_):
        return DataError("no such file") if "experiment=zipf_docs" in job.overrides else None

    monkeypatch.setattr(check_grid, "_find_missing", find_missing)
    line = ["experiment=paper_docs", "hydra.sweeper.experiments=[zipf,mauve_fig8_k]", "seed=0", "num_examples=6"]
    composer = Composer(parse_command_line(line))
    config = composer.compose_command()
    jobs = check_grid.check_series(composer, config, list_jobs(composer, config))
    assert {job.settings.experiment for job in jobs} == {"mauve_fig8_k_docs"}
    assert len(jobs) == 6
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("left out   zipf_docs: ")
    assert "no such file" in line


def test_options_of_a_metric_that_is_left_out_have_no_effect(caplog):
    caplog.set_level("INFO")
    composer = Composer(parse_command_line(["experiment=human_study_docs", "metric=[mauve]"]))
    jobs = list_jobs(composer, composer.compose_command())
    assert not any(word.startswith("metric.") for job in jobs for word in job)
    settings = [composer.compose_job(job).settings for job in jobs]
    assert {tuple(m.name for m in s.metrics) for s in settings} == {("mauve",)}
    assert {s.judgments.file for s in settings} == {None}
    left_out = "metric.bradley_terry.system, metric.huse.system: no effect, because metric=[…] leaves the metric out"
    assert f"grid       {left_out}" in caplog.text


def test_a_task_without_its_files_is_left_out_where_the_parts_of_an_experiment_are_its_tasks(monkeypatch, caplog):
    def find_missing(job, *_):
        return DataError("no such file") if "task=docs_topics" in job.overrides else None

    monkeypatch.setattr(check_grid, "_find_missing", find_missing)
    composer = Composer(parse_command_line(["experiment=mauve_table5_docs", "judgments=mine.csv", "num_examples=6"]))
    config = composer.compose_command()
    planned = list_jobs(composer, config)
    assert {"judgments=null" in job for job in planned if "task=docs_topics" in job} == {True}, "nobody rated them"
    jobs = check_grid.check_series(composer, config, planned)
    assert {job.settings.task.name for job in jobs} == {"docs"}
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("left out   task=docs_topics: 4 of 4 jobs")


def test_each_of_the_six_embedders_of_a_table_has_its_own_revision_and_label():
    composer = Composer(parse_command_line(["experiment=pr_tableb1", "task.path=lives.jsonl"]))
    jobs = list_jobs(composer, composer.compose_command())
    embedders = {composer.compose_job(job).settings.models.embedder for job in jobs}
    named = {embedder.path.rpartition("/")[2]: (embedder.revision, embedder.title) for embedder in embedders}
    own = {"gpt2-xl", "opt-1.3b", "gemma-2b", "bart-large"}
    assert {named[name] for name in own} == {(None, name) for name in own}
    assert len({revision for revision, _ in named.values()} - {None}) == 2, "GPT-2 large and RoBERTa are pinned"


@cases("word, count", ("seed=0,1,2", 3), ("seed=range(0,10)", 10), ("p=range(0,1,0.3)", 4), ("p=range(10,0,-2)", 5))
def test_values_of_an_axis_are_counted_without_a_list(word, count):
    (override,) = Composer().parser.parse_overrides([word])
    assert count_values(override) == count == len(list(override.sweep_string_iterator()))


@cases(
    "words, message",
    (
        ["hydra/launcher=joblib", "model=docs-s,gpt2-xl", "seed=0,1,2"],
        "3 of 6 jobs cannot run, so none was started: model openai-community/gpt2-xl: not in",
    ),
    (["task=jsonl", "task.path=lost.jsonl", "decoder=greedy,nucleus", "seed=0,1"], "4 of 4 jobs cannot run"),
    (["embedder=sentence", "seed=0,1", "metric=[mauve]"], "sentence_transformers is not installed"),
)
def test_what_a_grid_lacks_is_one_line_before_its_first_job(words, message, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    absent = "sentence_transformers"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == absent else find(name))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    done = openended("-m", *SIZES, *words, cwd=tmp_path, verbose=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert message in done.stderr
    if "gpt2-xl" in message:
        assert "hf download openai-community/gpt2-xl" in done.stderr
        planned = openended("-m", *SIZES, *words, "plan_only=true", cwd=tmp_path, verbose=False, code=0)
        assert "the tokenizer of openai-community/gpt2-xl is not on this machine" in planned.stderr
    assert not (tmp_path / "outputs/grids").exists()


def test_axes_of_a_model_are_left_out_where_the_texts_come_from_a_file(caplog):
    composer = Composer(parse_command_line(["experiment=dlm_owt", "using=docs", "generations=x.jsonl"]))
    with caplog.at_level("INFO"):
        (job,) = list_jobs(composer, composer.compose_command())
    assert "generations=x.jsonl" in job
    assert "the axes decoder.temperature, model, decoder, decoder.steps have no effect" in caplog.text
