"""What the jobs of one process share: the store, loaded models, and the features of the human side."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from openended.harness.contract import Side, Tokenizer
from openended.harness.models.spec import ModelSpec
from openended.harness.models.tokenizer import load_tokenizer, tokenizer_digest
from openended.harness.run.settings import Runtime
from openended.harness.signature import canonical, digest
from openended.harness.store import Store
from openended.harness.types import Json

if TYPE_CHECKING:
    from openended.harness.decoding.base import Decoder
    from openended.harness.models.backend import Backend, BackendSpec
    from openended.harness.models.embedder import EmbedderSpec

log = logging.getLogger(__name__)


# Human sides kept between the runs of a session: those of two tasks, with all that a paper's metrics need of them.
_LASTING = 32


class Sides:
    """Finished sides by the contents of their features, so that what a metric derives from one is shared.

    The human ones are kept for the next runs, the last used of them; the others go when a run ends that used none.
    """

    def __init__(self) -> None:
        self._sides: OrderedDict[str, tuple[Side, bool]] = OrderedDict()
        self._used: set[str] = set()

    def __len__(self) -> int:
        return len(self._sides)

    def get(self, key: str, make: Callable[[], Side], *, lasting: bool) -> Side:
        """Return the side of a key, made if it is not kept."""
        if key not in self._sides:
            self._sides[key] = make(), lasting
        self._sides.move_to_end(key)
        self._used.add(key)
        return self._sides[key][0]

    def end_run(self) -> None:
        """Let go of what the run that ends did not use and the next ones will hardly."""
        lasting = [key for key, (_, lasts) in self._sides.items() if lasts]
        kept = self._used.union(lasting[-_LASTING:])
        self._sides = OrderedDict((key, value) for key, value in self._sides.items() if key in kept)
        self._used = set()


class Session:
    """Keeps the last used models loaded; consecutive jobs of one process load each model once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.loads: list[str] = []
        """Title of every model loaded so far, in order."""
        self._models: OrderedDict[str, Any] = OrderedDict()
        self._tokenizers: dict[str, Tokenizer] = {}
        self.sides = Sides()
        self._said: set[str] = set()

    def warn_once(self, text: str) -> None:
        """Log a warning that holds for many jobs of a session at the first of them alone."""
        if text not in self._said:
            self._said.add(text)
            log.warning("%s", text)

    def model(self, spec: BackendSpec, runtime: Runtime) -> Backend:
        """Return a model, loaded by its backend; the least recently used one is freed when too many are kept."""
        spread = runtime.device_map

        def load(device: str) -> Any:  # noqa: ANN401
            return spec.load(device=device, device_map=spread)

        reached = {name: canonical(getattr(spec, name)) for name in sorted(spec.carried)}
        named: list[Any] = [spec.identity(), spread, *([reached] if reached else [])]
        backend: Backend = self._load(named, spec.title, runtime, load)
        return backend

    def companions(self, decoder: Decoder, runtime: Runtime) -> dict[str, Backend]:
        """Return the models that a decoder needs beside the one under test."""
        return {name: self.model(spec, runtime) for name, spec in decoder.companions().items()}

    def embedder(self, spec: EmbedderSpec, runtime: Runtime) -> Any:  # noqa: ANN401 - each kind has its own class
        """Return what `features.embed` needs; a causal embedder shares its weights with a scorer of the same model."""
        from openended.harness.models.embedder import load_embedder

        if spec.kind == "causal":
            return self.model(spec.model_spec(), runtime)
        return self._load(spec.identity(), spec.title, runtime, lambda d: load_embedder(spec, device=d))

    def _load(self, identity: Json, title: str, runtime: Runtime, load: Callable[[str], Any]) -> Any:  # noqa: ANN401
        device = pick_device(runtime.device)
        key = digest([identity, device])
        if key in self._models:
            self._models.move_to_end(key)
            return self._models[key]
        while len(self._models) >= runtime.keep_models:
            self._models.popitem(last=False)
        set_threads(runtime.threads)
        started = time.monotonic()
        self._models[key] = load(device)
        self.loads.append(title)
        log.info("loaded     %-34s on %s in %.1f s", title, device, time.monotonic() - started)
        return self._models[key]

    def tokenizer(self, spec: ModelSpec) -> Tokenizer:
        """Return a model's tokenizer; no weights are loaded."""
        key = digest([tokenizer_digest(spec), spec.bos])
        if key not in self._tokenizers:
            self._tokenizers[key] = load_tokenizer(spec)
        return self._tokenizers[key]


def pick_device(name: str) -> str:
    """Resolve `auto` to cuda, mps or cpu, in this order of preference."""
    if name != "auto":
        return name
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def set_threads(threads: int | None) -> None:
    """Bound the CPU threads of torch; None leaves them as they are."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
