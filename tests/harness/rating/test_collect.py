"""What raters send back: checked, told, and written as judgments that the metrics read."""

import json
import math
import re
from pathlib import Path

import pytest

from openended.harness.app.commands.rate import main
from openended.harness.core.errors import DataError
from openended.harness.rating import answers
from openended.harness.rating.study import fill_all_sheets
from openended.harness.report import write_rater_table
from openended.harness.report.tables.raters import compute_alphas, measure_raters
from openended.metrics.judgments import read_comparisons, read_judgments
from tests.harness.rating.studies import PLAYERS, study
from tests.helpers import cases, change_json, check_error, write_file

STRENGTHS = dict(zip(PLAYERS, (0.8, 0.0, -0.8), strict=True))


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies")
    made = {}
    for name in ("mauve", "typicality"):
        key = study(folder / name, name, items=12, raters=3, items_a_sheet=9)
        fill_all_sheets(key, folder / name / "simulated", strengths=STRENGTHS)
        made[name] = key
    return folder, made


def write_rows(path, told, rows):
    """Write other answers into a file."""
    write_file(path, json.dumps({**told, "answers": rows}))


@pytest.fixture
def sent(studies, tmp_path):
    """Copies of the answers to the pairs, to be spoilt, their key, and the first of them."""
    folder, made = studies
    for path in (folder / "mauve" / "simulated").iterdir():
        (tmp_path / path.name).write_text(path.read_text())
    return tmp_path, made["mauve"], min(tmp_path.glob("answers*.json"))


def test_both_protocols_in_one_file_feed_both_metrics(studies, tmp_path, capsys):
    folder, _ = studies
    out = tmp_path / "judgments.csv"
    assert main(["collect", str(folder / "mauve"), str(folder / "typicality"), "-o", str(out)]) == 0
    assert "no person rated anything" in (tmp_path / "judgments.quality-mauve.md").read_text()
    pairs, ratings = read_comparisons(out), read_judgments(out)
    assert len(pairs.rows) == 3 * 12 * 3 * 3
    assert pairs.criteria == ("human_like", "interesting", "sensible")
    assert set(ratings.systems) == set(PLAYERS)
    assert len(ratings) == 3 * 12
    assert (~(ratings.ratings != ratings.ratings)).sum() == 3 * 12 * 3
    assert {row.rater.partition(":")[0] for row in pairs.rows} == {"simulated"}
    named = " and ".join(f"openended rate score {folder / name}" for name in ("mauve", "typicality"))
    assert f"next: {named}\n" in capsys.readouterr().out


def test_every_answer_comes_out_as_it_was_given(studies):
    folder, made = studies
    key = made["mauve"]
    gathered = answers.gather_answers([folder / "mauve"], key, leave_out=False)
    rows = {(r["item"], r["criterion"], r["rater"]): r for r in answers.build_judgment_rows(gathered)}
    assert len(rows) == sum(len(s.items) for s in gathered.sheets) * 3
    for path in (folder / "mauve" / "simulated").iterdir():
        told = json.loads(path.read_text())
        for row in told["answers"]:
            task = key.by_id[row["id"]]
            for criterion, number in row["answers"].items():
                out = rows[task.example, criterion, f"simulated:{told['sheet']}"]
                answer = key.protocol.choices[number - 1]
                assert (out["system_a"], out["system_b"]) == task.sides
                assert (out["outcome"], out["strength"]) == (answer.outcome, answer.strength)
                assert float(out["seconds"]) == pytest.approx(row["ms"] / 1000, abs=0.051)


@cases(
    "spoil, message",
    (lambda p: p.write_text("{"), "not JSON"),
    (lambda p: p.write_text("[1]"), "not an answer file"),
    (lambda p: change_json(p, study="0" * 12), "of another study"),
    (lambda p: change_json(p, sheet="rater-99"), "no sheet"),
    (lambda p: change_json(p, form="openended-rate/9"), "another version"),
    (lambda p: change_json(p, answers=[{"id": "x", "answers": {}, "ms": 1}]), "an item or an answer"),
    (lambda p: change_json(p, answers=[{"id": ["x"], "answers": {}, "ms": 1}]), "an item or an answer"),
    (lambda p: p.write_text(re.sub(r'"sensible": \d', '"sensible": 9', p.read_text())), "an item or an answer"),
)
def test_a_file_that_cannot_be_used_is_told_and_never_dropped_silently(sent, spoil, message):
    folder, key, path = sent
    spoil(path)
    check_error(DataError, message, answers.gather_answers, [folder], key, leave_out=False)
    left = answers.gather_answers([folder], key, leave_out=True)
    assert len(left.sheets) == len(key.sheets) - 1
    assert any(remark.startswith("left out:") and path.name in remark for remark in left.remarks)
    assert any("1 of" in remark and "did not come back" in remark for remark in left.remarks)


def test_the_same_rater_twice(sent):
    folder, key, path = sent
    told = json.loads(path.read_text())
    half, copy = told["answers"][:4], folder / "answers-copy.json"
    write_rows(copy, told, half)
    gathered = answers.gather_answers([folder], key, leave_out=False)  # a copy saved on the way: the fuller one counts
    assert len(gathered.sheets) == len(key.sheets)
    assert any("copy of" in remark and "answers-copy" in remark for remark in gathered.remarks)
    other = [{**row, "answers": {**row["answers"], "sensible": row["answers"]["sensible"] % 5 + 1}} for row in half]
    write_rows(copy, told, other)
    check_error(DataError, "with different answers", answers.gather_answers, [folder], key, leave_out=False)


