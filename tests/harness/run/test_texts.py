"""Both sides of a run: the human side and its ceiling, texts that are generated, and texts that are imported."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openended.harness.core import DataError, Ragged, SpecError, parse_signature
from openended.harness.decoders.base import Prompt
from openended.harness.decoders.sampling import Temperature
from openended.harness.imported import digest_corpus, load_corpus
from openended.harness.models import ModelSpec
from openended.harness.report.build import build_report
from openended.harness.run import import_texts
from openended.harness.run.dataset import Dataset
from openended.harness.run.features import compute_perplexity
from openended.harness.run.generate import declare_generation
from openended.harness.run.measure import RunTexts
from openended.harness.run.pipeline import make_texts, plan, run
from openended.harness.run.request import RunRequest, check_start_token
from openended.harness.run.session import Session
from openended.harness.run.steps import Executor, Step, digest_model
from openended.harness.storage import RowFile, RunRecord, find_input, read_record
from openended.tasks.texts import Texts
from tests.harness.run.small import Made, make_dataset, make_executor, measured, open_session, settings
from tests.helpers import cases, check_error, copy_without, generation, tiny_model, write_jsonl
from tests.lazy import torch

SMALL = ("metric=[zipf]", "num_examples=3", "max_new_tokens=4", "runtime.progress=false")


def start(folder: Path, *words: str, plan_only: bool = False) -> tuple[Executor, RunRequest, Dataset]:
    executor = make_executor(folder, plan_only=plan_only)
    return executor, *make_dataset(settings(folder, *SMALL, *words), executor)


def generate(executor: Executor, request: RunRequest, dataset: Dataset, **change: Any) -> Made:
    generator: Any = request.generator
    decoder = replace(generator.decoder, **change)
    waits = Step("read", "", "human", {}, {"rows": None}, lambda *_: {}) if decoder.needs_human_ppl else None
    rows = declare_generation(request, replace(generator, decoder=decoder), dataset, executor.session, waits)
    executor.run(rows.step)
    return Made(rows, executor)


def generated(folder: Path, *words: str) -> Made:
    return generate(*start(folder, *words))


def imported(folder: Path, *words: str, plan_only: bool = False) -> Made:
    executor, request, dataset = start(folder, *words, plan_only=plan_only)
    rows = import_texts.declare_import(request, dataset, executor.session)
    executor.run(rows.step)
    return Made(rows, executor)


def key(made: Made) -> str:
    return made.key


def test_every_prompt_has_its_samples_and_its_rows_are_those_of_the_model(tmp_path):
    rows = RowFile(generated(tmp_path, "decoder=ancestral", "samples=2").path)
    assert rows.ids == ("jsonl/000000",) * 2 + ("jsonl/000001",) * 2 + ("jsonl/000002",) * 2
    assert rows.samples == (0, 1) * 3
    assert rows.prompts[0] == "Return 0 and"
    assert 0 < max(rows.token_ids.lengths) <= 4


@cases(
    "change, message",
    (lambda rows: rows[1:], "its backend did not return 1 of 3 texts, the first of example jsonl/00000"),
    (lambda rows: [replace(row, example_id="no") for row in rows], "a text of example 'no': not asked for"),
    (lambda rows: [replace(row, token_ids=(5,) * 9) for row in rows], "the backend wrote 9 tokens for .*tokens=4"),
)
def test_what_a_backend_returns_is_what_was_asked_for(tmp_path, monkeypatch, change, message):
    load = Session.model

    class Faulty:
        def __init__(self, lm):
            self.lm = lm

        def __getattr__(self, name):
            return getattr(self.lm, name)

        def generate(self, request, add, advance):
            rows = []
            self.lm.generate(request, rows.extend, advance)
            add(change(rows))

    with monkeypatch.context() as patch:
        patch.setattr(Session, "model", lambda self, *args: Faulty(load(self, *args)))
        check_error(DataError, message, generated, tmp_path, "decoder=greedy")
    assert len(RowFile(generated(tmp_path, "decoder=greedy").path)) == 3


def test_another_version_of_a_backend_is_another_model():
    spec = ModelSpec(path="bundled:docs-s")
    later = type("Later", (ModelSpec,), {"version": 2})(path="bundled:docs-s")
    assert spec.identity() == later.identity()
    assert digest_model(spec) != digest_model(later)


def test_the_seed_is_in_the_key_where_something_is_drawn(tmp_path):
    names, seeds = ("greedy", "ancestral"), (0, 1)
    greedy, ancestral = ({key(generated(tmp_path, f"decoder={d}", f"seed={s}")) for s in seeds} for d in names)
    assert (len(greedy), len(ancestral)) == (1, 2)


@pytest.mark.slow
def test_what_can_change_a_text_is_in_the_key_and_how_a_run_is_carried_out_is_not(tmp_path):
    plain = key(generated(tmp_path))
    for word in ("runtime.batch_size=1", "runtime.flush_seconds=9", "metric=[distinct_n]", "scoring=none"):
        assert key(generated(tmp_path, word)) == plain, word
    other = ["max_new_tokens=3", "min_new_tokens=2", "samples=2", "num_examples=2", "decoder.repetition_penalty=1.2"]
    assert len({plain, *(key(generated(tmp_path, word)) for word in other)}) == 1 + len(other)


def test_what_cannot_generate_is_refused_before_a_model_loads(tmp_path):
    check_error(SpecError, "max_new_tokens=100000 after a prompt of", start, tmp_path, "max_new_tokens=100000")


@pytest.mark.parametrize("name", ["greedy", "adversarial"])
def test_a_plan_waits_for_the_prompts_and_loads_nothing(tmp_path, name):
    executor, *parts = start(tmp_path, f"decoder={name}", plan_only=True)
    assert generate(executor, *parts).entry is None
    assert [(line.step.stage, line.state) for line in executor.plan][-1] == ("generate", "waits")
    assert executor.session.loads == []


def test_a_decoder_that_still_needs_a_number_waits_even_where_the_prompts_are_there(tmp_path):
    executor, *parts = start(tmp_path, "decoder=adversarial")
    source = generate(executor, *parts)
    assert (source.entry, executor.plan[-1].state) == (None, "waits")
    assert executor.session.loads == []
    assert generate(executor, *parts, human_ppl=20.0).entry is not None


def test_perplexity_is_the_exponent_of_the_mean_and_1_of_no_token():
    assert math.isclose(compute_perplexity(Ragged(np.log([2.0, 8.0]), np.array([0, 1, 2]))), 4.0)
    assert compute_perplexity(Ragged(np.zeros(0), np.array([0]))) == 1.0


def test_a_model_without_a_start_token_is_refused_with_what_to_set(tmp_path):
    spec = copy_without(tiny_model(tmp_path / "tiny"), tmp_path)
    check_start_token(spec)
    for name in ("config.json", "generation_config.json"):
        path = Path(spec.path) / name
        config = {k: v for k, v in json.loads(path.read_text()).items() if k not in ("bos_token_id", "eos_token_id")}
        path.write_text(json.dumps(config))
    message = r"no start token for an empty prompt; set bos_token_id"
    check_error(SpecError, message, check_start_token, ModelSpec(path=spec.path))


def test_texts_go_on_after_an_end_token(tmp_path):
    lm: Any = ModelSpec(path=str(tiny_model(tmp_path / "tiny"))).load()
    prompts, decoder = [Prompt(f"t/{i}", 0, (), "") for i in range(40)], Temperature(temperature=1.0)
    request = generation(prompts, decoder, seed=0, max_new_tokens=40, batch_size=8)
    made: list[dict[str, Any]] = []
    for continues in (False, True):
        out: list[Any] = []
        lm.generate(replace(request, continue_after_end=continues), out.extend)
        made.append({g.example_id: g for g in out})
    stopped, continued = made
    ended = [i for i, g in stopped.items() if g.stop == "eos"]
    assert ended  # one token in 257 is the end token
    for i, text in continued.items():
        assert (len(text.token_ids), text.stop) == (40, "length")
        assert text.token_ids[: len(stopped[i].token_ids)] == stopped[i].token_ids
    assert all(continued[i].token_ids[len(stopped[i].token_ids)] == 0 for i in ended)


def texts_file(path: Path, *rows: str) -> str:
    write_jsonl(path, ({"text": row} for row in rows))
    return f"generations={path}"


def test_a_file_is_known_by_its_bytes_and_paired_with_the_prompts(tmp_path):
    first = imported(tmp_path, texts_file(tmp_path / "a.jsonl", " one", " two", " three"))
    assert list(zip(RowFile(first.path).ids, RowFile(first.path).texts, strict=True))[1] == ("jsonl/000001", " two")
    assert first.entry is not None
    assert first.entry.meta["n"] == 3
    assert key(imported(tmp_path, texts_file(tmp_path / "b.jsonl", " one", " two", " three"))) == key(first)
    assert key(imported(tmp_path, texts_file(tmp_path / "a.jsonl", " one", " two", " 3"))) != key(first)


def test_what_is_read_of_a_file_is_in_its_key_and_not_how_it_was_chosen(tmp_path):
    rows = [{"answer": f" one of {i} texts", "rationale": f" another of {i} texts"} for i in range(3)]
    file = f"generations={write_jsonl(tmp_path / 'a.jsonl', rows)}"
    fields = ((), ("generations_field=answer",), ("generations_field=rationale",))
    guessed, named, other = (key(imported(tmp_path, file, *words)) for words in fields)
    assert guessed == named != other
    path, names = str(tmp_path / "a.jsonl"), (None, "answer", "rationale")
    human = [Texts(path=path, text_field=name).fingerprint() for name in names]
    assert human[0] == human[1] != human[2]


def test_loose_texts_are_numbered_by_the_task_and_need_none_of_its_examples(tmp_path):
    (tmp_path / "human.jsonl").write_text('{"text": "x y"}\n{"text": "z"}\n{"text": "w"}\n')
    task = ("task=texts", f"task.path={tmp_path}/human.jsonl")
    given = texts_file(tmp_path / "a.jsonl", "one", "two", "three", "four")
    first = imported(tmp_path, *task, given)
    assert (RowFile(first.path).ids[-1], RowFile(first.path).texts) == ("texts/000002", ["one", "two", "three"])
    assert RowFile(imported(tmp_path, *task, given, "num_examples=all").path).texts[-1] == "four"
    (tmp_path / "human.jsonl").write_text('{"text": "another"}\n{"text": "z"}\n{"text": "w"}\n')
    assert key(imported(tmp_path, *task, given)) == key(first)


def test_a_system_that_the_task_holds_is_known_by_its_name_and_by_the_data(tmp_path):
    path = tmp_path / "news.csv"
    task = ("task=ag_news", f"task.path={path}", "max_new_tokens=null")
    for word in ("old", "new"):
        path.write_text("".join(f'"{1 + i % 4}","Title {i}","{word} text of topic {i % 4}"\n' for i in range(80)))
        world, sports = (imported(tmp_path, *task, f"generations='topics:{name}'") for name in ("world", "sports"))
        assert all(f"{word} text of topic 1" in text for text in RowFile(sports.path).texts)
        assert len(RowFile(sports.path)) == 3
        assert len({key(world), key(sports)}) == 2
    assert world.entry is not None
    assert world.entry.meta["n"] == 3


def test_a_file_that_is_not_there_is_an_error_and_in_a_plan_a_remark(tmp_path):
    words = f"generations={tmp_path}/lost.jsonl"
    check_error(DataError, r"no such file: .*lost\.jsonl", imported, tmp_path, words)
    assert imported(tmp_path, words, plan_only=True).entry is None
    missing = plan(settings(tmp_path, *SMALL, words), open_session(tmp_path)).missing
    assert any("no such file" in str(err) for err in missing)


def test_a_plan_reads_the_files_of_the_user_and_names_a_device_that_is_missing(tmp_path, caplog):
    rows = [{"id": "0", "text": " a text."}, {"id": "1", "text": " another one.", "stop": "bored"}]
    path = write_jsonl(tmp_path / "bored.jsonl", rows)
    words = (f"generations={path}", "metric=[zipf]", "scorer=docs-m", "runtime.device=cuda")
    with pytest.raises(DataError, match=r"bored\.jsonl:2: field 'stop': expected eos or length"):
        plan(settings(tmp_path, *words), open_session(tmp_path))
    write_jsonl(path, rows[:1])
    plan(settings(tmp_path, *words), open_session(tmp_path))
    missing = "runtime.device=cuda: this machine has no CUDA device"
    assert (missing in caplog.text) is not torch.cuda.is_available()


def build(folder: Path, *words: str, plan_only: bool = False) -> RunTexts:
    return make_texts(settings(folder, *words), make_executor(folder, plan_only=plan_only))


def key_of(texts: RunTexts) -> str:
    return Made(texts.model_rows, texts.executor).key


def test_naive_texts_are_made_of_human_texts_that_are_not_compared(tmp_path):
    texts = build(tmp_path, "generations=naive:memorizer")
    model, human = list(RowFile(texts.path)), list(RowFile(texts.executor.locate(texts.human_rows)))
    spare = {row.generation.text for row in RowFile(texts.executor.locate(texts.dataset.spare_rows))}
    assert [(r.generation.example_id, r.prompt) for r in model] == [(r.generation.example_id, r.prompt) for r in human]
    assert all(any(text.startswith(row.generation.text) for text in spare) for row in model)
    assert "learned from 8 human texts" in Made(texts.model_rows, texts.executor).entry.meta["notes"][0]
    words = [(f"generations=naive:{kind}", f"seed={seed}") for kind in ("unigram", "unigram:3") for seed in (0, 1)]
    keys = {key_of(build(tmp_path, *both)) for both in words}
    assert len(keys) == 4
    assert import_texts.NAIVE_VERSION == 1  # raise it, and this number, when the texts of a seed change
    assert key_of(build(tmp_path, "generations=naive:unigram:64")) in keys


def test_perturbed_rows_are_human_texts_that_are_not_compared_with_tokens_of_their_own(tmp_path):
    texts = build(tmp_path, "generations=perturbation:none")
    spare = list(RowFile(texts.executor.locate(texts.dataset.spare_rows)))
    kept = [(r.prompt, r.generation.text, r.generation.token_ids) for r in spare]
    assert [(r.prompt, r.generation.text, r.generation.token_ids) for r in RowFile(texts.path)] == kept
    (note, *_) = Made(texts.model_rows, texts.executor).entry.meta["notes"]
    assert "human texts that are not compared, perturbed" in note
    rows = list(RowFile(build(tmp_path, "generations=perturbation:truncation:50").path))
    assert [row.prompt for row in rows] == [row.prompt for row in spare]
    for before, after in zip(spare, rows, strict=True):
        assert before.generation.text.startswith(after.generation.text)
        assert 0 < len(after.generation.token_ids) < len(before.generation.token_ids)
    first, second = (key_of(build(tmp_path, "generations=perturbation:random_middle:60", f"seed={s}")) for s in (0, 1))
    assert first != second
    rows = list(RowFile(build(tmp_path, "generations=perturbation:longer:50", "max_new_tokens=8").path))
    assert max(len(row.generation.token_ids) for row in rows) > 8  # the words that were added are not cut off again
    assert import_texts.PERTURBATION_VERSION == 1  # raise it, and this number, when the texts of a seed change


@cases(
    "name, count, message",
    ("naive:unigram", 16, "has none left; set num_examples=8 or fewer"),
    ("perturbation:negation:5", 14, "num_examples=8"),
)
def test_a_plan_makes_nothing_and_a_task_without_spare_texts_is_refused(tmp_path, name, count, message):
    texts = build(tmp_path, f"generations={name}", plan_only=True)
    assert Made(texts.model_rows, texts.executor).entry is None
    check_error(SpecError, message, build, tmp_path, f"generations={name}", f"num_examples={count}")


def test_a_corpus_is_read_and_a_missing_one_is_named(tmp_path):
    path = write_jsonl(tmp_path / "train.jsonl", [{"text": "a b"}, {"text": "c"}])
    assert load_corpus(path) == ["a b", "c"]
    first = digest_corpus(path)
    write_jsonl(path, [{"text": "a b"}])
    assert digest_corpus(path) != first
    with pytest.raises(DataError, match=r"no such file: .*; expected references, or a file of texts"):
        digest_corpus(tmp_path / "none.jsonl")


def test_a_run_compares_with_the_corpus_and_says_where_lengths_differ(tmp_path):
    path = write_jsonl(tmp_path / "train.jsonl", [{"text": "raise an error if the number 8 is too large."}])
    words = ["metric=[novelty]", f"metric.novelty.corpus={path}", "metric.novelty.orders=[1]", "intervals=0"]
    record = measured(tmp_path, *words, "generations=perturbation:none")
    row = next(row for row in record.results if row.system == "model")
    assert row.values["novelty_1"] < 0.2
    assert str(path) not in row.signature
    assert "median length" not in " ".join(map(str, record.notes))
    record = measured(tmp_path, "metric=[length]", "generations=perturbation:truncation:50", "intervals=0")
    (note,) = [note for note in map(str, record.notes) if note.startswith("median length")]
    assert "(human texts: " in note


def get_row(record: RunRecord, system: str) -> Any:
    (row,) = [r for r in record.results if (r.system, r.metric) == (system, "frechet")]
    return row


def compare(folder: Path, *words: str) -> RunRecord:
    made = settings(folder, "metric=[frechet,zipf]", *words)
    outcome = run(made, open_session(folder))
    planned = plan(made, open_session(folder)).plan  # the number of texts is known now
    assert {(s.step.stage, s.step.what) for s in planned} == {(s.step.stage, s.step.what) for s in outcome.plan}
    return read_record(outcome.folder)


def test_with_as_many_spare_texts_the_ceiling_is_of_the_systems_size(tmp_path):
    record = compare(tmp_path, "num_examples=8")
    assert get_row(record, "ceiling").status == "ok"
    assert get_row(record, "ceiling").signature == get_row(record, "model").signature
    entry = tmp_path / "out/store" / find_input(record.inputs, "human", "human").artifact
    human, more = (set(RowFile(entry / f"{name}.arrow").ids) for name in ("human", "more"))
    assert (len(human), len(more), human & more) == (8, 8, set())


def test_without_there_is_none_and_the_table_says_why(tmp_path):
    row = get_row(compare(tmp_path, "num_examples=9"), "ceiling")
    reason = "no human–human reference: it needs 9 further human texts, as many as a system has; 7 were left"
    assert (row.status, row.notes) == ("undefined", (reason,))
    assert np.isnan(row.values["frechet"])
    (folder,) = (tmp_path / "out/runs/test").iterdir()
    (table,) = build_report([folder], tmp_path / "report", figures=False, page=False).tables
    (human,) = [r for r in table.rows if r.system == "human"]
    cells = {cell.name: cell for cell in human.cells}
    assert reason in cells["frechet"].note
    assert np.isfinite(cells["zipf"].value)


@pytest.mark.slow
def test_several_samples_need_as_many_more_human_texts(tmp_path):
    record = compare(tmp_path, "num_examples=5", "samples=2", "decoder=nucleus")
    assert get_row(record, "ceiling").status == "ok"
    assert [parse_signature(get_row(record, s).signature)["n"] for s in ("ceiling", "model")] == ["5/10"] * 2
    record = compare(tmp_path, "num_examples=6", "samples=2", "decoder=nucleus")
    needs = "needs {} further human texts, as many as a system has; {} were left"
    assert get_row(record, "ceiling").notes[0].endswith(needs.format(12, 10))
    path = tmp_path / "theirs.jsonl"
    write_jsonl(path, [{"id": i, "sample": s, "text": f" raise {s} of {i}"} for i in range(8) for s in range(2)])
    record = measured(tmp_path, "metric=[frechet]", f"generations={path}")
    assert get_row(record, "ceiling").notes[0].endswith(needs.format(16, 8))
