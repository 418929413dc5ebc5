"""Ray's actors: the same bytes as one process, whoever does the work and whoever dies meanwhile."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from openended.harness.backends.ray import cluster as engine
from openended.harness.backends.ray.backend import load_ray_backend
from openended.harness.backends.ray.cluster import Cluster, allocate_resources, warn_if_full
from openended.harness.core import DataError, ExtraNotInstalled, Runtime, SpecError, Terminated
from openended.harness.decoders import Nucleus, Prompt
from openended.harness.models import EmbedderSpec, embed_and_score, list_bundled_models
from openended.harness.run import Session, run
from openended.harness.storage.store import Store
from tests.harness.run.small import ONE_MODEL, settings
from tests.helpers import ROOT, cases, check_error, embedding, generate, generation, q_request, ragged

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (extra `ray`)"),
    pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there"),
]
WORDS = (*ONE_MODEL, "decoder=ancestral", "metric=[gen_ppl,frechet,sparsemax_score]", "runtime.progress=false",
         "runtime.device=cpu", "runtime.threads=1", "runtime.batch_size=2")  # fmt: skip
SPREAD = (*WORDS, "runtime.engine=ray", "runtime.workers=2")


def stored(folder: Path) -> dict[str, bytes]:
    files = [p for p in (folder / "out" / "store").glob("*/*/*/*") if p.is_file() and p.name != "manifest.json"]
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process leaves."""
    folder = tmp_path_factory.mktemp("local")
    chosen = settings(folder, *WORDS)
    run(chosen, Session(Store(chosen.outputs_dir / "store")))
    return folder


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Two workers with the model, on a cluster of this test's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_STORE", 80 << 20)
        patch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # a cluster that somebody named is not the one of this machine alone
        ray = engine.connect_to_ray(None, "runtime.ray_address", cpus=2)
    made = Session(Store(Path(os.devnull)))
    made.model(settings_model(), settings(tmp_path_factory.mktemp("workers"), *SPREAD).runtime)
    yield made
    ray.shutdown()


def cluster_of(session: Session) -> Cluster:
    assert session._workers is not None
    return session._workers[1]


def wait_for_actors(cluster: Cluster) -> None:
    while len(cluster.pool.idle) < 2:
        cluster.pool.next([])


@pytest.mark.slow
def test_a_run_leaves_the_bytes_of_one_process(local, session, tmp_path):
    chosen = settings(tmp_path, *SPREAD, f"task.path={local / 'own.jsonl'}")
    session.store = Store(chosen.outputs_dir / "store")
    run(chosen, session)
    assert stored(tmp_path) == stored(local)
    assert session.loads == ["docs-s by 2 workers"]
    assert cluster_of(session).count == 2


PROMPTS = [Prompt(f"t/{i:02d}", 0, tuple(range(5, 9 + i % 3))) for i in range(12)]
BEFORE = ragged([prompt.token_ids for prompt in PROMPTS])
AFTER = ragged([range(7, 12 + i) for i in range(12)])


def generated(lm, then=None) -> list:
    return generate(lm, PROMPTS, Nucleus(p=0.9), then, seed=1, max_new_tokens=8, batch_size=1)


def featurized(lm, then=None) -> list[bytes]:
    embedder = EmbedderSpec(path="bundled:docs-s")
    request = embedding(BEFORE, AFTER, embedder, include_prompt=True, batch_size=2)
    (vectors, _), nll = embed_and_score(lm, request, then)
    return [vectors.tobytes(), nll.values.tobytes()]


def teacher_forced(lm, then=None) -> list[bytes]:
    (stats,) = lm.q_statistics(q_request(BEFORE, AFTER, [Nucleus(p=0.9)], batch_size=2), advance=then)
    return [getattr(stats, name).tobytes() for name in ("gold_prob", "sum_sq", "support", "argmax")]


