"""The contract of a metric: the features it needs, the two sides it reads and the result it returns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from openended.harness.core.errors import DataError
from openended.harness.core.resampling import Plan, Replicates
from openended.harness.core.signature import build_signature
from openended.harness.core.spec import Spec
from openended.harness.core.types import F64, MetricResult, NextToken, Ragged

T = TypeVar("T")

Direction = Literal["higher", "lower", "match_human"]
Best = Literal[Direction, "target", "none"]
Family = Literal["text", "scored", "two_sample", "teacher_forced", "human"]
Resampling = Literal["bootstrap", "subsample", "none"]
NeedKind = Literal["texts", "tokens", "stops", "embeddings", "token_nll", "next_token", "judgments"]
Scope = Literal["continuation", "prompt_and_continuation"]
Unit = Literal["tokens", "words"]


@dataclass(frozen=True, slots=True)
class Need:
    """One kind of feature that a metric asks for.

    `tokens` → `Ragged` of integers; `texts` → list of str; `stops` → bool array, true where the length limit was hit;
    `embeddings` → float32 (n, d); `token_nll` → `Ragged` float64, nats; `next_token` → `NextToken`;
    `judgments` → `openended.metrics.judgments.Judgments`.
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
    """The cache of `derived`; not part of the features."""

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
        """Return a pure function of this side's features, computed at most once while the side lives.

        It is a cache that all metrics and runs of a session share (an n-gram index, a clustering of the human texts).
        What a metric's `compute` and `replicates` share goes through `Metric.prepare`.

        Args:
            key: Name of the function and all that it depends on (the need, the options).
            make: The function.
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

    def best_of(self, key: str) -> Best:
        """Return what is best of a value; `target`: nearest to its number in `targets`."""
        return "target" if key in self.targets else self.directions.get(key, self.direction)

    @property
    def reads_grid(self) -> bool:
        """Return true if the metric reads `Features.others`: it is then computed once the whole grid is generated."""
        return False

    def needs(self) -> tuple[Need, ...]:
        """Return the features that `compute` reads."""
        raise TypeError(f"{type(self).__name__} does not say what it needs")

    def prepare(self, features: Features) -> Any:  # noqa: ANN401, ARG002 - each metric has its own
        """Return what `compute` and `replicates` share; None where they share nothing.

        A metric that returns something takes it as a last argument `prepared` of both, and calls `prepare` itself where
        none is given.

        Raises:
            UndefinedMetric: As `compute`.
        """
        return None

    def compute(self, features: Features) -> MetricResult:  # noqa: ARG002 - the signature is the contract
        """Compute the metric; pure and deterministic.

        Raises:
            UndefinedMetric: If it has no value on these features; becomes "–" in tables.
        """
        raise TypeError(f"{type(self).__name__} has no compute")

    def replicates(self, features: Features, result: MetricResult, plan: Plan) -> Mapping[str, Replicates]:
        """Return draws of some of the values over the examples.

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
            metric=self.name, signature=build_signature(self, features.facts), primary=primary,
            values={k: float(v) for k, v in values.items()}, n_human=len(features.human), n_model=len(features.model),
            notes=tuple(notes), per_example=per_example or {}, arrays=arrays or {},
            sd={k: float(v) for k, v in (sd or {}).items()},
        )  # fmt: skip
