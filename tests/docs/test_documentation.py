"""Run the examples of the documentation and check the links between its pages."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from openended.harness.core import list_bundled_choices, load_members

DOCS = Path(__file__).parents[2] / "docs"
METRICS = sorted(set(load_members("metric")) & set(list_bundled_choices("metric")))
GENERATED = ("metrics/", "decoders/", "tasks/", "changelog.md", "contributing.md", "security.md", "published.md")


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_a_page_whose_example_runs(name):
    page = (DOCS / "metrics" / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith("# ")
    assert "**Measures:**" in page
    assert "**Does not measure:**" in page
    (code,) = re.findall(r"```python exec[^\n]*\n(.*?)```", page, flags=re.DOTALL)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, f"{name}.md", "exec"), {})
    assert output.getvalue().strip(), "the example prints nothing"


def test_only_existing_metrics_have_pages():
    assert {p.stem for p in (DOCS / "metrics").glob("*.md")} == set(METRICS)


def test_links_between_pages_resolve():
    broken = []
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8")):
            target_path = (page.parent / target).resolve().relative_to(DOCS.resolve()).as_posix()
            if not (page.parent / target).exists() and not target_path.startswith(GENERATED):
                broken.append(f"{page.relative_to(DOCS)} → {target}")
    assert not broken


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
