from .denoising.decoders import (
    DenoisingDecoder as DenoisingDecoder,
)
from .denoising.decoders import (
    Llada as Llada,
)
from .denoising.decoders import (
    Mdlm as Mdlm,
)
from .draw_from_q import (
    draw_next_tokens as draw_next_tokens,
)
from .generate import (
    generate_texts as generate_texts,
)
from .kv_cache.choose import (
    choose_runner_kind as choose_runner_kind,
)
from .teacher_forcing import (
    build_next_token as build_next_token,
)
from .teacher_forcing import (
    check_rows as check_rows,
)
from .teacher_forcing import (
    compute_q_statistics as compute_q_statistics,
)
from .teacher_forcing import (
    count_chunk_rows as count_chunk_rows,
)
from .teacher_forcing import (
    iterate_batches as iterate_batches,
)
from .teacher_forcing import (
    score_chunk as score_chunk,
)
from .token_loop import (
    build_generation as build_generation,
)
