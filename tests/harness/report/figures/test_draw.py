"""Each figure is drawn from the stored set of runs, twice to the same bytes, and not at all without data."""

import itertools
import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from openended.harness.core import Features, Replicates, Side, SpecError, read_json
from openended.harness.report.build import make_tables
from openended.harness.report.figures import draw as draw_module, drawing, matrices, people
from openended.harness.report.figures.draw import draw_all, rank_as_in_table
from openended.harness.report.figures.drawing import apply_style, draw_labels, draw_plot
from openended.harness.report.figures.interactive import describe_plot
from openended.harness.report.figures.plot import MOST, Declaration, Panel, Plot, Series
from openended.harness.report.tables import frontier_gaps
from openended.harness.report.tables.frontier_gaps import find_frontiers
from openended.harness.report.tables.pictures import COLORS, STYLES, SystemStyles, choose_style
from openended.harness.results import Layout, filter_results, group_systems, load_layout, read_results, sort_values
from openended.metrics.huse import Huse, PairRatings
from openended.metrics.mauve import Mauve
from tests.harness.report.synthetic import draw_figure as draw, quickstart, result, store_arrays, stored, write_run
from tests.helpers import openended

FIXTURE = Path(__file__).parents[3] / "fixtures" / "report"
DECODERS = {"decoder": "greedy|ancestral|nucleus"}
SELECTIONS = {
    "divergence": DECODERS | {"max_new_tokens": "96", "num_examples": "500"}, "zipf": {"num_examples": "500"},
    "metrics": {"num_examples": "500", "max_new_tokens": "96"}, "precision_recall": {"experiment": "decoders"},
    "quality_diversity": {"experiment": "decoders|p"},
    "sweep-max_new_tokens": {"experiment": "lengths|decoders", "num_examples": "500"},
    "sweep-num_examples": {"experiment": "sizes|decoders", "max_new_tokens": "96"},
    "sweep-decoder.p": {"num_examples": "500", "max_new_tokens": "96"}, "sweep-mauve-scaling_factor": {},
}  # fmt: skip
"""Stem of a figure → the stored runs that it is drawn from."""


@pytest.fixture(autouse=True)
def style():
    with apply_style():
        yield


def test_the_stored_set_is_what_the_builder_writes(tmp_path):
    stored(tmp_path)
    files = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file())
    assert files == sorted(p.relative_to(FIXTURE) for p in FIXTURE.rglob("*") if p.is_file())
    records = [p for p in files if p.name == "record.json"]
    assert len(records) > 10
    for path in records:
        assert (tmp_path / path).read_bytes() == (FIXTURE / path).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", SELECTIONS)
def test_each_figure_is_drawn(name, tmp_path):
    figure = draw(name.partition("-")[0], read_results([FIXTURE], SELECTIONS[name]))[name]
    figure.draw_without_rendering()
    for panel in figure.axes:
        assert panel.has_data() or not panel.get_visible()
        ends = sorted(tuple(text.get_window_extent().intervalx) for text in panel.get_xticklabels() if text.get_text())
        assert all(left[1] <= right[0] for left, right in pairwise(ends)), "labels of ticks overlap"
    if name == "sweep-decoder.p":  # the others are saved with a grid, below
        drawing.save(figure, tmp_path, name)


def test_no_data_no_figure(tmp_path):
    write_run(tmp_path, "nucleus", 0, results=[result("model", "m", {"m": float("nan")})])
    assert draw_all(read_results([tmp_path]), tmp_path / "figures") == []


