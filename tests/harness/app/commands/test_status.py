"""How grids stand."""

from openended.harness.app.commands.status import format_grid, main
from openended.harness.app.hydra.grid_state import mark_interrupted
from openended.harness.core.io import write_json
from openended.harness.core.temporary_files import create_temporary_name
from openended.harness.results.grids import read_grid


def test_a_finished_grid(here, capsys):
    assert main(["p-sweep"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"p-sweep  outputs/grids/p-sweep/{next((here / 'outputs/grids/p-sweep').iterdir()).name}: 4 of 4 done"
    ]
    assert main(["p-sweeep"]) == 2
    assert "did you mean 'p-sweep'?" in capsys.readouterr().err


def test_reasons_are_told_once(tmp_path):
    write_json(tmp_path / "grid.json", {"name": "a", "total": 5})
    for number, state in enumerate(("done", "failed", "failed", "running")):
        row = {"job": f"seed={number}", "state": state, "seconds": 1.0, "error": "no memory"}
        write_json(tmp_path / f"jobs/{number:05d}.json", row)
    head, why, running = format_grid(read_grid(tmp_path))
    assert head.endswith("1 of 5 done, 2 failed, 1 running, 1 not started")
    assert why == "  seed=1 and 1 more: no memory"
    assert running.endswith("seed=3")


def test_no_grids(tmp_path, capsys):
    assert main(["--outputs", str(tmp_path)]) == 0
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
    assert main(["--outputs", str(tmp_path)]) == 0
    assert "1 of 3 done, 1 running, 1 not started" in capsys.readouterr().out
    mark_interrupted(first)
    assert main(["--outputs", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "1 of 3 done, 1 interrupted, 1 not started" in said
    assert "interrupted: seed=1; the same command resumes here" in said
    write_grid(second, ["done", "done", "done"])
    assert main(["--outputs", str(tmp_path)]) == 0
    head, then = capsys.readouterr().out.splitlines()
    assert head.endswith(f"resumed in {second}: 3 of 3 done")
    assert then.endswith("3 of 3 done")


def test_a_killed_grid_is_told_from_a_running_one(tmp_path, capsys):
    process = create_temporary_name("grid").split("-")
    process[-2] = "1"  # the start of another process with this number
    write_grid(tmp_path / "grids/a/20260101T000000", ["running"], process="-".join(process))
    assert main(["--outputs", str(tmp_path)]) == 0
    assert "0 of 3 done, 1 killed, 2 not started" in capsys.readouterr().out
