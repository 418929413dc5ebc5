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
from .penalties import (
    forbid_end as forbid_end,
)
from .penalties import (
    penalise as penalise,
)
from .q import (
    dense as dense,
)
from .q import (
    draw as draw,
)
from .q import (
    weigh as weigh,
)
from .q_statistics import (
    LogitChunk as LogitChunk,
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
from .sorted_logits import (
    view_of as view_of,
)