def test_a_sweep_joins_the_points_of_a_system_in_order_of_the_metrics_and_distances_of_a_layout(tmp_path, caplog):
    where = {"experiment": "lengths|decoders", "num_examples": "500", "decoder": "nucleus"}
    results = read_results([FIXTURE], where)
    (figure,) = draw("sweep", results, metrics=("gen_ppl.entropy",)).values()
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert list(lines["nucleus p=0.95"].get_xdata()) == [32.0, 64.0, 96.0]
    assert list(lines["human"].get_xdata()) == [32.0, 64.0, 96.0]
    assert "tokens" in figure.axes[0].get_xlabel()
    assert draw("sweep", results, figure={"x": ["num_examples"]}) == {}
    (figure,) = draw("sweep", results, metrics=("mauve", "gen_ppl.gen_ppl"), gaps=True).values()
    assert [panel.get_title() for panel in figure.axes] == ["MAUVE ↑", "|Δ Gen. PPL| ↓"]
    assert max(figure.axes[1].lines[0].get_ydata()) < 5, "nucleus sampling has a perplexity of 39, people of 36.4"
    figures = dict.fromkeys(draw_module.read_declarations()) | {"sweep": {"x": ["num_examples"]}}
    assert draw_all(results, tmp_path, [Layout(figures=figures)]) == []
    assert "no figure sweep: no line of 3 values of num_examples" in caplog.text


def test_a_dollar_in_a_name_is_no_formula(tmp_path):
    write_run(tmp_path, "nucleus", 0, title="p=$x_{", arrays=True)
    drawing.save(draw("metrics", read_results([tmp_path]))["metrics"], tmp_path / "out", "m")


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
    panel = draw("divergence", results)["divergence"].axes[0]
    (line,) = panel.get_lines()
    value = next(i for i in results.values if i.key == "mauve")
    assert np.trapezoid(line.get_ydata(), line.get_xdata()) == pytest.approx(value.mean, abs=1e-9)
    assert line.get_label() == f"nucleus p=0.95 ({value.mean:.3f})"
    (band,) = panel.collections
    height = np.ptp(band.get_paths()[0].vertices[:, 1])
    assert height > 0.5, "the spread over clusterings and seeds is not drawn"
    (table,) = make_tables(results, Layout(metrics=("mauve",)), "t")
    cell = next(r for r in table.rows if r.system == "model").cells[0]
    assert (cell.sd, cell.error) == (value.sd, value.metric_error)
    assert re.fullmatch(r"± 0\.\d+ \(0\.\d+\)", cell.spread), "both sources of spread are shown"
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
    joined = [replace(item, axes={**item.axes, "decoder.k": ""}) for item in items]
    assert SystemStyles(joined).choose(values) == styles.choose(values), "an axis that only other runs have"


def test_neighbors_differ_in_dash_and_coinciding_curves_in_the_position_of_their_markers():
    looks = [choose_style(index) for index in range(STYLES)]
    assert all(a["linestyle"] != b["linestyle"] for a, b in pairwise(looks))
    assert len({(look["color"], look["marker"]) for look in looks}) == STYLES == 49
    assert STYLES >= MOST
    assert len(set(COLORS)) == len(COLORS)
    sizes = zip("abcd", (120,) * 3 + (2,), strict=True)
    curves = [Series(mark="curve", x=np.zeros(n), y=np.zeros(n), label=name) for name, n in sizes]
    (panel,) = draw_plot(Plot([Panel(curves)]), DECLARED, SystemStyles([])).axes
    assert [line.get_markevery() for line in panel.lines] == [(0, 20), (5, 20), (10, 20), (0, 1)]


def test_systems_are_in_the_order_of_the_layout_as_in_its_table(tmp_path):
    for model in ("docs-m", "docs-s"):
        for decoder, p in (("greedy", None), ("nucleus", 0.5), ("nucleus", 0.9), ("ancestral", None)):
            title = f"nucleus p={p}" if p else decoder
            write_run(tmp_path, decoder, None, model=model, options={"p": p} if p else {}, title=title)
    decoders = {"ancestral": "Sampling", "nucleus p=0.9": "Nucleus, {p}", "nucleus p=0.5": "Nucleus, {p}"}
    options = {"names": {"model": {"docs-s": "small", "docs-m": "medium"}, "decoder": decoders}, "metrics": ("mauve",)}
    results = read_results([tmp_path])
    (table,) = make_tables(results, Layout(rows=("model", "decoder"), **options), "t")
    printed = ["Sampling", "Nucleus, 0.9", "Nucleus, 0.5", "greedy"]
    assert [row.labels for row in table.rows][-4:] == [("medium", name) for name in printed]
    names = ["ancestral", "nucleus p=0.9", "nucleus p=0.5", "greedy"]
    ticks = draw("metrics", results, **options)["metrics"].axes[0].get_yticklabels()
    titles = [f"{model} {name}" for model in ("docs-s", "docs-m") for name in names]
    assert [tick.get_text() for tick in ticks] == titles
    # Those that the layout does not name follow as they were typed.
    typed = [replace(value, ranks={"decoder": {"nucleus": 0, "greedy": 1}}) for value in results.values]
    ranked = rank_as_in_table(typed, Layout(names={"decoder": {"ancestral": "Sampling"}}))
    systems = sort_values([value for value in ranked if value.system == "model"], ["decoder"])
    assert [*dict.fromkeys(value.axes["decoder"] for value in systems)] == ["ancestral", "nucleus", "greedy"]


