"""Declare the features (texts, tokens, scores, embeddings, Q) that the metrics of a run need, once for all metrics.

Each model passes once over each source; if scorer and embedder are the same causal model, one pass gives scores and
vectors. For a feature that a source cannot have, the reason is stored, and the metric shows it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from openended.harness import core, imported, models, storage
from openended.harness.decoders import Decoder, QDecoder
from openended.harness.run.dataset import SPARE_ROWS
from openended.harness.run.passes import ModelPasses, ScoringOptions, has_ids_for
from openended.harness.run.settings import BY_MODEL, RunModels, TextOptions
from openended.harness.run.steps import Build, Step, StepGroup, TextRows, digest_model, resolve_input
from openended.harness.storage import Entry, RowFile

# Needed by decoders that match the perplexity of human text; from the model's full softmax, not from a Q.
FOR_DECODER = core.Need("token_nll", by="decoder")
# Kinds by stage, so that a model is loaded once for all sources; the first are read without weights. `q_nll`: by a Q.
_STAGES = (
    ("texts", "stops", "log_prob", "tokens", "end_tokens", "corpus", "classifier"),
    ("next_token", "q_entropy", "q_nll"),
    ("token_nll", "token_rank"),
    ("gradients",),
    ("embeddings",),
)
_WHOLE: core.Scope = "prompt_and_continuation"


@dataclass(frozen=True)
class LazyFeature:
    """One feature of one source."""

    content: Any  # the step that makes it, or a digest or what computes it: an input of the steps of metrics
    load: Callable[[], Any]

    @classmethod
    def from_step(cls, step: Step, load: Callable[[Entry], Any]) -> Self:
        """Return a feature that is read from the artifact of a step."""

        def load_entry() -> Any:  # noqa: ANN401 - each kind has its own
            if step.entry is None:
                raise core.SpecError(f"{step.stage} {step.what}: was not made yet")
            return load(step.entry)

        return cls(step, load_entry)

    @cached_property
    def value(self) -> Any:  # noqa: ANN401 - each kind has its own
        """The loaded feature; arrays are memory-mapped."""
        return self.load()


class FeatureTable:
    """The features of a run's sources (human, model and ceiling texts), declared once each."""

    def __init__(self, run_models: RunModels, texts: TextOptions, passes: ModelPasses) -> None:
        self.models = run_models
        self.texts = texts
        self.passes = passes
        self._features: dict[tuple[object, core.Need], LazyFeature | str] = {}
        """(source, need) → the feature, or why it does not exist for this source."""

    def list_contents(self, source: TextRows, needs: Iterable[core.Need]) -> dict[str, Any]:
        """Return each needed feature as an input of a step."""
        return {_label(need): self._get_feature(source, need).content for need in needs}

    def side(self, source: TextRows, needs: Iterable[core.Need]) -> core.Side:
        """Return the `Side` that a metric reads, with these features loaded.

        Sides are cached by the content of their features, so that values derived from one are shared between metrics.
        """
        features = {need: self._get_feature(source, need) for need in needs}
        contents = sorted([_label(need), str(resolve_input(f.content))] for need, f in features.items())
        key = core.digest([source.role, source.digest, contents])

        def load() -> core.Side:
            values = {need: feature.value for need, feature in features.items()}
            _lock_arrays(values.values())  # all metrics read the same arrays
            return core.Side(source.role, RowFile(source.path).ids, values)

        return self.passes.session.side_cache.get(key, load, lasting=source.role == core.HUMAN)

    def value(self, source: TextRows, need: core.Need) -> Any:  # noqa: ANN401 - each kind has its own
        """Return one feature, or None if it is not computed yet."""
        feature = self._get_feature(source, need)
        return feature.value if resolve_input(feature.content) is not None else None

    def declare(
        self, requests: Sequence[tuple[TextRows, Sequence[core.Need]]], decoder: Decoder | None
    ) -> list[Step | StepGroup]:
        """Declare all needed features of each source; `decoder` is the resolved one whose Q is measured."""
        if self.models.vector_files:  # also where no metric asks for vectors
            vectors = {source.role: self._read_user_vectors(source) for source, _ in requests}
            wide = {role: part.value.shape[1] for role, part in vectors.items() if part.content is not None}
            if len(set(wide.values())) > 1:
                got = ", ".join(f"{width} ({role})" for role, width in wide.items())
                raise core.DataError(f"features: expected vectors of the same number of dimensions, got {got}")
        missing: dict[object, dict[core.Need, TextRows]] = defaultdict(dict)
        for source, needs in requests:
            for need in needs:
                if (self._identify(source), need) not in self._features:
                    missing[self._identify(source)].setdefault(need, source)
        steps: list[Step | StepGroup] = []
        for kinds in _STAGES:
            for needs_of in missing.values():
                for need, source in needs_of.items():
                    kind = "q_nll" if need.kind == "token_nll" and need.by == "model" else need.kind
                    if kind in kinds and (self._identify(source), need) not in self._features:
                        declared: Mapping[core.Need, LazyFeature | str]
                        try:
                            declared, further = self._declare_feature(source, need, tuple(needs_of), decoder)
                        except core.UndefinedMetric as err:
                            declared, further = {need: str(err)}, []
                        self._features |= {
                            (self._identify(source), each): feature for each, feature in declared.items()
                        }
                        steps += further
        return steps

    def _identify(self, source: TextRows) -> object:
        """Return what features are kept by: equal texts share them, but not vectors of the user's own."""
        return (source.identity, source.role == "model") if self.models.vector_files else source.identity

    def _get_feature(self, source: TextRows, need: core.Need) -> LazyFeature:
        feature = self._features[self._identify(source), need]
        if isinstance(feature, str):
            raise core.UndefinedMetric(feature)
        return feature

    def _declare_feature(
        self, source: TextRows, need: core.Need, needs: Sequence[core.Need], decoder: Decoder | None
    ) -> tuple[dict[core.Need, LazyFeature], Sequence[Step | StepGroup]]:
        """Return the feature, others that the same pass gives, and the steps that make them."""
        if need.kind == "token_rank" or (need.kind == "token_nll" and need.by != "model"):
            return self._declare_scores(source, need, needs)
        if need.kind == "embeddings":
            return self._declare_embeddings(source, need)
        declare = {"tokens": self._declare_tokens, "gradients": self._declare_gradients}.get(need.kind)
        if need.kind in ("next_token", "q_entropy", "token_nll"):
            declare = partial(self._declare_q, decoder=decoder)
        feature = declare(source, need) if declare is not None else self._read_feature(source, need)
        return {need: feature}, [feature.content] if isinstance(feature.content, Step) else []

    def _read_feature(self, source: TextRows, need: core.Need) -> LazyFeature:
        """Return a feature that is read as it is: columns of the rows, files of the user, end tokens."""
        if need.kind == "corpus":
            path = Path(str(dict(need.options)["file"]))
            return LazyFeature(partial(imported.digest_corpus, path), partial(imported.load_corpus, path))
        if need.kind == "classifier":
            model = models.ModelSpec(path=str(dict(need.options)["path"]))
            device = self.passes.runtime.device

            def load_classifier() -> Callable[..., NDArray[np.bool_]]:
                return partial(models.finetune_classifier, model, models.pick_device(device))

            return LazyFeature(partial(digest_model, model), load_classifier)
        if need.kind == "texts":
            return LazyFeature(source.digest, lambda: list(source.iterate_texts(need.scope)))
        if need.kind == "stops":
            return LazyFeature(source.digest, lambda: RowFile(source.path).stops)
        if need.kind == "log_prob":
            _refuse_answers(source)
            return LazyFeature(source.digest, lambda: RowFile(source.path).log_probs)
        spec = self._find_tokenizer(need)  # of `end_tokens`
        if spec is None:
            raise core.UndefinedMetric("needs a tokenizer with a token that ends a text: " + format_hint("scorer"))

        def load_end_tokens() -> core.I64:
            loaded: Any = self.passes.session.tokenizer(spec)
            return np.array(loaded.eos_ids, dtype=np.int64)

        return LazyFeature(partial(_digest_ends, spec), load_end_tokens)

    def _find_tokenizer(self, need: core.Need) -> models.ModelSpec | None:
        """Return whose tokens a need counts; None: those of no model."""
        if need.by in core.SPLITTERS:
            return None
        return self.models.counter if need.by == "scorer" else self._choose_model(need).tokenizer_spec()

    def _declare_tokens(self, source: TextRows, need: core.Need) -> LazyFeature:
        """Declare token ids; a step tokenizes if the rows have the tokens of another tokenizer."""
        if need.by == "rows":
            return LazyFeature(source.digest, partial(source.load_tokens, need.scope))
        spec, options = self._find_tokenizer(need), ScoringOptions.from_need(need)
        if spec is None:

            def load_words() -> core.Ragged:
                by = need.by if need.by in core.SPLITTERS else "words"
                return core.number_words(source.iterate_texts(need.scope), by)

            digest = core.digest([source.digest, core.describe_icu()]) if need.by == "icu" else source.digest
            return LazyFeature(digest, load_words)
        if has_ids_for(source, spec, options):
            return LazyFeature(source.digest, partial(source.load_tokens, need.scope))

        inputs = {"rows": source.digest, "tokenizer": partial(models.digest_encoding, spec)}
        if options.without_end:
            inputs["ends"] = partial(_digest_ends, spec)
        compute = partial(self.passes.write_tokens, spec, source, options)
        step = _make_step(source, "tokens", options.title, options.token_facts(), inputs, compute)
        return LazyFeature.from_step(step, lambda entry: storage.load_ragged(entry.path))

    def _declare_embeddings(
        self, source: TextRows, need: core.Need
    ) -> tuple[dict[core.Need, LazyFeature], Sequence[StepGroup]]:
        """Declare embeddings at the maximum length, and in the same pass at the embedder's other lengths."""
        if self.models.vector_files:
            return {need: self._read_user_vectors(source)}, []
        spec = self.models.embedder
        if spec is None:
            raise core.UndefinedMetric(format_hint("embedder"))
        lengths = {self._declare_vectors(source, need, spec): spec.max_length}
        for number in spec.lengths:
            if number != spec.max_length:
                step = self._declare_vectors(source, need, replace(spec, max_length=number))
                step.what += f" cut to {number}"
                lengths[step] = number
        specs = [spec, *(replace(spec, max_length=number) for number in list(lengths.values())[1:])]

        def compute(missing: Sequence[Step]) -> Sequence[Build]:
            return self.passes.embed(specs, source, need.scope, {step: lengths[step] for step in missing})

        first, *others = lengths
        reuses = not others and spec.kind != "sentence"
        find_family = partial(self.passes.find_family, source, first) if reuses else None
        return {need: _read_vectors(first)}, [StepGroup(list(lengths), compute, find_family)]

    def _read_user_vectors(self, source: TextRows) -> LazyFeature:
        """Read the user's own vectors of a source, in place of an embedder's."""
        path = self.models.vector_files["model" if source.role == "model" else "human"]
        if source.entry is None or not path.is_file():
            return LazyFeature(None, dict)
        whole = self.texts.num_examples == "all" and source.file != SPARE_ROWS
        if len(set(RowFile(source.path).ids)) < len(RowFile(source.path)):
            raise core.DataError("features: expected one text per record, got conversations of several turns")
        row_numbers = [int(name.rpartition("/")[2]) for name in RowFile(source.path).ids]
        vectors = load_user_vectors(path, row_numbers, whole=whole)
        return LazyFeature(core.digest(["own vectors", core.digest_file(path), source.digest]), lambda: vectors)

    def _declare_scores(
        self, source: TextRows, need: core.Need, needs: Sequence[core.Need]
    ) -> tuple[dict[core.Need, LazyFeature], Sequence[StepGroup]]:
        """Declare token NLL under the full distribution; in the same pass ranks, and vectors if the models are one."""
        spec, options = self._choose_model(need), ScoringOptions.from_need(need)
        vectors = core.Need("embeddings", by="embedder", scope=_WHOLE)
        embedder = self.models.embedder if vectors in needs and not self.models.vector_files else None
        if embedder is not None:
            is_one_pass = options.is_plain and embedder.reading.kind == "causal" and not embedder.lengths
            is_done = (self._identify(source), vectors) in self._features
            if is_done or not is_one_pass or not _is_same_model(embedder.model_spec(), spec):
                embedder = None
        stages = {replace(need, kind="token_nll"): "score", replace(need, kind="token_rank"): "rank"}
        steps = {
            each: self._declare_reading(source, options, spec, stage)
            for each, stage in stages.items()
            if each == need or each in needs
        }
        features = {each: LazyFeature.from_step(step, _read_ragged) for each, step in steps.items()}
        if embedder is not None:
            steps[vectors] = self._declare_vectors(source, vectors, embedder)
            features[vectors] = _read_vectors(steps[vectors])

        def compute(missing: Sequence[Step]) -> Sequence[Build]:
            return self.passes.score_and_embed(spec, embedder, source, options, missing)

        group = list(steps.values())
        return features, [StepGroup(group, compute, partial(self.passes.find_family, source, group[0]))]

    def _declare_gradients(self, source: TextRows, need: core.Need) -> LazyFeature:
        """Declare sketches of the gradients of the scorer's losses of texts."""
        spec, further = self._choose_model(need), dict(need.options)
        size = int(further.pop("size") or 0)
        options = ScoringOptions.from_need(replace(need, options=tuple(further.items())))
        step = self._declare_reading(source, options, spec, "gradients", size=size)
        step.compute = partial(self.passes.sketch_gradients, spec, source, options, size)
        return _read_vectors(step)

    def _declare_q(self, source: TextRows, need: core.Need, decoder: Decoder | None) -> LazyFeature:
        """Declare the statistics of the decoder's Q on a source, or the token NLL under Q."""
        model, least = self.models.model, self.texts.least_length
        _refuse_answers(source)
        if model is None or decoder is None:
            raise core.UndefinedMetric("needs the generating model and its decoder; these texts come from a file")
        if not isinstance(decoder, QDecoder):
            raise core.UndefinedMetric(decoder.no_q_reason)
        if (is_entropy := need.kind == "q_entropy") and source.role != "model":
            raise core.UndefinedMetric("Q is that of the system under test, on its own texts")
        with suppress(core.DataError):  # the model is missing, as its digest says
            if reason := model.cannot("q_entropy" if is_entropy else "q_statistics", decoder):
                raise core.UndefinedMetric(reason)

        def load_negative_log(entry: Entry) -> core.Ragged:
            q = storage.load_next_token(entry.path, entry.meta)
            with np.errstate(divide="ignore"):
                return core.Ragged(-np.log(q.gold_prob), q.offsets)

        facts = {"decoder": core.canonicalize(decoder), "min_new_tokens": least}
        inputs = {"rows": source.digest, "model": partial(digest_model, model), **_get_chat(source, model)}
        if is_entropy:
            write = partial(self.passes.write_entropy, model, decoder, source, least)
            step = _make_step(source, "score", "entropy of Q", {**facts, "entropy": True}, inputs, write, model)
            return LazyFeature.from_step(step, _read_ragged)
        compute = partial(self.passes.read_q, model, decoder, source, least)
        step = _make_step(source, "next_token", "", facts, inputs, compute, model)
        if need.kind == "next_token":
            return LazyFeature.from_step(step, lambda entry: storage.load_next_token(entry.path, entry.meta))
        return LazyFeature.from_step(step, load_negative_log)

    def _declare_vectors(self, source: TextRows, need: core.Need, spec: models.EmbedderSpec) -> Step:
        """Return the step of an embedder's vectors, which a group computes."""
        inputs = {"rows": source.digest, "embedder": partial(digest_model, spec)}
        facts: dict[str, Any] = {"scope": need.scope}
        if spec.kind != "sentence":  # it reads texts
            facts["stored_ids"] = has_ids_for(source, spec.model_spec(), ScoringOptions(scope=need.scope))
        return _make_step(source, "embed", need.scope, facts, inputs, _compute_nothing, spec.model_spec())

    def _declare_reading(
        self, source: TextRows, options: ScoringOptions, spec: models.BackendSpec, stage: str, **further: int
    ) -> Step:
        """Return a step of what a model says of texts, which a group computes."""
        what = options.title
        if spec is not self.models.scorer and not _is_same_model(spec, self.models.scorer):
            what += f" by {spec.title}"
        inputs = {"rows": source.digest, "scorer": partial(digest_model, spec), **_get_chat(source, spec)}
        facts = {**options.facts(), "stored_ids": has_ids_for(source, spec.tokenizer_spec(), options), **further}
        return _make_step(source, stage, what, facts, inputs, _compute_nothing, spec)

    def _choose_model(self, need: core.Need) -> models.BackendSpec:
        spec = self.models.find_model(need)
        if spec is None:
            by_model = f"needs {need.kind} by the model: set model=…"
            raise core.UndefinedMetric(by_model if need.by in BY_MODEL else format_hint("scorer"))
        return spec


