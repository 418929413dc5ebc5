"""Tables as HTML, for a page and for notebooks."""

from functools import cache
from importlib import resources

from jinja2 import DictLoader, Environment, StrictUndefined

from openended.harness.report.tables.formats.text import clean
from openended.harness.report.tables.table import Table


@cache
def make_environment() -> Environment:
    """Return the environment of templates, which may import `show_table` from `table.html`."""
    loader = DictLoader({"table.html": (resources.files(__package__) / "table.html").read_text(encoding="utf-8")})
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def to_html(table: Table) -> str:
    """Format a table as HTML for a notebook, with warnings, legend and notes."""
    module = make_environment().get_template("table.html").module
    return str(getattr(module, "show_table")(clean(table)))  # noqa: B009 - of the template
