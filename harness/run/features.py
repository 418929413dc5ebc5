"""Compute the features (texts, tokens, scores, embeddings, Q) that the metrics of a run need, once for all metrics.

Each model passes once over each source; if scorer and embedder are the same causal model, one pass gives scores and
vectors. For a feature that a source cannot have, the reason is stored, and the metric shows it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness import core, models
from openended.harness.decoders import Decoder, QDecoder
from openended.harness.run import artifacts
from openended.harness.run.artifacts import ArtifactBuilder, Build, PlannedArtifact, TextRows, get_content
from openended.harness.run.dataset import CHAT, SPARE_ROWS
from openended.harness.run.import_texts import digest_corpus, load_corpus
from openended.harness.run.settings import Settings
from openended.harness.storage import Entry, RowFile, join_ragged

# Needed by decoders that match the perplexity of human text; from the model's full softmax, not from a Q.
FOR_DECODER = core.Need("token_nll", by="decoder")
# Kinds by stage, so that a model is loaded once for all sources; the first are read without weights. `q_nll`: by a Q.
_STAGES = (
    ("texts", "stops", "log_prob", "tokens", "end_tokens", "corpus", "classifier"),
    ("next_token", "q_nll"),
    ("token_nll", "token_rank"),
    ("gradients",),
    ("embeddings",),
)
# Rows of a pass on a CPU, whatever `runtime.feature_batch_size` says: matrix products of other sizes round differently
# (2e-8), which would change the features and every key after them. Equal to the option's default.
CPU_ROWS = 64
_BY_MODEL = ("model", "decoder")
_WHOLE: core.Scope = "prompt_and_continuation"


@dataclass(frozen=True)
class FeatureHandle:
    """One feature of one source."""

    content: str | None  # digest of its inputs, part of the keys of metrics; None while the feature is not computed yet
    load: Callable[[], Any]

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
        self._features: dict[tuple[object, core.Need], FeatureHandle | str] = {}
        """(source, need) → the feature, or why it does not exist for this source."""

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

        return self.builder.session.side_cache.get(key, load, lasting=source.role == core.HUMAN)

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
                    kind = "q_nll" if need.kind == "token_nll" and need.by == "model" else need.kind
                    if kind in kinds and (self._identify(source), need) not in self._features:
                        computed: Mapping[core.Need, FeatureHandle | str]
                        try:
                            computed = self._compute_feature(source, need, tuple(needs_of), decoder)
                        except core.UndefinedMetric as err:
                            computed = {need: str(err)}
                        self._features |= {(self._identify(source), each): handle for each, handle in computed.items()}

    def _identify(self, source: TextRows) -> object:
        """Return what features are kept by: equal texts share them, but not vectors of the user's own."""
        return (source.identity, source.role == "model") if self.settings.vector_files else source.identity

    def _get_feature(self, source: TextRows, need: core.Need) -> FeatureHandle:
        feature = self._features[self._identify(source), need]
        if isinstance(feature, str):
            raise core.UndefinedMetric(feature)
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
        if need.kind == "corpus":
            path = Path(str(dict(need.options)["file"]))
            return FeatureHandle(self.builder.try_or_note(lambda: digest_corpus(path)), partial(load_corpus, path))
        if need.kind == "classifier":
            model = models.ModelSpec(path=str(dict(need.options)["path"]))
            device = self.settings.runtime.device

            def load_classifier() -> Callable[..., NDArray[np.bool_]]:
                return partial(models.finetune_classifier, model, models.pick_device(device))

            return FeatureHandle(self.builder.digest_model(model), load_classifier)
        if need.kind == "texts":
            return FeatureHandle(source.digest, partial(load_texts, source, need.scope))
        if need.kind == "stops":
            return FeatureHandle(source.digest, lambda: RowFile(source.path).stops)
        if need.kind == "log_prob":
            return FeatureHandle(source.digest, lambda: RowFile(source.path).log_probs)
        if need.by == "rows":
            return FeatureHandle(source.digest, partial(load_row_tokens, source, need.scope))
        spec = None  # whitespace words and characters
        if need.by not in ("words", "chars"):
            settings = self.settings
            spec = settings.counter if need.by == "scorer" else self._choose_model(need).tokenizer_spec()
        tokenizer = self.builder.try_or_note(lambda: models.digest_encoding(spec)) if spec is not None else None
        if need.kind == "end_tokens":
            if spec is None:
                raise core.UndefinedMetric("needs a tokenizer with a token that ends a text: " + format_hint("scorer"))

            def load_end_tokens() -> core.I64:
                loaded: Any = self.builder.session.tokenizer(spec)
                return np.array(loaded.eos_ids, dtype=np.int64)

            return FeatureHandle(self._digest_ends(tokenizer, spec), load_end_tokens)
        if spec is None:

            def load_words() -> core.Ragged:
                texts = _iterate_texts(source, need.scope)
                return models.number_words(map(" ".join, texts) if need.by == "chars" else texts)

            return FeatureHandle(source.digest, load_words)
        options = ScoringOptions.from_need(need)
        if self._has_ids_for(source, spec, options):
            return FeatureHandle(source.digest, partial(load_row_tokens, source, need.scope))

        def write(folder: Path) -> Mapping[str, Any]:
            artifacts.save_ragged(folder, self.tokenize(spec, source, options))
            return {}

        inputs = {"rows": source.digest, "tokenizer": tokenizer}
        if options.without_end and tokenizer is not None:
            inputs["ends"] = self._digest_ends(tokenizer, spec)
        artifact = source.plan_artifact("tokens", f"{source.title} {options.title}", options.token_facts(), inputs)
        return FeatureHandle.from_entry(self.builder.build(artifact, write), artifacts.load_ragged)

    def _compute_embeddings(self, source: TextRows, need: core.Need) -> FeatureHandle:
        """Compute embeddings at the maximum length, and in the same pass at the embedder's other lengths."""
        if self.settings.vector_files:
            return self._read_user_vectors(source)
        spec = self.settings.embedder
        if spec is None:
            raise core.UndefinedMetric(format_hint("embedder"))
        other_lengths = [n for n in spec.lengths if n != spec.max_length]
        specs = [spec, *(replace(spec, max_length=n) for n in other_lengths)]
        planned = [self._plan_vectors(source, need, embedder) for embedder in specs]
        for i, n in enumerate(other_lengths, start=1):
            planned[i] = replace(planned[i], what=f"{planned[i].what} cut to {n}")
        compute = partial(self.embed, specs, source, need.scope)
        return FeatureHandle.from_entry(self.builder.build_together(planned, compute)[0], artifacts.load_vectors)

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
        if done or embedder is None or not options.is_plain or embedder.kind != "causal" or embedder.lengths:
            embedder = None
        else:
            embedder_model = embedder.model_spec()
            alike = self.builder.try_or_note(lambda: embedder_model.identity() == spec.identity())
            embedder = embedder if alike else None
        stages = {replace(need, kind="token_nll"): "score", replace(need, kind="token_rank"): "rank"}
        requested = {each: stage for each, stage in stages.items() if each == need or each in needs}
        planned = [self._plan_scores(source, options, spec, stage) for stage in requested.values()]
        if embedder is not None:
            requested[vectors] = "embed"
            planned.append(self._plan_vectors(source, vectors, embedder))
        stage_names = list(requested.values())

        def compute(indices: Sequence[int]) -> Sequence[Build]:
            return self.score_and_embed(spec, embedder, source, options, [stage_names[i] for i in indices])

        entries = self.builder.build_together(planned, compute)
        return {
            each: FeatureHandle.from_entry(entry, artifacts.load_vectors if each == vectors else artifacts.load_ragged)
            for each, entry in zip(requested, entries, strict=True)
        }

    def _compute_gradients(self, source: TextRows, need: core.Need) -> FeatureHandle:
        """Compute sketches of the gradients of the scorer's losses of texts."""
        spec, further = self._choose_model(need), dict(need.options)
        size = int(further.pop("size") or 0)
        options = ScoringOptions.from_need(replace(need, options=tuple(further.items())))
        artifact = self._plan_scores(source, options, spec, "gradients")
        artifact = replace(artifact, spec={**artifact.spec, "size": size})
        entry = self.builder.build(artifact, partial(self.sketch_gradients, spec, source, options, size))
        return FeatureHandle.from_entry(entry, artifacts.load_vectors)

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
            return self.read_q(folder, model, q_decoder, source, least)

        facts = {"decoder": core.canonicalize(decoder), "min_new_tokens": least}
        inputs = {"rows": source.digest, "model": self.builder.digest_model(model), **_digest_chat(source, model)}
        entry = self.builder.build(source.plan_artifact("next_token", source.title, facts, inputs, model), write)
        meta = entry.meta if entry is not None else {}

        def load_negative_log(folder: Path) -> core.Ragged:
            q = artifacts.load_next_token(folder, meta)
            with np.errstate(divide="ignore"):
                return core.Ragged(-np.log(q.gold_prob), q.offsets)

        if need.kind == "next_token":
            return FeatureHandle.from_entry(entry, partial(artifacts.load_next_token, meta=meta))
        return FeatureHandle.from_entry(entry, load_negative_log)

    def _plan_vectors(self, source: TextRows, need: core.Need, spec: models.EmbedderSpec) -> PlannedArtifact:
        inputs = {"rows": source.digest, "embedder": self.builder.digest_model(spec)}
        what = f"{source.title} {need.scope}"
        facts: dict[str, Any] = {"scope": need.scope}
        if spec.kind != "sentence":  # it reads texts
            facts["stored_ids"] = self._has_ids_for(source, spec.model_spec(), ScoringOptions(scope=need.scope))
        return source.plan_artifact("embed", what, facts, inputs, spec.model_spec())

    def _plan_scores(
        self, source: TextRows, options: ScoringOptions, spec: models.BackendSpec, stage: str
    ) -> PlannedArtifact:
        scorer, model_digest = self.settings.scorer, self.builder.digest_model(spec)
        is_other = spec is not scorer and model_digest != (self.builder.digest_model(scorer) if scorer else None)
        what = f"{source.title} {options.title}" + f" by {spec.title}" * is_other
        inputs = {"rows": source.digest, "scorer": model_digest, **_digest_chat(source, spec)}
        facts = {**options.facts(), "stored_ids": self._has_ids_for(source, spec.tokenizer_spec(), options)}
        return source.plan_artifact(stage, what, facts, inputs, spec)

    def _choose_model(self, need: core.Need) -> models.BackendSpec:
        spec = find_model(need, self.settings)
        if spec is None:
            by_model = f"needs {need.kind} by the model: set model=…"
            raise core.UndefinedMetric(by_model if need.by in _BY_MODEL else format_hint("scorer"))
        return spec

    def tokenize(self, spec: models.ModelSpec, source: TextRows, options: ScoringOptions) -> core.Ragged:
        """Return token ids under a model's tokenizer."""
        tokenizer = self.builder.session.tokenizer(spec)
        if options.scope != "continuation":
            return models.tokenize_texts(tokenizer, _iterate_texts(source, options.scope))
        texts = _read_texts(source, options, tokenizer)
        return models.tokenize_pairs(tokenizer, RowFile(source.path).prompts, texts)[1]

    def score_and_embed(
        self, spec: models.BackendSpec, embedder: models.EmbedderSpec | None, source: TextRows, options: ScoringOptions,
        requested: Sequence[str],
    ) -> list[Build]:  # fmt: skip
        """Make what is requested of `score`, `rank` and `embed` in one pass; `embedder` is the scorer's model."""
        if embedder is not None and list(requested) == ["embed"]:
            return self.embed([embedder], source, "prompt_and_continuation", [0])
        lm = self.builder.session.model(spec, self.settings.runtime)
        prompts, texts = self._read_ids(source, spec, options)
        whole, batch = options.scope == "prompt_and_continuation", self._choose_batch_size(lm)
        ranks = "rank" in requested
        builds: dict[str, Build] = {}
        with self._show_progress(f"score {source.title}", len(texts)) as advance:
            if embedder is not None and "embed" in requested:
                both = models.EmbeddingRequest(
                    prompts=prompts, continuations=texts, embedder=embedder, include_prompt=whole, ranks=ranks,
                    batch_size=batch,
                )  # fmt: skip
                vectors, scores = lm.embed_and_score(both, advance)
                builds["embed"] = partial(_save_vectors, vectors, lm)
            else:
                request = models.ScoringRequest(
                    prompts=prompts, continuations=texts, include_prompt=whole, bos=options.bos, ranks=ranks,
                    window=options.window, stride=options.stride, batch_size=batch,
                )  # fmt: skip
                scores = lm.score(request, advance)
        nll, rank = models.split_columns(scores)
        builds |= {"score": partial(_save_scores, nll, lm), "rank": partial(_save_scores, rank, lm)}
        return [builds[name] for name in requested]

    def sketch_gradients(
        self, spec: models.BackendSpec, source: TextRows, options: ScoringOptions, size: int, folder: Path
    ) -> Mapping[str, Any]:
        """Write a sketch of the gradient of each text's loss."""
        lm = self.builder.session.model(spec, self.settings.runtime)
        prompts, texts = self._read_ids(source, spec, options)
        with self._show_progress(f"gradients of {source.title}", len(texts)) as advance:
            request = models.GradientRequest(prompts=prompts, continuations=texts, size=size)
            sketches = lm.sketch_gradients(request, advance)
        artifacts.save_array(folder / artifacts.VECTORS, sketches)
        return {"n": len(sketches), "d": size, "device": str(lm.device), **lm.provenance()}

    def embed(
        self, specs: Sequence[models.EmbedderSpec], source: TextRows, scope: core.Scope, indices: Sequence[int]
    ) -> list[Build]:
        """Embed at the maximum lengths of `specs`, which differ in nothing else; in one pass where the model can."""
        spec = specs[0]
        model = self.builder.session.embedder(spec, self.settings.runtime)
        batch = self._choose_batch_size(model)
        with self._show_progress(f"embed {source.title}", len(RowFile(source.path))) as advance:
            if spec.kind == "sentence":
                embedded = models.embed_texts(model, spec, load_texts(source, scope), batch_size=batch)
                return [partial(_save_vectors, embedded, model)]
            prompts, texts = self._read_ids(source, spec.model_spec(), ScoringOptions(scope=scope))
            if scope == "continuation":
                prompts = core.Ragged(prompts.values[:0], np.zeros_like(prompts.offsets))
            request = models.EmbeddingRequest(prompts=prompts, continuations=texts, embedder=spec, batch_size=batch)
            by_length = model.embed(request, advance)
        return [partial(_save_vectors, by_length[specs[i].max_length], model) for i in indices]

    def read_q(
        self, folder: Path, spec: models.BackendSpec, decoder: QDecoder, source: TextRows, min_new_tokens: int
    ) -> Mapping[str, Any]:
        """Write the statistics of a decoder's Q on a source."""
        lm = self.builder.session.model(spec, self.settings.runtime)
        rows = RowFile(source.path)
        with self._show_progress(f"read Q on {source.title}", len(rows)) as advance:
            request = models.QStatisticsRequest(
                prompts=_read_prompt_ids(source, spec), continuations=rows.token_ids, decoders=[decoder],
                min_new_tokens=min_new_tokens, batch_size=self._choose_batch_size(lm),
            )  # fmt: skip
            (stats,) = lm.q_statistics(request, advance)
        return {**artifacts.save_next_token(folder, stats), "device": str(lm.device), **lm.provenance()}

    def _choose_batch_size(self, model: Any) -> int:  # noqa: ANN401 - a language model or a sentence encoder
        return CPU_ROWS if model.device.type == "cpu" else self.settings.runtime.feature_batch_size

    def _read_ids(
        self, source: TextRows, spec: models.BackendSpec, options: ScoringOptions
    ) -> tuple[core.Ragged, core.Ragged]:
        """Read token ids of prompts and continuations under a model's tokenizer; stored ids if it is the same one."""
        rows, tokenizer_spec = RowFile(source.path), spec.tokenizer_spec()
        if tokenizer_spec is None:
            raise core.SpecError(f"model {spec.title}: it has no tokenizer to score with")
        if self._has_ids_for(source, tokenizer_spec, options):
            return _read_prompt_ids(source, spec), rows.token_ids
        tokenizer = self.builder.session.tokenizer(tokenizer_spec)
        return models.tokenize_pairs(tokenizer, rows.prompts, _read_texts(source, options, tokenizer))

    def _digest_ends(self, tokenizer: str | None, spec: models.ModelSpec) -> str | None:
        """Return a digest of a tokenizer and its end tokens; None where a plan finds its configuration missing."""
        return tokenizer and self.builder.try_or_note(lambda: core.digest([tokenizer, spec.end_ids()]))

    def _has_ids_for(self, source: TextRows, spec: models.ModelSpec | None, options: ScoringOptions) -> bool:
        """Return whether the ids that the rows hold are those that a model reads; else it tokenizes the texts."""
        if spec is None or options.tokenizes_again:
            return False
        return source.tokenizer == (self.builder.try_or_note(lambda: models.digest_encoding(spec)) or "missing")

    def _show_progress(self, title: str, total: int) -> Any:  # noqa: ANN401 - a context manager
        return core.show_progress(title, total, unit="texts", enabled=self.settings.runtime.progress)


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


