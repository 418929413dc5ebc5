"""The real packages: what was logged is read back with their own readers; nothing leaves this machine."""

import base64

import pandas as pd
import pytest

from openended.harness.report.trackers.track import (
    JOB_TAG,
    MlflowTracker,
    TensorboardTracker,
    TrackedJob,
    TrackerOptions,
    TrackioTracker,
    WandbTracker,
    log_job,
)

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
OPTIONS = TrackerOptions(project="texts")
REASON = "needs the real package in an environment of its own: pip install 'openended[{}]'"
# These packages warn about their own dependencies.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]


@pytest.fixture
def job(tmp_path):
    (tmp_path / "curve.png").write_bytes(PNG)
    table = pd.DataFrame({"system": ["greedy", "human"], "value": [0.5, float("nan")]})
    values = {"mauve/mauve": 0.5, "mauve/mauve.low": 0.4, "human/gen_ppl/gen_ppl": 32.0, "mauve/type_1@0.5": 0.3}
    config = {"decoder": "greedy", "seed": 0, "decoder.p": 0.9, "unused": None}
    return TrackedJob(
        "grid/run-1", "a run", "grid", config, values, {"values": table}, {"curve": tmp_path / "curve.png"}
    )


def test_mlflow_has_one_run_with_params_metrics_and_artifacts(job, tmp_path):
    mlflow = pytest.importorskip("mlflow", reason=REASON.format("mlflow"))
    for _ in range(2):  # the second attempt replaces what the first left
        log_job(MlflowTracker(OPTIONS, tmp_path), job)
    client = mlflow.MlflowClient((tmp_path / "mlflow").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("texts").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.tags[JOB_TAG] == job.id
    assert run.data.params["decoder"] == "greedy"
    assert run.data.metrics == {name.replace("@", "_"): value for name, value in job.values.items()}
    names = {item.path for folder in ("tables", "figures") for item in client.list_artifacts(run.info.run_id, folder)}
    assert names == {"tables/values.csv", "figures/curve.png"}


def test_tensorboard_has_scalars_an_image_and_a_table(job, tmp_path):
    pytest.importorskip("tensorboard", reason=REASON.format("tensorboard"))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for _ in range(2):
        log_job(TensorboardTracker(OPTIONS, tmp_path), job)
    events = EventAccumulator(str(tmp_path / "tensorboard" / job.id)).Reload()
    for name, value in job.values.items():
        (scalar,) = events.Scalars(name)
        assert scalar.value == pytest.approx(value)
    assert events.Images("figures/curve")[0].encoded_image_string == PNG
    (text,) = events.Tensors("tables/values/text_summary")
    assert text.tensor_proto.string_val[0].decode().splitlines()[2] == "| greedy | 0.5 |"


def test_wandb_writes_an_offline_run(job, tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason=REASON.format("wandb"))
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    log_job(WandbTracker(OPTIONS, tmp_path), job)
    (data,) = tmp_path.glob("wandb/**/offline-run-*/*.wandb")
    assert data.stat().st_size > 0
    assert list(data.parent.glob("files/media/images/**/*.png"))
    assert list(data.parent.glob("files/media/table/**/*.json"))


def test_trackio_has_one_run_with_its_values(job, tmp_path, monkeypatch):
    pytest.importorskip("trackio", reason=REASON.format("trackio"))
    import trackio.sqlite_storage as storage
    import trackio.utils

    for module in (trackio, trackio.utils, storage):
        if hasattr(module, "TRACKIO_DIR"):
            monkeypatch.setattr(module, "TRACKIO_DIR", tmp_path)
    log_job(TrackioTracker(OPTIONS, tmp_path), job)
    logs = storage.SQLiteStorage.get_logs("texts", job.id)
    logged = {name: value for row in logs for name, value in row.items()}
    assert {name: logged[name] for name in job.values} == job.values
    assert "tables/values" in logged
