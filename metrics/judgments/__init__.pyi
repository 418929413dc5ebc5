from .base import (
    JUDGE as JUDGE,
    UNCALIBRATED as UNCALIBRATED,
    Empty as Empty,
    FileRow as FileRow,
    add_raters_fact as add_raters_fact,
    agreement as agreement,
    check_judgments_file as check_judgments_file,
    format_raters_fact as format_raters_fact,
    read_calibration as read_calibration,
    read_rows as read_rows,
    select_kind as select_kind,
)
from .comparisons import (
    CONTROLS as CONTROLS,
    ComparisonFile as ComparisonFile,
    TieRule as TieRule,
    Wins as Wins,
    accepts_comparisons as accepts_comparisons,
    average_outcomes as average_outcomes,
    count_wins as count_wins,
    read_comparisons as read_comparisons,
)
from .corrected import (
    LEAST_ITEMS as LEAST_ITEMS,
    CorrectedEstimate as CorrectedEstimate,
    ItemEstimate as ItemEstimate,
    correct_judge as correct_judge,
)
from .ratings import (
    LOG_PROB as LOG_PROB,
    Judgments as Judgments,
    RatingFile as RatingFile,
    are_ratings as are_ratings,
    check_rated_examples as check_rated_examples,
    read_criteria as read_criteria,
    read_judgments as read_judgments,
)
