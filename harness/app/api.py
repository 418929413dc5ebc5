"""The Python API: score texts with the same runs as on the command line, without configuration files.

    import openended as oe

    result = oe.evaluate(human=["…"], systems={"greedy": ["…"], "nucleus": "nucleus.jsonl"}, scoring="gpt2-large")
    print(result.table())
    oe.metrics.zipf(model_texts=["…"], unit="words")

Texts are lists, or files and folders (see `imported.files`). All results are kept under `outputs_dir`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from openended.harness.app.evaluation import Evaluation
from openended.harness.core import (
    Metric,
    MetricResult,
    Runtime,
    SpecError,
    build,
    construct,
    digest,
    digest_bytes,
    list_bundled_choices,
    load_members,
    open_for_replacement,
    read_node,
    resolve_metric_names,
    write_text,
)
from openended.harness.models import BackendSpec, EmbedderSpec, ModelSpec, require_model
from openended.harness.run import Session, Settings, read_preset
from openended.tasks.texts import Texts

TextsOf = str | Path | Sequence[str]
"""The texts themselves, or the path of a file or folder of them."""
VectorsOf = str | Path | NDArray[Any]
"""A row a text, or the path of a `.npy` file of them."""


def evaluate(
    *,
    human: TextsOf,
    systems: Mapping[str, TextsOf],
    metrics: str | Sequence[str | Metric] | None = None,
    scoring: str | None = None,
    scorer: str | BackendSpec | None = None,
    embedder: str | EmbedderSpec | None = None,
    features: Mapping[str, VectorsOf] | None = None,
    human_field: str | None = None,
    generations_field: str | None = None,
    num_examples: int | Literal["all"] = "all",
    max_new_tokens: int | None = None,
    experiment: str | None = None,
    outputs_dir: str | Path = "outputs",
    device: str = "auto",
    batch_size: int = 64,
    compat: str | None = None,
) -> Evaluation:
    """Score systems against human texts; nothing is generated, nothing is paired."""
    from openended.harness.run import run
    from openended.harness.storage import check_writable

    outputs = Path(outputs_dir)
    check_writable(outputs)
    preset = read_preset(compat)
    scorer_spec, embedder_spec = _resolve_scoring(scoring, scorer, embedder, preset)
    if not systems:
        raise SpecError("systems: expected at least one, as {'name': texts}")
    if features and (missing := sorted({"human", *systems} - set(features))):
        raise SpecError(f"features: expected vectors of human and of every system; missing {', '.join(missing)}")
    vectors = {name: str(_write_vectors(value, outputs)) for name, value in (features or {}).items()}
    shared = {
        "experiment": experiment or f"score-{datetime.now(UTC):%Y%m%dT%H%M%S}",
        "task": Texts(path=str(_write_texts(human, outputs)), field=human_field),
        "model": None, "decoder": None, "scorer": scorer_spec, "embedder": embedder_spec,
        "metrics": _select_metrics(
            metrics, preset, has_scorer=scorer_spec is not None, has_vectors=bool(embedder_spec or vectors)
        ),
        "num_examples": num_examples, "max_new_tokens": max_new_tokens, "min_new_tokens": 0, "samples": 1, "seed": 0,
        "generations_field": generations_field, "judgments": None, "outputs_dir": outputs, "plan_only": False,
        "runtime": Runtime(device=device, feature_batch_size=batch_size),
    }  # fmt: skip
    outcomes = []
    for name, texts in systems.items():
        features_of_system = {"human": vectors["human"], "model": vectors[name]} if vectors else {}
        file = str(_write_texts(texts, outputs))
        settings = Settings(
            **cast("dict[str, Any]", shared), system=name, generations=file, features=features_of_system
        )
        outcomes.append(run(settings, _get_session(outputs.resolve())))
    failed = dict.fromkeys(reason for outcome in outcomes for reason in outcome.failed)
    return Evaluation(tuple(outcome.folder for outcome in outcomes), tuple(systems), tuple(failed))


def measure(
    metric: str | Metric,
    *,
    model_texts: TextsOf,
    human_texts: TextsOf | None = None,
    scoring: str | None = None,
    scorer: str | BackendSpec | None = None,
    embedder: str | EmbedderSpec | None = None,
    outputs_dir: str | Path = "outputs",
    device: str = "auto",
    **options: Any,  # noqa: ANN401 - of the metric
) -> MetricResult:
    """Compute one metric of texts; also `oe.metrics.NAME(model_texts=…, …)`."""
    spec = metric if isinstance(metric, Metric) else make_metric(metric, options)
    if human_texts is None and spec.sides != "one":
        raise SpecError(f"{spec.name} compares two sides: give human_texts=… beside model_texts=…")
    result = evaluate(
        human=model_texts if human_texts is None else human_texts, systems={"model": model_texts}, metrics=[spec],
        scoring=scoring, scorer=scorer, embedder=embedder,
        outputs_dir=outputs_dir, device=device,
    )  # fmt: skip
    return result.results["model"][spec.name]


def make_metric(name: str, options: Mapping[str, Any]) -> Metric:
    """Build a metric from its name and options."""
    (full_name,) = resolve_metric_names([name]) if name in load_members("metric") else (name,)
    cls = load_members("metric").get(full_name)
    if cls is None:
        raise SpecError(f"no metric {name!r}; openended.metrics has {', '.join(load_members('metric'))}")
    return cast("Metric", construct(cls, options, f"metric.{name}"))


def _select_metrics(
    requested: str | Sequence[str | Metric] | None, preset: Mapping[str, Any], *, has_scorer: bool, has_vectors: bool
) -> tuple[Metric, ...]:
    """Build the requested metrics with a preset's options; None selects all that scorer and vectors allow."""
    if requested is None:
        every_metric = [make_metric(name, {}) for name in resolve_metric_names(["all"])]
        able = {"texts", "stops", *(["token_nll"] if has_scorer else []), *(["embeddings"] if has_vectors else [])}
        fed = [m for m in every_metric if {n.kind for n in m.needs()} <= {*able, "tokens"}]
        chosen: list[str | Metric] = [m.name for m in fed if m.least_samples == 1]  # files have a text a prompt
        if not has_scorer:
            chosen = [name for name in chosen if name != "gen_ppl"]
    else:
        chosen = [requested] if isinstance(requested, str) else list(requested)
    by_name = {m.name: m for m in chosen if isinstance(m, Metric)}
    for name in resolve_metric_names([m for m in chosen if isinstance(m, str)]):
        by_name.setdefault(name, make_metric(name, preset.get("metric", {}).get(name, {})))
    return tuple(by_name[name] for name in sorted(by_name))


