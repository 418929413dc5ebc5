"""Find or build the artifacts of a run; write and read the arrays of features and results.

The same code plans and runs. While planning, a missing artifact is noted and what depends on its bytes waits for it.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from openended.harness import core
from openended.harness.models import BackendSpec, EmbedderSpec
from openended.harness.run.session import Session
from openended.harness.storage import STAGES, Entry, Recipe, compare_environments, describe_environment

log = logging.getLogger(__name__)

T = TypeVar("T")
State = Literal["hit", "make", "waits"]
Role = Literal["human", "more human", "other human", "ceiling", "model"]
"""The role of the texts of an artifact; `ceiling`: human texts in place of the system under test."""
VECTORS = "embeddings.npy"
_NEXT_TOKEN = ("offsets", "gold_prob", "sum_sq", "support", "argmax", "gold")
_RESULT = ("metric", "signature", "primary", "values", "sd", "n_human", "n_model", "status", "notes")
Build = Callable[[Path], Mapping[str, Any]]
"""Writes the files of an artifact into a folder and returns its facts."""


@dataclass(frozen=True, slots=True)
class PlannedArtifact:
    """An artifact to find in the store or to build, and a line of the plan."""

    stage: str
    what: str  # of what, in words; `stage:what` names it in the run record
    spec: Mapping[str, Any]  # all options that can change the bytes, defaults included
    inputs: Mapping[str, str | None]  # name → content digest; None while it is not known
    role: Role
    num_texts: int = 0  # 0 where it is not known, or no model reads or writes the texts
    num_tokens: int = 0  # tokens of the continuations, at most; 0 where it is not known
    model: BackendSpec | None = None  # writes or reads the texts
    metric: str | None = None  # what is measured
    state: State = "waits"
    key: str | None = None  # none while the key waits for bytes that are still to be made
    extent: Mapping[str, Any] = field(default_factory=dict)  # which rows it has, if they do not depend on each other

    @property
    def recipe(self) -> Recipe | None:
        """The recipe, or None while an input is unknown."""
        digests = {name: value for name, value in self.inputs.items() if value is not None}
        is_complete = len(digests) == len(self.inputs) and None not in self.extent.values()
        return Recipe(self.stage, STAGES[self.stage], self.spec, digests, self.extent) if is_complete else None


@dataclass
class ArtifactBuilder:
    """Finds artifacts in the store or builds them; records what was done and how long it took."""

    session: Session
    plan_only: bool
    plan: list[PlannedArtifact] = field(default_factory=list)
    """All artifacts of the run, each once, in the order of their first request."""
    inputs: dict[str, str] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    missing: list[core.DataError] = field(default_factory=list)
    """What a plan found to be missing: files and models, with how to get them; each once."""
    provenance: dict[str, Mapping[str, core.Json]] = field(default_factory=dict)
    """Name of a cached or reused input → differences of the environment that computed it; of a server, its facts."""
    _entries: dict[str, Entry | None] = field(default_factory=dict)  # key → what was made, found or planned under it

    @property
    def num_computed(self) -> int:
        """Number of artifacts computed, not cached."""
        return sum(line.state == "make" for line in self.plan)

    def try_or_note(self, load: Callable[[], T]) -> T | None:
        """Return the result of `load`; a plan notes what is missing and continues with None."""
        try:
            return load()
        except core.DataError as err:
            if not self.plan_only:
                raise
            if str(err) not in map(str, self.missing):
                self.missing.append(err.with_traceback(None))
            return None

    def digest_model(self, spec: BackendSpec | EmbedderSpec) -> str | None:
        """Return a digest that is equal for equal models; None if a plan finds it missing."""
        return self.try_or_note(lambda: core.digest(spec.identity()))

    def build(self, artifact: PlannedArtifact, write: Build) -> Entry | None:
        """Return the artifact; None if this is a plan and it, or one of its inputs, is missing."""
        recipe = artifact.recipe
        if recipe is None:
            waiting = {(line.stage, line.what) for line in self.plan if line.state == "waits"}
            if (artifact.stage, artifact.what) not in waiting:
                self.plan.append(artifact)
            return None
        if recipe.key in self._entries:
            return self._entries[recipe.key]
        store = self.session.store
        started = time.monotonic()
        entry = store.find(recipe) if self.plan_only else store.make(recipe, write)
        seconds = time.monotonic() - started
        self._entries[recipe.key] = entry
        state: State = "make" if entry is None or entry.computed else "hit"
        self.plan.append(replace(artifact, state=state, key=recipe.key))
        if entry is not None and not self.plan_only:
            self._record(entry, artifact.what, seconds)
        return entry

    def build_together(
        self, artifacts: Sequence[PlannedArtifact], compute: Callable[[Sequence[int]], Sequence[Build]]
    ) -> list[Entry | None]:
        """Return several artifacts that one pass of a model can compute."""
        recipes = [artifact.recipe for artifact in artifacts]
        missing = [i for i, r in enumerate(recipes) if r is not None and self.session.store.find(r) is None]
        waiting: dict[int, Build] = {}

        def write(index: int, folder: Path) -> Mapping[str, Any]:
            if index not in waiting:  # the first of them, or one that another process has computed meanwhile
                rest = [i for i in missing if i >= index]
                waiting.update(zip(rest, compute(rest), strict=True))
            return waiting.pop(index)(folder)

        return [self.build(artifact, partial(write, i)) for i, artifact in enumerate(artifacts)]

    def _record(self, entry: Entry, what: str, seconds: float) -> None:
        """Add an artifact to the facts of the run record, and log it."""
        stage = entry.stage
        name = f"{stage}:{what}" if what else stage
        self.inputs[name] = entry.name
        if not entry.computed:
            device = {"device": entry.meta["device"]} if "device" in entry.meta else {}
            self.provenance[name] = compare_environments(entry.maker, describe_environment()) | device
        others = {**entry.meta.get("reused_from", {}), **self.provenance.get(name, {})}
        others |= {fact: entry.meta[fact] for fact in ("served", "reused_tokens") if entry.meta.get(fact)}
        if others:
            self.provenance[name] = others
        self.timings[stage] = round(self.timings.get(stage, 0.0) + seconds, 3)
        level = logging.INFO if entry.computed or stage != "measure" else logging.DEBUG
        state = "computed" if entry.computed else "cached"
        log.log(level, "%-10s %-34s %s  %s  %.1f s", stage, what, state, entry.key[:8], seconds)


@dataclass(frozen=True, slots=True)
class TextRows:
    """One system's rows: a file of an artifact (which may be still to be made) and the tokenizer of its ids."""

    role: Role
    entry: Entry | None
    file: str
    tokenizer: str | None  # `digest_encoding` of the tokenizer that made the ids; None if there are none
    chat: Entry | None = None  # what the model under test reads in place of the prompts, where it has a chat template
    label: str = ""  # name in the plan and the record if the role does not identify the rows
    num_texts: int = 0  # as planned; 0 where it is not known before they are read
    num_tokens: int = 0  # of the continuations, at most; 0 where it is not known

    @property
    def title(self) -> str:
        """Name in the plan and the record."""
        return self.label or self.role

    def plan_artifact(
        self, stage: str, what: str, spec: Mapping[str, Any], inputs: Mapping[str, str | None],
        model: BackendSpec | None = None,
    ) -> PlannedArtifact:  # fmt: skip
        """Return an artifact for which a model reads or writes these texts."""
        return PlannedArtifact(stage, what, spec, inputs, self.role, self.num_texts, self.num_tokens, model)

    @property
    def digest(self) -> str | None:
        """SHA-256 of the file; None while it is still to be made."""
        return self.entry.files[self.file] if self.entry is not None else None

    @property
    def identity(self) -> tuple[str | None, ...]:
        """Identity of the rows, independent of their name."""
        return (self.digest or f"{self.title} {self.file}", self.tokenizer, get_content(self.chat))

    @property
    def path(self) -> Path:
        """Where the rows are."""
        if self.entry is None:
            raise core.SpecError(f"the rows of {self.role} were not made yet")
        return self.entry.path / self.file


