"""Test the layout of LaTeX tables: alignment, headings, and metrics as rows."""

from openended.harness.report.tables.formats.latex_grid import format_tabular, lay_out, lay_out_transposed
from openended.harness.report.tables.table import Cell, Column, Table, TableRow

TABLE = Table(
    "t", "T",
    (Column("mauve", "mauve", "MAUVE", "higher", 3), Column("ppl", "ppl", "PPL (word level)", "match_human", 1, interval=True)),
    (
        TableRow("human", "human", (Cell(note="Why."), Cell(36.4))),
        TableRow("[a] nucleus p=0.95", "model", (Cell(0.9, best=True), Cell(1234.5, interval=(1200.0, 1300.0))), seeds=2, rule=True),
    ),
)  # fmt: skip


def test_numbers_are_aligned_and_a_second_column_follows_only_where_something_does():
    lines = format_tabular(lay_out(TABLE), range(3), range(2))
    assert lines[0] == r"\begin{tabular}{lS[table-format=1]S[table-format=1.3]S[table-format=4.1]@{~}l}"
    assert lines[2] == (
        r"System & {seeds} & {MAUVE $\uparrow$} & \multicolumn{2}{c}{\shortstack{PPL $\approx$ \\ (word level) \\ {}[95\,\% CI]}} \\"
    )
    assert lines[4] == r"\emph{human} &  & {--} & 36.4 & \\"
    assert lines[5] == r"\midrule"
    assert lines[6] == r"{}[a] nucleus p=0.95 & 2 & \bfseries 0.900 & 1234.5 & {\scriptsize [1,200.0, 1,300.0]} \\"


def test_metrics_as_rows():
    lines = format_tabular(lay_out_transposed(TABLE), range(2), range(3))
    assert lines[2] == r"Metric & {\emph{human}} & \multicolumn{2}{c}{\shortstack{[a] nucleus \\ p=0.95}} \\"
    assert lines[4] == r"seeds &  & {2} & \\"
    assert lines[6] == r"MAUVE $\uparrow$ & {--} & \bfseries 0.900 & \\"


def test_a_column_of_words_begins_at_the_left():
    table = Table(
        "t", "T", (Column("", "by", "by", "none"),), (TableRow("x", "model", (Cell(words="a & b"),)),), show_seeds=False
    )
    lines = format_tabular(lay_out(table), range(1), range(1))
    assert lines[0] == r"\begin{tabular}{ll}"
    assert lines[4] == r"x & a \& b \\"