def test_figures_are_named_by_what_differs(tmp_path):
    for task in ("docs", "other"):
        write_run(tmp_path, "greedy", None, axes={"task": task}, arrays=True)
        write_run(tmp_path, "nucleus", 0, axes={"task": task}, arrays=True)
    results = read_results([tmp_path])
    assert list(draw("zipf", results)) == ["zipf-docs", "zipf-other"]
    assert list(draw("zipf", filter_results(results, {"task": "docs"}))) == ["zipf"]
    assert list(draw("zipf", results, figure={"parts": "all"})) == ["zipf"]
    assert list(draw("divergence", results, figure={"where": {"task": "docs"}})) == ["divergence"]


def test_labels_of_crossing_lines_are_free():
    figure, (panel,) = drawing.create_panels(1, 2.5)
    panel.plot([0, 1, 2], [0, 2, 3], marker="o")
    panel.plot([0, 1, 2], [0.1, 1.9, 3], marker="s")
    panel.axhline(2.5, linestyle=":")
    panel.margins(0.15)
    ends = [(0, 0, "p=0.5"), (2, 3, "p=1"), (0, 0.1, "temperature"), (2, 3, "k=500"), (2, 3, "p=0.99"), (2, 3, "a=1")]
    draw_labels(figure, panel, [(text, x, y, "black") for x, y, text in ends])
    figure.draw_without_rendering()
    texts, inside = [text for text in panel.texts if text.get_text()], panel.get_window_extent()
    boxes = [text.get_window_extent() for text in texts]
    assert [text.get_text() for text in texts] == [text for _, _, text in ends]
    assert len(panel.texts) > len(texts), "lines lead to labels that had to move"
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
    (panel,) = draw("quality_diversity", read_results([tmp_path]))["quality_diversity"].axes
    assert [text.get_text() for text in panel.texts if text.get_text()] == ["0.6", "1.2"]
    assert [line.get_label() for line in panel.get_lines()] == ["temperature"]


def test_a_figure_that_several_experiments_cannot_share_is_left_out_with_a_reason(tmp_path, monkeypatch, caplog):
    def refuse(_):
        raise SpecError("greedy has several values of mauve")

    results = read_results([FIXTURE])
    load = draw_module.load_analysis
    monkeypatch.setattr(draw_module, "load_analysis", lambda d: refuse if "divergence" in d.analysis else load(d))
    only = {name: None for name in draw_module.read_declarations() if name not in ("divergence", "precision_recall")}
    assert {p.png.stem for p in draw_all(results, tmp_path, [Layout(figures=only)])} == {"precision_recall"}
    assert "no figure divergence: greedy has several values of mauve" in caplog.text
    assert not draw_all(results, tmp_path, [load_layout("findings")])


