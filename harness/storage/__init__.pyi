from .check import (
    check_store as check_store,
)
from .check import (
    collect_garbage as collect_garbage,
)
from .folders import (
    DAMAGED_MARK as DAMAGED_MARK,
)
from .folders import (
    check_writable as check_writable,
)
from .folders import (
    create_unique_folder as create_unique_folder,
)
from .provenance import (
    compare_environments as compare_environments,
)
from .provenance import (
    describe_environment as describe_environment,
)
from .provenance import (
    describe_hardware as describe_hardware,
)
from .provenance import (
    list_package_versions as list_package_versions,
)
from .provenance import (
    read_git_state as read_git_state,
)
from .recipe import (
    ENTRY_NAME as ENTRY_NAME,
)
from .recipe import (
    STAGES as STAGES,
)
from .recipe import (
    Recipe as Recipe,
)
from .record import (
    EXPLAIN as EXPLAIN,
)
from .record import (
    GRID as GRID,
)
from .record import (
    RECORD as RECORD,
)
from .record import (
    ResultRow as ResultRow,
)
from .record import (
    RunRecord as RunRecord,
)
from .record import (
    format_direction as format_direction,
)
from .record import (
    mark_record as mark_record,
)
from .record import (
    read_record as read_record,
)
from .record import (
    save_record as save_record,
)
from .rows import (
    Row as Row,
)
from .rows import (
    RowFile as RowFile,
)
from .rows import (
    join_ragged as join_ragged,
)
from .rows import (
    read_examples as read_examples,
)
from .rows import (
    write_examples as write_examples,
)
from .rows import (
    write_in_order as write_in_order,
)
from .rows import (
    write_rows as write_rows,
)
from .store import (
    MANIFEST as MANIFEST,
)
from .store import (
    PARTIAL as PARTIAL,
)
from .store import (
    Entry as Entry,
)
from .store import (
    Store as Store,
)
from .store import (
    mark_manifest as mark_manifest,
)
from .store import (
    read_entry as read_entry,
)
