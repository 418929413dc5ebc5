"""What the store holds."""

import shutil

import pytest

from openended.harness.app.commands.store import find_named_entries, format_sizes, main, measure_entries


def test_sizes_by_stage_and_by_name(here, capsys):
    assert main([]) == 0
    said = capsys.readouterr().out
    assert "stage      generate          3 entries" in said
    assert "runs       p-sweep: " in said
    assert "unnamed    0 entries" in said
    sizes, names = measure_entries(here / "outputs/store"), find_named_entries(here / "outputs/runs")
    assert names["p-sweep"] == set(sizes)


def test_what_no_run_names_is_counted():
    sizes = {"generate/aa/1": 10, "measure/bb/2": 5, "measure/cc/3": 2}
    names = {"a": {"generate/aa/1", "measure/bb/2"}, "b": {"generate/aa/1"}}
    lines = list(format_sizes({place: size * 10**6 for place, size in sizes.items()}, names))
    assert "runs       a: 2 entries, 15.0 MB, 5.0 MB of it not shared" in lines
    assert lines[-1] == "unnamed    1 entries, 2.0 MB: no run names them"


@pytest.fixture
def own(here, tmp_path, monkeypatch):
    """A copy of the outputs, to be damaged."""
    shutil.copytree(here / "outputs", tmp_path / "outputs")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "outputs"


def test_a_store_is_checked_to_the_byte(own, capsys):
    assert main(["check"]) == 0
    assert " sound" in capsys.readouterr().out
    place = next((own / "store/generate").glob("*/*/data.arrow"))
    place.write_bytes(place.read_bytes()[:-1])
    assert main(["check"]) == 2
    said = capsys.readouterr()
    assert f"damaged    {place.parent.relative_to(own / 'store')}" in said.out
    assert "1 entries are damaged" in said.err


def test_what_no_run_names_goes_when_it_is_asked_for(own, capsys):
    for record in list((own / "runs").rglob("record.json"))[:1]:
        shutil.rmtree(record.parent)
    before = measure_entries(own / "store")
    assert main(["gc", "--unnamed", "--days", "0", "--dry-run"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "would be deleted" in said[-1]
    assert measure_entries(own / "store") == before
    assert main(["gc", "--days", "0"]) == 0
    assert measure_entries(own / "store") == before, "without --unnamed what is sound stays"
    assert main(["gc", "--unnamed", "--days", "0"]) == 0
    assert set(before) - set(measure_entries(own / "store")) == set(said[:-1]) != set()
