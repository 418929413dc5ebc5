"""Each figure is drawn from the stored set of runs, twice to the same bytes, and not at all without data."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from openended.harness.core.metric_spec import Features, Side
from openended.harness.report.figures import curves, frontiers, panels, sweep_curves
from openended.harness.report.figures.draw import draw_all
from openended.harness.report.figures.drawing import COLORS, MOST, apply_style, choose_style, save
from openended.harness.report.tables.systems import build_value_tables
from openended.harness.results.frame import read_results
from openended.harness.results.layout import Layout
from openended.metrics.mauve import Mauve
from tests.harness.report.synthetic import result, seal, seal_record, stored, write_run

FIXTURE = Path(__file__).parents[3] / "fixtures" / "report"


@pytest.fixture(scope="module")
def results():
    return read_results([FIXTURE])


def test_the_stored_set_is_what_the_builder_writes(tmp_path):
    stored(tmp_path)
    files = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file())
    assert files == sorted(p.relative_to(FIXTURE) for p in FIXTURE.rglob("*") if p.is_file())
    records = [p for p in files if p.name == "record.json"]
    assert len(records) > 10
    for path in records:
        assert (tmp_path / path).read_bytes() == (FIXTURE / path).read_bytes()


MAKERS = {
    "divergence": (
        curves.divergence_curves,
        {"decoder": "greedy|ancestral|nucleus", "max_new_tokens": "96", "num_examples": "500"},
    ),
    "zipf": (curves.rank_frequency, {"num_examples": "500"}),
    "metrics": (panels.metric_panels, {"num_examples": "500", "max_new_tokens": "96"}),
    "precision_recall": (frontiers.precision_recall, {"experiment": "decoders"}),
    "quality_diversity": (frontiers.quality_diversity, {"experiment": "decoders|p"}),
    "sweep-max_new_tokens": (sweep_curves.sweeps, {"experiment": "lengths|decoders", "num_examples": "500"}),
    "sweep-num_examples": (sweep_curves.sweeps, {"experiment": "sizes|decoders", "max_new_tokens": "96"}),
    "sweep-decoder.p": (sweep_curves.sweeps, {"num_examples": "500", "max_new_tokens": "96"}),
    "sweep-mauve-scaling_factor": (sweep_curves.sweeps, {}),
}


@pytest.mark.parametrize("name", MAKERS)
def test_each_figure_is_drawn(name, tmp_path):
    make, where = MAKERS[name]
    results = read_results([FIXTURE], where)
    with apply_style():
        figure = make(results, results.values)[name]
        for panel in figure.axes:
            assert panel.has_data() or not panel.get_visible()
        paths = save(figure, tmp_path, name)
    assert [p.suffix for p in paths] == [".png", ".pdf"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert paths[1].read_bytes().startswith(b"%PDF")


def test_the_same_runs_give_the_same_bytes(results, tmp_path):
    with apply_style():
        first, second = (
            save(curves.divergence_curves(results, results.values)["divergence"], tmp_path / n, "x") for n in "ab"
        )
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes()
    assert b"CreationDate" not in first[1].read_bytes()


def test_no_data_no_figure(tmp_path):
    write_run(tmp_path, "nucleus", 0, results=[result("model", "m", {"m": float("nan")})])
    empty = read_results([tmp_path])
    with apply_style():
        for make, _ in MAKERS.values():
            assert not make(empty, empty.values)


def test_the_human_value_is_a_line_and_systems_are_points(results):
    with apply_style():
        figure = panels.metric_panels(results, results.values)["metrics"]
    titled = {p.get_title().split(" ")[0]: p for p in figure.axes}
    human = [line for line in titled["Gen."].lines if line.get_linestyle() == "--"]
    assert np.allclose(human[0].get_xdata(), 36.4)


def test_a_sweep_joins_the_points_of_a_system_in_order():
    results = read_results([FIXTURE], {"experiment": "lengths|decoders", "num_examples": "500", "decoder": "nucleus"})
    with apply_style():
        figure = sweep_curves.sweep(results.values, "max_new_tokens", ["gen_ppl.entropy"])
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert list(lines["nucleus p=0.95"].get_xdata()) == [32.0, 64.0, 96.0]
    assert list(lines["human"].get_xdata()) == [32.0, 64.0, 96.0]
    assert "tokens" in figure.axes[0].get_xlabel()
    assert sweep_curves.sweep(results.values, "num_examples") is None


def test_no_two_systems_of_a_figure_look_alike():
    looks = {tuple(sorted(choose_style(i).items())) for i in range(MOST)}
    assert len(looks) == MOST
    assert len(set(COLORS)) == len(COLORS)


def test_a_dollar_in_a_name_is_no_formula(tmp_path):
    write_run(tmp_path, "nucleus", 0, title="p=$x_{", arrays=True)
    results = read_results([tmp_path])
    with apply_style():
        save(panels.metric_panels(results, results.values)["metrics"], tmp_path / "out", "m")


def test_the_divergence_curve_drawn_is_the_mean_that_its_label_says(tmp_path):
    """Two seeds of three clusterings each, of texts so few that one clustering is far from another."""
    rng = np.random.default_rng(0)
    ids = tuple(f"t/{i:03d}" for i in range(60))
    spec = Mauve(clustering_seeds=3, max_iter=20, restarts=1)
    (need,) = spec.needs()
    human = Side("human", ids, {need: rng.normal(size=(60, 6)).astype("f4")})
    for seed in (0, 1):
        model = Side("model", ids, {need: rng.normal(size=(60, 6)).astype("f4") + 0.5})
        made = spec.compute(Features(human, model, {"n": "60/60", "task": "docs@1"}))
        name = f"measure/aa/{seed}"
        (tmp_path / "store" / name).mkdir(parents=True)
        held = {f"arrays/{k}": v for k, v in made.arrays.items()}
        save_file(held, tmp_path / "store" / name / "arrays.safetensors")
        seal(tmp_path / "store" / name)
        line = result("model", "mauve", made.values, direction="higher", family="two_sample")
        folder = write_run(tmp_path, "nucleus", seed, results=[line | {"signature": made.signature, "sd": made.sd}])
        record = json.loads((folder / "record.json").read_text())
        record["results"][0]["artefact"] = name
        seal_record(folder, {k: v for k, v in record.items() if k != "digest"})
    results = read_results([tmp_path])
    items = results.values
    with apply_style():
        panel = curves.divergence_curves(results, items)["divergence"].axes[0]
    (line,) = panel.get_lines()
    value = next(i for i in items if i.key == "mauve")
    assert np.trapezoid(line.get_ydata(), line.get_xdata()) == pytest.approx(value.mean, abs=1e-9)
    assert line.get_label() == f"nucleus p=0.95 ({value.mean:.3f})"
    (band,) = panel.collections
    height = np.ptp(band.get_paths()[0].vertices[:, 1])
    assert height > 0.5, "the spread over clusterings and seeds is not drawn"
    (table,) = build_value_tables(results, Layout(metrics=("mauve",)), "t")
    cell = next(r for r in table.rows if r.system == "model").cells[0]
    assert (cell.sd, cell.metric_error) == (value.sd, value.error)
    _, spread = table.text(cell, table.columns[0])
    assert re.fullmatch(r"± 0\.\d+ \(0\.\d+\)", spread), "both sources of spread are shown"
    assert "metric's own std" in table.legend()[0]


def test_everything_that_the_runs_have_data_for_is_drawn_at_once(tmp_path):
    results = read_results([FIXTURE], {"experiment": "decoders", "num_examples": "500", "max_new_tokens": "96"})
    names = {path.name for path in draw_all(results, tmp_path)}
    assert names >= {"divergence.png", "divergence.pdf", "metrics.png", "zipf.png", "precision_recall.png"}
    assert names == {path.name for path in tmp_path.iterdir()}