def find_model(need: core.Need, settings: Settings) -> models.BackendSpec | None:
    """Return what computes a feature of tokens: the model under test or the scorer; None if the run has it not."""
    return settings.model if need.by in _BY_MODEL else settings.scorer


def load_user_vectors(path: Path, row_numbers: list[int], *, whole: bool) -> NDArray[np.float32]:
    """Load these rows of the user's own vectors; with `whole`, the file must have exactly one row for each text."""
    try:
        array = artifacts.load_array(path)
    except core.DataError as err:
        raise core.DataError(f"features: {path}: not a .npy file of plain numbers ({err})") from err
    if array.ndim != 2 or array.dtype.kind != "f":
        raise core.DataError(
            f"features: {path}: expected floats of shape (texts, dimensions), got {array.dtype} {array.shape}"
        )
    needed = max(row_numbers, default=-1) + 1
    if len(array) < needed or (whole and len(array) != needed):
        raise core.DataError(
            f"features: {path}: {len(array)} rows for {needed} texts; expected one row per text, in the same order"
        )
    rows = np.asarray(row_numbers, dtype=np.int64)
    # All texts of a file in its order: the vectors are then read from the disk as needed.
    selected = array[: len(rows)] if bool((rows == np.arange(len(rows))).all()) else array[rows]
    with np.errstate(over="ignore"):  # refused below
        vectors: NDArray[np.float32] = np.asarray(selected, dtype=np.float32)
    if not (finite := np.isfinite(vectors).all(axis=1)).all():
        raise core.DataError(f"features: {path}: NaN or infinity in row {int(rows[finite.argmin()])}, counted from 0")
    return vectors


