"""A search that was killed and started again is an unbroken one; successive halving keeps whom it should."""

import dataclasses
import math

import pytest

from openended.harness.app.hydra.search_space import Objective, parse_space
from openended.harness.app.hydra.study import SearchPlan, StudyRunner, count_finished, describe_study_errors
from openended.harness.core import MetricResult, StoreError, temporary_files
from openended.harness.storage.record import RunRecord, save_record

CHOICES = {"nucleus": {"p": "interval(0.5,1)"}, "top_k": {"k": "tag(log,int(interval(2,500)))"}}
SPACE = parse_space({}, CHOICES, ["decoder=nucleus,top_k", "decoder.temperature=interval(0.5,1.5)"])
PLAN = SearchPlan("s", SPACE, (Objective("maximize", "mauve"),))
BOTH = (Objective("maximize", "mauve"), Objective("minimize", "gen_ppl"))
TWO = SearchPlan("s", SPACE, BOTH, options={"population_size": 4})


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
            own = math.log(float(chosen["decoder.k"])) / 7 if "decoder.k" in chosen else float(chosen["decoder.p"])
            value = -((own - 0.8) ** 2) - 0.1 * (float(chosen.get("decoder.temperature", 1)) - 0.9) ** 2
            searching.study.tell(trial, [value, own][: len(plan.objectives)])
    return [(t.number, t.params, t.values, t.state.name) for t in searching.study.get_trials()]


@pytest.mark.thin(5)
@pytest.mark.parametrize(
    ("plan", "batch"),
    [(PLAN, 1), (PLAN, 3), (dataclasses.replace(PLAN, sampler="qmc"), 1), (TWO, 4)],
    ids=["tpe", "tpe in batches", "qmc", "nsgaii"],
)
def test_a_search_that_was_killed_goes_on_as_an_unbroken_one(plan, batch, tmp_path, monkeypatch):
    total = 12
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
    first.record_failure(trial, "the disk is full")
    again = StudyRunner(PLAN, tmp_path / "s.db")
    assert again.start() == 0
    ((second, same),) = again.ask(1)
    assert same == chosen
    again.study.tell(second, [1.0])
    last = StudyRunner(PLAN, tmp_path / "s.db")
    assert last.start() == 1
    assert last.ask(1)[0][1] != chosen, "once is enough"


def test_importance_names_the_parameter_that_matters():
    space = parse_space({}, {}, ["decoder.p=interval(0,1)", "decoder.temperature=interval(0,1)"])
    plan = SearchPlan("s", space, PLAN.objectives, "random")
    searching = StudyRunner(plan, None)
    searching.start()
    assert searching.importance(0) == {}
    for trial, chosen in searching.ask(60):
        searching.study.tell(trial, [float(chosen["decoder.p"])])
    shares = searching.importance(0)
    assert shares["decoder.p"] > 0.8
    assert sum(shares.values()) == pytest.approx(1)


def test_a_damaged_file_is_told_in_one_line(tmp_path):
    path = tmp_path / "s.db"
    assert count_finished(path, "s") == 0
    path.write_bytes(b"no database at all, but some text")
    with pytest.raises(StoreError, match=r"s\.db: cannot be read as Optuna's studies"), describe_study_errors(path):
        StudyRunner(PLAN, path)


def test_seeds_have_the_values_of_their_runs_while_these_exist(tmp_path):
    searching = StudyRunner(PLAN, tmp_path / "s.db")
    searching.start()
    ((trial, _),) = searching.ask(1)
    row = MetricResult(system="model", metric="mauve", signature="s", primary="mauve", values={"mauve": 0.35}, n_human=5,
                    n_model=5, status="ok")  # fmt: skip
    record = RunRecord(created="2027-01-01T00:00:00+00:00", spec={}, axes={"seed": 1}, overrides=(), results=(row,))
    (tmp_path / "run").mkdir()
    save_record(tmp_path / "run", record)
    searching.record_runs(trial, {"0": str(tmp_path / "run"), "1": str(tmp_path / "deleted")})
    searching.record_confirmation(trial.number, "5", str(tmp_path / "run"))
    searching.study.tell(trial, [0.35])
    (tried,) = searching.summarize().trials
    assert (tried.values, tried.seeds, tried.fresh) == ((0.35,), {"0": (0.35,)}, {"5": (0.35,)})
