"""Launchers around their engines: jobs cut into parts, jobs that are lost, workers that end with their parent."""

import logging
import os
import sys
from pathlib import Path

import pytest

from openended.harness.app.hydra import launchers
from openended.harness.app.hydra.command_line import LogOptions
from openended.harness.app.hydra.compose import Job
from openended.harness.app.hydra.launchers import ClusterJob, Joblib, Submitit, split_into_neighbors
from openended.harness.app.hydra.ray_launcher import GridWorker, Ray
from openended.harness.core import DataError, ExtraNotInstalled, SpecError, temporary_files
from openended.harness.results import read_jobs
from tests.helpers import cases, check_error

OPTIONS = LogOptions()


def submitit(folder: Path, **parameters: object) -> Submitit:
    return Submitit(processes=2, cluster="local", folder=str(folder), parameters=parameters)


def job(grid: Path, number: int = 0) -> Job:
    return Job((f"seed={number}",), None, None, grid, number, f"seed={number}", f"job {number}")


@pytest.mark.parametrize(
    ("jobs", "processes", "sizes"),
    [(7, 3, [2, 2, 3]), (8, 3, [2, 3, 3]), (6, 3, [2, 2, 2]), (2, 5, [1, 1]), (5, 1, [5]), (0, 4, [])],
)
def test_neighbours_stay_together_in_parts_as_even_as_can_be(jobs, processes, sizes):
    parts = [list(part) for part in split_into_neighbors(list(range(jobs)), processes)]  # type: ignore[arg-type]
    assert [len(part) for part in parts] == sizes
    assert [one for part in parts for one in part] == list(range(jobs))


def test_joblib_tries_a_killed_job_once_more_and_then_loses_it(tmp_path, monkeypatch):
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    pools = []

    def run_pool(_, jobs, options):
        pools.append([one.number for one in jobs])
        for one in jobs:
            one.write_state("running")
            if one.number == 1:
                raise TerminatedWorkerError("killed")
            one.write_state("done")

    monkeypatch.setattr(Joblib, "_run_pool", run_pool)
    Joblib(processes=2).run([job(tmp_path, number) for number in range(3)], OPTIONS)
    assert pools == [[0, 1, 2], [2], [1]]
    assert [row["state"] for row in read_jobs(tmp_path)] == ["done", "failed", "done"]
    assert "its process was killed twice" in read_jobs(tmp_path)[1]["error"]


def test_a_part_that_is_preempted_is_submitted_again_whole(tmp_path):
    part = ClusterJob([job(tmp_path)], OPTIONS, temporary_files.build_process_tag())
    assert part.checkpoint().function is part


def test_the_errors_of_local_controllers_go_to_a_file_and_ours_to_the_terminal_again(tmp_path, capfd):
    path = tmp_path / "logs" / "controllers.err"
    with launchers._redirect_stderr(path, here=True):
        os.write(2, b"theirs\n")
    os.write(2, b"ours\n")
    assert path.read_text() == "theirs\n"
    assert capfd.readouterr().err == "ours\n"


@pytest.mark.parametrize(("extra", "make"), [("slurm", submitit), ("ray", lambda _: Ray())])
def test_an_engine_without_its_extra_says_what_to_install(extra, make, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit" if extra == "slurm" else "ray", None)
    check_error(ExtraNotInstalled, rf"pip install 'openended\[{extra}\]'", make(tmp_path).run, [job(tmp_path)], OPTIONS)


@cases("folder, partition, option", ("logs\ntouch proof", "a", "folder"), ("logs", "a\ntouch proof", "slurm_partition"))
def test_no_option_ends_a_line_of_the_script_of_sbatch(folder, partition, option):
    with pytest.raises(SpecError, match=f"{option}: expected a text without control characters"):
        Submitit(folder=folder, parameters={"slurm_partition": partition})


def test_the_lines_of_a_worker_name_its_job(tmp_path, monkeypatch, capsys):
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    handle = root.handlers.__setitem__
    monkeypatch.setattr(LogOptions, "apply", lambda _: handle(slice(None), [logging.StreamHandler()]))

    class Runner:
        def run_job(self, one):
            logging.getLogger("openended.harness.run.steps").warning("made %d", one.number)
            logging.getLogger("openended.harness.app.hydra.jobs").warning("grid %s", one.title)

    monkeypatch.setattr(launchers, "_runners", [Runner()])
    launchers.run_jobs([job(tmp_path, 0), job(tmp_path, 1)], OPTIONS, temporary_files.build_process_tag())
    assert capsys.readouterr().err.splitlines() == ["[seed=0] made 0", "grid seed=0", "[seed=1] made 1", "grid seed=1"]


class Engine:
    """Ray without Ray: notes what is asked of it."""

    def __init__(self, *nodes: dict[str, float]) -> None:
        self.nodes_, self.asked, self.made = nodes, {}, []

    def nodes(self):
        dead = {"Alive": False, "Resources": {"GPU": 9}}
        return [*({"Alive": True, "Resources": node} for node in self.nodes_), dead]

    def remote(self, _):
        return self

    def options(self, **words):
        self.asked |= words
        outer = self

        class Made:
            def remote(self, *facts):
                outer.made.append(facts)

        return Made()


@pytest.fixture
def engine(monkeypatch, tmp_path):
    from openended.harness.backends.ray import cluster

    def start(launcher: Ray, *nodes: dict[str, float]) -> Engine:
        made = Engine(*nodes)
        monkeypatch.setattr(cluster, "connect_to_ray", lambda *_, **__: made)
        monkeypatch.setattr(cluster, "ActorPool", lambda ray, actors, **_: actors)
        launcher._create_actors(tmp_path)
        return made

    return start


def test_each_worker_gets_its_share_and_a_file_to_speak_into(engine):
    made = engine(Ray(workers=3, cpus_per_worker=4, resources={"big": 1}), {"CPU": 8.0, "GPU": 2.0, "big": 2.0})
    assert made.asked == {"num_cpus": 4, "num_gpus": 1.0, "resources": {"big": 1.0}, "max_restarts": -1}
    assert [Path(errors_path).name for _, errors_path, _, _ in made.made] == [
        "worker-0.err",
        "worker-1.err",
        "worker-2.err",
    ]
    assert made.made[0][0] == str(Path.cwd())
    none = engine(Ray(gpus_per_worker=0), {"CPU": 8.0, "GPU": 2.0})
    assert none.asked["num_gpus"] == 0
    assert none.made[0][2]["CUDA_VISIBLE_DEVICES"] == ""
    assert engine(Ray(), {"CPU": 8.0}).asked["num_gpus"] == 0, "of a node that is gone nothing is counted"


@cases(
    "options, message",
    ({"cpus_per_worker": 4}, "each worker needs 4 CPU, no node has more than 2"),
    ({"gpus_per_worker": 1}, "each worker needs 1 GPU, no node has more than 0"),
    ({"resources": {"big": 2}}, "each worker needs 2 big, no node has more than 1"),
)
def test_what_no_node_has_is_refused(engine, options, message):
    check_error(SpecError, message, engine, Ray(**options), {"CPU": 2.0, "big": 1.0})


def test_a_machine_that_does_not_see_the_folder(tmp_path):
    with pytest.raises(DataError, match="every machine needs it under this path"):
        GridWorker(str(tmp_path / "none"), os.devnull, {}, temporary_files.build_process_tag())
