"""Resolve settings, once, into the parts that the stages of a run receive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from openended.harness.core import Json, Metric, Runtime, Task, digest
from openended.harness.decoders import Decoder
from openended.harness.models import BackendSpec, EmbedderSpec, ModelSpec, tokenizer_digest
from openended.harness.run.settings import Settings

# Replaces a tokenizer's digest if the rows are stored as text only.
NO_TOKENIZER = "none"


@dataclass(frozen=True)
class DataPart:
    """Settings that determine the examples and the human side."""

    task: Task
    num_examples: int | Literal["all"]
    num_spare: int
    """Number of additional human texts for the ceiling: as many as the system has; 0 if unknown."""
    max_new_tokens: int | None
    tokenizer_spec: ModelSpec | None
    """Whose tokens the rows are kept in: the model's under test, else the scorer's; None: text only."""
    chat_model: ModelSpec | None
    """The model under test if it reads its prompts through a chat template."""

    @property
    def num_planned(self) -> int:
        """Number of examples; 0 while it is not known, because all of a file are taken."""
        return 0 if self.num_examples == "all" else self.num_examples

    @cached_property
    def tokenizer_digest(self) -> str:
        """Digest of the tokenizer that the rows are kept in, or `NO_TOKENIZER`."""
        return NO_TOKENIZER if self.tokenizer_spec is None else tokenizer_digest(self.tokenizer_spec)


@dataclass(frozen=True)
class GenerationPart:
    """Who writes the texts under test: a model with its decoder, or a file."""

    model: BackendSpec | None
    """None where the texts come from a file; so is the decoder."""
    decoder: Decoder | None
    seed: int
    samples: int
    max_new_tokens: int | None
    min_new_tokens: int
    continue_after_end: bool
    chat_model: ModelSpec | None
    """The model if it reads its prompts through a chat template."""
    file: str | None
    """The file of imported generations, or the name of a system that the task holds."""
    file_field: str | None
    system: str | None
    """What tables call the system of that file; None: by the file's name."""


@dataclass(frozen=True)
class UserEmbeddings:
    """Files of the user's own vectors, one row a text."""

    human: Path
    model: Path
    whole: bool
    """Whether each file must have exactly one row for each text; else the first rows are taken."""


@dataclass(frozen=True)
class ScoringPart:
    """The scoring models, and whose tokens are counted."""

    scorer: BackendSpec | None
    embedder: EmbedderSpec | None
    user_embeddings: UserEmbeddings | None
    """Used in place of an embedder's vectors."""
    counter: ModelSpec | None
    """Whose tokens the text statistics count: the scorer's, else the model's under test; None: whitespace words."""
    cut_by_words: bool
    """Whether `max_new_tokens` counts whitespace words, for want of a tokenizer."""


@dataclass(frozen=True)
class MetricsPart:
    """Settings of the metrics."""

    specs: tuple[Metric, ...]
    intervals: int
    """Replicates for the intervals of the values; 0: none."""
    judgments: str | None
    """File of human judgments."""
    judgment_columns: Mapping[str, str]
    """Our name of a column of that file → the file's."""


@dataclass(frozen=True)
class RuntimePart:
    """Where and how the run is computed; nothing here changes a number."""

    options: Runtime
    outputs_dir: Path
    experiment: str


@dataclass(frozen=True)
class ResolvedRun:
    """One run, ready for its stages: each receives the parts that it reads."""

    data: DataPart
    generation: GenerationPart
    scoring: ScoringPart
    metrics: MetricsPart
    runtime: RuntimePart
    spec: Callable[[], dict[str, Json]]
    """Returns the settings as the run record states them."""


def digest_model(spec: BackendSpec | EmbedderSpec) -> str:
    """Return a digest that is equal for equal models."""
    return digest(spec.identity())


def resolve_run(settings: Settings) -> ResolvedRun:
    """Resolve the settings of a run; touches no file and no network.

    Digests are computed when they are first read and then kept: a plan goes on where a model is missing.
    """
    s = settings
    generates = s.generations is None
    model, decoder = (s.model, s.decoder) if generates else (None, None)
    chat_model = model.tokenizer_spec() if model is not None and model.chat_template else None
    tokenizers = (role.tokenizer_spec() for role in (model, s.scorer) if role is not None)
    counting = s.scorer if s.scorer is not None else model
    counter = counting.tokenizer_spec() if counting is not None else None
    num_examples = 0 if s.num_examples == "all" else s.num_examples  # all: not known before they are read
    vectors = {name: Path(path) for name, path in s.features.items() if path is not None}
    user_embeddings = UserEmbeddings(vectors["human"], vectors["model"], s.num_examples == "all") if vectors else None
    return ResolvedRun(
        data=DataPart(
            task=s.task,
            num_examples=s.num_examples,
            num_spare=num_examples * (s.samples if generates else 1),  # a file says itself how many an example has
            max_new_tokens=s.max_new_tokens,
            tokenizer_spec=next((spec for spec in tokenizers if spec is not None), None),
            chat_model=chat_model,
        ),
        generation=GenerationPart(
            model, decoder, s.seed, s.samples, s.max_new_tokens, s.min_new_tokens or 0,
            s.continue_after_end, chat_model,
            s.generations, s.generations_field, s.system,
        ),
        scoring=ScoringPart(
            s.scorer, s.embedder, user_embeddings, counter, counter is None and s.max_new_tokens is not None
        ),
        metrics=MetricsPart(s.metrics, s.intervals, s.judgments, s.judgment_columns),
        runtime=RuntimePart(s.runtime, s.outputs_dir, s.experiment),
        spec=s.spec,
    )  # fmt: skip
