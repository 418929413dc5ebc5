"""The page is one file that needs nothing else, and shows text as text."""

from __future__ import annotations

import json
import re

from openended.harness.report.build import make_tables
from openended.harness.report.page.captions import caption_of
from openended.harness.report.page.page import collect_samples, write_page
from openended.harness.report.page.settings import settings_of
from openended.harness.report.read.frame import read_results
from openended.harness.report.read.layout import Layout
from tests.harness.report.synthetic import seal_record, write_run

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


def test_the_page_says_settings_date_and_command_and_when_nothing_is_found(tmp_path):
    folder = write_run(tmp_path, "greedy", None, texts=True, created="2026-02-03T10:20:30+00:00")
    record = json.loads((folder / "record.json").read_text())
    told = {k: v for k, v in record.items() if k != "digest"}
    seal_record(folder, told | {"command": ["/x/openended", "decoder=greedy", "a=<b>"]})
    results = read_results([tmp_path])
    page = write_page(results, make_tables(results, Layout(), "t"), [], tmp_path / "report.html").read_text()
    head = page[: page.index('<h2 id="tables">')]
    assert "Newest run: 2026-02-03 10:20 UTC." in head
    assert "Command: openended decoder=greedy &#39;a=&lt;b&gt;&#39;" in head
    assert "<tr><td>max_new_tokens</td><td>96</td></tr>" in head
    assert re.search(r'<p id="none"[^>]*hidden>none found</p>', page)


def test_settings_that_were_swept_come_first(tmp_path):
    for p in (0.5, 0.9):
        write_run(tmp_path, "nucleus", 0, options={"p": p}, title=f"nucleus p={p}")
    told = settings_of(read_results([tmp_path]).runs)
    assert told[0] == ("decoder.p", "0.5, 0.9")
    assert ("task", "docs") in told
    assert "" not in dict(told).values()


def test_figures_say_how_to_read_them():
    assert "same HUSE" in caption_of("huse-parts-docs")
    assert "classifier" in caption_of("huse-GPT-2")
    assert "opposite order" in caption_of("metric-agreement")
    assert caption_of("of-a-plugin") == ""
