"""Format tables as LaTeX (booktabs, siunitx) for a paper; provenance and notes are comments."""

import itertools
import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from openended.harness.core import list_members
from openended.harness.report.tables.formats.text import ITALIC, clean, split_widths
from openended.harness.report.tables.frame import DAGGER
from openended.harness.report.tables.table import Column, Table

PREAMBLE = (
    "% Needs in the preamble: \\usepackage[T1]{fontenc}, \\usepackage{booktabs}, \\usepackage{graphicx}, "
    "\\usepackage{siunitx}"
)
NUMBERS = r"\sisetup{group-separator={,}, group-minimum-digits=4, retain-explicit-plus, detect-weight}"
LINES = 52  # per page at \footnotesize
COLUMN, PAGE = 219.0, 455.0  # points of a column of a two-column article (ACL), and of its page
ARTICLE = 345.0  # points of the narrowest text that a wider table may meet: it is scaled down there alone
FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
MAX_LISTED_CELLS = 3  # in a comment
MARGIN = 1.03  # of estimated widths
SMALL, BOLD = 0.94, 1.15  # width factors of \scriptsize (uncertainties, wide tables), as measured, and of bold values
FONTS = {1.0: r"\footnotesize", SMALL: r"\scriptsize"}
UNICODE = "% Needs XeLaTeX or LuaLaTeX with \\usepackage{{fontspec}} and a font (\\setmainfont) that has the letters {}"
LEAST_SCALE = 0.85  # of a table that is scaled down
PROSE = 130.0  # points of a column of words; longer text is wrapped
LABELS = 0.6  # of the text width: what the row labels of one level may take; longer ones are wrapped
SEP = 4.0  # space on each side of a column in points
SYSTEMS = ("model", "human")  # kinds of rows that name systems; other labels are printed as they are
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
    "∪": r"$\cup$", "√": r"$\surd$\,", "²": r"$^2$", "‖": r"$\|$",
}  # fmt: skip
# Decoders and options whose names in an article are not those of the command line.
NAMES = {"dry": "DRY", "llada": "LLaDA", "mdlm": "MDLM", "remdm": "ReMDM", "xtc": "XTC", "top_n_sigma": "Top-nσ"}
LETTERS = {"temperature": "T", "eps": "ε", "tau": "τ", "alpha": "α", "num_beams": "b"}
OPTIONS = {name: f", {letter}\u00a0=\u00a0{{value}}" for name, letter in LETTERS.items()}
OPTIONS["no_repeat_ngram_size"] = " + no {value}-gram repeat"
DIGIT, THIN, BROAD = 4.25, 2.5, 6.2  # widths of characters in points at 8 points (\\footnotesize)


@dataclass(frozen=True, slots=True)
class GridColumn:
    """A column type, a heading and the cells below it in LaTeX; a column with uncertainties spans two."""

    type: str
    head: str
    cells: tuple[str, ...]
    points: float  # estimated width of what has the letters of the table
    fixed: float  # and of the rest: uncertainties, wrapped words and the space around
    over: tuple[str, ...] = ()  # outer levels of the heading, shared by neighbors
    width: int = 1  # columns of the tabular that it spans


@dataclass(frozen=True, slots=True)
class Grid:
    """TableRow labels and columns in LaTeX."""

    heads: tuple[str, ...]  # of the levels of the row labels
    labels: tuple[tuple[str, ...], ...]
    columns: tuple[GridColumn, ...]
    rules: tuple[bool, ...]  # whether a line is drawn above each row
    spans: tuple[bool, ...]  # whether the label of a row spans all columns
    label_points: float  # estimated width of the row labels
    label_fixed: float  # and of wrapped ones and the space around
    label_types: str  # column types of the row labels

    def measure(self, columns: range, size: float = 1.0) -> float:
        """Return the estimated width of the row labels and some columns in letters of a size, of `FONTS`."""
        part = [self.columns[i] for i in columns]
        widths = [size * column.points + column.fixed for column in part]
        for level in reversed(range(max((len(column.over) for column in part), default=0))):
            start = 0
            for over, members in itertools.groupby(part, key=lambda column: column.over[: level + 1]):
                end, heading = start + len(list(members)), size * estimate_points(over[level]) + 2 * SEP
                widths[end - 1] += max(heading - sum(widths[start:end]), 0.0)
                start = end
        return MARGIN * (size * self.label_points + self.label_fixed + sum(widths))


