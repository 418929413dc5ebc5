"""The stage between texts and metrics: everything that the metrics of a run read of its sources, made at once.

The needs of all metrics are joined, each model passes once over each source, and where scorer and embedder are one
causal model, one pass gives scores and vectors. What a source cannot have is kept as a reason, for the metric to show.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from openended.harness.core import (
    HUMAN,
    Need,
    Ragged,
    Runtime,
    Side,
    UndefinedMetric,
    canonicalize,
    digest,
)
from openended.harness.decoders import Decoder, QDecoder
from openended.harness.models import EmbedderSpec, ModelSpec, tokenizer_digest
from openended.harness.run import artifact_files as stages
from openended.harness.run.artifacts import ArtifactBuilder, ArtifactRequest, TextRows
from openended.harness.run.features.passes import ModelPasses, load_row_tokens, load_texts
from openended.harness.run.features.reading import Reading
from openended.harness.run.features.scorer_features import ScorerFeatures, digest_chat, get_content, get_path
from openended.harness.run.features.user_embeddings import find_user_embeddings
from openended.harness.run.resolve import GenerationPart, ScoringPart
from openended.harness.run.scoring_models import format_hint
from openended.harness.storage import Entry, RowFile

READ = ("texts", "stops", "log_prob", "tokens", "end_tokens")  # off the rows and by tokenizers, without weights
# What a decoder that aims at the perplexity of human text needs: under the model's whole softmax, not under a Q.
FOR_DECODER = Need("token_nll", by="decoder")


@dataclass(frozen=True)
class FeatureHandle:
    """One feature of one source."""

    content: str | None
    """Digest of what it is made of; enters the keys of metrics; None while it is to be made."""
    load: Callable[[], Any]
    reason: str = ""
    """Why it does not exist for this source; empty where it does."""

    @cached_property
    def value(self) -> Any:  # noqa: ANN401 - each kind has its own
        """The feature in memory; arrays are memory maps."""
        return self.load()


class Featurizer(ScorerFeatures):
    """The features of a run's sources.

    Args:
        scoring: Scorer and embedder.
        generation: The model under test, for what is teacher-forced.
        runtime: Device and batch size.
        builder: Builds the artifacts.
    """

    def __init__(
        self, scoring: ScoringPart, generation: GenerationPart, runtime: Runtime, builder: ArtifactBuilder
    ) -> None:
        self.scoring = scoring
        self.generation = generation
        self.builder = builder
        self.passes = ModelPasses(runtime, builder.session)
        self._made: dict[tuple[object, Need], FeatureHandle] = {}

    def digests(self, source: TextRows, needs: Iterable[Need]) -> dict[str, str | None]:
        """Return need → digest.

        Raises:
            UndefinedMetric: If a feature does not exist for this system (a decoder without Q, say).
        """
        return {_label(need): self._feature(source, need).content for need in needs}

    def side(self, source: TextRows, needs: Iterable[Need]) -> Side:
        """Return a finished side with these features.

        Sides are kept by the contents of their features, so that what a metric derives from one is shared.
        """
        features = {need: self._feature(source, need) for need in needs}
        contents = sorted([_label(need), str(feature.content)] for need, feature in features.items())
        key = digest([source.role, source.digest, contents])

        def load() -> Side:
            values = {need: feature.value for need, feature in features.items()}
            return Side(source.role, RowFile(source.path).ids, values)

        return self.builder.session.sides.get(key, load, lasting=source.role == HUMAN)

    def value(self, source: TextRows, need: Need) -> Any:  # noqa: ANN401 - each kind has its own
        """Return one feature, or None while it is still to be made."""
        feature = self._feature(source, need)
        return feature.value if feature.content is not None else None

    def make(self, requests: Sequence[tuple[TextRows, Sequence[Need]]], decoder: Decoder | None) -> None:
        """Make (or plan) the union of what is needed of each source; what is there already is not asked for again.

        Args:
            requests: What is needed of each source; a source may come several times, under several names.
            decoder: Resolved; the features of Q are about it.
        """
        missing: dict[object, dict[Need, TextRows]] = defaultdict(dict)
        for source, needs in requests:
            for need in needs:
                if (source.identity, need) not in self._made:
                    missing[source.identity].setdefault(need, source)
        # One stage after the other, so that a model is loaded once for all sources.
        for kinds in (READ, ("next_token", "own"), ("token_nll", "token_rank"), ("gradients",), ("embeddings",)):
            for needs_of in missing.values():
                for need, source in needs_of.items():
                    kind = "own" if need.kind == "token_nll" and need.by == "model" else need.kind
                    if kind in kinds and (source.identity, need) not in self._made:
                        self._make(source, need, tuple(needs_of), decoder)

    def _make(self, source: TextRows, need: Need, needs: Sequence[Need], decoder: Decoder | None) -> None:
        try:
            if need.kind in READ:
                self._set(source, need, *self._read(source, need))
            elif need.kind == "embeddings":
                self._embeddings(source, need)
            elif need.kind == "gradients":
                self._gradients(source, need)
            elif need.kind == "token_rank" or (need.kind == "token_nll" and need.by != "model"):
                self._scores(source, need, needs)
            else:
                self._q(source, need, decoder)
        except UndefinedMetric as err:
            self._made[source.identity, need] = FeatureHandle(None, dict, str(err))

    def _set(self, source: TextRows, need: Need, content: str | None, load: Callable[[], Any]) -> None:
        self._made[source.identity, need] = FeatureHandle(content, load)

    def _feature(self, source: TextRows, need: Need) -> FeatureHandle:
        feature = self._made[source.identity, need]
        if feature.reason:
            raise UndefinedMetric(feature.reason)
        return feature

    def _read(self, source: TextRows, need: Need) -> tuple[str | None, Callable[[], Any]]:
        """What is read off the rows, and tokens under another tokenizer than that of the rows."""
        if need.kind == "texts":
            return source.digest, partial(load_texts, source, need.scope)
        if need.kind == "stops":
            return source.digest, lambda: RowFile(source.path).stops
        if need.kind == "log_prob":
            return source.digest, lambda: RowFile(source.path).log_probs
        if need.by == "rows":
            return source.digest, partial(load_row_tokens, source, need.scope)
        spec = self._counter(need)
        if need.kind == "end_tokens":
            return self._end_tokens(spec)
        if spec is None:
            return source.digest, partial(self.passes.words, source, need.scope)
        tokenizer, reading = self.builder.try_or_note(lambda: tokenizer_digest(spec)), Reading.of(need)
        if tokenizer is not None and source.tokenizer == tokenizer and not reading.tokenizes_again:
            return source.digest, partial(load_row_tokens, source, need.scope)

        def write(folder: Path) -> Mapping[str, Any]:
            stages.save_ragged(folder, self.passes.tokens(spec, source, reading))
            return {}

        inputs = {"rows": source.digest, "tokenizer": tokenizer}
        what = f"{source.title} {reading.title}"
        request = ArtifactRequest("tokens", what, reading.token_facts(), inputs, source.workload())
        entry = self.builder.build(request, write)
        return get_content(entry), lambda: stages.load_ragged(get_path(entry))

    def _end_tokens(self, spec: ModelSpec | None) -> tuple[str | None, Callable[[], Any]]:
        """Ids of the tokens that end a text, by the tokenizer's files."""
        if spec is None:
            raise UndefinedMetric("needs a tokenizer with a token that ends a text: " + format_hint("scorer"))
        tokenizer = self.builder.try_or_note(lambda: tokenizer_digest(spec))
        return tokenizer, partial(self.passes.end_tokens, spec)

    def _embeddings(self, source: TextRows, need: Need) -> None:
        """Vectors at the maximum length, and in the same pass at the others that the embedder lists."""
        if (files := self.scoring.user_embeddings) is not None:
            self._set(source, need, *find_user_embeddings(files, source, self.builder))
            return
        spec = self.scoring.embedder
        if spec is None:
            raise UndefinedMetric(format_hint("embedder"))
        others = [n for n in spec.lengths if n != spec.max_length]
        specs = [spec, *(replace(spec, max_length=n) for n in others)]
        requests = [self._vectors_of(source, need, embedder) for embedder in specs]
        for i, n in enumerate(others, start=1):
            requests[i] = replace(requests[i], what=f"{requests[i].what} cut to {n}")
        compute = partial(self.passes.embed, specs, source, need.scope)
        self._keep_vectors(source, need, self.builder.build_together(requests, compute)[0])

    def _keep_vectors(self, source: TextRows, need: Need, entry: Entry | None) -> None:
        self._set(source, need, get_content(entry), lambda: stages.load_array(get_path(entry) / stages.VECTORS))

    def _q(self, source: TextRows, need: Need, decoder: Decoder | None) -> None:
        """Statistics of the decoder's Q; its token NLL: what it gave the text it wrote, and the text people wrote."""
        model = self.generation.model
        if model is None or decoder is None:
            raise UndefinedMetric("needs the generating model and its decoder; these texts come from a file")
        if not isinstance(decoder, QDecoder):
            raise UndefinedMetric(decoder.no_q_reason)
        if reason := self.builder.try_or_note(partial(model.cannot, "q_statistics", decoder)):
            raise UndefinedMetric(reason)
        shortest, q_decoder = self.generation.min_new_tokens, decoder

        def write(folder: Path) -> Mapping[str, Any]:
            return self.passes.read_q(folder, model, q_decoder, source, shortest)

        facts = {"decoder": canonicalize(decoder), "min_new_tokens": shortest}
        inputs = {"rows": source.digest, "model": self._id(model), **digest_chat(source, model)}
        request = ArtifactRequest("next_token", source.title, facts, inputs, source.workload(model))
        entry = self.builder.build(request, write)

        def stats() -> Any:  # noqa: ANN401 - a NextToken
            return stages.load_next_token(get_path(entry), entry.meta if entry else {})

        def negative_log() -> Ragged:
            q = stats()
            with np.errstate(divide="ignore"):
                return Ragged(-np.log(q.gold_prob), q.offsets)

        self._set(source, need, get_content(entry), stats if need.kind == "next_token" else negative_log)

    def _vectors_of(self, source: TextRows, need: Need, spec: EmbedderSpec) -> ArtifactRequest:
        inputs = {"rows": source.digest, "embedder": self._id(spec)}
        work = source.workload(spec.model_spec())
        return ArtifactRequest("embed", f"{source.title} {need.scope}", {"scope": need.scope}, inputs, work)

    def _counter(self, need: Need) -> ModelSpec | None:
        """Whose tokens are counted; None: whitespace words."""
        if need.by == "words":
            return None
        return self.scoring.counter if need.by == "scorer" else self._model(need).tokenizer_spec()


def _label(need: Need) -> str:
    return f"{need.kind}:{need.by}:{need.scope}:{digest(list(need.options))[:8]}"
