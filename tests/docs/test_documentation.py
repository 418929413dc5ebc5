"""The documentation: examples run, links resolve, words are plain; the paper has what its journal asks for."""

import contextlib
import importlib
import io
import os
import re

import pytest
import yaml

from openended.harness.core import list_bundled_choices, load_members
from tests.helpers import ROOT

DOCS = ROOT / "docs"
METRICS = sorted(set(load_members("metric")) & set(list_bundled_choices("metric")))
PAGES_OF_METRICS = sorted((DOCS / "metrics").glob("*.md"))


@pytest.mark.parametrize("path", PAGES_OF_METRICS, ids=lambda path: path.stem)
def test_the_example_on_the_page_of_a_metric_runs(path):
    page = path.read_text(encoding="utf-8")
    assert page.startswith("# ")
    missing = [part for part in ("**Measures:**", "**Does not measure:**", "```python exec") if part not in page]
    assert not missing, f"{path}: no {', '.join(missing)}; length.md has all parts"
    (code,) = re.findall(r"```python exec[^\n]*\n(.*?)```", page, flags=re.DOTALL)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, path.name, "exec"), {})
    assert output.getvalue().strip(), "the example prints nothing"


def test_only_existing_metrics_have_pages():
    assert {path.stem for path in PAGES_OF_METRICS} <= set(METRICS)


def find_links(text: str) -> list[str]:
    """Return the relative links of a page, without the anchors."""
    return re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", re.sub(r"(?ms)^```.*?^```|`[^`\n]*`", "", text))


def test_links_of_a_checkout_resolve():
    folders = ("docs", "conf", "harness", "metrics", "tasks", "paper", "scripts", "tests", "integrations")
    pages = [*ROOT.glob("*.md"), *(page for folder in folders for page in (ROOT / folder).rglob("*.md"))]
    links = [(page, target) for page in pages for target in find_links(page.read_text(encoding="utf-8"))]
    assert len(links) > 100
    assert not [f"{page} → {target}" for page, target in links if not (page.parent / target).exists()]


def test_pages_of_the_site_are_generated_and_their_links_resolve():
    pages = importlib.import_module("scripts.site.generate").make_pages()
    assert {f"metrics/{name}.md" for name in METRICS} | {"metrics/index.md", "published.md"} <= pages.keys()
    assert "mauve" in pages["published.md"].lower()
    targets = [
        (name, os.path.normpath(os.path.join(os.path.dirname(name), target)))
        for name, text in pages.items() for target in find_links(text)
    ]  # fmt: skip
    assert not [f"{name} → {path}" for name, path in targets if path not in pages and not (DOCS / path).exists()]


def test_the_page_of_a_metric_without_a_written_one_is_the_docstring_of_its_module(tmp_path, monkeypatch):
    site = importlib.import_module("scripts.site.generate")
    monkeypatch.setattr(site, "DOCS", tmp_path)
    page = site.format_metric_page("length", load_members("metric")["length"])
    assert page.startswith("# length\n\nLength of the texts, and the share of texts cut at the length limit.\n")
    assert "| range | 0 to ∞; `hit_limit`: 0 to 1 |" in page


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs(tmp_path):
    nbclient = pytest.importorskip("nbclient")
    import nbformat

    notebook = nbformat.read(DOCS / "notebook.ipynb", 4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "the notebook is kept without outputs"
    nbclient.NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [out.get("text", "") for cell in notebook.cells for out in cell.get("outputs", [])]
    assert any("MAUVE" in text for text in outputs)


# Pattern → what to write instead.
PHRASES = yaml.safe_load((ROOT / "tests/docs/phrases.yaml").read_text(encoding="utf-8"))
COPIED = re.compile(r"<!-- (METRICS|DECODERS|TASKS) -->.*?<!-- /\1 -->", flags=re.DOTALL)  # docstrings of the code


def read_prose() -> dict[str, str]:
    """Return the text of every page, without code and without what is copied from docstrings."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    texts = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in pages}
    plain = {name: COPIED.sub("", text) for name, text in texts.items()}
    return {name: re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL) for name, text in plain.items()}


PAGES = read_prose()


@pytest.mark.parametrize("pattern", PHRASES)
def test_the_documentation_avoids_a_phrase(pattern):
    matches = [
        f"{name}: {match[0]!r}"
        for name, text in PAGES.items()
        for match in re.finditer(pattern, text, flags=re.IGNORECASE)
    ]
    assert not matches, f"write {PHRASES[pattern]}:\n" + "\n".join(matches)


def test_comments_of_configurations_avoid_the_phrases_too():
    files = list((ROOT / "conf").rglob("*.yaml"))
    comments = {p: " ".join(re.findall(r"#(.*)", p.read_text(encoding="utf-8"))) for p in files}
    matches = [
        f"{path.relative_to(ROOT)}: {match[0]!r} (write {meaning})"
        for path, text in comments.items()
        for pattern, meaning in PHRASES.items()
        for match in re.finditer(pattern, text, flags=re.IGNORECASE)
    ]
    assert not matches, "\n".join(matches)


def test_every_term_of_the_glossary_has_two_sentences():
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    entries = re.findall(r"^\*\*(.+?)\.?\*\* (.*?)(?=\n\n|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    terms = {term for term, _ in entries}
    assert len(entries) >= 30
    assert {
        "MAUVE",
        "Divergence frontier",
        "Quantization",
        "Gen-PPL",
        "Human–human reference",
        "Signature",
        "Artifact",
    } <= terms
    wrong = [term for term, body in entries if len(re.findall(r"[.!?](?:\s|$)", body.replace("e.g.", ""))) != 2]
    assert not wrong, f"write two sentences for {', '.join(wrong)}"


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
