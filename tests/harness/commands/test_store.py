"""What the store holds."""

from __future__ import annotations

from openended.harness.commands.store import main, named_by, sizes_of, told


def test_sizes_by_stage_and_by_name(here, capsys):
    assert main([]) == 0
    said = capsys.readouterr().out
    assert "stage      generate          3 entries" in said
    assert "runs       p-sweep: " in said
    assert "unnamed    0 entries" in said
    sizes, names = sizes_of(here / "outputs/store"), named_by(here / "outputs/runs")
    assert names["p-sweep"] == set(sizes)


def test_what_no_run_names_is_counted():
    sizes = {"generate/aa/1": 10, "measure/bb/2": 5, "measure/cc/3": 2}
    names = {"a": {"generate/aa/1", "measure/bb/2"}, "b": {"generate/aa/1"}}
    lines = list(told({place: size * 10**6 for place, size in sizes.items()}, names))
    assert "runs       a: 2 entries, 15.0 MB, of which 5.0 MB no other name shares" in lines
    assert lines[-1] == "unnamed    1 entries, 2.0 MB: no run names them"


def test_no_store_is_one_line(tmp_path, capsys):
    assert main(["--outputs", str(tmp_path)]) == 2
    assert "no store at" in capsys.readouterr().err
