"""Wide tables are cut by columns, and long ones by rows, into parts that fit a page."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from openended.harness.core.errors import SpecError
from openended.harness.report.tables.formats.latex import LINES, to_latex
from openended.harness.report.tables.formats.markdown import WIDTH, to_markdown
from openended.harness.report.tables.formats.split import pieces
from openended.harness.report.tables.table import Cell, Column, Table, TableRow
from openended.harness.results.layout import Layout


def wide(columns: int, rows: int = 3) -> Table:
    heads = tuple(Column(f"m{i}", f"m{i}", f"Metric {i}", "higher", 3, f"m{i}|v:1") for i in range(columns))
    made = tuple(TableRow(f"system {r}", "model", tuple(Cell(0.5, 0.01, 3) for _ in heads), 3) for r in range(rows))
    return Table("wide", "Wide", heads, made, about=("Task docs.", "Command: openended --multirun"))


@pytest.mark.parametrize(
    ("widths", "label", "width", "sizes"),
    [([10] * 4, 10, 50, [4]), ([10] * 5, 10, 50, [3, 2]), ([10] * 9, 10, 50, [3, 3, 3]), ([90, 10], 10, 50, [1, 1]), ([], 5, 9, [0])],
)  # fmt: skip
def test_pieces_fit_and_are_about_as_wide(widths, label, width, sizes):
    made = pieces(widths, label, width)
    assert [len(p) for p in made] == sizes
    assert [i for p in made for i in p] == list(range(len(widths)))


def test_latex_splits_seventeen_columns_at_a_readable_size():
    text = to_latex(wide(17, rows=20))
    tabulars = re.findall(r"\\begin\{tabular\}\{(l.*?)\}\n(.*?)\\end\{tabular\}", text, re.DOTALL)
    assert len(tabulars) > 2
    for align, body in tabulars:
        assert align.count("S[") <= 7, "more columns than a line holds at 8 points"
        assert all(f"system {r} &" in body for r in range(20)), "the systems stand in every part"
    assert "".join(body for _, body in tabulars).count("Metric") == 17
    assert text.count(r"\begin{table*}") == text.count(r"\end{table*}")
    assert len(re.findall("tabular}", to_latex(replace(wide(17), tex_width=2000.0)))) == 2


def test_latex_puts_no_more_rows_into_a_float_than_a_page_holds():
    text = to_latex(wide(2, rows=120))
    floats = text.split(r"\begin{table*}")[1:]
    assert len(floats) == 3
    assert all(part.count("system") <= LINES for part in floats)
    assert sum(part.count("system") for part in floats) == 120
    assert text.count(r"\label{") == 1
    assert text.count("continued") == text.count(r"\addtocounter{table}{-1}") == 2


def test_latex_prints_signatures_on_demand_and_keeps_them_as_comments_else():
    plain, printed = to_latex(wide(2)), to_latex(replace(wide(2), tex_signatures=True))
    assert "% m0|v:1\n% m1|v:1\n" in plain
    assert r"\texttt{m0" not in plain
    assert r"\texttt{m0\textbar" in printed
    assert "% m0|v:1" not in printed


def test_metrics_become_rows_where_the_columns_do_not_fit():
    text = to_latex(wide(17))
    assert text.count(r"\begin{tabular}") == text.count(r"\begin{table*}") == 1
    assert r"Metric & \multicolumn{2}{c}{system 0} & \multicolumn{2}{c}{system 1}" in text
    assert r"Metric 16 $\uparrow$ & 0.500 & {\scriptsize $\pm$ 0.010}" in text
    assert "seeds & {3} &" in text


def test_commands_are_comments_in_latex():
    assert "% Command: openended --multirun\n" in to_latex(wide(1))
    assert r"\caption{Wide: Task docs." in to_latex(wide(1))


def test_markdown_splits_columns_that_no_page_holds():
    lines = to_markdown(wide(17)).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert max(map(len, rows)) < WIDTH + 40
    assert sum(row.count("Metric") for row in rows) == 17
    assert [row.startswith("| System | seeds |") for row in rows].count(True) == len(rows) / 5 > 1
    assert sum(row.startswith("| System") for row in to_markdown(wide(3)).splitlines()) == 1


def test_a_line_too_narrow_for_any_table_is_refused():
    with pytest.raises(SpecError, match=r"latex_width.*100.*got 12"):
        Layout(latex_width=12)
