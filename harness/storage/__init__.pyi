from .check import (
    check_store as check_store,
    collect_garbage as collect_garbage,
)
from .folders import (
    ASIDE as ASIDE,
    check_writable as check_writable,
    new_folder as new_folder,
)
from .provenance import (
    difference as difference,
    git_state as git_state,
    hardware as hardware,
    maker as maker,
    package_versions as package_versions,
)
from .recipe import (
    Recipe as Recipe,
    STAGES as STAGES,
)
from .record import (
    EXPLAIN as EXPLAIN,
    GRID as GRID,
    RECORD as RECORD,
    ResultRow as ResultRow,
    RunRecord as RunRecord,
    read_record as read_record,
    save_record as save_record,
)
from .rows import (
    Row as Row,
    Rows as Rows,
    join_ragged as join_ragged,
    read_examples as read_examples,
    write_examples as write_examples,
    write_in_order as write_in_order,
    write_rows as write_rows,
)
from .store import (
    Entry as Entry,
    MANIFEST as MANIFEST,
    Store as Store,
    read_entry as read_entry,
)
