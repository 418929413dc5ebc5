"""The paragraph on evaluation names what the records hold and cites what it names."""

import re
import shutil
import subprocess

import pytest

from openended.harness.core.registry import list_choices
from openended.harness.report.cli import main
from openended.harness.report.methods import CITED, read_entries
from tests.harness.report.synthetic import quickstart


@pytest.fixture
def folder(tmp_path):
    runs = quickstart(tmp_path / "grid", decoders=("greedy", "nucleus"))
    assert main([str(runs), "--methods", "--no-figures", "--no-page", "--out", str(tmp_path / "report")]) == 0
    return tmp_path / "report"


def test_the_settings_are_said_and_cited(folder):
    text = (folder / "methods.tex").read_text()
    assert r"greedy and nucleus p=0.95~\citep{holtzman2020curious}" in text
    assert r"mauve~\citep{pillutla2021mauve}" in text
    entries = (folder / "references.bib").read_text()
    cited = {key for group in re.findall(r"\\citep\{([^}]*)\}", text) for key in group.split(",")}
    assert {line.partition("{")[2].partition(",")[0] for line in entries.splitlines()} == cited


def test_every_key_has_an_entry_and_every_name_exists():
    for keys in CITED.values():
        for key in keys.split(","):
            entry = read_entries()[key]
            assert entry.count("{") == entry.count("}")
            assert re.search(r"year=\{(19|20)\d\d\}", entry)
    known = {name for group in ("task", "decoder", "metric") for name in list_choices(group)}
    assert set(CITED) - known <= {"mdlm", "remdm", "first_hitting", "duo", "llada"}


@pytest.mark.skipif(shutil.which("pdflatex") is None or shutil.which("bibtex") is None, reason="no TeX is installed")
def test_it_compiles(folder):
    head, end = (
        r"\documentclass{article}\usepackage{natbib}\begin{document}",
        r"\bibliography{references}\end{document}",
    )
    body = f"{head}\\input{{methods}}\\bibliographystyle{{plainnat}}{end}"
    (folder / "paper.tex").write_text(body)
    for words in (["pdflatex", "-interaction=batchmode", "paper"], ["bibtex", "paper"]):
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout
    assert "Warning" not in (folder / "paper.blg").read_text().replace("Warning--empty", "")


def test_a_report_on_an_axis_that_no_run_has_is_refused(tmp_path, capsys):
    runs = quickstart(tmp_path / "grid", decoders=("greedy",))
    assert main([str(runs), "--rows", "decodr", "--out", str(tmp_path / "report")]) == 2
    assert "no axis 'decodr' in these runs; did you mean 'decoder'?" in capsys.readouterr().err


def test_the_checklist_says_what_is_known_and_leaves_the_rest(tmp_path):
    runs = quickstart(tmp_path / "grid", decoders=("greedy", "nucleus"))
    assert main([str(runs), "--checklist", "--no-figures", "--no-page", "--out", str(tmp_path / "report")]) == 0
    text = (tmp_path / "report" / "checklist.md").read_text()
    assert len(re.findall(r"^## \d\. ", text, re.MULTILINE)) == 8
    assert "- Decoders: decoder greedy, nucleus" in text
    assert "- Whether models or scorers were trained on the test texts: *to be written by the author*" in text
