"""The same table as Markdown, LaTeX, CSV and in the terminal; nothing in a name can break it."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import re
import shutil
import subprocess

import pytest

from openended.harness.report.tables.formats.console import print_table
from openended.harness.report.tables.formats.latex import to_latex
from openended.harness.report.tables.formats.latex_text import escape
from openended.harness.report.tables.formats.markdown import to_csv, to_markdown
from openended.harness.report.tables.table import Cell, Column, Table, TableRow

NASTY = r"a_b & c% $d$ {e} #f ~g ^h \i <j> |k| *l* `m` ε τ é 中"

TABLE = Table(
    "nasty name",
    f"Title {NASTY}",
    (Column("mauve", "mauve", f"MAUVE {NASTY}", "higher", 3, "mauve|v:1|n:5/5"), Column("p", "p", "PPL", "match_human", 1, "p|v:1")),
    (
        TableRow("human", "human", (Cell(0.957, note="The ceiling."), Cell(36.4))),
        TableRow(f"x {NASTY}", "model", (Cell(0.9, 0.01, 3, best=True), Cell(1234.5, signed=True, suffix="**")), seeds=3, rule=True),
        TableRow("beam", "model", (Cell(note=f"Reason {NASTY}"), Cell(-2.0)), seeds=1),
    ),
    (f"Remark {NASTY}",),
)  # fmt: skip


def test_markdown_has_one_line_a_row_and_as_many_cells_as_heads():
    lines = to_markdown(TABLE).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 5
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} == {6}
    assert "**0.900** ± 0.010" in rows[3]
    assert "+1,234.5\\*\\*" in rows[3]
    assert "– <sup>b</sup>" in rows[4]
    assert "*human*" in rows[2]
    assert "- `mauve|v:1|n:5/5`" in lines
    assert "<sup>a</sup> The ceiling." in lines
    assert "<j>" not in to_markdown(TABLE)


def test_csv_keeps_full_precision_and_reasons():
    heads, human, model, beam = csv.reader(io.StringIO(to_csv(TABLE)))
    assert heads == [
        "system",
        "kind",
        "mauve",
        "mauve sd",
        "mauve own sd",
        "mauve seeds",
        "mauve note",
        "p",
        "p sd",
        "p own sd",
        "p seeds",
        "p note",
    ]
    assert model[2:6] == ["0.9", "0.01", "", "3"]
    assert human[1] == "human"
    assert beam[2] == ""
    assert beam[6].startswith("Reason")


def has_siunitx() -> bool:
    """Say whether the TeX on this machine has the package that aligns the numbers."""
    finder = shutil.which("kpsewhich")
    return (
        finder is not None and subprocess.run([finder, "siunitx.sty"], capture_output=True, check=False).returncode == 0
    )


def test_latex_structure():
    text = to_latex(dataclasses.replace(TABLE, tex_width=2000.0))
    body = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 4
    assert [len(re.findall(r"(?<!\\)&", row)) for row in rows] == [3, 5, 5, 5]  # two headings span two columns
    assert r"\bfseries 0.900 & {\scriptsize $\pm$ 0.010}" in body
    assert r"+1234.5 & $^{**}$" in body
    assert "& -2.0 &" in body
    assert "S[table-format=1.3]" in text
    assert "S[table-format=+4.1]" in text
    assert "% human, MAUVE" in text[: text.index(r"\begin{table*}")], "notes are comments"
    printed = text[text.index(r"\begin{table*}") :]
    assert printed.count("{") - printed.count(r"\{") == printed.count("}") - printed.count(r"\}")
    assert printed.isascii() or set(printed) - {"é"} <= set(map(chr, range(128)))


def test_latex_escapes_everything():
    assert escape("a_b%") == r"a\_b\%"
    assert escape("\\") == r"\textbackslash{}"
    assert escape("τ≤½中\n") == r"$\tau$$\leq$12? ".replace("12", "12")
    assert escape("ŵ") == "w"


@pytest.mark.skipif(
    shutil.which("pdflatex") is None or not has_siunitx(),
    reason="needs pdflatex and siunitx: apt-get install texlive-latex-recommended texlive-science",
)
@pytest.mark.parametrize("width", [345.0, 120.0])
def test_latex_compiles(tmp_path, width):
    columns = tuple(dataclasses.replace(c, interval=i == 1) for i, c in enumerate(TABLE.columns))
    text = to_latex(dataclasses.replace(TABLE, tex_width=width, columns=columns))
    packages = re.findall(r"\\usepackage(?:\[\w+\])?\{\w+\}", text.splitlines()[0])
    document = ["\\documentclass{article}", *packages, "\\begin{document}", text, "\\end{document}"]
    (tmp_path / "t.tex").write_text("\n".join(document), encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
    assert (tmp_path / "t.pdf").stat().st_size > 1000


def test_the_terminal_shows_table_notes_and_signatures():
    from rich.console import Console

    out = io.StringIO()
    print_table(TABLE, Console(file=out, width=160, no_color=True), verbose=True)
    text = out.getvalue()
    for part in (
        "human",
        "0.900±0.010",
        "The ceiling.",
        "[b]",
        "mauve|v:1|n:5/5",
        "↑ higher, ≈ closer to human is better",
    ):
        assert part in text
    print_table(TABLE, Console(file=(narrow := io.StringIO()), width=60, no_color=True))
    assert "(more columns)" in narrow.getvalue()


def test_a_cell_without_a_value_is_a_dash_unless_nothing_belongs_there():
    column = Column("m", "m", "m", "none", 2)
    assert TABLE.text(Cell(math.nan), column) == ("–", "")
    assert TABLE.text(Cell(blank=True), column) == ("", "")
    assert TABLE.text(Cell(0.001, signed=True), column) == ("0.00", "")
    assert TABLE.text(Cell(1.0, 0.5, decimals=1), column) == ("1.0", "± 0.5")
    assert TABLE.text(Cell(1.0, 0.5, metric_error=0.25), column) == ("1.00", "± 0.50 (0.25)")
    assert TABLE.text(Cell(1.0, metric_error=0.25), column) == ("1.00", "(0.25)")


def test_words_begin_at_the_left_in_markdown():
    columns = (Column("", "source", "source", "none"), Column("m", "m", "M", "higher"))
    rows = (TableRow("one", "claim", (Cell(words="said"), Cell(0.5, n=1))),)
    table = Table("t", "T", columns, rows, head="Claim", show_seeds=False)
    assert to_markdown(table).splitlines()[3] == "| --- | --- | ---: |"


def test_the_terminal_shows_warnings_first_and_details_on_demand():
    from rich.console import Console

    table = dataclasses.replace(
        TABLE, title="Results on docs", warnings=("few texts",), rules=("Rounding.",),
        about=("Task docs; 500 examples.", "Newest run: 2026-01-01.", "Command: openended"),
    )  # fmt: skip
    shown = {}
    for verbose in (False, True):
        print_table(table, Console(file=(out := io.StringIO()), width=80, no_color=True), verbose=verbose)
        shown[verbose] = out.getvalue()
    assert shown[False].startswith("Results on docs · 500 examples")
    assert (
        shown[False].index("warning: few texts")
        < shown[False].index("↑ higher")
        < shown[False].index("[a] The ceiling.")
    )
    for detail in ("Rounding.", "Newest run", "Command: openended", "mauve|v:1"):
        assert detail not in shown[False]
        assert detail in shown[True]
