"""What tokenizers and models compute over a system's rows: token ids, scores, vectors, gradients, statistics of Q."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from openended.harness import core, models, storage
from openended.harness.decoders import QDecoder
from openended.harness.run.dataset import CHAT
from openended.harness.run.session import Session
from openended.harness.run.steps import Build, Step, TextRows
from openended.harness.storage import RowFile

# Most rows of a batch on a CPU, whatever `runtime.feature_batch_size` says: where layers are not packed, products of
# other sizes round differently (2e-8), which would change the features and every key after them.
CPU_ROWS = 64


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


def has_ids_for(source: TextRows, spec: models.ModelSpec | None, options: ScoringOptions) -> bool:
    """Return whether the ids that the rows hold are those that a model reads; else it tokenizes the texts."""
    if spec is None or options.tokenizes_again:
        return False
    try:
        return source.tokenizer == models.digest_encoding(spec)
    except core.DataError:  # no tokenizer; the step that needs it says so
        return False


@dataclass(frozen=True, slots=True)
class ModelPasses:
    """Passes of tokenizers and models over the rows of a system."""

    session: Session
    runtime: core.Runtime

    def write_tokens(
        self, spec: models.ModelSpec, source: TextRows, options: ScoringOptions, folder: Path
    ) -> Mapping[str, Any]:
        """Write token ids under a model's tokenizer."""
        storage.save_ragged(folder, self.tokenize(spec, source, options))
        return {}

    def tokenize(self, spec: models.ModelSpec, source: TextRows, options: ScoringOptions) -> core.Ragged:
        """Return token ids under a model's tokenizer."""
        tokenizer = self.session.tokenizer(spec)
        if options.scope != "continuation":
            return models.tokenize_texts(tokenizer, source.iterate_texts(options.scope))
        texts = _read_texts(source, options, tokenizer)
        return models.tokenize_pairs(tokenizer, RowFile(source.path).prompts, texts)[1]

    def score_and_embed(
        self, spec: models.BackendSpec, embedder: models.EmbedderSpec | None, source: TextRows, options: ScoringOptions,
        steps: Sequence[Step],
    ) -> list[Build]:  # fmt: skip
        """Make steps of the stages `score`, `rank` and `embed` in one pass; `embedder` is the scorer's model."""
        requested = [step.stage for step in steps]
        if embedder is not None and requested == ["embed"]:
            return self.embed([embedder], source, "prompt_and_continuation", {steps[0]: embedder.max_length})
        lm = self.session.model(spec, self.runtime)
        read = partial(self._read_ids, spec=spec, options=options)
        prompts, texts = read(source)
        whole, batch = options.scope == "prompt_and_continuation", self._choose_batch_size(lm)
        ranks = "rank" in requested
        earlier = [
            models.EarlierPass(*read(other), scores=_load_scores(entries), vectors=_load_vectors(entries))
            for other, entries in self._find_earlier_passes(source, steps if "score" in requested else ())
        ]
        builds: dict[str, Build] = {}
        with self._show_progress(f"score {source.title}", texts) as advance:
            if embedder is not None and "embed" in requested:
                both = models.EmbeddingRequest(
                    prompts=prompts, continuations=texts, embedder=embedder, include_prompt=whole, ranks=ranks,
                    batch_size=batch, earlier=earlier,
                )  # fmt: skip
                vectors, scores = lm.embed_and_score(both, advance)
                builds["embed"] = partial(_save_vectors, vectors, lm)
            else:
                request = models.ScoringRequest(
                    prompts=prompts, continuations=texts, include_prompt=whole, bos=options.bos, ranks=ranks,
                    window=options.window, stride=options.stride, batch_size=batch, earlier=earlier,
                )  # fmt: skip
                scores = lm.score(request, advance)
        nll, rank = models.split_columns(scores)
        builds |= {"score": partial(_save_scores, nll, lm), "rank": partial(_save_scores, rank, lm)}
        return [builds[name] for name in requested]

    def sketch_gradients(
        self, spec: models.BackendSpec, source: TextRows, options: ScoringOptions, size: int, folder: Path
    ) -> Mapping[str, Any]:
        """Write a sketch of the gradient of each text's loss."""
        lm = self.session.model(spec, self.runtime)
        prompts, texts = self._read_ids(source, spec, options)
        with self._show_progress(f"gradients of {source.title}", texts) as advance:
            request = models.GradientRequest(prompts=prompts, continuations=texts, size=size)
            sketches = lm.sketch_gradients(request, advance)
        storage.save_array(folder / storage.VECTORS, sketches)
        return {"n": len(sketches), "d": size, "device": str(lm.device), **lm.provenance()}

    def embed(
        self, specs: Sequence[models.EmbedderSpec], source: TextRows, scope: core.Scope,
        lengths: Mapping[Step, int | None],
    ) -> list[Build]:  # fmt: skip
        """Make steps that embed at maximum lengths, in one pass where the model can; `specs` are of all its lengths."""
        spec = specs[0]
        model = self.session.embedder(spec, self.runtime)
        batch = self._choose_batch_size(model)
        with self._show_progress(f"embed {source.title}", RowFile(source.path).token_ids) as advance:
            if spec.reading.kind == "sentence":
                embedded = models.embed_texts(model, spec, list(source.iterate_texts(scope)), batch_size=batch)
                return [partial(_save_vectors, embedded, model)]

            def read(source: TextRows) -> tuple[core.Ragged, core.Ragged]:
                prompts, texts = self._read_ids(source, spec.model_spec(), ScoringOptions(scope=scope))
                if scope == "continuation":
                    prompts = core.Ragged(prompts.values[:0], np.zeros_like(prompts.offsets))
                return prompts, texts

            prompts, texts = read(source)
            earlier = [
                models.EarlierPass(*read(other), vectors=_load_vectors(entries))
                for other, entries in self._find_earlier_passes(source, list(lengths) if len(specs) == 1 else ())
            ]
            request = models.EmbeddingRequest(
                prompts=prompts, continuations=texts, embedder=spec, batch_size=batch, earlier=earlier
            )
            by_length = model.embed(request, advance)
        return [partial(_save_vectors, by_length[length], model) for length in lengths.values()]

    def read_q(
        self, spec: models.BackendSpec, decoder: QDecoder, source: TextRows, min_new_tokens: int, folder: Path
    ) -> Mapping[str, Any]:
        """Write the statistics of a decoder's Q on a source."""
        stats, facts = self._force(spec, decoder, source, min_new_tokens, entropy=False)
        return {**storage.save_next_token(folder, stats), **facts}

    def write_entropy(
        self, spec: models.BackendSpec, decoder: QDecoder, source: TextRows, min_new_tokens: int, folder: Path
    ) -> Mapping[str, Any]:
        """Write the entropy of a decoder's Q at every token of a source."""
        stats, facts = self._force(spec, decoder, source, min_new_tokens, entropy=True)
        storage.save_ragged(folder, core.Ragged(np.asarray(stats.entropy), stats.offsets))
        return facts

    def _force(
        self, spec: models.BackendSpec, decoder: QDecoder, source: TextRows, min_new_tokens: int, *, entropy: bool
    ) -> tuple[core.NextToken, dict[str, Any]]:
        lm = self.session.model(spec, self.runtime)
        rows = RowFile(source.path)
        with self._show_progress(f"read Q on {source.title}", rows.token_ids) as advance:
            request = models.QStatisticsRequest(
                prompts=_read_prompt_ids(source, spec), continuations=rows.token_ids, decoders=[decoder],
                min_new_tokens=min_new_tokens, batch_size=self._choose_batch_size(lm), entropy=entropy,
            )  # fmt: skip
            (stats,) = lm.q_statistics(request, advance)
        return stats, {"device": str(lm.device), **lm.provenance()}

    def find_family(self, source: TextRows, step: Step) -> str | None:
        """Return a digest that a pass shares with those whose rows it can reuse; None where it can reuse none."""
        spec, texts, reading = step.model, source.step.recipe, step.recipe
        if not isinstance(spec, models.ModelSpec) or self.runtime.spread or texts is None or reading is None:
            return None
        if not (texts.extent or texts.stage == "human") or models.pick_device(self.runtime.device) != "cpu":
            return None
        texts = replace(texts, extent={}, inputs={**texts.inputs, "examples": ""})
        reading = replace(reading, inputs={**reading.inputs, "rows": source.file})
        here = storage.describe_environment()
        return core.digest([texts.key, reading.key, here["packages"], here["hardware"]["processor"]])

    def _find_earlier_passes(
        self, source: TextRows, steps: Sequence[Step]
    ) -> Iterator[tuple[TextRows, list[storage.Entry]]]:
        """Yield the texts of runs with other numbers of examples for which all of `steps` are in the store.

        Only on a CPU, and only what equal packages on an equal machine computed, so that the bits are those of a pass
        over all texts.
        """
        store, recipe = self.session.store, source.step.recipe
        if recipe is None or not steps or self.find_family(source, steps[0]) is None:
            return
        here: Any = core.make_shareable(core.to_json(storage.describe_environment()))
        has_extent = bool(recipe.extent)
        relatives = store.find_relatives(recipe) if has_extent else store.find_with_other_input(recipe, "examples")
        recipes = [step.recipe for step in steps if step.recipe is not None]
        for relative in relatives:
            if source.file not in relative.files or relative.key == recipe.key:
                continue
            rows = {"rows": relative.files[source.file]}
            matches = [store.find(replace(each, inputs={**each.inputs, **rows})) for each in recipes]
            entries = [entry for entry in matches if entry is not None]
            is_same_machine = all(e.maker.get(n) == here[n] for e in entries for n in ("packages", "hardware"))
            if len(entries) == len(steps) and is_same_machine:
                yield replace(source, step=replace(source.step, entry=relative)), entries

    def _choose_batch_size(self, model: Any) -> int:  # noqa: ANN401 - a language model or a sentence encoder
        return CPU_ROWS if model.device.type == "cpu" else self.runtime.feature_batch_size

    def _read_ids(
        self, source: TextRows, spec: models.BackendSpec, options: ScoringOptions
    ) -> tuple[core.Ragged, core.Ragged]:
        """Read token ids of prompts and continuations under a model's tokenizer; stored ids if it is the same one."""
        rows, tokenizer_spec = RowFile(source.path), spec.tokenizer_spec()
        if tokenizer_spec is None:
            raise core.SpecError(f"model {spec.title}: it has no tokenizer to score with")
        if has_ids_for(source, tokenizer_spec, options):
            return _read_prompt_ids(source, spec), rows.token_ids
        tokenizer = self.session.tokenizer(tokenizer_spec)
        return models.tokenize_pairs(tokenizer, rows.prompts, _read_texts(source, options, tokenizer))

    def _show_progress(self, title: str, texts: core.Ragged) -> Any:  # noqa: ANN401 - a context manager
        tokens = len(texts.values)
        return core.show_progress(title, len(texts), unit="texts", tokens=tokens, enabled=self.runtime.progress)


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
    if source.chat is None or source.chat.entry is None:
        raise core.SpecError("the prompts of the chat template were not made yet")
    chat = RowFile(source.chat.entry.path / CHAT)
    ids = dict(zip(chat.ids, chat.prompt_ids, strict=True))
    return core.Ragged.from_rows((ids[example] for example in rows.ids), np.int64)


