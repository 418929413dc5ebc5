"""Build a report (tables, figures, data frame and page) from run folders."""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openended.harness import results as measured
from openended.harness.core import DataError, SpecError, escape_controls_in_line, write_text
from openended.harness.report.tables import selection
from openended.harness.report.tables.formats.latex import to_latex
from openended.harness.report.tables.formats.text import make_console, print_table, to_csv, to_markdown
from openended.harness.report.tables.frame import Frame, join_tasks, make_notes
from openended.harness.report.tables.pictures import Picture
from openended.harness.report.tables.pivot import build_tables
from openended.harness.report.tables.table import Table
from openended.harness.results import Layout, Results
from openended.harness.storage import replace_folder, warn_of_failure

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from openended.harness.imported import SystemScores
    from openended.harness.report.analysis.group_sequential import DecisionPlan

log = logging.getLogger(__name__)
FILES = ("tables", "figures", "results.parquet", "results.csv", "stress.csv", "report.html", "index.html", "page")
LAYOUTS = "layouts"  # reports of other layouts than the runs' own


@dataclass(frozen=True, slots=True)
class Report:
    """The files and tables of a finished report."""

    folder: Path
    tables: tuple[Table, ...]
    paths: tuple[Path, ...]  # all files written, in the order tables, figures, frame, page
    results: Results = field(repr=False, compare=False)
    """What the report was built from, or the runs of both reports side by side."""
    failed: bool = False
    """Whether the page, or its texts, could not be written; a line of the log says why."""

    def show(self, console: "Console | None" = None, *, verbose: bool = False) -> None:
        """Print the tables and the paths of the files; if verbose, also rules, dates, commands and signatures."""
        from rich.text import Text

        from openended.harness.report.tables.headline import describe_best

        out = console or make_console()
        for table in self.tables:
            print_table(table, out, verbose=verbose)
            out.print()
        best = [f"best       {line}" for line in describe_best(self.results)] if len(self.tables) == 1 else []
        for line in [*self.lines(), *best]:
            out.print(Text(escape_controls_in_line(line)), soft_wrap=True)

    def _repr_html_(self) -> str:
        """Return the tables as HTML, which notebooks display."""
        from openended.harness.report.tables.formats.html import to_html

        return "\n".join(map(to_html, self.tables))

    def lines(self) -> list[str]:
        """Return lines with the paths of the files, one per kind, and the number of runs."""
        runs, superseded, left_out = len(self.results.runs), self.results.superseded, len(self.results.left_out)
        counts = [f"{runs} {'run' if runs == 1 else 'runs'}"] if runs else []
        counts += [f"values superseded by newer runs: {superseded}"] if superseded else []
        counts += [f"{left_out} left out: record lost or damaged"] if left_out else []
        pages = [path for path in self.paths if path.suffix == ".html"]
        figures = [path.stem for path in self.paths if path.suffix == ".png"]
        names = ", ".join(table.name for table in self.tables)
        about = f"  ({', '.join(counts)})" if counts else ""
        reasons = {f"{item.metric}: {item.reason}": None for item in self.results.values} if not self.tables else {}
        out = [f"values     none: {'; '.join(reasons) or 'nothing was measured'}"] if not self.tables else []
        out += [f"report     {pages[0] if pages else self.folder}{about}"]
        out += [f"tables     {self.folder / 'tables'}  ({names}: .md .tex .csv)"] if self.tables else []
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
    required_axes: Sequence[str] = (),
    required_metrics: Sequence[str] = (),
    decisions: "DecisionPlan | None" = None,
    **options: Any,  # noqa: ANN401
) -> Report:
    """Write tables (.md, .tex, .csv), figures (.pdf, .png), the tidy data frame and an HTML page for any runs.

    Args:
        paths: Run folders, or folders that contain them.
        out_dir: Output folder; created if missing, and files of an earlier report are removed. Equal runs give equal
            bytes.
        layout: A name in `conf/report`, the path of a YAML file, a `Layout`, or a list of names and paths.
        compare: Published tables to compare with, each as `paper/table`.
        baseline: Label of the system that the others are tested against.
        where: Axis → accepted values, joined by `|`.
        figures: Whether to draw the figures that the runs have data for.
        page: Whether to write the HTML page.
        required_axes: Axes that the runs must have, because the user typed them; a layout may name others.
        required_metrics: The same of metrics.
        decisions: What the runs are to decide; other tables then show each system at its last look.
        options: Layout options; they override those of `layout`.

    Raises:
        HarnessError: If there are no readable runs, a layout or published table is unknown, or one column would mix
            signatures.
    """
    if not isinstance(figures, bool):
        raise SpecError(f"figures: expected true or false, got {figures!r:.40}; those of a layout go into layout=")
    layouts = _load_layouts(layout, options)
    used_axes = {axis for _, loaded in layouts for axis in (*loaded.rows, *loaded.columns, *loaded.tables)}
    experiments = {axis: value for axis, value in (where or {}).items() if axis == "experiment"}
    results = measured.read_results(paths, experiments, by_day=measured.CREATED in {*used_axes, *(where or {})})
    decided = list[Frame]()
    if decisions is not None:
        from openended.harness.report.analysis.group_sequential import select_last_looks
        from openended.harness.report.tables.decisions import build_decision_frame

        decided, results = [build_decision_frame(decisions, results)], select_last_looks(results)
    results = measured.filter_results(results, where, every=True) if where else results
    measured.check_axes(results, required_axes)
    ability_layout = next((loaded for _, loaded in layouts if loaded.analysis == "abilities"), Layout())
    tables: list[Table] = []
    rest: Results | None = results
    if any(item.is_judged_alone for item in results.values):
        from openended.harness.report.tables.judgments import build_ability_frames, drop_abilities

        rated = selection.TablePart(results, results.values, "abilities", {}, ())
        tables = build_tables(build_ability_frames(rated, ability_layout), ability_layout)
        rest = drop_abilities(results) if tables else results
    others = [(name, loaded) for name, loaded in layouts if not (tables and loaded is ability_layout)]
    tables += [t for name, loaded in others if rest is not None for t in make_tables(rest, loaded, name)]
    frames = list[Frame]()
    if compare or baseline is not None:
        from openended.harness.report.tables import compare as comparison

        frames = [comparison.build_comparison(results, reference) for reference in compare]
        frames += comparison.build_significance_frames(results, baseline) if baseline is not None else []
    metrics = {row.metric for row in results.rows}
    if unmeasured := [name for name in required_metrics if name.partition(".")[0] not in metrics]:
        names = ", ".join(sorted(metrics))
        raise SpecError(f"metrics: no run measures {', '.join(unmeasured)}; measured: {names}")
    tables += build_tables([*frames, *decided])
    about = selection.summarize_sources(results.values, results.runs)
    remarks = make_notes(warnings=results.remarks())
    width = layouts[0][1].latex_width
    tables = [
        replace(_name_invented(t, results), about=t.about or about, notes=(*t.notes, *remarks), tex_width=width)
        for t in tables
    ]
    analyses = {loaded.analysis for _, loaded in layouts}

    def write_rest(folder: Path) -> list[Path]:
        """Write figures, frame and page; return the files in this order."""
        leaderboard = "leaderboard" in analyses
        pictures: list[Picture] = []
        if figures and not leaderboard:
            try:
                from openended.harness.report.figures.draw import draw_all
            except ModuleNotFoundError:  # a report can do without the folder of figures
                log.warning("no figures: this installation has no openended.harness.report.figures")
            else:
                pictures = draw_all(results, folder / "figures", [loaded for _, loaded in layouts], failures)
        written = [path for picture in pictures for path in (picture.png, picture.png.with_suffix(".pdf"))]
        written += measured.write_frame(results, folder)
        if "stress" in analyses:
            from openended.harness.report.tables.detected_perturbations import write_stress_csv

            written.append(write_stress_csv(results, folder))
        if page:
            path = folder / ("index.html" if leaderboard else "report.html")
            with warn_of_failure("the page is not written", failures):
                from openended.harness.report.page.page import write_page

                written += write_page(results, tables, pictures, path, leaderboard=leaderboard, failures=failures)
        return written

    failures: list[str] = []
    return replace(write_report(results, tables, Path(out_dir), write_rest), failed=bool(failures))


