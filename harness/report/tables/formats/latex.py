"""Format tables as LaTeX (booktabs) with all text escaped."""

from __future__ import annotations

import re
import unicodedata

from openended.harness.report.tables.formats.clean import clean_table
from openended.harness.report.tables.formats.split import pieces
from openended.harness.report.tables.table import Cell, Column, Table, TableRow, arrow

SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "|": r"\textbar{}",
    "<": r"\textless{}", ">": r"\textgreater{}",
    "\"": r"\textquotedbl{}", "`": r"\textasciigrave{}", "±": r"$\pm$", "–": "--", "—": "---", "−": "$-$",
    "×": r"$\times$",
    "≪": r"$\ll$",
    "≈": r"$\approx$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "≤": r"$\leq$", "≥": r"$\geq$", "…": r"\ldots{}",
    "Δ": r"$\Delta$", "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "ε": r"$\epsilon$", "η": r"$\eta$",
    "θ": r"$\theta$", "κ": r"$\kappa$", "λ": r"$\lambda$", "μ": r"$\mu$", "π": r"$\pi$", "ρ": r"$\rho$",
    "σ": r"$\sigma$", "τ": r"$\tau$",
    "→": r"$\rightarrow$", "∞": r"$\infty$", "·": r"$\cdot$", "’": "'", "‘": "`", "“": "``", "”": "''",
    "†": r"$\dagger$",
    "∪": r"$\cup$", "²": r"$^2$", "‖": r"$\|$",
}  # fmt: skip
PREAMBLE = "% Needs in the preamble: \\usepackage[T1]{fontenc}, \\usepackage{booktabs}, \\usepackage{graphicx}\n"
DIGIT, THIN, BROAD = 4.25, 2.5, 6.2  # widths of characters in points at 8 points (\\footnotesize)
SMALL, BOLD = 0.88, 1.15  # width factors of uncertainties (\\scriptsize) and bold values
SEP = 4.0  # space on each side of a column in points
LINES = 52  # per page at that size
LONG = 14  # maximal length of a heading on one line


def escape(text: str) -> str:
    """Escape text for LaTeX; characters that pdfLaTeX lacks lose their accent or become `?`."""
    return "".join(_char(c) for c in text)


def _char(char: str) -> str:
    if char in SPECIAL:
        return SPECIAL[char]
    if char.isascii():
        return char if char.isprintable() else " "
    if "À" <= char <= "ÿ":
        return char
    plain = unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()
    return "".join(SPECIAL.get(c, c) for c in plain) or "?"


def to_latex(table: Table) -> str:
    r"""Format a table as one `table` environment, or several if the rows exceed a page.

    Columns that do not fit the line follow in another tabular with the same row labels. A tabular that is still too
    wide (one column of long words) is scaled down.
    """
    table = clean_table(table)
    tabulars = [
        (len(rows) + 4, _tabular(table, rows, columns))
        for rows in _pages(table)
        for columns in pieces([_width(table, i) for i in range(len(table.columns))], _label_width(table), _room(table))
    ]
    floats: list[tuple[int, list[str]]] = []
    for height, lines in tabulars:
        if not floats or floats[-1][0] + height > LINES:
            floats.append((height, lines))
        else:
            used, before = floats[-1]
            floats[-1] = (used + height, [*before, r"\par\medskip", *lines])
    out = [PREAMBLE.rstrip("\n")]
    if not table.tex_signatures:
        out += [f"% {signature}" for signature in table.signatures()]
    for index, (_, lines) in enumerate(floats):
        caption = (
            f"{escape(table.title)}. {escape(table.legend())}" if not index else f"{escape(table.title)}, continued."
        )
        foot = _foot(table) if index + 1 == len(floats) else []
        out += [
            r"\begin{table}[tp]",
            r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
            *([r"\addtocounter{table}{-1}"] if index else []),
            rf"\caption{{{caption}}}",
            *([] if index else [rf"\label{{tab:{_label(table.name)}}}"]),
            *lines,
            *foot,
            r"\end{table}",
        ]
    return "\n".join([*out, ""])


def _pages(table: Table) -> list[range]:
    """Split the rows into pages."""
    most = LINES - 4
    return [range(i, min(i + most, len(table.rows))) for i in range(0, max(len(table.rows), 1), most)]


def _room(table: Table) -> float:
    return table.tex_width + 2 * SEP  # the outer column separators may extend beyond the line


def _label_width(table: Table) -> float:
    longest = max([_points(table.head), *(_points(row.label) for row in table.rows)])
    return longest + 2 * SEP + (_points("seeds") + 2 * SEP if table.show_seeds else 0)


