"""What a launcher does before and after its engine: jobs composed and cut into parts, jobs lost, options refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra import initialize_config_module
from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf

from openended.harness.app.hydra import launchers
from openended.harness.app.hydra.jobfile import JobFile
from openended.harness.app.hydra.launchers import ClusterJob, Joblib, Submitit, mark_lost, split_into_neighbors
from openended.harness.app.hydra.parent_watch import identify_process
from openended.harness.core.errors import ExtraNotInstalled, SpecError


def submitit(folder: Path, **parameters: object) -> Submitit:
    return Submitit(processes=2, cluster="local", folder=str(folder), parameters=parameters)


def job(grid: Path, number: int = 0, state: str | None = None) -> DictConfig:
    hydra = {"overrides": {"task": [f"seed={number}"]}, "sweep": {"dir": str(grid)}, "job": {"num": number}}
    config = OmegaConf.create({"hydra": hydra})
    if state is not None:
        JobFile(config.hydra).write(state)
    return config


@pytest.mark.parametrize(
    ("jobs", "processes", "sizes"),
    [(7, 3, [2, 2, 3]), (8, 3, [2, 3, 3]), (6, 3, [2, 2, 2]), (2, 5, [1, 1]), (5, 1, [5]), (0, 4, [])],
)
def test_neighbours_stay_together_in_parts_as_even_as_can_be(jobs, processes, sizes):
    parts = [list(part) for part in split_into_neighbors(list(range(jobs)), processes)]  # type: ignore[arg-type]
    assert [len(part) for part in parts] == sizes
    assert [one for part in parts for one in part] == list(range(jobs))


def test_a_job_is_composed_with_its_number_and_without_bars(tmp_path):
    launcher = Joblib(processes=2)
    with pytest.raises(RuntimeError, match="launch before setup"):
        launcher._compose(["seed=3"], 4)
    with initialize_config_module("openended.conf", version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        master = loader.load_configuration("config", ["hydra.mode=MULTIRUN", "hydra.verbose=true"], RunMode.MULTIRUN)
        context = HydraContext(config_loader=loader, callbacks=Callbacks())
        launcher.setup(hydra_context=context, task_function=lambda _: None, config=master)
        made = launcher._compose(["seed=3", "decoder=greedy"], 4)
    assert (made.seed, made.hydra.runtime.choices.decoder, made.hydra.verbose) == (3, "greedy", True)
    assert (made.hydra.job.num, made.hydra.job.id) == (4, "4")
    assert list(made.hydra.overrides.task) == ["seed=3", "decoder=greedy"]
    assert (made.runtime.progress, master.runtime.progress) == (False, True)


def test_after_a_kill_those_that_ran_are_tried_alone_and_those_that_waited_go_on(tmp_path):
    done, ran, waits = job(tmp_path, 0, "done"), job(tmp_path, 1, "running"), job(tmp_path, 2)
    assert launchers._split_after_kill([done, ran, waits]) == ([waits], [ran])
    # Killed before it could say that it runs: then it may be any of those that wait.
    assert launchers._split_after_kill([done, waits]) == ([], [waits])


def test_joblib_tries_a_killed_job_once_more_and_then_loses_it(tmp_path, monkeypatch, caplog):
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    asked = []

    def pool(_, configs):
        asked.append([config.hydra.job.num for config in configs])
        for config in configs:
            JobFile(config.hydra).write("running")
            if config.hydra.job.num == 1:
                raise TerminatedWorkerError("killed")
            JobFile(config.hydra).write("done")

    monkeypatch.setattr(Joblib, "_pool", pool)
    jobs = [job(tmp_path, number) for number in range(3)]
    Joblib(processes=2)._run(jobs)
    assert asked == [[0, 1, 2], [2], [1]]
    assert [JobFile(one.hydra).state for one in jobs] == ["done", "failed", "done"]
    assert caplog.text.count("trying it once more") == 1


def test_a_lost_job_says_why(tmp_path):
    one = job(tmp_path)
    mark_lost([one], "its process was killed twice")
    assert JobFile(one.hydra).state == "failed"
    assert "its process was killed twice" in JobFile(one.hydra).path.read_text()


def test_parts_that_died_are_tried_once_more_what_ran_last(tmp_path, monkeypatch):
    """With an executor that starts nothing: the first part ends well, the second dies twice while its first job runs."""
    import submitit as engine

    rounds = []

    class Executor:
        cluster = "slurm"

        def __init__(self, **_):
            pass

        def update_parameters(self, **words):
            assert words == {"timeout_min": 3}  # null is not given

        def batch(self):
            rounds.append([])
            return launchers._redirect_stderr(tmp_path, here=False)

        def submit(self, part):
            rounds[-1].append([config.hydra.job.num for config in part.configs])
            for config in part.configs:
                dies = config.hydra.job.num == 2
                JobFile(config.hydra).write("running" if dies else "done")
                if dies:
                    break
            paths = SimpleNamespace(stderr=tmp_path / "its.err")
            return SimpleNamespace(done=lambda: True, exception=lambda: None, paths=paths)

    monkeypatch.setattr(engine, "AutoExecutor", Executor)
    launcher = submitit(tmp_path, timeout_min=3, mem_gb=None)
    launcher._config = job(tmp_path)
    jobs = [job(tmp_path, number) for number in range(4)]
    launcher._run(jobs)
    assert rounds == [[[0, 1], [2, 3]], [[3, 2]]]
    assert [JobFile(one.hydra).state for one in jobs] == ["done", "done", "failed", "done"]
    assert "ended twice before it was done" in JobFile(jobs[2].hydra).path.read_text()
    assert "its.err" in JobFile(jobs[2].hydra).path.read_text()


def test_a_part_that_is_preempted_is_submitted_again_whole(tmp_path):
    part = ClusterJob([job(tmp_path)], identify_process())
    assert part.checkpoint().function is part


def test_the_errors_of_local_controllers_go_to_a_file_and_ours_to_the_terminal_again(tmp_path, capfd):
    path = tmp_path / "logs" / "controllers.err"
    with launchers._redirect_stderr(path, here=True):
        os.write(2, b"theirs\n")
    os.write(2, b"ours\n")
    assert path.read_text() == "theirs\n"
    assert capfd.readouterr().err == "ours\n"


def test_a_cluster_without_its_extra_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(ExtraNotInstalled, match=r"submitit is not installed; pip install 'openended\[slurm\]'"):
        submitit(tmp_path)._run([])


def test_options_that_are_not_accepted_are_named(tmp_path):
    with pytest.raises(SpecError, match=r"hydra\.launcher\.processes: expected 2 or more, got 1"):
        Joblib(processes=1)
    with pytest.raises(SpecError, match=r"hydra\.launcher\.processes: expected 1 or more, got 0"):
        Submitit(processes=0, cluster="auto", folder=str(tmp_path), parameters={})
    with pytest.raises(SpecError, match=r"hydra\.launcher\.cluster: expected auto, slurm or local, got 'pbs'"):
        Submitit(processes=1, cluster="pbs", folder=str(tmp_path), parameters={})
    with pytest.raises(SpecError, match=r"hydra\.launcher\.parameters: .*nonsense"):
        submitit(tmp_path, nonsense=1)._run([])
