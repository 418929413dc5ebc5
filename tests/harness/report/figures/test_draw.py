"""Each figure is drawn from the stored set of runs, twice to the same bytes, and not at all without data."""

import itertools
import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from openended.harness.core import Features, Replicates, Side, SpecError
from openended.harness.report.build import make_tables
from openended.harness.report.figures import curves, draw as draw_module, drawing, heat_maps, panels, trade_offs
from openended.harness.report.figures.draw import draw_all, draw_or_keep
from openended.harness.report.figures.drawing import STYLES, SystemStyles, apply_style, choose_style
from openended.harness.report.figures.people import huse_parts, huse_regions, huse_stability
from openended.harness.report.figures.trace import trace_figure
from openended.harness.report.figures.trade_offs import draw_labels, steps_at_equal_entropy
from openended.harness.report.tables import frontier_gaps
from openended.harness.report.tables.frontier_gaps import find_frontiers
from openended.harness.results import Layout, filter_results, group_systems, load_layout, read_results
from openended.metrics.huse import Huse, PairRatings, Rule
from openended.metrics.mauve import Mauve
from tests.harness.report.synthetic import quickstart, result, store_arrays, stored, write_run
from tests.helpers import openended

FIXTURE = Path(__file__).parents[3] / "fixtures" / "report"
DECODERS = {"decoder": "greedy|ancestral|nucleus"}
MAKERS = {
    "divergence": (curves.divergence_curves, DECODERS | {"max_new_tokens": "96", "num_examples": "500"}),
    "zipf": (curves.rank_frequency, {"num_examples": "500"}),
    "metrics": (panels.metric_panels, {"num_examples": "500", "max_new_tokens": "96"}),
    "precision_recall": (trade_offs.precision_recall, {"experiment": "decoders"}),
    "quality_diversity": (trade_offs.quality_diversity, {"experiment": "decoders|p"}),
    "sweep-max_new_tokens": (panels.sweeps, {"experiment": "lengths|decoders", "num_examples": "500"}),
    "sweep-num_examples": (panels.sweeps, {"experiment": "sizes|decoders", "max_new_tokens": "96"}),
    "sweep-decoder.p": (panels.sweeps, {"num_examples": "500", "max_new_tokens": "96"}),
    "sweep-mauve-scaling_factor": (panels.sweeps, {}),
}


@pytest.fixture(autouse=True)
def style():
    with apply_style():
        yield


def draw(make, results):
    return make(results, SystemStyles(results.values))


def test_the_stored_set_is_what_the_builder_writes(tmp_path):
    stored(tmp_path)
    files = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file())
    assert files == sorted(p.relative_to(FIXTURE) for p in FIXTURE.rglob("*") if p.is_file())
    records = [p for p in files if p.name == "record.json"]
    assert len(records) > 10
    for path in records:
        assert (tmp_path / path).read_bytes() == (FIXTURE / path).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_each_figure_is_drawn(name, tmp_path):
    make, where = MAKERS[name]
    figure = draw(make, read_results([FIXTURE], where))[name]
    for panel in figure.axes:
        assert panel.has_data() or not panel.get_visible()
    png, pdf = drawing.save(figure, tmp_path, name)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")


def test_no_data_no_figure(tmp_path):
    write_run(tmp_path, "nucleus", 0, results=[result("model", "m", {"m": float("nan")})])
    empty = read_results([tmp_path])
    for make, _ in MAKERS.values():
        assert not draw(make, empty)


def test_a_sweep_joins_the_points_of_a_system_in_order():
    where = {"experiment": "lengths|decoders", "num_examples": "500", "decoder": "nucleus"}
    items = read_results([FIXTURE], where).values
    figure = panels.sweep(items, "max_new_tokens", SystemStyles(items), Layout(metrics=("gen_ppl.entropy",)))
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert list(lines["nucleus p=0.95"].get_xdata()) == [32.0, 64.0, 96.0]
    assert list(lines["human"].get_xdata()) == [32.0, 64.0, 96.0]
    assert "tokens" in figure.axes[0].get_xlabel()
    assert panels.sweep(items, "num_examples", SystemStyles(items)) is None


def test_a_layout_chooses_the_metrics_of_a_sweep_and_distances_to_the_human_value():
    where = {"experiment": "lengths|decoders", "num_examples": "500", "decoder": "nucleus"}
    items = read_results([FIXTURE], where).values
    layout = Layout(metrics=("mauve", "gen_ppl.gen_ppl"), gaps=True)
    figure = panels.sweep(items, "max_new_tokens", SystemStyles(items), layout)
    assert [panel.get_title() for panel in figure.axes] == ["MAUVE ↑", "|Δ Gen. PPL| ↓"]
    (line,) = figure.axes[1].lines
    assert max(line.get_ydata()) < 5, "nucleus sampling has a perplexity of 39, people of 36.4"


