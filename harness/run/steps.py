"""The steps of a run: what each makes and from what, and the executor that finds them in the store or computes them.

Stages declare steps; a plan is the same steps without computing them. Only the executor asks what is there: while
planning, a missing file or model is noted, and the steps that depend on it wait.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from openended.harness import core, storage
from openended.harness.models import BackendSpec, EmbedderSpec
from openended.harness.run.session import Session

log = logging.getLogger(__name__)

T = TypeVar("T")
State = Literal["hit", "make", "waits"]
Role = Literal["human", "more human", "other human", "ceiling", "model"]
"""The role of the texts of a step; `ceiling`: human texts in place of the system under test."""
Build = Callable[[Path], Mapping[str, Any]]
"""Writes the files of an artifact into a folder and returns its facts."""


class StepFailedError(Exception):
    """Raised while a step is computed, so that nothing of it is kept and the run goes on without it."""


@dataclass(eq=False)
class Step:
    """One artifact of a run, and a line of the plan."""

    stage: str
    what: str  # of what, in words; `stage:what` names it in the run record
    role: Role
    spec: Mapping[str, Any] | Callable[[], Mapping[str, Any]]  # all options that can change the bytes, with defaults
    inputs: Mapping[str, Any]  # name → a step, or a digest or what computes it; None while it is not known
    compute: Build
    num_texts: int = 0  # 0 where it is not known, or no model reads or writes the texts
    num_tokens: int = 0  # tokens of the continuations, at most; 0 where it is not known
    model: BackendSpec | None = None  # writes or reads the texts
    metric: str | None = None  # what is measured
    extent: Mapping[str, Any] = field(default_factory=dict)  # which rows it has, if they do not depend on each other
    # What the executor finds out.
    state: State = "waits"
    recipe: storage.Recipe | None = None  # none while an input is still to be made
    entry: storage.Entry | None = None  # none while it is only planned
    failure: str = ""  # why its computation failed, where the run went on without it
    undefined: str = ""  # why it has no value, or an input of it; metrics that read it are undefined

    @property
    def key(self) -> str | None:
        """The key in the store; None while an input is not known."""
        return self.recipe.key if self.recipe is not None else None

    @property
    def content(self) -> str | None:
        """The digest of its files; None while it is only planned."""
        return self.entry.content if self.entry is not None else None


@dataclass(frozen=True, slots=True)
class StepGroup:
    """Steps that one pass of a model can compute; `compute` makes those that are missing."""

    steps: Sequence[Step]
    compute: Callable[[Sequence[Step]], Sequence[Build]]
    find_family: Callable[[], str | None] | None = None
    """Names what it shares with passes that reuse each other's rows, which therefore wait for each other."""


@dataclass(frozen=True, slots=True)
class TextRows:
    """One system's rows: a file of a step and the tokenizer of its ids."""

    role: Role
    step: Step
    file: str
    tokenizer: str | None  # `digest_encoding` of the tokenizer that made the ids; None if there are none
    chat: Step | None = None  # what the model under test reads in place of the prompts, where it has a chat template
    label: str = ""  # name in the plan and the record if the role does not identify the rows
    num_texts: int = 0  # as planned; 0 where it is not known before they are read
    num_tokens: int = 0  # of the continuations, at most; 0 where it is not known

    @property
    def title(self) -> str:
        """Name in the plan and the record."""
        return self.label or self.role

    @property
    def entry(self) -> storage.Entry | None:
        """The artifact that holds the file; None while it is only planned."""
        return self.step.entry

    @property
    def digest(self) -> str | None:
        """SHA-256 of the file; None while it is still to be made."""
        return self.entry.files[self.file] if self.entry is not None else None

    @property
    def identity(self) -> tuple[str | None, ...]:
        """Identity of the rows, independent of their name."""
        chat = self.chat.content if self.chat is not None else None
        return (self.digest or f"{self.title} {self.file}", self.tokenizer, chat)

    @property
    def path(self) -> Path:
        """Where the rows are."""
        if self.entry is None:
            raise core.SpecError(f"the rows of {self.role} were not made yet")
        return self.entry.path / self.file

    def iterate_texts(self, scope: core.Scope) -> Iterator[str]:
        """Yield the texts, with prompts if the scope includes them, and with a bounded number of them in memory."""
        rows = storage.RowFile(self.path)
        if scope == "continuation":
            return rows.each("text")
        return (a + b for a, b in zip(rows.each("prompt"), rows.each("text"), strict=True))

    def load_tokens(self, scope: core.Scope) -> core.Ragged:
        """Return the token ids that the rows hold."""
        rows = storage.RowFile(self.path)
        return rows.token_ids if scope == "continuation" else storage.join_ragged(rows.prompt_ids, rows.token_ids)


def resolve_input(value: Any) -> str | None:  # noqa: ANN401 - an input of a step
    """Return the content digest of an input; None while it is only planned."""
    return value.content if isinstance(value, Step) else value() if callable(value) else value


def digest_model(spec: core.ModelInfo | EmbedderSpec) -> str:
    """Return a digest that is equal for equal models, and for one version of the class that runs them."""
    version = getattr(spec, "version", 1)
    return core.digest(spec.identity() | ({"version": version} if version != 1 else {}))


