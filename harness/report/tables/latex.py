"""Tables as LaTeX (booktabs), safe for any text in names."""

from __future__ import annotations

import unicodedata

from openended.harness.report.tables.clean import clean_table
from openended.harness.report.tables.table import Cell, Column, Table, arrow

SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "|": r"\textbar{}",
    "<": r"\textless{}", ">": r"\textgreater{}",
    "\"": r"\textquotedbl{}", "`": r"\textasciigrave{}", "±": r"$\pm$", "–": "--", "—": "---", "−": "$-$",
    "×": r"$\times$",
    "≪": r"$\ll$",
    "≈": r"$\approx$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "≤": r"$\leq$", "≥": r"$\geq$", "…": r"\ldots{}",
    "Δ": r"$\Delta$", "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "ε": r"$\epsilon$", "η": r"$\eta$",
    "θ": r"$\theta$", "λ": r"$\lambda$", "μ": r"$\mu$", "π": r"$\pi$", "ρ": r"$\rho$", "σ": r"$\sigma$", "τ": r"$\tau$",
    "→": r"$\rightarrow$", "∞": r"$\infty$", "·": r"$\cdot$", "’": "'", "‘": "`", "“": "``", "”": "''",
    "†": r"$\dagger$",
    "∪": r"$\cup$", "²": r"$^2$", "‖": r"$\|$",
}  # fmt: skip
PREAMBLE = "% Needs in the preamble: \\usepackage[T1]{fontenc}, \\usepackage{booktabs}, \\usepackage{graphicx}\n"


def escape(text: str) -> str:
    """Return text that LaTeX prints as it stands; what pdfLaTeX has no letter for loses its accent or becomes `?`."""
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
    r"""Write a `table` environment; it shrinks to the line if it is wider."""
    table = clean_table(table)
    heads = [_first(escape(table.head)), *(["seeds"] if table.show_seeds else [])]
    heads += [escape(c.title) + (f" ${_arrow(c)}$" if c.direction != "none" else "") for c in table.columns]
    align = "l" + ("r" if table.show_seeds else "") + "r" * len(table.columns)
    lines = [
        PREAMBLE + r"\begin{table}[t]",
        r"\centering\small",
        rf"\caption{{{escape(table.title)}. {escape(table.legend())}}}",
        rf"\label{{tab:{_label(table.name)}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{align}}}",
        r"\toprule",
        " & ".join(heads) + r" \\",
        r"\midrule",
    ]
    for i, row in enumerate(table.rows):
        if row.rule and i:
            lines.append(r"\midrule")
        seeds = [str(row.seeds or "")] if table.show_seeds else []
        label = rf"\emph{{{escape(row.label)}}}" if row.system == "human" else _first(escape(row.label))
        cells = [_cell(table, cell, column) for cell, column in zip(row.cells, table.columns, strict=True)]
        lines.append(" & ".join([label, *seeds, *cells]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}}", *_foot(table), r"\end{table}", ""]
    return "\n".join(lines)


def _first(text: str) -> str:
    r"""Part the first cell of a row from the command before it: `\\ [x]` would be a length, `\\ *` a variant."""
    return f"{{}}{text}" if text.startswith(("[", "*")) else text


def _arrow(column: Column) -> str:
    return "".join(SPECIAL.get(c, c) for c in arrow(column.direction)).replace("$", "")


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
    signatures = [rf"\texttt{{{_breakable(s)}}}" for s in table.signatures()]
    parts = [*notes, *(escape(r) for r in table.remarks), *signatures]
    if not parts:
        return []
    return [
        r"\par\smallskip",
        r"\begin{minipage}{\linewidth}\scriptsize\raggedright",
        *(rf"{p}\par" for p in parts),
        r"\end{minipage}",
    ]


def _breakable(signature: str) -> str:
    """Let a long signature break after its bars."""
    return r"\textbar\allowbreak{}".join(escape(part) for part in signature.split("|"))
