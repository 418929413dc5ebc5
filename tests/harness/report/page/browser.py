"""What the tests of the page in a browser share."""

import os
import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
AXE = os.environ.get("OPENENDED_AXE", "")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium")


def names(page):
    """Ids of the first examples, in the order in view."""
    page.locator(".example h3").first.wait_for()
    return page.locator(".example h3").all_inner_texts()


def reading(page):
    """Texts are drawn where somebody looks."""
    page.locator("#texts").scroll_into_view_if_needed()
    page.locator(".example").first.wait_for()


def control(page, name):
    return page.locator(".controls").get_by_label(name, exact=True)


def settled(page, status):
    page.wait_for_function("told => document.querySelector('.status').textContent === told", arg=status)
