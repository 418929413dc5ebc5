"""The same table as Markdown, LaTeX, CSV and in the terminal; nothing in a name can break it."""

import csv
import io
import math
import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from openended.harness.core.errors import SpecError
from openended.harness.report.tables import frame as frames, table as tables
from openended.harness.report.tables.formats import latex, text as text_formats
from openended.harness.report.tables.formats.html import to_html
from openended.harness.report.tables.formats.latex import format_tabular, lay_out, to_latex
from openended.harness.report.tables.formats.text import clean, to_csv, to_markdown
from openended.harness.report.tables.frame import make_cell, make_notes, make_quantity
from openended.harness.report.tables.table import Table
from openended.harness.results.layout import Layout
from tests.harness.report.synthetic import print_columns, print_rows
from tests.helpers import cases, check_error

NASTY = r"a_b & c% $d$ {e} #f ~g ^h \i <j> |k| *l* `m` ε τ é 中"
HOSTILE = [
    "\x1b[2J\x1b]0;title\x07", "[1cm] label", "*", "=cmd()", "@x", "\\input{/etc/passwd}", "a & b \\\\ c",
    "line\nbreak", "\u202eright to left", "$x_1^2$ #5 100%", "~`'\"|<>", "\x9b31m", "]", "{", "}", "\x00",
]  # fmt: skip
TABLE = print_rows(
    (make_quantity("mauve", "mauve", f"MAUVE {NASTY}", "higher", 3, "mauve|v:1|n:5/5"), make_quantity("p", "p", "PPL", "match_human", 1, "p|v:1")),
    (
        ("human", "human", (make_cell(0.957, note="The ceiling."), 36.4)),
        (f"x {NASTY}", "model", (make_cell(0.9, 0.01, 3, best=True), make_cell(1234.5, signed=True, mark="**")), 3, True),
        ("beam", "model", (make_cell(note=f"Reason {NASTY}"), -2.0), 1),
    ),
    name="nasty name", title=f"Title {NASTY}", notes=make_notes([f"Remark {NASTY}"]),
)  # fmt: skip
GRID = print_rows(
    (make_quantity("mauve", "mauve", "MAUVE", "higher", 3), make_quantity("ppl", "ppl", "PPL (word level)", "match_human", 1)),
    (
        ("human", "human", (make_cell(note="Why."), 36.4)),
        ("[a] nucleus p=0.95", "model", (make_cell(0.9, best=True, rule="tests"), make_cell(1234.5, interval=(1200.0, 1300.0))), 2, True),
    ),
)  # fmt: skip


def wide(columns: int, rows: int = 3) -> Table:
    heads = [make_quantity(f"m{i}", f"m{i}", f"Metric {i}", "higher", 3, f"m{i}|v:1") for i in range(columns)]
    lines = [(f"system {r}", "model", [make_cell(0.5, 0.01, 3)] * columns, 3) for r in range(rows)]
    return print_rows(heads, lines, name="wide", title="Wide", about=("Task docs.", "Command: openended --multirun"))


def console(table: Table, width: int = 150, *, verbose: bool = False) -> str:
    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=False, no_color=True)
    text_formats.print_table(table, console, verbose=verbose)
    return out.getvalue()


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_breaks_out_of_a_format(text):
    rows = ((text, "model", (make_cell(0.5, note=text),)), ("human", "human", (text,), 0, True))
    column = make_quantity("m", text, text, "higher", signature=text)
    table = print_rows([column], rows, name="name", title=text, notes=make_notes([text]), heads=(text,))
    assert clean(clean(table)) == clean(table)
    own = "table|caption|thead|tbody|tr|th|td|b|p|br|div|span|sup|small|details|summary|code"
    assert not re.search(rf"<(?!/?({own})[ >])", to_html(table)), "nothing but our own tags"
    for render in (console, to_markdown, to_latex, to_csv, to_html):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", render(table)), render
    for row in csv.reader(io.StringIO(to_csv(table))):
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row)
    tex = to_latex(table)
    assert not re.search(r"(\\\\|\\toprule|\\midrule|\\bottomrule)\s*[\[*]", tex), "a row begins with an option"
    bare = re.sub(r"\\[{}]|^%.*", "", tex, flags=re.MULTILINE)  # a signature in a comment stands as it is
    assert bare.count("{") == bare.count("}")


