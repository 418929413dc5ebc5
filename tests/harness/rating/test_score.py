"""One command from a study to its table."""

import csv
import json
import re
from dataclasses import replace

import pytest

from openended.harness.app.commands.rate import main
from openended.harness.app.hydra.study_runs import complete_words
from openended.harness.core import DataError
from openended.harness.storage import read_record, restore_words, save_record
from tests.harness.report.synthetic import write_run
from tests.helpers import openended

RUN = ("max_new_tokens=4", "num_examples=60", "model=docs-s", "name=first", "intervals=40")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Texts of two systems, of which one has two seeds."""
    folder = tmp_path_factory.mktemp("runs")
    openended("-m", *RUN, "decoder=greedy,nucleus", "metric=[length]", "seed=0,1", cwd=folder, code=0)
    return folder


@pytest.fixture
def there(runs, monkeypatch):
    monkeypatch.chdir(runs)
    return runs


def read_table(path):
    return {row["system"]: row for row in csv.DictReader(path.read_text().splitlines())}


def test_six_raters_to_huse_by_the_commands_that_are_printed(there, capsys):
    words = "make first --protocol typicality --people 6 --raters 1 --items 60 -o study"
    assert main(words.split()) == 0
    printed = capsys.readouterr().out
    assert "6 sheets, one per rater" in printed
    assert "next: send each rater a sheet, then: openended rate score study FILES…" in printed
    assert main(re.search(r"openended rate (simulate study)", printed)[1].split()) == 0
    command = re.search(r"next: openended (rate score study)\n", capsys.readouterr().out)[1]
    done = openended(*command.split(), cwd=there, code=0, verbose=False)
    table = " ".join(done.stdout.split())
    assert re.search(r"HUSE \(6 simulated raters\)( →1)? \[95 % CI\]", table)
    assert re.search(r"nucleus p=0.95 1 \d\.\d+ \[\d\.\d+, \d\.\d+\]", table)
    rows = read_table(there / "study/report/tables/results.csv")
    assert set(rows) == {"human", "greedy", "nucleus p=0.95"}
    assert all(rows[name]["huse"] for name in ("greedy", "nucleus p=0.95"))
    assert rows["human"]["mean_rating"]
    assert (there / "study/report/report.html").is_file()
    # The judgments find their system in a command of one's own: the run's, and no other seed's.
    own = (*RUN, "metric=[huse,length]", "judgments=study/judgments.csv", "decoder=nucleus")
    alone = openended(*own, "seed=0", cwd=there, code=0)
    (report,) = there.glob("outputs/runs/first/*/report/tables/results.csv")
    assert read_table(report)["nucleus p=0.95"]["huse"] == rows["nucleus p=0.95"]["huse"]
    # HUSE has no standard error of its own: the interval over texts is printed, as for people's ratings everywhere.
    assert re.search(r"nucleus p=0.95 1 \d\.\d+ \[\d\.\d+, \d\.\d+\]", " ".join(alone.stdout.split()))
    other = openended(*own, "seed=1", cwd=there, code=0)
    assert "the rated texts have another seed or other options" in " ".join(other.stdout.split())


def test_pairs_are_scored_by_bradley_terry(there):
    assert main("make first --protocol mauve --people 6 --items 8 --seed 1 -o pairs".split()) == 0
    assert main(["simulate", "pairs"]) == 0
    done = openended("rate", "score", "pairs", "-o", "there", cwd=there, code=0, verbose=False)
    assert "Preferred by 6 simulated raters" in done.stdout
    # Nobody answered faster than the protocol allows, so the table does not speak of it; the signature does.
    results = there / "there/results.csv"
    assert "min_seconds:25|" in results.read_text()
    assert (there / "there/report.html").is_file()
    refused = openended("rate", "score", "pairs", "model.path=x", cwd=there, verbose=False)
    reason = "model.path=x: bradley_terry reads the judgments alone; leave it out"
    assert refused.stderr == f"openended rate score: {reason}\n"


def test_a_folder_that_the_record_does_not_hold_is_remembered_or_asked_for(tmp_path, monkeypatch):
    words = ["name=x", "model.path=…/gpt2", "metric=[zipf]", "decoder=nucleus", "report.where={}"]
    assert complete_words("s", words, ["model.path=/data/gpt2", "runtime.batch_size=2"]) == [
        "model.path=/data/gpt2", "decoder=nucleus", "runtime.batch_size=2",
    ]  # fmt: skip
    with pytest.raises(DataError, match=r"add the whole path, as model.path=/path/gpt2 task.path=/path/a.jsonl"):
        complete_words("s", [*words, "task.path=…/a.jsonl"], ["model.path=/data/other"])
    monkeypatch.setenv("OPENENDED_CACHE", str(tmp_path / "cache"))
    typed = ("model.path=/data/models/gpt2", "decoder=nucleus")
    record = read_record(write_run(tmp_path, "nucleus", 0, axes={"model.digest": "123"}))
    (tmp_path / "saved").mkdir()
    save_record(tmp_path / "saved", replace(record, overrides=typed))
    saved = read_record(tmp_path / "saved")
    assert saved.overrides == ("model.path=…/gpt2", "decoder=nucleus")
    assert tuple(restore_words(saved)) == typed
    assert restore_words(replace(saved, axes={"model.digest": "456"}))[0] == "model.path=…/gpt2"  # of other weights


def test_a_key_says_which_runs_its_texts_are_from(there):
    assert main("make first --protocol typicality --people 6 --raters 1 --items 60 -o keyed".split()) == 0
    key = json.loads((there / "keyed/key.json").read_text())["key"]
    assert set(key["material"]["runs"]) == set(key["material"]["texts_ids"]) == {"greedy", "nucleus p=0.95"}