def _load_scores(entries: Sequence[storage.Entry]) -> core.F64 | None:
    """Load losses, or losses and ranks, as a pass gives them; None where it gave vectors alone."""
    by_stage = {entry.stage: storage.load_ragged(entry.path).values for entry in entries if entry.stage != "embed"}
    columns = [by_stage[stage].astype(np.float64) for stage in ("score", "rank") if stage in by_stage]
    return np.stack(columns, axis=1) if len(columns) > 1 else columns[0] if columns else None


def _load_vectors(entries: Sequence[storage.Entry]) -> list[Any]:
    return [storage.load_vectors(entry.path) for entry in entries if entry.stage == "embed"]


def _save_scores(scores: core.Ragged, model: models.Backend, folder: Path) -> Mapping[str, Any]:
    storage.save_ragged(folder, scores)
    return {"n": len(scores), "tokens": len(scores.values), "device": str(model.device), **model.provenance()}


def _save_vectors(
    embedded: models.TextVectors, model: models.LanguageModel | models.Backend, folder: Path
) -> Mapping[str, Any]:
    vectors, truncated = embedded
    storage.save_array(folder / storage.VECTORS, vectors)
    return {"n": len(vectors), "d": int(vectors.shape[1]), "truncated": truncated, "device": str(model.device)}
