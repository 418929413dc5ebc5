"""`openended report` from end to end: files, texts for a paper, exit codes, one-line errors; its folder is replaced whole."""

import os

import pytest

from openended.harness.core import StoreError, temporary_files
from openended.harness.report import build_report
from openended.harness.report.cli import _parse_width, main
from openended.harness.storage.report_folder import replace_folder
from tests.harness.report.synthetic import change_record, make_interval, quickstart, result, write_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return quickstart(tmp_path_factory.mktemp("grid"), decoders=("greedy", "nucleus"))


@pytest.mark.slow
def test_everything_is_written_and_the_same_again(runs, tmp_path, capsys):
    assert main([str(runs), "--out", str(tmp_path / "a")]) == 0
    shown = capsys.readouterr().out
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*") if p.is_file())
    names = [str(f) for f in files]
    for name in ("tables/full.md", "tables/full.tex", "tables/full.csv", "report.html", "results.csv", "results.parquet",
                 "figures/divergence.pdf", "figures/divergence.png", "figures/metrics.pdf"):  # fmt: skip
        assert name in names
    assert "nucleus p=0.95" in shown
    assert "(full: .md .tex .csv)" in shown
    assert "signature" not in shown
    report = build_report([runs], tmp_path / "b", layout="full")
    assert sorted(p.relative_to(tmp_path / "b") for p in report.paths) == files
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


def test_another_layout_leaves_a_report_as_it_is(runs, tmp_path):
    words = [str(runs), "--outputs", str(tmp_path), "--no-figures", "--no-page", "--quiet"]
    assert main(words) == 0
    (own,) = (tmp_path / "reports").iterdir()
    before = (own / "tables/full.md").read_bytes()
    assert main([*words, "--layout", "decoders"]) == 0
    assert (own / "layouts/decoders/tables/decoders.md").is_file()
    assert main(words) == 0
    assert (own / "tables/full.md").read_bytes() == before
    assert [path.name for path in (own / "tables").glob("*.md")] == ["full.md"]
    assert (own / "layouts/decoders/tables/decoders.md").is_file()


def test_layout_options_and_layouts_of_a_grid(runs, tmp_path, capsys):
    more = ["--no-figures", "--no-page", "--out", str(tmp_path)]
    words = ["--layout", "decoders,lm", "--baseline", "greedy", "--compare", "mauve2021/table3"]
    assert main([str(runs), *words, *more]) == 0
    made = {p.name for p in (tmp_path / "tables").glob("*.md")}
    assert made == {"decoders.md", "lm.md", "significance.md", "significance-p.md", "compare-mauve2021-table3.md"}
    labels = [p.read_text().partition(r"\label{")[2].partition("}")[0] for p in (tmp_path / "tables").glob("*.tex")]
    assert len(set(labels)) == len(labels) == 5, "every table has a label of its own"
    assert main([str(runs), "--metrics", "mauve,zipf", "--width", "column", "--where", "decoder=nucleus", *more]) == 0
    assert "greedy" not in (tmp_path / "tables" / "full.csv").read_text()
    assert r"\begin{table}[tp]" in (tmp_path / "tables" / "full.tex").read_text()
    line = result("model", "m", {"m": 0.5}, direction="higher", intervals={"m": make_interval(0.4, 0.6)})
    write_run(tmp_path / "with", "nucleus", 0, results=[line])
    assert [_parse_width(text) for text in ("column", "page", "100")] == [219.0, 455.0, 100.0]
    assert main([str(tmp_path / "with"), "--intervals", *more[:3], str(tmp_path / "ci")]) == 0
    text = (tmp_path / "ci/tables/full.md").read_text()
    assert r"m ↑ \[95 % CI\]" in text
    assert "0.500 [0.400, 0.600]" in text
    node = {"title": "Mine", "metrics": ["mauve"]}
    report = build_report([runs], tmp_path, figures=False, page=False, **node)
    assert (report.tables[0].name, report.tables[0].title) == ("results", "Mine on docs, model=docs-s")
    capsys.readouterr()


def test_two_reports_side_by_side(runs, tmp_path, capsys):
    other = write_run(tmp_path, "nucleus", 0, options={"p": 0.5}, title="nucleus p=0.5").parents[1]
    out = tmp_path / "both"
    assert main([str(runs), str(other), "--side-by-side", "--no-page", "--out", str(out)]) == 0
    assert "| decoder.p | 0.95 | 0.5 |" in (out / "tables/settings.md").read_text()
    assert "nucleus p=0.5" in (out / "tables/side-by-side.md").read_text()


def test_texts_of_different_batches_are_a_warning_where_a_text_depends_on_its_batch(tmp_path, caplog):
    folders = []
    for size in (64, 3):
        run = write_run(tmp_path / str(size), "nucleus", 0)
        change_record(run, notes=[{"kind": "batches", "arguments": [f"bfloat16 on cuda, {size} at once"]}])
        folders.append(str(run.parents[1]))
    words = ["--side-by-side", "--no-page", "--out", str(tmp_path / "out")]
    assert main([*folders, *words]) == 0
    assert "texts may differ by their batches alone" in caplog.text
    caplog.clear()
    assert main([folders[0], str(tmp_path / "64"), *words]) == 0
    assert "batches alone" not in caplog.text


OWN = ("a", "b")


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_the_whole_folder_is_exchanged_with_what_is_kept(tmp_path):
    (tmp_path / "out/layouts/x").mkdir(parents=True)
    (tmp_path / "out/a").write_text("old")
    (tmp_path / "out/refs.bib").write_text("kept")
    handle = os.open(tmp_path / "out", os.O_RDONLY)
    with replace_folder(tmp_path / "out", OWN, ("layouts", "refs.bib")) as folder:
        (folder / "b").write_text("new")
    assert names(tmp_path / "out") == ["b", "layouts", "refs.bib"]
    assert os.fstat(handle).st_ino != (tmp_path / "out").stat().st_ino
    os.close(handle)
    assert names(tmp_path) == ["out"]


def test_what_somebody_keeps_there_stays_and_a_block_that_fails_changes_nothing(tmp_path):
    (tmp_path / "out/a").mkdir(parents=True)
    (tmp_path / "out/notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="a fault"), replace_folder(tmp_path / "out", OWN):
        raise ValueError("a fault")
    assert (names(tmp_path), names(tmp_path / "out")) == (["out"], ["a", "notes.txt"])
    with replace_folder(tmp_path / "out", OWN) as folder:
        (folder / "b").write_text("new")
    assert names(tmp_path / "out") == ["b", "notes.txt"]
    with pytest.raises(StoreError, match="cannot write"), replace_folder(tmp_path / "out/b/out", OWN):
        pass


def test_a_folder_that_a_killed_process_left_is_deleted(tmp_path):
    name = temporary_files.create_temporary_name(".out")
    tag = temporary_files.build_process_tag()
    dead = name.replace(tag, tag.rpartition("-")[0] + "-1")  # as of a process that started at another time
    (tmp_path / dead / "new").mkdir(parents=True)
    with replace_folder(tmp_path / "out", OWN) as folder:
        (folder / "a").write_text("new")
    assert names(tmp_path) == ["out"]
