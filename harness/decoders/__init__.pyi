from .base import (
    Decoder as Decoder,
)
from .base import (
    Emit as Emit,
)
from .base import (
    GenerationRequest as GenerationRequest,
)
from .base import (
    Prompt as Prompt,
)
from .base import (
    QDecoder as QDecoder,
)
from .base import (
    SamplingDecoder as SamplingDecoder,
)
from .base import (
    check_temperature as check_temperature,
)
from .descending_logits import (
    build_descending_logits as build_descending_logits,
)
from .penalties import (
    apply_penalties as apply_penalties,
)
from .penalties import (
    forbid_end as forbid_end,
)
from .q import (
    compute_dense_q as compute_dense_q,
)
from .q import (
    draw_tokens as draw_tokens,
)
from .q import (
    truncate_and_renormalize as truncate_and_renormalize,
)
from .q_statistics import (
    LogitChunk as LogitChunk,
)
from .q_statistics import (
    QStatistics as QStatistics,
)
from .q_statistics import (
    QTable as QTable,
)
from .q_statistics import (
    TextPosition as TextPosition,
)
from .q_statistics import (
    read_q as read_q,
)
from .sampling import (
    Nucleus as Nucleus,
)
from .sampling import (
    TopK as TopK,
)
