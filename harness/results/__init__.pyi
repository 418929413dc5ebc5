from .axes import (
    axis_text as axis_text,
    by_name as by_name,
    fewest as fewest,
    head_of as head_of,
    in_order as in_order,
    is_word as is_word,
    of_human as of_human,
    said as said,
    telling as telling,
    with_options as with_options,
)
from .draws import (
    draws_of as draws_of,
    interval_of as interval_of,
)
from .fold import (
    Folded as Folded,
    fold_seeds as fold_seeds,
    natural as natural,
    order_key as order_key,
)
from .frame import (
    Results as Results,
    Run as Run,
    filtered as filtered,
    read_results as read_results,
    write_frame as write_frame,
)
from .grids import (
    GridFolder as GridFolder,
    asked as asked,
    grids_of as grids_of,
)
from .labels import (
    label_of as label_of,
    labels_of as labels_of,
    varying as varying,
)
from .layout import (
    Layout as Layout,
    layout_names as layout_names,
    layout_of as layout_of,
    load_layout as load_layout,
)
from .searched import (
    Searched as Searched,
    Sought as Sought,
    Tried as Tried,
    dominates as dominates,
    read_search as read_search,
    save_search as save_search,
)
from .stored import (
    ROW_FILES as ROW_FILES,
    stored_file as stored_file,
)
from .systems import (
    FACTS as FACTS,
    Pair as Pair,
    System as System,
    by_data as by_data,
    differing as differing,
    human_value as human_value,
    own_options as own_options,
    parts_of as parts_of,
    same_data as same_data,
    systems_of as systems_of,
    told_options as told_options,
    values_of as values_of,
    variants as variants,
    with_both as with_both,
)
from .tidy import (
    INTERNAL as INTERNAL,
)