def write_report(
    results: Results, tables: Sequence[Table], folder: Path, write_rest: Callable[[Path], list[Path]]
) -> Report:
    """Replace a folder by tables (.md, .tex, .csv) and what `write_rest` writes into the folder that it gets."""
    with replace_folder(folder, FILES, (LAYOUTS,)) as fresh:
        names = sorted({run.experiment for run in results.runs})
        report = f"{names[0]}-and-{len(names) - 1}-more" if len(names) > 1 else "".join(names)
        files = (write_table(table, fresh / "tables", report) for table in tables)
        written = [*(path for paths in files for path in paths), *write_rest(fresh)]
    paths = tuple(folder / path.relative_to(fresh) for path in written)
    return Report(folder, tuple(tables), paths, results)


def compare_scores(
    systems: "Sequence[SystemScores]", metrics: Sequence[str] = (), lower: Sequence[str] = (), *, drop: bool = False,
    difference: float | None = None, people: "Mapping[str, SystemScores] | None" = None, out: Path | None = None,
) -> None:  # fmt: skip
    """Print the tables of the scores of systems; with a folder, write them (.md, .tex, .csv) and a page into it.

    With people's scores of some samples of each system, the table of what people would say stands first.
    """
    from openended.harness.report.tables.score_comparison import build_score_frames, pair_scores

    frames = []
    if people:
        from openended.harness.report.tables.correction import build_correction_frame

        frames.append(build_correction_frame(systems, people, metrics))
    if len(systems) > 1:
        frames += build_score_frames(systems, pair_scores(systems, metrics, lower, drop=drop), difference)
    tables = build_tables(frames)
    console = make_console()
    for table in tables:
        print_table(table, console)
    if out is None:
        return
    from openended.harness.report.page.page import write_page

    results = Results((), (), {}, 0)
    report = write_report(results, tables, out, lambda folder: write_page(results, tables, [], folder / "report.html"))
    for line in report.lines():
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def show_correction(rows: Sequence[Mapping[str, Any]], people: Path, players: Sequence[str], folder: Path) -> None:
    """Print what people would say by a judge's judgments and theirs, and write it (.md, .tex, .csv) into a folder."""
    from openended.harness.report.tables.correction import build_study_correction_frame

    for table in build_tables([build_study_correction_frame(rows, people, players)]):
        print_table(table, make_console())
        write_table(table, folder, folder.name)


