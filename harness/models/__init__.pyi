from .backend import (
    Ability as Ability,
)
from .backend import (
    Backend as Backend,
)
from .backend import (
    BackendSpec as BackendSpec,
)
from .backend import (
    Embedded as Embedded,
)
from .backend import (
    EmbeddingRequest as EmbeddingRequest,
)
from .backend import (
    ModelService as ModelService,
)
from .backend import (
    QStatisticsRequest as QStatisticsRequest,
)
from .backend import (
    ScoringRequest as ScoringRequest,
)
from .backend import (
    require_model as require_model,
)
from .chat import (
    ChatTemplate as ChatTemplate,
)
from .chat import (
    load_template as load_template,
)
from .chat import (
    turns_of as turns_of,
)
from .check_finite import (
    finite_logits as finite_logits,
)
from .embedder import (
    EmbedderSpec as EmbedderSpec,
)
from .embedder import (
    embed as embed,
)
from .embedder import (
    embed_texts as embed_texts,
)
from .families import (
    Kind as Kind,
)
from .families import (
    body_of as body_of,
)
from .families import (
    rescaled as rescaled,
)
from .families import (
    settle as settle,
)
from .forward import (
    ForwardRow as ForwardRow,
)
from .forward import (
    Pool as Pool,
)
from .forward import (
    vectors_for as vectors_for,
)
from .loaded import (
    LoadedModels as LoadedModels,
)
from .loaded import (
    pick_device as pick_device,
)
from .loading.hub import (
    OURS as OURS,
)
from .loading.hub import (
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
)
from .memory import (
    out_of_memory as out_of_memory,
)
from .score import (
    embed_and_score as embed_and_score,
)
from .score import (
    scoring_rows as scoring_rows,
)
from .score import (
    token_nll as token_nll,
)
from .sizes import (
    ModelSize as ModelSize,
)
from .spec import (
    BUNDLED as BUNDLED,
)
from .spec import (
    ModelSpec as ModelSpec,
)
from .spec import (
    bundled_models as bundled_models,
)
from .tokenizer import (
    TextTokenizer as TextTokenizer,
)
from .tokenizer import (
    continuation_ids as continuation_ids,
)
from .tokenizer import (
    continuation_text as continuation_text,
)
from .tokenizer import (
    cut_continuation as cut_continuation,
)
from .tokenizer import (
    first_words as first_words,
)
from .tokenizer import (
    lead_before as lead_before,
)
from .tokenizer import (
    load_tokenizer as load_tokenizer,
)
from .tokenizer import (
    pair_ids as pair_ids,
)
from .tokenizer import (
    token_ids as token_ids,
)
from .tokenizer import (
    tokenizer_digest as tokenizer_digest,
)
from .tokenizer import (
    word_ids as word_ids,
)
from .transformers import (
    LanguageModel as LanguageModel,
)
from .transformers import (
    load_model as load_model,
)
