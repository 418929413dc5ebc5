from .generate import (
    generate_texts as generate_texts,
)
from .kv_cache.choose import (
    check as check,
)
from .teacher_forcing import (
    batches_of as batches_of,
)
from .teacher_forcing import (
    check_rows as check_rows,
)
from .teacher_forcing import (
    compute_q_statistics as compute_q_statistics,
)
