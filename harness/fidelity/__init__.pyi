from .audit import (
    audit_run as audit_run,
    build_audit_table as build_audit_table,
    compare_runs as compare_runs,
    plot_transform as plot_transform,
)
from .compare import compare_models as compare_models, read_strings as read_strings
