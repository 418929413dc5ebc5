"""Samplers at several numbers of steps and temperatures have a frontier for each number of steps."""

import numpy as np
import pytest

from openended.harness.core import Replicates
from openended.harness.report.figures.drawing import SystemStyles, apply_style
from openended.harness.report.figures.trade_offs import steps_at_equal_entropy
from openended.harness.report.tables import frontier_gaps
from openended.harness.report.tables.frontier_gaps import build_frontier_tables, find_frontiers
from openended.harness.results import filter_results, load_layout, read_results
from tests.harness.report.synthetic import result, write_run

HUMAN_ENTROPY, TEMPERATURES, STEPS = 4.0, (0.8, 1.0, 1.2), (8, 32, 128)


def gen_ppl(steps: int | None, entropy: float) -> float:
    return float(np.exp(entropy + (4.0 / steps if steps else 0.0)))


def write_system(folder, model, decoder, temperature, steps=None):
    entropy = HUMAN_ENTROPY - 1 + temperature
    values = {"entropy": entropy, "gen_ppl": gen_ppl(steps, entropy)}
    human = {"entropy": HUMAN_ENTROPY, "gen_ppl": 40.0}
    lines = [result("model", "gen_ppl", values), result("human", "gen_ppl", human)]
    options = {"temperature": temperature} | ({"steps": steps} if steps else {})
    write_run(folder, decoder, 0, model=model, options=options, results=lines)


@pytest.fixture
def results(tmp_path, monkeypatch):
    def load(results, item):
        noise = np.random.default_rng(0).normal(size=(1, 20))
        return Replicates(item.mean * (1 + 0.01 * noise))

    monkeypatch.setattr(frontier_gaps, "load_replicates", load)
    for temperature in TEMPERATURES:
        write_system(tmp_path, "ar", "temperature", temperature)
        for steps in STEPS:
            write_system(tmp_path, "masked", "mdlm", temperature, steps)
    return read_results([tmp_path])


def test_one_frontier_for_each_number_of_steps(results):
    frontiers = find_frontiers(results, results.values)
    assert [(entry.steps, len(entry.points)) for entry in frontiers] == [(None, 3), (8, 3), (32, 3), (128, 3)]
    assert [entry.sampler for entry in frontiers] == ["ar temperature", *["masked mdlm"] * 3]
    _, table = build_frontier_tables(results, load_layout("frontier"), "frontier")
    assert [row.label.rpartition("steps=")[2] for row in table.rows[1:4]] == ["8", "32", "128"]
    printed = [row.cells[3].value for row in table.rows[:4]]
    assert printed == pytest.approx([gen_ppl(steps, HUMAN_ENTROPY) for steps in (None, *STEPS)], rel=1e-6)


def test_points_are_at_the_human_entropy_and_steps_alone_stay_points(results):
    with apply_style():
        (axes,) = steps_at_equal_entropy(results, SystemStyles([]))["steps"].axes
    curve = axes.containers[0].lines[0]
    assert curve.get_xdata().tolist() == list(STEPS)
    assert curve.get_ydata() == pytest.approx([gen_ppl(steps, HUMAN_ENTROPY) for steps in STEPS], rel=1e-6)
    levels = [line.get_ydata()[0] for line in axes.lines if len(set(line.get_ydata())) == 1]
    assert levels == pytest.approx([gen_ppl(None, HUMAN_ENTROPY), 40.0], rel=1e-6)

    masked = filter_results(results, {"model": "masked", "decoder.temperature": "1.0|1"})
    (entry,) = find_frontiers(masked, masked.values)
    assert (entry.steps, len(entry.points)) == (None, 3)
    assert steps_at_equal_entropy(masked, SystemStyles([])) == {}
