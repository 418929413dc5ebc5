"""What a table says of the runs behind it, read from their records alone."""

import json

from openended.harness.report.build import build_report
from openended.harness.report.tables.selection import summarize_sources
from openended.harness.report.tables.systems import build_value_tables
from openended.harness.results import Layout, read_results
from tests.harness.report.synthetic import seal_record, write_run


def by(folder, *words):
    """Say in a run's record which command made it."""
    path = folder / "record.json"
    record = json.loads(path.read_text())
    seal_record(folder, {k: v for k, v in record.items() if k != "digest"} | {"command": list(words)})


def group_into_lines(folder):
    results = read_results([folder])
    return summarize_sources(results.values, results.runs)


def test_task_number_length_date_and_command_are_said(tmp_path):
    for seed, day in ((0, "01"), (1, "03")):
        folder = write_run(tmp_path, "nucleus", seed, created=f"2026-02-{day}T10:20:30+00:00")
        by(folder, "/opt/env/bin/openended", "-m", "seed=0,1", "task.path=my file.jsonl")
    assert group_into_lines(tmp_path) == (
        "Task docs; 500 examples; at most 96 new tokens; seeds 0, 1.",
        "Newest run: 2026-02-03 10:20 UTC.",
        "Command: openended -m seed=0,1 'task.path=my file.jsonl'",
    )


def test_imported_artifacts_are_noted_under_the_tables_of_their_runs(tmp_path):
    for length, provenance in ((32, {}), (64, {"generate:x": {"imported": True}, "measure:mauve": {"imported": True}})):
        folder = write_run(tmp_path, "nucleus", 0, length=length)
        record = json.loads((folder / "record.json").read_text())
        seal_record(folder, {k: v for k, v in record.items() if k != "digest"} | {"provenance": provenance})
    own, imported = build_value_tables(read_results([tmp_path]), Layout(split=("auto",)), "t")
    assert not any("Imported" in line for line in own.about)
    assert "Imported, not computed here: generate, measure (in 1 of 1 runs)." in imported.about


def test_many_values_and_commands_are_counted(tmp_path):
    for n in range(100, 800, 100):
        folder = write_run(tmp_path, "nucleus", 0, n=n, created=f"2026-02-01T10:20:{n // 100:02d}+00:00")
        by(folder, "/opt/openended/__main__.py", f"num_examples={n}")
    told = group_into_lines(tmp_path)
    assert told[0] == "Task docs; 100 to 700 (7 values) examples; at most 96 new tokens; seed 0."
    assert told[2] == "Command: python -m openended num_examples=700"
    assert told[5:] == ("4 more commands: see the runs' records.",)


def test_each_table_is_of_its_own_runs(tmp_path):
    write_run(tmp_path, "nucleus", 0, length=32, created="2026-02-01T10:20:30+00:00")
    write_run(tmp_path, "nucleus", 0, length=64, created="2026-02-02T10:20:30+00:00")
    tables = build_value_tables(read_results([tmp_path]), Layout(split=("auto",)), "t")
    assert [t.about[0] for t in tables] == [
        f"Task docs; 500 examples; at most {n} new tokens; seed 0." for n in (32, 64)
    ]
    assert [t.about[1] for t in tables] == [f"Newest run: 2026-02-0{day} 10:20 UTC." for day in (1, 2)]


def test_every_written_table_says_it_and_rebuilding_changes_no_byte(tmp_path):
    for n, decoder in enumerate(("greedy", "nucleus", "top_k", "beam")):
        by(
            write_run(tmp_path, decoder, 0, created=f"2026-02-0{n + 1}T10:20:30+00:00"),
            "openended",
            f"decoder={decoder}",
        )
    for name in "ab":
        report = build_report(
            [tmp_path / "runs"], tmp_path / name, layout=["full", "findings"], baseline="greedy", figures=False
        )
    assert len(report.tables) > 2
    for path in (tmp_path / "a").rglob("*"):
        if path.suffix in (".md", ".tex", ".html"):
            text = path.read_text()
            assert "Newest run: 2026-02-04 10:20 UTC." in text, path
            assert "decoder=beam" in text.replace(r"\allowbreak{}", ""), path
        assert path.is_dir() or path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes()


def test_a_job_that_a_launcher_started_says_what_the_user_set(tmp_path):
    folder = write_run(tmp_path, "nucleus", 0)
    by(folder, "/opt/site-packages/submitit/core/_submit.py", "/tmp/grids")
    record = json.loads((folder / "record.json").read_text())
    told = {k: v for k, v in record.items() if k != "digest"}
    seal_record(folder, told | {"overrides": ["decoder=nucleus", "seed=0"]})
    assert group_into_lines(tmp_path)[-1] == "Command: openended decoder=nucleus seed=0"