@pytest.mark.slow
def test_every_figure_of_a_grid_is_interactive_in_one_color_per_system(tmp_path):
    results = read_results([quickstart(tmp_path, decoders=("greedy", "ancestral", "nucleus"), texts=False)])
    pictures = draw_all(results, tmp_path / "figures")
    contents = {p.png.stem: p.content for p in pictures}
    assert all(contents.values())
    assert {"divergence", "zipf", "metrics", "precision_recall", "quality_diversity"} <= set(contents)
    for picture in pictures:
        assert picture.png.read_bytes().startswith(b"\x89PNG")
        assert picture.png.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    colors = {}
    for content in contents.values():
        for series in (s for panel in content["panels"] for s in panel["series"] if s["label"] not in ("", "human")):
            colors.setdefault(series["label"].partition(" (")[0], set()).add(series["color"])
    assert all(len(used) == 1 for used in colors.values())
    assert len(set.union(*colors.values())) == len(colors) == 3
    panel = next(p for p in contents["metrics"]["panels"] if p["title"].startswith("MAUVE"))
    drawn = sorted(x for series in panel["series"] for x, _ in series["points"])
    means = sorted(i.mean for i in results.values if (i.system, i.key) == ("model", "mauve"))
    assert drawn == [float(f"{m:.6g}") for m in means]
    assert [text for _, text in panel["y"]["ticks"]] == ["greedy", "ancestral", "nucleus p=0.95"]
    assert ["across" in series for series in panel["series"]] == [False, True, True]  # greedy has no error
    assert contents["quality_diversity"]["panels"][0]["x"]["kind"] == "log"
    labels = {one["label"].partition(" (")[0] for one in contents["divergence"]["panels"][0]["series"]}
    assert labels == {"greedy", "ancestral", "nucleus p=0.95"}


def test_lines_bands_rules_and_powers_are_those_of_the_plot():
    band, look = {"below": [0, 1, 0], "above": [1, 1, 0]}, {"color": "black", "linestyle": "--"}
    line = Series(x=[1, 10, 1000], y=[0, 1, math.nan], label="a", look=look, **band)
    rule, plane = Series(mark="cross", y=[0.5], look={"color": "red"}), Series(mark="plane", x=[0, 1], y=[0, 1])
    panel, *rest = Panel([line, rule], options={"xscale": "log"}), Declaration(analysis=""), SystemStyles([])
    assert describe_plot(Plot([panel, Panel([plane])]), *rest) is None, "a shaded plane is left to its picture"
    (described,) = describe_plot(Plot([panel]), *rest)["panels"]
    (series,) = described["series"]
    assert series == {
        "label": "a",
        "points": [[1, 0], [10, 1]],
        "color": "#000000",
        "line": "--",
        "marker": "o",
        "width": 1.2,
    }
    assert described["rules"] == [{"y": 0.5, "color": "#ff0000", "line": "-"}]
    assert described["bands"][0]["points"] == [[1, 0], [10, 0], [10, 2], [1, 1]]
    assert [1.0, "10⁰"] in described["x"]["ticks"]
    assert described["y"]["limits"] == [-0.1, 2.1], "the band is within the limits"


def test_sizes_are_drawn_for_each_decoder_and_embedder(tmp_path):
    for rank, model in enumerate(("docs-s", "docs-m")):
        for embedder in ("docs-s", "docs-m"):
            for decoder in ("greedy", "nucleus"):
                write_run(tmp_path, decoder, 0, model=model, embedder=embedder, strength=0.5 + rank / 4)
    results = read_results([tmp_path])
    names = {"model": {"docs-s": "small", "docs-m": "medium", "gpt2-xl": "xl"}}
    figure = draw("sizes", results, metrics=("mauve",), names=names)["sizes"]
    (panel,) = figure.axes
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["small", "medium"]
    assert (panel.get_title(), panel.get_xlabel()) == ("MAUVE ↑", "size of the model")
    labels = panel.get_legend_handles_labels()[1]
    pairs = [(s, e) for s in ("greedy", "nucleus p=0.95") for e in ("docs-m", "docs-s")]
    assert sorted(labels) == [f"{system}, embedder={embedder}" for system, embedder in pairs]
    assert draw("sizes", results, metrics=("mauve",)) == {}, "the layout names no models"


def test_stages_are_drawn_for_each_family_and_way_of_asking_whatever_differs_between_their_models(tmp_path):
    for rank, stage in enumerate(("SFT", "base")):
        for family in ("docs", "other"):
            for prompting, n in (("direct", 500), ("list", 450 + rank)):
                axes = {"training.family": family, "training.stage": stage, "prompting": prompting, "num_examples": 500}
                write_run(tmp_path, "nucleus", 0, model=f"{family}-{stage}", axes=axes | {"model.x": rank}, n=n)
    layout = load_layout("post_training")
    results = read_results([tmp_path])
    figure = draw("stages", results, figure=layout.figures["stages"], metrics=("mauve",), names=layout.names)["stages"]
    (panel,) = figure.axes
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["Base", "SFT"]
    assert panel.get_xlabel() == "stage of training"
    assert panel.get_legend_handles_labels()[1] == [f"{f} {p}" for f in ("docs", "other") for p in ("direct", "list")]


