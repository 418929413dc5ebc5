"""Creative writing: draws of instructions, and one system as the other's reference."""

from dataclasses import replace

import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.harness.storage.record import RunRecord, save_record
from openended.tasks.creative import Creative
from tests.helpers import write_jsonl
from tests.tasks.reading import read, read_counted


def draw(**options):
    return read(Creative(**{"num_draws": 60, **options}))


def write(tmp_path, rows):
    return str(write_jsonl(tmp_path / "r.jsonl", rows))


def test_draws_are_of_our_instructions_and_depend_on_the_seed_alone():
    first = draw()
    assert len({e.id for e in first}) == 60
    assert 10 < len({e.meta["instruction"] for e in first}) <= 32
    assert first == draw()
    assert first[:20] == draw(num_draws=20)
    assert first != draw(seed=1)
    assert "between 100 and 500 words" in first[0].prompt
    assert first[0].prompt == f"Instruction: {first[0].meta['user']}\n\nText:\n\n"
    assert first[0].meta["assistant"] == ""
    assert not Creative().has_human()
    assert all(e.human == "" for e in first)


@pytest.mark.parametrize("keys", [("id",), ("number",), ("prompt",), ("id", "prompt")])
def test_another_systems_texts_are_the_reference(tmp_path, keys):
    draws = draw(num_draws=5)
    fields = [{"id": e.id, "number": i, "prompt": e.prompt} for i, e in enumerate(draws)]
    rows = [{key.replace("number", "id"): f[key] for key in keys} | {"text": f"t{i}"} for i, f in enumerate(fields)]
    task = Creative(reference=write(tmp_path, rows), num_draws=60)
    examples = read(task)
    assert [e.human for e in examples] == [f"t{i}" for i in range(5)]
    assert [e.prompt for e in examples] == [e.prompt for e in draws]
    assert task.has_human()
    assert task.fingerprint() != Creative(num_draws=60).fingerprint()
    assert "no human text" in task.remarks()[0]
    assert not Creative().remarks()


def test_the_authors_file_is_read_not_run(tmp_path):
    path = tmp_path / "make.py"
    path.write_text('raise SystemExit\nsmall = ["a"]\nprompts = ["Write one.", "Write two.", "Write three."]\n')
    assert {e.prompt.split(".")[0].removeprefix("Instruction: ") for e in draw(path=str(path))} == {
        "Write one", "Write two", "Write three",
    }  # fmt: skip


def test_the_reference_is_a_system_too(tmp_path):
    path = write(tmp_path, [{"id": i, "text": f"t{i}"} for i in range(5)])
    assert Creative(reference=path, num_draws=60).open_bundled_system("reference")() == {
        f"creative/{i:06d}": f"t{i}" for i in range(5)
    }
    with pytest.raises(SpecError, match=r"generations=reference: set task\.reference"):
        Creative().open_bundled_system("reference")


def test_draws_without_a_text_are_counted(tmp_path):
    path = write(tmp_path, [{"id": i, "text": t} for i, t in ((0, "a"), (2, " \n"), (4, "b"))])
    examples, skipped = read_counted(Creative(num_draws=60, reference=path))
    assert [(e.id, e.human) for e in examples] == [("creative/000000", "a"), ("creative/000004", "b")]
    assert skipped == {"the reference has no text for the draw": 2, "the reference's text is empty": 1}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": 0, "text": "a"}, {"id": "creative/000099", "text": "a"}], r"r\.jsonl:2: answers none of the 60 draws"),
        ([{"id": 0, "prompt": "Another one", "text": "a"}], r"r\.jsonl:1: not the prompt of creative/000000"),
        ([{"text": "a"}], r"r\.jsonl:1: no field 'prompt'"),
        ([], "holds no text"),
    ],
)
def test_a_reference_that_does_not_fit_is_an_error(tmp_path, rows, message):
    with pytest.raises(DataError, match=message):
        draw(reference=write(tmp_path, rows))


def test_a_folder_must_be_that_of_a_run_with_texts(tmp_path):
    def check(message):
        with pytest.raises(DataError, match=message):
            Creative(reference=str(tmp_path)).fingerprint()

    check(r"no such file: .*record\.json")
    (tmp_path / "record.json").write_text("[]")
    check("not a run record")
    record = RunRecord(created="now", spec={}, axes={}, results=(), store=".")
    save_record(tmp_path, replace(record, inputs={"measure:zipf model": "measure/ab/abc"}))
    check("not the folder of a run that generated")
    save_record(tmp_path, replace(record, inputs={"generate:x": "generate/ab/abc"}))
    check(r"no such file.*set task\.reference")


def test_a_run_is_a_reference_by_its_first_samples(tmp_path):
    from openended.harness.core.types import Generation
    from openended.harness.storage.rows import Row, write_rows

    draws = draw(num_draws=2)
    rows = [
        Row(e.prompt, (), Generation(e.id, sample, f"{e.id} {sample}", (), "length", float("nan")))
        for e in draws
        for sample in (0, 1)
    ]
    (tmp_path / "generate/ab/abc").mkdir(parents=True)
    write_rows(tmp_path / "generate/ab/abc/data.arrow", rows)
    record = RunRecord(created="now", spec={}, axes={}, results=(), store=".")
    save_record(tmp_path, replace(record, inputs={"generate:x": "generate/ab/abc"}))
    assert [e.human for e in draw(reference=str(tmp_path))] == [f"{e.id} 0" for e in draws]


def test_own_instructions(tmp_path):
    path = tmp_path / "own.txt"
    path.write_text("Write X.\n\nWrite Y.\n", encoding="utf-8")
    assert {e.prompt[13:21] for e in draw(path=str(path))} == {"Write X.", "Write Y."}
    assert Creative(path=str(path)).fingerprint() != Creative().fingerprint()
    assert [f.name for f in Creative(path=str(path)).files()] == ["own.txt"]
    for data, message in ((b"\n", "holds no instruction"), (b"caf\xe9\n", "not UTF-8")):
        path.write_bytes(data)
        with pytest.raises(DataError, match=message):
            draw(path=str(path))
    with pytest.raises(DataError, match=r"task creative: no such file: .*; set task\.path"):
        Creative(path=str(tmp_path / "none")).fingerprint()
