from .check import (
    check_store as check_store,
)
from .check import (
    collect_garbage as collect_garbage,
)
from .folders import (
    ASIDE as ASIDE,
)
from .folders import (
    check_writable as check_writable,
)
from .folders import (
    new_folder as new_folder,
)
from .provenance import (
    difference as difference,
)
from .provenance import (
    git_state as git_state,
)
from .provenance import (
    hardware as hardware,
)
from .provenance import (
    maker as maker,
)
from .provenance import (
    package_versions as package_versions,
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
    direction_text as direction_text,
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
    Rows as Rows,
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
    Entry as Entry,
)
from .store import (
    Store as Store,
)
from .store import (
    read_entry as read_entry,
)
