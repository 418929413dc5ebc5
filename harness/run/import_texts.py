"""The texts of the system under test where no model generates: those of a file, naive systems, damaged human texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from openended.harness import imported
from openended.harness.core import DataError, SpecError, Tokenizer, digest
from openended.harness.models import cut_continuation, tokenize_continuation
from openended.harness.run.artifacts import ArtifactBuilder, Build, TextRows, get_content
from openended.harness.run.dataset import Dataset, load_tokenizer_of
from openended.harness.run.generate import DATA, plan_model_rows
from openended.harness.run.settings import Settings
from openended.harness.storage import Row, RowFile, write_rows

NAIVE_VERSION = 1  # increased when the texts of a naive system change; enters their keys
DAMAGE_VERSION = 1  # increased when damaged texts change; enters their keys
_UNCUT = ("longer", "none")


def import_generations(settings: Settings, builder: ArtifactBuilder, dataset: Dataset) -> TextRows:
    """Import or plan the texts that `generations` names, as the system under test."""
    name = str(settings.generations)
    naive, damage = imported.parse_naive_system(name), imported.parse_damage(name)
    inputs: dict[str, str | None] = {"tokenizer": dataset.tokenizer}
    if damage is not None:
        what, (spec, write) = name, _plan_damaged_texts(settings, damage, builder, dataset)
        if source := imported.digest_source(damage):
            inputs["source"] = source
    elif naive is not None and naive.kind == "retrieval":
        what, (spec, write) = name, _plan_retrieved_texts(settings, builder, dataset)
        inputs["file"] = dataset.fingerprint
    elif naive is not None:
        what, (spec, write) = name, _plan_naive_texts(settings, naive, builder, dataset)
    else:
        what, spec, inputs["file"], write = _plan_file(settings, builder, dataset)
    if "names" not in spec:
        inputs["human"] = get_content(dataset.human)
    rows = plan_model_rows(settings, dataset)
    return replace(rows, entry=builder.build(rows.plan_artifact("import", what, spec, inputs), write))


def _plan_file(
    settings: Settings, builder: ArtifactBuilder, dataset: Dataset
) -> tuple[str, dict[str, Any], str | None, Build]:
    """Return name, spec, digest and import of the texts of a file, or of a system that the task itself holds."""
    from openended.tasks.published_generations import find_generations

    name, length, field = str(settings.generations), settings.max_new_tokens, settings.generations_field
    task, most = settings.task, None if settings.num_examples == "all" else settings.num_examples
    load_system = task.open_bundled_system(name)
    source = None if load_system else builder.try_or_note(lambda: find_generations(name, fetch=not builder.plan_only))
    path = source or Path(name)
    if load_system is not None:
        file = digest([dataset.fingerprint, name]) if dataset.fingerprint else None
    else:
        file = builder.try_or_note(lambda: imported.compute_fingerprint(path)) if source else None
    is_unpaired = not task.paired and load_system is None

    def write(folder: Path) -> Mapping[str, Any]:
        tokenizer = load_tokenizer_of(builder, settings.row_tokenizer)
        if load_system is not None:
            imported_rows = imported.import_texts(load_system(), name, dataset.prompts, tokenizer, length)
        elif is_unpaired:
            numbered = f"{task.name}/{{:06d}}".format
            imported_rows = imported.import_unpaired(path, numbered, tokenizer, length, count=most, field=field)
        else:
            imported_rows = imported.import_rows(path, dataset.prompts, tokenizer, length, field)
        count = write_rows(folder / DATA, imported_rows)
        ids = {"ids": imported_rows.id_source} if imported_rows.id_source else {}
        return {"n": count, "notes": imported_rows.notes, **ids}

    spec: dict[str, Any] = {"max_new_tokens": length} | ({"field": field} if field else {})
    if source is not None and file is not None and (file_format := imported.recognize_format(path)):
        spec["format"] = file_format
    if is_unpaired:
        spec |= {"count": most, "names": task.name}
    return path.name, spec, file, write


def _plan_naive_texts(
    settings: Settings, system: imported.NaiveSystem, builder: ArtifactBuilder, dataset: Dataset
) -> tuple[dict[str, Any], Build]:
    """Return the texts of a naive system, one for each example, from human texts that are not compared."""

    def write(folder: Path) -> Mapping[str, Any]:
        tokenizer = load_tokenizer_of(builder, settings.row_tokenizer)
        rows, spare = RowFile(dataset.human_rows.path), RowFile(dataset.spare_rows.path)
        if not len(spare):
            raise SpecError(
                f"generations={settings.generations}: naive systems learn from human texts that are not compared, and "
                f"task {settings.task.name} has none left; set num_examples={max(len(rows) // 2, 1)} or fewer"
            )
        if tokenizer is not None:
            training: Sequence[Sequence[int]] = [ids.tolist() for ids in spare.token_ids if len(ids)]
            lengths, words, unit = rows.token_ids.lengths.tolist(), list[str](), "tokens"
        else:
            numbers: dict[str, int] = {}
            training = [[numbers.setdefault(w, len(numbers)) for w in text.split()] for text in spare.each("text")]
            lengths, words, unit = [len(text.split()) for text in rows.each("text")], list(numbers), "words"
        texts = imported.NaiveTexts(system, training, settings.seed, tokenizer, words)
        count = write_rows(folder / DATA, texts.rows(list(rows), lengths))
        note = f"{settings.generations}: no model; learned from {len(training)} human texts that are not compared"
        return {"n": count, "notes": [f"{note}; texts have at most as many {unit} as the human texts"]}

    return {"naive": [system.kind, system.number], "seed": settings.seed, "version": NAIVE_VERSION}, write


def _plan_retrieved_texts(
    settings: Settings, builder: ArtifactBuilder, dataset: Dataset
) -> tuple[dict[str, Any], Build]:
    """Return for each prompt the human text of the most similar other prompt of the task."""
    name, length = str(settings.generations), settings.max_new_tokens

    def write(folder: Path) -> Mapping[str, Any]:
        tokenizer = load_tokenizer_of(builder, settings.row_tokenizer)
        rows = RowFile(dataset.human_rows.path)
        compared = set(rows.ids)
        rest = [e for e in settings.task.examples(tokenizer, Counter()) if e.id not in compared and e.prompt.strip()]
        if not rest:
            raise SpecError(f"generations={name}: needs prompts that are not compared; set a smaller num_examples")
        nearest = imported.find_nearest_prompts(rows.prompts, [e.prompt for e in rest])
        texts_by_id = {example: rest[i].human for example, i in zip(rows.ids, nearest, strict=True)}
        texts = imported.import_texts(texts_by_id, name, dataset.prompts, tokenizer, length)
        note = f"{name}: no model; the human text of the most similar of {len(rest)} other prompts (BM25)"
        return {"n": write_rows(folder / DATA, texts), "notes": [note]}

    return {"naive": ["retrieval", None], "max_new_tokens": length, "version": NAIVE_VERSION}, write


def _plan_damaged_texts(
    settings: Settings, damage: imported.Damage, builder: ArtifactBuilder, dataset: Dataset
) -> tuple[dict[str, Any], Build]:
    """Return damaged human texts: those that are not compared, with their prompts."""
    length = settings.max_new_tokens

    def write(folder: Path) -> Mapping[str, Any]:
        tokenizer = load_tokenizer_of(builder, settings.row_tokenizer)
        rows = list(RowFile(dataset.spare_rows.path))
        needed = len(RowFile(dataset.human_rows.path))
        if len(rows) < needed:
            raise SpecError(
                f"generations={settings.generations}: needs as many human texts as are compared, {needed}; task "
                f"{settings.task.name} has {len(rows)} more: set num_examples={(needed + len(rows)) // 2}"
            )
        texts = imported.HumanTexts(
            [row.generation.example_id for row in rows], [row.prompt for row in rows], [r.generation.text for r in rows]
        )
        damaged = imported.damage_texts(damage, texts, settings.seed)
        most = None if damage.kind in _UNCUT else length
        count = write_rows(folder / DATA, _make_damaged_rows(rows, damaged, tokenizer, most))
        return {"n": count, "notes": [f"{settings.generations}: human texts that are not compared, damaged"]}

    changes = {"damage": [damage.kind, damage.percent], "seed": settings.seed, "version": DAMAGE_VERSION}
    return {**changes, "max_new_tokens": length}, write


def _make_damaged_rows(
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


def digest_corpus(path: Path) -> str:
    """Return the digest of the file or folder that the user names for metrics of novelty."""
    if not path.exists():
        raise DataError(f"metric.novelty.corpus: no such file: {path}; expected references, or a file of texts")
    return imported.compute_fingerprint(path)


def load_corpus(path: Path) -> list[str]:
    """Return the texts of that file, in its order."""
    return [text.text or "" for text in imported.read_generations(path)]
