"""Command `openended report`: build tables, figures and a page from any set of runs."""

import argparse
import contextlib
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openended.harness import core

if TYPE_CHECKING:
    from openended.harness.report.build import Report

EPILOG = """\
Layouts: {layouts}, or the path of a YAML with the same options (see conf/report).
Examples:
  openended report quickstart
  openended report outputs/grids/20260101T120000
  openended report outputs/runs --layout decoders,sizes --where task=docs
  openended report outputs/runs --compare mauve2021/table3
  openended report outputs/runs --baseline 'nucleus p=0.95'
  openended report outputs/runs --rows decoder --columns embedder --metrics mauve
  openended report monday tuesday --side-by-side
"""


_ARGUMENTS: core.Arguments = {
    "paths": {"nargs": "+", "metavar": "NAME|GRID_FOLDER|RUNS", "synonyms": ("--name", "--runs", "--experiment"),
              "help": "a name (name=…, experiment=…), a grid's folder, runs"},
    "--layout": {"action": "append", "metavar": "NAME",
                 "help": "one or more layouts, separated by commas; default: the layout of the grid's own report, "
                         "else full"},
    "--outputs": {"metavar": "DIR", "default": "outputs", "help": "where names are looked up; default: outputs"},
    "--compare": {"action": "append", "metavar": "PAPER/TABLE", "help": "a published table, or several"},
    "--baseline": {"metavar": "LABEL",
                   "help": "test every other system against this label, this model, or the last-good checkpoint"},
    "--where": {"action": "append", "default": [], "metavar": "AXIS=VALUE",
                "help": "keep only these runs; a|b accepts either; also METRIC.OPTION=VALUE"},
    "--out": {"metavar": "DIR",
              "synonyms": ("--format", "--formats", "--latex", "--output", "--output-format",
                            "--output-dir", "--outputs-dir"),
              "help": "where the files (.md, .tex, .csv, figures, page) go; default: outputs/reports/NAME, and "
                      "layouts/LAYOUT or layouts/compare in it"},
    "--metrics": {"metavar": "NAMES", "help": "values to show; overrides the layout"},
    "--rows": {"metavar": "AXES", "help": "axes of the rows (metric is one); overrides the layout"},
    "--columns": {"metavar": "AXES", "help": "axes of the columns, each a level of the heading"},
    "--tables": {"metavar": "AXES", "help": "axes that get one table per value; auto: as needed"},
    "--gaps": {"nargs": "?", "const": True, "choices": (True, "log"), "metavar": "log",
               "help": "print |model - human| for values whose target is the human value, or that of their logarithms"},
    "--intervals": {"action": "store_true", "help": "print the 95 %% interval over examples next to every value"},
    "--width": {"metavar": "column|page|POINTS",
                "help": "text width of the LaTeX tables: column (219 points), page (455), or points; default: that of "
                        "the layout"},
    "--side-by-side": {"action": "store_true", "help": "compare two: settings, numbers and texts"},
    "--no-figures": {"action": "store_true", "help": "draw no figures"},
    "--no-page": {"action": "store_true", "help": "write no HTML page"},
    "-v/--verbose": {"action": "store_true", "help": "also print rules, dates, commands and signatures"},
    "-q/--quiet": {"action": "store_true", "help": "print only the output folder"},
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    core.terminal.set_up()
    about = "Tables (.md, .tex, .csv), figures (.pdf, .png), one tidy frame and a page from finished runs."
    epilog = EPILOG.format(layouts=", ".join(core.list_bundled_choices("report")))
    args = core.make_parser("report", about, _ARGUMENTS, "openended report quickstart", epilog).parse_args(argv)
    return core.run_command(
        "openended report", lambda: _run(args), after_interrupt="files are replaced atomically; none is half-written"
    )


def _run(args: argparse.Namespace) -> None:
    if "" in args.paths:
        raise core.SpecError("expected a name, a grid's folder or runs, got ''")
    if twice := core.find_repeated(args.paths):
        raise core.SpecError(f"{twice} is listed twice; name each once")
    folders = (Path(args.out), *Path(args.out).parents) if args.out else ()
    if file := next((path for path in folders if path.is_file()), None):
        raise core.SpecError(f"--out {args.out}: {file} is a file; type --out FOLDER, a new one or that of a report")
    report = _build_side_by_side(args) if args.side_by_side else _build_report(args)
    if args.quiet:
        sys.stdout.write(f"{report.folder}\n")
    else:
        report.show(verbose=args.verbose)
    if report.failed:
        raise SystemExit(core.FAILED)


def _build_report(args: argparse.Namespace) -> "Report":
    from openended.harness.report.analysis.group_sequential import read_decision_plan
    from openended.harness.report.build import LAYOUTS, build_report
    from openended.harness.results import OWN_AXES, Layout, build_layout, parse_filters, resolve_report_request

    lists = {name: getattr(args, name) for name in ("metrics", "rows", "columns", "tables")}
    if empty := next((name for name, value in lists.items() if value is not None and not value.strip(" ,")), None):
        raise core.SpecError(f"--{empty}: expected names separated by commas, got {lists[empty]!r}")
    options: dict[str, Any] = {name: tuple(core.split_commas(v)) for name, v in lists.items() if v is not None}
    typed_axes = [a for name in ("rows", "columns", "tables") for a in options.get(name, ()) if a not in OWN_AXES]
    options |= {"gaps": args.gaps} if args.gaps else {}
    options |= {"uncertainty": "interval"} if args.intervals else {}
    if args.width is not None:
        options["latex_width"] = _parse_width(args.width)
    request = resolve_report_request(args.paths, Path(args.outputs))
    if request.decided:
        names, command = ", ".join(request.decided), f"openended report {request.decided[0]}"
        core.print_error(
            "openended report", f"warning: the decisions of {names} are shown by a report of each alone: {command}"
        )
    layouts = core.split_commas(",".join(args.layout or ()))
    layout: str | list[str] | Layout = layouts or "full"
    if not args.layout and request.options:
        layout, options = build_layout({**request.options, **options}, "report"), {}
    where = {**dict(options.pop("where", {})), **parse_filters(args.where)}
    folder = Path(args.outputs) / "reports" / request.name
    # Another layout and a comparison go next to the finished report, never over it.
    others = [*(Path(word).stem for word in layouts), *(["compare"] if args.compare else [])]
    out = args.out or (folder / LAYOUTS / "-".join(others) if others and folder.exists() else folder)
    options |= {"compare": core.split_commas(",".join(args.compare or ())), "baseline": args.baseline, "where": where}
    options |= {"figures": not args.no_figures, "page": not args.no_page}
    options |= {"required_axes": typed_axes, "required_metrics": core.split_commas(args.metrics or "")}
    options |= {"decisions": read_decision_plan(request.grid)} if request.grid is not None else {}
    return build_report(request.paths, out, layout=layout, **options)


def _build_side_by_side(args: argparse.Namespace) -> "Report":
    from openended.harness.report.side_by_side import build_side_by_side
    from openended.harness.results import parse_filters, resolve_report_request

    unread = ("layout", "compare", "baseline", "metrics", "rows", "columns", "tables", "gaps", "intervals", "width")
    if typed := next((name for name in unread if getattr(args, name)), None):
        raise core.SpecError(f"--side-by-side compares all settings and values; leave out --{typed}")
    requests = [resolve_report_request([path], Path(args.outputs)) for path in args.paths]
    names = [request.name for request in requests]
    out = args.out or Path(args.outputs) / "reports" / "-and-".join(names)
    where = parse_filters(args.where)
    return build_side_by_side([r.paths for r in requests], names, out, where=where, page=not args.no_page)


def _parse_width(text: str) -> float:
    with contextlib.suppress(ValueError):
        width = {"column": 219.0, "page": 455.0}.get(text) or float(text)
        if 100 <= width < math.inf:
            return width
    raise core.SpecError(f"--width: expected column, page or 100 points or more, got {text!r}")
