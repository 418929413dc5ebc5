"""Grids that end once their comparisons are decided, through the command line."""

import json
import math
from dataclasses import replace

import pytest

from openended.harness.app.hydra.decide import name_by_records
from openended.harness.app.hydra.grid_run import GridRun
from openended.harness.results import DECISIONS, group_systems, read_results
from tests.harness.report.synthetic import write_run
from tests.helpers import openended

SMALL = ["metric=[ngram_diversity]", "max_new_tokens=8", "name=d", "looks=[4,24,48]", "samples=2"]
DECIDE = ["-m", "decoder=greedy,nucleus", "seed=0,1", *SMALL, "decide=nucleus>greedy: ngram_diversity"]


@pytest.mark.slow
def test_a_grid_ends_once_it_is_decided_and_a_second_start_computes_nothing(tmp_path, monkeypatch):
    launch = GridRun.launch_words

    def die_at_the_second_look(self, jobs, *rest):
        if self.jobs:
            raise KeyboardInterrupt
        return launch(self, jobs, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(GridRun, "launch_words", die_at_the_second_look)
        assert openended(*DECIDE, cwd=tmp_path).returncode == 130
    done = openended(*DECIDE, cwd=tmp_path, code=0)
    first = [line for line in done.stderr.splitlines() if "num_examples=4:" in line]
    assert len(first) == 4
    assert all(" 0 computed" in line for line in first), "the first look is in the store"
    assert "nucleus p=0.95 is better" in done.stdout
    folder = max(tmp_path.glob("outputs/grids/d/*"))
    node = json.loads((folder / DECISIONS).read_text())
    looks = node["decisions"][0]["looks"]
    assert node["decisions"][0]["outcome"] == "nucleus p=0.95"
    assert looks[-1]["n"] == 24, "not at 4, whose boundary is higher"
    crossed = [abs(look["statistic"]) > edge for look, edge in zip(looks, node["boundaries"], strict=False)]
    assert crossed == [False, True]
    assert "Texts: 144 of 288 generated; 144 (50%) saved." in done.stdout, "greedy once, nucleus with two seeds"
    assert f"{folder.name}: 8 of 8 done" in openended("status", "d", cwd=tmp_path, verbose=False).stdout

    looks_run = []

    def lose_the_second_look(self, jobs, *rest):
        looks_run.append(jobs)
        return [] if self.jobs else launch(self, jobs, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(GridRun, "launch_words", lose_the_second_look)
        lost = openended(*DECIDE, "name=lost", cwd=tmp_path, code=0)
    assert "not decided yet" in lost.stdout
    assert len(looks_run) == 2, "no third look after one without a run"

    both = openended("report", "d", "lost", "--no-figures", "--no-page", cwd=tmp_path, code=0)
    assert "the decisions of d, lost are shown by a report of each alone: openended report d" in both.stderr
    node["decisions"][0]["outcome"] = "greedy"
    looks[-1]["statistic"] = -9.0
    (folder / DECISIONS).write_text(json.dumps(node))
    again = openended("report", str(folder), "--no-figures", "--no-page", cwd=tmp_path, code=0)
    assert "nucleus p=0.95 is better" in again.stdout, "estimates are those of the runs"
    assert "24 examples" in again.stdout, "the other tables show the last look"


def test_a_system_is_named_by_the_seeds_that_ran(tmp_path):
    folder = write_run(tmp_path, "nucleus", 0)
    (named,) = group_systems(read_results([folder]).values)
    system = replace(named, name="planned", items=(replace(named.items[0], values={"0": math.nan, "1": math.nan}),))
    rows = [{"folder": str(folder)}, {"error": "out of memory"}]
    assert name_by_records([system], rows, read_results([folder])) == {"planned": named.name}


def test_a_plan_names_looks_and_boundaries_and_writes_nothing(tmp_path):
    done = openended(*DECIDE, "plan_only=true", cwd=tmp_path, code=0)
    assert "looks      4, 24, 48 examples; alpha=0.05 over all of them" in done.stdout
    assert "decided    if |z| is above 7.68, 2.96, 1.97" in done.stdout
    assert "generate   288 texts" in done.stdout
    assert not (tmp_path / "outputs").exists()
