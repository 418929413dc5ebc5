"""What every registered metric must keep, over the registry; `test_identity` has the options."""

import dataclasses
import inspect
import re
from contextlib import suppress
from itertools import combinations
from typing import get_args

import numpy as np
import pytest

from openended.harness.core import UNNAMED, DataError, NextToken, Plan, Ragged, UndefinedMetric, load_members
from openended.harness.core.interfaces import Features, Metric, Scheme, Side
from openended.harness.run.measure import add_intervals
from openended.metrics.families import TwoSample
from scripts.studies.worlds import Writer, draw
from tests.helpers import ROOT, cases

METRICS = load_members("metric")
TESTS = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests/metrics").rglob("test_*.py"))
# Metrics of judgment files have no generated texts to be computed on.
FROM_TEXTS = [name for name, cls in METRICS.items() if not {n.kind for n in cls().needs()} & {"judgments"}]
SLOW = ("discriminator_accuracy", "mauve", "precision_recall_curve", "typicality")
N = 24


@pytest.mark.parametrize("name", METRICS)
def test_names_options_and_facts(name):
    """Module, class and tests have one name."""
    cls = METRICS[name]
    assert cls.__module__ == f"openended.metrics.{name}"
    assert f"openended.metrics.{name} import" in TESTS, f"no file of tests/metrics imports openended.metrics.{name}"
    module = __import__(f"openended.metrics.{name}", fromlist=["_"])
    assert re.search(r"\bSource", module.__doc__ or ""), f"metrics/{name}.py: no source in its docstring"
    assert cls.family in ("text", "scored", "two_sample", "teacher_forced", "human")
    assert cls.direction in ("higher", "lower", "match_human")
    assert cls.resampling in get_args(Scheme)
    assert cls.sides in ("one", "two", "human")
    assert cls.bounds[0] < cls.bounds[1]
    assert cls().needs()
    for key, target in cls.targets.items():
        assert cls.bounds[0] <= target <= cls.bounds[1]
        assert cls().best_of(key) == "target"


def features_for(metric: Metric, seed: int = 1, shift: float = 0.3) -> Features:
    """N texts of a writer whose embeddings are shifted; a second writer for metrics of a grid."""
    rows, samples = N // metric.least_samples, metric.least_samples
    model, other = draw(np.random.default_rng(seed), rows, metric, Writer(shift=shift), Writer(), samples=samples)
    others = (model.model, other.model) if metric.reads_grid else ()
    return dataclasses.replace(model, facts={"n": f"{N}/{N}"}, others=others)


def freeze(side: Side) -> None:
    """Make every array of a side read-only."""
    for value in side.data.values():
        parts = [value]
        if isinstance(value, Ragged):
            parts = [value.values, value.offsets]
        if isinstance(value, NextToken):
            parts = [value.gold_prob, value.sum_sq, value.argmax, value.gold, value.offsets]
        for array in parts:
            if isinstance(array, np.ndarray):
                array.flags.writeable = False


