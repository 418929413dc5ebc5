"""Results in the formats of other tools: what each requires, and equal bytes from equal runs."""

import hashlib
import json
import math
import zipfile

import pytest
import yaml

from openended.harness.app.commands.compare import main as compare
from openended.harness.core import SpecError
from openended.harness.imported import read_system_scores, read_texts
from openended.harness.report.exports import every_eval_ever, texts
from openended.harness.report.exports.formats import FORMATS, export_results
from openended.harness.results import FIXED, read_results
from openended.harness.storage import read_record
from tests.harness.report.page.made import make_report
from tests.harness.report.synthetic import make_interval, result, write_run
from tests.helpers import ROOT, check_error

SCHEMAS = ROOT / "tests/fixtures/every_eval_ever"  # of the package every-eval-ever 0.3.0, MIT


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return make_report(folder, count=3, samples=1)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """One run without texts: a perplexity with an interval and the human one, and a value that aims at 0.5."""
    folder = tmp_path_factory.mktemp("measured")
    interval = {"gen_ppl": make_interval(30.0, 40.0)}
    ppl = result("model", "gen_ppl", {"gen_ppl": 35.0, "entropy": math.nan}, intervals=interval)
    facts = {"bounds": {"accuracy": (0.0, 1.0)}, "directions": {"accuracy": "nearest 0.5"}}
    accuracy = result("model", "accuracy", {"accuracy": 0.75}, **facts)
    human = result("human", "gen_ppl", {"gen_ppl": 32.0})
    loops = [result(system, "loops", {"loops": value}) for system, value in (("model", 0.0), ("human", 0.125))]
    write_run(folder, "nucleus", 0, results=[ppl, human, accuracy, *loops])
    return folder


def test_a_value_that_aims_at_the_human_one_is_a_distance_and_a_value_without_polarity(measured, tmp_path):
    export_results([measured], tmp_path / "out", "eee", name="a", organization="Some Lab")
    (path,) = tmp_path.glob("out/data/openended/*/*/*[0-9a-f].json")
    evaluation = json.loads(path.read_text())
    assert evaluation["source_metadata"]["source_organization_name"] == "Some Lab"
    by_id = {row["metric_config"]["metric_id"]: row for row in evaluation["evaluation_results"]}
    assert set(by_id) == {f"openended.{name}" for name in (
        "gen_ppl.gen_ppl", "gen_ppl.gen_ppl.log_distance", "accuracy.accuracy", "accuracy.accuracy.distance",
        "loops.loops", "loops.loops.distance")}  # fmt: skip
    raw, distance = by_id["openended.gen_ppl.gen_ppl"], by_id["openended.gen_ppl.gen_ppl.log_distance"]
    assert raw["metric_config"]["additional_details"]["polarity"] == "unknown"
    assert raw["score_details"]["score"] == 35.0
    assert raw["score_details"]["details"]["human_value"] == "32.0"
    assert raw["score_details"]["uncertainty"] == {
        "confidence_interval": {"lower": 30.0, "upper": 40.0, "confidence_level": 0.95, "method": "bootstrap"},
        "standard_error": {"value": 2.5, "method": "bootstrap"}, "num_samples": 500, "num_bootstrap_samples": 200,
    }  # fmt: skip
    assert distance["metric_config"]["lower_is_better"] is True
    assert distance["score_details"]["score"] == pytest.approx(math.log(35 / 32))
    ends = distance["score_details"]["uncertainty"]["confidence_interval"]
    assert (ends["lower"], ends["upper"]) == (0.0, pytest.approx(math.log(40 / 32)))  # 30 to 40 contains 32
    assert by_id["openended.accuracy.accuracy.distance"]["score_details"]["score"] == 0.25
    assert by_id["openended.loops.loops.distance"]["score_details"]["score"] == 0.125, "0 has no logarithm"


def test_an_evaluation_and_its_texts_follow_the_schema(runs, measured, tmp_path):
    reason = "validates the JSON of Every Eval Ever: pip install jsonschema"
    jsonschema = pytest.importorskip("jsonschema", reason=reason)
    evaluation, sample = (
        jsonschema.Draft7Validator(json.loads((SCHEMAS / f"{name}.schema.json").read_text("utf-8")))
        for name in ("eval", "instance_level_eval")
    )
    for source in (runs, measured):
        formulas: dict[str, set[str]] = {}
        for path in export_results([source], tmp_path / "out", "eee", name="a"):
            if path.suffix == ".json":
                exported = json.loads(path.read_text("utf-8"))
                evaluation.validate(exported)
                for config in (row["metric_config"] for row in exported["evaluation_results"]):
                    formulas.setdefault(config["metric_id"], set()).add(config.get("evaluation_description", ""))
            else:
                for line in path.read_text("utf-8").split("\n")[:-1]:
                    sample.validate(json.loads(line))
        assert all(len(of_metric) == 1 for of_metric in formulas.values())


