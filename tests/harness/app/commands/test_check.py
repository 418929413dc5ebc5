"""`openended check`: exit codes of a gate for CI."""

import json
import re
from xml.etree import ElementTree

import pytest
import yaml

from openended.harness.app.commands.check import _parse_margins
from tests.harness.report.synthetic import result, seal_record, write_run
from tests.helpers import ROOT, cases, openended


def write_system(folder, name, value, half=None, *, key="mauve", direction="higher", human=None, seeds=1):
    """Write a run with one value and, with `half`, an interval of that half width."""
    ends = {"level": 0.95, "method": "subsample", "replicates": 100}

    def make_row(system, mean):
        around = {} if half is None else {"low": mean - half, "high": mean + half, "std_error": half / 2}
        interval = {key: around | ends} if around else {}
        return result(system, key, {key: mean}, direction=direction, intervals=interval)

    rows = [make_row("model", value), *([make_row("human", human)] if human is not None else [])]
    for seed in range(seeds):
        write_run(folder / "outputs" / "runs" / name, "nucleus", seed, model=name, results=rows)


def check(folder, *words):
    done = openended("check", *words, cwd=folder, verbose=False)
    return done.returncode, done.stdout + done.stderr


# (baseline, candidate, half width of both intervals) → margin, exit code and reason. The interval of the difference has
# the half width √2 · half, so that 0.8 → 0.7 with 0.03 is worse by 0.1 ± 0.042.
CASES = [
    (0.8, 0.7, 0.03, 0.02, 1, "significantly, beyond the margin of 0.02"),
    (0.8, 0.7, 0.03, 0.06, 1, "significantly"),  # 0.058 to 0.142
    (0.8, 0.7, 0.03, 0.2, 0, "by at most 0.2"),
    (0.8, 0.79, 0.01, 0.02, 3, "about n = 1000 would decide it"),  # ± 0.0141 / (0.02 - 0.01), squared, times 500
    (0.8, 0.9, 0.03, 0.0, 0, "by at most 0"),
    (0.8, 0.7, None, 0.02, 1, "beyond the margin of 0.02 (not tested: no interval)"),
    (0.8, 0.79, None, 0.02, 0, "by at most 0.02 (not tested: no interval)"),
]


@pytest.mark.parametrize(("baseline", "candidate", "half", "margin", "code", "reason"), CASES)
def test_interval_and_margin_decide_the_exit_code(tmp_path, baseline, candidate, half, margin, code, reason):
    write_system(tmp_path, "main", baseline, half)
    write_system(tmp_path, "new", candidate, half)
    got, text = check(tmp_path, "main", "new", "--margin", str(margin))
    assert (got, text.endswith(f": {reason}\n")) == (code, True), text


@pytest.mark.parametrize(("direction", "human", "code"), [("lower", None, 1), ("match_human", 0.2, 1), ("match_human", 0.9, 0),
                                                          ("higher", None, 0)])  # fmt: skip
def test_the_direction_is_that_of_the_metric(tmp_path, direction, human, code):
    write_system(tmp_path, "main", 0.5, 0.01, direction=direction, human=human)
    write_system(tmp_path, "new", 0.6, 0.01, direction=direction, human=human)
    assert check(tmp_path, "main", "new")[0] == code


def test_values_on_both_sides_of_the_human_one_differ_for_sure_but_not_in_their_distances(tmp_path):
    for name, value in (("main", 0.3), ("new", 0.1)):  # distances .09 and .11, each ± .05 and more
        write_system(tmp_path, name, value, 0.05, direction="match_human", human=0.21)
    assert check(tmp_path, "main", "new")[0] == 3
    assert check(tmp_path, "new", "main", "--margin", "0")[0] == 3


