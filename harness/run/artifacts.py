"""Steps of a run: each makes or finds one artefact.

The same code plans and runs. While planning, a missing artefact is noted and what depends on its bytes waits for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from openended.harness.core.errors import DataError, SpecError
from openended.harness.core.types import Json
from openended.harness.run.session import Session
from openended.harness.storage.provenance import difference, maker
from openended.harness.storage.recipe import STAGES, Recipe
from openended.harness.storage.store import Entry

log = logging.getLogger(__name__)

T = TypeVar("T")
State = Literal["hit", "make", "waits"]
Build = Callable[[Path], Mapping[str, Any]]
"""Writes the files of an artefact into a folder and returns its facts."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One line of the plan."""

    stage: str
    what: str
    state: State
    key: str | None
    """None while the key waits for bytes that are still to be made."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One artefact that a step is to make or find."""

    stage: str
    what: str
    """Of what, in words; `stage:what` names it in the run record."""
    spec: Mapping[str, Any]
    """All options that can change the bytes, defaults included."""
    inputs: Mapping[str, str | None]
    """Name → content digest; None while it is not known."""

    def recipe(self) -> Recipe | None:
        """Return what identifies it, or None while an input is not known."""
        known = {name: value for name, value in self.inputs.items() if value is not None}
        return Recipe(self.stage, STAGES[self.stage], self.spec, known) if len(known) == len(self.inputs) else None


@dataclass
class Steps:
    """Makes or finds artefacts, keeping account of what was done and how long it took."""

    session: Session
    plan_only: bool
    plan: list[Planned] = field(default_factory=list)
    """Every artefact of the run once, in the order in which it was asked for."""
    inputs: dict[str, str] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    """What a plan found to be missing: files and models, with how to get them."""
    provenance: dict[str, Mapping[str, Json]] = field(default_factory=dict)
    """Name of an input that was found → what made it differently; of one that a server made, what it told of itself."""
    _entries: dict[str, Entry | None] = field(default_factory=dict)
    """Key → what was made, found or planned under it."""

    @property
    def made(self) -> int:
        """Number of artefacts made, not found."""
        return sum(step.state == "make" for step in self.plan)

    def ask(self, make: Callable[[], T]) -> T | None:
        """Return what `make` returns; a plan notes what is missing and goes on with None.

        Raises:
            DataError: If something is missing and this is no plan.
        """
        try:
            return make()
        except DataError as err:
            if not self.plan_only:
                raise
            if str(err) not in self.missing:
                self.missing.append(str(err))
            return None

    def wait(self, stage: str, what: str) -> None:
        """Note a step that waits for what is still to be made or fetched."""
        line = Planned(stage, what, "waits", None)
        if line not in self.plan:
            self.plan.append(line)

    def step(
        self,
        stage: str,
        what: str,
        spec: Mapping[str, Any],
        inputs: Mapping[str, str | None],
        build: Build,
        *,
        resumable: bool = False,
    ) -> Entry | None:
        """Return the artefact of a stage; None if it is missing and this is a plan."""
        return self._step(Wanted(stage, what, spec, inputs), build, resumable=resumable)

    def together(
        self, wanted: Sequence[Wanted], compute: Callable[[Sequence[int]], Sequence[Build]]
    ) -> list[Entry | None]:
        """Return several artefacts that one pass can make.

        Args:
            wanted: The artefacts.
            compute: Makes those of the given places in `wanted` at once; returns for each what writes it.
        """
        recipes = [one.recipe() for one in wanted]
        missing = [i for i, r in enumerate(recipes) if r is not None and self.session.store.find(r) is None]
        waiting: dict[int, Build] = {}

        def build(place: int, folder: Path) -> Mapping[str, Any]:
            if place not in waiting:  # the first of them, or one that another process was about to make
                rest = [i for i in missing if i >= place]
                waiting.update(zip(rest, compute(rest), strict=True))
            return waiting.pop(place)(folder)

        return [self._step(one, partial(build, i)) for i, one in enumerate(wanted)]

    def _step(self, wanted: Wanted, build: Build, *, resumable: bool = False) -> Entry | None:
        stage, what, recipe = wanted.stage, wanted.what, wanted.recipe()
        if recipe is None:
            self.wait(stage, what)
            return None
        if recipe.key in self._entries:
            return self._entries[recipe.key]
        store = self.session.store
        started = time.monotonic()
        entry = store.find(recipe) if self.plan_only else store.make(recipe, build, resumable=resumable)
        seconds = time.monotonic() - started
        self._entries[recipe.key] = entry
        made = entry is None or entry.made
        self.plan.append(Planned(stage, what, "make" if made else "hit", recipe.key))
        if entry is not None and not self.plan_only:
            self._account(entry, what, seconds)
        return entry

    def _account(self, entry: Entry, what: str, seconds: float) -> None:
        stage = entry.stage
        name = f"{stage}:{what}" if what else stage
        self.inputs[name] = entry.name
        if not entry.made:
            device = {"device": entry.meta["device"]} if "device" in entry.meta else {}
            self.provenance[name] = difference(entry.maker, maker()) | device
        if "served" in entry.meta:
            self.provenance[name] = {**self.provenance.get(name, {}), "served": entry.meta["served"]}
        self.timings[stage] = round(self.timings.get(stage, 0.0) + seconds, 3)
        level = logging.INFO if entry.made or stage != "measure" else logging.DEBUG
        state = "made" if entry.made else "found"
        log.log(level, "%-10s %-34s %s  %s  %.1f s", stage, what, state, entry.key[:8], seconds)


@dataclass(frozen=True, slots=True)
class Source:
    """One system's rows: a file of an artefact (which may be still to be made) and the tokenizer of its ids."""

    system: str
    entry: Entry | None
    file: str
    tokenizer: str | None
    """Digest of the tokenizer that made the ids; None if there are none."""
    chat: Entry | None = None
    """What the model under test reads in place of the prompts, where it has a chat template."""
    label: str = ""
    """Name in the plan and the record where the system's does not tell it from the run's other sources."""

    @property
    def title(self) -> str:
        """Name in the plan and the record."""
        return self.label or self.system

    @property
    def digest(self) -> str | None:
        """SHA-256 of the file; None while it is still to be made."""
        return self.entry.files[self.file] if self.entry is not None else None

    @property
    def identity(self) -> tuple[str | None, ...]:
        """What makes two sources the same rows, whatever they are called."""
        chat = self.chat.content if self.chat is not None else None
        return (self.digest or f"{self.title} {self.file}", self.tokenizer, chat)

    @property
    def path(self) -> Path:
        """Where the rows are."""
        if self.entry is None:
            raise SpecError(f"the rows of {self.system} were not made yet")
        return self.entry.path / self.file