def write_rater_table(
    answers: "pd.DataFrame", folder: Path, name: str, title: str, least_seconds: float, remarks: Sequence[str]
) -> Path:
    """Write the table of how raters answered (.md, .tex, .csv); return the Markdown file."""
    from openended.harness.report.tables.raters import build_rater_frame

    (table,) = build_tables([build_rater_frame(answers, name, title, least_seconds, remarks)])
    return write_table(table, folder)[0]


def _load_layouts(
    layout: str | Path | Layout | Sequence[str] | None, options: Mapping[str, Any]
) -> list[tuple[str, Layout]]:
    if layout is None and options:
        return [("results", measured.build_layout(options, "report"))]
    if isinstance(layout, Layout):
        return [("results", measured.load_layout(layout, **options))]
    names = [layout] if isinstance(layout, (str, Path)) else list(layout or ["full"])
    return [(Path(name).stem, measured.load_layout(name, **options)) for name in names]


def make_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build the tables of one layout; a note of the first names the parts without its data.

    If all lack it, raise, unless these runs have no value at all: then there is no table.
    """
    layout.check_metrics({row.metric for row in results.rows})
    tables: list[Table] = []
    lacking: dict[str, DataError] = {}
    built: list[tuple[selection.TablePart, list[Frame]]] = []
    for part in selection.split_results(results, layout, name):
        try:
            built.append((part, selection.load_analysis(layout.analysis)(part, layout)))
        except DataError as err:
            lacking[part.stem] = err
    for part, frames in _join_tasks(built, results, layout, name):
        tables += [replace(table, about=part.about) for table in build_tables(frames, layout)]
    if lacking and not tables and any(math.isfinite(item.mean) for item in results.values):
        stem, first = next(iter(lacking.items()))
        raise DataError(f"table {stem}: {first}")
    notes = make_notes(f"No table {stem}: {err}." for stem, err in lacking.items())
    return [replace(table, notes=(*table.notes, *notes)) for table in tables[:1]] + tables[1:]


def _join_tasks(
    built: Sequence[tuple[selection.TablePart, list[Frame]]], results: Results, layout: Layout, name: str
) -> list[tuple[selection.TablePart, list[Frame]]]:
    """Join the parts that were split by `auto` and differ in the task alone, unless the layout has its own rows."""
    if layout.tables != ("auto",) or layout.rows or layout.columns or layout.analysis != "values":
        return list(built)
    groups = measured.group_by(built, lambda entry: tuple((a, v) for a, v in entry[0].where.items() if a != "task"))
    if all(len(parts) == 1 for parts in groups.values()):
        return list(built)
    joined = []
    stems = selection.name_files(name, [[value for _, value in where] for where in groups])
    for stem, (where, parts) in zip(stems, groups.items(), strict=True):
        frames = {part.where["task"]: frames[0] for part, frames in parts}
        others = "".join(f", {axis}={value}" for axis, value in where)
        items = [item for part, _ in parts for item in part.items]
        part = selection.TablePart(results, items, stem, dict(where), selection.summarize_sources(items, results.runs))
        joined.append((part, [join_tasks(frames, stem, f"{layout.title} on {', '.join(frames)}{others}")]))
    return joined


def _name_invented(table: Table, results: Results) -> Table:
    """Return a table whose title and caption say what stands in for judgments of people, unless its headings do."""
    headings = " ".join([*(row.label for row in table.rows), *(column.title for column in table.columns)])
    invented = {item.signature: item.invented for item in results.values if item.invented}
    notes = {invented[s]: None for s in table.signatures() if s in invented and invented[s] not in headings}
    return table.add_to_title([*notes])


def write_table(table: Table, folder: Path, report: str = "") -> list[Path]:
    """Write a table as Markdown, LaTeX and CSV; the name of the runs makes its LaTeX label unique."""
    label = "-".join(filter(None, (report, table.name)))
    texts = {"md": to_markdown(table), "tex": to_latex(table, label), "csv": to_csv(table)}
    for suffix, text in texts.items():
        write_text(folder / f"{table.name}.{suffix}", text)
    return [folder / f"{table.name}.{suffix}" for suffix in texts]
