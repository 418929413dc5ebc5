from .artifacts import (
    HUMAN_ROWS as HUMAN_ROWS,
    SPARE_ROWS as SPARE_ROWS,
    VECTORS as VECTORS,
    load_array as load_array,
    load_next_token as load_next_token,
    load_ragged as load_ragged,
    load_result as load_result,
    load_result_arrays as load_result_arrays,
    save_array as save_array,
    save_next_token as save_next_token,
    save_ragged as save_ragged,
    save_result as save_result,
)
from .check import (
    check_store as check_store,
    collect_garbage as collect_garbage,
    find_named_entries as find_named_entries,
)
from .provenance import compare_environments as compare_environments, describe_environment as describe_environment
from .record import (
    EXPLAIN as EXPLAIN,
    GRID as GRID,
    RECORD as RECORD,
    RunInput as RunInput,
    RunRecord as RunRecord,
    find_input as find_input,
    read_record as read_record,
    restore_words as restore_words,
    save_record as save_record,
)
from .report_folder import replace_folder as replace_folder, warn_of_failure as warn_of_failure
from .row_blocks import (
    RowBlocks as RowBlocks,
    list_sharing_artifacts as list_sharing_artifacts,
    merge_parts as merge_parts,
    share_rows as share_rows,
)
from .rows import (
    PlannedRows as PlannedRows,
    Row as Row,
    RowFile as RowFile,
    read_examples as read_examples,
    write_examples as write_examples,
    write_in_order as write_in_order,
    write_rows as write_rows,
)
from .sharing import RemoteStore as RemoteStore
from .store import (
    ENTRY_NAME as ENTRY_NAME,
    MANIFEST as MANIFEST,
    MODEL_STAGES as MODEL_STAGES,
    STAGES as STAGES,
    Entry as Entry,
    Recipe as Recipe,
    Store as Store,
    check_writable as check_writable,
    create_unique_folder as create_unique_folder,
    read_entry as read_entry,
)
