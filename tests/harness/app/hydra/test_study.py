"""A search that was killed and started again is an unbroken one; successive halving keeps whom it should."""

import dataclasses
import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from openended.harness.app.hydra.search_space import Objective, parse_space
from openended.harness.app.hydra.study import SearchPlan, StudyRunner, count_finished, reject_false_trials
from openended.harness.core import StoreError, temporary_files
from tests.campaign import searches

SPACE = parse_space(
    {},
    {"nucleus": {"p": "interval(0.5,1)"}, "top_k": {"k": "tag(log,int(interval(2,500)))"}},
    ["decoder=nucleus,top_k", "decoder.temperature=interval(0.5,1.5)"],
)
PLAN = SearchPlan("s", SPACE, (Objective("maximize", "mauve"),))
TWO = SearchPlan(
    "s", SPACE, (Objective("maximize", "mauve"), Objective("minimize", "gen_ppl")), options={"population_size": 4}
)
STEPS = SearchPlan("s", parse_space({}, {}, ["decoder.p=range(0.1,1,0.1)"]), PLAN.objectives, "grid")


def values_of(plan: SearchPlan, chosen: dict[str, str]) -> list[float]:
    own = math.log(float(chosen["decoder.k"])) / 7 if "decoder.k" in chosen else float(chosen["decoder.p"])
    value = -((own - 0.8) ** 2) - 0.1 * (float(chosen.get("decoder.temperature", 1)) - 0.9) ** 2
    return [value, own][: len(plan.objectives)]


def search(plan: SearchPlan, where, total: int, batch: int = 1, stop: int = 10**6) -> list[tuple]:
    """Fill a study as the sweeper does; `stop` trials are told, then the process "dies" with a batch in hand."""
    searching = StudyRunner(plan, where)
    left = total - searching.start()
    while left > 0:
        asked = searching.ask(min(batch, left))
        left -= len(asked)
        for trial, chosen in asked:
            if (stop := stop - 1) < 0:
                return []
            searching.study.tell(trial, values_of(plan, chosen))
    return [(t.number, t.params, t.values, t.state.name) for t in searching.study.get_trials()]


@pytest.mark.thin(5)
@pytest.mark.parametrize(
    ("plan", "batch"),
    [(PLAN, 1), (PLAN, 3), (dataclasses.replace(PLAN, sampler="qmc"), 1), (TWO, 4), (STEPS, 1)],
    ids=["tpe", "tpe in batches", "qmc", "nsgaii", "grid"],
)
def test_a_search_that_was_killed_goes_on_as_an_unbroken_one(plan, batch, tmp_path, monkeypatch):
    total = 9 if plan is STEPS else 12
    whole = search(plan, None, total, batch)
    assert len(whole) == total
    monkeypatch.setattr(temporary_files, "is_in_use", lambda path: False)
    assert search(plan, tmp_path / "broken.db", total, batch, stop=3) == []
    assert search(plan, tmp_path / "broken.db", total, batch, stop=5) == []
    assert count_finished(tmp_path / "broken.db", "s") == 3 + 5
    assert search(plan, tmp_path / "broken.db", total, batch) == whole
    assert search(plan, tmp_path / "broken.db", total, batch) == whole, "and what is finished stays"


def test_a_living_process_is_not_disturbed(tmp_path):
    search(PLAN, tmp_path / "s.db", 5, stop=2)
    with pytest.raises(StoreError, match="being run by another process"):
        StudyRunner(PLAN, tmp_path / "s.db").start()


def test_a_failed_trial_is_tried_again_by_the_next_command(tmp_path):
    first = StudyRunner(PLAN, tmp_path / "s.db")
    first.start()
    ((trial, chosen),) = first.ask(1)
    first.fail(trial, "the disk is full")
    again = StudyRunner(PLAN, tmp_path / "s.db")
    assert again.start() == 0
    ((second, same),) = again.ask(1)
    assert same == chosen
    again.study.tell(second, [1.0])
    last = StudyRunner(PLAN, tmp_path / "s.db")
    assert last.start() == 1
    assert last.ask(1)[0][1] != chosen, "once is enough"


