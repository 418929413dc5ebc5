import math

import pytest

from openended.harness.app.hydra.objectives import Objective, parse_objectives
from openended.harness.core.errors import DataError, SpecError
from openended.harness.storage.record import ResultRow, RunRecord
from openended.metrics.gen_ppl import GenPPL
from openended.metrics.mauve import Mauve

METRICS = (GenPPL(), Mauve())


def row(system: str, metric: str, status: str = "ok", **values: float) -> ResultRow:
    primary = next(iter(values))
    return ResultRow(
        system=system, metric=metric, signature=f"{metric}|v:1", primary=primary, values=values, n_human=2, n_model=2,
        status=status, notes=("too few texts",),
    )  # fmt: skip


RECORD = RunRecord(
    created="2026-01-01T00:00:00Z",
    spec={},
    axes={},
    results=(
        row("human", "gen_ppl", gen_ppl=50.0, entropy=3.0),
        row("model", "gen_ppl", gen_ppl=42.0, entropy=3.25),
        row("ceiling", "mauve", mauve=0.99),
        row("model", "mauve", mauve=0.9),
        row("model", "frechet", "undefined", frechet=math.nan),
    ),
)


def test_values_come_from_the_model_and_distances_from_the_human_row():
    assert Objective("maximize", "mauve").value(RECORD) == 0.9
    assert Objective("minimize", "gen_ppl.entropy").value(RECORD) == 3.25
    assert Objective("toward_human", "gen_ppl").value(RECORD) == 8.0
    assert Objective("toward_human", "entropy").value(RECORD) == 0.25
    assert Objective("toward_human", "entropy").title == "|Δ entropy|"


def test_what_has_no_value_fails_the_run_and_a_wrong_key_the_search():
    with pytest.raises(DataError, match="frechet has no value: too few texts"):
        Objective("minimize", "frechet").value(RECORD)
    with pytest.raises(DataError, match="zipf was not measured"):
        Objective("minimize", "zipf").value(RECORD)
    with pytest.raises(SpecError, match=r"gen_ppl has no value 'entrop'; did you mean 'entropy'"):
        Objective("minimize", "gen_ppl.entrop").value(RECORD)


@pytest.mark.parametrize("name", ["mauve", "gen_ppl", "entropy", "gen_ppl.entropy", "mauve_star"])
def test_names_that_the_runs_measure(name):
    Objective("maximize", name).check(METRICS)


@pytest.mark.parametrize(
    ("aim", "name", "said"),
    [
        ("maximize", "mauv", r"maximize: 'mauv' is in none of metric=\[gen_ppl,mauve\]; did you mean 'mauve'"),
        ("toward_human", "mauve", "mauve has no human value"),
    ],
)
def test_names_that_they_do_not(aim, name, said):
    with pytest.raises(SpecError, match=said):
        Objective(aim, name).check(METRICS)


def test_objectives_are_read_from_the_options():
    found = parse_objectives({"maximize": ["mauve"], "toward_human": "gen_ppl"})
    assert [(one.aim, one.name, one.direction) for one in found] == [
        ("maximize", "mauve", "maximize"),
        ("toward_human", "gen_ppl", "minimize"),
    ]
    for node, said in (
        ({}, "no objective"),
        ({"minimize": [1]}, "a list of values"),
        ({"maximize": ["a"], "minimize": ["a"]}, "twice"),
    ):
        with pytest.raises(SpecError, match=said):
            parse_objectives(node)
