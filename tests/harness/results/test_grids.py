"""What a report is asked for, by name, by grid or by path, and the options it then has."""

import pytest

from openended.harness.core import DataError, write_json
from openended.harness.report.cli import main
from openended.harness.results.grids import read_grid, read_grids, resolve_report_request
from tests.harness.report.synthetic import result, write_run

OPTIONS = {"title": "Mine", "differing": "columns", "metrics": ["m"], "where": {}}


@pytest.fixture
def outputs(tmp_path):
    """Two runs of a name; the last grid over them shows two signatures in two columns."""
    out = tmp_path / "outputs"
    for k, decoder in ((4, "greedy"), (5, "nucleus")):
        line = result("model", "m", {"m": 1.0}, options=f"|k:{k}")
        write_run(out, decoder, 0, results=[line], experiment="mine")
    folders = sorted(str(p.parent.relative_to(tmp_path)) for p in out.rglob("record.json"))
    for time, options in (("20260101T000000", {"title": "Old"}), ("20260102T000000", OPTIONS)):
        grid = out / "grids/mine" / time
        write_json(grid / "grid.json", {"name": "mine", "total": 1, "reports": {"mine": options}})
        write_json(grid / "jobs/00000.json", {"job": "a", "state": "done", "seconds": 1.0, "folder": folders[0]})
    return out


def test_a_name_has_all_its_runs_and_the_options_of_its_last_grid(outputs):
    for word in ("mine", str(outputs / "runs/mine")):
        found = resolve_report_request([word], outputs)
        assert (found.name, found.options) == ("mine", OPTIONS)
        assert [p.resolve() for p in found.paths] == [outputs / "runs/mine"]


def test_a_grid_has_its_own_runs(outputs, tmp_path):
    found = resolve_report_request([str(outputs / "grids/mine/20260101T000000")], outputs)
    assert found.options == {"title": "Old"}
    assert len(found.paths) == 1
    assert resolve_report_request(["20260102T000000"], outputs).options == OPTIONS
    moved = tmp_path / "moved"
    outputs.rename(moved)
    assert all(path.is_dir() for path in read_grids(moved)[0].runs())


def test_an_imported_grid_lays_out_no_runs_of_this_machine_and_reads_runs_below_runs_alone(outputs, tmp_path):
    write_run(tmp_path / "elsewhere", "greedy", 0)
    outside = next((tmp_path / "elsewhere").rglob("record.json")).parent
    grid = outputs / "grids/mine/20270101T000000"
    mark = {"imported": "a.zip", "total": 1}
    write_json(grid / "grid.json", {"name": "mine", "reports": {"mine": {"title": "Theirs"}}, **mark})
    write_json(grid / "jobs/00000.json", {"folder": str(outputs / "runs/.." / "../elsewhere")})
    write_json(grid / "jobs/00001.json", {"folder": str(outside)})
    assert resolve_report_request(["mine"], outputs).options == OPTIONS
    assert resolve_report_request([str(outputs / "runs//mine")], outputs).options == OPTIONS
    with pytest.raises(DataError, match="no job of this grid has finished"):
        resolve_report_request([str(grid)], outputs)


def test_a_word_that_is_nothing_names_what_there_is(outputs):
    with pytest.raises(DataError, match="no run folder or run name 'mone'; did you mean 'mine'"):
        resolve_report_request(["mone"], outputs)
    assert read_grid(outputs) is None


def test_a_rebuilt_report_is_laid_out_as_the_grids(outputs, tmp_path, capsys):
    words = ["mine", "--outputs", str(outputs), "--no-figures", "--no-page"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "Mine" in said
    assert "k=4" in said
    assert "k=5" in said
    assert (outputs / "reports/mine/tables/results.md").is_file()
    assert main([*words, "--layout", "full"]) == 2
    refused = capsys.readouterr().err
    assert "keep one of them: --where 'm.k=" in refused
    assert "the runs that differ: " in refused
    assert main([*words, "--layout", "full", "--where", "m.k=4"]) == 0
    assert (outputs / "reports/mine/tables/results.md").is_file(), "another layout is written next to it"
    assert (outputs / "reports/mine/layouts/full/tables/full.md").is_file()
    assert main([*words, "--compare", "mauve2021/table3"]) == 0
    assert (outputs / "reports/mine/layouts/compare/tables/compare-mauve2021-table3.md").is_file()
    assert main([*words, "--where", "m.j=4"]) == 2
    assert "no option 'j' of m" in capsys.readouterr().err
