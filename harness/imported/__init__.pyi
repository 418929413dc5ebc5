from .files import (
    HUMAN_TEXTS as HUMAN_TEXTS,
)
from .files import (
    TEXTS as TEXTS,
)
from .files import (
    files_digest as files_digest,
)
from .files import (
    guess as guess,
)
from .files import (
    kind_of as kind_of,
)
from .files import (
    read_records as read_records,
)
from .formats import (
    PUBLISHED as PUBLISHED,
)
from .formats import (
    split_member as split_member,
)
from .pairing import (
    import_rows as import_rows,
)
from .pairing import (
    import_texts as import_texts,
)
from .sources import (
    file_fingerprint as file_fingerprint,
)
from .unpaired import (
    import_loose as import_loose,
)
