"""The first stage of a run: the task's examples, the human side, and the prompts as a chat model reads them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from openended.harness import models
from openended.harness.core import DataError, Example, Generation, SpecError, Stop, Task, Tokenizer, canonicalize
from openended.harness.run.artifacts import ArtifactBuilder, PlannedArtifact, Role, TextRows, get_content
from openended.harness.run.settings import Settings
from openended.harness.storage import Entry, Row, RowFile, read_examples, write_examples, write_in_order, write_rows

EXAMPLES, SPARE_EXAMPLES = "examples.arrow", "spare.arrow"
PROMPTS, HUMAN_ROWS, SPARE_ROWS = "prompts.arrow", "human.arrow", "more.arrow"
CHAT = "chat.arrow"
NO_TOKENIZER = "none"  # replaces a tokenizer's digest if the rows are stored as text only


@dataclass(frozen=True, slots=True)
class Dataset:
    """The examples of a run and the human side; entries are None while they are only planned."""

    fingerprint: str | None  # digest of the task's data; None where a plan finds it missing
    tokenizer: str | None  # `digest_encoding` of the rows' tokenizer, or `NO_TOKENIZER`; None where a plan finds none
    examples: Entry | None
    human: Entry | None
    chat: Entry | None
    """The prompts in the chat template of the model under test; None too where there is none to be used."""
    human_rows: TextRows  # the human side
    spare_rows: TextRows  # human texts of other prompts; they replace the system in the human ceiling
    other_rows: TextRows | None  # human texts beyond both (`human_examples`), for differences of systems

    def list_further_human(self) -> list[TextRows]:
        """List the human texts of other prompts that differences of systems rest on."""
        if self.other_rows is None:
            return []
        both = (self.spare_rows, self.other_rows)
        return [rows for rows in both if rows.entry is None or rows.entry.meta["more"]]

    @property
    def prompts(self) -> Path:
        """Where the prompts are."""
        return self.human_rows.path.with_name(PROMPTS)


def fetch_task(task: Task, builder: ArtifactBuilder) -> str | None:
    """Download what is missing of a task's data, unless planning; return its digest, None where a plan lacks it."""
    if not builder.plan_only:
        task.fetch()
    return builder.try_or_note(task.fingerprint)


def load_dataset(settings: Settings, fingerprint: str | None, builder: ArtifactBuilder) -> Dataset:
    """Build or plan the examples, the human side and the prompts in a chat template."""
    task, spec = settings.task, settings.row_tokenizer
    count, spare, length = settings.num_examples, settings.num_model_texts, settings.max_new_tokens
    tokenizer = builder.try_or_note(lambda: models.digest_encoding(spec)) if spec is not None else NO_TOKENIZER
    cuts = spec if task.needs_tokenizer() else None
    if task.needs_tokenizer() and cuts is None:
        raise SpecError(
            f"task {task.name} cuts prompts by tokens, and these texts come from a file: say whose tokens with "
            "scorer=gpt2-large (or scoring=gpt2-large: scorer and embedder)"
        )

    def write_task_examples(folder: Path) -> Mapping[str, Any]:
        most = None if count == "all" else count
        return make_examples(folder, task, load_tokenizer_of(builder, cuts), most, spare)

    def write_other_examples(folder: Path) -> Mapping[str, Any]:
        return make_examples(folder, task, load_tokenizer_of(builder, cuts), used, left, may_lack=True)

    source = {"source": fingerprint} | ({"tokenizer": tokenizer} if cuts is not None else {})
    spec_of_examples = {"task": canonicalize(task), "count": count, "more": spare}
    planned = PlannedArtifact("examples", task.name, spec_of_examples, source, "human")
    examples = builder.build(planned, write_task_examples)
    inputs = {"examples": get_content(examples), "tokenizer": tokenizer}

    def build_human(examples: Entry | None, what: str) -> Entry | None:
        def write(folder: Path) -> Mapping[str, Any]:
            return make_human(folder, _get_path(examples), load_tokenizer_of(builder, spec), length)

        of_examples = {**inputs, "examples": get_content(examples)}
        return builder.build(PlannedArtifact("human", what, {"max_new_tokens": length}, of_examples, "human"), write)

    human = build_human(examples, task.name)
    requested = settings.human_examples
    other = None
    if requested is not None and count != "all" and task.has_human():
        used = count + spare
        left = None if requested == "all" else max(requested - used, 0)
        what = f"{task.name} beyond the ceiling"
        spec_of_examples = {"task": canonicalize(task), "count": used, "more": "all" if left is None else left}
        planned = PlannedArtifact("examples", what, spec_of_examples, source, "human")
        other = TextRows("other human", build_human(builder.build(planned, write_other_examples), what), SPARE_ROWS,
                         tokenizer, num_texts=left or 0, num_tokens=(left or 0) * (length or 0))  # fmt: skip
    chat = _build_chat(settings.chat_model, builder, examples, inputs) if settings.chat_model is not None else None
    num_tokens = settings.num_planned * (length or 0)

    def plan_rows(role: Role, file: str, chat: Entry | None) -> TextRows:
        return TextRows(role, human, file, tokenizer, chat, num_texts=settings.num_planned, num_tokens=num_tokens)

    return Dataset(
        fingerprint, tokenizer, examples, human, chat,
        human_rows=plan_rows("human", HUMAN_ROWS, chat), spare_rows=plan_rows("more human", SPARE_ROWS, None),
        other_rows=other,
    )  # fmt: skip


