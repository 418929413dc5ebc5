"""Write the results of runs in one of the formats of other tools."""

from collections.abc import Iterable
from pathlib import Path

from openended.harness.core import SpecError, suggest
from openended.harness.report.exports.every_eval_ever import write_every_eval_ever
from openended.harness.report.exports.hub import MODELS, write_hub_files
from openended.harness.report.exports.inspect_log import write_inspect_logs
from openended.harness.report.exports.texts import METADATA, write_croissant
from openended.harness.results import read_results, write_frame
from openended.harness.storage import replace_folder

TABLES_HINT = "tables (.md, .tex, .csv) are written by openended report NAME"
FORMATS = {
    "eee": "Every Eval Ever: one JSON file per run, with its texts",
    "hub": ".eval_results for model repositories of the Hub; needs --dataset",
    "croissant": "the texts, described in Croissant",
    "inspect": "logs that `inspect view` opens, with texts and their scores",
    "parquet": "one table of all values, results.parquet and results.csv",
}
FILES = ("data", "logs", MODELS, "generations", METADATA, "results.parquet", "results.csv")  # of any export


def export_results(
    paths: Iterable[Path | str], folder: Path, file_format: str, *, name: str, organization: str = "not stated",
    dataset: str | None = None,
) -> list[Path]:  # fmt: skip
    """Write runs in a format of `FORMATS` into a folder; equal runs give equal bytes.

    Args:
        paths: Run folders, or folders that contain them.
        folder: Created if missing; what an earlier export wrote there is replaced.
        file_format: A key of `FORMATS`.
        name: Name of the exported texts.
        organization: `eee`: who made the runs.
        dataset: `hub`: the dataset repository that the results are filed under.

    Returns:
        The files.

    Raises:
        HarnessError: If the format is unknown, there are no readable runs or the folder cannot be written.
    """
    if file_format not in FORMATS:
        raise SpecError(f"--format: no format {file_format!r}{suggest(file_format, FORMATS)}; {TABLES_HINT}")
    if file_format == "hub" and dataset is None:
        raise SpecError("--format hub: results on the Hub are filed under a dataset: add --dataset OWNER/NAME")
    results = read_results(paths)
    with replace_folder(folder, FILES) as fresh:
        if file_format == "eee":
            files = write_every_eval_ever(results, fresh, organization)
        elif file_format == "hub":
            files = write_hub_files(results, fresh, str(dataset))
        elif file_format == "inspect":
            files = write_inspect_logs(results, fresh)
        elif file_format == "croissant":
            files = [*(file.path for file in write_croissant(results, fresh, name)), Path(METADATA)]
        else:
            files = [path.relative_to(fresh) for path in write_frame(results, fresh)]
    return [folder / path for path in files]
