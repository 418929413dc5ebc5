"""What a reader sees first, at every width, and what an address restores."""

import re

import pytest

from openended.harness.report import build_report
from tests.harness.report.page.browser import control, names, needs_browser, reading, settled
from tests.harness.report.page.made import COUNT
from tests.harness.report.synthetic import result, write_run

pytestmark = needs_browser

METRICS = ("bleu", "distinct_n", "gen_ppl", "length", "mauve", "repetition", "self_bleu", "ttr", "zipf")


@pytest.fixture(scope="module")
def wide_report(tmp_path_factory):
    """Nine columns, each with a standard deviation over seeds and an error of the metric."""
    folder = tmp_path_factory.mktemp("wide")
    for decoder, seed in (("greedy", None), ("nucleus", 0), ("nucleus", 1)):
        lines = [
            result("model", m, {m: 0.312 + (seed or 0) / 9}, direction="higher") | {"sd": {m: 0.023}} for m in METRICS
        ]
        write_run(folder, decoder, seed, results=lines)
    build_report([folder / "runs"], folder / "report", figures=False)
    return folder / "report" / "report.html"


@pytest.mark.slow
def test_no_column_is_cut_off_at_1400_pixels_and_the_headline_comes_first(opened, wide_report):
    opened.set_viewport_size({"width": 1400, "height": 900})
    opened.goto(wide_report.as_uri())
    sizes = opened.locator(".wide").first.evaluate("e => [e.scrollWidth, e.clientWidth]")
    assert sizes[0] <= sizes[1]
    headings = opened.locator("table.data thead th").all_inner_texts()
    assert headings[2].casefold().startswith("mauve")
    cell = opened.locator("table.data td button.value").last
    number, under = cell.locator("span, b").first.bounding_box(), cell.locator("small").first.bounding_box()
    assert under["y"] >= number["y"] + number["height"] - 2


def test_the_first_column_and_the_caption_stay_when_a_phone_scrolls_the_table(opened, wide_report):
    opened.set_viewport_size({"width": 390, "height": 844})
    opened.goto(wide_report.as_uri())
    scroll = opened.locator(".wide").first
    before = [opened.locator(f"table.data {part}").first.bounding_box()["x"] for part in ("tbody th", "caption span")]
    scroll.evaluate("e => { e.scrollLeft = 300; }")
    after = [opened.locator(f"table.data {part}").first.bounding_box()["x"] for part in ("tbody th", "caption span")]
    assert scroll.evaluate("e => e.scrollLeft") > 100
    assert after == pytest.approx(before, abs=1)


def test_finding_table_and_figure_are_above_the_fold_and_notes_are_folded(page):
    page.set_viewport_size({"width": 1400, "height": 900})
    page.evaluate("scrollTo(0, 0)")
    assert re.match(r"nucleus p=0.95 has the highest MAUVE, 0\.855: ", page.locator("header .finding").inner_text())
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


def test_the_navigation_stays_in_view_and_names_the_part(page):
    page.locator("nav a", has_text="Texts").click()
    page.wait_for_function("() => document.querySelector('nav a[aria-current]').textContent === 'Texts'")
    assert page.locator("nav").bounding_box()["y"] == pytest.approx(0, abs=1)
    page.locator("nav a", has_text="Result").click()
    page.wait_for_function("() => document.querySelector('nav a[aria-current]').textContent === 'Result'")


def test_the_filters_fold_on_a_phone_only(page):
    order = control(page, "order")
    more = page.get_by_role("button", name="More filters")
    assert order.is_visible()
    assert not more.is_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    assert not order.is_visible()
    assert page.get_by_label("find in prompts and texts").is_visible()
    more.click()
    assert order.is_visible()
    assert more.get_attribute("aria-expanded") == "true"
    order.select_option("high")  # the redrawn controls stay open
    assert order.is_visible()
    more.click()
    assert not order.is_visible()


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


def test_why_begins_with_a_sentence_and_its_bars_share_one_axis(page):
    body = page.locator("#why-body")
    body.locator("details").first.wait_for()
    sentence = body.locator("p.finding").inner_text()
    assert re.match(
        r"greedy has MAUVE 0\.\d+(, .* ceiling of \d\.\d+)?: only 10 % of its texts fall into a cell with 30 % ",
        sentence,
    )
    assert (
        page.locator("#why-body option").all_inner_texts()[0] == "greedy"
    )  # no metric, options or seed: they are all alike
    axis, bar = (page.locator(f"#why-body {part}").first.bounding_box() for part in (".axis", "svg.bar"))
    assert bar["x"] == pytest.approx(axis["x"], abs=1)
    widths = page.locator("#why-body svg.bar rect").evaluate_all("all => all.map(e => Number(e.getAttribute('width')))")
    assert widths == pytest.approx([100, 100 / 3])  # 30 % and 10 % on an axis that ends at 30 %


def test_a_system_has_one_color_in_figures_tables_and_texts(page):
    colors = page.evaluate("""() => ['table.data tbody th', '.text h4', '.systems label'].map(part => {
      const element = [...document.querySelectorAll(part)].find(e => e.textContent.includes('nucleus'));
      return element.querySelector('.swatch path').getAttribute('stroke');
    })""")
    series = page.locator("g[data-series^='nucleus']").evaluate_all("all => all.map(e => e.dataset.color)")
    assert set(series) == set(colors)
    assert len(set(colors)) == 1
