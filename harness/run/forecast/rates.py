"""Measured speed of this machine: tokens per second of each model, from the store's manifests."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from openended.harness.core import DataError, HarnessError, digest, read_json
from openended.harness.models import BUNDLED, BackendSpec, ModelSpec, list_bundled_models
from openended.harness.storage import MANIFEST

Certainty = Literal["measured", "scaled", "unknown"]
MOST = 2000  # entries of a stage that are read


@dataclass
class Rates:
    """Tokens per second on this machine, from the largest entry of each kind; loading a model is included."""

    generate: dict[tuple[str, str], float] = field(default_factory=dict)
    """(digest of the model, decoder) → tokens a second."""
    passes: dict[str, float] = field(default_factory=dict)
    """Digest of the model → tokens a second of one pass over finished texts."""
    measures: dict[str, float] = field(default_factory=dict)
    """Metric → median seconds."""

    def find_generation_rate(self, spec: BackendSpec, decoder: str) -> tuple[float | None, Certainty]:
        """Return tokens a second of a model under a decoder."""
        same_decoder = {model: speed for (model, name), speed in self.generate.items() if name == decoder}
        every = {model: speed for (model, _), speed in self.generate.items()}
        rate, sure = self._rate(spec, same_decoder)
        if rate is None:
            rate, sure = self._rate(spec, every)
            sure = "scaled" if sure == "measured" else sure
        return rate, sure

    def find_pass_rate(self, spec: BackendSpec) -> tuple[float | None, Certainty]:
        """Return tokens a second of one pass."""
        return self._rate(spec, self.passes)

    def _rate(self, spec: BackendSpec, rates: Mapping[str, float]) -> tuple[float | None, Certainty]:
        model = _digest_spec(spec)
        if model is not None and model in rates:
            return rates[model], "measured"
        size = spec.describe_size()
        if size is None or not size.parameters:
            return None, "unknown"
        bundled = [
            (other.describe_size().parameters, rates.get(_digest_spec(other) or "")) for other in _list_bundled_models()
        ]
        scaled = [rate * count / size.parameters for count, rate in bundled if rate and count]
        return (min(scaled), "scaled") if scaled else (None, "unknown")


def read_rates(store: Path) -> Rates:
    """Read the rates of a store; empty if nothing was computed there."""
    rates = Rates()
    best: dict[object, tuple[int, float]] = {}
    seconds: dict[str, list[float]] = defaultdict(list)
    for stage in ("generate", "score", "measure"):
        for manifest in _iterate_manifests(store / stage):
            took, meta, recipe = float(manifest["seconds"]), manifest["meta"], manifest["recipe"]
            if stage == "measure":
                seconds[str(meta.get("metric"))].append(took)
            elif took > 0 and (tokens := int(meta.get("tokens") or 0)):
                inputs, spec = recipe["inputs"], recipe["spec"]
                pair = (str(inputs.get("model")), str(spec.get("decoder", {}).get("name")))
                key: object = pair if stage == "generate" else str(inputs.get("scorer"))
                # The more tokens, the less of the time went into loading.
                best[key] = max(best.get(key, (0, 0.0)), (tokens, tokens / took))
    rates.generate = {key: rate for key, (_, rate) in best.items() if isinstance(key, tuple)}
    rates.passes = {key: rate for key, (_, rate) in best.items() if isinstance(key, str)}
    rates.measures = {name: statistics.median(values) for name, values in seconds.items()}
    return rates


def _iterate_manifests(stage: Path) -> Iterator[dict[str, Any]]:
    for number, path in enumerate(stage.glob(f"*/*/{MANIFEST}")):
        if number >= MOST:
            return
        try:
            manifest = read_json(path)
        except DataError:
            continue  # damaged; reported by `openended store check`
        if isinstance(manifest, dict) and {"seconds", "meta", "recipe"} <= manifest.keys():
            yield manifest


def _digest_spec(spec: BackendSpec) -> str | None:
    try:
        return digest(spec.identity())
    except HarnessError:
        return None


def _list_bundled_models() -> list[ModelSpec]:
    return [ModelSpec(path=f"{BUNDLED}{name}") for name in list_bundled_models()]