def test_the_texts_of_an_evaluation_are_those_that_it_names(runs, tmp_path):
    export_results([runs], tmp_path / "out", "eee", name="a")
    for path in (tmp_path / "out").glob("data/*/*/*/*[0-9a-f].json"):
        evaluation = json.loads(path.read_text())
        details = evaluation["detailed_evaluation_results"]
        data = (tmp_path / "out" / details["file_path"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == details["checksum"]
        lines = [json.loads(line) for line in data.decode().split("\n")[:-1]]
        assert len(lines) == details["total_rows"] == 3
        assert {line["evaluation_id"] for line in lines} == {evaluation["evaluation_id"]}
        assert all(line["input"]["reference"] for line in lines)


def test_what_is_not_known_of_a_model_is_unknown(measured):
    (run,) = read_results([measured]).runs
    evaluation = every_eval_ever.describe_run(run, read_record(run.folder), "a")
    assert evaluation["model_info"]["additional_details"]["model_availability"] == "unknown"
    assert evaluation["evaluation_results"][0]["generation_config"]["generation_args"]["top_p"] == 0.95


def test_results_for_the_hub_are_filed_under_a_dataset(runs, tmp_path):
    check_error(SpecError, "add --dataset OWNER/NAME", export_results, [runs], tmp_path / "out", "hub", name="a")
    files = export_results([runs], tmp_path / "out", "hub", name="a", dataset="someone/texts")
    (greedy,) = (path for path in files if path.name == "greedy.yaml")
    entries = yaml.safe_load(greedy.read_text())
    assert [entry["dataset"] for entry in entries] == [
        {"id": "someone/texts", "task_id": "gen_ppl"}, {"id": "someone/texts", "task_id": "mauve"}
    ]  # fmt: skip
    assert (entries[1]["value"], entries[1]["date"]) == (0.8, "2026-01-02")
    assert "signature: mauve|" in entries[1]["notes"]


def test_croissant_describes_every_file_and_field(runs, tmp_path):
    export_results([runs], tmp_path / "out", "croissant", name="a")
    described = json.loads((tmp_path / "out" / texts.METADATA).read_text())
    paths = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.jsonl")}
    assert {entry["@id"] for entry in described["distribution"]} == paths
    assert paths == {f"generations/docs/{name}.jsonl" for name in (
        "human", "greedy", "nucleus_p=0.95-seed0", "nucleus_p=0.95-seed1")}  # fmt: skip
    for entry in described["distribution"]:
        data = (tmp_path / "out" / entry["contentUrl"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == entry["sha256"]
        assert entry["contentSize"] == f"{len(data)} B"
        row = json.loads(data.split(b"\n")[0])
        assert list(row) == list(texts.FIELDS)
    for records in described["recordSet"]:
        assert [field["source"]["extract"]["column"] for field in records["field"]] == list(texts.FIELDS)


def test_a_log_of_inspect_has_texts_scores_and_directions(runs, tmp_path, capsys):
    paths = export_results([runs], tmp_path / "out", "inspect", name="a")
    assert len(paths) == 3
    log = read_system_scores("a", [paths[0]])
    assert log.values
    assert set(log.directions) >= set(log.values)
    with zipfile.ZipFile(paths[0]) as archive:
        header = json.loads(archive.read("header.json"))
        sample = json.loads(archive.read(f"samples/{header['eval']['dataset']['sample_ids'][0]}_epoch_1.json"))
    assert sample["output"]["completion"] == sample["messages"][1]["content"] != ""
    assert sample["target"]
    texts_of = [row.text for row in read_texts(paths[0])]
    assert texts_of[0] == sample["output"]["completion"]
    assert compare(["--unmatched", "drop", *map(str, paths[1:])]) == 0
    assert "Differences of mean scores" in capsys.readouterr().out
    inspect_log = pytest.importorskip("inspect_ai.log", reason="reads the log: pip install inspect-ai")
    assert len(inspect_log.read_eval_log(str(paths[0])).samples) == len(texts_of)


@pytest.mark.filterwarnings("ignore")  # about its own dependencies
def test_a_croissant_description_is_accepted_by_its_own_library(runs, tmp_path):
    mlcroissant = pytest.importorskip("mlcroissant", reason="reads Croissant: pip install mlcroissant")
    export_results([runs], tmp_path / "out", "croissant", name="a")
    dataset = mlcroissant.Dataset(jsonld=tmp_path / "out" / texts.METADATA)
    rows = list(dataset.records("docs_human"))
    assert len(rows) == 3
    assert {key.rpartition("/")[2] for key in rows[0]} == set(texts.FIELDS)


def test_equal_runs_give_equal_files_and_nothing_old_is_kept(runs, tmp_path):
    for file_format in FORMATS:
        options = {"name": "a", "dataset": "someone/texts"}
        first = export_results([runs], tmp_path / "out", file_format, **options)
        data = [path.read_bytes() for path in first]
        assert export_results([runs], tmp_path / "out", file_format, **options) == first
        assert [path.read_bytes() for path in first] == data
        assert sorted(first) == sorted(path for path in (tmp_path / "out").rglob("*") if path.is_file())
    pd = pytest.importorskip("pandas")
    assert {"value", "low", "high", "signature"} <= set(pd.read_parquet(tmp_path / "out/results.parquet").columns)


def test_every_column_of_the_table_is_documented():
    page = (ROOT / "docs/exchange.md").read_text(encoding="utf-8")
    assert [name for name in FIXED if f"`{name}`" not in page] == []
