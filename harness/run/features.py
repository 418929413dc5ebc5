"""Compute the features (texts, tokens, scores, embeddings, Q) that the metrics of a run need, once for all metrics.

Each model passes once over each source; if scorer and embedder are the same causal model, one pass gives scores and
vectors. For a feature that a source cannot have, the reason is stored, and the metric shows it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness import core
from openended.harness.decoders import Decoder, QDecoder
from openended.harness.models import BackendSpec, EmbedderSpec, ModelSpec, tokenizer_digest
from openended.harness.run.array_files import load_array, load_next_token, load_ragged, load_vectors, save_ragged
from openended.harness.run.artifacts import ArtifactBuilder, Build, PlannedArtifact, TextRows, get_content
from openended.harness.run.dataset import SPARE_ROWS
from openended.harness.run.import_texts import digest_corpus, load_corpus
from openended.harness.run.passes import ModelPasses, ScoringOptions, load_row_tokens, load_texts
from openended.harness.run.settings import Settings
from openended.harness.storage import Entry, RowFile

# Needed by decoders that match the perplexity of human text; from the model's full softmax, not from a Q.
FOR_DECODER = core.Need("token_nll", by="decoder")
# Kinds by stage, so that a model is loaded once for all sources; the first are read without weights.
_STAGES = (
    ("texts", "stops", "log_prob", "tokens", "end_tokens", "corpus"),
    ("next_token", "own"),
    ("token_nll", "token_rank"),
    ("gradients",),
    ("embeddings",),
)
_BY_MODEL = ("model", "decoder")
_WHOLE: core.Scope = "prompt_and_continuation"


@dataclass(frozen=True)
class FeatureHandle:
    """One feature of one source."""

    content: str | None
    """Digest of its inputs, part of the keys of metrics; None while the feature is not computed yet."""
    load: Callable[[], Any]
    reason: str = ""
    """Why the feature does not exist for this source; empty if it does."""

    @classmethod
    def from_entry(cls, entry: Entry | None, load: Callable[[Path], Any]) -> FeatureHandle:
        """Return a feature that is read from the folder of an artifact, which may be only planned."""
        return cls(None, dict) if entry is None else cls(entry.content, partial(load, entry.path))

    @cached_property
    def value(self) -> Any:  # noqa: ANN401 - each kind has its own
        """The loaded feature; arrays are memory-mapped."""
        return self.load()


class Featurizer:
    """Computes and caches the features of a run's sources (human, model and ceiling texts)."""

    def __init__(self, settings: Settings, builder: ArtifactBuilder) -> None:
        self.settings = settings
        self.builder = builder
        self.passes = ModelPasses(settings.runtime, builder.session)
        self._features: dict[tuple[object, core.Need], FeatureHandle] = {}

    def digests(self, source: TextRows, needs: Iterable[core.Need]) -> dict[str, str | None]:
        """Return the digest of each needed feature."""
        return {_label(need): self._get_feature(source, need).content for need in needs}

    def side(self, source: TextRows, needs: Iterable[core.Need]) -> core.Side:
        """Return the `Side` that a metric reads, with these features loaded.

        Sides are cached by the content of their features, so that values derived from one are shared between metrics.
        """
        features = {need: self._get_feature(source, need) for need in needs}
        contents = sorted([_label(need), str(feature.content)] for need, feature in features.items())
        key = core.digest([source.role, source.digest, contents])

        def load() -> core.Side:
            values = {need: feature.value for need, feature in features.items()}
            _lock_arrays(values.values())  # all metrics read the same arrays
            return core.Side(source.role, RowFile(source.path).ids, values)

        return self.builder.session.sides.get(key, load, lasting=source.role == core.HUMAN)

    def value(self, source: TextRows, need: core.Need) -> Any:  # noqa: ANN401 - each kind has its own
        """Return one feature, or None if it is not computed yet."""
        feature = self._get_feature(source, need)
        return feature.value if feature.content is not None else None

    def compute(self, requests: Sequence[tuple[TextRows, Sequence[core.Need]]], decoder: Decoder | None) -> None:
        """Compute or plan all needed features of each source; `decoder` is the resolved one whose Q is measured."""
        if self.settings.vector_files:  # also where no metric asks for vectors
            handles = [self._read_user_vectors(source) for source, _ in requests]
            shapes = {handle.value.shape[1] for handle in handles if handle.content is not None}
            if len(shapes) > 1:
                raise core.DataError(f"features: vectors of {' and '.join(map(str, sorted(shapes)))} dimensions")
        missing: dict[object, dict[core.Need, TextRows]] = defaultdict(dict)
        for source, needs in requests:
            for need in needs:
                if (self._identify(source), need) not in self._features:
                    missing[self._identify(source)].setdefault(need, source)
        for kinds in _STAGES:
            for needs_of in missing.values():
                for need, source in needs_of.items():
                    kind = "own" if need.kind == "token_nll" and need.by == "model" else need.kind
                    if kind in kinds and (self._identify(source), need) not in self._features:
                        try:
                            computed = self._compute_feature(source, need, tuple(needs_of), decoder)
                        except core.UndefinedMetric as err:
                            computed = {need: FeatureHandle(None, dict, str(err))}
                        self._features |= {(self._identify(source), each): handle for each, handle in computed.items()}

    def _identify(self, source: TextRows) -> object:
        """Return what features are kept by: equal texts share them, but not vectors of the user's own."""
        return (source.identity, source.role == "model") if self.settings.vector_files else source.identity

    def _get_feature(self, source: TextRows, need: core.Need) -> FeatureHandle:
        feature = self._features[self._identify(source), need]
        if feature.reason:
            raise core.UndefinedMetric(feature.reason)
        return feature

    def _compute_feature(
        self, source: TextRows, need: core.Need, needs: Sequence[core.Need], decoder: Decoder | None
    ) -> dict[core.Need, FeatureHandle]:
        """Return the feature, and others that the same pass gives."""
        if need.kind in _STAGES[0]:
            return {need: self._read_feature(source, need)}
        if need.kind == "embeddings":
            return {need: self._compute_embeddings(source, need)}
        if need.kind == "gradients":
            return {need: self._compute_gradients(source, need)}
        if need.kind == "token_rank" or (need.kind == "token_nll" and need.by != "model"):
            return self._compute_scores(source, need, needs)
        return {need: self._compute_q(source, need, decoder)}

    def _read_feature(self, source: TextRows, need: core.Need) -> FeatureHandle:
        """Read what needs no weights; tokenizes if the rows have the tokens of another tokenizer."""
        rows = source.digest
        if need.kind == "corpus":
            path = Path(str(dict(need.options)["file"]))
            return FeatureHandle(self.builder.try_or_note(lambda: digest_corpus(path)), partial(load_corpus, path))
        if need.kind == "texts":
            return FeatureHandle(rows, partial(load_texts, source, need.scope))
        if need.kind == "stops":
            return FeatureHandle(rows, lambda: RowFile(source.path).stops)
        if need.kind == "log_prob":
            return FeatureHandle(rows, lambda: RowFile(source.path).log_probs)
        if need.by == "rows":
            return FeatureHandle(rows, partial(load_row_tokens, source, need.scope))
        spec = self._find_counter(need)
        tokenizer = self.builder.try_or_note(lambda: tokenizer_digest(spec)) if spec is not None else None
        if need.kind == "end_tokens":
            if spec is None:
                raise core.UndefinedMetric("needs a tokenizer with a token that ends a text: " + format_hint("scorer"))
            return FeatureHandle(tokenizer, partial(self.passes.end_tokens, spec))
        if spec is None:
            return FeatureHandle(rows, partial(self.passes.words, source, need.scope, need.by == "chars"))
        options = ScoringOptions.from_need(need)
        if tokenizer is not None and source.tokenizer == tokenizer and not options.tokenizes_again:
            return FeatureHandle(rows, partial(load_row_tokens, source, need.scope))

        def write(folder: Path) -> Mapping[str, Any]:
            save_ragged(folder, self.passes.tokens(spec, source, options))
            return {}

        inputs = {"rows": rows, "tokenizer": tokenizer}
        artifact = source.plan_artifact("tokens", f"{source.title} {options.title}", options.token_facts(), inputs)
        return FeatureHandle.from_entry(self.builder.build(artifact, write), load_ragged)

    def _find_counter(self, need: core.Need) -> ModelSpec | None:
        """Return the model whose tokenizer counts tokens; None for whitespace words and characters."""
        if need.by in ("words", "chars"):
            return None
        return self.settings.counter if need.by == "scorer" else self._choose_model(need).tokenizer_spec()

    def _compute_embeddings(self, source: TextRows, need: core.Need) -> FeatureHandle:
        """Compute embeddings at the maximum length, and in the same pass at the embedder's other lengths."""
        if self.settings.vector_files:
            return self._read_user_vectors(source)
        spec = self.settings.embedder
        if spec is None:
            raise core.UndefinedMetric(format_hint("embedder"))
        other_lengths = [n for n in spec.lengths if n != spec.max_length]
        specs = [spec, *(replace(spec, max_length=n) for n in other_lengths)]
        artifacts = [self._plan_vectors(source, need, embedder) for embedder in specs]
        for i, n in enumerate(other_lengths, start=1):
            artifacts[i] = replace(artifacts[i], what=f"{artifacts[i].what} cut to {n}")
        compute = partial(self.passes.embed, specs, source, need.scope)
        return FeatureHandle.from_entry(self.builder.build_together(artifacts, compute)[0], load_vectors)

    def _read_user_vectors(self, source: TextRows) -> FeatureHandle:
        """Read the user's own vectors of a source, in place of an embedder's."""
        path = self.settings.vector_files["model" if source.role == "model" else "human"]
        content = self.builder.try_or_note(partial(_digest_vectors, path))
        if content is None or source.entry is None:
            return FeatureHandle(None, dict)
        whole = self.settings.num_examples == "all" and source.file != SPARE_ROWS
        row_numbers = [int(name.rpartition("/")[2]) for name in RowFile(source.path).ids]
        vectors = load_user_vectors(path, row_numbers, whole=whole)
        return FeatureHandle(core.digest(["own vectors", content, source.digest]), lambda: vectors)

    def _compute_scores(
        self, source: TextRows, need: core.Need, needs: Sequence[core.Need]
    ) -> dict[core.Need, FeatureHandle]:
        """Compute token NLL under the full distribution; in the same pass ranks, and vectors if the models are one."""
        spec, options = self._choose_model(need), ScoringOptions.from_need(need)
        vectors = core.Need("embeddings", by="embedder", scope=_WHOLE)
        embedder = self.settings.embedder if vectors in needs and not self.settings.vector_files else None
        done = (self._identify(source), vectors) in self._features
        if done or embedder is None or not options.is_plain or not self._can_share_pass(embedder, spec):
            embedder = None
        stages = {replace(need, kind="token_nll"): "score", replace(need, kind="token_rank"): "rank"}
        requested = {each: stage for each, stage in stages.items() if each == need or each in needs}
        artifacts = [self._plan_scores(source, options, spec, stage) for stage in requested.values()]
        if embedder is not None:
            requested[vectors] = "embed"
            artifacts.append(self._plan_vectors(source, vectors, embedder))
        stage_names = list(requested.values())

        def compute(indices: Sequence[int]) -> Sequence[Build]:
            return self.passes.score_and_embed(spec, embedder, source, options, [stage_names[i] for i in indices])

        entries = self.builder.build_together(artifacts, compute)
        return {
            each: FeatureHandle.from_entry(entry, load_vectors if each == vectors else load_ragged)
            for each, entry in zip(requested, entries, strict=True)
        }

    def _compute_gradients(self, source: TextRows, need: core.Need) -> FeatureHandle:
        """Compute sketches of the gradients of the scorer's losses of texts."""
        spec, further = self._choose_model(need), dict(need.options)
        size = int(further.pop("size") or 0)
        options = ScoringOptions.from_need(replace(need, options=tuple(further.items())))
        artifact = self._plan_scores(source, options, spec, "gradients")
        artifact = replace(artifact, spec={**artifact.spec, "size": size})
        entry = self.builder.build(artifact, partial(self.passes.sketch_gradients, spec, source, options, size))
        return FeatureHandle.from_entry(entry, load_vectors)

    def _compute_q(self, source: TextRows, need: core.Need, decoder: Decoder | None) -> FeatureHandle:
        """Compute the statistics of the decoder's Q on a source, or the token NLL under Q."""
        model, least = self.settings.model, self.settings.least_length
        if model is None or decoder is None:
            raise core.UndefinedMetric("needs the generating model and its decoder; these texts come from a file")
        if not isinstance(decoder, QDecoder):
            raise core.UndefinedMetric(decoder.no_q_reason)
        if reason := self.builder.try_or_note(partial(model.cannot, "q_statistics", decoder)):
            raise core.UndefinedMetric(reason)
        q_decoder = decoder

        def write(folder: Path) -> Mapping[str, Any]:
            return self.passes.read_q(folder, model, q_decoder, source, least)

        facts = {"decoder": core.canonicalize(decoder), "min_new_tokens": least}
        inputs = {"rows": source.digest, "model": self.builder.digest_model(model), **_digest_chat(source, model)}
        entry = self.builder.build(source.plan_artifact("next_token", source.title, facts, inputs, model), write)
        meta = entry.meta if entry is not None else {}

        def load_negative_log(folder: Path) -> core.Ragged:
            q = load_next_token(folder, meta)
            with np.errstate(divide="ignore"):
                return core.Ragged(-np.log(q.gold_prob), q.offsets)

        if need.kind == "next_token":
            return FeatureHandle.from_entry(entry, partial(load_next_token, meta=meta))
        return FeatureHandle.from_entry(entry, load_negative_log)

    def _can_share_pass(self, embedder: EmbedderSpec, scorer: BackendSpec) -> bool:
        """Return whether one pass of the scorer can compute the embedder's vectors too."""
        if embedder.kind != "causal" or embedder.lengths:
            return False
        both = self.builder.try_or_note(lambda: (embedder.model_spec().identity(), scorer.identity()))
        return both is not None and both[0] == both[1]

    def _plan_vectors(self, source: TextRows, need: core.Need, spec: EmbedderSpec) -> PlannedArtifact:
        inputs = {"rows": source.digest, "embedder": self.builder.digest_model(spec)}
        what = f"{source.title} {need.scope}"
        return source.plan_artifact("embed", what, {"scope": need.scope}, inputs, spec.model_spec())

    def _plan_scores(self, source: TextRows, options: ScoringOptions, spec: BackendSpec, stage: str) -> PlannedArtifact:
        scorer, model_digest = self.settings.scorer, self.builder.digest_model(spec)
        is_other = spec is not scorer and model_digest != (self.builder.digest_model(scorer) if scorer else None)
        what = f"{source.title} {options.title}" + f" by {spec.title}" * is_other
        inputs = {"rows": source.digest, "scorer": model_digest, **_digest_chat(source, spec)}
        return source.plan_artifact(stage, what, options.facts(), inputs, spec)

    def _choose_model(self, need: core.Need) -> BackendSpec:
        spec = find_model(need, self.settings)
        if spec is None:
            by_model = f"needs {need.kind} by the model: set model=…"
            raise core.UndefinedMetric(by_model if need.by in _BY_MODEL else format_hint("scorer"))
        return spec


