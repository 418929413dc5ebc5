"""Find or build the artifacts of a run.

The same code plans and runs. While planning, a missing artifact is noted and what depends on its bytes waits for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from openended.harness.core import DataError, Json, SpecError, digest
from openended.harness.models import BackendSpec, EmbedderSpec
from openended.harness.run.session import Session
from openended.harness.storage import STAGES, Entry, Recipe, compare_environments, describe_environment

log = logging.getLogger(__name__)

T = TypeVar("T")
State = Literal["hit", "make", "waits"]
Role = Literal["human", "more human", "ceiling", "model"]
"""The role of the texts of an artifact; `ceiling`: human texts in place of the system under test."""
Build = Callable[[Path], Mapping[str, Any]]
"""Writes the files of an artifact into a folder and returns its facts."""


@dataclass(frozen=True, slots=True)
class PlannedArtifact:
    """An artifact to find in the store or to build, and a line of the plan."""

    stage: str
    what: str
    """Of what, in words; `stage:what` names it in the run record."""
    spec: Mapping[str, Any]
    """All options that can change the bytes, defaults included."""
    inputs: Mapping[str, str | None]
    """Name → content digest; None while it is not known."""
    role: Role
    num_texts: int = 0
    """0 where it is not known, or no model reads or writes the texts."""
    num_tokens: int = 0
    """Tokens of the continuations, at most; 0 where it is not known."""
    model: BackendSpec | None = None
    """Writes or reads the texts."""
    metric: str | None = None
    """What is measured."""
    state: State = "waits"
    key: str | None = None
    """None while the key waits for bytes that are still to be made."""

    @property
    def recipe(self) -> Recipe | None:
        """The recipe, or None while an input is unknown."""
        digests = {name: value for name, value in self.inputs.items() if value is not None}
        return Recipe(self.stage, STAGES[self.stage], self.spec, digests) if len(digests) == len(self.inputs) else None


@dataclass
class ArtifactBuilder:
    """Finds artifacts in the store or builds them; records what was done and how long it took."""

    session: Session
    plan_only: bool
    plan: list[PlannedArtifact] = field(default_factory=list)
    """All artifacts of the run, each once, in the order of their first request."""
    inputs: dict[str, str] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    missing: list[DataError] = field(default_factory=list)
    """What a plan found to be missing: files and models, with how to get them; each once."""
    provenance: dict[str, Mapping[str, Json]] = field(default_factory=dict)
    """Name of a cached input → differences of the environment that computed it; for servers, their information."""
    _entries: dict[str, Entry | None] = field(default_factory=dict)
    """Key → what was made, found or planned under it."""

    @property
    def num_computed(self) -> int:
        """Number of artifacts computed, not cached."""
        return sum(line.state == "make" for line in self.plan)

    def try_or_note(self, load: Callable[[], T]) -> T | None:
        """Return the result of `load`; a plan notes what is missing and continues with None."""
        try:
            return load()
        except DataError as err:
            if not self.plan_only:
                raise
            if str(err) not in map(str, self.missing):
                self.missing.append(err.with_traceback(None))
            return None

    def digest_model(self, spec: BackendSpec | EmbedderSpec) -> str | None:
        """Return a digest that is equal for equal models; None if a plan finds it missing."""
        return self.try_or_note(lambda: digest(spec.identity()))

    def defer(self, artifact: PlannedArtifact) -> None:
        """Note an artifact that depends on inputs not built or downloaded yet."""
        waiting = {(line.stage, line.what) for line in self.plan if line.state == "waits"}
        if (artifact.stage, artifact.what) not in waiting:
            self.plan.append(artifact)

    def build(self, artifact: PlannedArtifact, write: Build, *, resumable: bool = False) -> Entry | None:
        """Return the artifact; None if it is missing and this is a plan."""
        recipe = artifact.recipe
        if recipe is None:
            self.defer(artifact)
            return None
        if recipe.key in self._entries:
            return self._entries[recipe.key]
        store = self.session.store
        started = time.monotonic()
        entry = store.find(recipe) if self.plan_only else store.make(recipe, write, resumable=resumable)
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
        if "served" in entry.meta:
            self.provenance[name] = {**self.provenance.get(name, {}), "served": entry.meta["served"]}
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
    tokenizer: str | None
    """Digest of the tokenizer that made the ids; None if there are none."""
    chat: Entry | None = None
    """What the model under test reads in place of the prompts, where it has a chat template."""
    label: str = ""
    """Name in the plan and the record if the role does not identify the rows."""
    num_texts: int = 0
    """As planned; 0 where it is not known before they are read."""
    num_tokens: int = 0
    """Of the continuations, at most; 0 where it is not known."""

    @property
    def title(self) -> str:
        """Name in the plan and the record."""
        return self.label or self.role

    def plan_artifact(
        self,
        stage: str,
        what: str,
        spec: Mapping[str, Any],
        inputs: Mapping[str, str | None],
        model: BackendSpec | None = None,
    ) -> PlannedArtifact:
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
            raise SpecError(f"the rows of {self.role} were not made yet")
        return self.entry.path / self.file


def get_content(entry: Entry | None) -> str | None:
    """Return an artifact's digest; None while it is only planned."""
    return entry.content if entry is not None else None