def test_a_dollar_in_a_name_is_no_formula(tmp_path):
    write_run(tmp_path, "nucleus", 0, title="p=$x_{", arrays=True)
    drawing.save(draw(panels.metric_panels, read_results([tmp_path]))["metrics"], tmp_path / "out", "m")


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
        arrays = {f"arrays/{k}": v for k, v in made.arrays.items()}
        name = store_arrays(tmp_path / "store", f"measure/aa/{seed}", arrays)
        line = result("model", "mauve", made.values, direction="higher", family="two_sample", artifact=name)
        write_run(tmp_path, "nucleus", seed, results=[line | {"signature": made.signature, "sd": made.sd}])
    results = read_results([tmp_path])
    panel = draw(curves.divergence_curves, results)["divergence"].axes[0]
    (line,) = panel.get_lines()
    value = next(i for i in results.values if i.key == "mauve")
    assert np.trapezoid(line.get_ydata(), line.get_xdata()) == pytest.approx(value.mean, abs=1e-9)
    assert line.get_label() == f"nucleus p=0.95 ({value.mean:.3f})"
    (band,) = panel.collections
    height = np.ptp(band.get_paths()[0].vertices[:, 1])
    assert height > 0.5, "the spread over clusterings and seeds is not drawn"
    (table,) = make_tables(results, Layout(metrics=("mauve",)), "t")
    cell = next(r for r in table.rows if r.system == "model").cells[0]
    assert (cell.sd, cell.metric_error) == (value.sd, value.metric_error)
    _, spread = table.text(cell, table.columns[0])
    assert re.fullmatch(r"± 0\.\d+ \(0\.\d+\)", spread), "both sources of spread are shown"
    assert "metric's own std" in table.legend()[0]


def test_a_subset_keeps_the_styles_of_the_whole(tmp_path):
    for p in (0.3, 0.5, 0.7):
        write_run(tmp_path, "nucleus", 0, options={"p": p}, title=f"nucleus p={p}")
    items = read_results([tmp_path]).values
    values = [system.items[0] for system in group_systems(items)]
    styles = SystemStyles(items)
    assert styles.choose(values) == [choose_style(0), choose_style(1), choose_style(2)]
    assert styles.choose(values[2:]) == [choose_style(2)]
    first, second = styles.choose([values[0], values[0]])
    assert first != second, "two systems of one figure never share a style"


def test_neighbors_differ_in_dash_and_coinciding_curves_in_the_position_of_their_markers():
    looks = [choose_style(index) for index in range(STYLES)]
    assert all(a["linestyle"] != b["linestyle"] for a, b in pairwise(looks))
    assert len({tuple(look.items()) for look in looks}) == STYLES == 7 * len(drawing.DASHES)
    assert STYLES >= drawing.MOST
    assert len(set(drawing.COLORS)) == len(drawing.COLORS)
    _, (panel,) = drawing.create_panels(1, 2.0)
    drawing.draw_curves(panel, [(name, np.zeros((2, 120))) for name in "abc"], looks[:3])
    drawing.draw_curves(panel, [("d", np.zeros((2, 2)))], looks[3:4])
    assert [line.get_markevery() for line in panel.lines] == [(0, 20), (6, 20), (13, 20), (0, 1)]


@pytest.mark.parametrize(
    ("keys", "always", "names"),
    [
        ([("docs", "k=3")], False, ["zipf"]),
        ([("docs", "k=3"), ("docs", "k=4")], False, ["zipf-k=3", "zipf-k=4"]),
        ([("a b",), ("a/b",)], False, ["zipf-a_b", "zipf-a_b-2"]),  # their slugs are equal
        ([("docs", "nucleus")], True, ["zipf-nucleus"]),
        ([], False, []),
    ],
)
def test_figures_are_named_by_what_differs(keys, always, names):
    figures = {key: object() for key in keys}
    left_out = {("left", "out")[: len(keys[0]) if keys else 2]: None}
    named = drawing.facet("zipf", figures | left_out, legend=0, always=always)
    assert list(named) == names
    assert list(named.values()) == list(figures.values())


