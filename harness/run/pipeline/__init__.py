"""Runs from settings to a run record: texts, metrics, judgments."""

from openended.harness.run.pipeline.judgments import run_judgments, select_metrics_for_file
from openended.harness.run.pipeline.pipeline import plan, prepare, run
from openended.harness.run.pipeline.run_record import Outcome
from openended.harness.run.pipeline.texts import RunTexts, make_texts

__all__ = ["Outcome", "RunTexts", "make_texts", "plan", "prepare", "run", "run_judgments", "select_metrics_for_file"]
