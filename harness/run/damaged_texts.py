"""Build damaged human texts as the system under test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from openended.harness.core import SpecError, Tokenizer
from openended.harness.imported import Damage, HumanTexts, damage_texts, digest_source
from openended.harness.models import cut_continuation, tokenize_continuation
from openended.harness.run import artifact_files as stages
from openended.harness.run.artifacts import ArtifactBuilder, ArtifactRequest, TextRows
from openended.harness.run.dataset import Dataset, load_tokenizer_of
from openended.harness.run.resolve import GenerationPart
from openended.harness.storage import Row, RowFile, write_rows

VERSION = 1  # increased when damaged texts change; enters their keys
UNCUT = ("longer", "none")


def make_damaged_texts(part: GenerationPart, damage: Damage, builder: ArtifactBuilder, dataset: Dataset) -> TextRows:
    """Build or plan damaged human texts: those that are not compared, with their prompts."""
    human, length = dataset.human, part.max_new_tokens

    def write(folder: Path) -> Mapping[str, Any]:
        tokenizer = load_tokenizer_of(builder, dataset.data.tokenizer_spec)
        rows = list(RowFile(dataset.spare_rows.path))
        needed = len(RowFile(dataset.human_rows.path))
        if len(rows) < needed:
            raise SpecError(
                f"generations={part.file}: needs as many human texts as are compared, {needed}; task "
                f"{dataset.data.task.name} has {len(rows)} more: set num_examples={(needed + len(rows)) // 2}"
            )
        texts = HumanTexts(
            [row.generation.example_id for row in rows], [row.prompt for row in rows], [r.generation.text for r in rows]
        )
        damaged = damage_texts(damage, texts, part.seed)
        most = None if damage.kind in UNCUT else length
        count = write_rows(folder / stages.DATA, _make_rows(rows, damaged, tokenizer, most))
        return {"n": count, "notes": [f"{part.file}: human texts that are not compared, damaged"]}

    spec = {"damage": [damage.kind, damage.percent], "seed": part.seed, "version": VERSION, "max_new_tokens": length}
    inputs = {"human": human.content if human is not None else None, "tokenizer": dataset.tokenizer}
    inputs |= {"source": source} if (source := digest_source(damage)) else {}
    count = dataset.data.num_planned
    planned = TextRows(
        "model", None, stages.DATA, dataset.tokenizer, None, num_texts=count, num_tokens=count * (length or 0)
    )
    request = ArtifactRequest("import", str(part.file), spec, inputs, planned.workload())
    return replace(planned, entry=builder.build(request, write))


def _make_rows(
    rows: list[Row], damaged: list[str], tokenizer: Tokenizer | None, max_new_tokens: int | None
) -> Iterator[Row]:
    """Yield the rows with their damaged texts, cut as generated ones; an undamaged row stays as it is."""
    for row, text in zip(rows, damaged, strict=True):
        if text == row.generation.text:
            yield row
            continue
        ids: tuple[int, ...] = ()
        if tokenizer is not None:
            ids = tuple(tokenize_continuation(tokenizer, row.prompt, row.prompt_ids, text))
        text, ids, cut = cut_continuation(tokenizer, row.prompt_ids, text, ids, max_new_tokens)
        generation = replace(row.generation, text=text, token_ids=ids, stop="length" if cut else "eos")
        yield replace(row, generation=generation)
