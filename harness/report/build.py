"""One call from run folders to tables, figures, frame and page on disk."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openended.harness.core import SpecError, plain_line, write_text
from openended.harness.report.atomic_folder import swapped_in
from openended.harness.report.tables.table import Table
from openended.harness.results import Layout, layout_of, load_layout

if TYPE_CHECKING:
    from rich.console import Console

    from openended.harness.results import Results

log = logging.getLogger(__name__)

FILES = ("tables", "figures", "results.parquet", "results.csv", "report.html", "page")
SHOWN = 5  # runs that a refusal lists


@dataclass(frozen=True, slots=True)
class Report:
    """What was built, and where it is."""

    folder: Path
    tables: tuple[Table, ...]
    paths: tuple[Path, ...]
    """Every file written, in the order tables, figures, frame, page."""
    runs: int
    unfinished: int
    """Run folders without a record."""
    superseded: int
    left_out: int = 0
    """Runs whose records are damaged."""

    def show(self, console: Console | None = None, *, signatures: bool = False) -> None:
        """Print the tables and where the files are; with `signatures` also those of every column."""
        from rich.text import Text

        from openended.harness.report.tables.formats.console import make_console, print_table

        out = console or make_console()
        for table in self.tables:
            print_table(table, out, signatures=signatures)
            out.print()
        for line in self.lines():
            out.print(Text(plain_line(line)), soft_wrap=True)

    def lines(self) -> list[str]:
        """Say where the files are, a line a kind, and how many runs they hold."""
        counts = [f"{self.runs} {'run' if self.runs == 1 else 'runs'}"]
        counts += [f"{self.unfinished} unfinished passed over"] if self.unfinished else []
        counts += [f"{self.superseded} older values superseded"] if self.superseded else []
        counts += [f"{self.left_out} with damaged records left out"] if self.left_out else []
        pages = [path for path in self.paths if path.suffix == ".html"]
        figures = [path.stem for path in self.paths if path.suffix == ".png"]
        names = ", ".join(table.name for table in self.tables)
        out = [f"report     {pages[0] if pages else self.folder}  ({', '.join(counts)})"]
        out += [f"tables     {self.folder / 'tables'}  ({names}: .md .tex .csv)"]
        out += [f"figures    {self.folder / 'figures'}  ({', '.join(figures)}: .pdf .png)"] if figures else []
        return out


def build_report(
    paths: Iterable[Path | str],
    out_dir: Path | str,
    *,
    layout: str | Path | Layout | Sequence[str] | None = None,
    compare: Sequence[str] = (),
    baseline: str | None = None,
    where: Mapping[str, str] | None = None,
    figures: bool = True,
    page: bool = True,
    **options: Any,  # noqa: ANN401
) -> Report:
    """Write tables (.md, .tex, .csv), figures (.pdf, .png), the tidy frame and a page for any set of runs.

    Args:
        paths: Run folders, or folders that hold them.
        out_dir: Where the files go; made if missing, and of an earlier report nothing stays. The same runs give the
            same bytes.
        layout: A name in `conf/report`, the path of a YAML, a `Layout`, or several of the first two.
        compare: Published tables to compare with, as `paper/table`.
        baseline: Label of the system that the others are tested against.
        where: Axis → accepted value, several joined by `|`.
        figures: Whether to draw what the runs have data for.
        page: Whether to write the HTML page.
        options: Options of the layout, in its place or on top of it.

    Raises:
        HarnessError: If there are no runs, a record is broken, a layout or published table is unknown, or values of
            different signatures would stand in one column.
    """
    from openended.harness.report.tables.abilities import ability_tables
    from openended.harness.report.tables.about import told
    from openended.harness.results import read_results, write_frame

    layouts = _layouts(layout, options)
    results = read_results(paths, where)
    target = Path(out_dir)
    tables = [t for name, one in layouts for t in make_tables(results, one, name)]
    tables += ability_tables(results)
    for reference in compare:
        from openended.harness.report.tables.compare import comparison

        tables.append(comparison(results, reference))
    if baseline is not None:
        from openended.harness.report.tables.significance import significance

        tables += significance(results, baseline)
    tables = [replace(t, remarks=(*t.remarks, *results.remarks())) for t in tables]
    tables = told(tables, results)
    with swapped_in(target, FILES) as folder:
        written = [p for table in tables for p in write_table(table, folder / "tables")]
        drawn: list[Path] = []
        traces: dict[str, Any] = {}
        if figures:
            from openended.harness.report.figures.draw import draw_all

            fair = next((one for _, one in layouts if one.kind == "fair"), None)
            drawn = draw_all(results, folder / "figures", traces=traces, fair=fair)
        written += [*drawn, *write_frame(results, folder)]
        if page:
            from openended.harness.report.page.page import write_page

            written += write_page(results, tables, drawn, folder / "report.html", traces=traces)
    final = tuple(target / path.relative_to(folder) for path in written)
    counts = len(results.runs), results.unfinished, results.superseded, len(results.left_out)
    return Report(target, tuple(tables), final, *counts)


def _layouts(
    layout: str | Path | Layout | Sequence[str] | None, options: Mapping[str, Any]
) -> list[tuple[str, Layout]]:
    if layout is None and options:
        return [("results", layout_of(options, "report"))]
    options = {k: v for k, v in options.items() if k != "_target_"}
    if isinstance(layout, Layout):
        return [("results", load_layout(layout, **options))]
    names = [layout] if isinstance(layout, (str, Path)) else list(layout or ["full"])
    return [(Path(name).stem, load_layout(name, **options)) for name in names]


def make_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build the tables of one layout."""
    from openended.harness.report.findings.judge import findings_tables
    from openended.harness.report.tables.agreement import correlation_tables, embedder_tables, spread_tables
    from openended.harness.report.tables.fair import fair_tables
    from openended.harness.report.tables.selection import NotComparableError, select
    from openended.harness.report.tables.systems import value_tables
    from openended.harness.report.tables.variants import variant_tables

    makers = {
        "values": value_tables,
        "correlation": correlation_tables,
        "embedders": embedder_tables,
        "variants": variant_tables,
        "spread": spread_tables,
        "findings": findings_tables,
        "fair": fair_tables,
    }
    if layout.kind not in makers:
        raise SpecError(f"layout {name}: no kind {layout.kind!r}")
    try:
        tables = makers[layout.kind](select(results, layout), layout, name)
    except NotComparableError as err:
        runs = sorted({str(results.runs[at].folder) for item in err.items for at, _ in item.sources})
        more = f" and {len(runs) - SHOWN} more" if len(runs) > SHOWN else ""
        raise SpecError(f"{err}; the runs that differ: {', '.join(runs[:SHOWN])}{more}") from err
    wide, signed = layout.latex_width, layout.latex_signatures
    return [replace(table, tex_width=wide, tex_signatures=signed) for table in tables]


def write_table(table: Table, folder: Path) -> list[Path]:
    """Write a table as Markdown, LaTeX and CSV."""
    from openended.harness.report.tables.formats.latex import to_latex
    from openended.harness.report.tables.formats.markdown import to_csv, to_markdown

    texts = {"md": to_markdown(table), "tex": to_latex(table), "csv": to_csv(table)}
    paths = {suffix: folder / f"{table.name}.{suffix}" for suffix in texts}
    for suffix, text in texts.items():
        write_text(paths[suffix], text)
    return list(paths.values())
