from .axes import (
    axis_text as axis_text,
)
from .axes import (
    by_name as by_name,
)
from .axes import (
    fewest as fewest,
)
from .axes import (
    head_of as head_of,
)
from .axes import (
    in_order as in_order,
)
from .axes import (
    is_word as is_word,
)
from .axes import (
    of_human as of_human,
)
from .axes import (
    said as said,
)
from .axes import (
    telling as telling,
)
from .axes import (
    with_options as with_options,
)
from .draws import (
    draws_of as draws_of,
)
from .draws import (
    interval_of as interval_of,
)
from .fold import (
    Folded as Folded,
)
from .fold import (
    fold_seeds as fold_seeds,
)
from .fold import (
    natural as natural,
)
from .fold import (
    order_key as order_key,
)
from .frame import (
    Results as Results,
)
from .frame import (
    filtered as filtered,
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
    asked as asked,
)
from .grids import (
    grids_of as grids_of,
)
from .labels import (
    label_of as label_of,
)
from .labels import (
    labels_of as labels_of,
)
from .labels import (
    varying as varying,
)
from .layout import (
    Layout as Layout,
)
from .layout import (
    layout_names as layout_names,
)
from .layout import (
    layout_of as layout_of,
)
from .layout import (
    load_layout as load_layout,
)
from .runs import (
    Run as Run,
)
from .searched import (
    Searched as Searched,
)
from .searched import (
    Sought as Sought,
)
from .searched import (
    Tried as Tried,
)
from .searched import (
    dominates as dominates,
)
from .searched import (
    read_search as read_search,
)
from .searched import (
    save_search as save_search,
)
from .stored import (
    ROW_FILES as ROW_FILES,
)
from .stored import (
    stored_file as stored_file,
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
    by_data as by_data,
)
from .systems import (
    differing as differing,
)
from .systems import (
    human_value as human_value,
)
from .systems import (
    own_options as own_options,
)
from .systems import (
    parts_of as parts_of,
)
from .systems import (
    same_data as same_data,
)
from .systems import (
    systems_of as systems_of,
)
from .systems import (
    told_options as told_options,
)
from .systems import (
    values_of as values_of,
)
from .systems import (
    variants as variants,
)
from .systems import (
    with_both as with_both,
)
from .tidy import (
    INTERNAL as INTERNAL,
)
