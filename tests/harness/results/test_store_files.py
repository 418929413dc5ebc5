"""Files of the store: verified before a report reads them, and embeddings as one space of differences."""

import random
import shutil
from pathlib import Path

import pytest

from openended.harness.core import combine_replicates
from openended.harness.core.errors import DataError
from openended.harness.report import build_report
from openended.harness.report.analysis.paired import compare_values, describe_estimates
from openended.harness.results import find_joint_space, load_replicates, read_results, select_values
from openended.metrics.kid import Kid
from tests.harness.report.synthetic import write_run
from tests.harness.run import small
from tests.helpers import check_error, openended, undrawn_figures, write_jsonl


@pytest.fixture
def runs(tmp_path) -> Path:
    for decoder, seed in (("greedy", None), ("nucleus", 0)):
        write_run(tmp_path, decoder, seed, texts=True, arrays=True)
    return tmp_path


def report(runs: Path, *, figures: bool = True) -> str:
    with undrawn_figures():
        build_report([runs / "runs"], runs / "out", figures=figures)
    return (runs / "out" / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.thin(3)
@pytest.mark.parametrize("how", ["flip", "cut", "empty", "noise"])
@pytest.mark.parametrize("name", ["human.arrow", "data.arrow", "arrays.safetensors", "manifest.json"])
def test_every_damage_is_passed_over_and_said(name, how, runs, caplog):
    for path in runs.glob(f"store/*/*/*/{name}"):
        data, draw = bytearray(path.read_bytes()), random.Random(0)
        place, bit = draw.randrange(len(data)), 1 << draw.randrange(8)
        flipped = bytes([*data[:place], data[place] ^ bit, *data[place + 1 :]])
        harmed = {"flip": flipped, "cut": data[: len(data) // 2], "empty": b"", "noise": draw.randbytes(500)}
        path.write_bytes(harmed[how])
    page = report(runs)
    assert "damaged artifacts skipped" in page
    assert "is damaged" in caplog.text
    assert "Traceback" not in caplog.text


def test_nothing_is_said_of_what_is_sound_or_gone(runs, caplog):
    assert "damaged" not in report(runs)
    for path in sorted(runs.glob("store/*/*/*/*")):
        path.unlink()
    for path in sorted(runs.glob("store/*/*/*")):
        path.rmdir()
    assert "damaged" not in report(runs)
    assert caplog.text == ""


@pytest.mark.slow
def test_a_record_that_says_another_number_is_left_out_and_said(runs, caplog):
    record = next(runs.glob("runs/*/*/record.json"))
    record.write_text(record.read_text().replace('"n_model": ', '"n_model": 1'))
    page = report(runs, figures=False)
    assert "1 left out: record lost or damaged" in page
    note = f"Left out: 1 run whose record is lost or damaged ({record.parent.name})"
    assert note in page
    assert note in (runs / "out/tables/full.md").read_text()
    assert "left out of the report" in caplog.text
    assert caplog.text.count("\n") == 1


def test_nothing_but_damaged_records_is_an_error_of_one_line(runs):
    for record in runs.glob("runs/*/*/record.json"):
        record.write_text("[" * 5000)
    check_error(DataError, r"nested too deeply \(and 1 more\)", report, runs)


WORDS = ("num_examples=12", "human_examples=all", "metric=[mauve,kid]")


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """Two systems of 12 texts; the task holds 30: 12 with prompts, 12 of the ceiling, 6 more."""
    folder = tmp_path_factory.mktemp("joint")
    text = " raise an error if the number {} is too large, or return it.".format
    rows = [{"prompt": f"Return {i} and", "human": text(i) * (1 + i % 3)} for i in range(30)]
    write_jsonl(folder / "own.jsonl", rows)
    for decoder in ("greedy", "ancestral"):
        small.measured(folder, f"decoder={decoder}", *WORDS)
    return folder / "out"


@pytest.mark.slow
def test_differences_rest_on_all_human_texts_and_are_kept_in_the_store(grid, monkeypatch):
    results = read_results([grid / "runs"])
    first, second = select_values(results.values, "kid", "kid")
    space = find_joint_space(results, first)
    assert (space.reason, space.num_systems, space.num_human, space.num_clusterings) == ("", 2, 30, 0)
    test = compare_values(results, results.values, first, second)
    assert test is not None
    assert test.difference == pytest.approx(space.estimate(first)[0] - space.estimate(second)[0])
    assert test.difference != pytest.approx(first.mean - second.mean), "the printed values have 12 human texts"
    own = combine_replicates((1.0, -1.0), [load_replicates(results, item) for item in (first, second)])
    assert test.p_value != own.p_value(first.mean - second.mean)

    kept = sorted((grid / "store" / "measure").glob("*/*"))
    again = read_results([grid / "runs"])
    assert compare_values(again, again.values, *select_values(again.values, "kid", "kid")) == test
    assert sorted((grid / "store" / "measure").glob("*/*")) == kept, "it is read, not computed again"
    (mauve, *_) = select_values(results.values, "mauve", "mauve")
    assert find_joint_space(results, mauve).signature.endswith("2 systems and 30 human texts, 30 clusterings")
    assert space.signature.endswith("2 systems and 30 human texts")
    (line,), _ = describe_estimates(results, [first, mauve])
    remark = "Differences of kid, mauve (30 clusterings) are computed in one space of 2 sets of texts and 30"
    assert line.startswith(remark)
    words = ("power", "runs", "--outputs", str(grid), "--difference", "kid=0.5", "--metrics", "kid")
    done = openended(*words, cwd=grid, verbose=False, code=0)
    assert f"greedy - ancestral: {-test.difference:+.3g} with 12 texts" in done.stdout, "in the order of tables"
    assert "0.5 needs" in done.stdout
    assert "tokens" in done.stdout
    monkeypatch.setattr(Kid, "most", 20)
    assert find_joint_space(read_results([grid / "runs"]), first).reason == "a side has more than 20 texts"


@pytest.mark.slow
def test_without_embeddings_the_printed_values_are_compared_and_a_line_says_so(grid, tmp_path):
    copy = tmp_path / "out"
    shutil.copytree(grid, copy)
    shutil.rmtree(copy / "store" / "read")
    results = read_results([copy / "runs"])
    first, second = select_values(results.values, "kid", "kid")
    test = compare_values(results, results.values, first, second)
    assert test is not None
    assert test.difference == first.mean - second.mean
    (line,), _ = describe_estimates(results, [first])
    assert line.endswith("from each system's own values, which need more texts: its embeddings are not stored.")
