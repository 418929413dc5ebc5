"""Labels and texts of anybody's making in every renderer of a table."""

from __future__ import annotations

import csv
import io
import re

import pytest

from openended.harness.report.tables.formats.clean import clean_table
from openended.harness.report.tables.formats.console import print_table
from openended.harness.report.tables.formats.latex import to_latex
from openended.harness.report.tables.formats.markdown import to_csv, to_markdown
from openended.harness.report.tables.table import Cell, Column, Table, TableRow

HOSTILE = [
    "\x1b[2J\x1b]0;title\x07", "[1cm] label", "*", "=cmd()", "@x", "\\input{/etc/passwd}", "a & b \\\\ c",
    "line\nbreak", "\u202eright to left", "$x_1^2$ #5 100%", "~`'\"|<>", "\x9b31m", "]", "{", "}", "\x00",
]  # fmt: skip


def table(text: str) -> Table:
    column = Column("m", text, text, "higher", signature=text)
    rows = (
        TableRow(text, "model", (Cell(0.5, note=text),)),
        TableRow("human", "human", (Cell(words=text),), rule=True),
    )
    return Table("name", text, (column,), rows, (text,), head=text)


def console(made: Table) -> str:
    from rich.console import Console

    out = io.StringIO()
    print_table(made, Console(file=out, width=150, force_terminal=False))
    return out.getvalue()


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("render", [console, to_markdown, to_latex, to_csv])
def test_no_renderer_lets_a_control_character_through(render, text):
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", render(table(text)))


@pytest.mark.parametrize("text", HOSTILE)
def test_no_cell_of_a_csv_begins_a_formula(text):
    for row in csv.reader(io.StringIO(to_csv(table(text)))):
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_row_of_a_latex_table_begins_with_an_option(text):
    made = to_latex(table(text))
    assert not re.search(r"(\\\\|\\toprule|\\midrule|\\bottomrule)\s*[\[*]", made)
    bare = re.sub(r"\\[{}]|^%.*", "", made, flags=re.MULTILINE)  # a signature in a comment stands as it is
    assert bare.count("{") == bare.count("}")


def test_labels_without_anything_special_are_not_touched():
    made = table("nucleus p=0.95")
    assert "nucleus p=0.95" in console(made)
    assert "{}nucleus" not in to_latex(made)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_clean_table_stays_so(text):
    once = clean_table(table(text))
    assert clean_table(once) == once
