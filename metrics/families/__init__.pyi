from .cells import (
    JOINT_CLUSTERINGS as JOINT_CLUSTERINGS,
    CellCounts as CellCounts,
    ClusterFit as ClusterFit,
    Clusterings as Clusterings,
    Quantized as Quantized,
)
from .common import (
    Losses as Losses,
    Mask as Mask,
    ReplicatesByName as ReplicatesByName,
    Values as Values,
    pack_losses as pack_losses,
)
from .ngrams import NgramIndex as NgramIndex, Sequences as Sequences, index_of as index_of, pack_rows as pack_rows
from .samples_per_prompt import (
    FILE as FILE,
    AnswerOutcomes as AnswerOutcomes,
    PromptGroups as PromptGroups,
    PromptMetric as PromptMetric,
    PromptValues as PromptValues,
    SamplesMetric as SamplesMetric,
    SamplesTextMetric as SamplesTextMetric,
    cosines as cosines,
    prompts_of as prompts_of,
    unit_rows as unit_rows,
)
from .teacher_forced import (
    PositionValues as PositionValues,
    TeacherForced as TeacherForced,
    probabilities as probabilities,
    read_next_token as read_next_token,
)
from .text import (
    Corpus as Corpus,
    CountMetric as CountMetric,
    TextMetric as TextMetric,
    corpus_of as corpus_of,
    declare_orders as declare_orders,
    divide_known as divide_known,
    require_defined as require_defined,
)
from .two_sample import (
    ComparisonMetric as ComparisonMetric,
    Estimates as Estimates,
    FeatureSpaceMetric as FeatureSpaceMetric,
    PermutationMetric as PermutationMetric,
    Space as Space,
    TwoSample as TwoSample,
    align_values as align_values,
    mark_sides as mark_sides,
    sort_ids as sort_ids,
    sort_order as sort_order,
)
