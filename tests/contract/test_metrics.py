"""What every registered metric must keep, over the registry."""

import dataclasses
import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import yaml

from openended.harness.core import NextToken, Plan, Ragged, SpecError, UndefinedMetric, build, load_members
from openended.harness.core.metric_spec import Features, Metric, Need, Side
from openended.harness.core.signature import build_signature, canonicalize
from openended.harness.run.measure import add_intervals

ROOT = Path(__file__).parents[2]
METRICS = load_members("metric")
TESTS = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests/metrics").rglob("test_*.py"))
# Metrics of judgment files have no generated texts to be computed on.
FROM_TEXTS = [
    name for name, cls in METRICS.items() if not {n.kind for n in cls().needs()} & {"judgments"}
]  # fmt: skip
N = 24


def other_value(hint: Any, value: Any) -> list[Any]:
    """Values of the field's type that differ from `value`."""
    if get_origin(hint) is Literal:
        return [v for v in get_args(hint) if v != value]
    options = get_args(hint) or (hint,)
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        return (
            [value + 1, value + 2, value / 2, value * 0.9, 1] if isinstance(value, float) else [value + 1, value + 2, 2]
        )
    if isinstance(value, tuple):
        return [v for v in (value[:1], (*value, *value[-1:]), (1,), (0.5,), (2.0,)) if v != value]
    found: list[Any] = []
    for option in options:
        if get_origin(option) is Literal:
            found += [v for v in get_args(option) if v != value]
        found += {int: [3, 50], float: [0.5, 2.0], str: ["other"]}.get(option, [])
    return [v for v in found if v != value]


@pytest.mark.parametrize("name", METRICS)
def test_four_way_name(name):
    cls = METRICS[name]
    assert cls.__module__ == f"openended.metrics.{name}"
    node = yaml.safe_load((ROOT / "conf/metric" / f"{name}.yaml").read_text(encoding="utf-8"))
    assert list(node) == [name]
    assert node[name]["_target_"] == f"{cls.__module__}.{cls.__qualname__}"
    assert f"openended.metrics.{name} import" in TESTS, f"no file of tests/metrics imports openended.metrics.{name}"


@pytest.mark.parametrize("name", METRICS)
def test_yaml_writes_out_every_option_with_its_default(name):
    node = yaml.safe_load((ROOT / "conf/metric" / f"{name}.yaml").read_text(encoding="utf-8"))[name]
    cls = METRICS[name]
    assert set(node) - {"_target_"} == {f.name for f in dataclasses.fields(cls)}
    assert canonicalize(build("metric", node)) == canonicalize(cls())


@pytest.mark.parametrize("name", METRICS)
def test_declared_facts(name):
    cls = METRICS[name]
    assert cls.family in ("text", "scored", "two_sample", "teacher_forced", "human")
    assert cls.direction in ("higher", "lower", "match_human")
    assert cls.resampling in ("bootstrap", "subsample", "none")
    assert cls.sides in ("one", "two", "human")
    assert cls.bounds[0] < cls.bounds[1]
    assert cls().needs()
    for key, target in cls.targets.items():
        assert cls.bounds[0] <= target <= cls.bounds[1]
        assert cls().best_of(key) == "target"


@pytest.mark.parametrize("name", METRICS)
def test_docstring_names_its_source(name):
    module = __import__(f"openended.metrics.{name}", fromlist=["_"])
    assert re.search(r"\bSource", module.__doc__ or ""), f"metrics/{name}.py: no source in its docstring"


NEEDED = {"gen_ppl.stride": {"window": 8}}
"""Metric and option → the other options that it needs."""


@pytest.mark.parametrize("name", METRICS)
def test_every_field_moves_signature_and_key(name):
    cls = METRICS[name]
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        spec, moved = cls(**NEEDED.get(f"{name}.{field.name}", {})), False
        for value in other_value(hints[field.name], getattr(spec, field.name)):
            try:
                changed = dataclasses.replace(spec, **{field.name: value})
            except SpecError:
                continue
            assert build_signature(changed, {}) != build_signature(spec, {}), field.name
            assert canonicalize(changed) != canonicalize(spec)
            moved = True
            break
        assert moved, f"{name}.{field.name}: no other value was accepted"