@cases(
    "main, new, code, reason",
    ({"seeds": 3}, {"seeds": 3}, 3, "several seeds without their store have no interval"),
    ({}, {"key": "kid"}, 2, "has no "),
)
def test_what_decides_nothing_is_not_passed_over(tmp_path, main, new, code, reason):
    write_system(tmp_path, "main", 0.8, 0.03, **main)
    write_system(tmp_path, "new", 0.7, 0.03, **new)
    got, text = check(tmp_path, "main", "new")
    assert (got, reason in text) == (code, True), text


def test_several_candidates_are_corrected_together(tmp_path):
    write_system(tmp_path, "main", 0.8, 0.03)
    names = [f"new{number}" for number in range(4)]
    for name in names:
        write_system(tmp_path, name, 0.75, 0.03)  # 0.05 ± 0.042: p = 0.0209, times 4
    assert check(tmp_path, "main", "new0")[0] == 1
    code, text = check(tmp_path, "main", *names)
    assert (code, text.count("undecided"), text.count("p = 0.0836")) == (3, 4, 4), text
    assert check(tmp_path, "main", *names, "--alpha", "0.2")[0] == 1


def test_a_baseline_may_be_a_record_or_an_exported_file_and_files_are_written(tmp_path):
    write_system(tmp_path, "main", 0.8, 0.03)
    write_system(tmp_path, "new", 0.7, 0.03)
    record = next((tmp_path / "outputs/runs/main").rglob("record.json"))
    openended("export", "main", "exported", "--format", "parquet", cwd=tmp_path, verbose=False, code=0)
    texts = set()
    for number, baseline in enumerate(("main", str(record), "exported/results.parquet")):
        files = ("--junit", f"{number}.xml", "--markdown", f"{number}.md")
        code, text = check(tmp_path, baseline, "new", *files)
        texts.add(text)
        suite = ElementTree.parse(tmp_path / f"{number}.xml").getroot()
        assert (code, suite.get("failures"), suite.get("errors")) == (1, "1", "0")
        message = (
            "MAUVE ↑ of nucleus p=0.95 is worse than the baseline's: 0.700, and the baseline has 0.800. It is worse by "
            "0.100 [0.058, 0.142], where 0.02 is accepted (p <.0001): significantly, beyond the margin of 0.02."
        )
        assert suite.find("testcase/failure").get("message") == message
        assert "| worse | 0.800 | 0.700 | 0.100 [0.058, 0.142] | <.0001 |" in (tmp_path / f"{number}.md").read_text()
    assert len(texts) == 1


@cases(
    "choice, code, tag, counts",
    (None, 3, "error", ("0", "1", "0")),
    ("pass", 0, "skipped", ("0", "0", "1")),
    ("fail", 1, "failure", ("1", "0", "0")),
)
def test_what_is_undecided_passes_or_fails_on_request(tmp_path, choice, code, tag, counts):
    write_system(tmp_path, "main", 0.8, 0.01)
    write_system(tmp_path, "new", 0.79, 0.01)
    options = ("--undecided", choice) if choice else ()
    got, text = check(tmp_path, "main", "new", "--json", "--junit", "check.xml", *options)
    printed = json.loads(text)
    assert (got, printed["exit_code"]) == (code, code)
    (value,) = printed["values"]
    assert (value["system"], value["metric"], value["outcome"]) == ("nucleus p=0.95", "mauve", "undecided")
    assert (value["baseline"], value["candidate"], value["margin"]) == (0.8, 0.79, 0.02)
    assert value["worse_by"] == pytest.approx(0.01)
    assert value["low"] < value["worse_by"] < value["high"]
    suite = ElementTree.parse(tmp_path / "check.xml").getroot()
    assert tuple(suite.get(name) for name in ("failures", "errors", "skipped")) == counts
    assert "may be worse than the baseline's or not" in suite.find(f"testcase/{tag}").get("message")
    write_system(tmp_path, "bad", 0.5, 0.01)
    assert check(tmp_path, "main", "bad", *options)[0] == 1


