"""The Ray launcher around its engine: what each worker gets, jobs whose workers die, options refused, nothing installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from openended.harness.app.hydra import ray_launcher
from openended.harness.app.hydra.jobfile import JobFile
from openended.harness.app.hydra.parent_watch import identify_process
from openended.harness.app.hydra.ray_launcher import GridWorker, Ray
from openended.harness.backends.ray.cluster import WorkerDeath
from openended.harness.core.errors import DataError, SpecError
from tests.harness.app.hydra.test_launchers import job


def ray(**options) -> Ray:
    words = {"workers": 2, "address": None, "cpus_per_worker": 1, "gpus_per_worker": None, "resources": {}}
    return Ray(**{**words, **options})


class Engine:
    """Ray without Ray: notes what is asked of it."""

    def __init__(self, *nodes: dict[str, float]) -> None:
        self.nodes_, self.asked, self.made = nodes, {}, []

    def nodes(self):
        return [{"Alive": True, "Resources": node} for node in self.nodes_] + [
            {"Alive": False, "Resources": {"GPU": 9}}
        ]

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
    def start(launcher: Ray, *nodes: dict[str, float]) -> Engine:
        made = Engine(*nodes)
        monkeypatch.setattr(ray_launcher, "connect_to_ray", lambda *_, **__: made)
        monkeypatch.setattr(ray_launcher, "ActorPool", lambda ray, actors, **_: actors)
        launcher._config = OmegaConf.create({"hydra": {"sweep": {"dir": str(tmp_path)}}})
        launcher._create_actors()
        return made

    return start


def test_each_worker_gets_its_share_and_a_file_to_speak_into(engine, tmp_path):
    made = engine(ray(workers=3, cpus_per_worker=4, resources={"big": 1}), {"CPU": 8.0, "GPU": 2.0, "big": 2.0})
    assert made.asked == {"num_cpus": 4, "num_gpus": 1.0, "resources": {"big": 1.0}, "max_restarts": -1}
    assert [Path(said).name for _, said, _, _ in made.made] == ["worker-0.err", "worker-1.err", "worker-2.err"]
    assert made.made[0][0] == str(Path.cwd())
    none = engine(ray(gpus_per_worker=0), {"CPU": 8.0, "GPU": 2.0})
    assert none.asked["num_gpus"] == 0
    assert none.made[0][2]["CUDA_VISIBLE_DEVICES"] == ""
    assert engine(ray(), {"CPU": 8.0}).asked["num_gpus"] == 0, "of a node that is gone nothing is counted"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cpus_per_worker": 4}, "each worker needs 4 CPU, no node has more than 2"),
        ({"gpus_per_worker": 1}, "each worker needs 1 GPU, no node has more than 0"),
        ({"resources": {"big": 2}}, "each worker needs 2 big, no node has more than 1"),
    ],
)
def test_what_no_node_has_is_refused(engine, options, said):
    with pytest.raises(SpecError, match=said):
        engine(ray(**options), {"CPU": 2.0, "big": 1.0})


def test_options_that_are_not_accepted_are_named():
    for options, said in (
        ({"workers": 0}, r"hydra\.launcher\.workers: expected 1 or more, got 0"),
        ({"cpus_per_worker": 0}, r"hydra\.launcher\.cpus_per_worker: expected 1 or more"),
        ({"gpus_per_worker": -1}, r"hydra\.launcher\.gpus_per_worker: expected 0 or more, or null"),
    ):
        with pytest.raises(SpecError, match=said):
            ray(**options)


def test_a_job_whose_workers_died_is_told(tmp_path, monkeypatch, caplog):
    class Actors:
        def map(self, calls, lost):
            lost(1, 0, "out of memory")
            yield 1, None
            yield 0, WorkerDeath("out of memory")

    launcher = ray()
    monkeypatch.setattr(launcher, "_create_actors", Actors)
    jobs = [job(tmp_path, number) for number in range(2)]
    launcher._config = jobs[0]
    launcher._run(jobs)
    assert "its worker 1 died (out of memory?); trying it once more" in caplog.text
    assert JobFile(jobs[0].hydra).state == "failed"
    assert "was killed twice" in JobFile(jobs[0].hydra).path.read_text()


def test_without_ray_one_line_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    launcher = ray()
    with pytest.raises(Exception, match=r"pip install 'openended\[ray\]'"):
        launcher._run([job(tmp_path)])


def test_a_machine_that_does_not_see_the_folder(tmp_path):
    with pytest.raises(DataError, match="every machine needs it under this path"):
        GridWorker(str(tmp_path / "none"), os.devnull, {}, identify_process())
