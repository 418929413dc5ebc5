"""Shared data types: files, examples, generations, features and results; imports no torch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

Stop = Literal["eos", "length"]
Thinking = Literal["drop", "keep", "only"]
"""What is scored of a text with reasoning: the answer, the whole text, or the reasoning."""
HUMAN = "human"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that a task reads."""

    name: str
    url: str
    """Where it comes from; empty for the user's own file."""
    path: Path
    """Where it is, or where to put it."""

    @property
    def present(self) -> bool:
        return self.path.exists()


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt with its human continuation."""

    id: str
    """Stable and readable, for example `webtext/000123`."""
    prompt: str
    human: str
    """The human continuation, without the prompt; its leading space is kept."""
    meta: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Generation:
    """One continuation, human or model; the prompt is not part of it."""

    example_id: str
    sample: int
    """Index among the draws for one prompt."""
    text: str
    token_ids: tuple[int, ...]
    """Ids under the model's tokenizer, kept so that nothing is tokenized again; without the end token."""
    stop: Stop
    """`eos`: it ended by itself; `length`: it hit `max_new_tokens`."""
    log_prob: float
    """Sum of natural-log probabilities of the tokens under the decoder's Q; NaN if the decoder has no Q."""
    reasoning: str | None = None
    """What the model reasoned before it answered, apart from the text; None if it has none, or the text includes it."""


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Rows of different lengths in one flat array: row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: NDArray[Any]
    """Shape (sum of lengths,)."""
    offsets: I64
    """Shape (n + 1,), starts with 0, non-decreasing."""

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[Any] | NDArray[Any]], dtype: Any) -> "Ragged":  # noqa: ANN401
        buffer, lengths = bytearray(), [0]  # only one row is held in addition
        for row in rows:
            array = np.asarray(row, dtype=dtype)
            buffer += array.tobytes()
            lengths.append(len(array))
        values = np.frombuffer(buffer, dtype=dtype) if buffer else np.zeros(0, dtype=dtype)
        return cls(values, np.cumsum(lengths, dtype=np.int64))

    @property
    def lengths(self) -> I64:
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[Any]:
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[i] for i in range(len(self)))


@dataclass(frozen=True, slots=True, eq=False)
class NextToken:
    """Per-position sufficient statistics of Q on human text; never tokens × vocabulary.

    All arrays are flat over positions, in row order; `offsets` marks the rows as in `Ragged`.
    """

    offsets: I64
    gold_prob: F64
    """Q(true token), in [0, 1]."""
    sum_sq: F64
    """Sum over the vocabulary of Q squared, in (0, 1]."""
    support: I64
    """Number of tokens with Q > 0."""
    argmax: I64
    """The most probable token's id."""
    gold: I64
    """The true token's id."""
    context: Ragged
    """Token ids that precede position 0 of each row (the prompt), for the repetition statistics."""
    vocab_size: int
    """Size of the logits."""
    entropy: F64 | None = None
    """Entropy of Q, nats; None where it was not asked for."""


_NOTES: Mapping[str, str] = {
    "remark": "{}",
    "fault": "DO NOT REPORT: {}",
    "batches": "a text can depend on the other texts of its batch: {}",
    "domain": "{} was trained on docstrings only: do not trust its scores here",
}
"""Kind of a note → its words, with a place for the arguments."""


@dataclass(frozen=True, slots=True)
class RunNote:
    """What the reader of a table must know of the texts of a run: programs read kind and arguments, people `str`."""

    kind: Literal["remark", "fault", "batches", "domain"]
    """`fault`: the texts are not what was asked for; `batches`: where their bits are not promised at every batch size;
    `domain`: a bundled scorer or embedder reads other texts than those that it was trained for."""
    arguments: tuple[str, ...]
    """The text of a remark; the reason of a fault; the precision and size of the batches; role and title of a model."""

    def __str__(self) -> str:
        return _NOTES[self.kind].format(" ".join(self.arguments))


Status = Literal["ok", "undefined", "failed"]
UNWRITTEN = {"unwritten": True}
"""Metadata of a field that `to_json` leaves out."""


def parse_direction(text: str) -> tuple[str, float | None]:
    """Return a direction, and the number that is best if it is `nearest 0.5`, which becomes `target`."""
    kind, _, number = text.partition(" ")
    return ("target", float(number)) if number else (kind, None)


@dataclass(frozen=True, slots=True, repr=False)
class MetricResult:
    """One metric of one system, from its computation to tables: stored, in the record of a run, and read from it."""

    metric: str
    """Registered name of the metric."""
    signature: str
    """Everything that identifies the number except the system under test."""
    primary: str
    """The key of `values` that a table shows first."""
    values: Mapping[str, float]
    """NaN in memory is `null` on disk and "–" in a table."""
    n_human: int
    """Texts of the human side."""
    n_model: int
    """Texts of the system under test."""
    status: Status = "ok"
    """`undefined`: it has no value for these texts; `failed`: its code raised."""
    notes: tuple[str, ...] = ()
    """Notes for readers of a table: warnings, numbers of dropped texts, reasons."""
    per_example: Mapping[str, F64] = field(default_factory=dict, metadata=UNWRITTEN)
    """Name → shape (n_model,), rows in the order of the model side's ids."""
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict, metadata=UNWRITTEN)
    """Curves and histograms for the figures."""
    sd: Mapping[str, float] = field(default_factory=dict)
    """Standard deviation of a value over the metric's own repetitions (for example clustering seeds)."""
    intervals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name → the fields of its `Interval`; some values have none."""
    no_interval: Mapping[str, str] = field(default_factory=dict)
    """Name of a value → why an interval was asked for and it has none."""
    draws: Mapping[str, F64] = field(default_factory=dict, metadata=UNWRITTEN)
    """Name → draws of the value; `repeats/<name>`, `share/<name>` → the other fields of its `Replicates`."""
    unranked: tuple[str, ...] = ()
    """Values that no table may call the best, for a reason that the notes give."""
    system: str = ""
    """`model`, the system under test; `human`, the human row; `ceiling`, human text against more human text."""
    invented: str = ""
    """What stands in for judgments of people: `simulated raters` or `invented judgments`; empty otherwise."""
    family: str = ""
    """Family of the metric, which groups tables."""
    direction: str = "none"
    """`higher`, `lower` or `match_human`: which value of the metric is best."""
    directions: Mapping[str, str] = field(default_factory=dict)
    """Name of a value → its own direction, `none` or `nearest 0.5`: see `parse_direction`."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Name of a value → display name, where it differs."""
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Name of a value → least and greatest number that it can be."""
    resampling: str = "none"
    """Which interval over examples is valid: `bootstrap`, `halves`, `subsample` or `none`."""
    artifact: str | None = None
    """Store entry (`stage/ab/key`) of its arrays; None if nothing was computed."""

    def describe_missing_intervals(self) -> list[str]:
        """Return a line per reason why values have no interval."""
        names: dict[str, list[str]] = {}
        for key, reason in self.no_interval.items():
            names.setdefault(reason, []).append(key)
        return [f"no interval of {', '.join(keys)}: {reason}" for reason, keys in names.items()]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value:.6g}" for name, value in self.values.items())
        message = values if self.status == "ok" else f"{self.status}: {'; '.join(self.notes)}"
        return f"<{self.metric}: {message}>"
