"""The table of Bradley-Terry scores: all players, every criterion, standard errors, from a run on judgments alone."""

import math

import numpy as np
import pytest

from openended.harness.report.tables.judgments import build_ability_tables
from openended.harness.results.frame import read_results
from openended.metrics.bradley_terry import bradley_terry
from tests.helpers import openended

WINS = {("human", "a"): 7, ("a", "human"): 2, ("human", "b"): 8, ("b", "human"): 3, ("a", "b"): 5, ("b", "a"): 4}


@pytest.mark.parametrize("criterion", [None, "human_like"])
def test_the_table_holds_the_scores_and_their_errors(tmp_path, criterion):
    head = "item,system_a,system_b,outcome" + (",criterion" if criterion else "")
    tail = f",{criterion}" if criterion else ""
    lines = [f"i{n},{a},{b},a{tail}" for (a, b), times in WINS.items() for n in range(times)]
    (tmp_path / "pairs.csv").write_text("\n".join([head, *lines]) + "\n")
    done = openended("judgments=pairs.csv", "metric=[bradley_terry]", cwd=tmp_path, code=0)
    assert done.stdout.lstrip().startswith("Preferred by people (pairs.csv) · Judgments pairs.csv@")
    for text in ("rated", "examples"):
        assert text not in done.stdout.split("report  ")[0]

    players = ["a", "b", "human"]
    found = bradley_terry(np.array([[WINS.get((i, j), 0) for j in players] for i in players]))
    (table,) = build_ability_tables(read_results([tmp_path / "outputs/runs"]))
    assert [row.label for row in table.rows] == ["human", "a", "b"]
    assert f"human {1000 + 400 / math.log(10) * found.scores[2]:.0f} [" in table.remarks[-1]  # Elo
    for row in table.rows:
        (cell,) = row.cells
        i = players.index(row.label)
        assert math.isclose(cell.value, found.scores[i], abs_tol=1e-6)
        half = 1.959964 * found.std_errors[i]  # 95 % of a normal distribution
        assert np.allclose(cell.interval, (found.scores[i] - half, found.scores[i] + half), atol=1e-6)
        assert cell.best == (row.label != "human")  # intervals overlap; the human row does not compete
