from .axes import (
    add_options as add_options,
    describes_human_side as describes_human_side,
    find_distinguishing_axes as find_distinguishing_axes,
    format_axis_value as format_axis_value,
    format_option as format_option,
    get_parent_axis as get_parent_axis,
    is_readable as is_readable,
    order_axes as order_axes,
    select_fewest_axes as select_fewest_axes,
    sort_by_readability as sort_by_readability,
)
from .frame import (
    Results as Results,
    check_axes as check_axes,
    filter_results as filter_results,
    read_results as read_results,
    write_frame as write_frame,
)
from .grids import GridFolder as GridFolder, read_grids as read_grids, resolve_report_request as resolve_report_request
from .intervals import find_interval as find_interval, load_replicates as load_replicates
from .layout import Layout as Layout, build_layout as build_layout, load_layout as load_layout
from .runs import ROW_FILES as ROW_FILES, Run as Run, locate_verified_file as locate_verified_file
from .search_results import (
    SearchObjective as SearchObjective,
    SearchResult as SearchResult,
    SearchTrial as SearchTrial,
    dominates as dominates,
    read_search as read_search,
    save_search as save_search,
)
from .systems import (
    FACTS as FACTS,
    System as System,
    describe_differences as describe_differences,
    find_differing_fields as find_differing_fields,
    find_differing_options as find_differing_options,
    find_varying_axes as find_varying_axes,
    format_options as format_options,
    group_by_data as group_by_data,
    group_by_options as group_by_options,
    group_by_task_and_options as group_by_task_and_options,
    group_systems as group_systems,
    label_system as label_system,
    label_systems as label_systems,
    select_systems_with_both as select_systems_with_both,
)
from .values import (
    INTERNAL as INTERNAL,
    Pair as Pair,
    SystemValue as SystemValue,
    find_human_value as find_human_value,
    group_by as group_by,
    has_same_data as has_same_data,
    make_natural_sort_key as make_natural_sort_key,
    select_values as select_values,
    sort_values as sort_values,
)