def test_labels_of_crossing_lines_are_free():
    figure, (panel,) = drawing.create_panels(1, 2.5)
    panel.plot([0, 1, 2], [0, 2, 3], marker="o")
    panel.plot([0, 1, 2], [0.1, 1.9, 3], marker="s")
    panel.axhline(2.5, linestyle=":")
    panel.margins(0.15)
    ends = [(0, 0, "p=0.5"), (2, 3, "p=1"), (0, 0.1, "temperature"), (2, 3, "k=500")]
    draw_labels(figure, panel, [(text, x, y, "black") for x, y, text in ends])
    figure.draw_without_rendering()
    boxes, inside = [text.get_window_extent() for text in panel.texts], panel.get_window_extent()
    assert [text.get_text() for text in panel.texts] == [text for _, _, text in ends]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    share = np.linspace(0, 1, 200)[:, None]
    for line in panel.get_lines():
        ends = line.get_transform().transform(np.asarray(line.get_xydata(), dtype=float))
        points = np.concatenate([a + (b - a) * share for a, b in pairwise(ends)])
        assert not any(box.contains(*point) for box in boxes for point in points)
    assert all((box.min >= inside.min).all() and (box.max <= inside.max).all() for box in boxes)


def test_a_decoder_that_is_its_parameter_is_named_once(tmp_path):
    for n, value in enumerate((0.6, 0.8, 1.2)):
        line = result("model", "gen_ppl", {"gen_ppl": 10.0 + n, "entropy": 2.0 + n}, family="scored")
        title = f"temperature={value}"
        write_run(tmp_path, "temperature", 0, results=[line], options={"temperature": value}, title=title)
    (panel,) = draw(trade_offs.quality_diversity, read_results([tmp_path]))["quality_diversity"].axes
    assert [text.get_text() for text in panel.texts] == ["0.6", "1.2"]
    assert [line.get_label() for line in panel.get_lines()] == ["temperature"]


