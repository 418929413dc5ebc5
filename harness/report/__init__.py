"""Tables, figures and a page from finished runs; reads result files only, never a model."""

from __future__ import annotations

from openended.harness.report.build import Report, build_report

__all__ = ["Report", "build_report"]