def test_the_history_of_nights_is_a_table_and_a_figure(tmp_path):
    for night in range(3):
        rows = [result("model", "mauve", {"mauve": 0.9 - night / 10}, direction="higher")]
        axes = {"model.digest": f"weights-{night}"}
        for hour, value in ((1, 0.1), (2, None)):  # the last run of a day counts
            earlier = [result("model", "mauve", {"mauve": value}, direction="higher")] if value else rows
            created = f"2026-01-0{night + 1}T0{hour}:00:00+00:00"
            name = f"nightly-{night}-{hour}"
            made = {"results": earlier, "created": created, "axes": axes, "experiment": name}
            write_run(tmp_path / "outputs", "greedy", None, **made)
    names = sorted(str(path.relative_to(tmp_path)) for path in (tmp_path / "outputs/runs").iterdir())
    done = openended("report", *names, "--rows", "created", cwd=tmp_path, draw=True, verbose=False, code=0)
    table = next(tmp_path.glob("outputs/reports/**/tables/*.md")).read_text()
    assert [re.findall(r"[\d.-]+", line) for line in table.splitlines() if "2026" in line][:3] == [
        ["2026-01-01", "1", "0.900"], ["2026-01-02", "1", "0.800"], ["2026-01-03", "1", "0.700"],
    ]  # fmt: skip
    assert "sweep-created" in done.stdout


def test_texts_of_the_same_prompts_are_compared_in_pairs(here):
    code, text = check(here, "p-sweep", "p-sweep", "--worse", "distinct_2", "--where", "decoder=nucleus")
    assert (code, "by at most 0.02" in text) == (0, True)  # the same texts
    assert "warning: p-sweep is compared with itself" in text
    code, text = check(here, "p-sweep", "p-sweep", "--where", "decoder=nucleus|greedy", "--margin", "distinct_2=2")
    assert (code, text.count("not worse")) == (0, 2)  # each with the system that has its decoder


def test_values_of_other_definitions_are_not_compared(tmp_path):
    write_system(tmp_path, "main", 0.8, 0.03)
    write_system(tmp_path, "new", 0.7, 0.03)
    file = next((tmp_path / "outputs/runs/new").rglob("record.json"))
    record = json.loads(file.read_text())
    del record["digest"]
    record["results"][0]["signature"] = record["results"][0]["signature"].replace("v:1", "v:2")
    seal_record(file.parent, record)
    code, text = check(tmp_path, "main", "new")
    assert code == 2
    assert "mauve of nucleus p=0.95 is not comparable with the baseline's: v (1 and 2)" in text


@pytest.mark.slow
def test_the_workflow_of_the_documentation_runs(tmp_path):
    (block,) = re.findall(r"^```yaml\n(name: .*?)^```", (ROOT / "docs/checkpoints.md").read_text(), re.M | re.S)
    steps = next(iter(yaml.safe_load(block)["jobs"].values()))["steps"]
    commands = [line for step in steps for line in step.get("run", "").splitlines() if line.startswith("openended ")]
    assert [line.split()[1] for line in commands] == ["-m", "check"]
    write_system(tmp_path, "unused", 0.8)  # a folder of runs that has others too
    for line in commands:
        words = [word.replace("$MODEL", "bundled:docs-s") for word in line.split()[1:]]
        small = ("num_examples=8", "max_new_tokens=4") if words[0] == "-m" else ("--margin", "1")
        if words[0] == "check":
            first = next((tmp_path / "outputs/runs/candidate").rglob("record.json"))
            (tmp_path / words[1]).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / words[1]).write_bytes(first.read_bytes())
        openended(*words, *small, cwd=tmp_path, verbose=False, code=0)


def test_margins_of_values_whose_names_end_alike():
    pairs = [("gen_ppl", "gen_ppl"), ("ppl", "ppl")]
    assert _parse_margins("gen_ppl=1,ppl=2", pairs) == {pairs[0]: 1.0, pairs[1]: 2.0}
