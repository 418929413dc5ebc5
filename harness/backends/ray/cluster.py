"""Workers as Ray actors: what runs in one, and how chunks are sent to them and sent again when an actor dies.

An actor's process that dies is started again by Ray, on another node if its own is gone; meanwhile the others go on.
"""

import logging
import os
import platform
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from logging.handlers import BufferingHandler
from typing import Any, NamedTuple

import numpy as np

from openended.harness import core, models
from openended.harness.core import F64, DataError, Floats, Generation, HarnessError, Runtime, SpecError, Terminated
from openended.harness.decoders import GenerationRequest
from openended.harness.models import EmbedderSpec, ForwardRequest, ModelSpec

log = logging.getLogger(__name__)

DEATHS = 4  # workers that may die on one chunk before the chunk is given up
PATIENCE = 60.0  # seconds without any worker after which a warning is logged
_STORE = 256 << 20  # bytes of Ray's shared memory in our own cluster: chunks are small and taken at once
# Unless the user set them: no usage reports over the network, and no warning about num_gpus=0.
_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


def load_ray() -> Any:  # noqa: ANN401 - the package
    """Import Ray."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    core.require_package("ray", "ray")
    import ray
    import ray.exceptions

    return ray


def connect_to_ray(address: str | None, option: str, *, cpus: int | None = None) -> Any:  # noqa: ANN401 - the package
    """Connect to a cluster, or start one in this machine's processes; return the initialized package.

    Args:
        address: `auto` or `host:port` of a cluster that runs; None: one of our own, which ends with this process.
        option: What the user set to that address, for messages.
        cpus: CPUs of our own cluster at least; where one is joined they are counted already.
    """
    ray = load_ray()
    if ray.is_initialized():  # by an earlier job, or by the Python program that calls this one
        return ray
    arguments: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
    if address is None:
        most = max(os.cpu_count() or 1, cpus or 1)
        # `local`: without an address Ray joins what RAY_ADDRESS or the last cluster of this machine names.
        arguments |= {"address": "local", "num_cpus": most, "include_dashboard": False, "object_store_memory": _STORE}
    else:
        arguments["address"] = address
    previous_handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**arguments)
    except (ConnectionError, RuntimeError, ValueError, OSError) as err:
        raise DataError(
            f"{option}={address or 'null'}: no Ray cluster to work with ({core.shorten_error(err)})"
        ) from err
    except SystemExit:  # from Ray's own handler of SIGTERM, which `init` sets first
        raise Terminated from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, previous_handler)
    return ray


AnyModel = ModelSpec | EmbedderSpec


class RemoteModelRef(NamedTuple):
    """Reference to a model that a worker loads."""

    spec: AnyModel  # of a model in a folder, with the folder's whole path
    identity: str  # digest of what makes two models the same one: every machine must have the same files


class WorkerAnswer(NamedTuple):
    """A worker's result, warnings and error."""

    value: Any
    remarks: tuple[str, ...]  # what it would have said on its own terminal
    error: tuple[str, str] | None = None  # class and message of an error that is about the user's input