DECLARED = draw_module.read_declarations()["sizes"]
EXAMPLE = Path(__file__).parents[4] / "tasks/data/example_ratings.csv"
RULE = Huse()
NO_STYLES = SystemStyles([])


def draw_panels(name, panels):
    return draw_plot(Plot(panels), draw_module.read_declarations()[name], NO_STYLES)


@pytest.fixture
def rated():
    metric, features = Huse().from_file(EXAMPLE)
    return PairRatings.from_arrays(metric.compute(features).arrays)


def test_a_long_label_continues_on_the_next_line_and_long_ticks_are_few():
    names = [f"docs-{size} nucleus p=0.95 (judgments=example_pairs.csv) (0.9{size})" for size in range(3)]
    series = [Series(mark="dots", x=[0.925 + at / 100], y=[1], label=name) for at, name in enumerate(names)]
    figure = draw_panels("precision_recall", [Panel(series)])
    (legend,) = figure.legends
    assert [text.get_text().replace("\n", " ") for text in legend.get_texts()] == names
    figure.draw_without_rendering()
    ends = [text.get_window_extent().intervalx for text in figure.axes[0].get_xticklabels()]
    assert len(ends) > 2
    assert all(left[1] < right[0] for left, right in pairwise(ends))


def test_regions_show_every_text_in_a_panel_per_system(rated, tmp_path):
    figure = draw_panels("huse", people.build_regions({"t=1.0": (rated, RULE), "t=0.7": (rated, RULE)}))
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
    ratings = PairRatings(rated.ids, near, rated.log_probs, rated.lengths)
    figure = draw_panels("huse", people.build_regions({"m": (ratings, RULE)}))
    shares = np.asarray(figure.axes[0].images[0].get_array())
    assert np.median(shares[-1]) == 1  # the highest ratings
    assert np.median(shares[0]) == -1


def draw_parts(folder, points, **figure):
    """Draw the two parts of HUSE of systems, each of a task at a temperature."""
    for task, temperature, quality, diversity in points:
        line = result("model", "huse", {"huse_q": quality, "huse_d": diversity}, direction="higher")
        write_run(folder, "temperature", 0, results=[line], options={"temperature": temperature}, title=f"t={temperature}",
                  axes={"task": task})  # fmt: skip
    (panel,) = draw("huse-parts", read_results([folder]), figure={"parts": "all", **figure})["huse-parts"].axes
    return panel


def test_each_task_has_a_color_a_region_and_temperatures(tmp_path):
    points = [("news.csv", 1, 0.95, 0.58), ("news.csv", 0.7, 0.34, 0.92), ("news.csv", 0.9, 0.4, 0.4)]
    points += [("stories", 1, 0.9, 0.15)]
    panel = draw_parts(tmp_path, points, names={"task": {"news.csv": "News | of 2019"}})
    dots = [line for line in panel.get_lines() if line.get_label() in ("News", "stories")]
    assert [(line.get_label(), line.get_color()) for line in dots] == [("News", COLORS[0]), ("stories", COLORS[1])]
    assert {text.get_text() for text in panel.texts} >= {"of 2019, t=1", "of 2019, t=0.7", "t=1"}
    regions = [patch for patch in panel.patches if type(patch).__name__ == "Polygon"]
    assert len(regions) == 2
    # The third system has lower HUSE than the mixture of the others with its proportion: it is inside, and no corner.
    assert regions[0].get_path().contains_point((0.4, 0.4))
    assert (0.4, 0.4) not in [tuple(corner) for corner in regions[0].get_xy()]


def test_lines_of_equal_huse(tmp_path):
    """On every dotted line HUSE-Q + HUSE-D − 1 is its value."""
    panel = draw_parts(tmp_path, [("a", 1, 0.58, 0.95), ("a", 0.7, 0.92, 0.34)])
    lines = [line for line in panel.get_lines() if line.get_linestyle() == ":"]
    for line, value in zip(lines, (0.2, 0.4, 0.6, 0.8, 1.0), strict=True):
        assert (np.asarray(line.get_xdata()) + line.get_ydata() - 1).tolist() == pytest.approx([value] * 2)
    panel.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in panel.texts]
    assert len(boxes) == 5
    assert all(box.x0 >= panel.get_window_extent().x1 for box in boxes), "they are named outside the axes"