def test_markdown_has_one_line_per_row_and_as_many_cells_as_heads():
    lines = to_markdown(TABLE).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 5
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} == {6}
    parts = {2: "*human*", 3: "**0.900** ± 0.010", 4: "– <sup>b</sup>"}
    assert all(part in rows[at] for at, part in parts.items())
    assert "+1,234.5\\*\\*" in rows[3]
    assert {"- `mauve|v:1|n:5/5`", "<sup>a</sup> The ceiling."} <= set(lines)
    assert "<j>" not in to_markdown(TABLE)
    words = [("one", "claim", ("said", 0.5))]
    columns = make_quantity("", "source", "source"), make_quantity("m", "m", "M", "higher")
    text = to_markdown(print_rows(columns, words, heads=("Claim",), show_seeds=False))
    assert text.splitlines()[3] == "| --- | --- | ---: |", "words begin at the left"
    columns = columns[0] | {"levels": ("GPT-2", "Small")}, columns[1] | {"levels": ("M ↑", "")}
    text = to_markdown(print_rows(columns, words, heads=("Claim",), show_seeds=False))
    assert text.splitlines()[2] == "| Claim | GPT-2<br>Small | M ↑ |"


def test_csv_keeps_full_precision_and_reasons():
    heads, human, model, beam = csv.reader(io.StringIO(to_csv(TABLE)))
    about = ("", " sd", " own sd", " low", " high", " seeds", " note")
    assert heads == ["system", "kind", *(f"mauve{a}" for a in about), *(f"p{a}" for a in about)]
    assert model[2:8] == ["0.9", "0.01", "", "", "", "3"]
    assert (human[1], beam[2]) == ("human", "")
    assert beam[8].startswith("Reason")
    column = make_quantity("m", "m", "M")
    spanned = print_rows([column] * 2, [("x", "model", (make_cell(0.9, interval=(0.8, 0.95)), 1.0))])
    assert next(csv.reader(io.StringIO(to_csv(spanned).splitlines()[1])))[2:7] == ["0.9", "", "", "0.8", "0.95"]
    columns = (c._replace(key="k", title=f"T{i}", gap=i > 1) for i, c in enumerate(TABLE.columns))
    twice = replace(TABLE, columns=tuple(columns))
    assert to_csv(twice).startswith("system,kind,T0,"), "columns of one key are named by their titles"


def test_latex_structure():
    text = to_latex(replace(TABLE, tex_width=2000.0))
    body = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert [len(re.findall(r"(?<!\\)&", row)) for row in rows] == [2, 4, 4, 4]  # two headings span two columns
    assert r"\bfseries 0.900 & {\scriptsize $\pm$ 0.010}" in body
    assert r"+1234.5 & $^{**}$" in body
    assert "& -2.0 &" in body
    assert "S[table-format=1.3]" in text
    assert "S[table-format=+4.1]" in text
    assert "% human, MAUVE" in text[: text.index(r"\begin{table*}")], "notes are comments"
    advice = r"\usepackage{fontspec}} and a font (\setmainfont) that has the letters 中"
    assert advice in text.replace("fontspec}", "fontspec}}")
    printed = text[text.index(r"\begin{table*}") :]
    assert printed.count("{") - printed.count(r"\{") == printed.count("}") - printed.count(r"\}")
    assert set(printed) - {"é", "中"} <= set(map(chr, range(128)))
    assert "fontspec" not in to_latex(GRID)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [("a_b%", r"a\_b\%"), ("\\", r"\textbackslash{}"), ("τ≤½中\n", r"$\tau$$\leq$12中 "), ("ŵ", "ŵ"), ("ｗ", "w")],
)
def test_latex_escapes_everything(text, escaped):
    assert latex.escape(text) == escaped


