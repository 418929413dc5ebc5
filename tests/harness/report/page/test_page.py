"""The page is one file that needs nothing else, and shows text as text."""

from __future__ import annotations

import re

from openended.harness.report.build import make_tables
from openended.harness.report.page.page import collect_samples, write_page
from openended.harness.report.read.frame import read_results
from openended.harness.report.read.layout import Layout
from tests.harness.report.synthetic import write_run

EVIL = "<script>alert(1)</script>"


def test_page_is_escaped_self_contained_and_shows_samples(tmp_path):
    write_run(tmp_path, "nucleus", 0, texts=True, title=f"nucleus {EVIL}")
    write_run(tmp_path, "greedy", None, texts=True)
    results = read_results([tmp_path])
    picture = tmp_path / "a_b.png"
    # The head of a PNG that is 1400 pixels wide: both columns of a page, at 200 dots an inch.
    picture.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (1400).to_bytes(4))
    path = write_page(
        results, make_tables(results, Layout(title=f"T {EVIL}"), "t"), [picture], tmp_path / "report.html"
    )
    page = path.read_text(encoding="utf-8")
    assert EVIL not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert page.count("<script>") == page.count("</script>") == 1
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", page)
    assert '<figure class="page">' in page
    assert 'width="980"' in page
    assert "data:image/png;base64,iVBORw" in page
    assert "what people wrote" in page
    assert "greedy wrote" in page
    assert page.count('class="sample"') == 6


def test_samples_are_named_like_the_rows_and_human_comes_first(tmp_path):
    write_run(tmp_path, "nucleus", 0, texts=True)
    write_run(tmp_path, "nucleus", 1, texts=True)
    write_run(tmp_path, "greedy", None, texts=True)
    for rows in tmp_path.glob("store/human/*/*/human.arrow"):  # as a run leaves it: beside the halves of the ceiling
        (rows.parent / "ceiling_a.arrow").write_bytes(b"not the human side")
    systems, samples = collect_samples(read_results([tmp_path]))
    assert systems == ["human", "greedy", "nucleus p=0.95"]
    assert samples[0].id == "docs/000000"
    assert [t.system for t in samples[0].texts] == systems
    assert samples[0].texts[0].text == " what people wrote & text 0 </script>"


def test_runs_without_texts_make_a_page_without_a_viewer(tmp_path):
    write_run(tmp_path, "greedy", None)
    results = read_results([tmp_path])
    assert collect_samples(results) == ([], [])
    page = write_page(results, make_tables(results, Layout(), "t"), [], tmp_path / "report.html").read_text()
    assert "<script>" not in page
    assert 'id="figures"' not in page
