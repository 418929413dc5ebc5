"""Run one model over one source of texts.

Keys and the store are handled by `Featurizer`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openended.harness.core import I64, Ragged, Runtime, Scope, SpecError, show_progress
from openended.harness.decoders import QDecoder
from openended.harness.models import (
    BackendSpec,
    EmbedderSpec,
    EmbeddingRequest,
    GradientRequest,
    ModelSpec,
    QStatisticsRequest,
    ScoringRequest,
    TextVectors,
    embed_texts,
    number_words,
    split_columns,
    tokenize_pairs,
    tokenize_texts,
    tokenizer_digest,
)
from openended.harness.run import artifact_files as stages
from openended.harness.run.artifacts import Build, TextRows
from openended.harness.run.features.scoring_options import ScoringOptions
from openended.harness.run.session import Session
from openended.harness.storage import RowFile, join_ragged

if TYPE_CHECKING:
    from openended.harness.models import Backend, LanguageModel


# Rows of a pass on a CPU, whatever `runtime.feature_batch_size` says: matrix products of other sizes round differently
# (2e-8), which would change the features and every key after them. Equal to the option's default.
CPU_ROWS = 64


class ModelPasses:
    """Passes the models of a run over its sources."""

    def __init__(self, runtime: Runtime, session: Session) -> None:
        self.runtime = runtime
        self.session = session

    def words(self, source: TextRows, scope: Scope) -> Ragged:
        """Return ids of whitespace words."""
        return number_words(iterate_texts(source, scope))

    def tokens(self, spec: ModelSpec, source: TextRows, score_options: ScoringOptions) -> Ragged:
        """Return token ids under a model's tokenizer."""
        tokenizer = self.session.tokenizer(spec)
        if score_options.scope == "continuation":
            return tokenize_pairs(
                tokenizer, RowFile(source.path).prompts, _read_texts(source, score_options, tokenizer)
            )[1]
        return tokenize_texts(tokenizer, iterate_texts(source, score_options.scope))

    def end_tokens(self, spec: ModelSpec) -> I64:
        """Return the ids that end a text under a model's tokenizer."""
        tokenizer: Any = self.session.tokenizer(spec)
        return np.array(tokenizer.eos_ids, dtype=np.int64)

    def score_and_embed(
        self,
        spec: BackendSpec,
        embedder: EmbedderSpec | None,
        source: TextRows,
        score_options: ScoringOptions,
        requested: Sequence[str],
    ) -> list[Build]:
        """Score, rank tokens and, if `embedder` is the same model, embed: what is requested, in one pass."""
        if embedder is not None and list(requested) == ["embed"]:
            return self.embed([embedder], source, "prompt_and_continuation", [0])
        lm = self.session.model(spec, self.runtime)
        prompts, texts = self._read_ids(source, spec, score_options)
        whole, batch, ranks = (
            score_options.scope == "prompt_and_continuation",
            self._choose_batch_size(lm),
            "rank" in requested,
        )
        builds: dict[str, Build] = {}
        with self._show_progress(f"score {source.title}", len(texts)) as advance:
            if embedder is not None and "embed" in requested:
                both = EmbeddingRequest(prompts=prompts, continuations=texts, embedder=embedder, batch_size=batch)
                vectors, scores = lm.embed_and_score(both, include_prompt=whole, ranks=ranks, advance=advance)
                builds["embed"] = _make_saver(vectors, lm)
            else:
                request = ScoringRequest(
                    prompts=prompts, continuations=texts, include_prompt=whole, bos=score_options.bos, ranks=ranks,
                    window=score_options.window, stride=score_options.stride, batch_size=batch,
                )  # fmt: skip
                scores = lm.score(request, advance)
        nll, rank = split_columns(scores)
        builds |= {"score": partial(_save_ragged, nll, lm), "rank": partial(_save_ragged, rank, lm)}
        return [builds[name] for name in requested]

    def sketch_gradients(
        self, spec: BackendSpec, source: TextRows, score_options: ScoringOptions, size: int, folder: Path
    ) -> Mapping[str, Any]:
        """Write a sketch of the gradient of each text's loss."""
        lm = self.session.model(spec, self.runtime)
        prompts, texts = self._read_ids(source, spec, score_options)
        with self._show_progress(f"gradients of {source.title}", len(texts)) as advance:
            request = GradientRequest(prompts=prompts, continuations=texts, size=size)
            sketches = lm.sketch_gradients(request, advance)
        stages.save_array(folder / stages.VECTORS, sketches)
        return {"n": len(sketches), "d": size, "device": str(lm.device), **lm.provenance()}

    def embed(
        self, specs: Sequence[EmbedderSpec], source: TextRows, scope: Scope, indices: Sequence[int]
    ) -> list[Build]:
        """Embed at the maximum lengths of `specs`, which differ in nothing else; in one pass where the model can."""
        spec = specs[0]
        model = self.session.embedder(spec, self.runtime)
        batch = self._choose_batch_size(model)
        with self._show_progress(f"embed {source.title}", len(RowFile(source.path))) as advance:
            if spec.kind == "sentence":
                return [_make_saver(embed_texts(model, spec, load_texts(source, scope), batch_size=batch), model)]
            prompts, texts = self._read_ids(source, spec.model_spec(), ScoringOptions(scope=scope))
            if scope == "continuation":
                prompts = Ragged(prompts.values[:0], np.zeros_like(prompts.offsets))
            request = EmbeddingRequest(prompts=prompts, continuations=texts, embedder=spec, batch_size=batch)
            embedded = model.embed(request, advance)
        return [_make_saver(embedded[specs[i].max_length], model) for i in indices]

    def read_q(
        self, folder: Path, spec: BackendSpec, decoder: QDecoder, source: TextRows, min_new_tokens: int
    ) -> Mapping[str, Any]:
        """Write the statistics of a decoder's Q on a source."""
        lm = self.session.model(spec, self.runtime)
        rows = RowFile(source.path)
        with self._show_progress(f"read Q on {source.title}", len(rows)) as advance:
            request = QStatisticsRequest(
                prompts=_read_prompt_ids(source, spec), continuations=rows.token_ids, decoders=[decoder],
                min_new_tokens=min_new_tokens, batch_size=self._choose_batch_size(lm),
            )  # fmt: skip
            (stats,) = lm.q_statistics(request, advance)
        return {**stages.save_next_token(folder, stats), "device": str(lm.device), **lm.provenance()}

    def _choose_batch_size(self, model: Any) -> int:  # noqa: ANN401 - a language model or a sentence encoder
        return CPU_ROWS if model.device.type == "cpu" else self.runtime.feature_batch_size

    def _read_ids(self, source: TextRows, spec: BackendSpec, score_options: ScoringOptions) -> tuple[Ragged, Ragged]:
        """Read token ids of prompts and continuations under a model's tokenizer; stored ids if it is the same one."""
        rows, tokenizer_spec = RowFile(source.path), spec.tokenizer_spec()
        if tokenizer_spec is None:
            raise SpecError(f"model {spec.title}: it has no tokenizer to score with")
        if source.tokenizer == tokenizer_digest(tokenizer_spec) and not score_options.tokenizes_again:
            return _read_prompt_ids(source, spec), rows.token_ids
        tokenizer = self.session.tokenizer(tokenizer_spec)
        return tokenize_pairs(tokenizer, rows.prompts, _read_texts(source, score_options, tokenizer))

    def _show_progress(self, title: str, total: int) -> Any:  # noqa: ANN401 - a context manager
        return show_progress(title, total, unit="texts", enabled=self.runtime.progress)


