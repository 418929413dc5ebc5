"""Base classes of the metric families and what their members share, for metrics here and in other packages."""

from openended.metrics._ngrams.index import NgramIndex, Sequences, index_of
from openended.metrics.families.quantized import Cells, ClusterFit, ClusteringRun, Quantized
from openended.metrics.families.teacher_forced import TeacherForced, mean_by_row, probabilities
from openended.metrics.families.text import (
    Corpus,
    TextMetric,
    check_orders,
    corpus_of,
    defined,
    missing_note,
    variant_of,
)
from openended.metrics.families.two_sample import TwoSample
from openended.metrics.families.within_prompt import (
    Prompts,
    WithinPrompt,
    cosines,
    off_diagonal,
    over_prompts,
    prompts_of,
    unit_rows,
)

__all__ = [
    "Cells",
    "ClusterFit",
    "ClusteringRun",
    "Corpus",
    "NgramIndex",
    "Prompts",
    "Quantized",
    "Sequences",
    "TeacherForced",
    "TextMetric",
    "TwoSample",
    "WithinPrompt",
    "check_orders",
    "corpus_of",
    "cosines",
    "defined",
    "index_of",
    "mean_by_row",
    "missing_note",
    "off_diagonal",
    "over_prompts",
    "probabilities",
    "prompts_of",
    "unit_rows",
    "variant_of",
]
