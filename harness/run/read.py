"""What tokenizers and models read of a system's rows: token ids, losses, ranks, vectors, gradients, statistics of Q."""

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from openended.harness import core, models, storage
from openended.harness.decoders import QDecoder
from openended.harness.run.request import Generator
from openended.harness.run.session import Session
from openended.harness.run.steps import SHARED, Inputs
from openended.harness.storage import RowFile

log = logging.getLogger(__name__)

# Most rows of a batch on a CPU, whatever `runtime.feature_batch_size` says: where layers are not packed, products of
# other sizes round differently (2e-8), which would change the features and every key after them.
CPU_ROWS = 64
NLL, RANK = "nll_", "rank_"  # prefixes of files
_IDENTITIES = "rows.npy"
_IDENTITY = 16  # bytes of a digest of what is read of a row


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
    def from_need(cls, need: core.Need) -> Self:
        options: dict[str, Any] = dict(need.options)
        if unknown := options.keys() - {each.name for each in fields(cls)}:
            raise core.SpecError(f"{need.kind}: no option {', '.join(sorted(unknown))}")
        return cls(scope=need.scope, **options)

    @property
    def tokenizes_again(self) -> bool:
        return self.retokenize or self.without_end

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
        options = {n: v for n, v in self.changed_options.items() if n in ("retokenize", "without_end")}
        return {"scope": self.scope, **options}

    def facts(self) -> dict[str, Any]:
        """Return what identifies the scores."""
        return {"scope": self.scope, "bos": self.bos, **self.changed_options}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPass:
    """What one pass of a model over texts gives: losses, ranks, vectors."""

    model: models.BackendSpec
    options: ScoringOptions
    stored_ids: bool  # the model reads the ids that the rows hold; else it tokenizes the texts
    losses: bool = False
    ranks: bool = False
    embedder: models.EmbedderSpec | None = None  # whose vectors are kept, of `vector_scope`
    vector_scope: core.Scope = "prompt_and_continuation"

    @property
    def title(self) -> str:
        """What it gives, in words."""
        scored = " and ".join([*(["losses"] if self.losses else []), *(["ranks"] if self.ranks else [])])
        parts = [f"{scored} of {self.options.title}"] if scored else []
        return ", ".join([*parts, *([f"vectors of {self.vector_scope}"] if self.embedder is not None else [])])

    def facts(self) -> dict[str, Any]:
        """Return what identifies it, besides models and texts."""
        facts = {"losses": self.losses, "ranks": self.ranks, "stored_ids": self.stored_ids}
        scored = self.options.facts() if self.losses or self.ranks else {}
        return facts | scored | ({"vectors": self.vector_scope} if self.embedder is not None else {})