@dataclass
class Executor:
    """Finds the steps of a run in the store, or computes them; keeps what was done and how long it took."""

    session: Session
    plan_only: bool
    plan: list[Step] = field(default_factory=list)
    """All steps of the run, each once, in the order of their first request."""
    inputs: dict[str, str] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    missing: list[core.DataError] = field(default_factory=list)
    """What a plan found to be missing: files and models, with how to get them; each once."""
    provenance: dict[str, Mapping[str, core.Json]] = field(default_factory=dict)
    """Name of a cached or reused input → differences of the environment that computed it; of a server, its facts."""
    _entries: dict[str, storage.Entry | None] = field(default_factory=dict)
    """Key → what was made, found or planned under it."""

    @property
    def num_computed(self) -> int:
        """Number of artifacts computed, not cached."""
        return sum(step.state == "make" for step in self.plan)

    def find(self, load: Callable[[], T]) -> T | None:
        """Return the result of `load`; a plan notes what is missing and continues with None."""
        try:
            return load()
        except core.DataError as err:
            if not self.plan_only:
                raise
            if str(err) not in map(str, self.missing):
                self.missing.append(err.with_traceback(None))
            return None

    def run(self, *requests: Step | StepGroup) -> None:
        """Set the entries of steps; those of a plan stay None where they, or one of their inputs, are missing."""
        for request in requests:
            if isinstance(request, Step):
                self._identify(request)
                self._run(request, request.compute)
            else:
                self._run_group(request)

    def _identify(self, step: Step) -> None:
        """Set the recipe of a step, unless an input is not known yet."""
        of_inputs = (value.undefined for value in step.inputs.values() if isinstance(value, Step))
        step.undefined = next(filter(None, of_inputs), "")
        contents = {name: self.find(partial(resolve_input, value)) for name, value in step.inputs.items()}
        digests = {name: digest for name, digest in contents.items() if digest is not None}
        if len(digests) == len(contents) and None not in step.extent.values():
            spec = step.spec if isinstance(step.spec, Mapping) else self.find(step.spec)
            if spec is not None:
                step.recipe = storage.Recipe(step.stage, storage.STAGES[step.stage], spec, digests, step.extent)

    def _run(self, step: Step, build: Build) -> None:
        if step.undefined:
            return
        if (recipe := step.recipe) is None:
            if (step.stage, step.what) not in {(each.stage, each.what) for each in self.plan if each.state == "waits"}:
                self.plan.append(step)
            return
        if (key := recipe.key) in self._entries:
            step.entry = self._entries[key]
            return
        store = self.session.store
        started = time.monotonic()
        try:
            step.entry = store.find(recipe) if self.plan_only else store.make(recipe, build)
        except StepFailedError as err:
            step.failure = str(err)
            return
        except core.UndefinedMetric as err:
            step.undefined = str(err)
            return
        seconds = time.monotonic() - started
        self._entries[key] = step.entry
        step.state = "make" if step.entry is None or step.entry.computed else "hit"
        self.plan.append(step)
        if step.entry is None:
            self._subtract_shared_rows(step, recipe)
        elif not self.plan_only:
            self._record(step.entry, step.what, seconds)

    def _run_group(self, group: StepGroup) -> None:
        """Run steps of which the first missing one computes all the others that are missing."""
        for step in group.steps:
            self._identify(step)
        store = self.session.store
        missing = [step for step in group.steps if step.recipe is not None and store.find(step.recipe) is None]
        builds: dict[Step, Build] = {}

        def build(step: Step, folder: Path) -> Mapping[str, Any]:
            if step not in builds:  # the first of them, or one that another process has computed meanwhile
                rest = missing[missing.index(step) :]
                builds.update(zip(rest, group.compute(rest), strict=True))
            return builds.pop(step)(folder)

        is_computed = bool(missing) and not self.plan_only
        family = group.find_family() if group.find_family is not None and is_computed else None
        # One at a time, and before the lock of an entry, so that no two processes wait for each other.
        first = group.steps[0]
        with store.hold_lock(f"pass-{family}", f"{first.stage} {first.what}") if family else nullcontext():
            for step in group.steps:
                self._run(step, partial(build, step))

    def _subtract_shared_rows(self, step: Step, recipe: storage.Recipe) -> None:
        """Reduce a planned step by the rows that a smaller or larger run has made."""
        if not step.extent:
            return
        samples = int(step.extent["samples"])
        relatives = [entry.meta for entry in self.session.store.find_relatives(recipe) if entry.key != recipe.key]
        shared = max((count_shared_rows(meta, step.num_texts, samples) for meta in relatives), default=0)
        tokens_per_text = step.num_tokens // step.num_texts if step.num_texts else 0
        step.num_texts = max(step.num_texts - shared, 0)
        step.num_tokens = step.num_texts * tokens_per_text

    def _record(self, entry: storage.Entry, what: str, seconds: float) -> None:
        """Add an artifact to the facts of the run record, and log it."""
        stage = entry.stage
        name = f"{stage}:{what}" if what else stage
        self.inputs[name] = entry.name
        if not entry.computed:
            device = {"device": entry.meta["device"]} if "device" in entry.meta else {}
            self.provenance[name] = storage.compare_environments(entry.maker, storage.describe_environment()) | device
        others = {**entry.meta.get("reused_from", {}), **self.provenance.get(name, {})}
        others |= {fact: entry.meta[fact] for fact in ("served", "reused_tokens") if entry.meta.get(fact)}
        if others:
            self.provenance[name] = others
        self.timings[stage] = round(self.timings.get(stage, 0.0) + seconds, 3)
        level = logging.INFO if entry.computed or stage != "measure" else logging.DEBUG
        state = "computed" if entry.computed else "cached"
        log.log(level, "%-10s %-34s %s  %s  %.1f s", stage, what, state, entry.key[:8], seconds)


def count_shared_rows(meta: Mapping[str, Any], num_texts: int, samples: int) -> int:
    """Return how many of `num_texts` rows, with `samples` per example, a relative with these facts has."""
    stored = meta.get("samples", samples)
    return int(min(meta.get("replies", meta.get("n", 0)) // stored, num_texts // samples) * min(stored, samples))
