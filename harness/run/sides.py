"""Features of a system's rows: made once, kept in the store, shared by every metric that needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openended.harness.contract import Need, Side
from openended.harness.decoding.base import Decoder, QDecoder
from openended.harness.errors import SpecError, UndefinedMetric
from openended.harness.models.transformers import ModelSpec, tokenizer_digest
from openended.harness.progress import progress
from openended.harness.rows import Rows, join_ragged
from openended.harness.run import artefacts as stages
from openended.harness.run.settings import Settings
from openended.harness.run.steps import Source, Steps
from openended.harness.signature import canonical, digest
from openended.harness.store import Entry, Recipe
from openended.harness.types import HUMAN, Ragged

if TYPE_CHECKING:
    from openended.harness.models.embedder import Embedded, EmbedderSpec

# A feature: how to load it, and the digest that enters the metric's key (None while it is still to be made).
Made = tuple[Callable[[], Any], str | None]


MOST_SIDES = 64  # kept loaded: a long grid over many human sides must not fill the memory


class SideMaker:
    """Makes `Side`s with the features that metrics need."""

    def __init__(self, settings: Settings, steps: Steps, *, decoder: Decoder | None = None) -> None:
        self.settings = settings
        self.steps = steps
        self.decoder = decoder or settings.decoder
        """The resolved decoder, whose Q the teacher-forced features are about."""
        self._sides: dict[str, Side] = {}
        self._passed: dict[str, Embedded] = {}
        """Embeddings that came out of a scoring pass, by the rows' digest, until they are asked for."""

    def digests(self, source: Source, needs: Iterable[Need]) -> dict[str, str | None]:
        """Make (or plan) the features and return need → digest.

        Raises:
            UndefinedMetric: If a feature does not exist for this system (a decoder without Q, say).
        """
        return {_label(need): self._feature(source, need)[1] for need in needs}

    def side(self, source: Source, needs: Iterable[Need]) -> Side:
        """Return the side with the needed features loaded (arrays as memory maps).

        Sides are kept by the contents of their features, so that what a metric derives from one is shared: the human
        side's by all jobs of the process, the others' within their run.
        """
        made = {need: self._feature(source, need) for need in needs}
        contents = sorted([_label(need), str(content)] for need, (_, content) in made.items())
        key = digest([source.system, source.digest, contents])
        kept = self.steps.session.sides if source.system == HUMAN else self._sides
        if key not in kept:
            data = {need: load() for need, (load, _) in made.items()}
            kept[key] = Side(source.system, Rows(source.path).ids, data)
            while len(kept) > MOST_SIDES:
                kept.pop(next(iter(kept)))
        kept[key] = kept.pop(key)  # the last used are the last to go
        return kept[key]

    def _feature(self, source: Source, need: Need) -> Made:
        makers: Mapping[str, Callable[[Source, Need], Made]] = {
            "texts": self._texts,
            "stops": self._stops,
            "tokens": self._tokens,
            "embeddings": self._embeddings,
            "token_nll": self._token_nll,
            "next_token": self._next_token,
        }
        if need.kind not in makers:
            raise UndefinedMetric(f"needs {need.kind}: give judgments=FILE")
        return makers[need.kind](source, need)

    def _texts(self, source: Source, need: Need) -> Made:
        def load() -> list[str]:
            rows = Rows(source.path)
            if need.scope == "continuation":
                return rows.texts
            return [a + b for a, b in zip(rows.prompts, rows.texts, strict=True)]

        return load, source.digest

    def _stops(self, source: Source, _need: Need) -> Made:
        return lambda: Rows(source.path).stops, source.digest

    def _tokens(self, source: Source, need: Need) -> Made:
        from openended.harness.models.embedder import token_ids, word_ids

        if need.by == "words":
            return lambda: word_ids(self._texts(source, need)[0]()), source.digest
        spec = self._model(need)
        wanted = self.steps.ask(lambda: tokenizer_digest(spec))
        if wanted is not None and source.tokenizer == wanted:
            return lambda: _own_tokens(source, need), source.digest

        def build(folder: Path) -> Mapping[str, Any]:
            tokenizer = self.steps.session.tokenizer(spec)
            stages.save_ragged(folder, token_ids(tokenizer, self._texts(source, need)[0]()))
            return {}

        entry = self._step("tokens", source, need, {"scope": need.scope}, {"tokenizer": wanted}, build)
        return lambda: stages.load_ragged(_path(entry)), entry.content if entry else None

    def _embeddings(self, source: Source, need: Need) -> Made:
        spec = self.settings.embedder
        if spec is None:
            raise UndefinedMetric("needs embeddings: set embedder=…")

        others: dict[int, Embedded] = {}

        def build(folder: Path) -> Mapping[str, Any]:
            with self._progress(f"embed {source.system}", len(Rows(source.path))) as advance:
                made = self._embed(spec, source, need, advance)
            others.update({n: one for n, one in made.items() if n is not None and n != spec.max_length})
            return stages.save_embedded(folder, made[spec.max_length])

        facts = {"scope": need.scope}
        entry = self._step("embed", source, need, facts, {"embedder": self._id(spec)}, build)
        for length, one in others.items():
            inputs = {"rows": str(source.digest), "embedder": str(self._id(replace(spec, max_length=length)))}
            keep = partial(stages.save_embedded, made=one)
            self.steps.session.store.make(Recipe("embed", 1, facts, inputs), keep)
        return lambda: stages.load_array(_path(entry) / "embeddings.npy"), entry.content if entry else None

    def _embed(
        self, spec: EmbedderSpec, source: Source, need: Need, advance: Callable[[int], None]
    ) -> Mapping[int | None, Embedded]:
        """Embed at the maximum length, and in the same pass at the others that the embedder lists."""
        from openended.harness.models.embedder import embed, embed_lengths, embed_texts

        passed = self._passed.pop(str(source.digest), None)
        if passed is not None and need.scope == "prompt_and_continuation":
            return {spec.max_length: passed}
        batch = self.settings.runtime.feature_batch_size
        model = self.steps.session.embedder(spec, self.settings.runtime)
        if spec.kind == "sentence":
            return {spec.max_length: embed_texts(model, spec, self._texts(source, need)[0](), batch_size=batch)}
        prompts, texts = self._ids(source, spec.model_spec())
        if need.scope == "continuation":
            prompts = Ragged(prompts.values[:0], np.zeros_like(prompts.offsets))
        if spec.lengths:
            lengths = embed_lengths(
                model, spec, prompts, texts, max_lengths=spec.lengths, batch_size=batch, advance=advance
            )
            return dict(lengths.items())
        return {spec.max_length: embed(model, spec, prompts, texts, batch_size=batch, advance=advance)}

    def _token_nll(self, source: Source, need: Need) -> Made:
        if need.by == "model":
            return self._own_nll(source, need)
        return self.scored(source, need, self._model(need))

    def scored(self, source: Source, need: Need, spec: ModelSpec) -> Made:
        """Token NLL under a language model's full distribution."""
        from openended.harness.models.embedder import embed_and_nll, token_nll

        options: dict[str, Any] = dict(need.options)

        def build(folder: Path) -> Mapping[str, Any]:
            lm = self.steps.session.model(spec, self.settings.runtime)
            prompts, texts = self._ids(source, spec)
            batch = self.settings.runtime.feature_batch_size
            whole = need.scope == "prompt_and_continuation"
            embedder = self._embedder_of(source, spec, options)
            with self._progress(f"score {source.system}", len(texts)) as advance:
                if embedder is not None:
                    self._passed[str(source.digest)], nll = embed_and_nll(
                        lm, embedder, prompts, texts, include_prompt=whole, batch_size=batch, advance=advance
                    )
                else:
                    nll = token_nll(
                        lm, prompts, texts, include_prompt=whole, **options, batch_size=batch, advance=advance
                    )
            stages.save_ragged(folder, nll)
            return {"n": len(nll), "tokens": len(nll.values)}

        facts = {"scope": need.scope, "options": options}
        inputs = {"scorer": self._id(spec), **self._chat(source, spec)}
        entry = self._step("score", source, need, facts, inputs, build)
        return lambda: stages.load_ragged(_path(entry)), entry.content if entry else None

    def _embedder_of(self, source: Source, scorer: ModelSpec, options: Mapping[str, Any]) -> EmbedderSpec | None:
        """Return the embedder if one pass of the scorer can make its vectors too, and this run needs both."""
        embedder = self.settings.embedder
        wanted = Need("embeddings", by="embedder", scope="prompt_and_continuation")
        needed = any(wanted in metric.needs() for metric in self.settings.metrics)
        if embedder is None or embedder.kind != "causal" or embedder.lengths or options.get("bos") or not needed:
            return None
        same = embedder.model_spec().identity() == scorer.identity()
        return embedder if same and source.system in (HUMAN, "model") else None

    def _own_nll(self, source: Source, need: Need) -> Made:
        """Token NLL under the decoder's own Q: what it gave the text it wrote, and the text people wrote."""
        load, key = self._next_token(source, need)

        def negative_log() -> Ragged:
            stats = load()
            with np.errstate(divide="ignore"):
                return Ragged(-np.log(stats.gold_prob), stats.offsets)

        return negative_log, key

    def _next_token(self, source: Source, need: Need) -> Made:
        model, decoder = self.settings.model, self.decoder
        if model is None or decoder is None or self.settings.generations is not None:
            raise UndefinedMetric("needs the generating model and its decoder; these texts come from a file")
        if not isinstance(decoder, QDecoder):
            raise UndefinedMetric(decoder.no_q_reason)
        q_decoder, shortest = decoder, self.settings.least

        def build(folder: Path) -> Mapping[str, Any]:
            from openended.harness.decoding.teacher import next_token_stats

            lm = self.steps.session.model(model, self.settings.runtime)
            rows = Rows(source.path)
            with self._progress(f"read Q on {source.system}", len(rows)) as advance:
                stats = next_token_stats(
                    lm, [q_decoder], self._read(source, model), rows.token_ids, min_new_tokens=shortest,
                    batch_size=self.settings.runtime.feature_batch_size, advance=advance,
                )  # fmt: skip
            return stages.save_next_token(folder, stats[0])

        facts = {"decoder": canonical(decoder), "min_new_tokens": shortest}
        inputs = {"model": self._id(model), **self._chat(source, model)}
        entry = self._step("next_token", source, need, facts, inputs, build)

        def load() -> Any:  # noqa: ANN401
            return stages.load_next_token(_path(entry), entry.meta if entry else {})

        return load, entry.content if entry else None

    def _ids(self, source: Source, spec: ModelSpec) -> tuple[Ragged, Ragged]:
        """Token ids of prompts and continuations under a model's tokenizer; kept ids where it is the same one."""
        from openended.harness.models.embedder import token_ids

        rows = Rows(source.path)
        if source.tokenizer == tokenizer_digest(spec):
            return self._read(source, spec), rows.token_ids
        tokenizer = self.steps.session.tokenizer(spec)
        return token_ids(tokenizer, rows.prompts), token_ids(tokenizer, rows.texts)

    def _read(self, source: Source, spec: ModelSpec) -> Ragged:
        """Prompt ids as a model reads them: through its chat template where it is the model under test and has one."""
        rows = Rows(source.path)
        if not spec.chat_template:
            return rows.prompt_ids
        if source.chat is None:
            raise SpecError("the prompts of the chat template were not made yet")
        chat = Rows(source.chat.path / stages.CHAT)
        ids = dict(zip(chat.ids, chat.prompt_ids, strict=True))
        return Ragged.from_rows((ids[example] for example in rows.ids), np.int64)

    def _chat(self, source: Source, spec: ModelSpec) -> dict[str, str | None]:
        """What enters a key beside the rows where a model reads the prompts through its chat template."""
        if not spec.chat_template:
            return {}
        return {"chat": source.chat.content if source.chat is not None else None}

    def _model(self, need: Need) -> ModelSpec:
        spec = self.settings.model if need.by == "model" else self.settings.scorer
        if spec is None:
            raise UndefinedMetric(f"needs {need.kind} by the {need.by}: set {need.by}=…")
        return spec

    def _id(self, spec: ModelSpec | EmbedderSpec) -> str | None:
        """Digest of what makes two models the same one; None if a plan finds it missing."""
        identity = self.steps.ask(spec.identity)
        return digest(identity) if identity else None

    def _step(
        self,
        stage: str,
        source: Source,
        need: Need,
        spec: Mapping[str, Any],
        inputs: Mapping[str, str | None],
        build: Callable[[Path], Mapping[str, Any]],
    ) -> Entry | None:
        what = f"{source.system} {need.scope}" if need.kind != "next_token" else source.system
        return self.steps.step(stage, what, 1, spec, {"rows": source.digest, **inputs}, build)

    def _progress(self, title: str, total: int) -> Any:  # noqa: ANN401
        return progress(title, total, unit="texts", enabled=self.settings.runtime.progress)


def _own_tokens(source: Source, need: Need) -> Ragged:
    rows = Rows(source.path)
    if need.scope == "continuation":
        return rows.token_ids
    return join_ragged(rows.prompt_ids, rows.token_ids)


def _label(need: Need) -> str:
    return f"{need.kind}:{need.by}:{need.scope}:{digest(list(need.options))[:8]}"


def _path(entry: Entry | None) -> Path:
    if entry is None:
        raise SpecError("a feature was not made yet")
    return entry.path