def test_a_grid_over_embedders_has_one_gen_ppl_and_says_where_systems_are_left_out(tmp_path):
    for n in range(11):
        for embedder in ("docs-s", "docs-m"):
            write_run(tmp_path, "nucleus", 0, options={"p": n / 10}, title=f"p={n / 10}", embedder=embedder)
    results = read_results([tmp_path])
    figure = draw("metrics", results)["metrics"]
    titles = [panel.get_title() for panel in figure.axes if panel.get_visible()]
    assert [title for title in titles if "MAUVE" in title] == ["MAUVE ↑\nembedder=docs-m", "MAUVE ↑\nembedder=docs-s"]
    assert len([title for title in titles if "PPL" in title]) == 1
    assert len(figure.axes[0].get_yticklabels()) == 11
    (panel,) = draw("quality_diversity", results)["quality_diversity"].axes
    assert len([line for line in panel.get_lines() if line.get_label() == "nucleus"]) == 1
    figure = draw("precision_recall", results)["precision_recall"]
    assert figure.legends[0].get_title().get_text() == "the first 20 of 22 systems"


def draw_agreement(rows, columns=None, **options):
    plot = matrices.show_correlations(rows, columns or rows, **options)
    return draw_plot(plot, draw_module.read_declarations()["metric-agreement"], NO_STYLES)


def test_rows_of_an_agreement_map_are_chosen_and_four_systems_may_do():
    values = {"a": [1, 2, 3, 4], "b": [4, 3, 2, 1], "c": [1, 2, 4, 3]}
    table = draw_agreement({"a": values["a"]}, {n: values[n] for n in "bc"}, least=4)
    assert [t.get_text() for t in table.axes[0].texts] == ["-1.00", "0.80"]
    assert [t.get_text() for t in table.axes[0].get_xticklabels()] == ["b", "c"]
    assert matrices.show_correlations(values, values) is None, "of four systems none without least=4"


@pytest.mark.slow
def test_stability_and_agreement(rated, tmp_path):
    figure = draw_panels("huse-stability", people.build_stability({"m": (rated, RULE)}, draws=3))
    assert [a.get_xlabel() for a in figure.axes] == ["examples", "ratings per text"]
    assert figure.axes[1].get_lines()[0].get_xdata().tolist() == [1, 2, 5]
    drawing.save(figure, tmp_path, "stability")
    nan = math.nan
    values = {"a": [1, 2, 3, 4, 5], "b": [5, 4, 3, 2, 1], "four": [1, 2, 3, 4, nan], "none": [nan] * 5}
    table = draw_agreement(values)
    words = [t.get_text() for t in table.axes[0].texts]
    # "four" shares four systems with the others and itself: no cell of it is shown.
    assert words == ["1.00", "-1.00", "–", "–", "-1.00", "1.00", *["–"] * 10]
    assert table.axes[1].get_ylabel() == "Spearman's ρ over 5 systems"
    assert "fewer than five" in table.get_supxlabel().replace("\n", " ")
    drawing.save(table, tmp_path, "agreement")
    long = {f"MAUVE (quantizer={name}, num_buckets=125)": values[name] for name in values}
    (rows, _) = draw_agreement(long).axes
    assert [t.get_text() for t in rows.get_xticklabels()] == ["1", "2", "3", "4"]
    assert rows.get_yticklabels()[1].get_text().replace("\n", " ") == "MAUVE (quantizer=b, num_buckets=125)  2"


def test_the_agreement_map_needs_five_systems(tmp_path):
    for n in range(5):
        assert not n or draw("metric-agreement", read_results([tmp_path])) == {}
        lines = [result("model", name, {name: float(n)}, primary=name) for name in ("a", "b")]
        write_run(tmp_path, "nucleus", None, results=lines, options={"p": n}, title=f"p={n}")
    assert set(draw("metric-agreement", read_results([tmp_path]))) == {"metric-agreement"}


