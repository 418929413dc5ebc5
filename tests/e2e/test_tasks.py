"""Every task from its file, small and in the official format, to a result; and runs that are never one system."""

import csv

import pytest

from openended.harness.core import read_json
from openended.harness.models.spec import list_bundled_models
from openended.harness.run import Session, run
from openended.harness.storage import RowFile, Store
from tests.helpers import run_settings, write_jsonl

pytestmark = pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there")
TEXT = "The quick brown fox jumps over the lazy dog, and then it sleeps for a while in the warm sun of the afternoon. "


def webtext(folder):
    rows = [{"id": i, "ended": True, "length": 40, "text": f"{i}. " + TEXT * 3} for i in range(6)]
    return [f"task.path={write_jsonl(folder / 'webtext.test.jsonl', rows)}", "task.prompt_length=8"]


def realnews(folder):
    rows = [
        {"article": TEXT, "domain": "a.org", "title": f"T{i}", "date": "April 5, 2019", "authors": "A", "summary": None,
         "label": label, "split": "test", "orig_split": "gen", "ind30k": i}
        for i in range(6) for label in ("human", "machine")
    ]  # fmt: skip
    return [f"task.path={write_jsonl(folder / 'grover.jsonl', rows)}"]


def writing_prompts(folder):
    (folder / "test.wp_source").write_text("[ WP ] It is late .\n" * 6)
    (folder / "test.wp_target").write_text("".join(f"{i} `` Hello , '' he said . <newline> {TEXT}\n" for i in range(6)))
    return [f"task.path={folder}", "task.prompt_length=8"]


def biographies(folder):
    rows = [{"title": f"P {i}", "content": f"{i} " + TEXT * 4} for i in range(6)]
    return [f"task.path={write_jsonl(folder / 'bio.jsonl', rows)}", "task.num_in_context=1", "task.min_words=20"]


def ag_news(folder):
    with (folder / "train.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows([[1 + i % 2, f"Title {i}", TEXT] for i in range(30)])
    return [f"task.path={folder / 'train.csv'}"]


def plain(folder):
    rows = [{"prompt": f"Number {i}:", "human": " " + TEXT} for i in range(6)]
    return [f"task.path={write_jsonl(folder / 'own.jsonl', rows)}"]


def hub(folder):
    (folder / "set").mkdir()
    write_jsonl(folder / "set" / "test.jsonl", [{"text": f"{i} " + TEXT} for i in range(6)])
    return [f"task.path={folder / 'set'}", "task.prompt_length=8"]


TASKS = {
    "webtext": webtext, "webtext_words": lambda f: webtext(f)[:1], "realnews": realnews, "jsonl": plain, "hub": hub,
    "writing_prompts": writing_prompts, "biographies": biographies, "ag_news": ag_news,
    "creative": lambda f: ["task.num_draws=8"],
}  # fmt: skip


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    return Session(Store(tmp_path_factory.mktemp("store")))


def settings(folder, *overrides):
    small = ["num_examples=4", "max_new_tokens=4", "metric=[distinct_n]", f"outputs_dir={folder / 'out'}"]
    return run_settings(*small, *overrides)


def make_record(made, session):
    return read_json(run(made, session).folder / "record.json")


def results(record):
    return {(r["system"], r["metric"]): r for r in record["results"]}


@pytest.mark.parametrize("task", TASKS)
def test_every_task_runs(task, tmp_path, session, monkeypatch):
    if task == "hub":
        datasets = pytest.importorskip("datasets")
        load = datasets.load_dataset
        datasets.disable_progress_bars()
        monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: load(*a, cache_dir=str(tmp_path / "hf"), **k))
    made = settings(tmp_path, f"task={task}", "model=docs-s", "decoder=greedy", *TASKS[task](tmp_path))
    found = results(make_record(made, session))
    assert found["model", "distinct_n"]["status"] == "ok"
    assert found["model", "distinct_n"]["n_model"] == 4


@pytest.mark.slow
def test_one_system_is_the_reference_of_another(tmp_path):
    """Instructions have no human texts: first one system by itself, then the other against it, by its run folder."""
    session = Session(Store(tmp_path / "out" / "store"))
    common = ["metric=[frechet,distinct_n]"]
    common += "task=creative scoring=docs-m task.num_draws=40 num_examples=8 max_new_tokens=8".split()
    first = run(settings(tmp_path, *common, "model=docs-s", "decoder=nucleus"), session).folder
    alone = results(read_json(first / "record.json"))
    assert alone["model", "distinct_n"]["status"] == "ok"
    assert alone["model", "frechet"]["status"] == "undefined"
    assert "has no human side" in alone["model", "frechet"]["notes"][0]
    assert "task.reference" in alone["model", "frechet"]["notes"][0]

    other = [*common, "num_examples=7", "model=docs-m", "decoder=nucleus"]
    record = make_record(settings(tmp_path, *other, f"task.reference={first}"), session)
    found = results(record)
    assert found["model", "frechet"]["status"] == "ok"
    assert found["model", "frechet"]["values"]["frechet"] > 0
    assert found["human", "distinct_n"]["n_model"] == 7
    assert any("no human text" in str(note) for note in record["notes"])

    # A file of texts with prompts says the same as the folder of the run that made them.
    inputs = read_json(first / "record.json")["inputs"]
    (name,) = (each["artifact"] for each in inputs if each["artifact"].startswith("generate/"))
    rows = RowFile(tmp_path / "out" / "store" / name / "data.arrow")
    lines = [{"prompt": p, "text": t} for p, t in zip(rows.prompts, rows.texts, strict=True)]
    path = write_jsonl(tmp_path / "texts.jsonl", lines)
    again = results(make_record(settings(tmp_path, *other, f"task.reference={path}"), session))
    assert again["model", "frechet"]["values"] == found["model", "frechet"]["values"]
