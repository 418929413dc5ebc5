"""The `runtime` group: how a run is executed. Its options do not enter store keys."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from openended.harness.core.errors import require_package
from openended.harness.core.plan_cache import cache_in_plan
from openended.harness.core.spec import Spec, option, ranged

DeviceMap = Literal["auto", "balanced", "balanced_low_0", "sequential"]

OFFLINE_VARIABLES = ("OPENENDED_OFFLINE", "HF_HUB_OFFLINE")  # switch off every download
_ADDRESS = re.compile(r"auto|(?!.*://)\S+:\d{1,5}")
_DEVICE = re.compile(r"auto|cpu|mps|(cuda|xpu)(:\d{1,3})?")


@dataclass(frozen=True, kw_only=True)
class Runtime(Spec):
    """How a run is executed.

    These options cannot change a number, so they are not part of any key.
    """

    name: ClassVar[str] = "runtime"
    option_synonyms: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("batch", "batchsize", "eval_batch_size", "per_device_eval_batch_size"), "batch_size"
    )

    device: str = option("auto", _DEVICE.fullmatch, "auto, cpu, mps, cuda or cuda:<number>")
    """`auto` (cuda, then mps, then cpu), `cpu`, `mps`, `cuda` or `cuda:<number>`."""
    device_map: DeviceMap | None = None
    """Spreads each causal model over all devices by accelerate (extra `large`), for models that no device holds."""
    batch_size: int = ranged(64, "[1, inf)", "1 or more")
    """Rows generated at a time; halved when memory runs out."""
    feature_batch_size: int = ranged(64, "[1, inf)", "1 or more")
    """Rows embedded or scored at a time on an accelerator; on a CPU their number is fixed, see `passes.CPU_ROWS`."""
    flush_seconds: float = ranged(3.0, "[0, inf]", "0 or more")
    """Finished generations are written at least this often: what a kill can cost."""
    threads: int | None = ranged(None, "[1, 1024]", "1 to 1024, or null")
    """CPU threads of the numerical libraries; null leaves them as they are."""
    engine: Literal["local", "ray"] | None = None
    """Who runs the models: this process, or workers on the GPUs and machines of a Ray cluster (extra `ray`); null: ray
    where one of the next three options is given."""
    workers: int | None = ranged(None, "[1, inf)", "1 or more, or null")
    """Workers of the engine `ray`, each with its own copy of the models; null: one a GPU, else one a machine."""
    gpus_per_worker: float | None = option(
        None, lambda n: n is None or 0 <= n < 1 or n == int(n) >= 1, "a whole number, a part of 1, or null"
    )
    """GPUs of each; a part of one is shared. null: 1 where the cluster has GPUs, else 0."""
    ray_address: str | None = option(None, lambda a: a is None or _ADDRESS.fullmatch(a), "auto, host:port or null")
    """The cluster: `auto` (the one that this machine is part of), `host:port`, or null: one on this machine alone."""
    keep_models: int = ranged(4, "[1, inf)", "1 or more")
    """Models kept loaded between the jobs of one process: as many as a run has at most (under test, scorer, embedder,
    amateur). The jobs of one model stand side by side in a grid, so none is loaded twice."""
    locking: bool = True
    """File locks in the store; switch off on file systems that have none."""
    on_error: Literal["continue", "stop"] = "continue"
    """What a grid does after a job failed."""
    progress: bool = True
    """Progress bars."""

    @property
    def spread(self) -> bool:
        """True if workers of a cluster run the models."""
        return self.engine == "ray" if self.engine is not None else bool(self._list_worker_options())

    def _list_worker_options(self) -> list[str]:
        return [name for name in ("workers", "gpus_per_worker", "ray_address") if getattr(self, name) is not None]

    def check(self) -> None:
        is_valid = self.device_map is None or self.device == "auto"
        self.require(is_valid, "device_map", "null where a device is given (device=auto leaves the choice)")
        if self.spread:
            has_number = ":" in self.device
            self.require(not has_number, "device", "auto, cpu or cuda with engine=ray, which gives out the GPUs")
            require_package("ray", "ray")
        elif options := self._list_worker_options():
            self.require(False, options[0], "null with engine=local, which has no workers (engine=ray has)")


def is_switched_off(names: Sequence[str]) -> bool:
    """Return whether one of these environment variables is set to true."""
    return any(os.environ.get(name, "").lower() in ("1", "true", "yes", "on") for name in names)


@cache_in_plan
def find_cache_root(cache_dir: str | None = None) -> Path:
    """Return the cache folder; it need not exist."""
    if cache_dir:
        return Path(cache_dir).expanduser()
    if folder := os.environ.get("OPENENDED_CACHE"):
        return Path(folder).expanduser()
    home = os.environ.get("HF_HOME") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "openended"
