"""The metrics inside lm-evaluation-harness, as metrics and an aggregation of its registries, and tasks for them.

    metric_list:
      - metric: !function openended.integrations.lm_eval.mauve
        embedder: gpt2-large

The function of a metric returns both texts of a document, and its aggregation computes the number of all of them.
Versions of lm-evaluation-harness that read entry points find the metrics by name: `metric: mauve`.

`python -m openended.integrations.lm_eval` prints the folder of the tasks, for `--include_path`.
"""

import logging
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from lm_eval.api.registry import register_aggregation, register_metric

from openended.harness.core import Task, construct, digest, load_member
from openended.integrations.measure_texts import METRICS, measure_texts

logger = logging.getLogger(__name__)

TASKS = Path(__file__).with_name("lm_eval_tasks")
SOURCE = "lm_eval"
_results: dict[str, dict[str, float]] = {}
"""The numbers of a set of texts: the first value's aggregation computes them, the others' read them."""


@register_aggregation("openended")  # type: ignore[untyped-decorator]
def aggregate(items: Sequence[Any]) -> float:
    """Compute a metric of all documents; NaN, with an error in the log, where it cannot be computed."""
    first = items[0]
    if not isinstance(first, Mapping):
        logger.error("openended: doc_to_target returns several texts; the metrics need one human text per document")
        return math.nan
    name, options = first["metric"], first["options"]
    key = digest([name, options, [item["texts"] for item in items]])
    if "model" in first:
        human, model = [item["human"] for item in items], [item["model"] for item in items]
        _results[key] = measure_texts(name, human=human, model=model, source=SOURCE, **options)
    if key not in _results:
        logger.error("openended: %s was asked for before the first value of %s", first["value"], name)
        return math.nan
    return _results[key][first["value"]]


def _register(name: str) -> Callable[..., dict[str, Any]]:
    """Register a metric; the items of its first value carry the texts, those of the others only refer to them."""
    metric = METRICS[name]

    def collect(references: Sequence[str], predictions: Sequence[str], **options: Any) -> dict[str, Any]:  # noqa: ANN401
        (human,), (model,) = references, predictions
        shared = {"metric": name, "options": options, "texts": digest([human, model])[:16]}
        labels = metric.list_labels(options.get("values"))
        items = {label: {**shared, "value": label} for label in labels}
        items[labels[0]] |= {"human": human, "model": model}
        return items

    collect.__name__ = collect.__qualname__ = name
    collect.__doc__ = f"Return both texts of a document for {name}."
    direction = {} if metric.higher_is_better is None else {"higher_is_better": metric.higher_is_better}
    register_metric(metric=name, aggregation="openended", **direction)(collect)
    return collect


mauve, self_bleu, distinct_n, zipf, kid, vendi, knn_precision_recall, rep = map(_register, METRICS)


def load_examples(
    *,
    openended_task: str,
    num_examples: int = 500,
    task_options: Mapping[str, Any] | None = None,
    **others: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """Return the first examples of a task of this harness as the split `test`: `id`, `prompt`, `human`."""
    from datasets import Dataset

    del others
    task: Task = construct(load_member("task", openended_task), dict(task_options or {}), f"task.{openended_task}")
    task.fetch()
    examples = islice(task.examples(None, Counter()), num_examples)
    return {"test": Dataset.from_list([{"id": e.id, "prompt": e.prompt, "human": e.human} for e in examples])}


if __name__ == "__main__":
    sys.stdout.write(f"{TASKS}\n")
