"""A run as its record tells it."""

import pytest

from openended.harness.app.commands.show import find_run, main
from openended.harness.core.errors import DataError


@pytest.mark.slow
def test_a_run_is_found_by_the_end_of_its_name(here, capsys):
    folder = next((here / "outputs/runs/p-sweep").iterdir())
    assert main([folder.name[-8:], "--texts", "1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"run        {folder.relative_to(here)}\n")
    assert "num_examples=8" in said
    assert "model      distinct_n: " in said
    assert "distinct_n|v:2|" in said
    assert "texts      8 in " in said


@pytest.mark.slow
def test_the_runs_of_a_name_are_one_line_each(here, capsys):
    assert main(["p-sweep"]) == 0
    lines = capsys.readouterr().out.splitlines()
    folders = sorted((here / "outputs/runs/p-sweep").iterdir())
    assert [line.split()[0] for line in lines] == [folder.name[-8:] for folder in folders]
    assert all("distinct_" in line for line in lines)
    assert any("nucleus p=0.95, seed 1: " in line for line in lines)


def test_what_is_no_run_is_one_line(here, capsys):
    assert main(["nowhere"]) == 2
    assert "openended show: no run 'nowhere'" in capsys.readouterr().err
    with pytest.raises(DataError, match="3 runs end with ''"):
        find_run("", here / "outputs")
