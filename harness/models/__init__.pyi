from .backend import (
    Ability as Ability,
    Backend as Backend,
    BackendSpec as BackendSpec,
    Embedded as Embedded,
    EmbeddingRequest as EmbeddingRequest,
    ModelService as ModelService,
    QStatisticsRequest as QStatisticsRequest,
    ScoringRequest as ScoringRequest,
    require_model as require_model,
)
from .chat import (
    ChatTemplate as ChatTemplate,
    load_template as load_template,
    turns_of as turns_of,
)
from .check_finite import (
    finite_logits as finite_logits,
)
from .embedder import (
    EmbedderSpec as EmbedderSpec,
    embed as embed,
    embed_texts as embed_texts,
)
from .families import (
    Kind as Kind,
    body_of as body_of,
    rescaled as rescaled,
    settle as settle,
)
from .forward import (
    ForwardRow as ForwardRow,
    Pool as Pool,
    vectors_for as vectors_for,
)
from .loaded import (
    LoadedModels as LoadedModels,
    pick_device as pick_device,
)
from .loading.hub import (
    OURS as OURS,
    switched_off as switched_off,
)
from .loading.isolated_process import (
    bounded_memory as bounded_memory,
)
from .loading.placement import (
    is_spread as is_spread,
)
from .memory import (
    free_memory as free_memory,
    out_of_memory as out_of_memory,
)
from .score import (
    embed_and_score as embed_and_score,
    scoring_rows as scoring_rows,
    token_nll as token_nll,
)
from .sizes import (
    ModelSize as ModelSize,
)
from .spec import (
    BUNDLED as BUNDLED,
    ModelSpec as ModelSpec,
    bundled_models as bundled_models,
)
from .tokenizer import (
    TextTokenizer as TextTokenizer,
    continuation_ids as continuation_ids,
    continuation_text as continuation_text,
    cut_continuation as cut_continuation,
    first_words as first_words,
    lead_before as lead_before,
    load_tokenizer as load_tokenizer,
    pair_ids as pair_ids,
    token_ids as token_ids,
    tokenizer_digest as tokenizer_digest,
    word_ids as word_ids,
)
from .transformers import (
    LanguageModel as LanguageModel,
    load_model as load_model,
)
