"""Spaces and objectives of a search."""

import math

import optuna
import pytest

from openended.harness.app.hydra.search_space import Objective, Space, parse_objectives, parse_space
from openended.harness.core import DataError, MetricResult, SpecError
from openended.harness.storage.record import RunRecord
from openended.metrics.gen_ppl import GenPPL
from openended.metrics.mauve import Mauve
from tests.helpers import cases, check_error

EACH = {"nucleus": {"p": "interval(0.5,1)", "temperature": 0.9}, "top_k": {"k": "tag(log,int(interval(2,500)))"}}


def settings(space: Space, count: int = 40) -> list[dict[str, str]]:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    return [space.suggest(study.ask()) for _ in range(count)]


@cases(
    "word, low, high, whole, log",
    ("interval(0.5,1)", 0.5, 1, False, False),
    ("int(interval(2,5))", 2, 5, True, False),
    ("tag(log,interval(1e-4,1e-2))", 1e-4, 1e-2, False, True),
    ("int(tag(log,interval(2,500)))", 2, 500, True, True),
    ("range(1,10,3)", 1, 7, True, False),
    ("range(0.5,1,0.1)", 0.5, 0.9, False, False),
)
def test_numbers_stay_between_their_ends(word, low, high, whole, log):
    space = parse_space({}, {}, [f"decoder.p={word}"])
    (parameter,) = space.parameters
    assert (parameter.whole, parameter.log) == (whole, log)
    assert (parameter.low, parameter.high) == (low, pytest.approx(high))
    values = [one["decoder.p"] for one in settings(space)]
    assert all(low <= float(v) <= high + 1e-9 for v in values)
    assert all(v.isdigit() for v in values) == whole
    if word.startswith("range"):
        steps = {round((float(v) - low) / parameter.step, 6) for v in values}
        assert steps == set(range(len(steps))), "all of them, and nothing between"


def test_words_of_the_command_line_win_over_those_of_the_experiment():
    axes = {"decoder": "greedy,nucleus", "seed": "0,1", "model": "docs-s"}
    space = parse_space(axes, {}, ["decoder=top_k,min_p", "seed=7"])
    assert [p.choices for p in space.parameters] == [("top_k", "min_p")]
    assert space.fixed == ("model=docs-s",)
    assert space.seeds == ("7",)


def test_each_choice_has_its_own_parameters():
    space = parse_space({}, EACH, ["decoder=nucleus,top_k,ancestral", "seed=0,1"])
    found = settings(space)
    keys = {one["decoder"]: set(one) - {"decoder"} for one in found}
    assert keys == {"nucleus": {"decoder.p"}, "top_k": {"decoder.k"}, "ancestral": set()}
    nucleus = next(one for one in found if one["decoder"] == "nucleus")
    assert space.words(nucleus, "1") == [
        "decoder=nucleus", f"decoder.p={nucleus['decoder.p']}", "decoder.temperature=0.9", "seed=1",
    ]  # fmt: skip
    assert space.seeds == ("0", "1")


def test_corners_have_both_ends():
    corners = list(parse_space({}, EACH, ["decoder=nucleus,top_k", "num_examples=10,20"]).corners())
    seen = {(k, v) for one in corners for k, v in one.items()}
    assert {("decoder.p", "0.5"), ("decoder.p", "1.0"), ("decoder.k", "2"), ("decoder.k", "500")} <= seen
    assert {("decoder", "nucleus"), ("decoder", "top_k"), ("num_examples", "10"), ("num_examples", "20")} <= seen
    assert all(("decoder.p" in one) == (one["decoder"] == "nucleus") for one in corners)


METRICS = (GenPPL(), Mauve())


def row(system: str, metric: str, status: str = "ok", **values: float) -> MetricResult:
    primary = next(iter(values))
    return MetricResult(
        system=system, metric=metric, signature=f"{metric}|v:1", primary=primary, values=values, n_human=2, n_model=2,
        status=status, notes=("too few texts",),
    )  # fmt: skip


RESULTS = (
    row("human", "gen_ppl", gen_ppl=50.0, entropy=3.0),
    row("model", "gen_ppl", gen_ppl=42.0, entropy=3.25),
    row("ceiling", "mauve", mauve=0.99),
    row("model", "mauve", mauve=0.9),
    row("model", "frechet", "undefined", frechet=math.nan),
)
RECORD = RunRecord(created="2026-01-01T00:00:00Z", spec={}, axes={}, results=RESULTS)


def test_values_come_from_the_model_and_distances_from_the_human_row():
    assert Objective("maximize", "mauve").value(RECORD) == 0.9
    assert Objective("minimize", "gen_ppl.entropy").value(RECORD) == 3.25
    assert Objective("toward_human", "gen_ppl").value(RECORD) == 8.0
    assert Objective("toward_human", "entropy").value(RECORD) == 0.25
    assert Objective("toward_human", "entropy").title == "|Δ entropy|"


def test_what_has_no_value_fails_the_run_and_a_wrong_key_the_search():
    check_error(DataError, "frechet has no value: too few texts", Objective("minimize", "frechet").value, RECORD)
    check_error(DataError, "zipf was not measured", Objective("minimize", "zipf").value, RECORD)
    with pytest.raises(SpecError, match=r"gen_ppl has no value 'entrop'; did you mean 'entropy'"):
        Objective("minimize", "gen_ppl.entrop").value(RECORD)


@pytest.mark.parametrize("name", ["mauve", "gen_ppl", "entropy", "gen_ppl.entropy", "mauve_star"])
def test_names_that_the_runs_measure(name):
    Objective("maximize", name).check(METRICS)


def test_objectives_are_read_from_the_options():
    found = parse_objectives({"maximize": ["mauve"], "toward_human": "gen_ppl"})
    aims = [("maximize", "mauve", "maximize"), ("toward_human", "gen_ppl", "minimize")]
    assert [(one.aim, one.name, one.direction) for one in found] == aims