def to_latex(table: Table, label: str = "") -> str:
    r"""Format a table as one float: `table` if it fits a column of a two-column article, else `table*`.

    Systems are rows wherever they fit the text width; otherwise metrics are. A table that fits in neither form is
    scaled down a little, or continued in further floats, as is one that exceeds a page.
    Its LaTeX label is made of `label`, by default of its name.
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
        if grid.measure(columns, size) > min(width, ARTICLE) + 2 * SEP:
            tabular = [FITTED, *tabular[:-1], rf"{tabular[-1]}}}"]
        lines += [
            rf"\begin{{{environment}}}[tp]",
            rf"\centering{FONTS[size]}\setlength{{\tabcolsep}}{{4pt}}",
            r"\setlength{\abovecaptionskip}{0pt}\setlength{\belowcaptionskip}{6pt}",
            NUMBERS,
            *([r"\addtocounter{table}{-1}"] if at else []),
            rf"\caption{{{escape(caption)}}}",
            *([] if at else [rf"\label{{tab:{name}}}"]),
            *tabular,
            rf"\end{{{environment}}}",
        ]
    text = "\n".join(lines)
    letters = sorted({char for char in text if char > "ſ"})  # pdfLaTeX does not print them
    unicode = [UNICODE.format("".join(letters))] if letters else []
    return "\n".join([PREAMBLE, *unicode, *(f"% {line}" for line in _list_comments(table)), text, ""])


def _choose_form(table: Table) -> tuple[Grid, list[range], float, float]:
    """Return the grid, its columns in each float, the width of a float and the size of its letters."""
    grids = [lay_out(table), *([lay_out(table.transpose())] if table.columns and table.rows else [])]
    page = table.tex_width
    pages = [page, *([PAGE] if page <= COLUMN else [])]  # what no column holds goes over both
    for page in pages:
        forms = ((COLUMN, 1.0, 1.0), (page, 1.0, 1.0), (page, SMALL, 1.0), (page, SMALL, LEAST_SCALE))
        for grid in grids:
            whole = range(len(grid.columns))
            for width, size, scale in forms:
                # The outer columns have no space beyond the line.
                if width <= page and grid.measure(whole, size) * scale <= width + 2 * SEP:
                    return grid, [whole], width, size
    room = (page + 2 * SEP) / MARGIN
    widths = [([c.points + c.fixed for c in grid.columns], grid.label_points + grid.label_fixed) for grid in grids]
    choices = [(grid, split_widths(*each, room)) for grid, each in zip(grids, widths, strict=True)]
    fitting = [(g, parts) for g, parts in choices if all(g.measure(part) <= page + 2 * SEP for part in parts)]
    grid, parts = min(fitting or choices[:1], key=lambda choice: len(choice[1]))
    return grid, parts, page, 1.0


def _write_caption(table: Table) -> str:
    """Return one sentence: caption or title, data, and what a reader of the article must know of the signs."""
    title = table.caption or table.title
    data = table.describe_data(title).rstrip(".").replace("; ", ", ")
    title = f"{title} ({data[:1].lower()}{data[1:]})" if data else title
    clauses = [f"±: standard deviation over {table.over}"] if table.has_std() else []
    clauses += [f"in parentheses: {words}" for words in table.name_metric_errors()]
    is_compared = any(cell.direction == "match_human" for cell in table.iterate_cells())
    clauses += ["≈: closer to human text is better"] if is_compared else []
    clauses += [f"b{line.removeprefix('B').removesuffix('.')}" for line in table.explain_bold(without=("seeds",))]
    clauses += [line.removesuffix(".") for line in table.caveats() if line not in table.list_notes("warning")]
    return f"{'; '.join([title, *clauses])}."


def format_latex_rows(table: Table) -> list[str]:
    """Format every row of a table as one line of a tabular."""
    grid = lay_out(clean(table))
    return [_format_row(grid, i, range(len(grid.columns))) for i in range(len(grid.labels))]


def _list_comments(table: Table) -> list[str]:
    """Return what a paper omits but the numbers need: warnings, notes, rules, runs and signatures."""
    warnings, remarks, rules = map(table.list_notes, ("warning", "remark", "rule"))
    lines = [*(f"Warning: {line}" for line in warnings), *table.legend(), *table.explain_bold()]
    every = [(row, at, cell) for row in table.rows for at, cell in enumerate(row.cells)]
    for note in filter(None, table.marks()):
        cells = [f"{row.label}, {table.columns[at].title}" for row, at, cell in every if cell.note == note]
        more = "; …" if len(cells) > MAX_LISTED_CELLS else ""
        lines.append(f"{'; '.join(cells[:MAX_LISTED_CELLS])}{more}: {note}")
    return [*lines, *remarks, *rules, *table.about, *table.signatures()]


def lay_out(table: Table) -> Grid:
    """Write headings, row labels and cells in LaTeX, with their widths."""
    labels_of_rows = (map(write_label, row.labels) if row.system in SYSTEMS else row.labels for row in table.rows)
    levels = list(zip(*labels_of_rows, strict=True))
    forms = [r"\emph{{{}}}" if row.system in ITALIC else "{}" for row in table.rows]
    written = [[form.format(escape(t)) for t, form in zip(level, forms, strict=True)] for level in levels]
    labels = list(zip(*written, strict=True))
    for at in range(len(labels) - 1, 0, -1):  # an outer label is printed once
        same = itertools.takewhile(
            lambda pair: pair[0] == pair[1], zip(labels[at][:-1], labels[at - 1][:-1], strict=True)
        )
        count = sum(1 for _ in same)
        labels[at] = ("",) * count + labels[at][count:]
    columns = tuple(_format_column(table, at) for at in range(len(table.columns)))
    heads = table.heads
    visible = [row.system != "heading" for row in table.rows]  # a heading spans the columns
    points = [
        max(map(estimate_points, [head, *itertools.compress(level, visible)]))
        for head, level in zip(heads, levels or [()] * len(heads), strict=True)
    ]
    most = LABELS * table.tex_width
    long = rf">{{\raggedright\arraybackslash}}p{{{most:g}pt}}"
    types = "".join("l" if each <= most else long for each in points)
    labels = [
        tuple(t if at <= most else t.replace(r"\_", r"\_\allowbreak{}") for at, t in zip(points, row, strict=True))
        for row in labels
    ]
    wide = [each for each in points if each > most]
    fixed = most * len(wide) + 2 * SEP * len(points)
    rules = tuple(row.rule for row in table.rows)
    spans = tuple(not is_visible for is_visible in visible)
    return Grid(tuple(map(escape, heads)), tuple(labels), columns, rules, spans, sum(points) - sum(wide), fixed, types)


def _format_head(column: Column) -> tuple[list[str], float]:
    """Return the innermost level of a heading in lines, and its width."""
    if column.role:
        return _wrap_name(column)
    if column.levels:
        return [escape(column.levels[-1])], estimate_points(column.levels[-1])
    title = column.title
    first, *rest = title.replace(" (", "\n(").split("\n") if len(title) > LONG else [title]
    symbol = "".join(SPECIAL.get(c, c) for c in column.sign).replace("$", "")
    dagger = r"$^\dagger$" if column.doubtful else ""
    interval = [r"{}[95\,\% CI]"] if column.interval else []
    head = [escape(first) + dagger + (f" ${symbol}$" if symbol else ""), *map(escape, rest), *interval]
    texts = (f"{first} {column.sign}{DAGGER * column.doubtful}", *rest, *(["[95 % CI]"] if column.interval else []))
    return head, max(map(estimate_points, texts))


def _wrap_name(column: Column) -> tuple[list[str], float]:
    """Return the name of a system in lines of about `LONG` characters, and their width."""
    lines = [""]
    name = column.levels[-1] if column.levels else column.title
    for word in (name if column.role in ("text", "heading") else write_label(name)).split(" "):
        if lines[-1] and len(lines[-1]) + len(word) > LONG:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    is_human = column.role == "human"
    return [rf"\emph{{{escape(t)}}}" if is_human else escape(t) for t in lines], max(map(estimate_points, lines))


def _format_column(table: Table, at: int) -> GridColumn:
    """Format the cells of a column below its heading.

    Words are at the left. Numbers of one quantity are aligned at their decimal points, others are centered.
    """
    column, cells = table.columns[at], [row.cells[at] for row in table.rows]
    is_aligned, (lines, head_points) = not column.role, _format_head(column)
    is_number = [math.isfinite(cell.value) and not (cell.words or cell.number.startswith("<")) for cell in cells]
    numbers = [cell.number if aligned else "" for cell, aligned in zip(cells, is_number, strict=True)]
    words = ["" if aligned else cell.number for cell, aligned in zip(cells, is_number, strict=True)]
    tails, widths = list[str](), [0.0]
    for cell in cells:
        rest = cell.mark.lstrip("*")
        stars = "*" * (len(cell.mark) - len(rest))
        small = [rf"{{\scriptsize {escape(part)}}}" for part in (rest.strip(), cell.spread) if part]
        tails.append(" ".join([*([f"$^{{{stars}}}$"] if stars else []), *small]))
        widths.append(SMALL * estimate_points(f"{cell.mark} {cell.spread}".strip()))
    is_bold = [bool(number) and cell.best for number, cell in zip(numbers, cells, strict=True)]
    plain = [number.replace(",", "") for number in numbers if number]
    sign = next((number[0] for number in plain if number[0] in "+-"), "")
    whole = max((len(number.lstrip("+-").partition(".")[0]) for number in plain), default=0)
    decimals = max((len(number.partition(".")[2]) for number in plain), default=0)
    digits = f"{sign}{'0' * whole}{',' * ((whole - 1) // 3)}{'.' * bool(decimals)}{'0' * decimals}"
    formats = [digits] if is_aligned else numbers  # numbers of several quantities have no common format
    number_points = max(map(estimate_points, formats), default=0.0) * (BOLD if any(is_bold) else 1)
    longest, tail_points = max(map(estimate_points, words), default=0.0), max(widths)
    fixed = (PROSE if longest > PROSE else 0.0) + (tail_points + THIN if tail_points else 0.0)
    points = max(head_points - fixed, number_points, longest if longest <= PROSE else 0.0)
    has_tail, has_words = (
        is_aligned and any(tails),
        any(len(escape(text)) > len("--") for text in words if text != "n/a"),
    )
    kind = "c"
    if has_words:
        kind = rf"p{{{PROSE:g}pt}}" if longest > PROSE else "l"
    elif whole and is_aligned:
        kind = f"S[table-format={sign}{whole}{f'.{decimals}' if decimals else ''}]"
    kind += "@{~}l" if has_tail else ""
    texts = []
    words = [
        re.sub(r",(?=\S)", r",\\allowbreak{}", escape(text)) if longest > PROSE else escape(text) for text in words
    ]
    for number, text, tail, bold in zip(numbers, words, tails, is_bold, strict=True):
        if not is_aligned:
            number = number.replace("-", "$-$")
            texts.append(" ".join(filter(None, [text or (rf"\textbf{{{number}}}" if bold else number), tail])))
            continue
        aligned = text or (rf"\textbf{{{number}}}" if bold and has_words else number)
        if not has_words:
            aligned = f"{{{text}}}" if text else rf"\bfseries {number}" if bold else number
            aligned = aligned if text else aligned.replace(",", "")
        texts.append(f"{aligned} & {tail}".rstrip() if has_tail else aligned)
    head = lines[0] if len(lines) == 1 else r"\shortstack{" + r" \\ ".join(lines) + "}"
    head = rf"\multicolumn{{2}}{{c}}{{{head}}}" if has_tail else f"{{{head}}}"
    return GridColumn(kind, head, tuple(texts), points, fixed + 2 * SEP, column.levels[:-1], 1 + has_tail)


def format_tabular(grid: Grid, columns: range, rows: range) -> list[str]:
    """Format some rows and columns of a grid as a tabular."""
    part = [grid.columns[i] for i in columns]
    depth = max((len(column.over) for column in part), default=0)
    types = "".join([grid.label_types, *(column.type for column in part)])
    heads = [_protect(grid.heads[0]), *grid.heads[1:], *(column.head for column in part)]
    lines = [rf"\begin{{tabular}}{{@{{}}{types}@{{}}}}", r"\toprule"]
    lines += [line for level in range(depth) for line in _format_spans(grid, part, level)]
    lines += [" & ".join(heads) + r" \\", r"\midrule"]
    for i in rows:
        lines += [r"\midrule"] if grid.rules[i] and i != rows.start else []
        lines.append(_format_row(grid, i, columns))
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _format_spans(grid: Grid, columns: Sequence[GridColumn], level: int) -> list[str]:
    """Format one outer level of the headings: each text over its columns, with a line below."""
    cells, rules, at = [""] * len(grid.heads), [], len(grid.heads) + 1
    for over, members in itertools.groupby(columns, key=lambda column: column.over[: level + 1]):
        width = sum(column.width for column in members)
        cells.append(rf"\multicolumn{{{width}}}{{c}}{{{escape(over[level])}}}" if over[level] else "&" * (width - 1))
        rules += [rf"\cmidrule(lr){{{at}-{at + width - 1}}}"] if over[level] else []
        at += width
    return [" & ".join(cells) + r" \\", *rules]


def _format_row(grid: Grid, row: int, columns: range) -> str:
    first, *labels = grid.labels[row]
    if grid.spans[row]:
        width = len(grid.heads) + sum(grid.columns[i].width for i in columns)
        return rf"\multicolumn{{{width}}}{{@{{}}l}}{{{first}}} \\"
    return " & ".join([_protect(first), *labels, *(grid.columns[i].cells[row] for i in columns)]) + r" \\"


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

    escaped = "".join(map(escape_char, text)).replace(r"p\_model", r"$p_\mathrm{model}$")
    return re.sub(r"\b([a-zA-Z])(?=[~ ]=[~ ])|(?<=\bTop-)([a-z])\b", lambda match: f"${match[0]}$", escaped)


def write_label(text: str) -> str:
    r"""Write the name of a system as in an article: "Nucleus, p = 0.95" for `nucleus p=0.95`.

    >>> write_label("docs-s beam num_beams=4 no_repeat_ngram_size=4, length=96")
    'docs-s Beam, b\xa0=\xa04 + no 4-gram repeat, length\xa0=\xa096'
    """
    names, decoders, out = {"human": "Human"}, list_members("decoder"), ""
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

    def estimate(c: str) -> float:
        if c in " \u00a0.,:;()[]|'ijl":
            return THIN
        if unicodedata.east_asian_width(c) in "WF":
            return 8.0
        return BROAD if c.isupper() or c in "mw±+=≈↑↓→" else DIGIT

    return sum(map(estimate, text))
