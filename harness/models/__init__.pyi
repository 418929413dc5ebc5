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
    EmbeddingRequest as EmbeddingRequest,
)
from .backend import (
    GradientRequest as GradientRequest,
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
    TextVectors as TextVectors,
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
    split_into_turns as split_into_turns,
)
from .check_finite import (
    check_finite as check_finite,
)
from .check_finite import (
    check_logits as check_logits,
)
from .check_finite import (
    describe_broken_weights as describe_broken_weights,
)
from .embedder import (
    EmbedderSpec as EmbedderSpec,
)
from .embedder import (
    collect_vectors as collect_vectors,
)
from .embedder import (
    embed_texts as embed_texts,
)
from .embedder import (
    join_rows as join_rows,
)
from .families import (
    Kind as Kind,
)
from .families import (
    choose_kind as choose_kind,
)
from .families import (
    get_body as get_body,
)
from .families import (
    rescale_logits as rescale_logits,
)
from .forward import (
    ForwardRow as ForwardRow,
)
from .forward import (
    Pool as Pool,
)
from .forward import (
    Pooling as Pooling,
)
from .forward import (
    allocate_vectors as allocate_vectors,
)
from .gradients import (
    sketch_gradients as sketch_gradients,
)
from .loading.hub import (
    OFFLINE_VARIABLES as OFFLINE_VARIABLES,
)
from .loading.hub import (
    is_switched_off as is_switched_off,
)
from .loading.isolated_process import (
    limit_memory as limit_memory,
)
from .loading.placement import (
    has_many_devices as has_many_devices,
)
from .loading.tokenizer_checks import (
    check_ids as check_ids,
)
from .loading.weights import (
    check_weights as check_weights,
)
from .loading.weights import (
    hide_loading_report as hide_loading_report,
)
from .memory import (
    free_memory as free_memory,
)
from .memory import (
    is_out_of_memory as is_out_of_memory,
)
from .model_cache import (
    ModelCache as ModelCache,
)
from .model_cache import (
    pick_device as pick_device,
)
from .score import (
    compute_token_nll as compute_token_nll,
)
from .score import (
    embed_and_score as embed_and_score,
)
from .score import (
    plan_scoring as plan_scoring,
)
from .score import (
    split_columns as split_columns,
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
    list_bundled_models as list_bundled_models,
)
from .tokenizer import (
    TextTokenizer as TextTokenizer,
)
from .tokenizer import (
    cut_continuation as cut_continuation,
)
from .tokenizer import (
    decode_continuation as decode_continuation,
)
from .tokenizer import (
    find_added_ids as find_added_ids,
)
from .tokenizer import (
    get_bos_prefix as get_bos_prefix,
)
from .tokenizer import (
    load_tokenizer as load_tokenizer,
)
from .tokenizer import (
    number_words as number_words,
)
from .tokenizer import (
    take_first_words as take_first_words,
)
from .tokenizer import (
    tokenize_continuation as tokenize_continuation,
)
from .tokenizer import (
    tokenize_pairs as tokenize_pairs,
)
from .tokenizer import (
    tokenize_texts as tokenize_texts,
)
from .tokenizer import (
    tokenizer_digest as tokenizer_digest,
)
from .transformers import (
    LanguageModel as LanguageModel,
)
from .transformers import (
    find_eos_ids as find_eos_ids,
)
from .transformers import (
    load_model as load_model,
)
