"""Titles and captions of the figures, from captions.yaml."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def load_captions() -> dict[str, dict[str, str]]:
    """Return beginning of a figure's name → title and text."""
    import yaml

    text = (resources.files(__package__) / "captions.yaml").read_text(encoding="utf-8")
    captions: dict[str, dict[str, str]] = yaml.safe_load(text)
    return captions


def find_caption(name: str) -> tuple[str, str]:
    """Return the title of a figure, with what distinguishes it from others of its kind, and its caption."""
    prefix = next((begin for begin in load_captions() if name == begin or name.startswith(f"{begin}-")), None)
    if prefix is None:
        return name.replace("_", " "), ""
    caption = load_captions()[prefix]
    rest = name.removeprefix(prefix).strip("-").replace("_", " ")
    return (f"{caption['title']}: {rest}" if rest else caption["title"]), caption["text"]
