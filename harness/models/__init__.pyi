from .backend import Backend as Backend, prepare_request as prepare_request
from .chat import Turns as Turns, load_template as load_template, split_into_turns as split_into_turns
from .classifier import finetune_classifier as finetune_classifier
from .embedder import EmbedderSpec as EmbedderSpec
from .failures import (
    are_finite as are_finite,
    check_cuda as check_cuda,
    check_device as check_device,
    check_logits as check_logits,
    check_retry as check_retry,
    describe_broken_weights as describe_broken_weights,
    free_memory as free_memory,
    is_out_of_memory as is_out_of_memory,
)
from .families import get_body as get_body, is_encoder as is_encoder, rescale_logits as rescale_logits
from .files import WEIGHTS as WEIGHTS, ModelSize as ModelSize
from .forward import (
    ForwardRequest as ForwardRequest,
    ForwardRow as ForwardRow,
    allocate_vectors as allocate_vectors,
    is_batch_invariant as is_batch_invariant,
)
from .messages import (
    REASONING_FIELDS as REASONING_FIELDS,
    Message as Message,
    find_message as find_message,
    is_conversation as is_conversation,
    make_turns as make_turns,
    read_message as read_message,
    read_messages as read_messages,
)
from .model_cache import ModelCache as ModelCache, load_torch as load_torch, pick_device as pick_device
from .reasoning import (
    MENTION as MENTION,
    OPENED as OPENED,
    Markup as Markup,
    MarkupSearch as MarkupSearch,
    ReasoningCounts as ReasoningCounts,
    split_reasoning as split_reasoning,
)
from .requests import (
    EmbeddingRequest as EmbeddingRequest,
    GradientRequest as GradientRequest,
    QStatisticsRequest as QStatisticsRequest,
    ScoringRequest as ScoringRequest,
    TextRequest as TextRequest,
)
from .score import (
    compute_token_nll as compute_token_nll,
    embed_and_score as embed_and_score,
    embed_rows as embed_rows,
    embed_texts as embed_texts,
    sketch_gradients as sketch_gradients,
    split_columns as split_columns,
)
from .spec import (
    BUNDLED as BUNDLED,
    Ability as Ability,
    BackendSpec as BackendSpec,
    ModelService as ModelService,
    ModelSpec as ModelSpec,
    is_address as is_address,
    list_bundled_models as list_bundled_models,
    require_model as require_model,
)
from .tokenizer import (
    LengthLimit as LengthLimit,
    TextTokenizer as TextTokenizer,
    check_ids as check_ids,
    cut_continuation as cut_continuation,
    decode_continuation as decode_continuation,
    digest_encoding as digest_encoding,
    find_added_ids as find_added_ids,
    load_tokenizer as load_tokenizer,
    load_transformers_tokenizer as load_transformers_tokenizer,
    tokenize_continuation as tokenize_continuation,
    tokenize_pairs as tokenize_pairs,
    tokenize_texts as tokenize_texts,
    tokenizer_digest as tokenizer_digest,
)
from .transformers import (
    LanguageModel as LanguageModel,
    find_eos_ids as find_eos_ids,
    load_model as load_model,
    read_weights as read_weights,
    wrap_model as wrap_model,
)