def get_content(entry: Entry | None) -> str | None:
    """Return an artifact's digest; None while it is only planned."""
    return entry.content if entry is not None else None


def save_ragged(folder: Path, ragged: core.Ragged, prefix: str = "") -> None:
    """Write a ragged array as two `.npy` files."""
    save_array(folder / f"{prefix}values.npy", ragged.values)
    save_array(folder / f"{prefix}offsets.npy", ragged.offsets)


def load_ragged(folder: Path, prefix: str = "") -> core.Ragged:
    """Read what `save_ragged` wrote, by memory map."""
    return core.Ragged(load_array(folder / f"{prefix}values.npy"), load_array(folder / f"{prefix}offsets.npy"))


def load_vectors(folder: Path) -> np.ndarray[Any, Any]:
    """Read the vectors or sketches of an artifact."""
    return load_array(folder / VECTORS)


def save_array(path: Path, array: np.ndarray[Any, Any]) -> None:
    """Write one `.npy` file atomically."""
    with core.open_for_replacement(path, "wb") as handle:
        np.save(handle, array, allow_pickle=False)


def load_array(path: Path) -> np.ndarray[Any, Any]:
    """Map one `.npy` file into memory, read only.

    By Arrow, because `np.memmap` holds a descriptor as long as the array lives: a long grid would run out of them.
    """
    import pyarrow as pa

    core.check_regular_file(path)
    try:
        with path.open("rb") as handle:
            version = np.lib.format.read_magic(handle)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(handle)
            start = handle.tell()
        if dtype.hasobject:
            raise ValueError("it holds Python objects")
        with pa.memory_map(str(path)) as source:
            buffer = source.read_buffer()
        array: np.ndarray[Any, Any] = np.frombuffer(buffer, dtype, math.prod(shape), start)
        return array.reshape(shape, order="F" if fortran else "C")
    except Exception as err:  # a damaged header raises anything
        raise core.DataError(f"{path}: not an array ({core.shorten_error(err)})") from err