def load_texts(source: TextRows, scope: Scope) -> list[str]:
    """Return a source's texts, with prompts if the scope includes them."""
    return list(iterate_texts(source, scope))


def iterate_texts(source: TextRows, scope: Scope) -> Iterator[str]:
    """Yield the texts of `load_texts`, with a bounded number of them in memory."""
    rows = RowFile(source.path)
    if scope == "continuation":
        return rows.each("text")
    return (a + b for a, b in zip(rows.each("prompt"), rows.each("text"), strict=True))


def load_row_tokens(source: TextRows, scope: Scope) -> Ragged:
    """Return the token ids that a source's rows hold."""
    rows = RowFile(source.path)
    return rows.token_ids if scope == "continuation" else join_ragged(rows.prompt_ids, rows.token_ids)


def _read_texts(source: TextRows, score_options: ScoringOptions, tokenizer: Any) -> Iterator[str]:  # noqa: ANN401 - a `TextTokenizer`
    """Yield the continuations, without end tokens and outer white space if the options say so."""
    texts = RowFile(source.path).each("text")
    if not score_options.without_end:
        return iter(texts)
    ends = [tokenizer.decode([end]) for end in tokenizer.eos_ids]
    return (_remove(text, ends) for text in texts)


def _remove(text: str, ends: Sequence[str]) -> str:
    for end in ends:
        text = text.replace(end, "")
    return text.strip()


def _read_prompt_ids(source: TextRows, spec: BackendSpec) -> Ragged:
    """Read prompt ids as the model sees them: through its chat template if it has one and is the model under test."""
    rows = RowFile(source.path)
    if not spec.chat_template:
        return rows.prompt_ids
    if source.chat is None:
        raise SpecError("the prompts of the chat template were not made yet")
    chat = RowFile(source.chat.path / stages.CHAT)
    ids = dict(zip(chat.ids, chat.prompt_ids, strict=True))
    return Ragged.from_rows((ids[example] for example in rows.ids), np.int64)


def _save_ragged(scores: Ragged, model: Backend, folder: Path) -> Mapping[str, Any]:
    stages.save_ragged(folder, scores)
    return {"n": len(scores), "tokens": len(scores.values), "device": str(model.device), **model.provenance()}


def _make_saver(embedded: TextVectors, model: LanguageModel | Backend) -> Build:
    return partial(_save, embedded=embedded, device=str(model.device))


def _save(folder: Path, embedded: TextVectors, device: str) -> Mapping[str, Any]:
    return {**stages.save_embedded(folder, embedded), "device": device}
