"""Compute a metric of texts that another framework generated: the values, their interval ends and the human value."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openended.harness.app import evaluate, make_metric
from openended.harness.core import HarnessError, SpecError

logger = logging.getLogger(__name__)

RUN_OPTIONS = ("scoring", "scorer", "embedder", "outputs_dir", "device", "batch_size", "max_new_tokens")
"""Options of `openended.evaluate`; all others are those of the metric."""
EMBEDDER = "gpt2-large"  # as in the MAUVE paper; where neither `scoring` nor `embedder` is given


@dataclass(frozen=True, slots=True)
class IntegratedMetric:
    """A metric under its name in other frameworks."""

    name: str
    metric: str
    values: tuple[str, ...]  # the values returned unless the option `values` names others
    prefix: str = ""
    """Of the names of the values, where they would be ambiguous among the metrics of another framework."""
    higher_is_better: bool | None = None  # None where the human value is the target

    def list_labels(self, values: Sequence[str] | None = None) -> list[str]:
        """Return the names of all numbers that `measure_texts` returns, the first value first."""
        one_sided = make_metric(self.metric, {}).sides == "one"
        ends = ("", "_low", "_high", *(("_human",) if one_sided else ()))
        return [f"{self.prefix}{value}{end}" for value in values or self.values for end in ends]


METRICS: Mapping[str, IntegratedMetric] = {
    metric.name: metric
    for metric in (
        IntegratedMetric("mauve", "mauve", ("mauve",), higher_is_better=True),
        IntegratedMetric("self_bleu", "self_bleu", ("self_bleu_4",)),
        IntegratedMetric("distinct_n", "distinct_n", ("distinct_2",)),
        IntegratedMetric("zipf", "zipf", ("zipf",)),
        IntegratedMetric("kid", "kid", ("kid",), higher_is_better=False),
        IntegratedMetric("vendi", "vendi", ("vendi",)),
        IntegratedMetric("knn_precision_recall", "knn_precision_recall", ("precision", "recall"), "knn_", True),
        IntegratedMetric("rep", "repetition", ("rep_2", "rep_3", "rep_4", "diversity")),
    )
}


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Check the options of a metric before anything is generated."""
    _split_options(METRICS[name], options)


def measure_texts(
    name: str,
    *,
    human: Sequence[str],
    model: Sequence[str],
    source: str,
    **options: Any,  # noqa: ANN401
) -> dict[str, float]:
    """Compute a metric and return its numbers by name; NaN, with an error in the log, where it cannot be computed.

    The texts cost more than the number: an error here must not end the run of the framework that generated them.
    """
    metric = METRICS[name]
    numbers = dict.fromkeys(metric.list_labels(options.get("values")), math.nan)
    try:
        run_options, spec = _split_options(metric, options)
        if not human:
            raise SpecError("there are no human texts; the task must have one per document as its target")
        embeds = any(need.kind == "embeddings" for need in spec.needs())
        if embeds and not run_options.keys() & {"scoring", "embedder"}:
            run_options["embedder"] = EMBEDDER
        systems = {"model": model}
        results = evaluate(human=human, systems=systems, metrics=[spec], experiment=source, **run_options).results
    except HarnessError as err:
        logger.error("openended: %s: %s", name, err)
        return numbers
    result = results["model"][metric.metric]
    for value in options.get("values") or metric.values:
        label = f"{metric.prefix}{value}"
        interval = result.intervals.get(value, {})
        numbers[label] = result.values.get(value, math.nan)
        numbers |= {f"{label}_low": interval.get("low", math.nan), f"{label}_high": interval.get("high", math.nan)}
        if f"{label}_human" in numbers:
            numbers[f"{label}_human"] = results["human"][metric.metric].values.get(value, math.nan)
    if result.status != "ok":
        logger.error("openended: %s is %s: %s", name, result.status, "; ".join(result.notes))
    return numbers


def _split_options(metric: IntegratedMetric, options: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return the options of the run, and the metric with its own."""
    run_options = {name: value for name, value in options.items() if name in RUN_OPTIONS}
    metric_options = {name: value for name, value in options.items() if name not in RUN_OPTIONS and name != "values"}
    return run_options, make_metric(metric.metric, metric_options)