def test_a_figure_that_several_experiments_cannot_share_is_left_out_with_a_reason(tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise SpecError("greedy has several values of mauve")

    results = read_results([FIXTURE])
    monkeypatch.setattr(draw_module, "FIGURES", [refuse, trade_offs.precision_recall])
    assert draw_all(results, tmp_path)
    assert "no figure refuse: greedy has several values of mauve" in caplog.text
    assert not draw_all(results, tmp_path, [Layout(analysis="findings")])


def test_figures_are_drawn_again_only_if_their_values_or_files_changed(tmp_path, monkeypatch):
    module = "openended.harness.report.figures.draw"
    results = read_results([FIXTURE], {"experiment": "p", "num_examples": "500"})
    monkeypatch.setattr(f"{module}.FIGURES", [trade_offs.precision_recall])
    first, again, more = {}, {}, {}
    paths = draw_or_keep(results, tmp_path / "a", earlier=tmp_path / "none", traces=first)
    monkeypatch.setattr(f"{module}.draw_all", lambda *_, **__: pytest.fail("drawn again"))
    kept = draw_or_keep(results, tmp_path / "b", earlier=tmp_path / "a", traces=again)
    assert [p.read_bytes() for p in kept] == [p.read_bytes() for p in paths]
    assert again == first != {}
    kept[0].write_bytes(b"changed by hand")
    monkeypatch.setattr(f"{module}.draw_all", lambda *_, **__: [])
    assert draw_or_keep(results, tmp_path / "c", earlier=tmp_path / "b", traces=more) == []
    fewer = replace(results, runs=results.runs[:1])
    assert draw_or_keep(fewer, tmp_path / "d", earlier=tmp_path / "a", traces=more) == []


@pytest.mark.slow
def test_every_figure_of_a_grid_is_traced_in_one_color_per_system(tmp_path):
    results = read_results([quickstart(tmp_path, decoders=("greedy", "ancestral", "nucleus"), texts=False)])
    traces = {}
    paths = draw_all(results, tmp_path / "figures", traces=traces)
    assert {p.stem for p in paths} == set(traces)
    colors = {}
    for trace in traces.values():
        for series in (s for panel in trace["panels"] for s in panel["series"] if s["label"] not in ("", "human")):
            colors.setdefault(series["label"].partition(" (")[0], set()).add(series["color"])
    assert len(traces) > 2
    assert all(len(used) == 1 for used in colors.values())
    assert len(set.union(*colors.values())) == len(colors) == 3
    panel = next(p for p in traces["metrics"]["panels"] if p["title"].startswith("MAUVE"))
    drawn = sorted(x for series in panel["series"] for x, _ in series["points"])
    means = sorted(i.mean for i in results.values if (i.system, i.key) == ("model", "mauve"))
    assert drawn == [float(f"{m:.6g}") for m in means]
    assert [text for _, text in panel["y"]["ticks"]] == ["greedy", "ancestral", "nucleus p=0.95"]
    assert ["across" in series for series in panel["series"]] == [False, True, True]  # greedy has no error
    assert traces["quality_diversity"]["panels"][0]["x"]["kind"] == "log"
    labels = {one["label"].partition(" (")[0] for one in traces["divergence"]["panels"][0]["series"]}
    assert labels == {"greedy", "ancestral", "nucleus p=0.95"}


def test_lines_bands_rules_and_powers_are_traced():
    figure, (axes,) = drawing.create_panels(1, 1.9)
    axes.plot([1, 10, 1000], [0, 1, float("nan")], label="a", linestyle="--", color="black", linewidth=2)
    axes.fill_between([1, 10], [0, 0], [1, 2])
    axes.axhline(0.5)
    axes.set_xscale("log")
    figure.canvas.draw()
    (panel,) = trace_figure(figure)["panels"]
    (series,) = panel["series"]
    assert series == {"label": "a", "points": [[1, 0], [10, 1]], "color": "#000000", "line": "--", "width": 2}
    assert panel["rules"][0]["y"] == 0.5
    assert len(panel["bands"]) == 1
    assert ["10¹", 10.0] in [[text, position] for position, text in panel["x"]["ticks"]]


def test_a_shaded_plane_is_left_to_its_picture():
    figure, (axes,) = drawing.create_panels(1, 1.9)
    axes.imshow([[0, 1], [1, 0]])
    assert trace_figure(figure) is None


def test_sizes_are_drawn_for_each_decoder_and_embedder(tmp_path):
    for rank, model in enumerate(("docs-s", "docs-m")):
        for embedder in ("docs-s", "docs-m"):
            for decoder in ("greedy", "nucleus"):
                write_run(tmp_path, decoder, 0, model=model, embedder=embedder, strength=0.5 + rank / 4)
    results = read_results([tmp_path])
    layout = Layout(analysis="embedders", metrics=("mauve",), names={"model": {"docs-s": "small", "docs-m": "medium"}})
    figure = panels.size_curves(results, SystemStyles(results.values), layout)["sizes"]
    (panel,) = figure.axes
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["small", "medium"]
    assert (panel.get_title(), panel.get_xlabel()) == ("MAUVE ↑", "size of the model")
    labels = panel.get_legend_handles_labels()[1]
    assert sorted(labels) == [
        f"{system}, embedder={embedder}" for system in ("greedy", "nucleus p=0.95") for embedder in ("docs-m", "docs-s")
    ]
    assert panels.size_curves(results, SystemStyles(results.values), Layout(metrics=("mauve",))) == {}


EXAMPLE = Path(__file__).parents[4] / "tasks/data/example_ratings.csv"
RULE = Rule()
NO_STYLES = SystemStyles([])


@pytest.fixture
def rated():
    metric, features = Huse().from_file(EXAMPLE)
    return PairRatings.from_arrays(metric.compute(features).arrays)


def test_regions_show_every_text_in_a_panel_per_system(rated, tmp_path):
    figure = huse_regions({"t=1.0": (rated, RULE), "t=0.7": (rated, RULE)})
    assert [panel.get_title() for panel in figure.axes] == ["t=1.0", "t=0.7"]
    for panel in figure.axes:
        assert panel.get_xlabel() == "model log-probability per word, nats"
        reference, model = panel.get_lines()
        assert (reference.get_marker(), model.get_marker()) == ("s", "o")
        assert len(reference.get_xdata()) == len(model.get_xdata()) == 100
        assert max(reference.get_xdata()) < 0 < min(reference.get_ydata())
    assert figure.axes[0].get_ylabel() == "human judgment (mean rating)"


def test_the_shading_is_the_confidence_of_the_discriminator(rated):
    """All human texts rated near 5, all model texts near 1: sure at both ends of the rating axis."""
    near = np.repeat([[5.0], [1.0]], 100, axis=0) + 0.1 * rated.ratings
    figure = huse_regions({"m": (PairRatings(rated.ids, near, rated.log_probs, rated.lengths), RULE)})
    shares = np.asarray(figure.axes[0].images[0].get_array())
    assert np.median(shares[-1]) == 1  # the highest ratings
    assert np.median(shares[0]) == -1


def test_lines_of_equal_huse():
    """On every dotted line HUSE-Q + HUSE-D − 1 is its value."""
    figure = huse_parts({"a": (0.58, 0.95), "b $x$": (0.92, 0.34)}, [choose_style(0), choose_style(1)])
    (panel,) = figure.axes
    lines = [line for line in panel.get_lines() if line.get_linestyle() == ":"]
    for line, value in zip(lines, (0.2, 0.4, 0.6, 0.8, 1.0), strict=True):
        assert (np.asarray(line.get_xdata()) + line.get_ydata() - 1).tolist() == pytest.approx([value] * 2)
    panel.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in panel.texts]
    assert len(boxes) == 5
    assert all(box.x0 >= panel.get_window_extent().x1 for box in boxes), "they are named outside the axes"


