"""What a spec and a metric are: the contract that every registered class keeps."""

from __future__ import annotations

import dataclasses
import typing
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from openended.harness.errors import DataError, SpecError
from openended.harness.options import fitted
from openended.harness.resampling import Plan, Replicates
from openended.harness.signature import signature
from openended.harness.types import F64, Example, MetricResult, NextToken, Ragged, SourceFile

T = TypeVar("T")

Direction = Literal["higher", "lower", "match_human"]
Family = Literal["text", "scored", "two_sample", "teacher_forced", "human"]
Resampling = Literal["bootstrap", "subsample", "none"]
NeedKind = Literal["texts", "tokens", "stops", "embeddings", "token_nll", "next_token", "judgments"]
Scope = Literal["continuation", "prompt_and_continuation"]
Unit = Literal["tokens", "words"]


class Spec:
    """Base of every frozen options class: checks types on construction, by the annotations.

    Subclasses are `@dataclass(frozen=True, kw_only=True)`; `check` holds their own rules and raises `SpecError`. Group,
    name, version and options identify a spec, in keys as in signatures.
    """

    group: ClassVar[str] = ""
    """The registry's group; `register` sets it where the base of the group has not."""
    name: ClassVar[str]
    version: ClassVar[int] = 1
    error_name: ClassVar[str] = ""
    """What errors call it; empty: its name."""

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            value = fitted(getattr(self, f.name), hints[f.name], f"{self.error_name or self.name}.{f.name}")
            object.__setattr__(self, f.name, value)
        self.check()

    def check(self) -> None:
        """Raise `SpecError` if the options are out of range or do not go together."""

    def require(self, claim: bool, option: str, accepted: str) -> None:
        """Raise a `SpecError` that names the option, its value and what is accepted."""
        if not claim:
            value = getattr(self, option)
            raise SpecError(f"{self.error_name or self.name}.{option}: expected {accepted}, got {value!r:.80}")


@dataclass(frozen=True, slots=True)
class Need:
    """One kind of feature that a metric asks for.

    `tokens` → `Ragged` of integers; `texts` → list of str; `stops` → bool array, true where the length limit was hit;
    `embeddings` → float32 (n, d); `token_nll` → `Ragged` float64, nats; `next_token` → `NextToken`;
    `judgments` → `openended.metrics._judgments.Judgments`.
    """

    kind: NeedKind
    by: str = ""
    """Who makes it: a role of the config (`scorer`, `embedder`, `decoder`, `model`) or `words` for whitespace words."""
    scope: Scope = "continuation"
    options: tuple[tuple[str, str | int | float | bool | None], ...] = ()
    """Further options of the feature (for example `(("bos", False),)`), sorted by name."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One system's features; rows sorted by (example id, sample), the same order in every feature."""

    system: str
    ids: Sequence[str]
    data: Mapping[Need, Any]
    memo: dict[tuple[Hashable, ...], Any] = field(default_factory=dict)
    """Holds what `derived` made; not part of the features."""

    def __len__(self) -> int:
        return len(self.ids)

    def tokens(self, need: Need) -> Ragged:
        """Token ids (or ids of whitespace words), integers."""
        return self._get(need, Ragged)

    def token_nll(self, need: Need) -> Ragged:
        """Negative log-likelihood a token, nats, float64."""
        return self._get(need, Ragged)

    def texts(self, need: Need) -> list[str]:
        """Texts of the needed scope."""
        return self._get(need, list)

    def embeddings(self, need: Need) -> NDArray[np.float32]:
        """Embeddings, shape (n, d); may be a memory map."""
        return self._get(need, np.ndarray)

    def stops(self, need: Need) -> NDArray[np.bool_]:
        """True where the text hit the length limit, shape (n,)."""
        return self._get(need, np.ndarray)

    def next_token(self, need: Need) -> NextToken:
        """Statistics of Q on human text."""
        return self._get(need, NextToken)

    def derived(self, key: tuple[Hashable, ...], make: Callable[[], T]) -> T:
        """Return something derived from this side's features, made at most once while the side lives.

        `key` starts with the name of what is made and holds all that it depends on (the need, the options).
        """
        if key not in self.memo:
            self.memo[key] = make()
        made: T = self.memo[key]
        return made

    def _get(self, need: Need, kind: type[T]) -> T:
        if need not in self.data:
            raise DataError(f"system {self.system}: feature {need} was not made; it has {list(self.data)}")
        value = self.data[need]
        if not isinstance(value, kind):
            raise TypeError(f"{need}: expected {kind.__name__}, got {type(value).__name__}")
        return value


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """What a metric gets: both sides, and the facts that enter its signature; a human row has the human side twice."""

    human: Side
    model: Side
    facts: Mapping[str, str] = field(default_factory=dict)
    others: Sequence[Side] = ()
    """All systems of a grid, for the metrics that fit something on all of them; empty outside a grid."""


