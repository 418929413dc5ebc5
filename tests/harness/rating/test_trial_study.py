"""`experiment=human_study_docs`: texts, sheets, answers, judgments and scores in one command, by raters that nobody is."""

import json
from types import SimpleNamespace

import pytest

from openended.harness.app.hydra.jobs import needs_whole_grid, simulate_judgments
from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.harness.rating.answers import gather_answers
from openended.harness.rating.design import read_key
from openended.harness.run.measure import MetricRunner
from tests.harness.run.small import settings
from tests.helpers import openended


@pytest.mark.slow
def test_the_whole_way_says_that_nobody_rated(tmp_path):
    words = ["-m", "experiment=human_study_docs", "metric=[huse,bradley_terry]", "num_examples=20", "max_new_tokens=8"]
    openended(*words, cwd=tmp_path, code=0)
    folder = next((tmp_path / "outputs" / "studies" / "human_study_docs").iterdir())
    for protocol in ("mauve", "typicality"):
        key = read_key(folder / protocol)
        assert key.material.players == ("human", "ancestral", "greedy", "nucleus")
        gathered = gather_answers([folder / protocol / "simulated"], key, leave_out=False)
        assert not gathered.remarks
        assert len(list((folder / protocol / "sheets").iterdir())) == len(key.sheets) == len(gathered.sheets)
    rows = []
    for path in (tmp_path / "outputs" / "runs" / "human_study_docs").glob("*/record.json"):
        rows += [(r["metric"], r["status"], r["signature"]) for r in json.loads(path.read_text())["results"]]
    assert len(rows) == 6
    assert {status for _, status, _ in rows} == {"ok"}
    assert all("simulated raters" in signature for _, _, signature in rows)
    assert "simulated raters" in (tmp_path / "outputs/reports/human_study_docs/report.html").read_text()
    assert "no person rated anything" in (folder / "quality.md").read_text()


def test_a_single_run_says_what_to_type_and_a_plan_needs_no_judgments(tmp_path):
    given = settings(tmp_path, "judgments=simulated:mauve", "metric=[bradley_terry]")
    assert needs_whole_grid(given.judgments)
    assert not given.is_judgments_only()
    measure = MetricRunner(given, SimpleNamespace(builder=None))
    with pytest.raises(UndefinedMetric, match="rates the texts of a whole grid once all are there: add -m"):
        measure._find_judgments()
    openended("-m", "experiment=human_study_docs", "plan_only=true", cwd=tmp_path, code=0)


def test_systems_need_names(tmp_path):
    run = settings(tmp_path, "judgments=simulated:mauve", "metric=[bradley_terry]")
    with pytest.raises(SpecError, match=r"name the run's system by metric\.bradley_terry\.system"):
        simulate_judgments([SimpleNamespace(settings=run)])
