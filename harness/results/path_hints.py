"""Which command reads what a path holds, where another command was given it."""

from pathlib import Path

from openended.harness.storage import RECORD


def suggest_command(path: Path) -> str:
    """Return which command reads what a path holds, as `; openended import a.zip unpacks it`; empty if none does."""
    if path.suffix == ".zip":
        return f"; openended import {path} unpacks it"
    depths = (RECORD, f"*/{RECORD}", f"*/*/{RECORD}", f"*/*/*/{RECORD}")  # of a run, a grid, all runs, all outputs
    if path.is_dir() and any(next(path.glob(depth), None) for depth in depths):
        return f"; it holds runs: openended report {path}"
    if (path / "results.parquet").is_file():
        return f"; it is a report, whose runs are read by openended report {path.name}"
    from openended.harness.imported import KINDS

    if path.suffix in (".json", *KINDS):
        return f"; texts are scored by openended score {path} --human FILE"
    return ""
