"""Finished runs go to a tracker once; one that fails is one warning; real packages read back what was logged."""

import base64
import math
import sys
import threading

import pandas as pd
import pytest

from openended.harness.app import cli
from openended.harness.core import SpecError, require_package
from openended.harness.report import tracking
from openended.harness.report.trackers import track
from openended.harness.report.trackers.track import TrackedJob, close_entry
from openended.harness.report.tracking import build_tracker_options, track_runs
from tests.harness.report.synthetic import result, write_run
from tests.helpers import cases, check_error, exit_code

SPREAD = {"low": 30.0, "high": 40.0}


class FakeTracker:
    """Keeps the jobs that it is given, unless it fails."""

    def __init__(self) -> None:
        self.jobs: list[TrackedJob] = []
        self.fails = lambda: None

    def __call__(self, job, options, folder):
        self.fails()
        self.jobs.append(job)


@pytest.fixture
def fake(monkeypatch):
    tracker = FakeTracker()
    monkeypatch.setattr(track, "log_to_mlflow", tracker)
    return tracker


def be_away():
    raise ConnectionError("the server is away\nsecond line")


@pytest.fixture
def run(tmp_path):
    ppl = result("model", "gen_ppl", {"gen_ppl": 35.0, "entropy": math.nan}, intervals={"gen_ppl": SPREAD})
    return write_run(tmp_path, "nucleus", 0, results=[ppl, result("human", "gen_ppl", {"gen_ppl": 32.0})])


OPTIONS = build_tracker_options({"kind": "mlflow"})


def test_a_tracker_that_never_answers_is_asked_once_and_holds_nothing(fake, run, tmp_path, monkeypatch, caplog):
    gate = threading.Event()
    monkeypatch.setattr(track, "DEADLINE_SECONDS", 0.05)
    monkeypatch.setattr(track, "_silent", set())
    fake.fails = gate.wait
    track_runs([run, run], OPTIONS, tmp_path)
    gate.set()
    first, second = (record.getMessage() for record in caplog.records)
    assert "was not logged (TimeoutError: no answer in 0.05 s); the same command tries again" in first
    assert "it gave no answer before" in second


def test_a_run_is_config_values_with_intervals_and_a_table_and_is_logged_once_for_a_project(fake, run, tmp_path):
    track_runs([run, run], OPTIONS, tmp_path)
    track_runs([run], OPTIONS, tmp_path)
    (job,) = fake.jobs
    assert (job.id, job.config["decoder"]) == (f"{run.parent.name}/{run.name}", "nucleus")
    assert job.values == {
        "gen_ppl/gen_ppl": 35.0, "gen_ppl/gen_ppl.low": 30.0, "gen_ppl/gen_ppl.high": 40.0, "human/gen_ppl/gen_ppl": 32.0
    }  # fmt: skip
    assert {"value", "low", "high", "signature"} <= set(job.tables["values"].columns)
    track_runs([run], build_tracker_options({"kind": "mlflow", "project": "other"}), tmp_path)
    assert len(fake.jobs) == 2


@cases("fails, message", (be_away, "ConnectionError: the server is away"), (sys.exit, "SystemExit"))
def test_a_failure_is_one_warning_and_the_next_command_logs_the_run(fails, message, fake, run, tmp_path, caplog):
    fake.fails = fails
    track_runs([run], OPTIONS, tmp_path)
    (warning,) = caplog.records
    assert warning.levelname == "WARNING"
    assert warning.getMessage().startswith("tracker    mlflow: ")
    assert message in warning.getMessage()
    assert "\n" not in warning.getMessage()
    fake.fails = lambda: None
    track_runs([run], OPTIONS, tmp_path)
    assert len(fake.jobs) == 1


def test_an_entry_is_closed_whatever_happens_and_the_first_error_is_raised():
    closed = []
    with close_entry(closed.append):
        pass
    for finish in (closed.append, lambda failed: closed.append(failed) or 1 / 0):
        with pytest.raises(ConnectionError), close_entry(finish):
            be_away()
    assert closed == [False, True, True]
    with pytest.raises(ZeroDivisionError), close_entry(lambda _: 1 / 0):
        pass


def test_the_report_goes_with_its_tables_and_figures_until_it_changes(fake, tmp_path):
    report = tmp_path / "reports" / "p"
    for name, data in {"tables/results.csv": b"a,b\n1,2\n", "figures/f.png": b"png", "results.parquet": b"1"}.items():
        (report / name).parent.mkdir(parents=True, exist_ok=True)
        (report / name).write_bytes(data)
    for _ in range(2):
        track.track_report(report, OPTIONS, tmp_path)
    (job,) = fake.jobs
    assert (list(job.tables["results"].columns), job.figures) == (["a", "b"], {"f": report / "figures/f.png"})
    (report / "results.parquet").write_bytes(b"2")
    track.track_report(report, OPTIONS, tmp_path)
    assert len(fake.jobs) == 2


