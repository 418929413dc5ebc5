"""The papers' claims on made-up runs: yes, no, and not measured."""

from __future__ import annotations

import pytest

from harness.report.build import make_tables
from harness.report.frame import read_results
from harness.report.layout import load_layout
from tests.report.synthetic import result, write_run


def run(folder, decoder, mauve=None, ppl=None, seed=0, options="", model="docs-s", **more):
    lines = []
    if mauve is not None:
        lines.append(result("model", "mauve", {"mauve": mauve}, direction="higher", options=options))
    if ppl is not None:
        lines += [result("model", "gen_ppl", {"gen_ppl": ppl}), result("human", "gen_ppl", {"gen_ppl": 30.0})]
    if "precision" in more:
        values = {k: more.pop(k) for k in ("precision", "recall")}
        lines.append(result("model", "knn_precision_recall", values, direction="higher"))
    write_run(folder, decoder, seed, results=lines, model=model, **more)


def findings(folder):
    (table,) = make_tables(read_results([folder]), load_layout("findings"), "f")
    return {row.label: row.cells[-1].words for row in table.rows}


@pytest.mark.parametrize(("nucleus", "holds"), [(0.9, "yes"), (0.5, "no")])
def test_claims_about_decoders(tmp_path, nucleus, holds):
    for decoder, value in (("greedy", 0.05), ("beam", 0.08), ("ancestral", 0.8), ("nucleus", nucleus)):
        run(tmp_path, decoder, value, 32.0)
    run(tmp_path, "adversarial", 0.1, 30.1)
    found = findings(tmp_path)
    assert found["By MAUVE greedy ≪ ancestral < nucleus"] == holds
    assert found["Beam search is close to greedy"] == "yes"
    assert found["Adversarial fools Gen. PPL, not MAUVE"] == "yes"  # gaps 0.1 and 2, MAUVE 0.1 and more than 0.2
    assert found["MAUVE falls with length"] == "not measured"


def test_claims_about_lengths_sizes_and_temperatures(tmp_path):
    for length, value in ((32, 0.9), (64, 0.8), (96, 0.7)):
        run(tmp_path, "nucleus", value, axes={"max_new_tokens": length})
    run(tmp_path, "nucleus", 0.6, model="docs-m", axes={"max_new_tokens": 96})
    for t, p, r in ((0.5, 0.9, 0.3), (0.7, 0.8, 0.2), (1.0, 0.7, 0.1)):
        run(tmp_path, "temperature", precision=p, recall=r, options="", axes={"decoder.temperature": t})
    found = findings(tmp_path)
    assert found["MAUVE falls with length"] == "yes"
    assert found["MAUVE rises with model size"] == "no"  # 0.7 for docs-s, 0.6 for docs-m
    assert found["Precision falls with temperature"] == "yes"
    assert found["Recall rises with temperature"] == "no"


def test_claims_about_rankings(tmp_path):
    for c, values in (("1", (0.1, 0.5, 0.9)), ("5", (0.0, 0.2, 0.7))):
        for decoder, value in zip(("greedy", "ancestral", "nucleus"), values, strict=True):
            run(tmp_path, decoder, value, options=f"|scaling_factor:{c}|num_buckets:{10 * int(c)}", experiment=f"c{c}")
    assert findings(tmp_path)["Rankings survive the scaling c"] == "not measured"  # the buckets differ too
    for decoder, value in zip(("greedy", "ancestral", "nucleus"), (0.9, 0.1, 0.5), strict=True):
        run(tmp_path, decoder, value, options="|scaling_factor:5|num_buckets:10", experiment="c10")
    found = findings(tmp_path)
    assert found["Rankings survive the scaling c"] == "no"
    assert found["Rankings survive the number of clusters"] == "no"
