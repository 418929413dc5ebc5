"""A report says where a reused artefact was made by other versions than the run's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openended.harness.results.runs import describe_reused_artifacts
from openended.harness.storage.provenance import compare_environments
from openended.harness.storage.record import RunRecord, read_record

RUN = RunRecord(
    created="2026-01-02T03:04:05+00:00",
    spec={},
    axes={},
    git={"commit": "1a2b3c4d5e6f", "dirty": False},
    packages={"torch": "2.13.0", "numpy": "2.4.6"},
    hardware={"accelerator": None, "processor": "Ours"},
    results=(),
)


def remarks(**provenance: Any) -> tuple[str, ...]:
    return describe_reused_artifacts(replace(RUN, provenance=provenance))


def test_nothing_is_said_of_what_the_same_versions_made():
    assert remarks() == remarks(**{"embed:human": {}}) == remarks(**{"embed:human": {"device": "cpu"}}) == ()
    assert remarks(**{"embed:human": {"git": {"dirty": True}}}) == ()


def test_versions_code_and_processor_are_told_by_stage():
    other = {"packages": {"torch": "2.1.0", "faiss-cpu": None}}
    (line,) = remarks(**{"embed:human": other, "embed:model": other, "score:human": other})
    assert line == (
        "cached, not computed by this run: embed, score; computed with torch 2.1.0 (now 2.13.0), faiss-cpu absent (now absent)"
    )
    (line,) = remarks(**{"generate:x": {"git": {"commit": "c0ffeec0ffee"}, "hardware": {"processor": "Theirs"}}})
    assert line.endswith("computed with code c0ffeec (now 1a2b3c4), processor Theirs (now Ours)")
    (line,) = remarks(**{"generate:x": {"maker": None}})
    assert line.endswith("generate; computed with versions that were not noted")


def test_an_accelerator_is_compared_where_both_are_known():
    one, none = ({"hardware": {"accelerator": name, "cores": 2}} for name in ("H200", None))
    assert compare_environments(one, none) == compare_environments(none, one) == {}
    assert compare_environments(one, {"hardware": {"accelerator": "A100", "cores": 2}}) == {
        "hardware": {"accelerator": "H200"}
    }


def test_the_table_of_a_run_that_reuses_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from openended.harness.models.spec import list_bundled_models
    from openended.harness.report.build import build_report
    from openended.harness.run.pipeline import run
    from openended.harness.run.session import Session
    from openended.harness.storage import store as store_module
    from openended.harness.storage.store import Store
    from tests.harness.run.small import settings

    if "docs-s" not in list_bundled_models():
        pytest.skip("the bundled model is not there")
    now = store_module.describe_environment()
    monkeypatch.setattr(
        store_module, "describe_environment", lambda: {**now, "packages": {**now["packages"], "torch": "0.1"}}
    )
    run(settings(tmp_path, "metric=[distinct_n]"), Session(Store(tmp_path / "out/store")))
    monkeypatch.undo()
    made = run(settings(tmp_path, "metric=[zipf]"), Session(Store(tmp_path / "out/store")))
    record = read_record(made.folder)
    assert record.provenance["generate:docs-s greedy"]["packages"] == {"torch": "0.1"}
    report = build_report([made.folder], tmp_path / "report", figures=False)
    told = f"examples, human, generate; computed with torch 0.1 (now {record.packages['torch']})"
    assert [told in remark for remark in report.tables[0].remarks].count(True) == 1, report.tables[0].remarks
    assert told in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert told in (tmp_path / "report" / "tables" / "full.md").read_text(encoding="utf-8")
