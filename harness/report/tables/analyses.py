"""Import the analysis that a layout names: a function from the results of a table, and the layout, to frames."""

from collections.abc import Callable
from importlib import import_module

from openended.harness.report.tables.frame import Frame
from openended.harness.report.tables.selection import TablePart
from openended.harness.results import ANALYSES, Layout

Analysis = Callable[[TablePart, Layout], list[Frame]]


def load_analysis(name: str) -> Analysis:
    """Import an analysis by name; no other one is imported."""
    module, _, function = ANALYSES[name].partition(":")
    analysis: Analysis = getattr(import_module(f"openended.harness.report.{module}"), function)
    return analysis
