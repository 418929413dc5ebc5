"""A configuration from somebody else runs nothing but ours, and takes no keys with it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from openended.harness.app.hydra.launchers import Submitit
from openended.harness.core import SpecError
from tests.helpers import openended

KEY = "hf_" + "aB3" * 10
LOG = {"version": 1, "root": {"level": "INFO", "handlers": ["x"]}, "disable_existing_loggers": False}

HOSTILE = {
    "callback": {"callbacks": {"x": {"_target_": "pathlib.Path.touch", "self": "PROOF"}}},
    "nested target": {"callbacks": {"grid": {"more": {"_target_": "joblib.load", "filename": "PROOF"}}}},
    "target by interpolation": {"callbacks": {"x": {"_target_": "${generations}"}}},
    "node by interpolation": {"callbacks": {"x": "${report}"}},
    "launcher": {"launcher": {"_target_": "pandas.read_pickle"}},
    "sweeper": {"sweeper": {"_target_": "torch.load"}},
    "axis": {"sweeper": {"params": {"x": {"_target_": "sympy.sympify", "a": "1"}}}},
    "handler": {"job_logging": {**LOG, "handlers": {"x": {"class": "logging.FileHandler", "filename": "PROOF"}}}},
    "factory": {"hydra_logging": {**LOG, "handlers": {"x": {"()": "pathlib.Path", "a": "PROOF"}}}},
    "formatter": {"job_logging": {**LOG, "formatters": {"plain": {"()": "sympy.sympify", "a": "1"}}}},
    "formatter class": {"job_logging": {**LOG, "formatters": {"plain": {"class": "subprocess.Popen"}}}},
    "filter": {"job_logging": {**LOG, "filters": {"f": {"()": "os.system"}}}},
    "import": {"job_logging": {**LOG, "handlers": {"x": {"class": "logging.StreamHandler", "stream": "ext://os.sep"}}}},
    "axis of a cluster": {"sweeper": {"params": {"runtime.ray_address": "evil:6379"}}},
    "axis of remote code": {"sweeper": {"params": {"model.trust_remote_code": "true"}}},
    "axis of a launcher": {"sweeper": {"params": {"+hydra.launcher.address": "evil:6379"}}},
    "pretended words": {"overrides": {"task": ["runtime.ray_address=evil:6379"]}},
    "environment": {"job": {"env_set": {"PYTHONPATH": "/somewhere"}}},
    "environment copied": {"job": {"env_copy": ["PATH"]}},
}


def experiment(folder: Path, node: dict) -> tuple[str, ...]:
    """Write somebody's experiment; returns the words that choose it."""
    path = folder / "theirs" / "experiment" / "x.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("# @package _global_\n" + yaml.safe_dump(node).replace("PROOF", str(folder / "proof")))
    return ("--config-dir", str(path.parents[1]), "experiment=x", "plan_only=true", "num_examples=2")


@pytest.mark.thin(2)
@pytest.mark.parametrize("mode", [(), ("-m",)], ids=["run", "grid"])
@pytest.mark.parametrize("name", HOSTILE)
def test_no_class_but_ours_is_made(name, mode, tmp_path):
    done = openended(*mode, *experiment(tmp_path, {"hydra": HOSTILE[name]}), cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "--trust-config" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "proof").exists()


@pytest.mark.thin(2)
@pytest.mark.parametrize("mode", [(), ("-m",)], ids=["run", "grid"])
@pytest.mark.parametrize(
    ("launcher", "node"),
    [
        ("submitit", {"parameters": {"local_setup": ["touch PROOF"]}}),
        ("submitit", {"parameters": {"slurm_setup": ["touch PROOF"]}}),
        ("submitit", {"parameters": {"slurm_additional_parameters": {"wrap": "PROOF"}}}),
        ("ray", {"address": "evil:6379"}),
    ],
)
def test_a_file_sets_only_harmless_options_of_launchers(launcher, node, mode, tmp_path):
    defaults = [{"override /hydra/launcher": launcher}]
    done = openended(*mode, *experiment(tmp_path, {"defaults": defaults, "hydra": {"launcher": node}}), cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "name it in the command" in done.stderr
    assert not (tmp_path / "proof").exists()


def test_only_the_command_names_a_ray_cluster(tmp_path):
    words = experiment(tmp_path, {"runtime": {"ray_address": "evil:6379", "engine": "ray"}})
    done = openended(*words, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "runtime.ray_address" in done.stderr
    assert "name it in the command" in done.stderr
    typed = openended(*words, "runtime.ray_address=evil:6379", cwd=tmp_path)
    assert "name it in the command" not in typed.stderr


def test_only_the_command_allows_code_of_a_model(tmp_path):
    node = {"defaults": [{"override /model": "denoiser"}, {"override /decoder": "mdlm"}]}
    node["model"] = {"path": "somebody/mdlm", "revision": "0" * 40, "trust_remote_code": True}
    words = experiment(tmp_path, node)
    done = openended(*words, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "model.trust_remote_code: 'True' runs the code of a model of the hub: name it in the command" in done.stderr
    typed = openended(*words, "model.trust_remote_code=true", cwd=tmp_path)
    assert "name it in the command" not in typed.stderr


def test_a_launcher_refuses_line_breaks():
    with pytest.raises(SpecError, match="control characters"):
        Submitit(1, "slurm", "logs\ntouch proof", {})
    with pytest.raises(SpecError, match="slurm_partition"):
        Submitit(1, "slurm", "logs", {"slurm_partition": "a\ntouch proof"})


def test_a_grid_of_their_experiment_is_checked_job_by_job(tmp_path):
    words = experiment(tmp_path, {"hydra": HOSTILE["handler"]})
    done = openended("-m", *words[:2], "experiment=quickstart,x", "plan_only=true", cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert "--trust-config" in done.stderr
    assert not (tmp_path / "proof").exists()


def test_what_is_trusted_is_made(tmp_path):
    node = {**LOG, "handlers": {"x": {"class": "logging.FileHandler", "filename": "PROOF"}}}
    done = openended("--trust-config", *experiment(tmp_path, {"hydra": {"job_logging": node}}), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "proof").exists()


@pytest.mark.parametrize(
    "value", ["${oc.env:HF_TOKEN}", "x${oc.env:HF_TOKEN,none}", "${oc.decode:${oc.env:HF_TOKEN}}", "${${generations}:HF_TOKEN}"]
)  # fmt: skip
def test_no_configuration_reads_the_environment(value, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", KEY)
    words = experiment(tmp_path, {"model": {"label": value}, "generations": "oc.env"})
    done = openended(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert KEY not in done.stderr + done.stdout
    assert "--trust-config" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_trusted_configuration_reads_it(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENENDED_TEST_LABEL", "mine")
    words = experiment(tmp_path, {"model": {"label": "${oc.env:OPENENDED_TEST_LABEL}"}})
    assert openended("--trust-config", *words, cwd=tmp_path).returncode == 0
