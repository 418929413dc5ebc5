"""Human judgments: files of ratings and of comparisons, who rated, and how well raters agree."""

from openended.metrics.judgments.comparisons import (
    ComparisonFile as ComparisonFile,
    TieRule as TieRule,
    Wins as Wins,
    accepts_comparisons as accepts_comparisons,
    count_wins as count_wins,
    read_comparisons as read_comparisons,
)
from openended.metrics.judgments.metric import (
    JudgmentMetric as JudgmentMetric,
    ReadsFile as ReadsFile,
    build_file_features as build_file_features,
    get_judgments as get_judgments,
)
from openended.metrics.judgments.raters import (
    JUDGE as JUDGE,
    SIMULATED as SIMULATED,
    UNCALIBRATED as UNCALIBRATED,
    add_raters_fact as add_raters_fact,
    agreement as agreement,
    format_raters_fact as format_raters_fact,
    read_calibration as read_calibration,
)
from openended.metrics.judgments.ratings import (
    LOG_PROB as LOG_PROB,
    Judgments as Judgments,
    are_ratings as are_ratings,
    read_judgments as read_judgments,
)
from openended.metrics.judgments.rows import (
    Empty as Empty,
    FileRow as FileRow,
    check_judgments_file as check_judgments_file,
    read_rows as read_rows,
    select_kind as select_kind,
)
