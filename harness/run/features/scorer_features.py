"""Features that a scorer computes: losses and ranks of tokens, vectors in the same pass, and gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openended.harness.core import Need, Ragged, Scope, UndefinedMetric
from openended.harness.models import BackendSpec, EmbedderSpec
from openended.harness.run import artifact_files as stages
from openended.harness.run.artifacts import ArtifactBuilder, ArtifactRequest, TextRows
from openended.harness.run.features.scoring_options import ScoringOptions
from openended.harness.run.resolve import GenerationPart, ScoringPart, digest_model
from openended.harness.run.scoring_models import format_hint
from openended.harness.storage import Entry

if TYPE_CHECKING:
    from openended.harness.run.features.passes import ModelPasses

WHOLE: Scope = "prompt_and_continuation"
_BY_MODEL = ("model", "decoder")


class ScorerFeatures:
    """Base of `Featurizer`: finds or computes the scorer's features of a source."""

    scoring: ScoringPart
    generation: GenerationPart
    builder: ArtifactBuilder
    passes: ModelPasses
    _features: dict[tuple[object, Need], Any]

    def _store(self, source: TextRows, need: Need, content: str | None, load: Callable[[], Any]) -> None:
        raise NotImplementedError

    def _request_vectors(self, source: TextRows, need: Need, spec: EmbedderSpec) -> ArtifactRequest:
        raise NotImplementedError

    def _store_vectors(self, source: TextRows, need: Need, entry: Entry | None) -> None:
        raise NotImplementedError

    def _compute_scores(self, source: TextRows, need: Need, needs: Sequence[Need]) -> None:
        """Compute token NLL under the full distribution; in the same pass ranks, and vectors if the models are one."""
        spec, score_options = self._choose_model(need), ScoringOptions.from_need(need)
        vectors = Need("embeddings", by="embedder", scope=WHOLE)
        embedder = self.scoring.embedder if vectors in needs and not self.scoring.user_embeddings else None
        done = (source.identity, vectors) in self._features
        if done or embedder is None or not score_options.is_plain or not self._can_share_pass(embedder, spec):
            embedder = None
        nll, rank = replace(need, kind="token_nll"), replace(need, kind="token_rank")
        requested = {n: k for n, k in ((nll, "score"), (rank, "rank")) if n is need or n in needs}
        stage_names = [*requested.values(), *(["embed"] if embedder is not None else [])]
        requests = [self._request_scores(source, score_options, spec, stage) for stage in requested.values()]
        if embedder is not None:
            requests.append(self._request_vectors(source, vectors, embedder))

        def compute(indices: Sequence[int]) -> Sequence[Callable[[Path], Mapping[str, Any]]]:
            return self.passes.score_and_embed(spec, embedder, source, score_options, [stage_names[i] for i in indices])

        entries = self.builder.build_together(requests, compute)
        for feature_need, entry in zip(requested, entries, strict=False):
            self._store(source, feature_need, get_content(entry), partial(_load_scores, entry))
        if embedder is not None:
            self._store_vectors(source, vectors, entries[-1])

    def _compute_gradients(self, source: TextRows, need: Need) -> None:
        """Compute sketches of the gradients of the scorer's losses of texts."""
        spec, options = self._choose_model(need), dict(need.options)
        size = int(options.pop("size") or 0)
        score_options = ScoringOptions.from_need(replace(need, options=tuple(options.items())))
        request = self._request_scores(source, score_options, spec, "gradients")
        request = replace(request, spec={**request.spec, "size": size})
        entry = self.builder.build(request, partial(self.passes.sketch_gradients, spec, source, score_options, size))
        self._store(source, need, get_content(entry), lambda: stages.load_array(get_path(entry) / stages.VECTORS))

    def _can_share_pass(self, embedder: EmbedderSpec, scorer: BackendSpec) -> bool:
        """Return whether one pass of the scorer can compute the embedder's vectors too."""
        if embedder.kind != "causal" or embedder.lengths:
            return False
        both = self.builder.try_or_note(lambda: (embedder.model_spec().identity(), scorer.identity()))
        return both is not None and both[0] == both[1]

    def _request_scores(
        self, source: TextRows, score_options: ScoringOptions, spec: BackendSpec, stage: str
    ) -> ArtifactRequest:
        is_other = spec is not self.scoring.scorer and self._digest_model(spec) != self._digest_model(
            self.scoring.scorer
        )
        inputs = {"rows": source.digest, "scorer": self._digest_model(spec), **digest_chat(source, spec)}
        what = f"{source.title} {score_options.title}" + f" by {spec.title}" * is_other
        return ArtifactRequest(stage, what, score_options.facts(), inputs, source.workload(spec))

    def _choose_model(self, need: Need) -> BackendSpec:
        spec = find_model(need, self.generation, self.scoring)
        if spec is None:
            raise UndefinedMetric(
                f"needs {need.kind} by the model: set model=…" if need.by in _BY_MODEL else format_hint("scorer")
            )
        return spec

    def _digest_model(self, spec: BackendSpec | EmbedderSpec | None) -> str | None:
        """Return a digest that is equal for equal models; None if there is no model or a plan finds it missing."""
        return self.builder.try_or_note(partial(digest_model, spec)) if spec is not None else None


def find_model(need: Need, generation: GenerationPart, scoring: ScoringPart) -> BackendSpec | None:
    """Return what computes a feature of tokens: the model under test or the scorer; None if the run has it not."""
    return generation.model if need.by in _BY_MODEL else scoring.scorer


def _load_scores(entry: Entry | None) -> Ragged:
    return stages.load_ragged(get_path(entry))


def digest_chat(source: TextRows, spec: BackendSpec) -> dict[str, str | None]:
    """Return the chat template's field of a key, if the model reads the prompts through one."""
    if not spec.chat_template:
        return {}
    return {"chat": source.chat.content if source.chat is not None else None}


def get_content(entry: Entry | None) -> str | None:
    """Return an artifact's digest; None while it is only planned."""
    return entry.content if entry is not None else None


def get_path(entry: Entry | None) -> Path:
    """Return an artifact's folder."""
    if entry is None:
        raise UndefinedMetric("a feature was not made yet")
    return entry.path
