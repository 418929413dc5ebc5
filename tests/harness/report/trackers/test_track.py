"""Finished runs go to a tracker once; a tracker that fails is one warning and costs no run."""

import math
import threading

import pytest

from openended.harness.app import cli
from openended.harness.core.errors import SpecError
from openended.harness.report.trackers import track
from openended.harness.report.trackers.track import build_tracker_options, require_tracker, track_report, track_runs
from tests.harness.report.synthetic import result, write_run
from tests.helpers import exit_code

SPREAD = {"low": 30.0, "high": 40.0}


class FakeTracker:
    """Notes its calls; raises in one of them."""

    package = "json"

    def __init__(self, fails_in: str = "") -> None:
        self.calls: list[tuple] = []
        self.fails_in = fails_in

    def _note(self, call, *facts):
        self.calls.append((call, *facts))
        if call == self.fails_in:
            raise ConnectionError("the server is away\nsecond line")

    def start(self, job):
        self._note("start", job.id, dict(job.config))

    def log_values(self, values):
        self._note("log_values", dict(values))

    def log_table(self, name, table):
        self._note("log_table", name, list(table.columns))

    def log_figure(self, name, path):
        self._note("log_figure", name, path.name)

    def finish(self, *, failed):
        self._note("finish", failed)


@pytest.fixture
def fake(monkeypatch):
    tracker = FakeTracker()
    monkeypatch.setitem(track.TRACKERS, "mlflow", lambda options, folder: tracker)
    return tracker


@pytest.fixture
def run(tmp_path):
    ppl = result("model", "gen_ppl", {"gen_ppl": 35.0, "entropy": math.nan}, intervals={"gen_ppl": SPREAD})
    return write_run(tmp_path, "nucleus", 0, results=[ppl, result("human", "gen_ppl", {"gen_ppl": 32.0})])


OPTIONS = build_tracker_options({"kind": "mlflow"})


def test_a_tracker_that_never_answers_is_asked_once_and_holds_nothing(fake, run, tmp_path, monkeypatch, caplog):
    gate = threading.Event()
    monkeypatch.setattr(track, "DEADLINE_SECONDS", 0.05)
    monkeypatch.setattr(track, "_silent", set())
    monkeypatch.setattr(fake, "start", lambda job: gate.wait())
    track_runs([run, run], OPTIONS, tmp_path)
    gate.set()
    first, second = (record.getMessage() for record in caplog.records)
    assert "was not logged (TimeoutError: no answer in 0.05 s); the same command tries again" in first
    assert "it gave no answer before" in second


def test_a_run_is_config_values_with_intervals_and_a_table(fake, run, tmp_path):
    track_runs([run], OPTIONS, tmp_path)
    start, values, table, finish = fake.calls
    assert start[1] == f"{run.parent.name}/{run.name}"
    assert start[2]["decoder"] == "nucleus"
    assert values[1] == {
        "gen_ppl/gen_ppl": 35.0, "gen_ppl/gen_ppl.low": 30.0, "gen_ppl/gen_ppl.high": 40.0, "human/gen_ppl/gen_ppl": 32.0
    }  # fmt: skip
    assert table[1] == "values"
    assert {"value", "low", "high", "signature"} <= set(table[2])
    assert finish == ("finish", False)


def test_what_was_logged_is_not_logged_again_but_another_project_gets_it(fake, run, tmp_path):
    track_runs([run, run], OPTIONS, tmp_path)
    track_runs([run], OPTIONS, tmp_path)
    assert [call[0] for call in fake.calls].count("start") == 1
    track_runs([run], build_tracker_options({"kind": "mlflow", "project": "other"}), tmp_path)
    assert [call[0] for call in fake.calls].count("start") == 2


@pytest.mark.parametrize("call", ["start", "log_values", "log_table", "finish"])
def test_a_failure_is_one_warning_and_the_next_command_logs_the_run(call, fake, run, tmp_path, caplog):
    fake.fails_in = call
    track_runs([run], OPTIONS, tmp_path)
    (warning,) = caplog.records
    assert warning.levelname == "WARNING"
    assert "mlflow" in warning.getMessage()
    assert "ConnectionError: the server is away" in warning.getMessage()
    assert "\n" not in warning.getMessage()
    assert fake.calls[-1] == ("finish", call != "finish")  # the entry is closed either way
    fake.fails_in, fake.calls[:] = "", []
    track_runs([run], OPTIONS, tmp_path)
    assert fake.calls[-1] == ("finish", False)


def test_a_tracker_that_leaves_the_process_is_a_warning(fake, run, tmp_path, monkeypatch, caplog):
    def leave(_):
        raise SystemExit(1)

    monkeypatch.setattr(fake, "start", leave)
    track_runs([run], OPTIONS, tmp_path)
    assert "SystemExit" in caplog.text


def test_the_report_goes_with_its_tables_and_figures_until_it_changes(fake, tmp_path):
    report = tmp_path / "reports" / "p"
    for name, data in {"tables/results.csv": b"a,b\n1,2\n", "figures/f.png": b"png", "results.parquet": b"1"}.items():
        (report / name).parent.mkdir(parents=True, exist_ok=True)
        (report / name).write_bytes(data)
    for _ in range(2):
        track_report(report, OPTIONS, tmp_path)
    assert [call[:2] for call in fake.calls[2:4]] == [("log_table", "results"), ("log_figure", "f")]
    assert len(fake.calls) == 5
    (report / "results.parquet").write_bytes(b"2")
    track_report(report, OPTIONS, tmp_path)
    assert len(fake.calls) == 10


def test_options_are_checked_before_anything_runs(monkeypatch):
    with pytest.raises(SpecError, match="tracker"):
        build_tracker_options({"kind": "wandbb"})
    with pytest.raises(SpecError, match="uri"):
        build_tracker_options({"kind": "wandb", "uri": "http://localhost:1"})
    require_tracker(build_tracker_options({"kind": "none"}))
    job = track.TrackedJob("id", "name", "group", {"a": 1, "b": None}, {})
    assert job.list_texts() == {"a": "1"}


@pytest.mark.slow
def test_a_command_logs_its_run_and_an_absent_package_is_told_before_it(fake, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = ["judgments=bundled:example_pairs.csv", "metric=[bradley_terry]", "intervals=0", "tracker=mlflow"]
    assert exit_code(cli.main, *small) == 0
    assert next(call[1] for call in fake.calls if call[0] == "start").startswith("default/")
    count = len(fake.calls)
    assert exit_code(cli.main, *small) == 0
    assert len(fake.calls) == count
    fake.package = FakeTracker.package
    monkeypatch.setattr(fake, "package", "no_such_package")
    assert exit_code(cli.main, *small) == 2
    assert "no_such_package is not installed" in capsys.readouterr().err
