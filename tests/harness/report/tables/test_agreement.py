"""Tables about metrics: correlation with people, across embedders and options, over seeds."""

import math

import pytest

from openended.harness.core import DataError, list_bundled_choices, load_members
from openended.harness.report.build import make_tables
from openended.harness.results import Layout, load_layout, read_results
from tests.harness.report.synthetic import quickstart, result, write_run

DECODERS = ("greedy", "ancestral", "nucleus", "top_k")
DIRECTIONS = {"low": "lower", "match": "match_human"}  # the other metrics are better the higher they are
SCORES = {"kmeans": (0.1, 0.5, 0.9), "drmm": (0.05, 0.4, 0.7), "lattice": (0.3, 0.2, 0.6)}


def write(folder, decoder, seed=0, embedder="e1", options="", **values):
    """One run: `up` is better, `low` is worse, `match` has the human value 10; `bradley_terry` is what people say."""
    facts = f"embedder:{embedder}@1|task:docs@1"
    lines = [
        result("model", m, {m: v}, direction=DIRECTIONS.get(m, "higher"), facts=facts, options=options)
        for m, v in values.items()
    ]
    lines += [result("human", "match", {"match": 10.0}, facts=facts)] if "match" in values else []
    experiment = "".join(c if c.isalnum() else "-" for c in options) or "synthetic"
    write_run(folder, decoder, seed, results=lines, axes={"embedder": embedder}, experiment=experiment)


def build(folder, layout, name="t"):
    return make_tables(read_results([folder]), load_layout(layout), name)


def test_correlation_is_oriented_so_that_agreement_is_positive(tmp_path):
    for rank, decoder in enumerate(DECODERS):
        # people like the later ones better; all three metrics agree, each in its own direction
        write(tmp_path, decoder, up=float(rank), low=-float(rank), match=20.0 - rank, bradley_terry=10.0 * rank)
    (table,) = build(tmp_path, "correlation")
    assert [c.title for c in table.columns] == ["bradley_terry"]
    assert {r.label: r.cells[0].value for r in table.rows} == {"up": 1.0, "low": 1.0, "match": 1.0}
    # 4 systems: 4! orders, of which 2 reach |rho| = 1: p = 2 / 24 = 0.083, no star
    assert table.rows[0].cells[0].suffix == ""


def test_two_systems_are_too_few(tmp_path):
    for rank, decoder in enumerate(DECODERS[:2]):
        write(tmp_path, decoder, up=float(rank), bradley_terry=float(rank))
    with pytest.raises(DataError, match="three systems or more"):
        build(tmp_path, "correlation")


def test_embedders_are_columns_and_their_rankings_are_correlated(tmp_path):
    for rank, decoder in enumerate(DECODERS):
        write(tmp_path, decoder, embedder="e1", mauve=rank / 10)
        write(tmp_path, decoder, embedder="e2", mauve=1 - rank / 10)
    values, agreement = build(tmp_path, "embedders")
    assert len(values.columns) == 2
    assert [r.cells[0].value for r in agreement.rows] == [1.0, -1.0]


def test_every_quantizer_has_a_table_of_embedders_of_its_own(tmp_path):
    for rank, decoder in enumerate(DECODERS):
        for embedder, sign in (("e1", 1), ("e2", -1)):
            for quantizer, turn in (("kmeans", 1), ("drmm", sign)):
                write(tmp_path, decoder, 0, embedder, f"|quantizer:{quantizer}", mauve=0.5 + turn * rank / 10)
    tables = {t.name: t for t in build(tmp_path, "embedders", "e")}
    assert [r.cells[0].value for r in tables["e-quantizer-kmeans-agreement"].rows] == [1.0, 1.0]
    assert [r.cells[0].value for r in tables["e-quantizer-drmm-agreement"].rows] == [1.0, -1.0]


def test_every_set_of_options_is_a_column_and_rankings_are_correlated_with_each_other(tmp_path):
    for at, decoder in enumerate(DECODERS[:3]):
        for quantizer, scores in SCORES.items():
            write(tmp_path, decoder, options=f"|quantizer:{quantizer}", mauve=scores[at])
    scores, agreement = build(tmp_path, "variants")
    assert [c.title for c in scores.columns] == [f"MAUVE (quantizer={q})" for q in sorted(SCORES)]
    assert len([row for row in scores.rows if row.system == "model"]) == 3
    values = {row.label: [c.value for c in row.cells] for row in agreement.rows}
    assert [c.title for c in agreement.columns] == sorted(SCORES)
    # Ranks of lattice are 2 1 3 where the others have 1 2 3: ρ = 1 - 6 · 2 / 24.
    assert values["MAUVE (quantizer=kmeans)"] == pytest.approx([1, 1, 0.5])
    assert values["MAUVE (quantizer=lattice)"] == pytest.approx([0.5, 0.5, 1])


def test_options_at_their_default_are_not_told_and_no_two_columns_read_alike(tmp_path):
    for rank, decoder in enumerate(DECODERS[:3]):
        for options in ("quantizer:kmeans|neighbors:50", "quantizer:drmm|neighbors:50", "quantizer:kmeans|neighbors:7"):
            write(tmp_path, decoder, options=f"|{options}", mauve=rank / 4)
    scores, agreement = build(tmp_path, "variants")
    titles = ["neighbors=7", "quantizer=drmm", "quantizer=kmeans"]
    assert [c.title for c in scores.columns] == [f"MAUVE ({options})" for options in titles]
    assert [c.title for c in agreement.columns] == titles


def test_std_over_seeds(tmp_path):
    for seed, value in enumerate((1.0, 3.0)):
        write(tmp_path, "nucleus", seed, up=value)  # deviations -1 and 1: sd = sqrt(2)
        write(tmp_path, "ancestral", seed, up=2 * value)  # sd = 2 sqrt(2)
    write(tmp_path, "greedy", None, up=1.0)
    (table,) = make_tables(read_results([tmp_path]), Layout(kind="spread"), "s")
    values = {r.label: r.cells[0].value for r in table.rows}
    assert values["nucleus p=0.95"] == pytest.approx(math.sqrt(2), abs=1e-12)
    assert values["mean over systems"] == pytest.approx(1.5 * math.sqrt(2), abs=1e-12)
    assert math.isnan(values["greedy"])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return read_results([quickstart(tmp_path_factory.mktemp("runs"), arrays=False, texts=False)])


@pytest.mark.parametrize("name", list_bundled_choices("report"))
def test_every_layout_that_ships_builds_a_table(name, runs):
    layout = load_layout(name)
    assert layout.title
    requested = {metric.partition(".")[0] for metric in layout.needs or layout.metrics}
    assert requested <= load_members("metric").keys(), f"conf/report/{name}.yaml: no such metric"
    is_measured = not requested or requested & set(runs.frame["metric"])
    if is_measured and name not in ("discriminator", "domains", "fair", "frontier", "stress"):  # which need other runs
        assert all(table.rows and table.columns for table in make_tables(runs, layout, name))
