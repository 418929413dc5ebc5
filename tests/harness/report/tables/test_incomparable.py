"""A leaderboard shows values of another signature as what they are: not comparable."""

from __future__ import annotations

import math
from dataclasses import replace

from openended.harness.report import build_report
from openended.harness.report.tables.incomparable import NOT_COMPARABLE, mark_incomparable
from openended.harness.results import Layout, read_results
from tests.harness.report.synthetic import result, write_run

INTERVAL = {"m": {"low": 0.4, "high": 0.6, "std_error": 0.05, "level": 0.95, "method": "bootstrap", "replicates": 200}}


def write(folder, decoder, value, options, seed=0):
    rows = [result("model", "m", {"m": value}, direction="higher", options=options, intervals=INTERVAL)]
    return write_run(folder, decoder, seed, results=rows)


def test_the_most_frequent_signature_has_the_column_and_others_say_so(tmp_path):
    write(tmp_path / "a", "greedy", 0.5, "|k:4")
    write(tmp_path / "a", "nucleus", 0.4, "|k:4")
    write(tmp_path / "a", "top_k", 0.9, "|k:5")
    report = build_report([tmp_path / "a"], tmp_path / "out", layout="leaderboard")
    (table,) = report.tables
    cells = {row.label: row.cells[0] for row in table.rows}
    assert [c.value for c in (cells["greedy"], cells["nucleus p=0.95"])] == [0.5, 0.4]
    assert cells["greedy"].interval == (0.4, 0.6)
    assert math.isnan(cells["top-k k=40"].value)
    assert table.text(cells["top-k k=40"], table.columns[0])[0] == NOT_COMPARABLE
    assert cells["top-k k=40"].note == "Not comparable: its signature differs in k (5, the column has 4)."
    assert not cells["top-k k=40"].best
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "data-filter" in page
    assert "not comparable" in page
    assert "m|v:1|k:5" in page  # the signature of every cell
    assert not (tmp_path / "out" / "figures").exists()
    assert build_report([tmp_path / "a"], tmp_path / "out", layout="full", where={"decoder": "greedy"}).folder
    assert not (tmp_path / "out" / "index.html").exists()


def test_fields_that_one_signature_lacks_are_named(tmp_path):
    write(tmp_path, "greedy", 0.5, "|k:4")
    (item,) = read_results([tmp_path]).values
    cell = mark_incomparable(item, replace(item, signature=item.signature.replace("|k:4", "")))
    assert "k (4, the column has None)" in cell.note
    assert Layout(differing="mark").differing == "mark"
