"""Commands that read the outputs: runs, grids, and what the store holds."""

import shutil

import pytest

from openended.harness.app.commands import show, status, store
from openended.harness.app.hydra.grid_state import mark_interrupted
from openended.harness.core import write_json
from openended.harness.core.temporary_files import create_temporary_name
from openended.harness.results.grids import read_grid
from openended.harness.storage import find_named_entries


@pytest.mark.slow
def test_a_run_is_found_by_the_end_of_its_name(here, capsys):
    folder = next((here / "outputs/runs/p-sweep").iterdir())
    assert show.main([folder.name[-8:], "--texts", "1"]) == 0
    output = capsys.readouterr().out
    assert output.startswith(f"run        {folder.relative_to(here)}\n")
    assert "num_examples=8" in output
    assert "model      distinct_n: " in output
    assert "distinct_n|v:2|" in output
    assert "texts      8 in " in output
    assert "/.." not in output


@pytest.mark.slow
def test_the_runs_of_a_name_are_one_line_each(here, capsys):
    assert show.main(["p-sweep"]) == 0
    lines = capsys.readouterr().out.splitlines()
    folders = sorted((here / "outputs/runs/p-sweep").iterdir())
    assert [line.split()[0] for line in lines] == [folder.name[-8:] for folder in folders]
    assert all("distinct_" in line for line in lines)
    assert any("nucleus p=0.95, docs-s, seed 1: " in line for line in lines)
    assert show.main(["outputs/runs/p-sweep"]) == 0
    assert capsys.readouterr().out.splitlines() == lines


def test_a_finished_grid(here, capsys):
    assert status.main(["p-sweep"]) == 0
    (grid,) = (here / "outputs/grids/p-sweep").iterdir()
    assert capsys.readouterr().out.splitlines() == [f"p-sweep  outputs/grids/p-sweep/{grid.name}: 4 of 4 done"]
    assert status.main(["p-sweeep"]) == 2
    assert "did you mean 'p-sweep'?" in capsys.readouterr().err


def test_reasons_are_told_once(tmp_path):
    write_json(tmp_path / "grid.json", {"name": "a", "total": 5})
    for number, state in enumerate(("done", "failed", "failed", "running")):
        row = {"job": f"seed={number}", "state": state, "seconds": 1.0, "error": "no memory"}
        write_json(tmp_path / f"jobs/{number:05d}.json", row)
    head, why, running = status.format_grid(read_grid(tmp_path))
    assert head.endswith("1 of 5 done, 2 failed, 1 running, 1 not started")
    assert why == "  seed=1 and 1 more: no memory"
    assert running.endswith("seed=3")


def test_no_grids(tmp_path, capsys):
    assert status.main(["--outputs", str(tmp_path)]) == 0
    assert "no grids" in capsys.readouterr().out


def write_grid(folder, states, **facts):
    titles = [f"seed={number}" for number in range(3)]
    write_json(folder / "grid.json", {"name": "a", "total": 3, "titles": titles, "command": "0af3", **facts})
    for number, state in enumerate(states):
        row = {"job": f"seed={number}", "state": state, "seconds": 1.0}
        write_json(folder / f"jobs/{number:05d}.json", row)


def test_an_interrupted_grid_says_so_and_the_same_command_resumes_it(tmp_path, capsys):
    first, second = (tmp_path / "grids/a" / time for time in ("20260101T000000", "20260101T000100"))
    write_grid(first, ["done", "running"], process=create_temporary_name("grid"))
    assert status.main(["--outputs", str(tmp_path)]) == 0
    assert "1 of 3 done, 1 running, 1 not started" in capsys.readouterr().out
    mark_interrupted(first)
    assert status.main(["--outputs", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "1 of 3 done, 1 interrupted, 1 not started" in output
    assert "interrupted: seed=1; the same command resumes here" in output
    write_grid(second, ["done", "done", "done"])
    assert status.main(["--outputs", str(tmp_path)]) == 0
    head, then = capsys.readouterr().out.splitlines()
    assert head.endswith(f"resumed in {second}: 3 of 3 done")
    assert then.endswith("3 of 3 done")


def test_a_killed_grid_is_told_from_a_running_one(tmp_path, capsys):
    process = create_temporary_name("grid").split("-")
    process[-2] = "1"  # the start of another process with this number
    write_grid(tmp_path / "grids/a/20260101T000000", ["running"], process="-".join(process))
    assert status.main(["--outputs", str(tmp_path)]) == 0
    assert "0 of 3 done, 1 killed, 2 not started" in capsys.readouterr().out


def test_sizes_by_stage_and_by_name(here, capsys):
    assert store.main([]) == 0
    output = capsys.readouterr().out
    assert "stage      generate          3 entries" in output
    assert "runs       p-sweep: " in output
    assert "unnamed    0 entries" in output
    sizes, names = store.measure_entries(here / "outputs/store"), find_named_entries(here / "outputs/runs")
    assert names["p-sweep"] == set(sizes)


def test_what_no_run_names_is_counted():
    sizes = {"generate/aa/1": 10, "measure/bb/2": 5, "measure/cc/3": 2}
    names = {"a": {"generate/aa/1", "measure/bb/2"}, "b": {"generate/aa/1"}}
    lines = list(store.format_sizes({place: size * 10**6 for place, size in sizes.items()}, names))
    assert "runs       a: 2 entries, 15.0 MB, 5.0 MB of it not shared" in lines
    assert lines[-1] == "unnamed    1 entries, 2.0 MB: no run names them"


@pytest.fixture
def own(here, tmp_path, monkeypatch):
    """A copy of the outputs, to be damaged."""
    shutil.copytree(here / "outputs", tmp_path / "outputs")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "outputs"


def test_a_store_is_checked_to_the_byte(own, capsys):
    assert store.main(["check"]) == 0
    assert " sound" in capsys.readouterr().out
    place = next((own / "store/generate").glob("*/*/data.arrow"))
    place.write_bytes(place.read_bytes()[:-1])
    assert store.main(["check"]) == 2
    captured = capsys.readouterr()
    assert f"damaged    {place.parent.relative_to(own / 'store')}" in captured.out
    assert "1 entries are damaged" in captured.err


def test_what_no_run_names_goes_when_it_is_asked_for(own, capsys):
    for record in list((own / "runs").rglob("record.json"))[:1]:
        shutil.rmtree(record.parent)
    before = store.measure_entries(own / "store")
    assert store.main(["gc", "--unnamed", "--days", "0", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "would be deleted" in lines[-1]
    assert store.measure_entries(own / "store") == before
    assert store.main(["gc", "--days", "0"]) == 0
    assert store.measure_entries(own / "store") == before, "without --unnamed what is sound stays"
    assert store.main(["gc", "--unnamed", "--days", "0"]) == 0
    assert set(before) - set(store.measure_entries(own / "store")) == set(lines[:-1]) != set()