def _lock_arrays(values: Iterable[Any]) -> None:
    """Make arrays read-only, those of `Ragged` and `NextToken` too."""
    for value in values:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        elif is_dataclass(value) and not isinstance(value, type):
            _lock_arrays(getattr(value, f.name) for f in fields(value))


def format_hint(role: str) -> str:
    """Format what to type if a metric needs a scorer or an embedder and has none."""
    return (
        f"no {role}: set {role}=gpt2-large (or scoring=gpt2-large: scorer and embedder); the bundled docs-m is for the "
        "task docs only"
    )


def find_model(need: core.Need, settings: Settings) -> BackendSpec | None:
    """Return what computes a feature of tokens: the model under test or the scorer; None if the run has it not."""
    return settings.model if need.by in _BY_MODEL else settings.scorer


def load_user_vectors(path: Path, row_numbers: list[int], *, whole: bool) -> NDArray[np.float32]:
    """Load these rows of the user's own vectors; with `whole`, the file must have exactly one row for each text."""
    try:
        array = load_array(path)
    except core.DataError as err:
        raise core.DataError(f"features: {path}: not a .npy file of plain numbers ({err})") from err
    if array.ndim != 2 or array.dtype.kind != "f":
        raise core.DataError(
            f"features: {path}: expected floats of shape (texts, dimensions), got {array.dtype} {array.shape}"
        )
    needed = max(row_numbers, default=-1) + 1
    if len(array) < needed or (whole and len(array) != needed):
        raise core.DataError(
            f"features: {path}: {len(array)} rows for {needed} texts; expected a row a text, in their order"
        )
    rows = np.asarray(row_numbers, dtype=np.int64)
    # All texts of a file in its order: the vectors are then read from the disk as needed.
    selected = array[: len(rows)] if bool((rows == np.arange(len(rows))).all()) else array[rows]
    vectors: NDArray[np.float32] = np.asarray(selected, dtype=np.float32)
    if not (finite := np.isfinite(vectors).all(axis=1)).all():
        raise core.DataError(f"features: {path}: NaN or infinity in row {int(rows[finite.argmin()])}, counted from 0")
    return vectors


def _digest_vectors(path: Path) -> str:
    if not path.is_file():
        raise core.DataError(f"features: no such file: {path}")
    return core.digest_file(path)


def _digest_chat(source: TextRows, spec: BackendSpec) -> dict[str, str | None]:
    """Return the chat template's field of a key, if the model reads the prompts through one."""
    return {"chat": get_content(source.chat)} if spec.chat_template else {}


def _label(need: core.Need) -> str:
    return f"{need.kind}:{need.by}:{need.scope}:{core.digest(list(need.options))[:8]}"
