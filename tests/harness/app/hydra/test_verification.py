"""The values of a search are those of its runs' records, whatever the file of the study holds."""

import sqlite3
from contextlib import closing

import pytest

from openended.harness.app.hydra.study import StudyRunner, count_finished, reject_false_trials
from openended.harness.core.errors import StoreError
from tests.campaign.searches import PLAN, write_run, write_study


@pytest.fixture
def path(tmp_path):
    return write_study(tmp_path)


def change(path, *statements):
    with closing(sqlite3.connect(path)) as base, base:
        for statement in statements:
            base.execute(statement)


def test_a_sound_study_stays_as_it_is(path):
    assert reject_false_trials(PLAN, path) == 0
    summary = StudyRunner(PLAN, path).summarize()
    assert [t.values for t in summary.trials] == [(0.0,), (0.1,), (0.2,), (0.3,), (0.4,)]
    assert summary.trials[4].fresh == {"5": (0.35,)}


@pytest.mark.parametrize(
    ("statement", "rejected"),
    [
        ("UPDATE trial_values SET value = 99 WHERE trial_id = 2", 1),
        (
            """UPDATE trial_user_attributes SET value_json = '{"seeds": {"": [99.0]}, "runs": ["/x"]}' WHERE key = 'made'""",
            5,
        ),
        ("DELETE FROM trial_user_attributes WHERE key = 'made' AND trial_id = 1", 1),
        ("UPDATE trial_user_attributes SET value_json = '{\"decoder.p\": \"0.5\"}' WHERE key = 'chosen'", 5),
    ],
)
def test_a_changed_trial_is_tried_again(statement, rejected, path, caplog):
    change(path, statement)
    assert reject_false_trials(PLAN, path) == rejected
    assert "is tried again" in caplog.text
    searching = StudyRunner(PLAN, path)
    assert searching.start() == 5 - rejected
    assert all(t.values[0] < 1 for t in searching.summarize().trials if t.state == "complete")
    assert len(searching.ask(1)) == 1


def test_values_of_the_run_of_another_setting_are_not_accepted(path, tmp_path):
    other = write_run(tmp_path / "other", ("decoder.p=0.5",), 0.1)
    change(path, f"UPDATE trial_user_attributes SET value_json = replace(value_json, '{tmp_path}/run-1', '{other}')")
    assert reject_false_trials(PLAN, path) == 1


def test_a_changed_confirmation_is_forgotten(path):
    change(path, "UPDATE study_user_attributes SET value_json = replace(value_json, '0.35', '99.0')")
    assert reject_false_trials(PLAN, path) == 0
    assert StudyRunner(PLAN, path).summarize().trials[4].fresh == {}


def test_a_damaged_file_gives_one_line(path):
    change(path, "UPDATE trial_params SET distribution_json = '['")
    with pytest.raises(StoreError, match="cannot be read as Optuna's studies") as caught:
        reject_false_trials(PLAN, path)
    assert "\n" not in str(caught.value)


def test_without_a_file_nothing_is_rejected(tmp_path):
    assert reject_false_trials(PLAN, tmp_path / "none.db") == 0
    assert count_finished(tmp_path / "none.db", "s") == 0
