"""Estimate the differences of systems in one space: of all systems of a report and all human texts there are.

A printed value follows its metric's protocol: a clustering or PCA of one system and the human texts of its prompts. The
difference of two printed values has the noise of both. Here all systems and all stored human texts share one space, so
that most of the noise cancels. Values and replicates are computed from the stored embeddings and kept in the store.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from openended.harness import core, storage
from openended.harness.results.frame import ARRAYS, Results, count_prompts, load_replicates, read_replicates
from openended.harness.results.runs import HUMAN_FILES, Run, locate_verified_file, read_verified_entry
from openended.harness.results.systems import SystemValue
from openended.metrics.families import JOINT_CLUSTERINGS, Quantized, TwoSample

VERSION = 2  # increased when the estimates change; enters the keys of their artifacts
_SPEC_FACTS = ("group", "name", "version")

Source = tuple[Run, str | None]
"""A run, and the artifact of a metric's result."""


@dataclass(frozen=True, slots=True)
class JointSpace:
    """The values of all systems in one space; `reason` says why there are none, unless the metric never has any."""

    reason: str = ""
    signature: str = ""
    """That of the printed values, and what the differences rest on."""
    num_systems: int = 0
    num_human: int = 0
    num_clusterings: int = 0
    """0 where nothing is clustered."""
    numbers: Mapping[Source, int] = field(default_factory=dict)
    """Source of a system's printed value → number of the system."""
    values: Mapping[str, float] = field(default_factory=dict)
    """`number/key` → value."""
    arrays: Mapping[str, Any] = field(default_factory=dict)
    """Replicates, under the same names."""

    def estimate(self, item: SystemValue) -> tuple[float, core.Replicates] | None:
        """Return a system's value and replicates, averaged over its seeds; None if a seed has none."""
        names = [
            f"{self.numbers.get(source)}/{item.key}"
            for source, value in zip(item.sources, item.values.values(), strict=True)
            if math.isfinite(value)
        ]
        replicates = [read_replicates(self.arrays, name, count_prompts(item)) for name in names]
        parts = [part for part in replicates if part is not None]
        both = core.combine_replicates([1 / len(parts)] * len(parts), parts) if parts else None
        if both is None or len(parts) < len(names):
            return None
        return math.fsum(self.values[name] for name in names) / len(names), both


class _NoSpaceError(Exception):
    """Raised with the reason why systems share no space."""


def find_joint_space(results: Results, item: SystemValue) -> JointSpace:
    """Return the space of all systems whose values may be compared with one; it is computed once."""
    key = item.metric, item.signature
    if key not in results.spaces:
        try:
            results.spaces[key] = _compute_space(results, *key)
        except (core.HarnessError, _NoSpaceError) as err:
            results.spaces[key] = JointSpace(str(err))
    space: JointSpace = results.spaces[key]
    return space


def find_joint_estimate(results: Results, item: SystemValue) -> tuple[float, core.Replicates] | None:
    """Return a system's value and replicates in the space that it shares with others; None if it has none."""
    if item.system != "model" or load_replicates(results, item) is None:
        return None
    return find_joint_space(results, item).estimate(item)


def read_embeddings(results: Results, item: SystemValue) -> tuple[core.Floats, core.Floats] | None:
    """Return the embeddings of the human and of the model texts behind a value; None if they are not stored."""
    run = item.sources[0][0]
    try:
        need = _build_metric([run], item.metric).needs()[0]
        human, model = (read_vectors(results, run, need, role)[need] for role in ("human", "model"))
    except (core.HarnessError, _NoSpaceError):
        return None
    return human, model