def test_numbers_are_aligned_and_a_second_column_follows_only_where_something_does():
    lines = format_tabular(lay_out(GRID), range(2), range(2))
    assert lines[0] == r"\begin{tabular}{@{}lS[table-format=1.3]S[table-format=4.1]@{~}l@{}}"
    assert lines[2] == (
        r"System & {MAUVE $\uparrow$} & \multicolumn{2}{c}{\shortstack{PPL $\approx$ \\ (word level) \\ {}[95\,\% CI]}} \\"
    )
    assert lines[4:7] == [
        r"\emph{Human} & {--} & 36.4 & \\",
        r"\midrule",
        r"{}[a] Nucleus, $p$~=~0.95 & \bfseries 0.900 & 1234.5 & {\scriptsize [1,200.0, 1,300.0]} \\",
    ]
    transposed = format_tabular(lay_out(GRID.transpose()), range(2), range(2))
    assert transposed[2] == r"Metric & {\emph{Human}} & {\shortstack{[a] Nucleus, \\ $p$~=~0.95}} \\"
    assert transposed[4] == r"MAUVE $\uparrow$ & -- & \textbf{0.900} \\"
    assert transposed[5].endswith(r"& 36.4 & 1,234.5 {\scriptsize [1,200.0, 1,300.0]} \\")
    words = print_columns("t", "T", ["x"], [(make_quantity("", "by", "by"), ["a & b"])])
    lines = format_tabular(lay_out(words), range(1), range(1))
    assert (lines[0], lines[4]) == (r"\begin{tabular}{@{}ll@{}}", r"x & a \& b \\")
    cells = ["no?", make_cell(5.0, mark="~")]
    marked = print_columns("t", "T", ["x", "y"], [(make_quantity("", "p", "p", decimals=0), cells)])
    lines = format_tabular(lay_out(marked), range(1), range(2))
    assert (lines[0], lines[4]) == (r"\begin{tabular}{@{}ll@{~}l@{}}", r"x & no? & \\")
    cells = GRID.rows[1].cells
    two = replace(GRID, rows=(GRID.rows[1]._replace(cells=(cells[0], replace(cells[1], rule="seeds"))),))
    (line,) = two.explain_bold()
    assert re.fullmatch(r"Bold in MAUVE: best, .*; bold in PPL \(word level\): nothing, .*\.", line)


