"""MAUVE as a module of Hugging Face Evaluate: `evaluate.load(openended.integrations.EVALUATE_MAUVE)`."""

from typing import Any

import datasets
import evaluate

from openended import compute_mauve

_DESCRIPTION = "MAUVE: area under the divergence curve of human and model text after quantizing embeddings."
_CITATION = (
    "Pillutla et al. 2021, MAUVE: Measuring the Gap Between Neural Text and Human Text using Divergence Frontiers"
)
_INPUTS = """
Args:
    predictions: Model texts.
    references: Human texts, as many.
    **options: The arguments of `openended.compute_mauve`; `p_…` is the human side, as there.

Returns:
    mauve, mauve_star, frontier_integral, frontier_integral_star, divergence_curve, p_hist, q_hist, num_buckets,
    interval, signature, notes.
"""


class EvaluateMauve(evaluate.Metric):  # type: ignore[misc] # a package without types
    """The metric that `evaluate.load` returns."""

    def _info(self) -> evaluate.MetricInfo:
        texts = datasets.Features({side: datasets.Value("string") for side in ("predictions", "references")})
        return evaluate.MetricInfo(
            description=_DESCRIPTION, citation=_CITATION, inputs_description=_INPUTS, features=texts
        )

    def _compute(self, predictions: list[str], references: list[str], **options: Any) -> dict[str, Any]:  # noqa: ANN401
        return vars(compute_mauve(p_text=references, q_text=predictions, **options))
