from .base import (
    Decoder as Decoder,
    Emit as Emit,
    GenerationRequest as GenerationRequest,
    Prompt as Prompt,
    QDecoder as QDecoder,
    SamplingDecoder as SamplingDecoder,
    check_temperature as check_temperature,
)
from .penalties import (
    forbid_end as forbid_end,
    penalise as penalise,
)
from .q import (
    dense as dense,
    draw as draw,
    weigh as weigh,
)
from .q_statistics import (
    LogitChunk as LogitChunk,
    QTable as QTable,
    TextPosition as TextPosition,
    read_q as read_q,
)
from .sampling import (
    Nucleus as Nucleus,
    TopK as TopK,
)
from .sorted_logits import (
    view_of as view_of,
)
