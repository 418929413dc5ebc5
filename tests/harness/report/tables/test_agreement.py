"""Tables about metrics: correlation with people, across embedders, over seeds."""

from __future__ import annotations

import math

import pytest

from openended.harness.core.errors import DataError
from openended.harness.report.build import make_tables
from openended.harness.results.frame import read_results
from openended.harness.results.layout import Layout, list_layouts, load_layout
from tests.harness.report.synthetic import quickstart, result, write_run

DECODERS = ("greedy", "ancestral", "nucleus", "top_k")


def system(folder, decoder, seed=0, embedder="e1", **values):
    """One run: `up` is better, `low` is worse, `match` has the human value 10; `bradley_terry` is what people say."""
    facts = f"embedder:{embedder}@1|task:docs@1"
    kinds = {"up": "higher", "low": "lower", "match": "match_human", "bradley_terry": "higher", "mauve": "higher"}
    lines = [result("model", m, {m: v}, direction=kinds[m], facts=facts) for m, v in values.items()]
    lines += [result("human", "match", {"match": 10.0}, facts=facts)] if "match" in values else []
    write_run(folder, decoder, seed, results=lines, axes={"embedder": embedder})


def test_correlation_is_oriented_so_that_agreement_is_positive(tmp_path):
    for rank, decoder in enumerate(DECODERS):
        # people like the later ones better; all three metrics agree, each in its own direction
        system(tmp_path, decoder, up=float(rank), low=-float(rank), match=20.0 - rank, bradley_terry=10.0 * rank)
    (made,) = make_tables(read_results([tmp_path]), load_layout("correlation"), "c")
    assert [c.title for c in made.columns] == ["bradley_terry"]
    assert {r.label: r.cells[0].value for r in made.rows} == {"up": 1.0, "low": 1.0, "match": 1.0}
    # 4 systems: 4! orders, of which 2 reach |rho| = 1: p = 2 / 24 = 0.083, no star
    assert made.rows[0].cells[0].suffix == ""


def test_two_systems_are_too_few(tmp_path):
    for rank, decoder in enumerate(DECODERS[:2]):
        system(tmp_path, decoder, up=float(rank), bradley_terry=float(rank))
    with pytest.raises(DataError, match="three systems or more"):
        make_tables(read_results([tmp_path]), load_layout("correlation"), "c")


def test_embedders_are_columns_and_their_rankings_are_correlated(tmp_path):
    for rank, decoder in enumerate(DECODERS):
        system(tmp_path, decoder, embedder="e1", mauve=rank / 10)
        system(tmp_path, decoder, embedder="e2", mauve=1 - rank / 10)
    values, agreement = make_tables(read_results([tmp_path]), load_layout("embedders"), "e")
    assert [c.title for c in values.columns] == ["mauve (e1)", "mauve (e2)"] or len(values.columns) == 2
    assert [r.cells[0].value for r in agreement.rows] == [1.0, -1.0]


def test_every_quantizer_has_a_table_of_embedders_of_its_own(tmp_path):
    for rank, decoder in enumerate(DECODERS):
        for embedder, sign in (("e1", 1), ("e2", -1)):
            for quantizer, turned in (("kmeans", 1), ("drmm", sign)):
                facts = f"embedder:{embedder}@1|task:docs@1"
                scores = {"mauve": 0.5 + turned * rank / 10}
                lines = [
                    result("model", "mauve", scores, direction="higher", options=f"|quantizer:{quantizer}", facts=facts)
                ]
                write_run(tmp_path, decoder, 0, results=lines, axes={"embedder": embedder}, experiment=quantizer)
    made = {t.name: t for t in make_tables(read_results([tmp_path]), load_layout("embedders"), "e")}
    assert [r.cells[0].value for r in made["e-quantizer-kmeans-agreement"].rows] == [1.0, 1.0]
    assert [r.cells[0].value for r in made["e-quantizer-drmm-agreement"].rows] == [1.0, -1.0]


def test_spread_over_seeds(tmp_path):
    for seed, value in enumerate((1.0, 3.0)):
        system(tmp_path, "nucleus", seed, up=value)  # deviations -1 and 1: sd = sqrt(2)
        system(tmp_path, "ancestral", seed, up=2 * value)  # sd = 2 sqrt(2)
    system(tmp_path, "greedy", None, up=1.0)
    (made,) = make_tables(read_results([tmp_path]), Layout(kind="spread"), "s")
    found = {r.label: r.cells[0].value for r in made.rows}
    assert found["nucleus p=0.95"] == pytest.approx(math.sqrt(2), abs=1e-12)
    assert found["mean over systems"] == pytest.approx(1.5 * math.sqrt(2), abs=1e-12)
    assert math.isnan(found["greedy"])


@pytest.mark.parametrize("name", sorted(set(list_layouts()) - {"discriminator", "huse", "fair", "frontier", "stress"}))
def test_every_layout_that_ships_builds_a_table(name, runs):
    tables = make_tables(runs, load_layout(name), name)
    assert all(t.rows and t.columns for t in tables)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return read_results([quickstart(tmp_path_factory.mktemp("runs"), arrays=False, texts=False)])
