"""The checks of an audit as a table and a figure."""

import numpy as np

from openended.harness.audit import Audit
from openended.harness.report.analysis.paired import Z
from openended.harness.report.figures.plot import Panel, Plot, Series
from openended.harness.report.tables.frame import Filled, build_frame, make_quantity
from openended.harness.report.tables.pivot import build_tables
from openended.harness.report.tables.table import Table


def build_audit_table(audit: Audit) -> Table:
    """Build the table of the checks."""
    failed = set(audit.failures)
    columns: list[Filled] = [
        (make_quantity("", "p_value", "p", decimals=4, is_p=True), [f.p_value for f in audit.findings]),
        ("result", ["FAILED" if f in failed else "passed" for f in audit.findings]),
        ("observed", [f.observed for f in audit.findings]),
        (make_quantity("", "visible", "smallest fault seen with 90 %"), [f.visible or None for f in audit.findings]),
    ]
    remark = "An honest engine fails any check with a probability of 5 % (Holm)."
    names = [f.name for f in audit.findings]
    return build_tables([build_frame("audit", audit.describe(), names, columns, [remark], head="Check")])[0]


def plot_uniformity(audit: Audit) -> Plot:
    """Show the transform of the tokens: flat if they were drawn from Q."""
    bins = len(audit.transform)
    error = np.full(bins + 1, Z * np.sqrt(bins / max(audit.tokens, 1)))
    edges = np.linspace(0, 1, bins + 1)
    density = np.array([*audit.transform, audit.transform[-1]]) * bins / max(audit.tokens, 1)
    series = [
        Series(mark="step", x=edges, y=density, label="tokens"),
        Series(mark="line", x=edges, y=np.ones(bins + 1), below=error, above=error, label="drawn from Q (95 %)"),
    ]
    return Plot([Panel(series, options={"xlabel": "mass of Q above the token", "ylabel": "density", "xlim": (0, 1)})])
