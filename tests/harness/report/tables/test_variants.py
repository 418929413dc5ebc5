"""One metric under several options: a column each, and how the columns rank the systems."""

from __future__ import annotations

import pytest

from openended.harness.report.tables.variants import build_variant_tables
from openended.harness.results.frame import read_results
from openended.harness.results.layout import load_layout
from tests.harness.report.synthetic import result, write_run

SCORES = {"kmeans": (0.1, 0.5, 0.9), "drmm": (0.05, 0.4, 0.7), "lattice": (0.3, 0.2, 0.6)}


@pytest.fixture
def tables(tmp_path):
    for place, decoder in enumerate(("greedy", "ancestral", "nucleus")):
        for quantizer, scores in SCORES.items():
            lines = [
                result(
                    "model", "mauve", {"mauve": scores[place]}, direction="higher", options=f"|quantizer:{quantizer}"
                )
            ]
            write_run(tmp_path, decoder, 0, results=lines, experiment=quantizer)
    return build_variant_tables(read_results([tmp_path]), load_layout("variants"), "results")


def test_every_set_of_options_is_a_column(tables):
    scores, _ = tables
    assert [c.title for c in scores.columns] == [f"MAUVE (quantizer={q})" for q in sorted(SCORES)]
    assert len([row for row in scores.rows if row.system == "model"]) == 3


def test_options_at_their_default_are_not_told_and_no_two_columns_read_alike(tmp_path):
    for rank, decoder in enumerate(("greedy", "ancestral", "nucleus")):
        for options in ("quantizer:kmeans|neighbors:50", "quantizer:drmm|neighbors:50", "quantizer:kmeans|neighbors:7"):
            lines = [result("model", "mauve", {"mauve": rank / 4}, direction="higher", options=f"|{options}")]
            write_run(tmp_path, decoder, 0, results=lines, experiment=options.replace("|", "-").replace(":", "-"))
    scores, agreement = build_variant_tables(read_results([tmp_path]), load_layout("variants"), "results")
    told = ["neighbors=7", "quantizer=drmm", "quantizer=kmeans"]
    assert [c.title for c in scores.columns] == [f"MAUVE ({options})" for options in told]
    assert [c.title for c in agreement.columns] == told


def test_rankings_are_correlated_with_each_other(tables):
    _, agreement = tables
    found = {row.label: [c.value for c in row.cells] for row in agreement.rows}
    assert [c.title for c in agreement.columns] == sorted(SCORES)
    # Ranks of lattice are 2 1 3 where the others have 1 2 3: ρ = 1 - 6 · 2 / 24.
    assert found["MAUVE (quantizer=kmeans)"] == pytest.approx([1, 1, 0.5])
    assert found["MAUVE (quantizer=lattice)"] == pytest.approx([0.5, 0.5, 1])
