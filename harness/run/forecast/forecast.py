"""What a grid would find, make and need: its jobs' plans, added up, what several jobs share counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

from openended.harness.core.signature import canonical, digest
from openended.harness.models.backend import BackendSpec
from openended.harness.models.sizes import ModelSize, model_size
from openended.harness.models.spec import ModelSpec
from openended.harness.run.artifacts import Planned
from openended.harness.run.pipeline import Outcome
from openended.harness.run.rates import Rates, Sure
from openended.harness.run.settings import Settings

PASSES = {"score": "scorer", "embed": "embedder", "next_token": "model"}  # stage → whose model reads the texts
# Bytes a token of generations and scores, and a text of embeddings, as the store keeps them: texts and ids, float64,
# a thousand float32.
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
    found: int = 0
    make: int = 0
    """Steps that can begin at once."""
    waits: int = 0
    """Steps that wait for what is missing or still to be made."""
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

    def add(self, settings: Settings, outcome: Outcome) -> None:
        """Add one job's plan."""
        self.jobs += 1
        self._needs(settings, outcome)
        human, model = _sides(settings)
        for line in outcome.plan:
            rows = model if _of_model(line) else human
            key = line.key or digest([line.stage, line.what, rows, _who(settings, line.stage)])
            if key in self._steps:
                continue
            self._steps.add(key)
            if line.state == "hit":
                self.found += 1
                continue
            self.make += line.state == "make"
            self.waits += line.state == "waits"
            self._work(settings, line, rows)

    def _needs(self, s: Settings, outcome: Outcome) -> None:
        roles: dict[str, BackendSpec | None] = {"model": s.model if s.generations is None else None, "scorer": s.scorer}
        roles["embedder"] = s.embedder.model_spec() if s.embedder is not None else None
        if s.decoder is not None and s.generations is None:
            roles |= cast("dict[str, BackendSpec]", dict(s.decoder.companions()))
        used = {need.by for metric in s.metrics for need in metric.needs()} | {"model"}
        used |= {"embedder"} if any(n.kind == "embeddings" for m in s.metrics for n in m.needs()) else set()
        for role, spec in roles.items():
            if spec is not None and (role in used or role not in ("scorer", "embedder")):
                self.models.setdefault(_bare(spec), set()).add(role)
        for file in s.task.files():
            self.files[str(file.path)] = FileNeed(file.name, file.present, str(file.path), file.url)
        urls = [file.url for file in self.files.values() if file.url]
        for reason in outcome.missing:
            told = "in the local cache" in reason or any(url in reason for url in urls)  # as models and files
            if not told:
                self.missing[reason] = None

    def _work(self, s: Settings, line: Planned, rows: str) -> None:
        count = 0 if s.num_examples == "all" else s.num_examples  # of a file that is not read yet
        texts = count * (s.samples if _of_model(line) else 1)
        # The halves of the ceiling are the human rows and as many more, or two halves of them.
        texts = 0 if line.what.startswith("half of human") else texts
        tokens = texts * (s.max_new_tokens or 0)
        if line.stage == "generate" and s.decoder is not None:
            self.generate[rows] = (s.model, s.decoder.name, texts, tokens)
        elif line.stage in PASSES and (spec := _who(s, line.stage)) is not None:
            place = "more" if line.what.startswith("more human") else rows
            before = self.reads.get((line.stage, place, spec), (0, 0))
            self.reads[line.stage, place, spec] = max(before, (texts, tokens))
        elif line.stage == "measure":
            self.measures[line.what.split()[0]] += 1

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
        """Bytes that the store grows by, about."""
        scored = sum(tokens for (stage, _, _), (_, tokens) in self.reads.items() if stage != "embed")
        return self.tokens * _TOKEN_BYTES + scored * _SCORE_BYTES + self.read("embed") * _VECTOR_BYTES

    def sizes(self) -> dict[ModelSpec, ModelSize]:
        """Return model of this machine → what is known of it."""
        return {spec: model_size(spec) for spec in self.models if isinstance(spec, ModelSpec)}

    def time(self, rates: Rates) -> tuple[float | None, Sure]:
        """Return seconds and how sure they are; None where a model's rate is not known.

        Where scorer and embedder are one model, one pass makes both.
        """
        found = [(*rates.of_generating(m, d), tokens) for m, d, _, tokens in self.generate.values() if m is not None]
        passes = {(rows, spec): tokens for (_, rows, spec), (_, tokens) in self.reads.items()}
        found += [(*rates.of_passing(spec), tokens) for (_, spec), tokens in passes.items()]
        if any(rate is None for rate, _, _ in found):
            return None, "unknown"
        seconds = sum(tokens / rate for rate, _, tokens in found if rate)
        seconds += sum(rates.measures.get(name, 0.0) * count for name, count in self.measures.items())
        exact = all(sure == "measured" for _, sure, _ in found) and self.measures.keys() <= rates.measures.keys()
        return seconds, "measured" if exact else "scaled"


def forecast(plans: Iterable[tuple[Settings, Outcome]]) -> Forecast:
    """Add up the plans of jobs."""
    total = Forecast()
    for settings, outcome in plans:
        total.add(settings, outcome)
    return total


def _of_model(line: Planned) -> bool:
    """Say whether a step is about the texts of the system under test."""
    return line.stage in ("generate", "import") or "model" in line.what.split()


def _sides(s: Settings) -> tuple[str, str]:
    """Return what stands for the rows of both sides while their digests are not known."""
    cuts = s.model if s.generations is None and s.model is not None else s.scorer
    name = canonical(_bare(cuts)) if cuts is not None else None
    human = digest([canonical(s.task), s.num_examples, s.max_new_tokens, name])
    drawn = s.seed if s.decoder is not None and s.decoder.stochastic else None
    maker = [canonical(s.model), canonical(s.decoder), drawn, s.samples, s.least]
    return human, digest([human, s.generations or maker])


def _who(s: Settings, stage: str) -> BackendSpec | None:
    """Return the model of a stage that reads texts."""
    role = PASSES.get(stage)
    if role == "embedder":
        return _bare(s.embedder.model_spec()) if s.embedder is not None else None
    spec = s.scorer if role == "scorer" else s.model if role == "model" else None
    return _bare(spec) if spec is not None else None


def _bare(spec: BackendSpec) -> BackendSpec:
    """Return a model without its name in tables: one under two names is one."""
    if not isinstance(spec, ModelSpec):
        return spec
    return ModelSpec(path=spec.path, revision=spec.revision, dtype=spec.dtype, chat_template=spec.chat_template)
