"""Human judgments: files of ratings and of comparisons, who rated, and how well raters agree."""

from openended.metrics.judgments.agreement import agreement
from openended.metrics.judgments.comparisons import (
    ComparisonFile,
    TieRule,
    Wins,
    count_wins,
    is_matrix,
    read_comparisons,
)
from openended.metrics.judgments.metric import JudgmentMetric, build_file_features, get_judgments
from openended.metrics.judgments.raters import JUDGE, SIMULATED, UNCALIBRATED, calibration_of, raters_fact, with_raters
from openended.metrics.judgments.ratings import LOG_PROB, Empty, Judgments, are_ratings, read_judgments
from openended.metrics.judgments.rows import FileRow, ReadsFile, check_judgments_file, read_rows, select_kind

__all__ = [
    "JUDGE",
    "LOG_PROB",
    "SIMULATED",
    "UNCALIBRATED",
    "ComparisonFile",
    "Empty",
    "FileRow",
    "JudgmentMetric",
    "Judgments",
    "ReadsFile",
    "TieRule",
    "Wins",
    "agreement",
    "are_ratings",
    "build_file_features",
    "calibration_of",
    "check_judgments_file",
    "count_wins",
    "get_judgments",
    "is_matrix",
    "raters_fact",
    "read_comparisons",
    "read_judgments",
    "read_rows",
    "select_kind",
    "with_raters",
]
