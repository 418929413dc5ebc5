"""Format tables as LaTeX (booktabs, siunitx) for a paper; provenance and notes are comments."""

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from openended.harness.core import load_members
from openended.harness.report.tables.formats.text import clean, split_widths
from openended.harness.report.tables.table import DAGGER, Cell, Column, Table, TableRow, arrow

PREAMBLE = (
    "% Needs in the preamble: \\usepackage[T1]{fontenc}, \\usepackage{booktabs}, \\usepackage{graphicx}, "
    "\\usepackage{siunitx}"
)
NUMBERS = r"\sisetup{group-separator={,}, group-minimum-digits=4, retain-explicit-plus, detect-weight}"
LINES = 52  # per page at \footnotesize
COLUMN, PAGE = 219.0, 455.0  # points of a column of a two-column article (ACL), and of its page
MAX_LISTED_CELLS = 3  # in a comment
MARGIN = 1.03  # of estimated widths
SMALL, BOLD = 0.88, 1.15  # width factors of \scriptsize (uncertainties, wide tables) and of bold values
FONTS = {1.0: r"\footnotesize", SMALL: r"\scriptsize"}
UNICODE = "% Needs XeLaTeX or LuaLaTeX with \\usepackage{{fontspec}} and a font (\\setmainfont) that has the letters {}"
LEAST_SCALE = 0.85  # of a table that is scaled down
PROSE = 130.0  # points of a column of text; longer text is wrapped
SEP = 4.0  # space on each side of a column in points
LONG = 14  # characters of a heading on one line
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
    "†": r"$\dagger$", "\u00a0": "~",
    "∪": r"$\cup$", "²": r"$^2$", "‖": r"$\|$",
}  # fmt: skip
# Decoders and options whose names in an article are not those of the command line.
NAMES = {"dry": "DRY", "llada": "LLaDA", "mdlm": "MDLM", "remdm": "ReMDM", "xtc": "XTC", "top_n_sigma": "Top-nσ"}
GREEK = {"temperature": "T", "eps": "ε", "tau": "τ", "alpha": "α"}
OPTIONS = {
    "num_beams": " {value}", "b": " {value}", "no_repeat_ngram_size": " + no {value}-gram repeat",
    **{name: f", {letter}\u00a0=\u00a0{{value}}" for name, letter in GREEK.items()},
}  # fmt: skip
DIGIT, THIN, BROAD = 4.25, 2.5, 6.2  # widths of characters in points at 8 points (\\footnotesize)


@dataclass(frozen=True, slots=True)
class GridCell:
    """The plain text of one cell: what siunitx aligns or words instead, and what follows it."""

    number: str = ""  # with sign, point and thousands separators; empty if the cell has no number
    words: str = ""
    suffix: str = ""  # stars of a test and other text after the number
    spread: str = ""  # uncertainty
    bold: bool = False

    @property
    def text(self) -> str:
        return escape(self.words)

    @property
    def tail(self) -> str:
        """LaTeX after the number."""
        rest = self.suffix.lstrip("*")
        stars = "*" * (len(self.suffix) - len(rest))
        small = [rf"{{\scriptsize {escape(text)}}}" for text in (rest.strip(), self.spread) if text]
        return " ".join([*([f"$^{{{stars}}}$"] if stars else []), *small])


