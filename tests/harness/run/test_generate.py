"""The texts of the system under test: what decides their bytes, what is refused early, and texts taken from files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.harness.decoders.base import Decoder
from openended.harness.models.spec import list_bundled_models
from openended.harness.run.artifacts import ArtifactBuilder, TextRows
from openended.harness.run.dataset import Dataset, fetch_task, load_dataset
from openended.harness.run.generate import generate, import_generations
from openended.harness.run.resolve import ResolvedRun, resolve_run
from openended.harness.run.session import Session
from openended.harness.storage.rows import RowFile
from openended.harness.storage.store import Store
from tests.harness.run.small import settings
from tests.helpers import write_jsonl

pytestmark = pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there")
Start = Callable[..., tuple[ResolvedRun, ArtifactBuilder]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    session = Session(Store(tmp_path / "store"))

    def made(*words: str, plan_only: bool = False) -> tuple[ResolvedRun, ArtifactBuilder]:
        chosen = resolve_run(settings(tmp_path, "metric=[zipf]", "num_examples=3", "max_new_tokens=4", *words))
        return chosen, ArtifactBuilder(session, plan_only=plan_only)

    return made


def load(run: ResolvedRun, steps: ArtifactBuilder) -> Dataset:
    return load_dataset(run.data, fetch_task(run.data.task, steps), steps)


def write(run: ResolvedRun, steps: ArtifactBuilder, dataset: Dataset, decoder: Decoder | None) -> TextRows:
    return generate(run.generation, run.runtime.options, steps, dataset, decoder)


def generated(start: Start, *words: str) -> TextRows:
    chosen, steps = start("runtime.progress=false", *words)
    return write(chosen, steps, load(chosen, steps), chosen.generation.decoder)


def taken(start: Start, *words: str) -> TextRows:
    chosen, steps = start(*words)
    return import_generations(chosen.generation, steps, load(chosen, steps))


def key(source: TextRows) -> str:
    assert source.entry is not None
    return source.entry.key


def test_every_prompt_has_its_samples_and_its_rows_are_those_of_the_model(start):
    rows = RowFile(generated(start, "decoder=ancestral", "samples=2").path)
    assert rows.ids == ("jsonl/000000",) * 2 + ("jsonl/000001",) * 2 + ("jsonl/000002",) * 2
    assert rows.samples == (0, 1) * 3
    assert rows.prompts[0] == "Return 0 and"
    assert 0 < max(rows.token_ids.lengths) <= 4


def test_the_seed_is_in_the_key_where_something_is_dataset(start):
    greedy, ancestral = (
        {key(generated(start, f"decoder={name}", f"seed={seed}")) for seed in (0, 1)}
        for name in ("greedy", "ancestral")
    )
    assert (len(greedy), len(ancestral)) == (1, 2)


def test_what_can_change_a_text_is_in_the_key_and_how_a_run_is_carried_out_is_not(start):
    plain = key(generated(start))
    for words in (("runtime.batch_size=1",), ("runtime.flush_seconds=9",), ("metric=[distinct_n]",), ("scoring=none",)):
        assert key(generated(start, *words)) == plain, words
    other = [
        ("max_new_tokens=3",),
        ("min_new_tokens=2",),
        ("samples=2",),
        ("num_examples=2",),
        ("decoder.repetition_penalty=1.2",),
    ]
    assert len({plain, *(key(generated(start, *words)) for words in other)}) == 1 + len(other)


def test_without_a_model_or_a_decoder_nothing_is_generated(start):
    chosen, steps = start()
    dataset = load(chosen, steps)
    with pytest.raises(SpecError, match="model, decoder and max_new_tokens: expected values"):
        write(chosen, steps, dataset, None)


def test_a_length_that_the_model_cannot_hold_is_refused_before_it_loads(start):
    chosen, steps = start("max_new_tokens=100000")
    with pytest.raises(SpecError, match="max_new_tokens=100000 after a prompt of"):
        write(chosen, steps, load(chosen, steps), chosen.generation.decoder)
    assert steps.session.loads == []


@pytest.mark.parametrize("name", ["greedy", "adversarial"])
def test_a_plan_waits_for_the_prompts_and_loads_nothing(start, name):
    chosen, steps = start(f"decoder={name}", plan_only=True)
    source = write(chosen, steps, load(chosen, steps), chosen.generation.decoder)
    assert source.digest is None
    assert [(step.stage, step.state) for step in steps.plan][-1] == ("generate", "waits")
    assert steps.session.loads == []


def test_a_decoder_that_still_needs_a_number_waits_even_where_the_prompts_are_there(start):
    chosen, steps = start("decoder=adversarial")
    dataset = load(chosen, steps)
    assert chosen.generation.decoder is not None
    source = write(chosen, steps, dataset, chosen.generation.decoder)
    assert (source.entry, steps.plan[-1].state) == (None, "waits")
    assert steps.session.loads == []
    assert write(chosen, steps, dataset, replace(chosen.generation.decoder, human_ppl=20.0)).entry is not None


def texts(path: Path, *rows: str) -> str:
    write_jsonl(path, ({"text": row} for row in rows))
    return f"generations={path}"


def test_a_file_is_known_by_its_bytes_and_paired_with_the_prompts(start, tmp_path):
    first = taken(start, texts(tmp_path / "a.jsonl", " one", " two", " three"))
    assert list(zip(RowFile(first.path).ids, RowFile(first.path).texts, strict=True))[1] == ("jsonl/000001", " two")
    assert first.entry is not None
    assert first.entry.meta["n"] == 3
    assert key(taken(start, texts(tmp_path / "b.jsonl", " one", " two", " three"))) == key(first)
    assert key(taken(start, texts(tmp_path / "a.jsonl", " one", " two", " 3"))) != key(first)


def test_loose_texts_are_numbered_by_the_task_and_need_none_of_its_examples(start, tmp_path):
    (tmp_path / "human.jsonl").write_text('{"text": "x y"}\n{"text": "z"}\n{"text": "w"}\n')
    task = ("task=texts", "~task.path", f"+task.path={tmp_path}/human.jsonl")
    given = texts(tmp_path / "a.jsonl", "one", "two", "three", "four")
    first = taken(start, *task, given)
    assert (RowFile(first.path).ids[-1], RowFile(first.path).texts) == ("texts/000002", ["one", "two", "three"])
    assert RowFile(taken(start, *task, given, "num_examples=all").path).texts[-1] == "four"
    (tmp_path / "human.jsonl").write_text('{"text": "another"}\n{"text": "z"}\n{"text": "w"}\n')
    assert key(taken(start, *task, given)) == key(first)


def test_a_system_that_the_task_holds_is_known_by_its_name_and_by_the_data(start, tmp_path):
    path = tmp_path / "news.csv"
    task = ("task=ag_news", f"task.path={path}", "max_new_tokens=null")
    for word in ("old", "new"):
        path.write_text("".join(f'"{1 + i % 4}","Title {i}","{word} text of topic {i % 4}"\n' for i in range(80)))
        world, sports = (taken(start, *task, f"generations='topics:{name}'") for name in ("world", "sports"))
        assert all(f"{word} text of topic 1" in text for text in RowFile(sports.path).texts)
        assert len(RowFile(sports.path)) == 3
        assert len({key(world), key(sports)}) == 2
    assert world.entry is not None
    assert world.entry.meta["n"] == 3


def test_a_file_that_is_not_there_is_an_error_and_in_a_plan_a_remark(start, tmp_path):
    words = f"generations={tmp_path}/lost.jsonl"
    chosen, steps = start(words)
    with pytest.raises(DataError, match=r"generations: no such file: .*lost\.jsonl"):
        import_generations(chosen.generation, steps, load(chosen, steps))
    chosen, steps = start(words, plan_only=True)
    assert import_generations(chosen.generation, steps, load(chosen, steps)).digest is None
    assert any("no such file" in missing.reason for missing in steps.missing)