@pytest.mark.parametrize("name", FROM_TEXTS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_result_is_complete_bounded_and_repeats_and_inputs_stay(name):
    metric = METRICS[name]()
    features = features_for(metric)
    freeze(features.human)
    freeze(features.model)
    first, second = metric.compute(features), metric.compute(features_for(metric))
    assert first.metric == name
    assert first.primary in first.values
    assert first.signature.startswith(f"{name}|v:{metric.version}|")
    assert (first.n_human, first.n_model) == (len(features.human), len(features.model))
    for key, value in first.values.items():
        low, high = metric.bounds_of(key, first)
        assert low - 1e-9 <= value <= high + 1e-9, key
    assert dict(first.values) == pytest.approx(dict(second.values), rel=0, abs=0, nan_ok=True), "another value"
    explained = first.primary in first.per_example or metric.without_rows
    assert explained, "no number of each text, and no reason in `without_rows`"
    for array in first.per_example.values():
        assert array.shape == (N,)
        assert array.dtype == np.float64


def test_hooks_of_the_contract_stay_few():
    """Whoever writes a metric of texts must know what it may override: a new hook replaces another."""
    classes = {base for cls in METRICS.values() for base in cls.__mro__ if issubclass(base, Metric)}
    offered = {name: base for base in (TwoSample, Metric) for name in vars(base) if not name.startswith("__")}
    hooks = set()
    for cls in classes - {Metric}:
        own = vars(cls).items()
        members = {name for name, part in own if inspect.isfunction(part) or isinstance(part, property)}
        hooks |= {name for name in members & offered.keys() if cls is not offered[name]}
    assert {"prepare", "score"} < hooks
    assert len(hooks) <= 14, sorted(hooks)


ODD_TEXTS = [*"| |\n\n|a|A.|e\u0301\u0301|\u200d|🙂🙂 🙂|ﷺ ١٢ ٣".split("|"), "a " * 300, "?!" * 40, "Da. " * 9]


def draw_odd_features(metric: Metric, rng: np.random.Generator) -> Features:
    """A few texts that are equal, empty, of one word, in other scripts or the human ones, by a writer of any kind."""
    writer = Writer(rng.choice([0, 0.5, 1]), rng.choice([0.1, 1, 6]), *10.0 ** rng.uniform(-6, (2, 4, 4)))
    n, samples = int(rng.choice([2, 3, 9, 10, 11, 24])), metric.least_samples
    model, other = draw(rng, n, metric, Writer() if rng.random() < 0.3 else writer, Writer(), samples=samples)
    human = distort(model.human, model.human, rng)
    if metric.sides == "human":
        return Features(human, human)
    side = distort(model.model, human if rng.random() < 0.2 and samples == 1 else model.model, rng)
    return Features(human, side, {"n": f"{n}/{n * samples}"}, (side, other.model) if metric.reads_grid else ())


def distort(side: Side, source: Side, rng: np.random.Generator) -> Side:
    """Replace the texts of a side by some of another's, cut after some tokens; sometimes by odd ones."""
    n = len(side)
    rows = [np.arange(n), np.zeros(n, np.int64), rng.integers(0, 2, n), rng.permutation(n)][rng.integers(4)]
    length = int(rng.choice([0, 1, 2, 5, 1000], p=[0.05, 0.1, 0.1, 0.1, 0.65]))
    scale = rng.choice([0.0, 1e-9, 1.0, 1e6], p=[0.1, 0.1, 0.7, 0.1])
    ends, is_odd = rng.random(2) < (0.2, 0.3)
    data = {}
    for need, value in source.data.items():
        if isinstance(value, Ragged):
            data[need] = Ragged.from_rows((value[row][:length] for row in rows), value.values.dtype)
        elif isinstance(value, NextToken):
            one_hot = {"gold_prob": np.round(value.gold_prob), "sum_sq": np.ones_like(value.sum_sq)}
            data[need] = dataclasses.replace(value, **one_hot) if ends else value
        elif isinstance(value, list):
            texts = rng.choice(ODD_TEXTS, len(rows)) if is_odd else value
            data[need] = [" ".join(str(texts[row]).split(" ")[: length + 1]) for row in rows]
        elif isinstance(value, np.ndarray) and len(value) == len(rows):
            data[need] = value[rows] * scale if need.kind in ("embeddings", "gradients") else value[rows]
        else:
            data[need] = value
    return Side(side.system, side.ids, data)


def check_intervals(metric: Metric, features: Features) -> int:
    """Check that values and intervals are in range, and that no interval ends at an inner value; return their number."""
    result = add_intervals(metric, features, metric.compute(features), Plan(20))
    reasons = result.notes + tuple(result.no_interval.values())
    assert not any(re.search("Error|Undefined", reason) for reason in reasons), reasons
    for key, value in result.values.items():
        least, most = metric.bounds_of(key, result)
        assert np.isnan(value) or least - 1e-9 <= value <= most + 1e-9, f"{key}: {value} outside [{least}, {most}]"
    for key, interval in result.intervals.items():
        value, (least, most) = result.values[key], metric.bounds_of(key, result)
        low, high = interval["low"], interval["high"]
        ends = f"{key}: {value} is no end of its range, but of [{low}, {high}]"
        assert least - 1e-9 <= low <= value <= high <= most + 1e-9, key
        assert low < value or value <= least + 1e-9, ends
        assert value < high or value >= most - 1e-9, ends
    return len(result.intervals)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in FROM_TEXTS])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_interval_leaves_the_range_of_its_value_or_ends_at_it(name):
    for seed, shift in ((1, 0.0), (5, 0.3), (9, 4.0)):
        check_intervals(METRICS[name](), features_for(METRICS[name](), seed, shift))


WITH_VALID = ("chamfer", "distinct_k", "prompt_similarity", "prompt_vendi")
THRESHOLD, VALID = {"partition": "threshold"}, {"valid": "min_words:2"}
VARIANTS = [("distinct_k", THRESHOLD), ("distinct_k", THRESHOLD | VALID), *((name, VALID) for name in WITH_VALID)]


@pytest.mark.parametrize("cases", [2, pytest.param(10_000, marks=pytest.mark.long)])
@cases(
    "name, options",
    *(
        pytest.param(name, options, marks=pytest.mark.slow if name in SLOW else (), id="-".join([name, *options]))
        for name, options in [*((name, {}) for name in FROM_TEXTS), *VARIANTS]
    ),
)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
def test_odd_texts_have_values_and_intervals_in_range_or_none(name, options, cases):
    metric = METRICS[name](**options)
    for case in range(min(cases, 200) if name in SLOW else cases):
        with suppress(UndefinedMetric):
            check_intervals(metric, draw_odd_features(metric, np.random.default_rng([case, 0])))