@dataclass(frozen=True)
class GridColumn:
    """A heading, in lines of LaTeX, and the cells below it."""

    head: tuple[str, ...]
    cells: tuple[GridCell, ...]
    head_points: float
    is_aligned: bool = True
    """Whether its numbers are of one metric, so that their decimal points are aligned; otherwise they are centered."""

    @cached_property
    def has_tail(self) -> bool:
        """Whether a second column follows, with what stands after the numbers."""
        return self.is_aligned and any(cell.tail for cell in self.cells)

    @cached_property
    def has_words(self) -> bool:
        """Whether it holds text, which is aligned at the left."""
        return any(len(cell.text) > len("--") for cell in self.cells)

    def find_number_format(self) -> tuple[str, int, int]:
        """Return a sign if any number has one, and the most digits before and after the point."""
        numbers = [cell.number.replace(",", "") for cell in self.cells if cell.number]
        sign = next((n[0] for n in numbers if n[0] in "+-"), "")
        whole = max((len(n.lstrip("+-").partition(".")[0]) for n in numbers), default=0)
        return sign, whole, max((len(n.partition(".")[2]) for n in numbers), default=0)

    @cached_property
    def points(self) -> float:
        """Estimated width with the space around it."""
        sign, whole, decimals = self.find_number_format()
        digits = f"{sign}{'0' * whole}{',' * ((whole - 1) // 3)}{'.' * bool(decimals)}{'0' * decimals}"
        number = estimate_points(digits) * (BOLD if any(cell.bold for cell in self.cells) else 1)
        tail = max((SMALL * estimate_points(f"{c.suffix} {c.spread}".strip()) for c in self.cells), default=0.0)
        words = min(max((estimate_points(cell.words) for cell in self.cells), default=0.0), PROSE)
        return max(self.head_points, max(number, words) + (tail + THIN if tail else 0.0)) + 2 * SEP

    def format_type(self) -> str:
        """Return the column type: text at the left, numbers at their decimal point with the widest number's format."""
        sign, whole, decimals = self.find_number_format()
        if self.has_words:
            long = any(estimate_points(cell.words) > PROSE for cell in self.cells)
            return rf"p{{{PROSE:g}pt}}" if long else "l"
        if not whole or not self.is_aligned:
            return "c"
        form = f"S[table-format={sign}{whole}.{decimals}]" if decimals else f"S[table-format={sign}{whole}]"
        return f"{form}@{{~}}l" if self.has_tail else form

    def format_head(self) -> str:
        head = self.head[0] if len(self.head) == 1 else r"\shortstack{" + r" \\ ".join(self.head) + "}"
        return rf"\multicolumn{{2}}{{c}}{{{head}}}" if self.has_tail else f"{{{head}}}"

    def format_cell(self, row: int) -> str:
        cell = self.cells[row]
        text = cell.text or cell.number
        if not self.is_aligned:
            number = text.replace("-", "$-$") if cell.number else text
            return " ".join(filter(None, [rf"\textbf{{{number}}}" if cell.bold else number, cell.tail]))
        if not self.has_words:
            digits = cell.number.replace(",", "")
            text = f"{{{cell.text}}}" if cell.text else rf"\bfseries {digits}" if cell.bold else digits
        return f"{text} & {cell.tail}".rstrip() if self.has_tail else text


@dataclass(frozen=True, slots=True)
class Grid:
    """Row labels and columns in LaTeX."""

    head: str
    labels: tuple[str, ...]
    columns: tuple[GridColumn, ...]
    rules: tuple[bool, ...]  # whether a line is drawn above each row
    label_points: float  # estimated width of the row labels with the space around them

    def measure(self, columns: range) -> float:
        """Return the estimated width of the row labels and some columns."""
        return MARGIN * (self.label_points + sum(self.columns[i].points for i in columns))


def to_latex(table: Table, label: str = "") -> str:
    r"""Format a table as one float: `table` if it fits a column of a two-column article, else `table*`.

    Systems are rows wherever they fit the text width; otherwise metrics are. A table that fits in neither form is
    scaled down a little, or continued in further floats, as is one that exceeds a page.

    Args:
        table: The table.
        label: What its LaTeX label is made of; empty: its name.
    """
    table = clean(table)
    grid, parts, width, size = _choose_form(table)
    most = LINES - 4
    chunks = [range(i, min(i + most, len(grid.labels))) for i in range(0, max(len(grid.labels), 1), most)]
    floats = [(rows, columns) for rows in chunks for columns in parts]
    environment = "table" if width <= COLUMN else "table*"
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in label or table.name)
    lines = []
    for at, (rows, columns) in enumerate(floats):
        caption = f"{table.title}, continued." if at else _write_caption(table)
        tabular = format_tabular(grid, columns, rows)
        if grid.measure(columns) * size > width + 2 * SEP:
            tabular = [r"\resizebox{\linewidth}{!}{%", *tabular[:-1], rf"{tabular[-1]}}}"]
        lines += [
            rf"\begin{{{environment}}}[tp]",
            rf"\centering{FONTS[size]}\setlength{{\tabcolsep}}{{4pt}}",
            r"\setlength{\abovecaptionskip}{0pt}\setlength{\belowcaptionskip}{6pt}",
            NUMBERS,
            *([r"\addtocounter{table}{-1}"] if at else []),
            rf"\caption{{{escape(caption)}}}",
            *([] if at else [rf"\label{{tab:{name}}}"]),
            *tabular,
            *(_format_signatures(table) if at + 1 == len(floats) else []),
            rf"\end{{{environment}}}",
        ]
    text = "\n".join(lines)
    letters = sorted({char for char in text if char > "ſ"})  # pdfLaTeX does not print them
    unicode = [UNICODE.format("".join(letters))] if letters else []
    return "\n".join([PREAMBLE, *unicode, *(f"% {line}" for line in _list_comments(table)), text, ""])


