"""Forecast of a grid: what is cached, computed and missing; artifacts that jobs share count once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

from openended.harness.core import canonicalize, digest
from openended.harness.models import BackendSpec, ModelSize
from openended.harness.run.artifacts import PlannedArtifact
from openended.harness.run.forecast.rates import Certainty, Rates
from openended.harness.run.pipeline import Outcome
from openended.harness.run.resolve import ResolvedRun

PASSES = ("score", "embed", "next_token")  # stages in which a model reads texts
# Bytes per token of generations and of scores, and per text of embeddings, in the store: texts and ids, float64, a
# thousand float32.
_TOKEN_BYTES, _SCORE_BYTES, _VECTOR_BYTES = 16, 8, 4096


@dataclass(frozen=True, slots=True)
class FileNeed:
    """A file of a task."""

    name: str
    present: bool
    path: str
    url: str


@dataclass
class Forecast:
    """The plan of a grid in numbers."""

    jobs: int = 0
    num_cached: int = 0
    make: int = 0
    """Steps that can begin at once."""
    waits: int = 0
    """Steps that depend on missing or not yet computed artifacts."""
    models: dict[BackendSpec, set[str]] = field(default_factory=dict)
    """Model → its roles."""
    files: dict[str, FileNeed] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    """What is missing beside models and files, each reason once."""
    generate: dict[str, tuple[BackendSpec | None, str, int, int]] = field(default_factory=dict)
    """Texts to make: what → (model, decoder, texts, tokens at most)."""
    reads: dict[tuple[str, str, BackendSpec], tuple[int, int]] = field(default_factory=dict)
    """(stage, rows, model) → (texts, tokens at most) that a model reads."""
    measures: Counter[str] = field(default_factory=Counter)
    """Metric → values to compute."""
    _steps: set[str] = field(default_factory=set)

    def add(self, run: ResolvedRun, outcome: Outcome) -> None:
        """Add one job's plan."""
        self.jobs += 1
        self._add_needs(run, outcome)
        human, model = _make_placeholders(run)
        for line in outcome.plan:
            rows = model if line.work.role == "model" else human
            reader = _drop_label(line.work.model) if line.stage in PASSES and line.work.model is not None else None
            key = line.key or digest([line.stage, line.what, rows, reader])
            if key in self._steps:
                continue
            self._steps.add(key)
            if line.state == "hit":
                self.num_cached += 1
                continue
            self.make += line.state == "make"
            self.waits += line.state == "waits"
            self._add_work(run, line, rows, reader)

    def _add_needs(self, run: ResolvedRun, outcome: Outcome) -> None:
        generation, embedder = run.generation, run.scoring.embedder
        roles: dict[str, BackendSpec | None] = {"model": generation.model, "scorer": run.scoring.scorer}
        roles["embedder"] = embedder.model_spec() if embedder is not None else None
        if generation.decoder is not None:
            roles |= cast("dict[str, BackendSpec]", dict(generation.decoder.companions()))
        needs = [need for metric in run.metrics.specs for need in metric.needs()]
        used = {need.by for need in needs} | {"model"}
        used |= {"embedder"} if any(need.kind == "embeddings" for need in needs) else set()
        for role, spec in roles.items():
            if spec is not None and (role in used or role not in ("scorer", "embedder")):
                self.models.setdefault(_drop_label(spec), set()).add(role)
        for file in run.data.task.files():
            self.files[str(file.path)] = FileNeed(file.name, file.present, str(file.path), file.url)
        urls = {file.url for file in self.files.values()} - {""}
        for missing in outcome.missing:
            if not missing.is_model and missing.url not in urls:  # those are listed as models and files
                self.missing[missing.reason] = None

    def _add_work(self, run: ResolvedRun, line: PlannedArtifact, rows: str, reader: BackendSpec | None) -> None:
        work, decoder = line.work, run.generation.decoder
        if line.stage == "generate" and decoder is not None:
            self.generate[rows] = (work.model, decoder.name, work.num_texts, work.num_tokens)
        elif reader is not None:
            key = (line.stage, "more" if work.role == "more human" else rows, reader)
            self.reads[key] = max(self.reads.get(key, (0, 0)), (work.num_texts, work.num_tokens))
        elif work.metric is not None:
            self.measures[work.metric] += 1

    def read(self, stage: str) -> int:
        """Return how many texts a stage's models read."""
        return sum(texts for (name, _, _), (texts, _) in self.reads.items() if name == stage)

    @property
    def texts(self) -> int:
        """Texts to generate."""
        return sum(texts for _, _, texts, _ in self.generate.values())

    @property
    def tokens(self) -> int:
        """Tokens to generate, at most."""
        return sum(tokens for _, _, _, tokens in self.generate.values())

    @property
    def disk(self) -> int:
        """Approximate number of bytes by which the store grows."""
        scored = sum(tokens for (stage, _, _), (_, tokens) in self.reads.items() if stage != "embed")
        return self.tokens * _TOKEN_BYTES + scored * _SCORE_BYTES + self.read("embed") * _VECTOR_BYTES

    def sizes(self) -> dict[BackendSpec, ModelSize]:
        """Return model → size, for the models that run on this machine."""
        return {spec: size for spec in self.models if (size := spec.describe_size()) is not None}

    def time(self, rates: Rates) -> tuple[float | None, Certainty]:
        """Return the seconds and their certainty; None if the rate of a model is unknown.

        Where scorer and embedder are one model, one pass makes both.
        """
        rates_and_tokens = [
            (*rates.find_generation_rate(m, d), tokens) for m, d, _, tokens in self.generate.values() if m is not None
        ]
        passes = {(rows, spec): tokens for (_, rows, spec), (_, tokens) in self.reads.items()}
        rates_and_tokens += [(*rates.find_pass_rate(spec), tokens) for (_, spec), tokens in passes.items()]
        if any(rate is None for rate, _, _ in rates_and_tokens):
            return None, "unknown"
        seconds = sum(tokens / rate for rate, _, tokens in rates_and_tokens if rate)
        seconds += sum(rates.measures.get(name, 0.0) * count for name, count in self.measures.items())
        exact = (
            all(sure == "measured" for _, sure, _ in rates_and_tokens) and self.measures.keys() <= rates.measures.keys()
        )
        return seconds, "measured" if exact else "scaled"


def forecast_plans(plans: Iterable[tuple[ResolvedRun, Outcome]]) -> Forecast:
    """Add up the plans of jobs."""
    total = Forecast()
    for run, outcome in plans:
        total.add(run, outcome)
    return total


def _make_placeholders(run: ResolvedRun) -> tuple[str, str]:
    """Return placeholders for the rows of both sides while their digests are unknown."""
    data, generation = run.data, run.generation
    cuts = generation.model if generation.model is not None else run.scoring.scorer
    name = canonicalize(_drop_label(cuts)) if cuts is not None else None
    human = digest([canonicalize(data.task), data.num_examples, data.max_new_tokens, name])
    decoder = generation.decoder
    seed = generation.seed if decoder is not None and decoder.stochastic else None
    maker = [canonicalize(generation.model), canonicalize(decoder), seed, generation.samples, generation.min_new_tokens]
    return human, digest([human, generation.file or maker])


def _drop_label(spec: BackendSpec) -> BackendSpec:
    """Return a model without its name in tables: one under two names is one."""
    return spec.without_label()
