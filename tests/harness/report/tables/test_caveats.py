"""Test the warnings and notes under a table."""

import json

from openended.harness.core.signature import OUT_OF_DOMAIN, describe_out_of_domain
from openended.harness.report.tables.caveats import describe_resolution, list_run_notes, list_warnings
from openended.harness.results.frame import read_results
from tests.harness.report.synthetic import result, seal_record, write_run


def label(item):
    return item.axes["decoder"]


def write(folder, decoder, notes=(), run_notes=(), **more):
    lines = [result("model", "mauve", {"mauve": 0.5}, direction="higher", notes=list(notes), **more)]
    run = write_run(folder, decoder, 0, results=lines)
    record = json.loads((run / "record.json").read_text())
    seal_record(run, {k: v for k, v in record.items() if k != "digest"} | {"notes": list(run_notes)})


def test_a_caveat_names_its_systems_unless_it_is_about_all(tmp_path):
    write(tmp_path, "greedy", notes=["few texts"], run_notes=["5 records skipped"])
    write(tmp_path, "nucleus", run_notes=["5 records skipped"])
    results = read_results([tmp_path])
    items = results.values
    assert list_warnings(items, items, label) == ("mauve: few texts (greedy)",)
    assert list_run_notes(items, results, label) == ("5 records skipped",)


def test_the_warning_of_a_marked_heading_is_not_repeated_as_a_note(tmp_path):
    note = describe_out_of_domain("embedder", "docs-m")
    write(tmp_path, "greedy", run_notes=[note], facts=f"embedder:docs-m@1/last ({OUT_OF_DOMAIN})|task:webtext@1")
    results = read_results([tmp_path])
    assert list_run_notes(results.values, results, label) == ()


def test_the_smallest_difference_is_that_of_the_median_error(tmp_path):
    """Errors 0.01, 0.02 and 0.04: 1.96 * sqrt(2) * 0.02 = 0.0554."""
    for number, error in enumerate((0.01, 0.02, 0.04)):
        interval = {"low": 0.4, "high": 0.6, "std_error": error, "level": 0.95, "method": "halves", "replicates": 40}
        write(tmp_path, f"d{number}", intervals={"mauve": interval})
    results = read_results([tmp_path])
    (line,) = describe_resolution(results.values, results)
    assert line.endswith("without pairing: MAUVE 0.055.")


def test_nothing_is_said_of_values_without_intervals(tmp_path):
    write(tmp_path, "greedy")
    results = read_results([tmp_path])
    assert describe_resolution(results.values, results) == ()