def _choose_form(table: Table) -> tuple[Grid, list[range], float, float]:
    """Return the grid, its columns in each float, the width of a float and the size of its letters."""
    grids = [lay_out(table), *([lay_out_transposed(table)] if table.columns else [])]
    page = table.tex_width
    pages = [page, *([PAGE] if page <= COLUMN else [])]  # what no column holds goes over both
    for page in pages:
        forms = ((COLUMN, 1.0, 1.0), (page, 1.0, 1.0), (page, SMALL, 1.0), (page, SMALL, LEAST_SCALE))
        for grid in grids:
            whole = range(len(grid.columns))
            for width, size, scale in forms:
                # The outer columns have no space beyond the line.
                if width <= page and grid.measure(whole) * size * scale <= width + 2 * SEP:
                    return grid, [whole], width, size
    room = (page + 2 * SEP) / MARGIN
    choices = [(g, split_widths([c.points for c in g.columns], g.label_points, room)) for g in grids]
    fitting = [(g, parts) for g, parts in choices if all(g.measure(part) <= page + 2 * SEP for part in parts)]
    grid, parts = min(fitting or choices[:1], key=lambda choice: len(choice[1]))
    return grid, parts, page, 1.0


def _write_caption(table: Table) -> str:
    """Return one sentence: title, data, and what a reader of the article must know of the signs."""
    data = table.data.rstrip(".").replace("; ", ", ")
    title = f"{table.title} ({data[:1].lower()}{data[1:]})" if data else table.title
    cells = [cell for row in table.rows for cell in row.cells if not cell.interval]
    clauses = ["±: standard deviation over seeds"] if any(math.isfinite(cell.sd) for cell in cells) else []
    if any(math.isfinite(cell.metric_error) for cell in cells):
        clauses.append("in parentheses: the standard deviation that the metric reports")
    clauses += ["≈: closer to human text is better"] if any(c.direction == "match_human" for c in table.columns) else []
    if rules := table.find_bold_rules():
        tests = {"tests": "a paired test", "intervals": "their intervals"}
        by = " or ".join(tests[rule] for rule in rules if rule in tests)
        clauses.append(f"bold: the best value{f' and all that {by} cannot separate from it' if by else ''}")
    clauses += [line.removesuffix(".") for line in table.caveats() if line not in table.warnings]
    return f"{'; '.join([title, *clauses])}."


def format_latex_rows(table: Table) -> list[str]:
    """Format every row of a table as one line of a tabular."""
    grid = lay_out(clean(table))
    return [_format_row(grid, i, grid.columns) for i in range(len(grid.labels))]


def _list_comments(table: Table) -> list[str]:
    """Return what a paper omits but the numbers need: warnings, notes, rules, runs and signatures."""
    lines = [*(f"Warning: {line}" for line in table.warnings), *table.legend(), *table.explain_bold()]
    for note in table.notes():
        cells = [
            f"{row.label}, {column.title}" for row in table.rows
            for cell, column in zip(row.cells, table.columns, strict=True) if cell.note == note
        ]  # fmt: skip
        more = "; …" if len(cells) > MAX_LISTED_CELLS else ""
        lines.append(f"{'; '.join(cells[:MAX_LISTED_CELLS])}{more}: {note}")
    return [*lines, *table.remarks, *table.rules, *table.about, *([] if table.tex_signatures else table.signatures())]


def _format_signatures(table: Table) -> list[str]:
    """Return the signatures under the table, if they are to be printed; lines break after the bars of a signature."""
    if not table.tex_signatures or not table.signatures():
        return []
    texts = [r"\textbar\allowbreak{}".join(escape(part) for part in s.split("|")) for s in table.signatures()]
    return [
        r"\par\smallskip",
        r"\begin{minipage}{\linewidth}\scriptsize\raggedright",
        *(rf"\texttt{{{text}}}\par" for text in texts),
        r"\end{minipage}",
    ]


def lay_out(table: Table) -> Grid:
    """Lay out systems as rows and metrics as columns."""
    columns = []
    for j, column in enumerate(table.columns):
        head, points = _format_metric_head(column)
        cells = tuple(_make_grid_cell(table, row.cells[j], column) for row in table.rows)
        columns.append(GridColumn(head, cells, points))
    longest = max(estimate_points(text) for text in (table.head, *(write_label(row.label) for row in table.rows)))
    labels = tuple(_emphasize(escape(write_label(row.label)), row) for row in table.rows)
    return Grid(escape(table.head), labels, tuple(columns), tuple(row.rule for row in table.rows), longest + 2 * SEP)


def lay_out_transposed(table: Table) -> Grid:
    """Lay out metrics as rows and systems as columns."""
    labels = tuple(" ".join(_format_metric_head(column)[0]) for column in table.columns)
    columns = []
    for row in table.rows:
        cells = tuple(_make_grid_cell(table, *both) for both in zip(row.cells, table.columns, strict=True))
        lines = [""]  # of the label, about `LONG` characters each
        for word in write_label(row.label).split(" "):
            if lines[-1] and len(lines[-1]) + len(word) >= LONG:
                lines.append(word)
            else:
                lines[-1] = f"{lines[-1]} {word}".strip()
        head = tuple(_emphasize(escape(line), row) for line in lines)
        columns.append(GridColumn(head, cells, max(map(estimate_points, lines)), is_aligned=False))
    longest = max(estimate_points(column.heading) for column in table.columns)
    return Grid("Metric", labels, tuple(columns), (False,) * len(labels), longest + 2 * SEP)