def save_next_token(folder: Path, stats: core.NextToken) -> Mapping[str, Any]:
    """Write the statistics of Q as `.npy` files; returns the facts that are no arrays."""
    for name in _NEXT_TOKEN:
        save_array(folder / f"{name}.npy", getattr(stats, name))
    save_ragged(folder, stats.context, "context_")
    return {"vocab_size": stats.vocab_size, "n": len(stats.offsets) - 1}


def load_next_token(folder: Path, meta: Mapping[str, Any]) -> core.NextToken:
    """Read what `save_next_token` wrote."""
    arrays = {name: load_array(folder / f"{name}.npy") for name in _NEXT_TOKEN}
    return core.NextToken(**arrays, context=load_ragged(folder, "context_"), vocab_size=int(meta["vocab_size"]))


def save_result(folder: Path, result: core.MetricResult) -> Mapping[str, Any]:
    """Write a metric's result as strict JSON and its arrays as safetensors."""
    from safetensors.numpy import save

    kinds = {"arrays": result.arrays, "per_example": result.per_example, "draws": result.draws}
    arrays = {f"{kind}/{k}": np.ascontiguousarray(v) for kind, each in kinds.items() for k, v in each.items()}
    with core.open_for_replacement(folder / "arrays.safetensors", "wb") as handle:
        handle.write(save(dict(sorted(arrays.items()))))
    row = {name: getattr(result, name) for name in _RESULT}
    if result.intervals:
        row["intervals"] = result.intervals
    if result.unranked:
        row["unranked"] = result.unranked
    core.write_json(folder / "result.json", row)
    return {"metric": result.metric}


def load_result(folder: Path) -> core.MetricResult:
    """Read what `save_result` wrote, without the arrays; null becomes NaN."""
    row = core.read_json(folder / "result.json")
    for name in ("values", "sd"):
        row[name] = {k: float("nan") if v is None else v for k, v in row[name].items()}
    return core.MetricResult(**{**row, "notes": tuple(row["notes"]), "unranked": tuple(row.get("unranked", ()))})


def load_result_arrays(folder: Path) -> Mapping[str, np.ndarray[Any, Any]]:
    """Read the arrays that `save_result` wrote with a result, without the values of each example."""
    from safetensors.numpy import load_file

    stored: Mapping[str, np.ndarray[Any, Any]] = load_file(folder / "arrays.safetensors")
    return {name.removeprefix("arrays/"): v for name, v in stored.items() if name.startswith("arrays/")}