def draw_odd_judgments(name: str, rng: np.random.Generator) -> str:
    """A small file of comparisons or ratings: few raters, equal or extreme cells, empty and repeated rows."""
    systems = [["human", "a"], ["human", "a", "b"]][rng.integers(2)]
    raters, items = range(rng.integers(1, 4)), range(rng.choice([1, 4, 25]))
    pairs = list(combinations(systems, 2)) if name == "bradley_terry" else [(system, system) for system in systems]
    picks = [(f"e{i}", *pair, f"r{r}") for i in items for pair in pairs for r in raters if rng.random() < 0.9]
    if name == "bradley_terry":
        outcomes = [["a", "b", "tie"], ["a"], ["tie"], ["a", "b", ""]][rng.integers(4)]
        rows = [f"{i},{a},{b},{rng.choice(outcomes)},{r},{rng.choice([0, 5, 1e9])}" for i, a, b, r in picks]
        head = "item,system_a,system_b,outcome,rater,seconds"
    else:
        ratings = [["1", "5"], ["3"], ["-1e9", "1e9"], ["0.1", "2", ""], ["1", "2", "3", "4", "5"]][rng.integers(5)]
        facts = {(i, a): f"{rng.choice([-1e5, -30.0, -1.5, 0.0])},{rng.choice([1, 7])}" for i, a, _, _ in picks}
        rows = [f"{i},{a},{rng.choice(ratings)},{r},{facts[i, a]}" for i, a, _, r in picks]
        head = "example_id,system,rating,rater,log_prob,length"
    return "\n".join([head, *rows, *(rows[:1] if rng.random() < 0.1 else ())]) + "\n"


@pytest.mark.parametrize("cases", [20, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["bradley_terry", "huse", "mean_rating"])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
def test_odd_judgments_have_values_and_intervals_in_range_or_are_refused(tmp_path, name, cases):
    path = tmp_path / "judgments.csv"
    for case in range(cases):
        rng = np.random.default_rng([case, 1])
        path.write_text(draw_odd_judgments(name, rng))
        options = {"empty": str(rng.choice(["skip", "refuse"]))} | ({"system": "a"} if name == "huse" else {})
        with suppress(UndefinedMetric, DataError):
            check_intervals(*METRICS[name](**options).from_file(path))


@pytest.mark.parametrize("cases", [50, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
def test_odd_files_of_classes_are_counted_or_refused(tmp_path, cases):
    path, metric = tmp_path / "classes.csv", METRICS["distinct_k"](partition="file")
    texts, judgments = metric.needs()
    for case in range(cases):
        rng = np.random.default_rng([case, 2])
        ids = sorted(f"e{i}" for i in range(rng.choice([1, 2, 12])) for _ in range(rng.integers(1, 5)))
        rows = [[name, ids[:at].count(name), rng.choice(["u", "v", "0", "ü"])] for at, name in enumerate(ids)]
        classes = {name: len({row[2] for row in rows if row[0] == name}) for name in ids if ids.count(name) > 1}
        is_odd = rng.random() < 0.5
        if is_odd:
            odd = ["", "inf", "nan", "-1", "1e400", "0.5", "9" * 400]
            rows[rng.integers(len(rows))][rng.integers(3)] = rng.choice(odd)
        lines = [",".join(map(str, row)) for row in rng.permutation(np.array(rows, dtype=object))]
        path.write_text("\n".join(["example_id,sample,class", *lines]) + "\n", encoding="utf-8")
        try:
            side = Side(UNNAMED, ids, {texts: ["x"] * len(ids), judgments: metric.read(path)})
            features = Features(side, side, {"n": f"{len(set(ids))}/{len(ids)}"})
            check_intervals(metric, features)
        except UndefinedMetric:
            assert not classes
        except DataError as error:
            refused = is_odd and "classes.csv" in str(error)
            assert refused, error  # noqa: PT017
        else:
            value = metric.compute(features).values["distinct_k"]
            assert is_odd or value == pytest.approx(np.mean(list(classes.values())))


def remove_texts(side: Side) -> Side:
    empty = {}
    for need, value in side.data.items():
        if isinstance(value, Ragged):
            empty[need] = Ragged(value.values[:0], np.zeros(1, np.int64))
        elif isinstance(value, NextToken):
            arrays = {f: getattr(value, f)[:0] for f in ("gold_prob", "sum_sq", "support", "argmax", "gold")}
            context = Ragged.from_rows([], np.int64)
            empty[need] = NextToken(np.zeros(1, np.int64), **arrays, context=context, vocab_size=50)
        else:
            empty[need] = value if callable(value) else value[:0]
    return Side("model", (), empty)


@pytest.mark.parametrize("name", FROM_TEXTS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_texts_is_undefined_not_a_number(name):
    metric = METRICS[name]()
    nothing = remove_texts(features_for(metric).model)
    with pytest.raises(UndefinedMetric):
        metric.compute(Features(nothing, nothing, {"n": "0/0"}))
