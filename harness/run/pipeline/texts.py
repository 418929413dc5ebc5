"""The texts of a run: the human side, and those of the system under test."""

from __future__ import annotations

import math
from dataclasses import dataclass

from openended.harness.core import Ragged
from openended.harness.decoders import Decoder
from openended.harness.imported import parse_damage, parse_naive_system
from openended.harness.run.artifacts import ArtifactBuilder, TextRows
from openended.harness.run.damaged_texts import make_damaged_texts
from openended.harness.run.dataset import Dataset, fetch_task, load_dataset
from openended.harness.run.features import FOR_DECODER, Featurizer
from openended.harness.run.generate import check_model, generate, import_generations
from openended.harness.run.naive_texts import make_naive_texts
from openended.harness.run.pipeline.check_metrics import (
    check_extras,
    check_judgments,
    check_scoring_models,
    check_sizes,
)
from openended.harness.run.pipeline.measure import list_text_needs
from openended.harness.run.resolve import ResolvedRun


@dataclass(frozen=True, slots=True)
class RunTexts:
    """The texts of a run; entries are None while they are only planned."""

    run: ResolvedRun
    dataset: Dataset
    model_rows: TextRows
    decoder: Decoder | None
    """Resolved: nothing left to be measured."""
    featurizer: Featurizer
    """Has what the decoder needed of the human side; makes the rest."""

    @property
    def human_rows(self) -> TextRows:
        """The human side."""
        return self.dataset.human_rows

    def explain_no_ceiling(self) -> str:
        """Say why there is no human ceiling; empty where there is one."""
        entry = self.model_rows.entry
        return self.dataset.explain_no_ceiling(int(entry.meta["n"]) if entry is not None else self.run.data.num_spare)


def make_texts(run: ResolvedRun, builder: ArtifactBuilder) -> RunTexts:
    """Make or plan the rows of both sides."""
    check_judgments(run.metrics)
    check_extras(run)
    fingerprint = fetch_task(run.data.task, builder)
    check_model(run.generation, builder)
    check_scoring_models(run, builder)
    dataset = load_dataset(run.data, fingerprint, builder)
    check_sizes(run, dataset)
    runtime = run.runtime.options
    featurizer = Featurizer(run.scoring, run.generation, runtime, builder)
    if run.generation.file is not None:
        naive, damage = parse_naive_system(run.generation.file), parse_damage(run.generation.file)
        if damage is not None:
            rows = make_damaged_texts(run.generation, damage, builder, dataset)
        elif naive is not None:
            rows = make_naive_texts(run.generation, naive, builder, dataset)
        else:
            rows = import_generations(run.generation, builder, dataset)
        return RunTexts(run, dataset, rows, None, featurizer)
    decoder = run.generation.decoder
    if decoder is not None and decoder.needs_human_ppl:
        decoder = resolve_human_perplexity(decoder, run, dataset.human_rows, featurizer)
    rows = generate(run.generation, runtime, builder, dataset, decoder)
    return RunTexts(run, dataset, rows, decoder, featurizer)


def resolve_human_perplexity(decoder: Decoder, run: ResolvedRun, human: TextRows, featurizer: Featurizer) -> Decoder:
    """Resolve a decoder that aims at the perplexity of the human side under the model; unchanged while planned.

    What the metrics read of the human side is made with it, so that no model passes over it twice.
    """
    scored = [n for m in run.metrics.specs for n in list_text_needs(m) if n.kind in ("token_nll", "embeddings")]
    alike = [need for need in scored if need.by != "model"] if run.data.task.has_human() else []  # not under its Q
    featurizer.make([(human, (FOR_DECODER, *alike))], None)
    nll = featurizer.value(human, FOR_DECODER)
    if nll is None:
        return decoder
    return decoder.resolve(perplexity(nll))


def perplexity(nll: Ragged) -> float:
    """Return exp of the mean token NLL; 1 if there are no tokens."""
    return math.exp(float(nll.values.sum(dtype="float64")) / max(len(nll.values), 1))
