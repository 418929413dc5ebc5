"""Base classes of the metric families and what their members share, for metrics here and in other packages."""

from openended.metrics._ngrams.index import NgramIndex, Sequences, index_of
from openended.metrics.families.feature_space import FeatureSpaceMetric, Space, standardize
from openended.metrics.families.quantized import CellCounts, ClusterFit, ClusteringRun, Quantized
from openended.metrics.families.samples_per_prompt import (
    PromptGroups,
    SamplesMetric,
    average_over_prompts,
    cosines,
    mask_off_diagonal,
    prompts_of,
    unit_rows,
)
from openended.metrics.families.teacher_forced import TeacherForced, mean_by_row, probabilities
from openended.metrics.families.text import (
    Corpus,
    TextMetric,
    check_orders,
    corpus_of,
    describe_missing,
    require_defined,
    variant_of,
)
from openended.metrics.families.two_sample import TwoSample

__all__ = [
    "CellCounts",
    "ClusterFit",
    "ClusteringRun",
    "Corpus",
    "FeatureSpaceMetric",
    "NgramIndex",
    "PromptGroups",
    "Quantized",
    "SamplesMetric",
    "Sequences",
    "Space",
    "TeacherForced",
    "TextMetric",
    "TwoSample",
    "average_over_prompts",
    "check_orders",
    "corpus_of",
    "cosines",
    "describe_missing",
    "index_of",
    "mask_off_diagonal",
    "mean_by_row",
    "probabilities",
    "prompts_of",
    "require_defined",
    "standardize",
    "unit_rows",
    "variant_of",
]
