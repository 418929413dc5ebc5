"""Formulas between `$$` become MathML, which every browser draws without a script."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r"^\$\$\n?(.+?)\n?\$\$$", flags=re.DOTALL | re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:  # noqa: ANN401
    """Called by MkDocs for the text of every page."""
    return _FORMULA.sub(lambda found: convert(found[1], display="block"), markdown)
