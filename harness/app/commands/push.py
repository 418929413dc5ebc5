"""`openended push NAME OWNER/NAME`: upload values, texts and report of a name to a dataset repository of the Hub."""

import argparse
import re

from openended.harness.core import OUTPUTS, SpecError, make_main, print_line
from openended.harness.report import make_tables, upload_folder, write_hub_folder
from openended.harness.results import load_layout, read_results, resolve_report_request

_REPO_ID = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")


_AFTER = "the folder below exports is kept"
_ARGUMENTS = {
    "name": {"help": "of runs or of a grid, or folders of runs, as for openended report"},
    "repo_id": {"metavar": "OWNER/NAME", "help": "the dataset repository; created if missing"},
    **OUTPUTS,
    "--dry-run": {"action": "store_true", "help": "write the folder and upload nothing"},
    "--public": {"action": "store_true", "help": "a new repository is public; default: private"},
}


def _push(args: argparse.Namespace) -> None:
    if not _REPO_ID.fullmatch(args.repo_id):
        raise SpecError(f"expected a repository as OWNER/NAME, got {args.repo_id!r}")
    request = resolve_report_request([args.name], args.outputs)
    folder = args.outputs / "exports" / f"{request.name}-push"
    report = args.outputs / "reports" / request.name
    results = read_results(request.paths)
    tables = make_tables(results, load_layout("default"), "results")
    files = write_hub_folder(results, folder, args.repo_id, tables=tables, report=report if report.is_dir() else None)
    size = sum(path.stat().st_size for path in files) / 1e6
    print_line(f"{folder}: {len(files):,} files, {size:,.1f} MB")
    if args.dry_run:
        print_line(f"nothing was uploaded: --dry-run; look at {folder / 'README.md'}")
    else:
        print_line(upload_folder(folder, args.repo_id, private=not args.public))


main = make_main("push", __doc__, _ARGUMENTS, _push, example="openended push p-sweep me/p-sweep", after=_AFTER)
