"""Write one HTML form per rater; it contains nothing about the origin of a text."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from openended.harness.rating.key import StudyKey

FORM = "openended-rate/1"
"""Version of the form and of what it saves."""


def build_form_policy(*, connect: bool) -> str:
    """Return the Content-Security-Policy: only the form's own script and style, by their hashes."""
    hashes = {part: f"'sha256-{_hash(_read_form_file(f'form.{part}'))}'" for part in ("js", "css")}
    talk = " connect-src 'self';" if connect else ""
    sources = f"script-src {hashes['js']}; style-src {hashes['css']};{talk}"
    return f"default-src 'none'; {sources} base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _read_form_file(name: str) -> str:
    return (resources.files("openended.harness.rating") / "form" / name).read_text(encoding="utf-8")


def render_form(key: StudyKey, sheet: str, items: Sequence[Mapping[str, Any]] | None) -> str:
    """Return the page of a sheet."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    protocol = key.protocol
    study_data = {
        "form": FORM, "study": key.study, "sheet": sheet, "nonce": key.nonce(sheet) if items is not None else "",
        "title": protocol.title, "guidelines": protocol.guidelines, "examples": protocol.examples,
        "prompt": protocol.prompt, "prompt_label": protocol.prompt_label,
        "text": protocol.text, "text_label": protocol.text_label, "questions": dict(protocol.questions),
        "answers": [{"say": a.say, "more": a.more, "tie": a.outcome == "tie"} for a in protocol.choices],
        "most_ties": protocol.most_ties, "items": items,
    }  # fmt: skip
    # These characters occur in JSON strings alone; escaped, no text can close the script element.
    data = (
        json.dumps(study_data, ensure_ascii=True)
        .replace("<", r"\u003c")
        .replace(">", r"\u003e")
        .replace("&", r"\u0026")
    )
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    parts = {"data": data, "script": _read_form_file("form.js"), "style": _read_form_file("form.css")}
    return environment.from_string(_read_form_file("form.html")).render(
        title=protocol.title,
        policy=build_form_policy(connect=items is None),
        **{name: Markup(text) for name, text in parts.items()},  # noqa: S704 - ours, and JSON without markup
    )


def build_items(key: StudyKey, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return the id, prompt and texts of items as a sheet shows them."""
    items = []
    for name in ids:
        prompt, texts = key.show_item(key.by_id[name])
        items.append({"id": name, "prompt": prompt, "texts": list(texts)})
    return items


def compute_seal(
    study: str, sheet: str, nonce: str, questions: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> str:
    """Return the seal of answers, as the form computes it: FNV-1a of 64 bits over their numbers.

    It detects accidental edits, not forgery: the nonce is in the sheet's source.
    """
    lines = [study, sheet, nonce]
    for row in rows:
        cells = [row["id"], row["ms"], *(row["answers"].get(name, 0) for name in questions)]
        lines.append(",".join(map(str, cells)))
    value = 0xCBF29CE484222325
    for byte in "\n".join(lines).encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"
