"""The texts of the system under test where no model generates: those of a file, naive systems, damaged human texts."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from openended.harness import imported
from openended.harness.core import DataError, SpecError, Tokenizer, digest
from openended.harness.models import cut_continuation, tokenize_continuation
from openended.harness.run.artifacts import ArtifactBuilder, TextRows, get_content
from openended.harness.run.dataset import Dataset, load_tokenizer_of
from openended.harness.run.generate import DATA, plan_model_rows
from openended.harness.run.settings import Settings
from openended.harness.storage import Row, RowFile, write_rows

NAIVE_VERSION = 1  # increased when the texts of a naive system change; enters their keys
DAMAGE_VERSION = 1  # increased when damaged texts change; enters their keys
_UNCUT = ("longer", "none")
_CHECKED_TEXTS = 20_000  # that a plan reads

MakeRows = Callable[[Tokenizer | None], tuple[Iterable[Row], str]]
"""Tokenizer of the rows → the rows, and a note for the reader of a table; imported rows have notes of their own."""


def import_generations(settings: Settings, builder: ArtifactBuilder, dataset: Dataset) -> TextRows:
    """Import or plan the texts that `generations` names, as the system under test."""
    name, length, seed = str(settings.generations), settings.max_new_tokens, settings.seed
    naive, damage = imported.parse_naive_system(name), imported.parse_damage(name)
    inputs: dict[str, str | None] = {"tokenizer": dataset.tokenizer}
    what = name
    make_rows: MakeRows = partial(_retrieve_texts, settings, dataset)
    spec: dict[str, Any]
    if damage is not None:
        make_rows = partial(_damage_texts, settings, damage, dataset)
        spec = {"damage": [damage.kind, damage.percent], "seed": seed, "version": DAMAGE_VERSION}
        spec["max_new_tokens"] = length
        if source := imported.digest_source(damage):
            inputs["source"] = source
    elif naive is not None and naive.kind == "retrieval":
        spec = {"naive": ["retrieval", None], "max_new_tokens": length, "version": NAIVE_VERSION}
        inputs["file"] = dataset.fingerprint
    elif naive is not None:
        make_rows = partial(_make_naive_texts, settings, naive, dataset)
        spec = {"naive": [naive.kind, naive.number], "seed": seed, "version": NAIVE_VERSION}
    else:
        what, spec, inputs["file"], make_rows = _plan_file(settings, builder, dataset)
    if "names" not in spec:
        inputs["human"] = get_content(dataset.human)

    def write(folder: Path) -> Mapping[str, Any]:
        rows, note = make_rows(load_tokenizer_of(builder, settings.row_tokenizer))
        facts: dict[str, Any] = {"n": write_rows(folder / DATA, rows), "notes": [note]}
        if not note and isinstance(rows, imported.ImportedRows):
            facts["notes"] = rows.notes
            if rows.id_source:
                facts["ids"] = rows.id_source
        return facts

    planned = plan_model_rows(settings, dataset)
    return replace(planned, entry=builder.build(planned.plan_artifact("import", what, spec, inputs), write))


def check_user_files(settings: Settings, builder: ArtifactBuilder, dataset: Dataset) -> None:
    """Read the start of the user's own files for a plan: what is wrong in them is said before the run."""
    from openended.tasks._files import PublicFileTask, UserFileTask

    task, path = settings.task, Path(str(settings.generations))
    is_own = isinstance(task, UserFileTask) and not isinstance(task, PublicFileTask) and not task.needs_tokenizer()
    if dataset.fingerprint and dataset.examples is None and is_own:
        used = settings.num_planned + settings.num_model_texts or _CHECKED_TEXTS
        deque(islice(task.examples(None, Counter()), min(used, _CHECKED_TEXTS)), maxlen=0)
    if settings.generations is None or not task.paired or not path.is_file():
        return
    seen: set[tuple[object, ...]] = set()
    for text in islice(imported.read_generations(path, settings.generations_field), _CHECKED_TEXTS):
        key = (text.identity, text.sample, text.prompt)
        if text.identity is not None and key in seen:
            builder.session.warn_once(
                f"{text.where}: a second text for {text.identity!r}; a run of this example stops there: number several "
                "texts of one prompt by `sample`: 0, 1, …"
            )
        seen.add(key)