def format_tabular(grid: Grid, columns: range, rows: range) -> list[str]:
    """Format some rows and columns of a grid as a tabular."""
    part = [grid.columns[i] for i in columns]
    lines = [
        rf"\begin{{tabular}}{{@{{}}l{''.join(column.format_type() for column in part)}@{{}}}}", r"\toprule",
        " & ".join([_protect(grid.head), *(column.format_head() for column in part)]) + r" \\", r"\midrule",
    ]  # fmt: skip
    for i in rows:
        lines += [r"\midrule"] if grid.rules[i] and i != rows.start else []
        lines.append(_format_row(grid, i, part))
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _format_row(grid: Grid, row: int, columns: Sequence[GridColumn]) -> str:
    return " & ".join([_protect(grid.labels[row]), *(column.format_cell(row) for column in columns)]) + r" \\"


def _make_grid_cell(table: Table, cell: Cell, column: Column) -> GridCell:
    number, spread = table.text(cell, column)
    if cell.words or not math.isfinite(cell.value) or number.startswith("<"):
        return GridCell(words=number)
    return GridCell(number.removesuffix(cell.suffix), suffix=cell.suffix.strip(), spread=spread, bold=cell.best)


def _format_metric_head(column: Column) -> tuple[tuple[str, ...], float]:
    """Return the heading of a metric in lines (title with arrow, parts in parentheses, interval), and its width."""
    title = column.title
    first, *rest = title.replace(" (", "\n(").split("\n") if len(title) > LONG else [title]
    sign = arrow(column.direction, column.target)
    symbol = "".join(SPECIAL.get(c, c) for c in sign).replace("$", "")
    dagger = r"$^\dagger$" if column.out_of_domain else ""
    interval = [r"{}[95\,\% CI]"] if column.interval else []
    head = (escape(first) + dagger + (f" ${symbol}$" if symbol else ""), *map(escape, rest), *interval)
    texts = (f"{first} {sign}{DAGGER * column.out_of_domain}", *rest, *(["[95 % CI]"] if column.interval else []))
    return head, max(map(estimate_points, texts))


def _emphasize(text: str, row: TableRow) -> str:
    return rf"\emph{{{text}}}" if row.system == "human" else text


def _protect(text: str) -> str:
    r"""Protect the first cell of a row, since LaTeX reads `\\ [x]` as a length and `\\ *` as a variant."""
    return f"{{}}{text}" if text.startswith(("[", "*")) else text


# Text -----------------------------------------------------------------------------------------------------------------


def escape(text: str) -> str:
    """Escape text for LaTeX; letters that are neither ASCII nor similar to ASCII need XeLaTeX or LuaLaTeX."""

    def escape_char(char: str) -> str:
        if char in SPECIAL:
            return SPECIAL[char]
        if char.isascii():
            return char if char.isprintable() else " "
        if "À" <= char <= "ſ":  # in the encoding T1
            return char
        plain = unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()
        return "".join(SPECIAL.get(c, c) for c in plain) or char

    escaped = "".join(map(escape_char, text))
    return re.sub(r"\b([a-zA-Z])(?=~=~)|(?<=\bTop-)([a-z])\b", lambda match: f"${match[0]}$", escaped)


def write_label(text: str) -> str:
    r"""Write the name of a system as in an article: "Nucleus, p = 0.95" for `nucleus p=0.95`.

    >>> write_label("docs-s beam num_beams=4 no_repeat_ngram_size=4, length=96")
    'docs-s Beam 4 + no 4-gram repeat, length\xa0=\xa096'
    """
    names, decoders, out = {"human": "Human"}, load_members("decoder"), ""
    for word in text.split(" "):
        bare = word.removesuffix(",")
        name, sign, value = bare.partition("=")
        plain = name.replace("-", "_")
        if sign and plain.isidentifier():
            out += OPTIONS.get(plain, ", {name}\u00a0=\u00a0{value}").format(name=name.replace("_", " "), value=value)
        elif plain in decoders:
            out += " " + NAMES.get(plain, plain.replace("_", "-").capitalize())
        else:
            out += " " + names.get(bare, bare)
        out += "," if word.endswith(",") else ""
    return out.replace(",,", ",").strip(" ,")


def estimate_points(text: str) -> float:
    r"""Estimate the width of a text in points at \footnotesize."""
    broad = "mw±+=≈↑↓→"
    return sum(
        THIN if c in " \u00a0.,:;()[]|'ijl" else 8.0 if unicodedata.east_asian_width(c) in "WF" else
        BROAD if c.isupper() or c in broad else DIGIT for c in text
    )  # fmt: skip