def _refuse_answers(source: TextRows) -> None:
    """Refuse what the model thinks of its answers alone: it drew them after its reasoning."""
    thinking = source.entry.meta.get("thinking", "keep") if source.entry is not None else "keep"
    if thinking != "keep":
        raise core.UndefinedMetric(f"the model reasoned before its answers (thinking={thinking}); set thinking=keep")


def load_user_vectors(path: Path, row_numbers: list[int], *, whole: bool) -> NDArray[np.float32]:
    """Load these rows of the user's own vectors; with `whole`, the file must have exactly one row for each text."""
    try:
        array = storage.load_array(path)
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


def _make_step(
    source: TextRows, stage: str, what: str, spec: Mapping[str, Any], inputs: Mapping[str, Any], compute: Build,
    model: models.BackendSpec | None = None,
) -> Step:  # fmt: skip
    """Return a step for which a model reads the texts of a source."""
    title = f"{source.title} {what}".rstrip()
    return Step(stage, title, source.role, spec, inputs, compute, source.num_texts, source.num_tokens, model)


def _compute_nothing(folder: Path) -> Mapping[str, Any]:
    raise core.SpecError(f"{folder.name}: a step of a group is computed with its group")


def _read_ragged(entry: Entry) -> core.Ragged:
    return storage.load_ragged(entry.path)


def _read_vectors(step: Step) -> LazyFeature:
    return LazyFeature.from_step(step, lambda entry: storage.load_vectors(entry.path))


def _is_same_model(spec: models.BackendSpec, other: models.BackendSpec | None) -> bool:
    """Return whether two specs are one model; no where one is missing, as the step that needs it says."""
    try:
        return other is not None and spec.identity() == other.identity()
    except core.DataError:
        return False


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


def _digest_ends(spec: models.ModelSpec) -> str:
    """Return a digest of a tokenizer and its end tokens."""
    return core.digest([models.digest_encoding(spec), spec.end_ids()])


def _get_chat(source: TextRows, spec: models.BackendSpec) -> dict[str, Step | None]:
    """Return the chat template's field of a key, if the model reads the prompts through one."""
    return {"chat": source.chat} if spec.chat_template else {}


def _label(need: core.Need) -> str:
    return f"{need.kind}:{need.by}:{need.scope}:{core.digest(list(need.options))[:8]}"
