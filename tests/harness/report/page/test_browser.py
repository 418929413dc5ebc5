"""The page in a real browser: every control, hostile texts, keys, links, widths; no request, no error, no fault of access."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from openended.harness.report import build_report
from openended.harness.report.page import parts
from openended.harness.report.page.page import write_page
from openended.harness.report.side_by_side import build_side_by_side
from openended.harness.report.tables.frame import make_quantity
from openended.harness.results import read_results
from tests.harness.report.page.made import COUNT, HOSTILE, make_report, text_of
from tests.harness.report.synthetic import print_rows, result, write_run

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
AXE = os.environ.get("OPENENDED_AXE", "")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium")


def names(page):
    """Ids of the first examples, in the order in view."""
    page.locator(".example h3").first.wait_for()
    return page.locator(".example h3").all_inner_texts()


def reading(page):
    """Texts are drawn where somebody looks."""
    page.locator("#texts").evaluate("e => e.scrollIntoView()")
    page.locator(".example").first.wait_for()


def control(page, name):
    return page.locator(".controls").get_by_label(name, exact=True)


def settled(page, status):
    page.wait_for_function("told => document.querySelector('.status').textContent === told", arg=status)


@pytest.fixture(scope="package")
def runs(tmp_path_factory):
    return make_report(tmp_path_factory.mktemp("grid"))


@pytest.fixture(scope="package")
def report(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    build_report([runs], folder)
    return folder / "report.html"


@pytest.fixture(scope="module")  # Playwright's event loop runs until the end: tests of other modules need their own
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        made = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture(scope="module")
def shared_tab(browser):
    """One tab for all; what it complains of and asks for is kept."""
    context = browser.new_context(accept_downloads=True)
    context.set_default_timeout(5_000)
    tab = context.new_page()
    tab.faults, tab.asked = [], []
    tab.on("console", lambda m: tab.faults.append(m.text) if m.type in ("error", "warning") else None)
    tab.on("pageerror", lambda e: tab.faults.append(str(e)))
    tab.on("request", lambda r: tab.asked.append(r.url))
    yield tab
    context.close()


@pytest.fixture
def blank_tab(shared_tab):
    """The tab, blank."""
    shared_tab.goto("about:blank")
    shared_tab.set_viewport_size({"width": 1280, "height": 900})
    shared_tab.faults.clear()
    shared_tab.asked.clear()
    return shared_tab


@pytest.fixture
def page(blank_tab, report):
    blank_tab.goto(report.as_uri())
    reading(blank_tab)
    blank_tab.faults.clear()
    blank_tab.asked.clear()
    yield blank_tab
    assert blank_tab.faults == []
    assert [url for url in blank_tab.asked if not url.startswith(("blob:", "data:"))] == []


pytestmark = needs_browser


@pytest.mark.slow
def test_hostile_texts_are_shown_and_nothing_of_them_runs(page):
    shown = page.locator(".example .text[data-system=greedy] pre").all_text_contents()
    for text in HOSTILE[:4]:
        assert text in shown
    assert page.evaluate("globalThis.ran") is None
    assert page.locator(".example img, .example script, .example b").count() == page.locator(".facts b").count()
    long = page.locator(".example").nth(4).locator("[data-system=greedy]")
    assert len(long.locator("pre").inner_text()) < 5_000
    long.get_by_role("button", name="4000 of 100010 characters").click()
    assert len(long.locator("pre").inner_text()) > 40_000
    for name, content in (("script", "textContent: 'globalThis.ran = 3'"), ("img", "src: 'https://example.org/x.png'")):
        page.evaluate(f"document.body.append(Object.assign(document.createElement('{name}'), {{ {content} }}))")
    page.wait_for_timeout(50)
    assert page.evaluate("globalThis.ran") is None
    assert any("script-src" in fault for fault in page.faults)
    assert any("img-src" in fault for fault in page.faults)
    page.faults.clear()
    page.asked.clear()


def test_words_phrases_and_stop_reasons_find_texts_that_are_downloaded_as_json_lines(page):
    assert page.locator(".status").inner_text() == f"{COUNT} examples"
    page.get_by_label("find in prompts and texts").fill('"on the mat" again -tree')
    settled(page, f"1 of {COUNT} examples")
    assert names(page) == ["docs/000005"]
    assert "on the mat" in page.locator(".example mark").all_text_contents()
    page.get_by_label("find in prompts and texts").fill("no such word")
    settled(page, "no matches")
    page.get_by_role("button", name="clear").click()
    settled(page, f"{COUNT} examples")
    control(page, "Stop reason").select_option("length")
    settled(page, f"{COUNT // 4} of {COUNT} examples")
    assert names(page)[:2] == ["docs/000000", "docs/000004"]
    page.get_by_role("button", name="clear").click()
    page.get_by_label("find in prompts and texts").fill("mat again")
    settled(page, f"1 of {COUNT} examples")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="download").click()
    rows = [json.loads(line) for line in Path(waiting.value.path()).read_text("utf-8").splitlines()]
    assert {row["system"] for row in rows} == {"human", "greedy", "nucleus p=0.95"}
    mine = next(row for row in rows if row["system"] == "greedy")
    assert (mine["example_id"], mine["text"], mine["stop"]) == ("docs/000005", HOSTILE[5], "eos")
    assert mine["gen_ppl.gen_ppl"] == 95


def test_examples_are_sorted_by_every_order(page):
    control(page, "by").select_option("gen_ppl.gen_ppl")
    control(page, "of").select_option("greedy")
    for order, first in (("low", COUNT - 1), ("high", 0), ("task", 0)):
        control(page, "order").select_option(order)
        page.wait_for_function(f"() => document.querySelector('.example h3')?.textContent === 'docs/{first:06d}'")
    control(page, "order").select_option("random")
    page.get_by_role("button", name="shuffle again").click()
    assert control(page, "against").input_value() == ""
    control(page, "by").select_option("words")
    control(page, "order").select_option("differ")
    assert control(page, "against").input_value() == "human"
    # The text of one long word has as many words less than people's as no other; see it by the numbers themselves.
    page.wait_for_function("() => document.querySelectorAll('.example').length > 3")
    gaps = page.evaluate(
        "[...document.querySelectorAll('.example')].slice(0, 5).map(e => ['greedy', 'human'].map(n => "
        "Number(e.querySelector(`[data-system=${n}] .facts b`).textContent.split(' ').at(-1))))"
    )
    sizes = [abs(a - b) for a, b in gaps]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 0
    for order in ("best", "worst", "above", "below"):
        control(page, "order").select_option(order)
        settled(page, f"{COUNT} examples")


def test_repetition_surprise_and_a_baseline_are_marked_and_seeds_samples_and_systems_chosen(page):
    control(page, "repetition").check()
    sixth = page.locator(".example").nth(5).locator("[data-system=greedy]")
    sixth.locator(".loop").first.wait_for()
    assert sixth.locator(".loop").all_text_contents() == ["again and again and again"]
    assert sixth.locator(".gram").all_text_contents() == ["the cat sat on the mat"]
    control(page, "surprise").check()
    page.locator(".example .s5").first.wait_for()
    assert "nats" in page.locator(".example .s5").first.get_attribute("title")
    control(page, "Fade text shared with").select_option("human")
    page.locator(".same").first.wait_for()
    tenth = page.locator(".example").nth(6).locator("[data-system=greedy]")
    shared = "".join(tenth.locator(".same").all_text_contents())
    mine, theirs = text_of("greedy", 0, 0, 6), text_of("human", 0, 0, 6)
    assert mine.startswith(shared)
    assert theirs.startswith(shared)
    assert mine[len(shared)] != theirs[len(shared)]
    control(page, "seed").select_option("1")
    control(page, "sample").select_option("1")
    shown = page.locator("[data-system='nucleus p=0.95']", has_text=text_of("nucleus", 1, 1, 3).strip())
    shown.wait_for()
    assert shown.locator("h4 small").inner_text() == "seed 1"
    control(page, "human").uncheck()
    page.wait_for_function("() => !document.querySelector('.example [data-system=human]')")


def test_keys_links_and_copies_lead_to_a_text(page, report):
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.wait_for_function("() => location.hash !== ''")
    assert page.evaluate("location.hash").startswith("#docs/docs%2F000000/")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "find"
    page.keyboard.press("Escape")
    page.evaluate("location.hash = '#docs/docs%2F000033/greedy'")
    page.locator(".example.here h3", has_text="docs/000033").wait_for()
    page.wait_for_function("() => Math.abs(document.querySelector('.example.here').getBoundingClientRect().top) < 120")
    page.locator(".example.here [data-system=greedy]").get_by_role("button", name="copy").click()
    page.locator(".example.here").get_by_role("button", name="copied").wait_for()
    page.locator(".example.here [data-system=greedy]").get_by_role("button", name="nearest human text").click()
    page.wait_for_function("() => !location.hash.includes('000033')")
    page.evaluate("location.hash = '#docs/nowhere/greedy'")
    settled(page, "no text docs nowhere in this report")


@pytest.mark.slow
def test_tables_sort_hide_and_tell_a_cells_story(page):
    table = page.locator("table.data").first
    heading = table.get_by_role("button", name="MAUVE")
    rows = lambda: table.locator("tbody tr:not(.human) th").all_inner_texts()  # noqa: E731
    before = rows()
    heading.click()
    page.wait_for_function("() => document.querySelector('table.data th[aria-sort=descending]')")
    assert rows() == ["nucleus p=0.95", "greedy"]
    heading.click()
    page.wait_for_function("() => document.querySelector('table.data th[aria-sort=ascending]')")
    assert rows() == ["greedy", "nucleus p=0.95"]
    heading.click()
    page.wait_for_function("() => !document.querySelector('table.data th[aria-sort]')")
    assert rows() == before
    page.locator(".columns-menu summary").first.click()
    page.locator(".columns-menu").first.get_by_label("MAUVE").uncheck()
    assert not heading.is_visible()
    page.locator(".columns-menu").first.get_by_label("MAUVE").check()
    cell = table.locator("tbody tr", has_text="nucleus").locator("td button").first
    cell.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.closest('td').cellIndex") == 3
    cell.click()
    story = page.locator("#story")
    told = story.inner_text()
    assert re.search(r"0: .*, 1: ", told)
    assert "signature" in told
    assert r"\\" in story.locator("pre.tex").last.inner_text()
    story.get_by_role("button", name="read its texts").click()
    page.locator(".example.here").wait_for()
    cell.click()
    page.keyboard.press("Escape")
    assert not story.is_visible()


def test_rows_under_a_heading_without_a_name_stay_in_their_order(blank_tab, runs, tmp_path):
    rows = [(label, "metric", (0.5,), 0, False, ()) for label in ("Zipf", "MAUVE")]
    table = print_rows([make_quantity("m", "m", "M")], rows, heads=("",), show_seeds=False)
    (path,) = write_page(read_results([runs]), [table], [], tmp_path / "page.html", leaderboard=True)
    blank_tab.goto(path.as_uri())
    labels = blank_tab.locator("table.data tbody th")
    assert labels.all_inner_texts() == ["Zipf", "MAUVE"]
    blank_tab.locator("thead button").first.evaluate("button => button.click()")
    blank_tab.locator("th[aria-sort=descending]").wait_for()
    blank_tab.reload()
    blank_tab.locator("th[aria-sort=descending]").wait_for()


def test_figures_answer_and_share_their_colors_with_tables_and_texts(page):
    colors = page.evaluate("""() => ['table.data tbody th', '.text h4', '.systems label'].map(part => {
      const element = [...document.querySelectorAll(part)].find(e => e.textContent.includes('nucleus'));
      return element.querySelector('.swatch path').getAttribute('stroke');
    })""")
    series = page.locator("g[data-series^='nucleus']").evaluate_all("all => all.map(e => e.dataset.color)")
    assert set(series) == set(colors)
    assert len(set(colors)) == 1
    figure = page.locator("figure").first
    drawn = figure.locator(".panels svg").first
    drawn.focus()
    page.keyboard.press("ArrowRight")
    assert any(word in figure.locator(".tip").inner_text() for word in ("greedy", "nucleus"))
    figure.locator(".panels svg").nth(1).focus()
    page.keyboard.press("ArrowRight")
    assert any(word in figure.locator(".tip").inner_text() for word in ("greedy", "nucleus"))
    page.keyboard.press("Enter")
    assert page.locator("#story").is_visible()
    page.locator("#story").get_by_role("button", name="close").click()
    mark = drawn.locator("circle").first
    mark.scroll_into_view_if_needed()
    mark.hover(force=True)
    assert ":" in figure.locator(".tip").inner_text()
    assert figure.locator("details.still img").count() == 1
    button = page.locator(".legend button").first
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert page.locator("g[data-series][hidden]").count() == 1
    left = page.evaluate("""() => {
      const axis = { limits: [0, 1], kind: 'linear', label: '', ticks: [] };
      const empty = { title: '', series: [], rules: [], bands: [], ellipses: [], x: axis };
      const panel = drawPanel({ ...empty, y: { ...axis, ticks: [[0, 'WWWWWWWWWW num_beams=4']] } }, SEVERAL, $('p'));
      document.body.append(panel);
      return $('text', panel).getBBox().x;
    }""")
    assert left >= 0, "a long name is not cut"
    cuts = page.evaluate("""() => {
      const axis = { limits: [0, 1], kind: 'linear', label: '', ticks: [] };
      const band = { points: [[0, -1], [1, -1], [1, 2], [0, 2]], color: '#0072b2' };
      const series = { label: 'a', points: [[0, 0], [1, 1]], color: '#0072b2', marker: 'o', line: '-', width: 1.2 };
      const panel = drawPanel({ title: '', series: [series], rules: [], bands: [band], ellipses: [], x: axis, y: axis }, SEVERAL, $('p'));
      return ['path[data-color]', '[data-series] path', 'circle'].map(selector => {
        const clip = panel.querySelector(selector).closest('[clip-path]').getAttribute('clip-path');
        const box = $(`${clip.slice(4, -1)} rect`, panel);
        return [Number(box.getAttribute('y')), Number(box.getAttribute('height'))];
      });
    }""")
    assert cuts == [[26, 208], [26, 208], [20, 220]], "bands and lines end at the axes, markers on them are whole"


def test_why_names_cells_and_missed_texts_and_leads_to_them(page):
    body = page.locator("#why-body")
    body.locator("details").first.wait_for()
    sentence = body.locator("p.finding").inner_text()
    share = "only 10 % of its texts fall into a cell with 30 % "
    assert re.match(rf"greedy has MAUVE 0\.\d+(, .* ceiling of \d\.\d+)?: {share}", sentence)
    names_shown = body.locator("option").all_inner_texts()
    assert names_shown[0] == "greedy", "without metric, options or seed, which are all alike"
    axis, bar = (body.locator(part).first.bounding_box() for part in (".axis", "svg.bar"))
    assert bar["x"] == pytest.approx(axis["x"], abs=1)
    widths = body.locator("svg.bar rect").evaluate_all("all => all.map(e => Number(e.getAttribute('width')))")
    assert widths == pytest.approx([100, 100 / 3])  # 30 % and 10 % on an axis that ends at 30 %
    assert "more human than model text" in body.locator("summary").first.inner_text()
    assert "12 human texts that no model text is near to" in body.inner_text()
    body.locator("summary").first.click()
    body.locator("li button", has_text="docs/000007").first.click()
    page.locator(".example.here h3", has_text="docs/000007").wait_for()


@pytest.mark.slow
def test_the_page_fits_a_phone_where_filters_fold_and_has_no_serious_fault_of_access(page):
    order = control(page, "order")
    more = page.get_by_role("button", name="More filters")
    assert order.is_visible()
    assert not more.is_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not order.is_visible()
    assert page.get_by_label("find in prompts and texts").is_visible()
    more.click()
    assert order.is_visible()
    assert more.get_attribute("aria-expanded") == "true"
    order.select_option("high")  # the redrawn controls stay open
    assert order.is_visible()
    more.click()
    assert not order.is_visible()
    more.click()
    if not AXE:
        pytest.skip("axe-core is not here: npm pack axe-core, and OPENENDED_AXE=…/axe.min.js")
    control(page, "surprise").check()
    page.evaluate(Path(AXE).read_text("utf-8"))
    for scheme, rules in (("light", None), ("dark", ["color-contrast"])):  # only the colors differ in the dark
        page.emulate_media(color_scheme=scheme)
        asked = {"resultTypes": ["violations"]} | ({"runOnly": rules} if rules else {})
        found = page.evaluate("asked => axe.run(document, asked)", asked)
        grave = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
        assert grave == [], [(v["id"], [n["html"][:120] for n in v["nodes"]][:3]) for v in grave]
    page.emulate_media(color_scheme="light")


def test_many_texts_lie_beside_the_page_and_load_when_needed(blank_tab, runs, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "INLINE_TEXTS", 10)
    monkeypatch.setattr(parts, "PART_SIZE", 16)
    report = build_report([runs], tmp_path / "r", figures=False)
    assert tmp_path / "r/page/contents.js" not in report.paths
    assert tmp_path / "r/page/source-0.js" in report.paths
    assert "People say" not in (tmp_path / "r/report.html").read_text("utf-8")
    blank_tab.goto((tmp_path / "r/report.html").as_uri())
    reading(blank_tab)
    blank_tab.get_by_label("find in prompts and texts").fill("greedy 39")
    settled(blank_tab, f"1 of {COUNT} examples")
    assert blank_tab.faults == []
    assert all(url.startswith((tmp_path / "r").as_uri()) for url in blank_tab.asked)
    (tmp_path / "r/page/texts-0-0.js").unlink()
    blank_tab.reload()
    blank_tab.get_by_label("find in prompts and texts").fill("x")
    settled(blank_tab, "page/texts-0-0.js is missing beside this file")
    blank_tab.faults.clear()


def test_two_reports_stand_side_by_side(blank_tab, runs, tmp_path):
    other = make_report(tmp_path / "other", seeds=(0, 3), count=COUNT)
    report = build_side_by_side([[runs], [other]], ["one", "two"], tmp_path / "r")
    settings, numbers = report.tables
    assert [(row.label, *(c.number for c in row.cells)) for row in settings.rows] == [("seed", "0, 1", "0, 3")]
    gap = next(c for c, k in zip(numbers.rows[-1].cells, numbers.columns, strict=True) if k.title == "Δ MAUVE")
    assert gap.value == pytest.approx(0.01)
    blank_tab.goto((tmp_path / "r/report.html").as_uri())
    reading(blank_tab)
    systems = blank_tab.locator(".example").first.locator("h4").all_text_contents()
    assert systems[:3] == ["human", "one · greedy", "two · greedy"]
    assert blank_tab.faults == []


def test_a_leaderboard_is_filtered_and_sorted_and_its_address_keeps_both(blank_tab, runs, tmp_path):
    build_report([runs], tmp_path, layout="leaderboard")
    blank_tab.goto((tmp_path / "index.html").as_uri())

    def list_rows():
        return blank_tab.locator("table.data tbody tr:visible th").all_inner_texts()

    assert list_rows() == ["human", "greedy", "nucleus p=0.95"]
    blank_tab.get_by_role("searchbox", name="filter rows").fill("nucl 0.95")
    assert list_rows() == ["human", "nucleus p=0.95"]
    blank_tab.wait_for_function("location.hash.includes('filter0')")
    blank_tab.reload()
    blank_tab.wait_for_function("document.querySelectorAll('table.data tbody tr[hidden]').length === 1")
    assert list_rows() == ["human", "nucleus p=0.95"]
    assert blank_tab.faults == []


METRICS = ("zipf", "mauve", "bleu", "distinct_n", "gen_ppl", "length", "repetition", "self_bleu", "ttr")


@pytest.fixture(scope="module")
def wide_report(tmp_path_factory):
    """Nine columns, each with a standard deviation over seeds and an error of the metric."""
    folder = tmp_path_factory.mktemp("wide")
    for decoder, seed in (("greedy", None), ("nucleus", 0), ("nucleus", 1)):
        value = 0.312 + (seed or 0) / 9
        lines = [result("model", m, {m: value}, direction="higher", sd={m: 0.023}) for m in METRICS]
        write_run(folder, decoder, seed, results=lines)
    build_report([folder / "runs"], folder / "report", figures=False)
    return folder / "report" / "report.html"


@pytest.mark.slow
def test_no_column_is_cut_off_at_1400_pixels_and_columns_stand_as_measured(blank_tab, wide_report):
    blank_tab.set_viewport_size({"width": 1400, "height": 900})
    blank_tab.goto(wide_report.as_uri())
    sizes = blank_tab.locator(".wide").first.evaluate("e => [e.scrollWidth, e.clientWidth]")
    assert sizes[0] <= sizes[1]
    headings = [text.partition("\xa0")[0] for text in blank_tab.locator("table.data thead th").all_inner_texts()]
    assert headings == ["System", "seeds", *({"mauve": "MAUVE", "gen_ppl": "Gen. PPL"}.get(m, m) for m in METRICS)]
    cell = blank_tab.locator("table.data td button.value").last
    number, under = cell.locator("span, b").first.bounding_box(), cell.locator("small").first.bounding_box()
    assert under["y"] >= number["y"] + number["height"] - 2


def test_the_first_column_and_the_caption_stay_when_a_phone_scrolls_the_table(blank_tab, wide_report):
    blank_tab.set_viewport_size({"width": 390, "height": 844})
    blank_tab.goto(wide_report.as_uri())
    scroll = blank_tab.locator(".wide").first
    fixed = [blank_tab.locator(f"table.data {part}").first for part in ("tbody th", "caption span")]
    before = [part.bounding_box()["x"] for part in fixed]
    scroll.evaluate("e => { e.scrollLeft = 300; }")
    assert scroll.evaluate("e => e.scrollLeft") > 100
    assert [part.bounding_box()["x"] for part in fixed] == pytest.approx(before, abs=1)


def test_finding_table_and_figure_are_above_the_fold_and_notes_are_folded(page):
    page.set_viewport_size({"width": 1400, "height": 900})
    page.evaluate("scrollTo(0, 0)")
    assert page.locator("header .finding").inner_text().startswith("nucleus p=0.95, MAUVE 0.855")
    for part in ("header .finding", "table.data", "figure .panels svg"):
        box = page.locator(part).first.bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 900, part
    notes = page.locator("details.notes").first
    count = int(re.fullmatch(r"Notes \((\d+)\)", notes.locator("summary").inner_text())[1])
    assert count == notes.locator("p").count() > 0
    assert not notes.locator("p").first.is_visible()
    notes.locator("summary").click()
    assert notes.locator("p").first.is_visible()
    page.locator("nav a", has_text="Texts").click()
    page.wait_for_function("() => document.querySelector('nav a[aria-current]').textContent === 'Texts'")
    assert page.locator("nav").bounding_box()["y"] == pytest.approx(0, abs=1)
    page.locator("nav a", has_text="Result").click()
    page.wait_for_function("() => document.querySelector('nav a[aria-current]').textContent === 'Result'")


@pytest.mark.slow
def test_the_address_restores_sorting_search_filters_and_the_open_example(page, report):
    table = page.locator("table.data").first
    table.get_by_role("button", name="MAUVE").click()
    page.locator("table.data th[aria-sort=descending]").wait_for()
    page.locator(".columns-menu summary").first.click()
    page.locator(".columns-menu").first.get_by_label("seeds").uncheck()
    control(page, "of").select_option("nucleus p=0.95")
    control(page, "Stop reason").select_option("length")
    control(page, "seed").select_option("1")
    control(page, "human").uncheck()
    page.get_by_label("find in prompts and texts").fill("nucleus")
    settled(page, f"{COUNT // 4} of {COUNT} examples")
    page.locator(".example").nth(2).locator("pre").first.click()
    page.wait_for_function("() => location.hash.startsWith('#docs/') && /[?&][a-z]+=nucleus(&|$)/.test(location.hash)")
    address, first = page.url, names(page)[:3]
    current = page.locator(".example.here h3").inner_text()
    page.goto("about:blank")
    page.goto(address)
    reading(page)
    settled(page, f"{COUNT // 4} of {COUNT} examples")
    page.locator(".example.here h3", has_text=current).wait_for()
    assert names(page)[:3] == first
    assert page.locator("table.data th[aria-sort=descending]").first.inner_text().startswith("MAUVE")
    assert not page.locator("table.data thead th", has_text="seeds").first.is_visible()
    assert page.get_by_label("find in prompts and texts").input_value() == "nucleus"
    fields = {name: control(page, name).input_value() for name in ("order", "of", "Stop reason", "seed")}
    assert fields == {"order": "high", "of": "nucleus p=0.95", "Stop reason": "length", "seed": "1"}
    assert not control(page, "human").is_checked()
    page.evaluate("location.hash = ''")  # the plain page again
    settled(page, f"{COUNT} examples")
    assert page.locator("table.data th[aria-sort]").count() == 0
    page.asked.clear()
