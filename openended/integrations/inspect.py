"""The metrics inside Inspect, and a scorer that collects the texts for them.

    from openended.integrations.inspect import mauve, texts

    Task(dataset=…, solver=generate(), scorer=texts(), metrics=[mauve(embedder="gpt2-large")])

The target of every sample is its human text. With another scorer, name the human texts: `mauve(human="human.jsonl")`.
"""

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import TaskState

from openended.harness.core import DataError, HarnessError
from openended.harness.imported import TextSelection, read_texts
from openended.integrations.measure_texts import METRICS, check_options, measure_texts

logger = logging.getLogger(__name__)

SOURCE = "inspect"
HUMAN = "human"  # key of a score's metadata under which its human text is


def _build_metric(name: str) -> Callable[..., Metric]:
    """Build the metric that Inspect knows under a name."""

    def build(human: str | None = None, **options: Any) -> Metric:  # noqa: ANN401
        check_options(name, options)

        def compute(scores: list[SampleScore]) -> dict[str, float]:
            nothing = dict.fromkeys(METRICS[name].list_labels(options.get("values")), math.nan)
            if not scores:  # this is how Inspect asks for the names of the numbers
                return nothing
            try:
                sides = _collect_sides(scores, human)
            except HarnessError as err:
                logger.error("openended: %s: %s", name, err)
                return nothing
            return measure_texts(name, human=sides[0], model=sides[1], source=SOURCE, **options)

        return compute

    build.__name__ = build.__qualname__ = name
    build.__module__ = __name__
    build.__doc__ = f"Return {name} with its interval ends: options of the metric, of the run, and `values`."
    registered: Callable[..., Metric] = metric(name=name)(build)
    return registered


def _collect_sides(scores: list[SampleScore], human: str | None) -> tuple[list[str], list[str]]:
    references, model = [], []
    for sample in scores:
        reference = "" if human is not None else (sample.score.metadata or {}).get(HUMAN)
        if sample.score.answer is None or not isinstance(reference, str):
            raise DataError(f"sample {sample.sample_id!r} has no text or no human text; use scorer=texts()")
        references.append(reference)
        model.append(sample.score.answer)
    if human is not None:
        references = [text.text or "" for text in read_texts(Path(human), TextSelection(side="human"))]
    return references, model


mauve, self_bleu, distinct_n, zipf, kid, vendi, knn_precision_recall, rep = map(_build_metric, METRICS)


@scorer(metrics=[mauve()])  # type: ignore[untyped-decorator]
def texts() -> Scorer:
    """Collect the output of every sample and its target, the human text; the score is the number of words."""

    async def score(state: TaskState, target: Target) -> Score:
        output = state.output.completion
        return Score(value=len(output.split()), answer=output, metadata={HUMAN: target.text})

    return score
