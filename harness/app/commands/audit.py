"""`openended audit RUN…`: check that an engine drew every token from the decoder's Q, with a reference model."""

import argparse
from pathlib import Path

from openended.harness import core
from openended.harness.core import OUTPUTS, Arguments, DataError, argument, make_main
from openended.harness.results import find_run, find_runs

_ARGUMENTS: Arguments = {
    "runs": argument("a run's folder, the end of its name, or the name of runs", "RUN", nargs="+"),
    "--reference": argument("hub id or folder of the reference model; default: the run's own", "MODEL"),
    "--against": argument("compare the strings with those of another engine; needs no model", "RUN"),
    "--no-suspects": argument("skip the comparison with rounded weights: a third of the time", action="store_true"),
    "--device": argument("of the reference model; default: cpu", default="cpu"),
    "--batch-size": argument("texts of one forward pass; default: 32", "N", type=int, default=32),
    "--report": argument("write the table and the figure of the transform there", "DIR", type=Path),
    **OUTPUTS,
}


EPILOG = """Exit code: 0 consistent, 1 not drawn from Q, 2 bad input, 70 an unexpected error.
Examples:
  openended audit 5b2c81aa --report audit
  openended audit 5b2c81aa --against 0f7de123"""


def _audit(args: argparse.Namespace) -> None:
    from openended.harness import audit, report

    if args.batch_size < 1:
        raise DataError(f"--batch-size: expected 1 or more, got {args.batch_size}")
    folders = list(dict.fromkeys(folder for word in args.runs for folder in find_runs(word, args.outputs)))
    passed: list[bool] = []
    for folder in folders:
        if args.against is not None:
            verdict, is_passed = audit.compare_runs(folder, find_run(args.against, args.outputs))
            core.print_line(verdict)
            passed.append(is_passed)
            continue
        options = {"reference": args.reference, "device": args.device, "batch_size": args.batch_size}
        done = audit.audit_run(folder, suspects=not args.no_suspects, progress=True, **options)
        table = report.build_audit_table(done)
        report.print_table(table)
        if args.report is not None:
            target = args.report / folder.name if len(folders) > 1 else args.report
            report.write_table(table, target)
            report.draw_plots({"transform": report.plot_uniformity(done)}, target, table.title, _CAPTION)
        passed.append(not done.failures)
    if not all(passed):
        raise SystemExit(core.FAILED)


_CAPTION = "The mass of Q above each token, spread over the token's own part: uniform if the engine draws from Q."

main = make_main("audit", __doc__, _ARGUMENTS, _audit, example="openended audit 5b2c81aa", epilog=EPILOG)