def load_tokenizer_of(builder: ArtifactBuilder, spec: models.ModelSpec | None) -> Tokenizer | None:
    """Return a model's tokenizer, or None where the rows are texts alone."""
    return builder.session.tokenizer(spec) if spec is not None else None


def make_examples(
    folder: Path, task: Task, tokenizer: Tokenizer | None, count: int | None, spare: int | None, may_lack: bool = False
) -> Mapping[str, Any]:
    """Write `count` examples, and up to `spare` more; all where one is None; sorted by id."""
    skipped: Counter[str] = Counter()
    most = None if count is None or spare is None else count + spare
    ids: list[str] = []
    unsorted = folder / ".drawn.arrow"
    write_examples(unsorted, _check_examples(islice(task.examples(tokenizer, skipped), most), task, ids))
    count = max(len(ids), 1) if count is None else count
    count = min(count, len(ids)) if may_lack else count
    if len(ids) < count:
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in skipped.items())
        lost = f" (skipped: {reasons})" if skipped else ""
        advice = "set num_examples=all" if ids else "set options of the task that leave some"
        raise SpecError(
            f"num_examples: task {task.name} holds {len(ids)} examples, got num_examples={count}{lost}; {advice}"
        )
    repeated = [name for name, times in Counter(ids).items() if times > 1] if len(set(ids)) < len(ids) else []
    if repeated:
        raise DataError(f"task {task.name}: duplicate example id {repeated[0]!r}")
    for name, part in ((EXAMPLES, range(count)), (SPARE_EXAMPLES, range(count, len(ids)))):
        write_in_order(folder / name, [unsorted], sorted(part, key=ids.__getitem__))
    unsorted.unlink()
    return {"n": count, "spare": len(ids) - count, "skipped": dict(sorted(skipped.items()))}


def _check_examples(examples: Iterable[Example], task: Task, ids: list[str]) -> Iterator[Example]:
    """Yield checked examples and collect their ids."""
    for example in examples:
        if not isinstance(example, Example):
            raise DataError(f"task {task.name}: expected examples of the class Example, got {example!r:.80}")
        if task.has_human() and not example.human.strip():
            raise DataError(f"task {task.name}: example {example.id} has an empty human continuation")
        ids.append(example.id)
        yield example


def make_human(
    folder: Path, examples: Path, tokenizer: Tokenizer | None, max_new_tokens: int | None
) -> Mapping[str, Any]:
    """Write the prompts, and the human continuations cut to the length that the model may use."""

    def rows(file: Path) -> Iterator[Row]:
        return (build_human_row(e, tokenizer, max_new_tokens) for e in read_examples(file))

    count = write_rows(folder / HUMAN_ROWS, rows(examples / EXAMPLES))
    spare = write_rows(folder / SPARE_ROWS, rows(examples / SPARE_EXAMPLES))
    human_rows = RowFile(folder / HUMAN_ROWS)
    write_rows(
        folder / PROMPTS, (_make_prompt_row(r.generation.example_id, r.prompt, r.prompt_ids) for r in human_rows)
    )
    longest = int(human_rows.prompt_ids.lengths.max(initial=0))
    return {"n": count, "cut": int(human_rows.stops.sum()), "longest_prompt": longest, "more": spare}


def build_human_row(example: Example, tokenizer: Tokenizer | None, max_new_tokens: int | None) -> Row:
    """Tokenize an example's human side and cut it, by words without a tokenizer; `stop` is `length` if it was cut."""
    ids: tuple[int, ...] = ()
    prompt_ids: tuple[int, ...] = ()
    if tokenizer is not None:
        prompt_ids = tuple(tokenizer.encode(example.prompt))
        ids = tuple(models.tokenize_continuation(tokenizer, example.prompt, prompt_ids, example.human))
    text, ids, cut = models.cut_continuation(tokenizer, prompt_ids, example.human, ids, max_new_tokens)
    stop: Stop = "length" if cut else "eos"
    return Row(example.prompt, prompt_ids, Generation(example.id, 0, text, ids, stop, float("nan")))


def _make_prompt_row(example_id: str, prompt: str, prompt_ids: tuple[int, ...]) -> Row:
    return Row(prompt, prompt_ids, Generation(example_id, 0, "", (), "length", float("nan")))


def _build_chat(
    spec: models.ModelSpec, builder: ArtifactBuilder, examples: Entry | None, inputs: Mapping[str, str | None]
) -> Entry | None:
    """Put the prompts into the chat template of the model under test.

    Only that model reads them, in generating and in what is teacher-forced; scorer and embedder read the prompts.
    """
    # A tokenizer that is missing was noted already.
    template = builder.try_or_note(lambda: models.load_template(spec)) if inputs["tokenizer"] is not None else None

    def write(folder: Path) -> Mapping[str, Any]:
        if template is None:
            raise SpecError("the chat template was not read yet")
        encode = builder.session.tokenizer(spec).encode
        chats = list(read_examples(_get_path(examples) / EXAMPLES))
        texts = template.render_all([models.split_into_turns(e.prompt, e.meta) for e in chats])
        rows = [_make_prompt_row(e.id, text, tuple(encode(text))) for e, text in zip(chats, texts, strict=True)]
        write_rows(folder / CHAT, rows)
        return {"n": len(rows), "longest_prompt": max((len(r.prompt_ids) for r in rows), default=0)}

    inputs = {**inputs, "template": template.digest if template else None}
    return builder.build(PlannedArtifact("chat", spec.title, {}, inputs, "human"), write)


def _get_path(examples: Entry | None) -> Path:
    if examples is None:
        raise SpecError("examples were not made yet")
    return examples.path
