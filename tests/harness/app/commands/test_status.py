"""How grids stand."""

from __future__ import annotations

from openended.harness.app.commands.status import format_grid, main
from openended.harness.core.io import write_json
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
        row = {"job": f"seed={number}", "state": state, "error": "no memory"}
        write_json(tmp_path / f"jobs/{number:05d}.json", row)
    head, why, running = format_grid(read_grid(tmp_path))
    assert head.endswith("1 of 5 done, 2 failed, 1 running, 1 not started")
    assert why == "  seed=1 and 1 more: no memory"
    assert running.endswith("seed=3")


def test_no_grids(tmp_path, capsys):
    assert main(["--outputs", str(tmp_path)]) == 0
    assert "no grids" in capsys.readouterr().out
