"""CPUs and GPUs of a Ray cluster: what each worker gets, and whether all workers fit."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from openended.harness.core import Runtime, SpecError

log = logging.getLogger(__name__)


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
    count = runtime.workers or (
        sum(_count_fitting(node.get("GPU", 0.0), each) for node in nodes) if each else len(nodes)
    )
    count = max(count, 1)
    if runtime.threads is not None or each:
        return each, count, runtime.threads or 1
    # The most CPUs per worker with which all workers fit: a worker cannot use the CPUs of another node.
    fair = max(int(cpus) // count, 1)
    while fair > 1 and sum(node.get("CPU", 0.0) // fair for node in nodes) < count:
        fair -= 1
    return each, count, fair
