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
from openended.metrics.judgments.raters import (
    JUDGE,
    SIMULATED,
    UNCALIBRATED,
    add_raters_fact,
    format_raters_fact,
    read_calibration,
)
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
    "add_raters_fact",
    "agreement",
    "are_ratings",
    "build_file_features",
    "check_judgments_file",
    "count_wins",
    "format_raters_fact",
    "get_judgments",
    "is_matrix",
    "read_calibration",
    "read_comparisons",
    "read_judgments",
    "read_rows",
    "select_kind",
]