@pytest.mark.long
def test_any_number_of_workers_and_one_killed_in_the_middle(session, caplog):
    """All with the workers of this file: to start one is what takes long."""
    cluster = cluster_of(session)
    here, there = settings_model().load(), load_ray_backend(cluster, settings_model())
    tasks = {"generate": generated, "forward": featurized, "q_statistics": teacher_forced}
    want = {name: task(here) for name, task in tasks.items()}
    wait_for_actors(cluster)
    resting = cluster.pool.idle.popleft()
    cluster.count = 1
    assert {name: task(there) for name, task in tasks.items()} == want
    cluster.pool.idle.append(resting)
    cluster.count = 2
    for name in ("forward", "generate"):
        wait_for_actors(cluster)
        killed: list[int] = []

        def kill_one(_: object, killed: list[int] = killed) -> None:
            busy = set(range(2)) - set(cluster.pool.idle) - set(cluster.pool.coming.values())
            if not killed and busy:
                killed.append(busy.pop())
                engine.load_ray().kill(cluster.pool.actors[killed[0]], no_restart=False)

        with caplog.at_level(logging.WARNING):
            assert tasks[name](there, kill_one) == want[name]
        assert [r.message for r in caplog.records if f"worker {killed[0]} died while it did {name}" in r.message]


@pytest.mark.slow
def test_what_a_worker_refuses_is_told_as_if_it_were_here(session):
    cluster = cluster_of(session)
    lm = load_ray_backend(cluster, settings_model())
    request = generation([Prompt("a", 0, (5,))], Nucleus(p=0.9), seed=0, max_new_tokens=5000, batch_size=1)
    check_error(SpecError, "max_new_tokens", lm.generate, request, print)
    check_error(AttributeError, "no_such_task", list, cluster.map("no_such_task", [()]))
    assert len(list(cluster.map("describe_model", [(lm.source,)] * 2))) == 2, "it goes on after both"


@pytest.mark.long
def test_a_chunk_that_ends_its_worker_again_and_again_is_to_blame(session, monkeypatch):
    cluster = cluster_of(session)
    monkeypatch.setattr(engine, "DEATHS", 1)
    monkeypatch.setattr(cluster.pool, "_deaths", 1)
    wait_for_actors(cluster)
    lm = load_ray_backend(cluster, settings_model())

    def kill_all(_: object) -> None:
        for who in set(range(2)) - set(cluster.pool.idle) - set(cluster.pool.coming.values()):
            engine.load_ray().kill(cluster.pool.actors[who], no_restart=True)

    prompts = [Prompt(f"t/{i}", 0, (5,)) for i in range(12)]
    with pytest.raises(DataError, match=r"chunk \d+ of 12 ended its worker 1 times while it did generate"):
        lm.generate(generation(prompts, Nucleus(p=0.9), seed=0, max_new_tokens=30, batch_size=1), kill_all)


def settings_model():
    from openended.harness.models.spec import ModelSpec

    return ModelSpec(path="bundled:docs-s")


@pytest.mark.parametrize("given", [{"workers": 8}, {"gpus_per_worker": 0.5}, {"ray_address": "auto"}])
def test_an_option_about_workers_asks_for_them(given):
    (option,) = given
    assert Runtime(**given).spread
    assert Runtime(engine="ray").spread
    assert not Runtime().spread
    check_error(SpecError, rf"runtime\.{option}: expected null with engine=local", Runtime, engine="local", **given)


def test_without_ray_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    check_error(ExtraNotInstalled, r"ray is not installed; pip install 'openended\[ray\]'", engine.load_ray)
    for asked in ({"engine": "ray"}, {"workers": 8}):
        check_error(ExtraNotInstalled, r"pip install 'openended\[ray\]'", Runtime, **asked)
    Runtime()


@pytest.mark.long
def test_a_driver_that_is_killed_goes_on_from_its_parts(tmp_path, local):
    """SIGKILL: the workers end too, and the same command finds the texts that were finished."""
    words = ["decoder=ancestral", "num_examples=60", "max_new_tokens=100", "metric=[distinct_n]", "runtime.threads=1"]
    many = ["runtime.engine=ray", "runtime.workers=2", "runtime.batch_size=1", "runtime.flush_seconds=0"]
    command = [sys.executable, "-m", "openended", "-v", *words]
    options = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    first = subprocess.Popen([*command, *many, "outputs_dir=there"], **options, **quiet)
    until = time.monotonic() + 120
    while not list(tmp_path.glob("there/store/generate/*/*/block-*")) and time.monotonic() < until:
        time.sleep(0.2)
    first.send_signal(signal.SIGKILL)
    first.wait(timeout=240)
    assert list(tmp_path.glob("there/store/generate/*/*/block-*"))
    options |= {"capture_output": True, "timeout": 240}
    again = subprocess.run([*command, *many, "outputs_dir=there"], text=True, check=True, **options)
    assert "resuming after" in again.stderr
    subprocess.run([*command, "outputs_dir=here"], check=True, **options)
    (there,), (here,) = (list(tmp_path.glob(f"{name}/store/generate/*/*/data.arrow")) for name in ("there", "here"))
    assert there.read_bytes() == here.read_bytes()


