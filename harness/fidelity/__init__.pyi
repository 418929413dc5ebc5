from .audit import (
    Audit as Audit,
    audit_run as audit_run,
    build_audit_table as build_audit_table,
    compare_runs as compare_runs,
    plot_transform as plot_transform,
)
