"""Build the texts of a naive system as the system under test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from openended.harness.core import SpecError
from openended.harness.imported import NaiveSystem, NaiveTexts
from openended.harness.run import artifact_files as stages
from openended.harness.run.artifacts import ArtifactBuilder, ArtifactRequest, TextRows
from openended.harness.run.dataset import Dataset, load_tokenizer_of
from openended.harness.run.resolve import GenerationPart
from openended.harness.storage import RowFile, write_rows

VERSION = 1  # increased when the texts of a naive system change; enters their keys
UNIT = {True: "tokens", False: "words"}


def make_naive_texts(part: GenerationPart, system: NaiveSystem, builder: ArtifactBuilder, dataset: Dataset) -> TextRows:
    """Build or plan the texts of a naive system, one for each example."""
    human = dataset.human

    def write(folder: Path) -> Mapping[str, Any]:
        tokenizer = load_tokenizer_of(builder, dataset.data.tokenizer_spec)
        rows, spare = RowFile(dataset.human_rows.path), RowFile(dataset.spare_rows.path)
        if not len(spare):
            raise SpecError(
                f"generations={part.file}: naive systems learn from human texts that are not compared, and task "
                f"{dataset.data.task.name} has none left; set a smaller num_examples"
            )
        if tokenizer is not None:
            training: Sequence[Sequence[int]] = [ids.tolist() for ids in spare.token_ids if len(ids)]
            lengths, words = rows.token_ids.lengths.tolist(), list[str]()
        else:
            numbers: dict[str, int] = {}
            training = [[numbers.setdefault(w, len(numbers)) for w in text.split()] for text in spare.each("text")]
            lengths, words = [len(text.split()) for text in rows.each("text")], list(numbers)
        texts = NaiveTexts(system, training, part.seed, tokenizer, words)
        count = write_rows(folder / stages.DATA, texts.rows(list(rows), lengths))
        unit = UNIT[tokenizer is not None]
        note = f"{part.file}: no model; learned from {len(training)} human texts that are not compared"
        return {"n": count, "notes": [f"{note}; texts have at most as many {unit} as the human texts"]}

    spec = {"naive": [system.kind, system.number], "seed": part.seed, "version": VERSION}
    inputs = {"human": human.content if human is not None else None, "tokenizer": dataset.tokenizer}
    count = dataset.data.num_planned
    rows = TextRows(
        "model", None, stages.DATA, dataset.tokenizer, None,
        num_texts=count, num_tokens=count * (part.max_new_tokens or 0),
    )  # fmt: skip
    request = ArtifactRequest("import", str(part.file), spec, inputs, rows.workload())
    return replace(rows, entry=builder.build(request, write))
