"""The paper: the sections and the length that the Journal of Open Source Software asks for, its figures and citations."""

import re

from tests.helpers import ROOT

PAPER = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
SECTIONS = {
    "Summary", "Statement of need", "State of the field", "Software design", "Research impact statement",
    "AI usage disclosure", "Acknowledgements", "References",
}  # fmt: skip


def test_it_has_the_required_sections_and_length():
    _, front, body = PAPER.split("---\n", 2)
    assert set(re.findall(r"^# (.+)$", body, re.MULTILINE)) >= SECTIONS
    assert 750 <= len(body.split()) <= 1750
    assert "bibliography: paper.bib" in front


def test_every_citation_has_an_entry_and_every_entry_is_cited():
    entries = (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8")
    keys = re.findall(r"^@\w+\{([^,]+),", entries, re.MULTILINE)
    cited = {key for group in re.findall(r"\[(@[^\]]+)\]", PAPER) for key in re.findall(r"@([\w-]+)", group)}
    assert len(keys) == len(set(keys))
    assert cited == set(keys)


def test_its_figures_exist():
    figures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", PAPER)
    assert figures
    assert all((ROOT / "paper" / path).is_file() for path in figures)


def test_its_counts_are_those_of_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = {
        title: len(re.findall(r"`\w+`", row))
        for title, row in re.findall(r"^\| \*\*(\w+)\*\* \|(.*)$", readme, re.MULTILINE)
    }
    assert f"{rows['Metrics']} metrics, {rows['Decoders']} decoders and {rows['Tasks']} tasks" in " ".join(
        PAPER.split()
    )
