"""The form in a browser: what a rater clicks or types is what comes out, on a desk and on a phone."""

import json
import random
import shutil

import pytest

from openended.harness.rating.answers import build_judgment_rows, gather_answers
from openended.harness.rating.study import build_items
from tests.harness.rating.kills import start
from tests.harness.rating.studies import HOSTILE, study
from tests.helpers import cases

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
SIZES = {"desk": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as tools:
        made = tools.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture(scope="module")
def tab(browser):
    """One tab for all: a study's answers are kept under its own name."""
    made = browser.new_context(accept_downloads=True).new_page()
    made.on("pageerror", lambda error: made.faults.append(str(error)))
    made.on("console", lambda message: made.faults.append(message.text) if message.type == "error" else None)
    made.on("dialog", lambda dialog: made.faults.append("dialog"))
    made.on("request", lambda r: None if r.url.startswith(made.own) else made.faults.append(r.url))
    yield made
    made.context.close()


@pytest.fixture
def page(tab, request):
    width, height = SIZES[getattr(request, "param", "desk")]
    tab.set_viewport_size({"width": width, "height": height})
    tab.faults, tab.own = [], ("file:", "blob:", "about:")
    yield tab
    faults = tab.faults
    tab.goto("about:blank")
    assert not faults


def answer(page, key, choices, how):
    """Answer the item on the screen."""
    assert page.locator("#next").is_disabled()
    for place, (name, number) in enumerate(choices.items()):
        if how == "keys":
            page.keyboard.press(str(number))
        else:
            page.locator("fieldset").nth(place).locator("label").nth(number - 1).click()
        assert page.locator(f'input[name="{name}"]:checked').get_attribute("value") == str(number)
    if how == "keys":
        page.keyboard.press("Enter")
    else:
        page.click("#next")


def downloaded(page, click, path):
    with page.expect_download() as caught:
        page.click(click)
    caught.value.save_as(path)
    return path


@pytest.mark.slow
@cases("page, protocol, how", ("desk", "mauve", "keys"), ("phone", "typicality", "mouse"), indirect=["page"])
def test_a_sheet_is_filled_in_left_resumed_and_downloaded(page, protocol, how, tmp_path):
    key = study(tmp_path, protocol)
    sheet = next(iter(key.sheets))
    url = (tmp_path / "sheets" / f"{sheet}.html").as_uri()
    rng, most = random.Random(3), len(key.protocol.choices)
    choices = {i: {q: rng.randint(1, most) for q in key.protocol.questions} for i in key.sheets[sheet]}
    page.goto(url)
    assert page.locator("#guidelines p").count() == len(key.protocol.guidelines)
    page.click("#start")
    ids = list(key.sheets[sheet])
    for name in ids[:3]:
        prompt, texts = key.show_item(key.by_id[name])
        assert prompt in page.locator("#prompt").text_content()
        assert [t in c for t, c in zip(texts, page.locator("#texts .text").all_text_contents(), strict=True)] == [
            True
        ] * len(texts)
        answer(page, key, choices[name], how)
    for width, height in SIZES.values():
        page.set_viewport_size({"width": width, "height": height})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("1")  # one answer of the fourth, then the page is left
    choices[ids[3]] = {**choices[ids[3]], next(iter(key.protocol.questions)): 1}
    assert page.locator("#count").text_content().startswith(f"{3 + (len(key.protocol.questions) == 1)} of {len(ids)}")
    page.goto("about:blank")
    page = page.context.new_page()
    page.goto(url)
    for _ in range(50):  # a busy browser writes the other tab's storage late
        if page.locator("#notice").text_content():
            break
        page.wait_for_timeout(100)
        page.reload()
    assert f"of {len(ids)} are answered in this browser" in page.locator("#notice").text_content()
    page.click("#start")
    rest = list(choices[ids[3]].items())[1:]
    for place, (_, number) in enumerate(rest, 1):
        page.locator("fieldset").nth(place).locator("label").nth(number - 1).click()
    page.click("#next")
    for name in ids[4:]:
        answer(page, key, choices[name], how)
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    path = downloaded(page, "#download", tmp_path / "answers-x.json")
    gathered = gather_answers([path], key, leave_out=False)
    assert {item.task: dict(item.choices) for item in gathered.sheets[0].items} == choices
    assert not [r for r in gathered.remarks if "missing" in r]
    assert all(0 <= item.seconds < 60 for item in gathered.sheets[0].items)
    assert len(build_judgment_rows(gathered)) == len(ids) * len(key.protocol.questions)
    page.close()


@pytest.mark.slow
def test_hostile_texts_run_nothing_and_stand_there_as_they_are(page, tmp_path):
    key = study(tmp_path)
    sheet = next(iter(key.sheets))
    page.goto((tmp_path / "sheets" / f"{sheet}.html").as_uri())
    page.click("#start")
    items = build_items(key, key.sheets[sheet])
    assert all(any(text.startswith(hostile) for shown in items for text in shown["texts"]) for hostile in HOSTILE)
    for shown in items:
        assert page.locator("#texts .text").all_text_contents() == shown["texts"]
        answer(page, key, dict.fromkeys(key.protocol.questions, 2), "keys")
    assert page.evaluate("window.pwned") is None
    assert page.locator("#texts img, #prompt img").count() == 0


@pytest.mark.slow
def test_a_saved_copy_goes_on_elsewhere_and_that_of_another_sheet_does_not(page, browser, tmp_path):
    key = study(tmp_path)
    sheet, other = list(key.sheets)[:2]
    url = (tmp_path / "sheets" / f"{sheet}.html").as_uri()
    page.goto(url)
    page.click("#start")
    answer(page, key, dict.fromkeys(key.protocol.questions, 5), "keys")
    copy = downloaded(page, "#save", tmp_path / "copy.json")
    elsewhere = browser.new_context().new_page()
    elsewhere.goto(url)
    elsewhere.set_input_files("#load", copy)
    elsewhere.wait_for_selector("#item:visible")
    assert elsewhere.locator("#count").text_content() == "1 of 6 done"
    elsewhere.goto((tmp_path / "sheets" / f"{other}.html").as_uri())
    elsewhere.set_input_files("#load", copy)
    elsewhere.wait_for_selector("text=it is of another sheet")
    elsewhere.context.close()
    assert gather_answers([copy], key, leave_out=False).sheets[0].items[0].choices["sensible"] == 5


@pytest.mark.slow
def test_ties_are_told_back_is_possible_and_time_counts_only_while_visible(page, tmp_path):
    key = study(tmp_path, prompts=36, items=12, items_a_sheet=12)
    sheet = next(iter(key.sheets))
    page.goto((tmp_path / "sheets" / f"{sheet}.html").as_uri())
    page.click("#start")
    for tie in (3, 1, 1, 1, 1, 1, 1, 1, 1):
        assert page.locator("#ties").is_hidden()  # of fewer than ten answers, no share is told
        for pressed in (str(tie), "1", "1", "Enter"):  # `interesting` is the first question
            page.keyboard.press(pressed)
    page.keyboard.press("3")  # of the tenth item
    assert "Ties so far: 20 %" in page.locator("#ties").text_content()
    page.keyboard.press("Backspace")
    assert page.locator('input[name="sensible"]:checked').get_attribute("value") == "1"
    page.keyboard.press("Enter")
    # Hidden for a while: none of it counts.
    hide = "state => { Object.defineProperty(document, 'visibilityState', { value: state, configurable: true }); document.dispatchEvent(new Event('visibilitychange')); }"
    page.evaluate(hide, "hidden")
    place = f"openended-rate/{key.study}/{sheet}"
    before = json.loads(page.evaluate("name => localStorage.getItem(name)", place))["ms"]
    page.evaluate("new Promise(later => setTimeout(later, 300))")
    page.evaluate(hide, "visible")
    page.evaluate(hide, "hidden")
    after = json.loads(page.evaluate("name => localStorage.getItem(name)", place))["ms"]
    second = key.sheets[sheet][1]
    assert after[second] - before[second] < 200


def test_the_makers_examples_are_on_the_first_page(page, tmp_path):
    example = {"prompt": "It was a", "a": "dark night", "b": "night night night", "answers": {"sensible": "Definitely A"}, "why": "B only repeats."}  # fmt: skip
    key = study(tmp_path, examples=[example])
    page.goto((tmp_path / "sheets" / f"{next(iter(key.sheets))}.html").as_uri())
    text = page.locator("#examples").text_content()
    assert "makes more sense, given the context? — Definitely A" in text
    assert "B only repeats." in text
    page.click("#start")
    page.click("#show-guide")
    assert page.locator("#start").text_content() == "Go on"


@pytest.mark.slow
def test_a_served_study_goes_on_after_the_server_was_killed(page, tmp_path):
    key = study(tmp_path)
    server, port = start(tmp_path, 2, 0)
    try:
        link = (tmp_path / "links.txt").read_text().split()[1]
        page.own = (link,)
        page.goto(link)
        page.click("#start")
        page.wait_for_selector("#item:visible")
        given = {}

        def rate(number):
            held = page.evaluate("document.querySelector('#prompt').textContent")
            choices = dict.fromkeys(key.protocol.questions, number)
            answer(page, key, choices, "keys")
            given[held] = choices
            return held

        first = rate(2)
        page.wait_for_function("before => document.querySelector('#prompt').textContent !== before", arg=first)
        server.kill()
        server.wait(timeout=240)
        page.evaluate("(later => { window.setTimeout = (call, ms) => later(call, ms / 10); })(setTimeout)")
        second = rate(4)  # nobody is there: the answer is kept, and sent again
        page.wait_for_selector("text=The server does not answer")
        server.stdout.close()
        server, _ = start(tmp_path, 2, port)
        page.wait_for_function("before => document.querySelector('#prompt').textContent !== before", arg=second)
        page.reload()
        page.click("#start")
        page.wait_for_selector("#item:visible")
        assert page.locator("#count").text_content() == "2 of 6 done"
        assert page.locator("#back").is_hidden()
    finally:
        server.kill()
        server.wait(timeout=240)
        server.stdout.close()
    page.faults[:] = [fault for fault in page.faults if "net::ERR_" not in fault]
    gathered = gather_answers([tmp_path / "answers.db"], key, leave_out=False)
    stored = {key.show_item(key.by_id[i.task])[0]: dict(i.choices) for s in gathered.sheets for i in s.items}
    assert stored == given
