"""The data of a page, in parts: inside the page while they are few, else in files beside it that it loads when needed.

A part is JSON under a name. Beside the page it is a script that calls `openendedPart(name, …)`: a page that was opened
by a double click may load scripts from its folder, but may not fetch.

    sides            ids-S, prompts-S-J      example ids of side S; its prompts, `PART` a part
    sources          source-K, texts-K-J     whose rows they are, stop reasons and numbers; texts, `PART` a part
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from openended.harness.core import Ragged, write_text
from openended.harness.report.page.sources import HUMAN, Shelf, TextSource
from openended.harness.report.page.tokens import TokenEnds, coded, token_ends
from openended.harness.report.page.values import TextValue, nearest, rounded, token_nll, values_of

PART = 500  # examples, or texts, a part
INLINE_TEXTS, INLINE_CHARACTERS = 5_000, 1_500_000  # inside the page; more lie beside it
FOLDER = "page"


def parts_of(shelf: Shelf) -> tuple[dict[str, Any], Iterator[tuple[str, Any]]]:
    """Return the table of contents, filled while the parts are read, and name → part, one at a time."""
    contents: dict[str, Any] = {
        "part": PART,
        "sides": [{"name": side.name, "n": len(side.prompts)} for side in shelf.sides],
        "systems": list(shelf.systems),
        "sources": [],
        "values": {},
    }
    return contents, _parts(shelf, contents)


def _parts(shelf: Shelf, contents: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    places: list[dict[str, int]] = []
    for number, side in enumerate(shelf.sides):
        places.append({name: place for place, name in enumerate(side.prompts)})
        yield f"ids-{number}", list(side.prompts)
        prompts = list(side.prompts.values())
        for part, start in enumerate(range(0, len(prompts), PART)):
            yield f"prompts-{number}-{part}", prompts[start : start + PART]
    ends: dict[str, TokenEnds | None] = {}
    for number, source in enumerate(shelf.sources):
        nll = token_nll(source)
        values = values_of(source, nll)
        head = _head(source, shelf, places[source.side], values)
        contents["values"] |= {n: [v.title, v.direction] for n, v in values.items()}
        yield f"source-{number}", head
        letters, texts = _letters(source, nll, ends), source.rows.each("text")
        for part in range(-(-len(source.rows) // PART)):
            shown: dict[str, Any] = {"text": list(islice(texts, PART))}
            if letters is not None:
                told = list(islice(letters, PART))
                shown |= {"tokens": [tokens for tokens, _ in told], "surprise": [surprise for _, surprise in told]}
            yield f"texts-{number}-{part}", shown
        contents["sources"].append(
            {"system": source.system, "side": source.side, "seed": source.seed, "n": len(source.rows),
             "samples": max(source.rows.samples, default=0) + 1, "values": list(values), "tokens": letters is not None}
        )  # fmt: skip


def _head(source: TextSource, shelf: Shelf, places: Mapping[str, int], values: dict[str, TextValue]) -> dict[str, Any]:
    """Say of each row which example it continues, which sample it is and whether it was cut; and its numbers."""
    prefix = source.system.removesuffix(HUMAN) if source.role == HUMAN else ""
    humans = [s for s in shelf.sources if s.side == source.side and s.role == HUMAN]
    human = next((s for s in humans if s.system == f"{prefix}{HUMAN}"), humans[0] if humans else None)
    examples = [places[i] for i in source.rows.ids]
    head: dict[str, Any] = {
        "example": examples if examples != list(range(len(places))) else None,
        "sample": list(source.rows.samples) if any(source.rows.samples) else None,
        "cut": "".join("1" if cut else "0" for cut in source.rows.stops),
    }
    near = nearest(source, human)
    if near is not None and human is not None:
        values["nearest"] = TextValue("similarity to the nearest human text", "none", near[0])
        head["nearest"] = [places[human.rows.ids[at]] for at in near[1]]
    return head | {"values": rounded(values)}


def _letters(
    source: TextSource, nll: Ragged | None, ends: dict[str, TokenEnds | None]
) -> Iterator[tuple[str, str]] | None:
    """Tell of each text where its tokens end and how surprising they are, a letter each; None where none is known."""
    if nll is None:
        return None
    run = source.results.runs[source.runs[0]]
    scorer = str(run.axes.get("scorer.path"))
    if scorer not in ends:
        ends[scorer] = token_ends(run)
    finder = ends[scorer]
    if finder is None:
        return None

    def told() -> Iterator[tuple[str, str]]:
        for text, ids, own in zip(source.rows.each("text"), source.rows.each("token_ids"), nll, strict=True):
            lengths = finder.lengths(text, ids, len(own))
            yield (coded(lengths, own) if lengths is not None else None) or ("", "")

    return told() if any(tokens for tokens, _ in told()) else None


def fits_inside(shelf: Shelf) -> bool:
    """Say whether the texts are few enough to stand in the page itself."""
    if sum(len(s.rows) for s in shelf.sources) > INLINE_TEXTS:
        return False
    texts = sum(len(t) for s in shelf.sources for t in s.rows.each("text"))
    return texts + sum(len(p) for side in shelf.sides for p in side.prompts.values()) <= INLINE_CHARACTERS


def as_json(value: Any) -> str:  # noqa: ANN401
    """Return JSON that can stand in a script element: no text ends it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def write_beside(parts: Iterator[tuple[str, Any]], folder: Path) -> list[Path]:
    """Write parts as scripts into the folder beside the page; returns their files."""
    written: list[Path] = []
    for name, part in parts:
        written.append(folder / FOLDER / f"{name}.js")
        write_text(written[-1], f"openendedPart({as_json(name)},{as_json(part)})\n")
    return written