def _width(table: Table, at: int) -> float:
    """Estimate the width of a column in points."""
    column = table.columns[at]
    heads = [_points(line) for line in _titles(column)]
    heads[0] += _points(f" {arrow(column.direction, column.target)}")
    cells = []
    for row in table.rows:
        number, spread = table.text(row.cells[at], column)
        small = _points(f" {spread}" * bool(spread) + table.mark(row.cells[at]))
        cells.append(_points(number) * (BOLD if row.cells[at].best else 1) + SMALL * small)
    return max([*heads, *cells]) + 2 * SEP


def _points(text: str) -> float:
    """Estimate the width of a text in points."""
    wide = (THIN if c in " .,:;()[]|'ijl" else BROAD if c.isupper() or c in "mw±≈↑↓→" else DIGIT for c in text)
    return sum(wide)


def _titles(column: Column) -> list[str]:
    """Split a long column title into lines, with the parts in parentheses below."""
    title, sign, rest = column.title.partition(" (")
    if not sign or len(column.title) <= LONG:
        return [column.title]
    return [title, *(f"({part}" for part in rest.split(" ("))]


def _head(column: Column) -> str:
    lines = [_first(escape(line)) for line in _titles(column)]
    lines[0] += f" ${_arrow(column)}$" if column.direction != "none" else ""
    return lines[0] if len(lines) == 1 else r"\shortstack[r]{" + r" \\ ".join(lines) + "}"


def _tabular(table: Table, rows: range, columns: range) -> list[str]:
    columns_here = [table.columns[i] for i in columns]
    heads = [_first(escape(table.head)), *(["seeds"] if table.show_seeds else []), *map(_head, columns_here)]
    align = "l" + ("r" if table.show_seeds else "") + "r" * len(columns_here)
    lines = [
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{align}}}",
        r"\toprule",
        " & ".join(heads) + r" \\",
        r"\midrule",
    ]
    for i in rows:
        row = table.rows[i]
        if row.rule and i != rows.start:
            lines.append(r"\midrule")
        lines.append(row_latex(table, row, columns))
    return [*lines, r"\bottomrule", r"\end{tabular}}"]


def row_latex(table: Table, row: TableRow, columns: range) -> str:
    """Format one line of a tabular: the row label and the cells of some columns."""
    seeds = [str(row.seeds or "")] if table.show_seeds else []
    label = rf"\emph{{{escape(row.label)}}}" if row.system == "human" else _first(escape(row.label))
    cells = [_cell(table, row.cells[k], table.columns[k]) for k in columns]
    return " & ".join([label, *seeds, *cells]) + r" \\"


def _first(text: str) -> str:
    r"""Protect the first cell of a row, since LaTeX reads `\\ [x]` as a length and `\\ *` as a variant."""
    return f"{{}}{text}" if text.startswith(("[", "*")) else text


def _arrow(column: Column) -> str:
    return "".join(SPECIAL.get(c, c) for c in arrow(column.direction, column.target)).replace("$", "")


def _label(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in name)


def _cell(table: Table, cell: Cell, column: Column) -> str:
    number, spread = table.text(cell, column)
    stars = len(number) - len(number.rstrip("*"))
    number = escape(number.rstrip("*"))
    number = f"$-${number[1:]}" if number.startswith("-") and number != "--" else number
    text = rf"\textbf{{{number}}}" if cell.best else number
    text += f"$^{{{'*' * stars}}}$" if stars else ""
    spread = spread.replace("±", r"$\pm$")
    text += rf" {{\scriptsize {spread}}}" if spread else ""
    return text + (rf"\textsuperscript{{{table.mark(cell)}}}" if cell.note else "")


def _foot(table: Table) -> list[str]:
    notes = [rf"\textsuperscript{{{table.mark(Cell(note=n))}}}~{escape(n)}" for n in table.notes()]
    signatures = [rf"\texttt{{{_breakable(s)}}}" for s in table.signatures()] if table.tex_signatures else []
    # LaTeX would print the two hyphens of a command-line option as one dash.
    about = [re.sub("([/=,])", r"\1\\allowbreak{}", escape(line).replace("--", "-{}-")) for line in table.about]
    parts = [*notes, *(escape(r) for r in table.remarks), *about, *signatures]
    if not parts:
        return []
    return [
        r"\par\smallskip",
        r"\begin{minipage}{\linewidth}\scriptsize\raggedright",
        *(rf"{p}\par" for p in parts),
        r"\end{minipage}",
    ]


def _breakable(signature: str) -> str:
    """Allow line breaks after the bars of a signature."""
    return r"\textbar\allowbreak{}".join(escape(part) for part in signature.split("|"))