def has_siunitx() -> bool:
    finder = shutil.which("kpsewhich")
    return (
        finder is not None and subprocess.run([finder, "siunitx.sty"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(
    shutil.which("pdflatex") is None or not has_siunitx(),
    reason="needs pdflatex and siunitx: apt-get install texlive-latex-recommended texlive-science",
)
@pytest.mark.parametrize(("engine", "width"), [("pdflatex", 345.0), ("pdflatex", 120.0), ("xelatex", 345.0)])
def test_latex_compiles(tmp_path, engine, width):
    if shutil.which(engine) is None:
        pytest.skip(f"needs {engine}")
    columns = tuple(c._replace(interval=i == 1) for i, c in enumerate(TABLE.columns))
    text = to_latex(replace(TABLE, tex_width=width, columns=columns))
    text = text.replace("中", "") if engine == "pdflatex" else text
    packages = re.findall(r"\\usepackage(?:\[\w+\])?\{\w+\}", text.splitlines()[0])
    document = ["\\documentclass{article}", *packages, "\\begin{document}", text, "\\end{document}"]
    (tmp_path / "t.tex").write_text("\n".join(document), encoding="utf-8")
    command = [engine, "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
    assert (tmp_path / "t.pdf").stat().st_size > 1000


@pytest.mark.parametrize(
    ("widths", "label", "width", "sizes"),
    [([10] * 4, 10, 50, [4]), ([10] * 5, 10, 50, [3, 2]), ([10] * 9, 10, 50, [3, 3, 3]), ([90, 10], 10, 50, [1, 1]), ([], 5, 9, [0])],
)  # fmt: skip
def test_pieces_fit_and_are_about_as_wide(widths, label, width, sizes):
    parts = text_formats.split_widths(widths, label, width)
    assert [len(p) for p in parts] == sizes
    assert [i for p in parts for i in p] == list(range(len(widths)))


def test_latex_splits_columns_and_rows_that_no_page_holds():
    text = to_latex(wide(17, rows=20))
    tabulars = re.findall(r"\\begin\{tabular\}\{(@.*?)\}\n(.*?)\\end\{tabular\}", text, re.DOTALL)
    assert len(tabulars) == text.count(r"\begin{table*}") > 2, "one tabular in each float"
    for align, body in tabulars:
        assert align.count("S[") <= 7, "more columns than a line holds at 8 points"
        assert all(f"system {r} &" in body for r in range(20)), "the systems stand in every part"
    assert "".join(body for _, body in tabulars).count("Metric") == 17
    assert text.count(r"\begin{table*}") == text.count(r"\end{table*}")
    assert len(re.findall("tabular}", to_latex(replace(wide(17), tex_width=2000.0)))) == 2

    text = to_latex(wide(2, rows=120))
    floats = text.split(r"\begin{table}")[1:]
    assert len(floats) == 3
    assert all(part.count("system") <= latex.LINES for part in floats)
    assert sum(part.count("system") for part in floats) == 120
    assert text.count(r"\label{") == 1
    assert text.count("continued") == text.count(r"\addtocounter{table}{-1}") == 2


def test_latex_keeps_signatures_and_commands_as_comments():
    plain = to_latex(wide(2))
    assert "% m0|v:1\n% m1|v:1\n" in plain
    assert r"\texttt{m0" not in plain
    assert "% Command: openended --multirun\n" in plain
    assert r"\caption{Wide (task docs); $\pm$: standard deviation over seeds.}" in plain
    noisy = print_rows([make_quantity("m0", "m0", "M")], [("one", "model", (make_cell(0.5, error=0.25),))])
    assert "T; in parentheses: metric's own std.}" in to_latex(noisy)
    assert r"\label{tab:wide}" in plain
    assert r"\label{tab:my-report-wide}" in to_latex(wide(2), "my report/wide")


def test_the_float_is_as_wide_as_the_table_needs():
    narrow, middle = wide(2), wide(6)
    assert r"\begin{table}" in to_latex(narrow)
    assert r"\begin{table*}[tp]" in (text := to_latex(middle))
    assert "system 0 &" in text, "systems are rows where they fit"
    assert r"\scriptsize\setlength" in (text := to_latex(middle)), "in smaller letters before metrics become rows"
    assert f"{latex.FITTED}\n\\begin{{tabular}}" in text
    assert latex.FITTED in to_latex(replace(wide(6), tex_width=455.0)), "an article's text may be narrower"
    column = to_latex(replace(middle, tex_width=219.0))
    assert r"\begin{table}[tp]" in column
    assert "Metric 5" in column
    named = replace(middle, rows=tuple(r._replace(label=f"{'long-name-' * 3}{r.label}") for r in middle.rows))
    both = to_latex(replace(named, tex_width=219.0))
    assert both.count(r"\begin{table*}[tp]") == both.count(r"\begin{tabular}") == 1, "over both columns, in one piece"


@pytest.mark.parametrize(
    ("label", "printed"),
    [("human", "Human"), ("nucleus p=0.95", "Nucleus, p = 0.95"), ("top-k k=40", "Top-k, k = 40"),
     ("gpt2 xtc threshold=0.1, length=96", "gpt2 XTC, threshold = 0.1, length = 96"), ("temperature=0.9", "T = 0.9"),
     ("beam b=4", "Beam, b = 4"), ("a, b (x=1)", "a, b (x=1)")],
)  # fmt: skip
def test_systems_are_named_as_in_an_article(label, printed):
    assert latex.write_label(label).replace("\u00a0", " ") == printed


def test_widths_count_outer_headings_and_small_letters_as_a_compiler_does():
    heads = [
        make_quantity(f"m{i}", f"m{i}", "M") | {"levels": ("an outer heading of two narrow columns", "M")}
        for i in (0, 1)
    ]
    grid = lay_out(print_rows(heads, [("x", "model", (0.5, 0.25))]))
    assert grid.measure(range(2)) > latex.estimate_points("an outer heading of two narrow columns")
    grid = lay_out(wide(2))
    assert 0.9 < grid.measure(range(2), latex.SMALL) / grid.measure(range(2)) < 1, "uncertainties are as small in both"


def test_metrics_become_rows_where_the_columns_do_not_fit():
    text = to_latex(wide(17, rows=2))
    assert text.count(r"\begin{tabular}") == text.count(r"\begin{table}") == 1
    assert r"Metric & {system 0} & {system 1}" in text
    assert r"Metric 16 $\uparrow$ & 0.500 {\scriptsize $\pm$ 0.010}" in text
    check_error(SpecError, r"latex_width.*100.*got 12", Layout, latex_width=12)


def test_a_notebook_shows_the_table_with_its_best_values():
    text = to_html(TABLE)
    assert "<b>0.900</b><small>± 0.010</small>" in text
    assert text.count("<tr") == 4
    assert "↑ higher, ≈ closer to human is better" in text
    gap = print_rows([make_quantity("m", "m", "|Δ M|", "lower", gap=True)], [("x", "model", (0.5,))])
    assert "|Δ M|\u2060\u00a0↓" in to_html(gap), "no line begins with the arrow"


def test_the_terminal_shows_warnings_first_and_details_on_demand():
    table = replace(
        TABLE, title="Results on docs", notes=make_notes([], ["few texts"], ["Rounding."]),
        about=("Task docs; 500 examples.", "Newest run: 2026-01-01.", "Command: openended"),
    )  # fmt: skip
    short, long = console(table, 80), console(table, 160, verbose=True)
    assert short.startswith("Results on docs · 500 examples")
    assert short.index("warning: few texts") < short.index("↑ higher") < short.index("[a] The ceiling.")
    for detail in ("Rounding.", "Newest run", "Command: openended", "mauve|v:1|n:5/5"):
        assert detail not in short
        assert detail in long
    for part in ("human", "0.900±0.010", "[b]", "↑ higher, ≈ closer to human is better"):
        assert part in long
    assert re.search(r"\n x a_b.* 3 +0\.900±0\.010", long), "of three seeds"
    assert "Bold" not in long, "nothing is bold where there is no terminal"
    assert "(more columns)" in console(TABLE, 60)
    table = replace(TABLE, notes=make_notes(f"Remark {n}." for n in range(5)))
    short, long = console(table), console(table, verbose=True)
    assert ("note: Remark 0." in short, "Remark 4." in short, "note: Remark 4." in long) == (True, False, True)
    assert "4 more notes: in nasty name.md, or with -v" in short


@cases(
    "cell, text",
    (make_cell(), ("–", "")), (make_cell(blank=True), ("", "")), (make_cell(0.001, signed=True), ("0.00", "")),
    (make_cell(0.5, signed=True), ("+0.50", "")), (make_cell(1.0, 0.5, own_decimals=1), ("1.0", "± 0.5")),
    (make_cell(1.0, 0.5, error=0.25), ("1.00", "± 0.50 (0.25)")), (make_cell(1.0, error=0.25), ("1.00", "(0.25)")),
    (make_cell(0.5, 0.1, error=0.2, interval=(0.4, 0.7)), ("0.50", "[0.40, 0.70]")),
)  # fmt: skip
def test_a_cell_shows_one_number_and_one_uncertainty_which_heading_or_legend_explains(cell, text):
    table = print_rows([make_quantity("m", "m", "M", "higher", 2)], [("x", "model", (cell,))])
    ((printed,),) = (row.cells for row in table.rows)
    assert (printed.number, printed.spread) == text
    assert ("±" in "".join(table.legend())) == ("±" in text[1])
    assert ("own std" in "".join(table.legend())) == ("(" in text[1])
    assert table.columns[0].heading == ("M ↑ [95 % CI]" if printed.interval else "M ↑")


@pytest.mark.parametrize(
    ("values", "spreads", "decimals"),
    [([0.5, 1.9], [], 3), ([2.0], [], 2), ([99.9], [], 2), ([100.0], [], 1), ([1000.0], [], 0), ([math.nan], [], 3),
     ([38.2], [3.2], 1), ([38.2], [12.0], 0), ([0.9], [0.012], 3), ([0.9], [0.12], 2), ([0.9], [0.0], 3)],
)  # fmt: skip
def test_decimals_follow_size_and_spread(values, spreads, decimals):
    assert frames.choose_decimals(values, spreads) == decimals


def test_numbers_are_written_without_minus_zero_and_notes_have_letters():
    assert (frames.format_fixed(-0.0001, 3), frames.format_fixed(12345.678, 1)) == ("0.000", "12,345.7")
    assert [tables.format_letters(i) for i in (0, 25, 26, 27, 51, 52)] == ["a", "z", "aa", "ab", "az", "ba"]
