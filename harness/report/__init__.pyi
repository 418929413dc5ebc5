from .analysis.group_sequential import (
    OPEN as OPEN,
    DecisionPlan as DecisionPlan,
    PlannedComparison as PlannedComparison,
    check_plan as check_plan,
    judge_comparisons as judge_comparisons,
    read_decision_plan as read_decision_plan,
    save_decisions as save_decisions,
)
from .analysis.paired import (
    compute_clustered_error as compute_clustered_error,
    compute_student_quantile as compute_student_quantile,
)
from .analysis.power import format_power as format_power
from .analysis.worsening import (
    NOT_WORSE as NOT_WORSE,
    UNDECIDED as UNDECIDED,
    WORSE as WORSE,
    Worsening as Worsening,
    decide_together as decide_together,
    measure_worsening as measure_worsening,
)
from .audit import build_audit_table as build_audit_table, plot_uniformity as plot_uniformity
from .build import (
    Report as Report,
    build_report as build_report,
    compare_scores as compare_scores,
    make_tables as make_tables,
    show_correction as show_correction,
    write_rater_table as write_rater_table,
    write_table as write_table,
)
from .exports.formats import FORMATS as FORMATS, TABLES_HINT as TABLES_HINT, export_results as export_results
from .figures.draw import draw_plots as draw_plots, draw_search as draw_search
from .frequency import write_frequency_files as write_frequency_files
from .tables.compare import format_worsening as format_worsening
from .tables.formats.text import WIDTH as WIDTH, make_console as make_console, print_table as print_table
from .tables.frame import (
    arrow as arrow,
    build_frame as build_frame,
    make_cell as make_cell,
    make_quantity as make_quantity,
)
from .tables.pivot import build_tables as build_tables
from .tables.search_trials import build_search_tables as build_search_tables
from .tables.selection import select_pairs as select_pairs
from .tables.table import Table as Table
from .tracking import (
    TrackerOptions as TrackerOptions,
    build_tracker_options as build_tracker_options,
    require_tracker as require_tracker,
    track_report as track_report,
    track_runs as track_runs,
)
