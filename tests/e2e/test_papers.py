"""A series of twins, tiny: each experiment's own report, and the findings over all of them."""

import json

import pytest

from tests.helpers import ROOT, openended


@pytest.mark.long
def test_a_series_of_twins_leaves_a_report_of_each_and_the_findings(tmp_path):
    series = "hydra.sweeper.experiments=[mauve_table3,huse_fig3]"
    words = ["num_examples=8", "max_new_tokens=6", "decoder=greedy,nucleus", "seed=0", "runtime.progress=false"]
    done = openended(
        "experiment=paper", "using=docs", series, *words, f"outputs_dir={tmp_path}", cwd=ROOT, draw=True, code=0
    )
    runs = [json.loads(p.read_text()) for p in tmp_path.glob("runs/*/*/record.json")]
    assert sorted(r["axes"]["decoder"] for r in runs) == ["greedy", "nucleus", "rated"]
    table = (tmp_path / "reports/mauve_table3_docs/tables/results.md").read_text()
    assert "greedy" in table
    assert "nucleus p=0.95" in table
    assert list((tmp_path / "reports/huse_fig3_docs/figures").glob("huse.png"))
    findings = (tmp_path / "reports/paper_docs/tables/results.md").read_text()
    assert "By MAUVE greedy" in findings
    assert "not measured" in findings  # claims that need other systems
    assert "By MAUVE greedy" in done.stdout