@dataclass(frozen=True, slots=True, eq=False)
class ReadRows:
    """What a model read of each row."""

    scores: core.Ragged | None = None  # losses, or losses and ranks in two columns
    vectors: NDArray[np.float32] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TextReader:
    """Makes the steps in which tokenizers and models read rows; the input `rows` is a file of them."""

    session: Session
    runtime: core.Runtime

    def write_tokens(
        self, folder: Path, inputs: Inputs, spec: models.ModelSpec, options: ScoringOptions
    ) -> Mapping[str, Any]:
        storage.save_ragged(folder, self.tokenize(spec, inputs["rows"], options))
        return {}

    def tokenize(self, spec: models.ModelSpec, path: Path, options: ScoringOptions) -> core.Ragged:
        tokenizer, rows = self.session.tokenizer(spec), RowFile(path)
        if options.scope != "continuation":
            return models.tokenize_texts(tokenizer, rows.iterate_texts(options.scope))
        texts = _iterate_continuations(rows, options, tokenizer)
        return models.tokenize_pairs(tokenizer, rows.prompts, texts)[1]

    def write_pass(self, folder: Path, inputs: Inputs, text_pass: TextPass, title: str) -> Mapping[str, Any]:
        """Write what a pass of a model gives; rows that another run has read on an equal machine are not read again.

        Only where a row's result does not depend on its batch, so that the bits are those of a pass over all rows.
        """
        prompts, continuations = self._read_ids(inputs, text_pass)
        if not (text_pass.losses or text_pass.ranks) and text_pass.vector_scope == "continuation":
            prompts = core.Ragged(prompts.values[:0], np.zeros_like(prompts.offsets))
        identities, stored = _identify_ids(prompts, continuations), dict[bytes, tuple[int, int]]()
        artifacts, facts, truncated = list[ReadRows](), dict[str, Any](), 0
        for entry in self.list_reusable(text_pass.model, inputs[SHARED]):
            for row, identity in enumerate(storage.load_array(entry.path / _IDENTITIES)):
                stored.setdefault(identity.tobytes(), (len(artifacts), row))
            artifacts.append(_load_pass(entry.path, text_pass))
            facts = dict(entry.meta)
            truncated += int(entry.meta.get("truncated", 0))
        sources = {row: stored[name] for row, key in enumerate(identities) if (name := key.tobytes()) in stored}
        missing = [row for row in range(len(identities)) if row not in sources]
        if reused := len(sources):
            log.info("%s has read %d of %d texts in another run", text_pass.model.title, reused, len(identities))
        if missing or not reused:
            rows = (_take(prompts, missing), _take(continuations, missing)) if reused else (prompts, continuations)
            with self._show_progress(title, len(missing), rows[1]) as advance:
                fresh = self._run(text_pass, *rows, advance)
            facts = dict(fresh.facts)
            truncated += int(facts.get("truncated", 0))
            sources |= {row: (len(artifacts), at) for at, row in enumerate(missing)}
            artifacts.append(fresh)
        in_order = [sources[row] for row in range(len(identities))]
        _save_pass(folder, _join(artifacts, in_order) if reused else artifacts[-1], text_pass)
        storage.save_array(folder / _IDENTITIES, identities)
        tokens, computed = len(continuations.values), int(continuations.lengths[missing].sum())
        counts = {"n": len(identities), "tokens": tokens, "reused_tokens": tokens - computed}
        return facts | counts | {"truncated": truncated}

    def write_sentences(self, folder: Path, inputs: Inputs, text_pass: TextPass, title: str) -> Mapping[str, Any]:
        """Write the vectors of a sentence encoder, which batches its texts itself."""
        spec = cast("models.EmbedderSpec", text_pass.embedder)
        texts = list(RowFile(inputs["rows"]).iterate_texts(text_pass.vector_scope))
        model = self.session.embedder(spec, self.runtime)
        with core.show_progress(title, len(texts), unit="texts", enabled=self.runtime.progress):
            vectors = models.embed_texts(model, spec, texts, batch_size=self._choose_batch(model)).vectors
        storage.save_array(folder / storage.VECTORS, vectors)
        return {"n": len(texts), "device": str(model.device)}

    def _run(
        self, text_pass: TextPass, prompts: core.Ragged, continuations: core.Ragged, advance: core.Advance
    ) -> ReadRows:
        spec, options, embedder = text_pass.model, text_pass.options, text_pass.embedder
        is_scored, vectors = text_pass.losses or text_pass.ranks, None
        facts: dict[str, Any] = {}
        if embedder is not None and not is_scored:
            model = self.session.embedder(embedder, self.runtime)
            request = models.EmbeddingRequest(
                prompts=prompts, continuations=continuations, embedder=embedder, batch_size=self._choose_batch(model)
            )
            embedded = models.embed_rows(model, request, advance)
            return ReadRows(None, embedded.vectors, self._describe(model) | {"truncated": embedded.truncated})
        lm = self.session.model(spec, self.runtime)
        texts: dict[str, Any] = {"prompts": prompts, "continuations": continuations, "ranks": text_pass.ranks}
        texts |= {"include_prompt": options.scope == "prompt_and_continuation", "batch_size": self._choose_batch(lm)}
        if embedder is not None:
            both = models.EmbeddingRequest(embedder=embedder, **texts)
            of_texts, scores = models.embed_and_score(lm, both, advance)
            vectors, facts = of_texts.vectors, {"truncated": of_texts.truncated}
        else:
            texts |= {"bos": options.bos, "window": options.window, "stride": options.stride}
            scores = models.compute_token_nll(lm, models.ScoringRequest(**texts), advance)
        return ReadRows(scores, vectors, {**self._describe(lm), **lm.provenance(), **facts})

    def list_reusable(
        self, spec: models.BackendSpec, folder: Path, *, is_planned: bool = False
    ) -> Iterator[storage.Entry]:
        """Yield the artifacts whose rows have the bits that this run would give: of equal packages and processors.

        A plan does not load torch: it expects the device and the number of threads of the artifacts.
        """
        if not isinstance(spec, models.ModelSpec) or self.runtime.spread:
            return
        entries = [entry for entry in storage.list_sharing_artifacts(folder) if entry.meta.get("batch_invariant")]
        device = self.runtime.device
        if entries and not is_planned:
            models.load_torch(self.runtime)  # before it is, the number of threads is unknown
            device = models.pick_device(device)
        if entries and device in ("auto", "cpu"):
            here = storage.describe_environment()
            yield from (entry for entry in entries if _are_equal_machines(entry.maker, here))

    def _describe(self, model: Any) -> dict[str, Any]:  # noqa: ANN401 - a language model or another backend
        # Workers may be on other processors than the one that the manifest names.
        is_here = isinstance(model, models.LanguageModel) and not self.runtime.spread
        return {
            "device": str(model.device),
            **({"batch_invariant": True} if is_here and models.is_batch_invariant(model) else {}),
        }

    def sketch_gradients(
        self, folder: Path, inputs: Inputs, text_pass: TextPass, size: int, title: str
    ) -> Mapping[str, Any]:
        lm = self.session.model(text_pass.model, self.runtime)
        prompts, texts = self._read_ids(inputs, text_pass)
        with self._show_progress(title, len(texts), texts) as advance:
            request = models.GradientRequest(prompts=prompts, continuations=texts, size=size)
            sketches = lm.sketch_gradients(request, advance)
        storage.save_array(folder / storage.VECTORS, sketches)
        return {"n": len(sketches), "d": size, "device": str(lm.device), **lm.provenance()}

    def write_q(
        self, folder: Path, inputs: Inputs, generator: Generator, least: int, title: str, *, entropy: bool
    ) -> Mapping[str, Any]:
        """Write the statistics of a decoder's Q at every token of the rows, or its entropy."""
        lm, rows = self.session.model(generator.model, self.runtime), RowFile(inputs["rows"])
        total = len(rows.token_ids.values)
        with core.show_progress(title, total, unit="tokens", enabled=self.runtime.progress) as advance:
            prompts, decoders = _read_prompt_ids(inputs, generator.model), [cast("QDecoder", generator.decoder)]
            texts: dict[str, Any] = {"prompts": prompts, "continuations": rows.token_ids}
            texts |= {"min_new_tokens": least, "entropy": entropy, "batch_size": self._choose_batch(lm)}
            request = models.QStatisticsRequest(decoders=decoders, **texts)
            (stats,) = lm.q_statistics(request, advance)
        facts = {"device": str(lm.device), **lm.provenance()}
        if not entropy:
            return {**storage.save_next_token(folder, stats), **facts}
        storage.save_ragged(folder, core.Ragged(np.asarray(stats.entropy), stats.offsets))
        return facts

    def _show_progress(self, title: str, total: int, texts: core.Ragged) -> Any:  # noqa: ANN401 - a context manager
        tokens = len(texts.values)
        return core.show_progress(title, total, unit="texts", tokens=tokens, enabled=self.runtime.progress)

    def _choose_batch(self, model: Any) -> int:  # noqa: ANN401 - a language model or a sentence encoder
        return CPU_ROWS if model.device.type == "cpu" else self.runtime.feature_batch_size

    def _read_ids(self, inputs: Inputs, text_pass: TextPass) -> tuple[core.Ragged, core.Ragged]:
        """Read token ids of prompts and continuations under a model's tokenizer; stored ids if it is the same one."""
        spec, options = text_pass.model, text_pass.options
        rows, tokenizer_spec = RowFile(inputs["rows"]), spec.tokenizer_spec()
        if tokenizer_spec is None:
            raise core.SpecError(f"model {spec.title}: it has no tokenizer to score with")
        if text_pass.stored_ids:
            return _read_prompt_ids(inputs, spec), rows.token_ids
        tokenizer = self.session.tokenizer(tokenizer_spec)
        return models.tokenize_pairs(tokenizer, rows.prompts, _iterate_continuations(rows, options, tokenizer))


