from .axes import (
    add_options as add_options,
)
from .axes import (
    describes_human_side as describes_human_side,
)
from .axes import (
    find_distinguishing_axes as find_distinguishing_axes,
)
from .axes import (
    format_axis_value as format_axis_value,
)
from .axes import (
    format_option as format_option,
)
from .axes import (
    get_parent_axis as get_parent_axis,
)
from .axes import (
    is_readable as is_readable,
)
from .axes import (
    order_axes as order_axes,
)
from .axes import (
    select_fewest_axes as select_fewest_axes,
)
from .axes import (
    sort_by_readability as sort_by_readability,
)
from .fold import (
    SystemValue as SystemValue,
)
from .fold import (
    fold_seeds as fold_seeds,
)
from .fold import (
    make_natural_sort_key as make_natural_sort_key,
)
from .fold import (
    make_order_key as make_order_key,
)
from .frame import (
    Results as Results,
)
from .frame import (
    check_axes as check_axes,
)
from .frame import (
    filter_results as filter_results,
)
from .frame import (
    read_results as read_results,
)
from .frame import (
    write_frame as write_frame,
)
from .grids import (
    GridFolder as GridFolder,
)
from .grids import (
    read_grids as read_grids,
)
from .grids import (
    resolve_report_request as resolve_report_request,
)
from .labels import (
    find_varying_axes as find_varying_axes,
)
from .labels import (
    label_system as label_system,
)
from .labels import (
    label_systems as label_systems,
)
from .layout import (
    Layout as Layout,
)
from .layout import (
    build_layout as build_layout,
)
from .layout import (
    list_layouts as list_layouts,
)
from .layout import (
    load_layout as load_layout,
)
from .replicates import (
    find_interval as find_interval,
)
from .replicates import (
    load_replicates as load_replicates,
)
from .runs import (
    Run as Run,
)
from .search_results import (
    SearchObjective as SearchObjective,
)
from .search_results import (
    SearchResult as SearchResult,
)
from .search_results import (
    SearchTrial as SearchTrial,
)
from .search_results import (
    dominates as dominates,
)
from .search_results import (
    read_search as read_search,
)
from .search_results import (
    save_search as save_search,
)
from .store_files import (
    ROW_FILES as ROW_FILES,
)
from .store_files import (
    locate_verified_file as locate_verified_file,
)
from .systems import (
    FACTS as FACTS,
)
from .systems import (
    Pair as Pair,
)
from .systems import (
    System as System,
)
from .systems import (
    find_differing_fields as find_differing_fields,
)
from .systems import (
    find_differing_options as find_differing_options,
)
from .systems import (
    find_human_value as find_human_value,
)
from .systems import (
    format_options as format_options,
)
from .systems import (
    group_by_data as group_by_data,
)
from .systems import (
    group_by_options as group_by_options,
)
from .systems import (
    group_by_task_and_options as group_by_task_and_options,
)
from .systems import (
    group_systems as group_systems,
)
from .systems import (
    has_same_data as has_same_data,
)
from .systems import (
    select_systems_with_both as select_systems_with_both,
)
from .systems import (
    select_values as select_values,
)
from .tidy import (
    INTERNAL as INTERNAL,
)
