from .generate import (
    generate_texts as generate_texts,
)
from .kv_cache.choose import (
    choose_runner_kind as choose_runner_kind,
)
from .teacher_forcing import (
    check_rows as check_rows,
)
from .teacher_forcing import (
    compute_q_statistics as compute_q_statistics,
)
from .teacher_forcing import (
    iterate_batches as iterate_batches,
)