def halved(values: list[list[float]], reduction: int) -> list[int]:
    """The rungs that each trial runs, one after the other: Li et al. 2020, and the first of a rung always goes on."""
    seen: list[list[float]] = [[] for _ in values[0]]
    out = []
    for trial in values:
        ran = 0
        for rung, value in enumerate(trial):
            ran += 1
            seen[rung].append(value)
            keep = max(len(seen[rung]) // reduction, 1)
            if sum(other > value for other in seen[rung]) >= keep:
                break
        else:
            ran += 1
        out.append(ran)
    return out


@pytest.mark.parametrize("reduction", [2, 3])
def test_successive_halving_promotes_the_best_of_each_size(reduction):
    plan = dataclasses.replace(PLAN, sampler="random", rungs=(10, 30), reduction=reduction)
    searching = StudyRunner(plan, None)
    searching.start()
    values, ran = [], []
    for number in range(30):
        ((trial, chosen),) = searching.ask(1)
        at = [values_of(plan, chosen)[0] + math.sin(7 * number + rung) / 20 for rung in range(2)]
        values.append(at)
        if searching.report_rung(trial, at[0], 0):
            ran.append(1)
        elif searching.report_rung(trial, at[1], 1):
            ran.append(2)
        else:
            searching.study.tell(trial, [at[1]])
            ran.append(3)
    assert ran == halved(values, reduction)
    told = {t.number: (t.state, t.size) for t in searching.summarize().trials}
    assert [told[n] for n in range(30)] == [
        {1: ("pruned", 10), 2: ("pruned", 30), 3: ("complete", None)}[r] for r in ran
    ]
    assert {1, 3} <= set(ran)
    assert sum(n > 1 for n in ran) < 30 / reduction + 5


def test_importance_names_the_parameter_that_matters():
    plan = SearchPlan(
        "s",
        parse_space({}, {}, ["decoder.p=interval(0,1)", "decoder.temperature=interval(0,1)"]),
        PLAN.objectives,
        "random",
    )
    searching = StudyRunner(plan, None)
    searching.start()
    assert searching.importance(0) == {}
    for trial, chosen in searching.ask(60):
        searching.study.tell(trial, [float(chosen["decoder.p"])])
    shares = searching.importance(0)
    assert shares["decoder.p"] > 0.8
    assert sum(shares.values()) == pytest.approx(1)


def test_a_damaged_file_is_told_in_one_line(tmp_path):
    (tmp_path / "s.db").write_bytes(b"no database at all, but some text")
    with pytest.raises(StoreError, match=r"s\.db: cannot be read as Optuna's studies"):
        reject_false_trials(PLAN, tmp_path / "s.db")


# The values of a search are those of its runs' records, whatever the file of the study holds.


@pytest.fixture(scope="module")
def search_folder(tmp_path_factory):
    """The folder of a finished search and its runs."""
    return searches.write_study(tmp_path_factory.mktemp("study")).parent


@pytest.fixture
def path(search_folder, tmp_path):
    """A copy of its file, to be changed."""
    return Path(shutil.copy(search_folder / "search.db", tmp_path))


def change(path, *statements):
    with closing(sqlite3.connect(path)) as base, base:
        for statement in statements:
            base.execute(statement)


def test_a_sound_study_stays_as_it_is(path):
    assert reject_false_trials(searches.PLAN, path) == 0
    summary = StudyRunner(searches.PLAN, path).summarize()
    assert [t.values for t in summary.trials] == [(0.0,), (0.1,), (0.2,), (0.3,), (0.4,)]
    assert summary.trials[4].fresh == {"5": (0.35,)}


@pytest.mark.parametrize(
    ("statement", "rejected"),
    [
        ("UPDATE trial_values SET value = 99 WHERE trial_id = 2", 1),
        ("""UPDATE trial_user_attributes SET value_json = '{"": "/x"}' WHERE key = 'made'""", 5),
        ("DELETE FROM trial_user_attributes WHERE key = 'made' AND trial_id = 1", 1),
        ("UPDATE trial_user_attributes SET value_json = '{\"decoder.p\": \"0.5\"}' WHERE key = 'chosen'", 5),
    ],
)
def test_a_changed_trial_is_tried_again(statement, rejected, path, caplog):
    change(path, statement)
    assert reject_false_trials(searches.PLAN, path) == rejected
    assert "is run again" in caplog.text
    searching = StudyRunner(searches.PLAN, path)
    assert searching.start() == 5 - rejected
    assert all(t.values[0] < 1 for t in searching.summarize().trials if t.state == "complete")
    assert len(searching.ask(1)) == 1


def test_values_of_the_run_of_another_setting_are_not_accepted(path, search_folder, tmp_path):
    other = searches.write_run(tmp_path / "other", ("decoder.p=0.5",), 0.1)
    change(
        path, f"UPDATE trial_user_attributes SET value_json = replace(value_json, '{search_folder}/run-1', '{other}')"
    )
    assert reject_false_trials(searches.PLAN, path) == 1


@pytest.mark.parametrize(("seed", "rejected"), [(None, 0), (0, 1)])
def test_the_one_run_of_a_deterministic_decoder_is_that_of_all_seeds(seed, rejected, tmp_path):
    plan = dataclasses.replace(searches.PLAN, space=parse_space({}, {}, ["decoder.p=0.5,0.9", "seed=0,1"]))
    searching = StudyRunner(plan, tmp_path / "s.db")
    searching.start()
    ((trial, chosen),) = searching.ask(1)
    run = searches.write_run(tmp_path / "run", (f"decoder.p={chosen['decoder.p']}", "seed=0"), 0.1, seed)
    searching.record_runs(trial, {"0": str(run), "1": str(run)})
    searching.study.tell(trial, [0.1])
    assert reject_false_trials(plan, tmp_path / "s.db") == rejected


def test_a_changed_confirmation_is_forgotten(path):
    change(path, "UPDATE study_user_attributes SET value_json = replace(value_json, 'fresh-5', 'run-1')")
    assert reject_false_trials(searches.PLAN, path) == 0
    assert StudyRunner(searches.PLAN, path).summarize().trials[4].fresh == {}


def test_a_damaged_file_gives_one_line(path):
    change(path, "UPDATE trial_params SET distribution_json = '['")
    with pytest.raises(StoreError, match="cannot be read as Optuna's studies") as caught:
        reject_false_trials(searches.PLAN, path)
    assert "\n" not in str(caught.value)


def test_without_a_file_nothing_is_rejected(tmp_path):
    assert reject_false_trials(searches.PLAN, tmp_path / "none.db") == 0
    assert count_finished(tmp_path / "none.db", "s") == 0