def _compute_space(results: Results, name: str, signature: str) -> JointSpace:
    items = [i for i in results.values if i.system == "model" and (i.metric, i.signature) == (name, signature)]
    sources = list(dict.fromkeys(source for i in items for source in i.sources if source[1] is not None))
    runs = [run for run, _ in sources]
    metric = _build_metric(runs, name)
    need = metric.needs()[0]
    if need.kind != "embeddings":
        raise _NoSpaceError("it compares no embeddings")
    systems = {s: read_vectors(results, run, need, "model") for s, run in zip(sources, runs, strict=True)}
    human = read_human_vectors(results, runs, need)
    # A system is in the space once, even if several runs have its texts, and the order of the runs does not matter.
    distinct = dict(sorted({side.system: side for side in systems.values()}.items()))
    if len(distinct) < 2:
        raise _NoSpaceError("there is one system")
    if metric.most is not None and max(map(len, (human[1], *distinct.values()))) > metric.most:
        raise _NoSpaceError(f"a side has more than {metric.most:,} texts")
    clusterings = JOINT_CLUSTERINGS if isinstance(metric, Quantized) else 0
    spec = {"metric": core.canonicalize(metric), "system": "joint", "joint": [clusterings, VERSION]}
    spec["intervals"] = [core.COUNT, core.RESAMPLING_VERSION]
    inputs = {f"system {number}": entry for number, entry in enumerate(distinct)} | human[0]

    sizes = f"{len(distinct)} systems and {len(human[1])} human texts"
    signature_of_space = f"{signature}|differences:{sizes}" + (f", {clusterings} clusterings" if clusterings else "")

    def compute() -> core.MetricResult:
        values, draws = dict[str, float](), dict[str, Any]()
        estimates = metric.estimate_jointly(human[1], list(distinct.values()), core.Plan())
        for number, (of_system, replicates) in enumerate(estimates):
            values |= {f"{number}/{key}": of_system[key] for key in replicates}
            draws |= core.pack_replicates({f"{number}/{key}": part for key, part in replicates.items()})
        counts = len(human[1]), len(next(iter(distinct.values())))
        return core.MetricResult(metric.name, signature_of_space, next(iter(values), ""), values, *counts, draws=draws)

    recipe = storage.Recipe("measure", storage.STAGES["measure"], spec, inputs)
    result = _load_or_compute(runs[0].store, recipe, compute)
    numbers = {source: list(distinct).index(side.system) for source, side in systems.items()}
    return JointSpace("", signature_of_space, len(distinct), len(human[1]), clusterings, numbers, *result)


def _build_metric(runs: list[Run], name: str) -> TwoSample:
    """Build the metric from the records of runs, which must agree."""
    cls = core.find_member("metric", name)
    if cls is None or not issubclass(cls, TwoSample) or not cls.shares_space:
        raise _NoSpaceError
    nodes = [run.metrics.get(name) for run in runs]
    if not nodes or not isinstance(nodes[0], Mapping) or any(node != nodes[0] for node in nodes):
        raise _NoSpaceError("the runs do not have one setting of it")
    if nodes[0].get("version") != getattr(cls, "version", 1):
        raise _NoSpaceError("another version of it was measured")
    return core.construct(cls, {k: v for k, v in nodes[0].items() if k not in _SPEC_FACTS}, name)


def read_human_vectors(results: Results, runs: list[Run], need: core.Need) -> tuple[dict[str, str], core.Side]:
    """Return the digests of the vectors of all human texts of the runs, and one side of them."""
    parts = dict[str, core.Side]()
    for role in HUMAN_FILES:
        holders = [run for run in runs if run.find_vectors(role, need.scope) is not None]
        sides = {side.system: side for side in (read_vectors(results, run, need, role) for run in holders)}
        if role == "human" and (len(sides) > 1 or len(holders) < len(runs)):
            raise _NoSpaceError("their human texts differ")
        parts |= {f"{role} {number}": side for number, (_, side) in enumerate(sorted(sides.items()))}
    rows: dict[tuple[str, int], Any] = {}  # a conversation has several texts
    for side in parts.values():
        seen = Counter[str]()
        for name, row in zip(side.ids, side[need], strict=True):
            rows[name, seen[name]] = row
            seen[name] += 1
    if not rows:
        raise _NoSpaceError("the embeddings of the human texts are not stored")
    everyone = core.Side(core.HUMAN, [name for name, _ in rows], {need: np.stack(list(rows.values()))})
    return {role: side.system for role, side in parts.items()}, everyone


def read_vectors(results: Results, run: Run, need: core.Need, role: str) -> core.Side:
    """Read the embeddings of a role and the ids of its texts from the store; the side is named by their digest."""
    vectors = read_verified_entry(run.store, run.find_vectors(role, need.scope), storage.VECTORS, results.damaged)
    rows = locate_verified_file(run.store, *run.find_rows(role), results.damaged)
    if vectors is None or rows is None:
        raise _NoSpaceError("its embeddings are not stored")
    ids, loaded = storage.RowFile(rows).ids, storage.load_array(vectors.path / storage.VECTORS)
    if len(ids) != len(loaded):
        raise _NoSpaceError("its embeddings do not fit its texts")
    return core.Side(vectors.files[storage.VECTORS], ids, {need: loaded})


def _load_or_compute(
    store: Path | None, recipe: storage.Recipe, compute: Callable[[], core.MetricResult]
) -> tuple[Mapping[str, float], Mapping[str, Any]]:
    """Return values and arrays from the store; where nothing can be written, they are computed for this report."""
    from safetensors.numpy import load_file

    if store is None:
        raise _NoSpaceError("its embeddings are not stored")
    if (entry := storage.Store(store).find(recipe)) is not None:
        return storage.load_result(entry.path).values, load_file(entry.path / ARRAYS)
    result = compute()
    with suppress(core.StoreError):
        storage.Store(store).make(recipe, lambda folder: storage.save_result(folder, result))
    return result.values, {f"draws/{name}": draws for name, draws in result.draws.items()}