def _digest_vectors(path: Path) -> str:
    if not path.is_file():
        raise core.DataError(f"features: no such file: {path}")
    return core.digest_file(path)


def _digest_chat(source: TextRows, spec: models.BackendSpec) -> dict[str, str | None]:
    """Return the chat template's field of a key, if the model reads the prompts through one."""
    return {"chat": get_content(source.chat)} if spec.chat_template else {}


def _label(need: core.Need) -> str:
    return f"{need.kind}:{need.by}:{need.scope}:{core.digest(list(need.options))[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringOptions:
    """Options of `token_nll`, `token_rank`, `gradients` and `tokens`; defaults are in no key."""

    scope: core.Scope
    bos: bool = False  # the model's start token is read before every text
    retokenize: bool = False  # the text is tokenized again, also where its stored ids are of the scorer's tokenizer
    without_end: bool = False  # end tokens and outer white space are removed from the text before it is tokenized
    window: int | None = None  # tokens that are read at once; None: as many as the model can
    stride: int | None = None  # tokens that each later window scores; None: half a window

    @classmethod
    def from_need(cls, need: core.Need) -> ScoringOptions:
        """Return the options of a need."""
        options: dict[str, Any] = dict(need.options)
        if unknown := options.keys() - {each.name for each in fields(cls)}:
            raise core.SpecError(f"{need.kind}: no option {', '.join(sorted(unknown))}")
        return cls(scope=need.scope, **options)

    @property
    def tokenizes_again(self) -> bool:
        """True if stored ids are not used."""
        return self.retokenize or self.without_end

    @property
    def is_plain(self) -> bool:
        """True if an embedder may share the pass."""
        return not self.changed_options

    @property
    def changed_options(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        return {each.name: value for each in fields(self)[1:] if (value := getattr(self, each.name))}

    @property
    def title(self) -> str:
        """Name in the plan and the record."""
        words = (name if value is True else f"{name}={value}" for name, value in self.changed_options.items())
        return " ".join([self.scope, *words])

    def token_facts(self) -> dict[str, Any]:
        """Return what identifies the tokens."""
        options = {n: v for n, v in self.changed_options.items() if n in ("retokenize", "without_end")}
        return {"scope": self.scope, **options}

    def facts(self) -> dict[str, Any]:
        """Return what identifies the scores."""
        return {"scope": self.scope, "bos": self.bos, **self.changed_options}


def load_texts(source: TextRows, scope: core.Scope) -> list[str]:
    """Return a source's texts, with prompts if the scope includes them."""
    return list(_iterate_texts(source, scope))


def _iterate_texts(source: TextRows, scope: core.Scope) -> Iterator[str]:
    """Yield the texts of `load_texts`, with a bounded number of them in memory."""
    rows = RowFile(source.path)
    if scope == "continuation":
        return rows.each("text")
    return (a + b for a, b in zip(rows.each("prompt"), rows.each("text"), strict=True))


def load_row_tokens(source: TextRows, scope: core.Scope) -> core.Ragged:
    """Return the token ids that a source's rows hold."""
    rows = RowFile(source.path)
    return rows.token_ids if scope == "continuation" else join_ragged(rows.prompt_ids, rows.token_ids)


def _read_texts(source: TextRows, options: ScoringOptions, tokenizer: Any) -> Iterator[str]:  # noqa: ANN401 - a `TextTokenizer`
    """Yield the continuations, without end tokens and outer white space if the options say so."""
    ends = [tokenizer.decode([end]) for end in tokenizer.eos_ids] if options.without_end else []
    for text in RowFile(source.path).each("text"):
        for end in ends:
            text = text.replace(end, "")
        yield text.strip() if options.without_end else text


def _read_prompt_ids(source: TextRows, spec: models.BackendSpec) -> core.Ragged:
    """Read prompt ids as the model sees them: through its chat template if it has one and is the model under test."""
    rows = RowFile(source.path)
    if not spec.chat_template:
        return rows.prompt_ids
    if source.chat is None:
        raise core.SpecError("the prompts of the chat template were not made yet")
    chat = RowFile(source.chat.path / CHAT)
    ids = dict(zip(chat.ids, chat.prompt_ids, strict=True))
    return core.Ragged.from_rows((ids[example] for example in rows.ids), np.int64)


def _save_scores(scores: core.Ragged, model: models.Backend, folder: Path) -> Mapping[str, Any]:
    artifacts.save_ragged(folder, scores)
    return {"n": len(scores), "tokens": len(scores.values), "device": str(model.device), **model.provenance()}


def _save_vectors(
    embedded: models.TextVectors, model: models.LanguageModel | models.Backend, folder: Path
) -> Mapping[str, Any]:
    vectors, truncated = embedded
    artifacts.save_array(folder / artifacts.VECTORS, vectors)
    return {"n": len(vectors), "d": int(vectors.shape[1]), "truncated": truncated, "device": str(model.device)}