def test_options_are_checked_before_anything_runs(monkeypatch):
    check_error(SpecError, "tracker", build_tracker_options, {"kind": "wandbb"})
    check_error(SpecError, "uri", build_tracker_options, {"kind": "wandb", "uri": "http://localhost:1"})
    tracking.require_tracker(build_tracker_options({"kind": "none"}))
    job = track.TrackedJob("id", "name", "group", {"a": 1, "b": None}, {})
    assert job.list_texts() == {"a": "1"}


@pytest.mark.slow
def test_a_command_logs_its_run_and_an_absent_package_is_told_before_it(fake, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = ["judgments=bundled:example_pairs.csv", "metric=[bradley_terry]", "intervals=0", "tracker=mlflow"]
    for package, code in (("json", 0), ("json", 0), ("no_such_package", 2)):
        monkeypatch.setattr(tracking, "require_package", lambda _, extra, name=package: require_package(name, extra))
        assert exit_code(cli.main, *small) == code
        assert len(fake.jobs) == 2, "the run and its report, once"
    assert fake.jobs[0].id.startswith("default/")
    assert "no_such_package is not installed" in capsys.readouterr().err


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
REAL = tracking.TrackerOptions(project="texts")
REASON = "needs the real package in an environment of its own: pip install 'openended[{}]'"


@pytest.fixture
def job(tmp_path):
    (tmp_path / "curve.png").write_bytes(PNG)
    table = pd.DataFrame({"system": ["greedy", "human"], "value": [0.5, float("nan")]})
    values = {"mauve/mauve": 0.5, "mauve/mauve.low": 0.4, "human/gen_ppl/gen_ppl": 32.0, "mauve/type_1@0.5": 0.3}
    config = {"decoder": "greedy", "seed": 0, "decoder.p": 0.9, "unused": None}
    curve = {"curve": tmp_path / "curve.png"}
    return TrackedJob("grid/run-1", "a run", "grid", config, values, {"values": table}, curve)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # about its own dependencies
def test_mlflow_has_one_run_with_params_metrics_and_artifacts(job, tmp_path):
    mlflow = pytest.importorskip("mlflow", reason=REASON.format("mlflow"))
    for _ in range(2):  # the second attempt replaces what the first left
        track.log_to_mlflow(job, REAL, tmp_path)
    client = mlflow.MlflowClient((tmp_path / "mlflow").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("texts").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.tags[track.JOB_TAG] == job.id
    assert run.data.params["decoder"] == "greedy"
    assert run.data.metrics == {name.replace("@", "_"): value for name, value in job.values.items()}
    names = {item.path for folder in ("tables", "figures") for item in client.list_artifacts(run.info.run_id, folder)}
    assert names == {"tables/values.csv", "figures/curve.png"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # about its own dependencies
def test_tensorboard_has_scalars_an_image_and_a_table(job, tmp_path):
    pytest.importorskip("tensorboard", reason=REASON.format("tensorboard"))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for _ in range(2):
        track.log_to_tensorboard(job, REAL, tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard" / job.id)).Reload()
    for name, value in job.values.items():
        (scalar,) = events.Scalars(name)
        assert scalar.value == pytest.approx(value)
    assert events.Images("figures/curve")[0].encoded_image_string == PNG
    (text,) = events.Tensors("tables/values/text_summary")
    assert text.tensor_proto.string_val[0].decode().splitlines()[2] == "| greedy | 0.5 |"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # about its own dependencies
def test_wandb_writes_an_offline_run(job, tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason=REASON.format("wandb"))
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    track.log_to_wandb(job, REAL, tmp_path)
    (data,) = tmp_path.glob("wandb/**/offline-run-*/*.wandb")
    assert data.stat().st_size > 0
    assert list(data.parent.glob("files/media/images/**/*.png"))
    assert list(data.parent.glob("files/media/table/**/*.json"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # about its own dependencies
def test_trackio_has_one_run_with_its_values(job, tmp_path, monkeypatch):
    pytest.importorskip("trackio", reason=REASON.format("trackio"))
    import trackio.sqlite_storage as storage
    import trackio.utils

    for module in (trackio, trackio.utils, storage):
        if hasattr(module, "TRACKIO_DIR"):
            monkeypatch.setattr(module, "TRACKIO_DIR", tmp_path)
    track.log_to_trackio(job, REAL, tmp_path)
    logs = storage.SQLiteStorage.get_logs("texts", job.id)
    logged = {name: value for row in logs for name, value in row.items()}
    assert {name: logged[name] for name in job.values} == job.values
    assert "tables/values" in logged