def test_sigterm_while_ray_starts_ends_the_command_as_elsewhere(monkeypatch):
    """Ray's `init` sets a handler of its own, which leaves with code 15."""
    import types

    def init(**_):
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))
        os.kill(os.getpid(), signal.SIGTERM)

    starting = types.SimpleNamespace(is_initialized=lambda: False, init=init)
    monkeypatch.setattr(engine, "load_ray", lambda: starting)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Terminated):
        engine.connect_to_ray(None, "runtime.ray_address", cpus=1)
    assert signal.getsignal(signal.SIGTERM) is before


@cases(
    "options, nodes, want",
    ({}, [{"CPU": 8.0}], (0, 1, 8)),
    ({"workers": 2}, [{"CPU": 8.0}], (0, 2, 4)),
    ({"workers": 3}, [{"CPU": 8.0}, {"CPU": 8.0}], (0, 3, 4)),  # five each would leave no room for the third
    ({"workers": 2, "threads": 1}, [{"CPU": 8.0}], (0, 2, 1)),
    ({"workers": 9}, [{"CPU": 2.0}], (0, 9, 1)),
    ({}, [{"CPU": 8.0}, {"CPU": 8.0}], (0, 2, 8)),
    ({}, [{"CPU": 8.0, "GPU": 4.0}, {"CPU": 8.0, "GPU": 2.0}], (1, 6, 1)),
    ({"gpus_per_worker": 0.5}, [{"CPU": 8.0, "GPU": 1.0}], (0.5, 2, 1)),
    ({"gpus_per_worker": 0.2}, [{"CPU": 8.0, "GPU": 1.0}], (0.2, 5, 1)),
    ({"gpus_per_worker": 0.6}, [{"CPU": 8.0, "GPU": 2.0}], (0.6, 2, 1)),  # no part of a GPU spans two
    ({"gpus_per_worker": 2.0}, [{"CPU": 8.0, "GPU": 3.0}, {"CPU": 8.0, "GPU": 2.0}], (2, 2, 1)),
    ({"device": "cpu"}, [{"CPU": 8.0, "GPU": 4.0}], (0, 1, 8)),
    ({"gpus_per_worker": 0.0}, [{"CPU": 8.0, "GPU": 4.0}], (0, 1, 8)),
)
def test_what_each_worker_gets(options, nodes, want):
    assert allocate_resources(Runtime(engine="ray", **options), nodes) == want


@pytest.mark.parametrize(
    ("count", "needs", "room"),
    [(2, {"CPU": 1, "GPU": 1.0}, 2), (8, {"CPU": 1, "GPU": 1.0}, 3), (8, {"CPU": 1, "GPU": 0.5}, 6), (4, {"CPU": 4, "GPU": 0.0}, 3)],
)  # fmt: skip
def test_more_workers_than_the_cluster_has_room_for_are_told(count, needs, room, caplog):
    warn_if_full([{"CPU": 8.0, "GPU": 2.0}, {"CPU": 4.0, "GPU": 1.0}, {}], count, needs)
    has_warned = f"room for {room} of {count} workers now" in caplog.text
    assert has_warned == (room < count)


def test_gpus_that_are_not_there():
    with pytest.raises(SpecError, match="expected at most the cluster's 0 GPUs, got 1"):
        allocate_resources(Runtime(engine="ray", gpus_per_worker=1.0), [{"CPU": 2.0}])
    with pytest.raises(SpecError, match=r"set runtime\.gpus_per_worker=1"):
        allocate_resources(Runtime(engine="ray", device="cuda"), [{"CPU": 2.0}])
