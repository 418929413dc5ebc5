"""The page is one file that needs nothing else, and shows text as text."""

import base64
import hashlib
import json
import re

from openended.harness.report.build import make_tables
from openended.harness.report.page.page import find_caption, list_settings, write_page
from openended.harness.report.page.sources import collect_page_texts
from openended.harness.results import Layout, read_results
from tests.harness.report.synthetic import seal_record, write_run

EVIL = "<script>alert(1)</script>"


def part_of(page, name):
    """A part of the page's data, as a browser reads it."""
    found = re.search(rf'<script type="application/json" id="part-{name}">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1]) if found else None


def written(results, tmp_path, figures=(), **layout):
    (path,) = write_page(results, make_tables(results, Layout(**layout), "t"), figures, tmp_path / "report.html")
    return path.read_text(encoding="utf-8")


def test_page_is_escaped_self_contained_and_holds_every_text(tmp_path):
    write_run(tmp_path, "nucleus", 0, texts=True, title=f"nucleus {EVIL}")
    write_run(tmp_path, "greedy", None, texts=True)
    picture = tmp_path / "a_b.png"
    # The head of a PNG that is 1400 pixels wide: both columns of a page, at 200 dots an inch.
    picture.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (1400).to_bytes(4))
    page = written(read_results([tmp_path]), tmp_path, [picture], title=f"T {EVIL}")
    assert EVIL not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert page.count("<script>") == 1
    assert page.count("<script") == page.count("</script>")
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", page)
    assert '<figure class="page"' in page
    assert 'width="980"' in page
    assert "data:image/png;base64,iVBORw" in page
    sources = part_of(page, "contents")["sources"]
    assert [(one["system"], one["seed"], one["n"]) for one in sources] == [
        ("human", "", 6), ("greedy", "–", 6), (f"nucleus {EVIL}", "0", 6),
    ]  # fmt: skip
    assert part_of(page, "texts-0-0")["text"][0] == " what people wrote & text 0 </script>"
    assert part_of(page, "texts-1-0")["text"][5] == " greedy wrote & text 5 </script>"
    assert part_of(page, "ids-0")[0] == "docs/000000"


def test_the_policy_names_what_may_run(tmp_path):
    write_run(tmp_path, "greedy", None, texts=True)
    page = written(read_results([tmp_path]), tmp_path)
    for kind in ("script", "style"):
        inside = re.search(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in page
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "file:" not in policy  # all of it is inside


def test_sources_are_named_like_the_rows_and_every_seed_is_there(tmp_path):
    write_run(tmp_path, "nucleus", 0, texts=True)
    write_run(tmp_path, "nucleus", 1, texts=True)
    write_run(tmp_path, "greedy", None, texts=True)
    for rows in tmp_path.glob("store/human/*/*/human.arrow"):  # as a run leaves it: beside the halves of the ceiling
        (rows.parent / "ceiling_a.arrow").write_bytes(b"not the human side")
    shelf = collect_page_texts([("", read_results([tmp_path]))])
    assert shelf.systems == ("human", "greedy", "nucleus p=0.95")
    assert [(s.system, s.seed) for s in shelf.sources] == [
        ("human", ""), ("greedy", "–"), ("nucleus p=0.95", "0"), ("nucleus p=0.95", "1"),
    ]  # fmt: skip
    assert [side.name for side in shelf.sides] == ["docs"]


def test_sides_of_one_task_are_told_apart(tmp_path):
    write_run(tmp_path, "greedy", None, texts=True)
    write_run(tmp_path, "greedy", None, texts=True, length=32)
    shelf = collect_page_texts([("", read_results([tmp_path]))])
    assert {side.name for side in shelf.sides} == {"docs, length=32", "docs, length=96"}


def test_runs_without_texts_make_a_page_without_a_reader(tmp_path):
    write_run(tmp_path, "greedy", None)
    results = read_results([tmp_path])
    assert collect_page_texts([("", results)]).sources == ()
    page = written(results, tmp_path)
    assert 'id="texts"' not in page
    assert 'id="figures"' not in page


def test_the_page_says_settings_date_and_command(tmp_path):
    folder = write_run(tmp_path, "greedy", None, texts=True, created="2026-02-03T10:20:30+00:00")
    record = json.loads((folder / "record.json").read_text())
    told = {k: v for k, v in record.items() if k != "digest"}
    seal_record(folder, told | {"command": ["/x/openended", "decoder=greedy", "a=<b>"]})
    results = read_results([tmp_path])
    page = written(results, tmp_path)
    head = page[page.index('<h2 id="about"') :]
    assert "Newest run: 2026-02-03 10:20 UTC." in head
    assert "Command: openended decoder=greedy &#39;a=&lt;b&gt;&#39;" in head
    assert "<tr><td>max_new_tokens</td><td>96</td></tr>" in head


def test_settings_that_were_swept_come_first(tmp_path):
    for p in (0.5, 0.9):
        write_run(tmp_path, "nucleus", 0, options={"p": p}, title=f"nucleus p={p}")
    told = list_settings(read_results([tmp_path]).runs)
    assert told[0] == ("decoder.p", "0.5, 0.9")
    assert ("task", "docs") in told
    assert "" not in dict(told).values()


def test_figures_say_how_to_read_them():
    assert "same HUSE" in find_caption("huse-parts-docs")[1]
    assert "classifier" in find_caption("huse-GPT-2")[1]
    assert "opposite order" in find_caption("metric-agreement")[1]
    assert find_caption("huse-GPT-2")[0] == "Human and model texts: GPT-2"
    assert find_caption("zipf")[0] == "Rank and frequency of tokens"
    assert find_caption("of-a_plugin") == ("of-a plugin", "")