class Metric(Spec):
    """A frozen dataclass of options with a pure `compute`; the mathematics lives in functions beside it.

    `sides`: `one` reads `features.model` alone (and so has a human row of its own); `two` compares the sides (its human
    row is the human ceiling where `ceiling` is true); `human` reads statistics of Q on human text.
    """

    group: ClassVar[str] = "metric"
    family: ClassVar[Family]
    direction: ClassVar[Direction]
    bounds: ClassVar[tuple[float, float]]
    resampling: ClassVar[Resampling]
    sides: ClassVar[Literal["one", "two", "human"]]
    ceiling: ClassVar[bool] = False
    least_samples: ClassVar[int] = 1
    """Texts a prompt that it needs to have a value."""
    titles: ClassVar[Mapping[str, str]] = {}
    """Display names of the values, where they differ from the key."""
    directions: ClassVar[Mapping[str, Direction | Literal["none"]]] = {}
    """Directions of the values that differ from the metric's own."""
    targets: ClassVar[Mapping[str, float]] = {}
    """What two sets of texts from one source have on average, for values that can lie on either side of it."""

    def best_of(self, key: str) -> str:
        """Return what is best of a value: its direction, `none`, or `nearest X` where it has a target."""
        target = self.targets.get(key)
        return self.directions.get(key, self.direction) if target is None else f"nearest {target:g}"

    @property
    def reads_grid(self) -> bool:
        """Return true if the metric reads `Features.others`: it is then computed once the whole grid is generated."""
        return False

    def needs(self) -> tuple[Need, ...]:
        """Return the features that `compute` reads."""
        raise TypeError(f"{type(self).__name__} does not say what it needs")

    def compute(self, features: Features) -> MetricResult:  # noqa: ARG002 - the signature is the contract
        """Compute the metric; pure and deterministic.

        Raises:
            UndefinedMetric: If it has no value on these features; becomes "–" in tables.
        """
        raise TypeError(f"{type(self).__name__} has no compute")

    def replicates(self, features: Features, result: MetricResult, plan: Plan) -> Mapping[str, Replicates]:
        """Return draws of the values over the examples, re-using what `compute` found; of some of them, or none.

        Where a bootstrap is valid: of every value that is the mean of its values by example.
        """
        if self.resampling != "bootstrap":
            return {}
        ids = (features.human if self.sides == "human" else features.model).ids
        return plan.means(ids, result.per_example, result.values)

    def result(
        self,
        features: Features,
        primary: str,
        values: Mapping[str, float],
        *,
        notes: Sequence[str] = (),
        per_example: Mapping[str, F64] | None = None,
        arrays: Mapping[str, NDArray[Any]] | None = None,
        sd: Mapping[str, float] | None = None,
    ) -> MetricResult:
        """Wrap values with everything that identifies them; array `prompts` says which rows are of one prompt."""
        ids = features.model.ids
        if per_example and self.sides != "human" and len(set(ids)) < len(ids):
            _, prompts = np.unique(np.asarray(ids, dtype=np.str_), return_inverse=True)
            arrays = {**(arrays or {}), "prompts": prompts.astype(np.int64)}
        return MetricResult(
            metric=self.name, signature=signature(self, features.facts), primary=primary,
            values={k: float(v) for k, v in values.items()}, n_human=len(features.human), n_model=len(features.model),
            notes=tuple(notes), per_example=per_example or {}, arrays=arrays or {},
            sd={k: float(v) for k, v in (sd or {}).items()},
        )  # fmt: skip


class Tokenizer(Protocol):
    """The part of a tokenizer that tasks and features use; no special tokens are added."""

    def encode(self, text: str) -> list[int]:
        """Return token ids of `text`."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        ...


class Task(Spec):
    """Where prompts and human continuations come from."""

    group: ClassVar[str] = "task"
    source: ClassVar[str] = ""
    """Address of the data, for the README's table of tasks."""
    size: ClassVar[str] = ""
    licence: ClassVar[str] = ""
    obtained: ClassVar[str] = ""
    """How its files come to be there: fetched, made by hand, none needed."""
    command: ClassVar[str] = ""
    """A command that runs it; what the user puts in is written in capitals."""
    no_human: ClassVar[str] = ""
    """What to do about a missing human side, where `has_human` can be false."""
    paired: ClassVar[bool] = True
    """False: nothing is generated for one text; a system's texts stand beside the human ones as a whole."""

    def files(self) -> list[SourceFile]:
        """Return the files that the task reads, present or not; cheap, touches no network."""
        return []

    def fetch(self) -> None:
        """Download what is missing; afterwards `fingerprint` and `examples` touch no network.

        Raises:
            DataError: If a file cannot be had; says from where, and where to put it by hand.
        """

    def fingerprint(self) -> str:
        """Return a SHA-256 (hex) of the source data; enters keys and signatures.

        Raises:
            DataError: If a file is missing; says where to get it and where to put it.
        """
        raise TypeError(f"{type(self).__name__} has no fingerprint")

    def has_human(self) -> bool:
        """Return false if there is no human side: then only metrics of one side can be made."""
        return True

    def remarks(self) -> Sequence[str]:
        """Return what the reader of a table must know of this task's texts; goes into the run record's notes."""
        return ()

    def own_system(self, name: str) -> Callable[[], list[str]] | None:  # noqa: ARG002 - the signature is the contract
        """Return what reads the texts of a system that the task itself holds, or None if it knows none of the name.

        `generations=NAME` then scores it; the texts answer no prompt and stand beside the human ones row by row.
        """
        return None

    def needs_tokenizer(self) -> bool:
        """Return true if prompts are cut by tokens of the model under test."""
        return False

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:  # noqa: ARG002
        """Yield all examples in a canonical order; the first N of them are a fair sample.

        Args:
            tokenizer: The tokenizer of the model under test, given if `needs_tokenizer`.
            skipped: Reason → count of records passed over; filled while the examples are drawn.
        """
        raise TypeError(f"{type(self).__name__} has no examples")
