"""Whole searches through the command line: they end with the best settings, go on after a kill, and fail in one line."""

import json
import sys

import pytest

from openended.harness.app.hydra.search import Search
from openended.harness.core import decode, read_json, temporary_files
from openended.harness.results import SearchResult
from tests.helpers import openended

SMALL = ["metric=[distinct_n]", "num_examples=8", "max_new_tokens=6", "toward_human=[distinct_1]"]
SPACE = ["decoder=nucleus,top_k", "spaces.nucleus.p=interval(0.5,1)", "spaces.top_k.k=tag(log,int(interval(2,500)))"]
SEARCH = ["-m", "hydra/sweeper=optuna", "name=s", *SMALL, *SPACE, "trials=4"]


def read_search(grid):
    return decode(SearchResult, read_json(grid / "search.json"), "search")


def only_grid(folder):
    return max(folder.glob("outputs/grids/s/*"))


@pytest.fixture
def undrawn(monkeypatch):
    """Figures take most of the time; the first test sees them."""
    monkeypatch.setattr("openended.harness.report.figures.draw.draw_all", lambda *_, **__: [])
    monkeypatch.setattr("openended.harness.report.figures.search.show_search", lambda _: {})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    done = openended(*SEARCH, "confirm_seeds=[5,6]", cwd=folder, draw=True, code=0)
    return folder, done


@pytest.mark.slow
def test_a_search_ends_with_the_best_setting_on_fresh_seeds(whole):
    folder, done = whole
    found = read_search(only_grid(folder))
    assert [t.number for t in found.trials] == [0, 1, 2, 3]
    assert {t.state for t in found.trials} == {"complete"}
    best = min(found.trials, key=lambda t: t.values)
    assert found.front()[0] == best
    assert set(best.fresh) == {"5", "6"}
    assert "fresh seeds" in done.stdout
    assert best.label in done.stdout
    assert "report     outputs/reports/s/report.html  (6 runs)" in done.stdout
    grid = only_grid(folder)
    names = {path.name for name in ("figures", "tables") for path in (grid / name).iterdir()}
    assert {"search-history.png", "search-parameters.pdf", "search-best.tex", "search-trials.csv"} <= names


@pytest.mark.long
def test_a_search_that_was_interrupted_goes_on_as_an_unbroken_one(whole, undrawn, tmp_path, monkeypatch):
    told = Search._report_setting

    def die(self, study, setting, *rest):
        if setting[0].number == 2:
            raise KeyboardInterrupt
        return told(self, study, setting, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Search, "_report_setting", die)
        assert openended(*SEARCH, cwd=tmp_path).returncode == 130
    monkeypatch.setattr(temporary_files, "is_in_use", lambda path: False)
    again = openended(*SEARCH, cwd=tmp_path, code=0)
    assert "resuming the 1 trials of an interrupted search" in again.stderr
    one, other = (read_search(only_grid(folder)) for folder in (whole[0], tmp_path))
    assert [(t.setting, t.values) for t in one.trials] == [(t.setting, t.values) for t in other.trials]
    assert "(4 runs)" in again.stdout, "the report has those of before too"


@pytest.mark.long
def test_several_objectives_have_a_front_and_seeds_an_interval(undrawn, tmp_path):
    words = ["-m", "hydra/sweeper=optuna", "name=s", "metric=[distinct_n]", "num_examples=8", "max_new_tokens=6"]
    words += ["decoder.p=0.6,0.9,7", "seed=0,1", "maximize=[distinct_1]", "toward_human=[distinct_2]", "trials=2"]
    done = openended(*words, cwd=tmp_path, code=2)
    assert "nucleus.p" in done.stderr
    words = [w.replace(",7", "") for w in words]
    done = openended(*words, cwd=tmp_path, code=0)
    found = read_search(only_grid(tmp_path))
    assert [set(t.seeds) for t in found.trials] == [{"0", "1"}] * 2
    for trial in found.trials:
        assert trial.values == pytest.approx([sum(v) / 2 for v in zip(*trial.seeds.values(), strict=True)])
    assert "95 % intervals are over seeds" in done.stdout
    assert "Pareto front" in done.stdout


def test_without_optuna_it_says_what_to_install_and_a_plan_writes_nothing(tmp_path, monkeypatch):
    done = openended(*SEARCH, "plan_only=json", cwd=tmp_path, code=0)
    assert json.loads(done.stdout)["jobs"] == 4
    assert not (tmp_path / "outputs").exists()
    monkeypatch.setitem(sys.modules, "optuna", None)
    done = openended(*SEARCH, cwd=tmp_path, code=2)
    assert done.stderr == "openended: optuna is not installed; pip install 'openended[search]'\n"


@pytest.mark.slow
def test_a_plan_counts_the_trials_that_are_there(whole):
    again = openended(*SEARCH, "trials=6", "plan_only=true", cwd=whole[0])
    assert "2 of 6 settings to try by tpe" in again.stderr
    assert "jobs       2" in again.stdout