def _resolve_scoring(
    scoring: str | None,
    scorer: str | BackendSpec | None,
    embedder: str | EmbedderSpec | None,
    preset: Mapping[str, Any],
) -> tuple[BackendSpec | None, EmbedderSpec | None]:
    """Return scorer and embedder, each given by the name of a YAML file, a hub id or a folder."""
    only_embeds = (
        scoring is not None
        and scoring in list_bundled_choices("embedder")
        and scoring not in (*list_bundled_choices("scorer"), *list_bundled_choices("model"))
    )
    first = scorer if scorer is not None else None if only_embeds else scoring
    second = embedder if embedder is not None else scoring
    scorer_spec: BackendSpec | None = None
    if isinstance(first, str):
        group = next((group for group in ("scorer", "model") if first in list_bundled_choices(group)), None)
        node = read_node(group, first) if group else {"path": first}
        scorer_spec = require_model(build("model", node, "scorer"), "scorer") if group else ModelSpec(path=first)
    elif first is not None:
        scorer_spec = require_model(first, "scorer")
    embedder_spec: EmbedderSpec | None = second if isinstance(second, EmbedderSpec) else None
    if isinstance(second, str):
        if second in list_bundled_choices("embedder"):
            embedder_spec = construct(EmbedderSpec, read_node("embedder", second), "embedder")
        elif scorer_spec is not None and second == scoring:
            fields = {name: getattr(scorer_spec, name) for name in ("path", "label", "revision", "dtype")}
            embedder_spec = EmbedderSpec(**fields)
        else:
            embedder_spec = EmbedderSpec(path=second)
    if embedder_spec is not None and embedder_spec.max_length is None:
        embedder_spec = replace(embedder_spec, **preset.get("embedder", {}))
    return scorer_spec, embedder_spec


def _write_texts(texts: TextsOf, outputs: Path) -> Path:
    """Return the path of a file of texts; a list is written to a file that is named by its digest."""
    if isinstance(texts, (str, Path)):
        return Path(texts)
    wrong = next((i for i, text in enumerate(texts) if not isinstance(text, str)), None)
    if wrong is not None:
        raise SpecError(f"texts: expected text at place {wrong}, got {type(texts[wrong]).__name__}")
    path = outputs / "texts" / f"{digest(list(texts))[:16]}.jsonl"
    if not path.is_file():
        write_text(path, "".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def _write_vectors(vectors: VectorsOf, outputs: Path) -> Path:
    if isinstance(vectors, (str, Path)):
        return Path(vectors)
    array = np.ascontiguousarray(vectors)
    path = outputs / "texts" / f"{digest_bytes(array.tobytes())[:16]}.npy"
    with open_for_replacement(path, "wb") as handle:
        np.save(handle, array, allow_pickle=False)
    return path


@lru_cache(maxsize=1)
def _get_session(outputs: Path) -> Session:
    """Return the last session of this folder, which keeps its models loaded."""
    from openended.harness.storage import Store

    return Session(Store(outputs / "store"))
