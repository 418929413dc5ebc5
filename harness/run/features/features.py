"""Compute the features (texts, tokens, scores, embeddings, Q) that the metrics of a run need, once for all metrics.

Each model passes once over each source; if scorer and embedder are the same causal model, one pass gives scores and
vectors. For a feature that a source cannot have, the reason is stored, and the metric shows it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from openended.harness.core import HUMAN, Need, Ragged, Runtime, Side, UndefinedMetric, canonicalize, digest
from openended.harness.decoders import Decoder, QDecoder
from openended.harness.models import EmbedderSpec, ModelSpec, tokenizer_digest
from openended.harness.run import artifact_files as stages
from openended.harness.run.artifacts import ArtifactBuilder, ArtifactRequest, TextRows
from openended.harness.run.corpus import digest_corpus, load_corpus
from openended.harness.run.features.passes import ModelPasses, load_row_tokens, load_texts
from openended.harness.run.features.scorer_features import ScorerFeatures, digest_chat, get_content, get_path
from openended.harness.run.features.scoring_options import ScoringOptions
from openended.harness.run.features.user_embeddings import find_user_embeddings
from openended.harness.run.resolve import GenerationPart, ScoringPart
from openended.harness.run.scoring_models import format_hint
from openended.harness.storage import Entry, RowFile

READ = (
    "texts",
    "stops",
    "log_prob",
    "tokens",
    "end_tokens",
    "corpus",
)  # read from the rows and by tokenizers, without weights
# Needed by decoders that match the perplexity of human text; from the model's full softmax, not from a Q.
FOR_DECODER = Need("token_nll", by="decoder")


@dataclass(frozen=True)
class FeatureHandle:
    """One feature of one source."""

    content: str | None
    """Digest of its inputs, part of the keys of metrics; None while the feature is not computed yet."""
    load: Callable[[], Any]
    reason: str = ""
    """Why the feature does not exist for this source; empty if it does."""

    @cached_property
    def value(self) -> Any:  # noqa: ANN401 - each kind has its own
        """The loaded feature; arrays are memory-mapped."""
        return self.load()


class Featurizer(ScorerFeatures):
    """Computes and caches the features of a run's sources (human, model and ceiling texts)."""

    def __init__(
        self, scoring: ScoringPart, generation: GenerationPart, runtime: Runtime, builder: ArtifactBuilder
    ) -> None:
        self.scoring = scoring
        self.generation = generation
        self.builder = builder
        self.passes = ModelPasses(runtime, builder.session)
        self._features: dict[tuple[object, Need], FeatureHandle] = {}

    def digests(self, source: TextRows, needs: Iterable[Need]) -> dict[str, str | None]:
        """Return the digest of each needed feature."""
        return {_label(need): self._get_feature(source, need).content for need in needs}

    def side(self, source: TextRows, needs: Iterable[Need]) -> Side:
        """Return the `Side` that a metric reads, with these features loaded.

        Sides are cached by the content of their features, so that values derived from one are shared between metrics.
        """
        features = {need: self._get_feature(source, need) for need in needs}
        contents = sorted([_label(need), str(feature.content)] for need, feature in features.items())
        key = digest([source.role, source.digest, contents])

        def load() -> Side:
            values = {need: feature.value for need, feature in features.items()}
            return Side(source.role, RowFile(source.path).ids, values)

        return self.builder.session.sides.get(key, load, lasting=source.role == HUMAN)

    def value(self, source: TextRows, need: Need) -> Any:  # noqa: ANN401 - each kind has its own
        """Return one feature, or None if it is not computed yet."""
        feature = self._get_feature(source, need)
        return feature.value if feature.content is not None else None

    def make(self, requests: Sequence[tuple[TextRows, Sequence[Need]]], decoder: Decoder | None) -> None:
        """Compute (or plan) all needed features of each source; features that exist are skipped."""
        missing: dict[object, dict[Need, TextRows]] = defaultdict(dict)
        for source, needs in requests:
            for need in needs:
                if (source.identity, need) not in self._features:
                    missing[source.identity].setdefault(need, source)
        # The outer loop is over stages, so that a model is loaded once for all sources.
        for kinds in (READ, ("next_token", "own"), ("token_nll", "token_rank"), ("gradients",), ("embeddings",)):
            for needs_of in missing.values():
                for need, source in needs_of.items():
                    kind = "own" if need.kind == "token_nll" and need.by == "model" else need.kind
                    if kind in kinds and (source.identity, need) not in self._features:
                        self._compute_feature(source, need, tuple(needs_of), decoder)

    def _compute_feature(self, source: TextRows, need: Need, needs: Sequence[Need], decoder: Decoder | None) -> None:
        try:
            if need.kind == "corpus":
                path = Path(str(dict(need.options)["file"]))
                content = self.builder.try_or_note(lambda: digest_corpus(path))
                self._store(source, need, content, partial(load_corpus, path))
            elif need.kind in READ:
                self._store(source, need, *self._load_or_tokenize(source, need))
            elif need.kind == "embeddings":
                self._compute_embeddings(source, need)
            elif need.kind == "gradients":
                self._compute_gradients(source, need)
            elif need.kind == "token_rank" or (need.kind == "token_nll" and need.by != "model"):
                self._compute_scores(source, need, needs)
            else:
                self._compute_q(source, need, decoder)
        except UndefinedMetric as err:
            self._features[source.identity, need] = FeatureHandle(None, dict, str(err))

    def _store(self, source: TextRows, need: Need, content: str | None, load: Callable[[], Any]) -> None:
        self._features[source.identity, need] = FeatureHandle(content, load)

    def _get_feature(self, source: TextRows, need: Need) -> FeatureHandle:
        feature = self._features[source.identity, need]
        if feature.reason:
            raise UndefinedMetric(feature.reason)
        return feature

    def _load_or_tokenize(self, source: TextRows, need: Need) -> tuple[str | None, Callable[[], Any]]:
        """Return digest and loader of texts, stop reasons or tokens; tokenizes if the rows use another tokenizer."""
        if need.kind == "texts":
            return source.digest, partial(load_texts, source, need.scope)
        if need.kind == "stops":
            return source.digest, lambda: RowFile(source.path).stops
        if need.kind == "log_prob":
            return source.digest, lambda: RowFile(source.path).log_probs
        if need.by == "rows":
            return source.digest, partial(load_row_tokens, source, need.scope)
        spec = self._find_counter(need)
        if need.kind == "end_tokens":
            return self._load_end_tokens(spec)
        if spec is None:
            return source.digest, partial(self.passes.words, source, need.scope)
        tokenizer, score_options = (
            self.builder.try_or_note(lambda: tokenizer_digest(spec)),
            ScoringOptions.from_need(need),
        )
        if tokenizer is not None and source.tokenizer == tokenizer and not score_options.tokenizes_again:
            return source.digest, partial(load_row_tokens, source, need.scope)

        def write(folder: Path) -> Mapping[str, Any]:
            stages.save_ragged(folder, self.passes.tokens(spec, source, score_options))
            return {}

        inputs = {"rows": source.digest, "tokenizer": tokenizer}
        what = f"{source.title} {score_options.title}"
        request = ArtifactRequest("tokens", what, score_options.token_facts(), inputs, source.workload())
        entry = self.builder.build(request, write)
        return get_content(entry), lambda: stages.load_ragged(get_path(entry))

    def _load_end_tokens(self, spec: ModelSpec | None) -> tuple[str | None, Callable[[], Any]]:
        """Load the ids of the tokens that end a text, from the tokenizer's files."""
        if spec is None:
            raise UndefinedMetric("needs a tokenizer with a token that ends a text: " + format_hint("scorer"))
        tokenizer = self.builder.try_or_note(lambda: tokenizer_digest(spec))
        return tokenizer, partial(self.passes.end_tokens, spec)

    def _compute_embeddings(self, source: TextRows, need: Need) -> None:
        """Compute embeddings at the maximum length, and in the same pass at the embedder's other lengths."""
        if (files := self.scoring.user_embeddings) is not None:
            self._store(source, need, *find_user_embeddings(files, source, self.builder))
            return
        spec = self.scoring.embedder
        if spec is None:
            raise UndefinedMetric(format_hint("embedder"))
        other_lengths = [n for n in spec.lengths if n != spec.max_length]
        specs = [spec, *(replace(spec, max_length=n) for n in other_lengths)]
        requests = [self._request_vectors(source, need, embedder) for embedder in specs]
        for i, n in enumerate(other_lengths, start=1):
            requests[i] = replace(requests[i], what=f"{requests[i].what} cut to {n}")
        compute = partial(self.passes.embed, specs, source, need.scope)
        self._store_vectors(source, need, self.builder.build_together(requests, compute)[0])

    def _store_vectors(self, source: TextRows, need: Need, entry: Entry | None) -> None:
        self._store(source, need, get_content(entry), lambda: stages.load_array(get_path(entry) / stages.VECTORS))

    def _compute_q(self, source: TextRows, need: Need, decoder: Decoder | None) -> None:
        """Compute the statistics of the decoder's Q on a source, or the token NLL under Q."""
        model = self.generation.model
        if model is None or decoder is None:
            raise UndefinedMetric("needs the generating model and its decoder; these texts come from a file")
        if not isinstance(decoder, QDecoder):
            raise UndefinedMetric(decoder.no_q_reason)
        if reason := self.builder.try_or_note(partial(model.cannot, "q_statistics", decoder)):
            raise UndefinedMetric(reason)
        min_new_tokens, q_decoder = self.generation.min_new_tokens, decoder

        def write(folder: Path) -> Mapping[str, Any]:
            return self.passes.read_q(folder, model, q_decoder, source, min_new_tokens)

        facts = {"decoder": canonicalize(decoder), "min_new_tokens": min_new_tokens}
        inputs = {"rows": source.digest, "model": self._digest_model(model), **digest_chat(source, model)}
        request = ArtifactRequest("next_token", source.title, facts, inputs, source.workload(model))
        entry = self.builder.build(request, write)

        def stats() -> Any:  # noqa: ANN401 - a NextToken
            return stages.load_next_token(get_path(entry), entry.meta if entry else {})

        def negative_log() -> Ragged:
            q = stats()
            with np.errstate(divide="ignore"):
                return Ragged(-np.log(q.gold_prob), q.offsets)

        self._store(source, need, get_content(entry), stats if need.kind == "next_token" else negative_log)

    def _request_vectors(self, source: TextRows, need: Need, spec: EmbedderSpec) -> ArtifactRequest:
        inputs = {"rows": source.digest, "embedder": self._digest_model(spec)}
        work = source.workload(spec.model_spec())
        return ArtifactRequest("embed", f"{source.title} {need.scope}", {"scope": need.scope}, inputs, work)

    def _find_counter(self, need: Need) -> ModelSpec | None:
        """Return the model whose tokenizer counts tokens; None for whitespace words."""
        if need.by == "words":
            return None
        return self.scoring.counter if need.by == "scorer" else self._choose_model(need).tokenizer_spec()


def _label(need: Need) -> str:
    return f"{need.kind}:{need.by}:{need.scope}:{digest(list(need.options))[:8]}"