@pytest.mark.slow
def test_stability_and_agreement(rated, tmp_path):
    figure = huse_stability(rated, RULE, draws=3)
    assert [a.get_xlabel() for a in figure.axes] == ["ratings a text", "examples"]
    assert figure.axes[0].get_lines()[0].get_xdata().tolist() == [1, 2, 5]
    drawing.save(figure, tmp_path, "stability")
    nan = math.nan
    values = {"a": [1, 2, 3, 4, 5], "b": [5, 4, 3, 2, 1], "four": [1, 2, 3, 4, nan], "none": [nan] * 5}
    table = heat_maps.agreement_map(values)
    words = [t.get_text() for t in table.axes[0].texts]
    # "four" shares four systems with the others and itself: no cell of it is shown.
    assert words == ["1.00", "-1.00", "–", "–", "-1.00", "1.00", *["–"] * 10]
    assert table.axes[1].get_ylabel() == "Spearman's ρ over 5 systems"
    assert "fewer than five" in table.get_supxlabel().replace("\n", " ")
    drawing.save(table, tmp_path, "agreement")
    long = {f"MAUVE (quantizer={name}, num_buckets=125)": values[name] for name in values}
    (rows, _) = heat_maps.agreement_map(long).axes
    assert [t.get_text() for t in rows.get_xticklabels()] == ["1", "2", "3", "4"]
    assert rows.get_yticklabels()[1].get_text().replace("\n", " ") == "MAUVE (quantizer=b, num_buckets=125)  2"


def test_the_agreement_map_needs_five_systems(tmp_path):
    for n in range(5):
        assert not n or heat_maps.metric_agreement(read_results([tmp_path]), NO_STYLES) == {}
        lines = [result("model", name, {name: float(n)}, primary=name) for name in ("a", "b")]
        write_run(tmp_path, "nucleus", None, results=lines, options={"p": n}, title=f"p={n}")
    assert set(heat_maps.metric_agreement(read_results([tmp_path]), NO_STYLES)) == {"metric-agreement"}


def test_seeds_of_a_system_are_averaged_and_the_diagonal_is_between_them():
    # Sets 0 and 1 are seeds of one system, 2 is another, 3 shares no prompt with them.
    rows = [[1.0, 0.8, 0.4, np.nan], [0.8, 1.0, 0.6, np.nan], [0.4, 0.6, 1.0, np.nan]]
    sets = [(int(own == 2), own, np.array(row)) for own, row in enumerate(rows)]
    np.testing.assert_allclose(heat_maps.average_by_system(sets, [0, 1]), [[0.8, 0.5], [0.5, np.nan]])


@pytest.mark.slow
def test_a_grid_with_samples_ends_with_the_matrix_and_the_sameness_of_each_prompt(tmp_path):
    words = ["-m", "name=same", "decoder=ancestral,nucleus", "decoder.temperature=0.5", "samples=2"]
    metrics = "metric=[diversity,system_similarity]"
    openended(*words, metrics, "num_examples=4", "max_new_tokens=8", cwd=tmp_path, code=0)
    results = read_results([tmp_path / "outputs/runs/same"])
    items = results.values
    panel = heat_maps.system_similarity(results, NO_STYLES)["similarity"].axes[0]
    assert len(panel.get_yticklabels()) == 2
    (one, other) = (text.get_text() for text in panel.texts)  # one seed each: nothing on the diagonal
    assert one == other
    found = {(i.metric, i.system) for i in items if np.isfinite(i.mean)}
    assert {m for m, s in found if s == "model"} == {
        "chamfer", "distinct_k", "ngram_diversity", "prompt_similarity", "remote_clique", "rouge_l", "system_similarity",
    }  # fmt: skip
    assert not any(s == "human" for _, s in found), "people wrote one text per prompt"
    similar = {i.metric: i.mean for i in items if i.system == "model" and i.key == i.metric}
    assert similar["remote_clique"] == pytest.approx(1 - similar["prompt_similarity"])


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
    _, table = make_tables(results, load_layout("frontier"), "frontier")
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