def _are_equal_machines(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return whether two environments are of equal packages, processors and threads, which a plan may not know."""
    was, threads = (each.get("hardware", {}).get("torch_threads") for each in (then, now))
    differing = storage.compare_environments(then, now).keys() & {"packages", "hardware"}
    return not differing and threads in (None, was)


def _iterate_continuations(rows: RowFile, options: ScoringOptions, tokenizer: Any) -> Iterator[str]:  # noqa: ANN401 - a `TextTokenizer`
    """Yield the continuations, without end tokens and outer white space if the options say so."""
    ends = [tokenizer.decode([end]) for end in tokenizer.eos_ids] if options.without_end else []
    for text in rows.each("text"):
        for end in ends:
            text = text.replace(end, "")
        yield text.strip() if options.without_end else text


def _read_prompt_ids(inputs: Inputs, spec: models.BackendSpec) -> core.Ragged:
    """Read prompt ids as the model sees them: through its chat template if it has one and is the model under test."""
    rows = RowFile(inputs["rows"])
    if not spec.chat_template:
        return rows.prompt_ids
    chat = RowFile(inputs["chat"])
    ids = dict(zip(chat.ids, chat.prompt_ids, strict=True))
    return core.Ragged.from_rows((ids[example] for example in rows.ids), np.int64)


def _identify_ids(prompts: core.Ragged, continuations: core.Ragged) -> NDArray[np.uint8]:
    parts = (
        len(before).to_bytes(8, "little") + np.concatenate([before, after]).astype("<i8").tobytes()
        for before, after in zip(prompts, continuations, strict=True)
    )
    digests = b"".join(hashlib.sha256(part).digest()[:_IDENTITY] for part in parts)
    return np.frombuffer(digests, np.uint8).reshape(-1, _IDENTITY)


def _take(ragged: core.Ragged, rows: Sequence[int]) -> core.Ragged:
    return core.Ragged.from_rows((ragged[row] for row in rows), ragged.values.dtype)


def _join(artifacts: Sequence[ReadRows], sources: Sequence[tuple[int, int]]) -> ReadRows:
    """Return the rows of several artifacts in a new order: (number of the artifact, of the row)."""
    scores = None
    if (first := artifacts[0].scores) is not None:
        parts = [cast("core.Ragged", artifacts[number].scores)[row] for number, row in sources]
        offsets = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        empty = first.values[:0]
        scores = core.Ragged(np.concatenate([empty, *parts]).astype(first.values.dtype), offsets)
    vectors = None
    if (some := artifacts[0].vectors) is not None:
        vectors = models.allocate_vectors(len(sources), some.shape[1])
        for at, artifact in enumerate(artifacts):
            rows = [(target, row) for target, (source, row) in enumerate(sources) if source == at]
            if rows:
                targets, positions = np.array(rows).T
                vectors[targets] = cast("NDArray[np.float32]", artifact.vectors)[positions]
    return ReadRows(scores, vectors)


def _save_pass(folder: Path, rows: ReadRows, text_pass: TextPass) -> None:
    if rows.scores is not None:
        nll, rank = models.split_columns(rows.scores)
        storage.save_ragged(folder, nll, NLL)
        if text_pass.ranks:
            storage.save_ragged(folder, rank, RANK)
    if rows.vectors is not None:
        storage.save_array(folder / storage.VECTORS, rows.vectors)


def _load_pass(folder: Path, text_pass: TextPass) -> ReadRows:
    scores = None
    if text_pass.losses or text_pass.ranks:
        scores = storage.load_ragged(folder, NLL)
        if text_pass.ranks:
            rank = storage.load_ragged(folder, RANK).values.astype(np.float64)
            scores = core.Ragged(np.stack([scores.values, rank], axis=1), scores.offsets)
    vectors = storage.load_array(folder / storage.VECTORS) if text_pass.embedder is not None else None
    return ReadRows(scores, vectors)