class Worker:
    """Holds models and passes rows through them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._models = models.ModelCache()
        self._verified: set[RemoteModelRef] = set()

    def ready(self) -> int:
        return os.getpid()

    def do(self, task: str, arguments: Sequence[Any]) -> WorkerAnswer:
        """Run one of the tasks below."""
        warnings, logger = BufferingHandler(sys.maxsize), logging.getLogger("openended")
        warnings.setLevel(logging.WARNING)
        logger.addHandler(warnings)  # a worker's own terminal would hide them
        value: Any = None
        error: tuple[str, str] | None = None
        try:
            value = getattr(self, task)(*arguments)
        except HarnessError as err:
            error = type(err).__name__, str(err)
        finally:
            logger.removeHandler(warnings)
        return WorkerAnswer(value, tuple(record.getMessage() for record in warnings.buffer), error)

    def describe_model(self, model: RemoteModelRef) -> dict[str, Any]:
        """Return the fields of a `LanguageModel` that are known without its weights."""
        lm = self._load(model)
        names = ("device", "dtype", "eos_ids", "vocab_size", "context_length", "added_ids")
        return {"model": None, "facts": lm.provenance(), **{name: getattr(lm, name) for name in names}}

    def generate(
        self, model: RemoteModelRef, companions: Mapping[str, RemoteModelRef], request: GenerationRequest
    ) -> list[Generation]:
        """Continue prompts; the request gets its companions here."""
        texts: list[Generation] = []
        others = {name: self._load(model_ref) for name, model_ref in companions.items()}
        self._load(model).generate(replace(request, companions=others), texts.extend)
        return texts

    def forward(
        self, model: RemoteModelRef, request: ForwardRequest, scored: tuple[int, ...] | None
    ) -> tuple[list[Floats], F64 | None]:
        """Run a model over sequences; returns vectors, a row for each sequence that begins one, and scores."""
        nll, pool = None if scored is None else np.full(scored, np.nan), request.pool
        if pool is not None:
            pool = replace(pool, rows=sum(job.row >= 0 for job in request.rows), vectors=[])
        self._load(model).forward(replace(request, pool=pool, nll=nll))
        return ([] if pool is None else pool.vectors), nll

    def sketch_gradients(self, model: RemoteModelRef, request: models.GradientRequest) -> Any:  # noqa: ANN401
        return self._load(model).sketch_gradients(request)

    def q_statistics(self, model: RemoteModelRef, request: models.QStatisticsRequest) -> Any:  # noqa: ANN401
        return self._load(model).q_statistics(request)

    def _load(self, model: RemoteModelRef) -> Any:  # noqa: ANN401 - a language model, of either kind
        if model not in self._verified:
            if core.digest(model.spec.identity()) != model.identity:
                raise DataError(
                    f"model {model.spec.title}: the worker on {platform.node()} has other files than the run's own "
                    "machine; all need the same ones (a folder that all see, or a hub id with its revision)"
                )
            self._verified.add(model)
        spec = model.spec
        if isinstance(spec, EmbedderSpec):
            return self._models.embedder(spec, self._runtime)
        return self._models.model(spec, self._runtime)


class WorkerDeath(NamedTuple):
    """Result of a chunk whose workers all died."""

    reason: str  # what Ray said of the last one


class ActorPool:
    """A pool of Ray actors that take one call at a time; an actor has methods `ready` and `do`.

    `deaths` actors may die over one chunk; `option` is what the user set to have them.
    """

    def __init__(self, ray: Any, actors: Sequence[Any], *, deaths: int, option: str) -> None:  # noqa: ANN401
        self._ray, self.actors, self._deaths, self._option = ray, actors, deaths, option
        self.idle: deque[int] = deque()
        self.coming = {self._call(who): who for who in range(len(actors))}  # pending answer → its started worker

    def map(
        self, calls: Sequence[Sequence[Any]], report_death: Callable[[int, int, str], None]
    ) -> Iterator[tuple[int, Any]]:
        """Run the calls on the actors; yield (number of the call, its answer or `WorkerDeath`) as they end."""
        waiting, deaths = deque(range(len(calls))), Counter[int]()
        running: dict[Any, tuple[int, int]] = {}
        try:
            while waiting or running:
                while waiting and self.idle:
                    who, number = self.idle.popleft(), waiting.popleft()
                    running[self.actors[who].do.remote(*calls[number])] = who, number
                for ref in self.next(list(running)):
                    who, number = running.pop(ref)
                    try:
                        answer = self._ray.get(ref)
                    except self._ray.exceptions.RayTaskError as err:  # an error in the code that the worker ran
                        self.idle.append(who)
                        log.debug("%s", err)
                        raise err.cause from None
                    except self._ray.exceptions.RayError as err:
                        self.coming[self._call(who)] = who
                        deaths[number] += 1
                        report_death(who, number, _summarize_error(err))
                        if deaths[number] < self._deaths:
                            waiting.appendleft(number)
                        else:
                            yield number, WorkerDeath(_summarize_error(err))
                    else:
                        self.idle.append(who)
                        yield number, answer
        finally:
            # Workers finish abandoned calls before they take new ones.
            self.coming |= {self._call(who): who for who, _ in running.values()}

    def next(self, running: Sequence[Any]) -> list[Any]:
        """Wait until a call has ended or an actor is ready; returns the calls that ended."""
        since, handler = time.monotonic(), signal.getsignal(signal.SIGTERM)
        while True:
            try:
                done: list[Any] = self._ray.wait([*running, *self.coming], num_returns=1, timeout=PATIENCE)[0]
            except KeyboardInterrupt:
                # Ray raises this for any exception of a signal handler; our SIGTERM handler has then removed itself.
                if signal.getsignal(signal.SIGTERM) is not handler:
                    raise Terminated from None
                raise
            for ref in [ref for ref in done if ref in self.coming]:
                self._receive_ready(self.coming.pop(ref), ref, others=bool(running))
            if done:
                return [ref for ref in done if ref in running]
            if not running and not self.idle:
                waited = time.monotonic() - since
                log.warning("no worker for %.0f s: the cluster has no room for one, or is starting it", waited)

    def _receive_ready(self, who: int, ref: Any, *, others: bool) -> None:  # noqa: ANN401
        try:
            self._ray.get(ref)
        except self._ray.exceptions.RayActorError as err:
            if not (others or self.coming or self.idle):
                raise DataError(f"{self._option}: no worker can start ({_summarize_error(err)})") from err
            log.warning("worker %d cannot start (%s); continuing without it", who, _summarize_error(err))
        else:
            self.idle.append(who)

    def _call(self, who: int) -> Any:  # noqa: ANN401
        """Ask a worker whether it is ready; Ray repeats the call until the worker has started."""
        return self.actors[who].ready.options(max_task_retries=-1).remote()


class Cluster:
    """The workers of a session."""

    def __init__(self, runtime: Runtime) -> None:
        min_cpus = (runtime.workers or 1) * (runtime.threads or 1)
        ray = connect_to_ray(runtime.ray_address, "runtime.ray_address", cpus=min_cpus)
        nodes = list_nodes(ray)
        gpus, self.count, cpus = allocate_resources(runtime, nodes)
        device = "cpu" if not gpus and runtime.device == "auto" else runtime.device
        options: dict[str, Any] = {"engine": "local", "device": device, "threads": cpus, "progress": False}
        worker_runtime = replace(runtime, workers=None, gpus_per_worker=None, ray_address=None, **options)
        actor = ray.remote(Worker).options(num_cpus=cpus, num_gpus=gpus, max_restarts=-1)
        actors = [actor.remote(worker_runtime) for _ in range(self.count)]
        self.pool = ActorPool(ray, actors, deaths=DEATHS, option="runtime.engine=ray")
        where = runtime.ray_address or "this machine"
        log.info("workers    %d of %d CPUs and %g GPUs on %s (%d nodes)", self.count, cpus, gpus, where, len(nodes))
        warn_if_full(nodes, self.count, {"CPU": cpus, "GPU": gpus})

    def map(self, task: str, chunks: Sequence[Sequence[Any]]) -> Iterator[tuple[int, Any]]:
        """Run `task` on each chunk's arguments; yield (number of the chunk, answer) as they finish, each once."""

        def report_death(who: int, _: int, reason: str) -> None:
            log.warning("worker %d died while it did %s (%s); its chunk is done again", who, task, reason)

        answer: WorkerAnswer | WorkerDeath
        for number, answer in self.pool.map([(task, chunk) for chunk in chunks], report_death):
            if isinstance(answer, WorkerDeath):
                raise DataError(
                    f"runtime.engine=ray: chunk {number} of {len(chunks)} ended its worker {DEATHS} times while it did "
                    f"{task} ({answer.reason}); out of memory? use a smaller "
                    "runtime.batch_size, or give each worker more memory"
                )
            for remark in answer.remarks:
                log.warning("a worker says: %s", remark)
            if answer.error is not None:
                name, message = answer.error
                kind = HarnessError if name == "ExtraNotInstalled" else getattr(core.errors, name, HarnessError)
                raise kind(message)
            yield number, answer.value