def make_feature(need: Need, seed: int, shift: float = 0.0) -> Any:
    """A small random feature of any kind."""
    g = np.random.default_rng(seed)
    lengths = g.integers(20, 40, N)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    total = int(offsets[-1])
    if need.kind == "tokens":
        return Ragged(g.zipf(1.3, total).clip(max=200).astype(np.int64), offsets)
    if need.kind == "texts":
        return [" ".join(f"w{t}" for t in g.zipf(1.3, n).clip(max=200)) for n in lengths]
    if need.kind == "stops":
        return g.random(N) < 0.5
    if need.kind == "embeddings":
        return (g.normal(size=(N, 8)) + shift).astype(np.float32)
    if need.kind == "token_nll":
        return Ragged(g.gamma(2.0, 1.5, total), offsets)
    if need.kind == "token_rank":
        return Ragged(g.integers(1, 1000, total), offsets)
    if need.kind == "log_prob":
        return -g.gamma(60.0, 1.0, N)
    if need.kind == "gradients":
        return (g.normal(size=(N, 64)) + shift).astype(np.float32)
    if need.kind == "next_token":
        gold = g.random(total)
        return NextToken(
            offsets, gold, (gold**2 + (1 - gold) ** 2), np.full(total, 5), g.integers(0, 50, total),
            g.integers(0, 50, total), Ragged.from_rows([[1, 2, 3]] * N, np.int64), 50,
        )  # fmt: skip
    raise AssertionError(need.kind)


def features_for(metric: Metric, seed: int = 1, shift: float = 0.3) -> Features:
    ids = tuple(f"t/{i // metric.least_samples:06d}" for i in range(N))
    human = Side("human", ids, {need: make_feature(need, seed) for need in metric.needs()})
    model = Side("model", ids, {need: make_feature(need, seed + 1, shift) for need in metric.needs()})
    third = Side("model", ids, {need: make_feature(need, 3) for need in metric.needs()})
    others = (model, third) if metric.reads_grid else ()
    return Features(human, model, {"n": f"{N}/{N}", "task": "t@000000"}, others)


@pytest.mark.parametrize("name", FROM_TEXTS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_result_is_complete_bounded_and_repeats(name):
    metric = METRICS[name]()
    first, second = metric.compute(features_for(metric)), metric.compute(features_for(metric))
    assert first.metric == name
    assert first.primary in first.values
    assert first.signature.startswith(f"{name}|v:{metric.version}|")
    assert (first.n_human, first.n_model) == (N, N)
    for key, value in first.values.items():
        low, high = metric.bounds_of(key, first)
        assert low - 1e-9 <= value <= high + 1e-9, key
    assert dict(first.values) == dict(second.values), "the same input gave another value"
    for array in first.per_example.values():
        assert array.shape == (N,)
        assert array.dtype == np.float64


SLOW = ("discriminator_accuracy", "mauve", "precision_recall_curve", "typicality")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in FROM_TEXTS])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_interval_leaves_the_range_of_its_value_or_ends_at_it(name):
    metric = METRICS[name]()
    for seed, shift in ((1, 0.0), (5, 0.3), (9, 4.0)):
        features = features_for(metric, seed, shift)
        result = add_intervals(metric, features, metric.compute(features), Plan(20))
        for key, interval in result.intervals.items():
            value, (least, most) = result.values[key], metric.bounds_of(key, result)
            low, high = interval["low"], interval["high"]
            assert least - 1e-9 <= low <= value <= high <= most + 1e-9, key
            assert low < value or value <= least + 1e-9, (
                f"{key}: {value} is no end of its range, but of [{low}, {high}]"
            )
            assert value < high or value >= most - 1e-9, (
                f"{key}: {value} is no end of its range, but of [{low}, {high}]"
            )


@pytest.mark.parametrize("name", FROM_TEXTS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_inputs_are_not_modified(name):
    metric = METRICS[name]()
    features = features_for(metric)
    for side in (features.human, features.model):
        for value in side.data.values():
            arrays = [value] if isinstance(value, np.ndarray) else []
            if isinstance(value, Ragged):
                arrays = [value.values, value.offsets]
            if isinstance(value, NextToken):
                arrays = [value.gold_prob, value.sum_sq, value.argmax, value.gold, value.offsets]
            for array in arrays:
                array.flags.writeable = False
    metric.compute(features)


@pytest.mark.parametrize("name", FROM_TEXTS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_texts_is_undefined_not_a_number(name):
    metric = METRICS[name]()
    empty: dict[Need, Any] = {}
    for need in metric.needs():
        value = make_feature(need, 0)
        if isinstance(value, Ragged):
            empty[need] = Ragged(value.values[:0], np.zeros(1, np.int64))
        elif isinstance(value, NextToken):
            none = {f: getattr(value, f)[:0] for f in ("gold_prob", "sum_sq", "support", "argmax", "gold")}
            empty[need] = NextToken(
                np.zeros(1, np.int64), **none, context=Ragged.from_rows([], np.int64), vocab_size=50
            )
        else:
            empty[need] = value[:0]
    nothing = Side("model", (), empty)
    with pytest.raises(UndefinedMetric):
        metric.compute(Features(nothing, nothing, {"n": "0/0"}))