def test_seeds_of_a_system_are_averaged_and_the_diagonal_is_between_them():
    # Sets 0 and 1 are seeds of one system, 2 is another, 3 shares no prompt with them.
    rows = [[1.0, 0.8, 0.4, np.nan], [0.8, 1.0, 0.6, np.nan], [0.4, 0.6, 1.0, np.nan]]
    sets = [(int(own == 2), own, np.array(row)) for own, row in enumerate(rows)]
    np.testing.assert_allclose(matrices.average_by_system(sets, [0, 1]), [[0.8, 0.5], [0.5, np.nan]])


@pytest.mark.slow
def test_a_grid_with_samples_ends_with_the_matrix_and_the_sameness_of_each_prompt(tmp_path):
    words = ["-m", "name=same", "decoder=ancestral,nucleus", "decoder.temperature=0.5", "samples=2"]
    metrics = "metric=[diversity,system_similarity]"
    openended(*words, metrics, "num_examples=4", "max_new_tokens=8", cwd=tmp_path, code=0)
    results = read_results([tmp_path / "outputs/runs/same"])
    items = results.values
    panel = draw("similarity", results, NO_STYLES)["similarity"].axes[0]
    assert len(panel.get_yticklabels()) == 2
    (one, other) = (text.get_text() for text in panel.texts)  # one seed each: nothing on the diagonal
    assert one == other
    found = {(i.metric, i.system) for i in items if np.isfinite(i.mean)}
    assert {m for m, s in found if s == "model"} == {
        "chamfer", "distinct_k", "ngram_diversity", "prompt_self_bleu", "prompt_similarity", "prompt_vendi",
        "rouge_l", "system_similarity",
    }  # fmt: skip
    assert not any(s == "human" for _, s in found), "people wrote one text per prompt"
    for run in results.runs:  # its texts are its own, although it reads those of the other system too
        recipe = read_json(run.store / run.find_rows("model")[0] / "manifest.json")["recipe"]
        assert recipe["spec"]["decoder"]["name"] == run.axes["decoder"]


HUMAN_ENTROPY, TEMPERATURES, STEPS = 4.0, (0.8, 1.0, 1.2), (8, 32, 128)


def gen_ppl(steps: int | None, entropy: float) -> float:
    return float(np.exp(entropy + (4.0 / steps if steps else 0.0)))


def write_system(folder, model, decoder, temperature, steps=None):
    entropy = HUMAN_ENTROPY - 1 + temperature
    values = {"entropy": entropy, "gen_ppl": gen_ppl(steps, entropy)}
    human = {"entropy": HUMAN_ENTROPY, "gen_ppl": 40.0}
    lines = [result("model", "gen_ppl", values), result("human", "gen_ppl", human)]
    lines.append(result("model", "distinct_n", {"distinct_4": entropy / 9}))
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


def test_diversity_is_below_the_frontier(results):
    with apply_style():
        _, below = draw("frontier", results)["frontier"].axes
    curves = [line for line in below.lines if len(line.get_xdata()) == len(TEMPERATURES)]
    assert len(curves) == 1 + len(STEPS)
    assert all(line.get_ydata() == pytest.approx(np.array(line.get_xdata()) / 9) for line in curves)


def test_points_are_at_the_human_entropy_and_steps_alone_stay_points(results):
    with apply_style():
        (axes,) = draw("steps", results)["steps"].axes
    curve = axes.containers[0].lines[0]
    assert curve.get_xdata().tolist() == list(STEPS)
    assert curve.get_ydata() == pytest.approx([gen_ppl(steps, HUMAN_ENTROPY) for steps in STEPS], rel=1e-6)
    levels = [line.get_ydata()[0] for line in axes.lines if len(set(line.get_ydata())) == 1]
    assert levels == pytest.approx([gen_ppl(None, HUMAN_ENTROPY), 40.0], rel=1e-6)

    masked = filter_results(results, {"model": "masked", "decoder.temperature": "1.0|1"})
    (entry,) = find_frontiers(masked, masked.values)
    assert (entry.steps, len(entry.points)) == (None, 3)
    assert draw("steps", masked) == {}
