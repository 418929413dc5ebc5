from .base import (
    TEMPERATURES as TEMPERATURES,
    Decoder as Decoder,
    Emit as Emit,
    GenerationRequest as GenerationRequest,
    Prompt as Prompt,
    QDecoder as QDecoder,
    SamplingDecoder as SamplingDecoder,
)
from .descending_logits import build_descending_logits as build_descending_logits
from .processor import compute_log_q as compute_log_q, parse_q_decoder as parse_q_decoder
from .q import (
    PenalizingDecoder as PenalizingDecoder,
    apply_penalties as apply_penalties,
    compute_dense_q as compute_dense_q,
    draw_tokens as draw_tokens,
    forbid_end as forbid_end,
    start_draw as start_draw,
    truncate_and_renormalize as truncate_and_renormalize,
)
from .q_statistics import (
    LogitChunk as LogitChunk,
    QStatistics as QStatistics,
    QTable as QTable,
    TextPosition as TextPosition,
    read_dense_q as read_dense_q,
    read_q as read_q,
)
from .sampling import Nucleus as Nucleus, TopK as TopK