def test_missing_answers_are_counted(sent):
    folder, key, path = sent
    told = json.loads(path.read_text())
    write_rows(path, told, told["answers"][:-2])
    gathered = answers.gather_answers([folder], key, leave_out=False)
    total = 3 * len(key.sheets[told["sheet"]])
    assert f"simulated:{told['sheet']}: 6 of {total} answers are missing" in gathered.remarks
    assert answers.read_answers(path, key).expected == total // 3


def test_quality_sees_haste_ties_sides_and_agreement(studies, tmp_path):
    """One rater clicks the first answer in three seconds, always: fast, all A, and unlike the rest."""
    folder, made = studies
    key = made["mauve"]
    lazy = next(iter(key.sheets))
    rows = [{"id": i, "answers": dict.fromkeys(key.protocol.questions, 1), "ms": 3000} for i in key.sheets[lazy]]
    path, good = folder / "lazy.json", folder / "mauve" / "simulated" / f"answers-{lazy}.json"
    write_rows(path, json.loads(good.read_text()), rows)
    rest = [p for p in (folder / "mauve" / "simulated").iterdir() if p != good]
    gathered = answers.gather_answers([path, *rest], key, leave_out=False)
    table = answers.tabulate_answers(gathered)
    rows = {row.Index: row for row in measure_raters(table, key.protocol.min_seconds).itertuples()}
    lazy = f"simulated:{lazy}"
    own = rows[lazy]
    assert (own.too_fast, own.side_a, own.ties, own.median_seconds) == (1.0, 1.0, 0.0, 3.0)
    assert own.side_p == pytest.approx(2 * 0.5**9)  # nine times heads: both tails of a fair coin
    assert rows["all"].too_fast < 0.3
    assert all(-1 <= value <= 1 for value in compute_alphas(table).values())
    text = write_rater_table(table, tmp_path, "quality", "Raters", 25, ()).read_text()
    assert re.search(rf"\| {lazy} +\| +9 +\| +3 +\| +1\.00 +\| +0\.00 +\| +1\.00 ", text)
    assert [rater for rater, row in rows.items() if row.top_answer == 1.0] == [lazy]
    assert f"{lazy}: the same answer to all 9 items" in text


def test_alpha_is_that_of_the_metric_and_full_agreement_is_one(studies, tmp_path):
    """Everybody answers by the text alone: α = 1, whichever side a text stood on."""
    _, made = studies
    key = made["mauve"]
    order = dict(zip(PLAYERS, (1, 0, 2), strict=True))
    for sheet, ids in key.sheets.items():
        rows = []
        for name in ids:
            first, second = key.by_id[name].sides
            rows.append({"id": name, "answers": dict.fromkeys(key.protocol.questions, 1 if order[first] < order[second] else 5), "ms": 60000})  # fmt: skip
        told = {"form": "openended-rate/1", "study": key.study, "sheet": sheet}
        write_rows(tmp_path / f"answers-{sheet}.json", told, rows)
    gathered = answers.gather_answers([tmp_path], key, leave_out=False)
    table = answers.tabulate_answers(gathered)
    assert set(compute_alphas(table).values()) == {1.0}
    quality = [*measure_raters(table, 25).itertuples()]
    assert all(row.with_rest == 1.0 for row in quality)
    everything = [name for ids in key.sheets.values() for name in ids]
    for row in quality:
        sides = [key.by_id[name].sides for name in key.sheets.get(row.Index, everything)]
        n, a = len(sides), sum(order[first] < order[second] for first, second in sides)
        tail = sum(math.comb(n, k) for k in range(max(a, n - a), n + 1)) / 2**n
        assert (row.side_a, row.side_p) == pytest.approx((a / n, min(1.0, 2 * tail)))


def test_simulated_answers_are_no_answers_of_people(sent):
    folder, key, path = sent
    told = json.loads(path.read_text())
    write_file(folder / "answers-of-a-person.json", json.dumps({**told, "simulated": False}))
    gathered = answers.gather_answers([folder], key, leave_out=False)
    assert [sheet.rater for sheet in gathered.sheets] == [told["sheet"]]
    assert "answers of simulated raters are left out: people answered" in gathered.remarks


def test_words_and_folders(tmp_path, studies):
    check_error(DataError, "no files of answers", answers.find_answer_files, [tmp_path])
    check_error(DataError, "no such file", answers.find_answer_files, [tmp_path / "gone"])
    folder, made = studies
    files = answers.find_answer_files([folder / "mauve", folder / "typicality"])
    studies = {key.study for key, _ in answers.group_files_by_study(files, files, None)}
    assert studies == {key.study for key in made.values()}


def test_a_file_named_twice_counts_once_and_another_study_is_refused(studies, tmp_path, capsys, monkeypatch):
    folder, made = studies
    monkeypatch.chdir(folder)
    files = [str(path) for path in sorted(Path("mauve/simulated").iterdir())]
    assert main(["collect", "mauve", *files, "-o", str(tmp_path / "j.csv")]) == 0
    sheets = len(made["mauve"].sheets)
    assert f"324 judgments of {sheets} raters" in capsys.readouterr().out
    other = next(Path("typicality/simulated").iterdir())
    assert main(["collect", "mauve", str(other), "-o", str(tmp_path / "k.csv")]) == 2
    assert "of another study" in capsys.readouterr().err


def test_no_key_says_what_to_type(tmp_path, capsys):
    (tmp_path / "deep" / "er" / "x").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "x" / "answers.json").write_text("{}")
    assert main(["collect", str(tmp_path / "deep")]) == 2
    assert "no key.json next to these files: name the folder of the study with --key STUDY" in capsys.readouterr().err
