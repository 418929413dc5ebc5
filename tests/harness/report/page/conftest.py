"""A report in a real browser; what it complains of and asks for fails a test."""

import pytest

from openended.harness.report import build_report
from tests.harness.report.page.browser import CHROMIUM, reading
from tests.harness.report.page.made import make_report


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
def opened(browser):
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
def page(opened, report):
    opened.goto("about:blank")
    opened.set_viewport_size({"width": 1280, "height": 900})
    opened.goto(report.as_uri())
    reading(opened)
    opened.faults.clear()
    opened.asked.clear()
    yield opened
    assert opened.faults == []
    assert [url for url in opened.asked if not url.startswith(("blob:", "data:"))] == []
