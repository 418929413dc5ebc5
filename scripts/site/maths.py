"""Convert formulas between `$$` to MathML, which browsers draw without a script."""

import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r"^\$\$\n?(.+?)\n?\$\$$", flags=re.DOTALL | re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:  # noqa: ANN401
    """Convert the formulas of a page; MkDocs calls this for every page."""
    return _FORMULA.sub(lambda match: convert(match[1], display="block"), markdown)
