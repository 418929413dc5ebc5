"""Cache of loaded models; each process has one."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from openended.harness.core import Json, Runtime, canonicalize, digest, show_progress
from openended.harness.decoders import Decoder
from openended.harness.models.backend import Backend
from openended.harness.models.embedder import EmbedderSpec
from openended.harness.models.spec import BackendSpec
from openended.harness.models.transformers import load_embedder

log = logging.getLogger(__name__)


class ModelCache:
    """Keeps the most recently used models in memory."""

    def __init__(self) -> None:
        self.loads: list[str] = []  # title of every model loaded so far, in order
        self._models: OrderedDict[str, Any] = OrderedDict()

    def model(self, spec: BackendSpec, runtime: Runtime) -> Backend:
        """Return a model, loading it if needed; the least recently used model is freed above `keep_models`."""
        load = partial(spec.load, device_map=runtime.device_map)
        backend: Backend = self._load(_identify(spec, runtime), spec.title, runtime, load)
        return backend

    @contextmanager
    def hold(self, spec: BackendSpec, model: Backend, runtime: Runtime) -> Iterator[None]:
        """Use a model that is already in memory for its spec within the block."""
        key = digest([_identify(spec, runtime), pick_device(runtime.device)])
        self._models[key] = model
        try:
            yield
        finally:
            self._models.pop(key, None)

    def load_companions(self, decoder: Decoder, runtime: Runtime) -> dict[str, Backend]:
        """Return the models that a decoder needs in addition to the model under test."""
        specs = cast("Mapping[str, BackendSpec]", decoder.companions())
        return {name: self.model(spec, runtime) for name, spec in specs.items()}

    def embedder(self, spec: EmbedderSpec, runtime: Runtime) -> Any:  # noqa: ANN401 - each kind has its own class
        """Return an embedder, loading it if needed; a causal embedder and a scorer of the same model share weights."""
        if spec.traits.kind == "causal":
            return self.model(spec.model_spec(), runtime)
        return self._load(spec.identity(), spec.title, runtime, partial(load_embedder, spec))

    def _load(self, identity: Json, title: str, runtime: Runtime, load: Callable[..., Any]) -> Any:  # noqa: ANN401
        device = pick_device(runtime.device)
        key = digest([identity, device])
        if key in self._models:
            self._models.move_to_end(key)
            return self._models[key]
        while len(self._models) >= runtime.keep_models:
            self._models.popitem(last=False)
        if runtime.threads is not None:
            load_torch(runtime)
        start = time.monotonic()
        with show_progress(f"loading {title}", enabled=runtime.progress):
            self._models[key] = load(device=device)
        self.loads.append(title)
        log.info("loaded     %-34s on %s in %.1f s", title, device, time.monotonic() - start)
        return self._models[key]


def _identify(spec: BackendSpec, runtime: Runtime) -> Json:
    connection = {name: canonicalize(getattr(spec, name)) for name in sorted(spec.connection_fields)}
    return [spec.identity(), runtime.device_map, *([connection] if connection else [])]


def load_torch(runtime: Runtime) -> None:
    """Load torch, with the number of threads of a run."""
    import torch

    if runtime.threads is not None:
        torch.set_num_threads(runtime.threads)


def pick_device(name: str) -> str:
    """Resolve `auto` to cuda, mps or cpu, in this order of preference."""
    if name != "auto":
        return name
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