def _plan_file(
    settings: Settings, builder: ArtifactBuilder, dataset: Dataset
) -> tuple[str, dict[str, Any], str | None, MakeRows]:
    """Return name, spec, digest and import of the texts of a file, or of a system that the task itself holds."""
    from openended.tasks.download import find_generations

    name, length, field = str(settings.generations), settings.max_new_tokens, settings.generations_field
    task, most = settings.task, None if settings.num_examples == "all" else settings.num_examples
    load_system = task.open_bundled_system(name)
    source = None if load_system else builder.try_or_note(lambda: find_generations(name, planning=builder.plan_only))
    path = source or Path(name)
    if load_system is not None:
        file = digest([dataset.fingerprint, name]) if dataset.fingerprint else None
    else:
        file = builder.try_or_note(lambda: imported.compute_fingerprint(path)) if source else None
    is_unpaired = not task.paired and load_system is None

    def make_rows(tokenizer: Tokenizer | None) -> tuple[Iterable[Row], str]:
        if load_system is not None:
            return imported.import_texts(load_system(), name, dataset.prompts, tokenizer, length), ""
        if is_unpaired:
            numbered = f"{task.name}/{{:06d}}".format
            return imported.import_unpaired(path, numbered, tokenizer, length, count=most, field=field), ""
        return imported.import_rows(path, dataset.prompts, tokenizer, length, field), ""

    spec: dict[str, Any] = {"max_new_tokens": length} | ({"field": field} if field else {})
    if source is not None and file is not None and (file_format := imported.recognize_format(path)):
        spec["format"] = file_format
    if is_unpaired:
        spec |= {"count": most, "names": task.name}
    return path.name, spec, file, make_rows


def _make_naive_texts(
    settings: Settings, system: imported.NaiveSystem, dataset: Dataset, tokenizer: Tokenizer | None
) -> tuple[Iterable[Row], str]:
    """Return the texts of a naive system, one for each example, from human texts that are not compared."""
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
    note = f"{settings.generations}: no model; learned from {len(training)} human texts that are not compared"
    return texts.rows(list(rows), lengths), f"{note}; texts have at most as many {unit} as the human texts"


def _retrieve_texts(settings: Settings, dataset: Dataset, tokenizer: Tokenizer | None) -> tuple[Iterable[Row], str]:
    """Return for each prompt the human text of the most similar other prompt of the task."""
    name, rows = str(settings.generations), RowFile(dataset.human_rows.path)
    compared = set(rows.ids)
    rest = [e for e in settings.task.examples(tokenizer, Counter()) if e.id not in compared and e.prompt.strip()]
    if not rest:
        raise SpecError(f"generations={name}: needs prompts that are not compared; set a smaller num_examples")
    nearest = imported.find_nearest_prompts(rows.prompts, [e.prompt for e in rest])
    texts_by_id = {example: rest[i].human for example, i in zip(rows.ids, nearest, strict=True)}
    texts = imported.import_texts(texts_by_id, name, dataset.prompts, tokenizer, settings.max_new_tokens)
    return texts, f"{name}: no model; the human text of the most similar of {len(rest)} other prompts (BM25)"


def _damage_texts(
    settings: Settings, damage: imported.Damage, dataset: Dataset, tokenizer: Tokenizer | None
) -> tuple[Iterable[Row], str]:
    """Return damaged human texts: those that are not compared, with their prompts; cut as generated ones."""
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
    most = None if damage.kind in _UNCUT else settings.max_new_tokens

    def damage_rows() -> Iterator[Row]:
        for row, text in zip(rows, damaged, strict=True):
            if text == row.generation.text:
                yield row
                continue
            ids: tuple[int, ...] = ()
            if tokenizer is not None:
                ids = tuple(tokenize_continuation(tokenizer, row.prompt, row.prompt_ids, text))
            text, ids, cut = cut_continuation(tokenizer, row.prompt_ids, text, ids, most)
            generation = replace(row.generation, text=text, token_ids=ids, stop="length" if cut else "eos")
            yield replace(row, generation=generation)

    return damage_rows(), f"{settings.generations}: human texts that are not compared, damaged"


def digest_corpus(path: Path) -> str:
    """Return the digest of the file or folder that the user names for metrics of novelty."""
    if not path.exists():
        raise DataError(f"metric.novelty.corpus: no such file: {path}; expected references, or a file of texts")
    return imported.compute_fingerprint(path)


def load_corpus(path: Path) -> list[str]:
    """Return the texts of that file, in its order."""
    return [text.text or "" for text in imported.read_generations(path)]