def _summarize_error(err: Exception) -> str:
    """Return the most specific line of Ray's message."""
    lines = [line.strip() for line in str(err).splitlines() if line.strip()]
    relevant = [line for line in lines if "died" in line.lower() or "error" in line.lower() or "killed" in line.lower()]
    return (relevant or lines or [type(err).__name__])[-1][:200]


def list_nodes(ray: Any) -> list[dict[str, float]]:  # noqa: ANN401
    """Return the resources of each live node: `CPU`, `GPU` and the cluster's custom resources."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def warn_if_full(nodes: Sequence[Mapping[str, float]], count: int, needs: Mapping[str, float]) -> None:
    """Warn that some of `count` workers must wait if the nodes cannot hold all of them."""
    resources = {name: amount for name, amount in needs.items() if amount}
    room = sum(min(_count_fitting(node.get(name, 0.0), amount) for name, amount in resources.items()) for node in nodes)
    if room < count:
        log.warning("the cluster has room for %d of %d workers now; the others wait for more of it", room, count)


def _count_fitting(have: float, amount: float) -> int:
    """Count the workers that fit; a fraction of a GPU lies on one GPU, so that 0.2 fits five times."""
    if amount < 1:
        return int(have) * int(1 / amount + 1e-9)
    return int(have / amount + 1e-9)


def allocate_resources(runtime: Runtime, nodes: Sequence[dict[str, float]]) -> tuple[float, int, int]:
    """Return GPUs per worker, the number of workers, and CPUs per worker for these nodes."""
    gpus, cpus = (sum(node.get(kind, 0.0) for node in nodes) for kind in ("GPU", "CPU"))
    wants_cpu = runtime.device in ("cpu", "mps")
    each = runtime.gpus_per_worker
    if each is None:
        each = 1.0 if gpus and not wants_cpu else 0.0
    if each and gpus < each:
        raise SpecError(f"runtime.gpus_per_worker: expected at most the cluster's {gpus:g} GPUs, got {each:g}")
    if runtime.device == "cuda" and not each:
        raise SpecError("runtime.device=cuda: the workers have no GPU; set runtime.gpus_per_worker=1")
    fitting = sum(_count_fitting(node.get("GPU", 0.0), each) for node in nodes) if each else len(nodes)
    count = max(runtime.workers or fitting, 1)
    if runtime.threads is not None or each:
        return each, count, runtime.threads or 1
    # The most CPUs per worker with which all workers fit: a worker cannot use the CPUs of another node.
    fair = max(int(cpus) // count, 1)
    while fair > 1 and sum(node.get("CPU", 0.0) // fair for node in nodes) < count:
        fair -= 1
    return each, count, fair
