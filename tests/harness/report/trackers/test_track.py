"""Finished runs go to a tracker once; one that fails is one warning; real packages read back what was logged."""

import base64
import math
import threading

import pandas as pd
import pytest

from openended.harness.app import cli
from openended.harness.core.errors import SpecError
from openended.harness.report.trackers import track
from openended.harness.report.trackers.track import (
    JOB_TAG,
    MlflowTracker,
    TensorboardTracker,
    TrackedJob,
    TrackerOptions,
    TrackioTracker,
    WandbTracker,
    build_tracker_options,
    log_job,
    require_tracker,
    track_report,
    track_runs,
)
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


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
REAL = TrackerOptions(project="texts")
REASON = "needs the real package in an environment of its own: pip install 'openended[{}]'"


@pytest.fixture
def job(tmp_path):
    (tmp_path / "curve.png").write_bytes(PNG)
    table = pd.DataFrame({"system": ["greedy", "human"], "value": [0.5, float("nan")]})
    values = {"mauve/mauve": 0.5, "mauve/mauve.low": 0.4, "human/gen_ppl/gen_ppl": 32.0, "mauve/type_1@0.5": 0.3}
    config = {"decoder": "greedy", "seed": 0, "decoder.p": 0.9, "unused": None}
    return TrackedJob(
        "grid/run-1", "a run", "grid", config, values, {"values": table}, {"curve": tmp_path / "curve.png"}
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # about its own dependencies
def test_mlflow_has_one_run_with_params_metrics_and_artifacts(job, tmp_path):
    mlflow = pytest.importorskip("mlflow", reason=REASON.format("mlflow"))
    for _ in range(2):  # the second attempt replaces what the first left
        log_job(MlflowTracker(REAL, tmp_path), job)
    client = mlflow.MlflowClient((tmp_path / "mlflow").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("texts").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.tags[JOB_TAG] == job.id
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
        log_job(TensorboardTracker(REAL, tmp_path), job)
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
    log_job(WandbTracker(REAL, tmp_path), job)
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
    log_job(TrackioTracker(REAL, tmp_path), job)
    logs = storage.SQLiteStorage.get_logs("texts", job.id)
    logged = {name: value for row in logs for name, value in row.items()}
    assert {name: logged[name] for name in job.values} == job.values
    assert "tables/values" in logged
