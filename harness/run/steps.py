"""Steps of a run: each makes or finds one artefact.

The same code plans and runs. While planning, a missing artefact is noted and what depends on its bytes waits for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from openended.harness.errors import DataError, SpecError
from openended.harness.run.session import Session
from openended.harness.store import Entry, Recipe

log = logging.getLogger(__name__)

T = TypeVar("T")
State = Literal["hit", "make", "waits"]


@dataclass(frozen=True, slots=True)
class Planned:
    """One line of the plan."""

    stage: str
    what: str
    state: State
    key: str | None
    """None while the key waits for bytes that are still to be made."""


@dataclass
class Steps:
    """Makes or finds artefacts, keeping account of what was done and how long it took."""

    session: Session
    plan_only: bool
    plan: list[Planned] = field(default_factory=list)
    inputs: dict[str, str] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    """What a plan found to be missing: files and models, with how to get them."""

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
        self.plan.append(Planned(stage, what, "waits", None))

    def step(
        self,
        stage: str,
        what: str,
        version: int,
        spec: Mapping[str, Any],
        inputs: Mapping[str, str | None],
        build: Callable[[Path], Mapping[str, Any]],
        *,
        resumable: bool = False,
    ) -> Entry | None:
        """Return the artefact of a stage; None if it is missing and this is a plan."""
        known = {name: value for name, value in inputs.items() if value is not None}
        if len(known) < len(inputs):
            self.wait(stage, what)
            return None
        recipe = Recipe(stage, version, spec, known)
        if self.plan_only:
            found = self.session.store.find(recipe)
            self.plan.append(Planned(stage, what, "hit" if found else "make", recipe.key))
            return found
        started = time.monotonic()
        entry = self.session.store.make(recipe, build, resumable=resumable)
        seconds = time.monotonic() - started
        self.plan.append(Planned(stage, what, "make" if entry.made else "hit", recipe.key))
        self.inputs[f"{stage}:{what}" if what else stage] = entry.name
        self.timings[stage] = round(self.timings.get(stage, 0.0) + seconds, 3)
        level = logging.INFO if entry.made or stage != "measure" else logging.DEBUG
        log.log(
            level, "%-10s %-34s %s  %s  %.1f s", stage, what, "made" if entry.made else "found", entry.key[:8], seconds
        )
        return entry


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

    @property
    def digest(self) -> str | None:
        """SHA-256 of the file; None while it is still to be made."""
        return self.entry.files[self.file] if self.entry is not None else None

    @property
    def path(self) -> Path:
        """Where the rows are."""
        if self.entry is None:
            raise SpecError(f"the rows of {self.system} were not made yet")
        return self.entry.path / self.file
