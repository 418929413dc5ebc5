"""A report says that the same systems were reported before with other data."""

import json

from openended.harness.report import build_report
from openended.harness.report.looks import FILE
from tests.harness.report.synthetic import result, write_run


def test_other_seeds_or_texts_are_another_look_and_the_same_data_is_none(tmp_path):
    def report() -> str:
        tables = build_report([runs], tmp_path / "report", layout="default", figures=False, page=False).tables
        return " ".join(tables[0].warnings)

    runs = tmp_path / "runs"
    runs.mkdir()
    write_run(runs, "nucleus", 0, results=[result("model", "m", {"m": 0.5})])
    assert "look" not in report()
    assert "look" not in report()
    write_run(runs, "nucleus", 1, results=[result("model", "m", {"m": 0.6})])
    assert "look 2 at these systems: an earlier report had other numbers of seeds" in report()
    assert "look 2" in report()
    write_run(runs, "nucleus", 2, results=[result("model", "m", {"m": 0.6})])
    assert "look 3 at these systems: 2 earlier reports" in report()
    write_run(runs, "greedy", 0, results=[result("model", "m", {"m": 0.1})])  # another system is no look at these
    assert "look 3" in report()
    assert len(json.loads((tmp_path / "report" / FILE).read_text())) == 4
    (tmp_path / "report" / FILE).write_text("{")
    assert "look" not in report()
