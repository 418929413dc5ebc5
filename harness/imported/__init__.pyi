from .files import (
    HUMAN_TEXTS as HUMAN_TEXTS,
    TEXTS as TEXTS,
    files_digest as files_digest,
    guess as guess,
    kind_of as kind_of,
    read_records as read_records,
)
from .formats import (
    PUBLISHED as PUBLISHED,
    split_member as split_member,
)
from .pairing import (
    import_rows as import_rows,
    import_texts as import_texts,
)
from .sources import (
    file_fingerprint as file_fingerprint,
)
from .unpaired import (
    import_loose as import_loose,
)
