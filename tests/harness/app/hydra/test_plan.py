"""A plan of a whole grid: one table, and the same for programs."""

import json

import pytest

from openended.harness.app import cli
from tests.helpers import exit_code

SMALL = ["num_examples=8", "max_new_tokens=4", "metric=[distinct_n,gen_ppl,mauve]"]


@pytest.fixture
def away(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


@pytest.mark.long
def test_a_hundred_and_forty_jobs_of_a_paper_are_one_short_table(away, capsys, monkeypatch):
    # Only here: the corpus of the docs task, which takes a minute to make, is shared by the other tests.
    monkeypatch.setenv("OPENENDED_CACHE", str(away / "cache"))
    assert exit_code(cli.main, "experiment=mauve_fig8_p", "plan_only=true") == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert len(lines) <= 60
    assert lines[0] == "jobs       140"
    assert "generate   700,000 texts, at most 692,300,000 tokens" in lines
    assert sum(line.startswith("  hf download openai-community/gpt2-xl --revision ") for line in lines) == 1
    assert sum(line.startswith("  curl -fL ") and "webtext.test.jsonl" in line for line in lines) == 1
    assert any(line.startswith("  openai-community/gpt2-xl: model; 1,600 M parameters, 6.4 GB") for line in lines)
    assert any(line.startswith("time       unknown") for line in lines)
    assert not list(away.iterdir()), "a plan writes nothing"


def test_the_same_for_programs(away, capsys):
    words = ["-m", "seed=0,1", "decoder=greedy,nucleus", "--json", *SMALL]
    assert exit_code(cli.main, *words) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["jobs"] == 4
    assert plan["texts_to_generate"] == 3 * 8, "greedy does not read the seed"
    assert plan["tokens_to_generate"] == 3 * 8 * 4
    assert {model["path"]: model["here"] for model in plan["models"]} == {
        "bundled:docs-s": True,
        "bundled:docs-m": True,
    }
    assert plan["missing"] == []
    assert (plan["seconds"], plan["seconds_are"]) == (None, "unknown")


@pytest.mark.slow
def test_after_the_runs_all_is_found_and_rates_are_measured(away, capsys):
    grid = ["-m", "seed=0,1", "decoder=nucleus", *SMALL]
    assert exit_code(cli.main, *grid, "-q") == 0
    capsys.readouterr()
    assert exit_code(cli.main, *grid, "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["steps"]["make"], plan["steps"]["waits"], plan["tokens_to_generate"]) == (0, 0, 0)
    assert exit_code(cli.main, "-m", "seed=0,1,2", "decoder=nucleus", *SMALL, "--json") == 0
    more = json.loads(capsys.readouterr().out)
    assert more["texts_to_generate"] == 8
    assert more["seconds_are"] == "measured"
    assert more["seconds"] > 0


def test_a_plan_names_the_hosts_that_get_texts_and_the_files_outside(away, capsys, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "human.jsonl"
    outside.write_text('{"prompt": "a", "human": "b"}\n')
    (away / "here.jsonl").write_text('{"prompt": "a", "human": "b"}\n')
    (away / "link.jsonl").symlink_to(outside)
    server = ["model=openai", "model.path=m", "model.base_url=http://127.0.0.1:1", "model.api_key_env=KEY_OF_MINE"]
    tracker = ["tracker=mlflow", "tracker.uri=http://127.0.0.1:2"]
    words = [*server, *tracker, "task=jsonl", "num_examples=1", "metric=[zipf]", "--json", "decoder=greedy"]
    for name, listed in (("here.jsonl", []), ("link.jsonl", [str(outside)])):
        assert exit_code(cli.main, *words, f"task.path={name}") == 0
        plan = json.loads(capsys.readouterr().out)
        assert plan["hosts"] == {
            "http://127.0.0.1:1": "texts and the key in KEY_OF_MINE (model)",
            "http://127.0.0.1:2": "results and the key of your login (mlflow)",
        }
        assert plan["files_outside"] == listed


def test_one_run_lists_its_steps_too(away, capsys):
    assert exit_code(cli.main, "plan_only=true", *SMALL) == 0
    said = capsys.readouterr().out
    assert " generate  docs-s nucleus p=0.95" in said
    assert "jobs       1\n" in said
