"""Split the data of a page into parts: embedded if small, else in files that the page loads on demand.

A part is JSON under a name. In a file it is a script that calls `openendedPart(name, …)`: a page that was opened by a
double click may load scripts from its folder, but may not fetch.

    sides            ids-S, prompts-S-J      example ids of side S; its prompts, `PART` per part
    sources          source-K, texts-K-J     whose rows they are, stop reasons and numbers; texts, `PART` per part
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from openended.harness.core import Ragged, write_text
from openended.harness.report.page.sources import HUMAN, PageTexts, TextSource
from openended.harness.report.page.text_values import (
    TextValue,
    compute_text_values,
    find_nearest_human_texts,
    read_token_nll,
    round_values,
)
from openended.harness.report.page.tokens import TokenEnds, encode_tokens, load_token_ends

PART = 500  # examples, or texts, per part
INLINE_TEXTS, INLINE_CHARACTERS = 5_000, 1_500_000  # embedded in the page; more go to files
FOLDER = "page"


def build_parts(page_texts: PageTexts) -> tuple[dict[str, Any], Iterator[tuple[str, Any]]]:
    """Return the table of contents, filled while the parts are read, and name → part, one at a time."""
    contents: dict[str, Any] = {
        "part": PART,
        "sides": [{"name": side.name, "n": len(side.prompts)} for side in page_texts.sides],
        "systems": list(page_texts.systems),
        "sources": [],
        "values": {},
    }
    return contents, _iterate_parts(page_texts, contents)


def _iterate_parts(page_texts: PageTexts, contents: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    positions: list[dict[str, int]] = []
    for number, side in enumerate(page_texts.sides):
        positions.append({name: position for position, name in enumerate(side.prompts)})
        yield f"ids-{number}", list(side.prompts)
        prompts = list(side.prompts.values())
        for part, start in enumerate(range(0, len(prompts), PART)):
            yield f"prompts-{number}-{part}", prompts[start : start + PART]
    ends: dict[str, TokenEnds | None] = {}
    for number, source in enumerate(page_texts.sources):
        nll = read_token_nll(source)
        values = compute_text_values(source, nll)
        head = _describe_rows(source, page_texts, positions[source.side], values)
        contents["values"] |= {n: [v.title, v.direction] for n, v in values.items()}
        yield f"source-{number}", head
        texts, letters = source.rows.each("text"), _encode_letters(source, nll, ends)
        for part in range(-(-len(source.rows) // PART)):
            content: dict[str, Any] = {"text": list(islice(texts, PART))}
            if letters is not None:
                chunk = list(islice(letters, PART))
                content |= {"tokens": [tokens for tokens, _ in chunk], "surprise": [surprise for _, surprise in chunk]}
            yield f"texts-{number}-{part}", content
        contents["sources"].append(
            {"system": source.system, "side": source.side, "seed": source.seed, "n": len(source.rows),
             "samples": max(source.rows.samples, default=0) + 1, "values": list(values), "tokens": letters is not None}
        )  # fmt: skip


def _describe_rows(
    source: TextSource, page_texts: PageTexts, positions: Mapping[str, int], values: dict[str, TextValue]
) -> dict[str, Any]:
    """Return each row's example, sample and stop reason, and its values."""
    examples = [positions[i] for i in source.rows.ids]
    head: dict[str, Any] = {
        "example": examples if examples != list(range(len(positions))) else None,
        "sample": list(source.rows.samples) if any(source.rows.samples) else None,
        "cut": "".join("1" if cut else "0" for cut in source.rows.stops),
    }
    prefix = source.system.removesuffix(HUMAN) if source.role == HUMAN else ""
    humans = [s for s in page_texts.sources if s.side == source.side and s.role == HUMAN]
    human = next((s for s in humans if s.system == f"{prefix}{HUMAN}"), humans[0] if humans else None)
    near = find_nearest_human_texts(source, human) if human is not None else None
    if near is not None and human is not None:
        values["nearest"] = TextValue("similarity to the nearest human text", "none", near[0])
        head["nearest"] = [positions[human.rows.ids[at]] for at in near[1]]
    return head | {"values": round_values(values)}


def _encode_letters(
    source: TextSource, nll: Ragged | None, ends: dict[str, TokenEnds | None]
) -> Iterator[tuple[str, str]] | None:
    """Encode each text's token lengths and surprise, a letter per token; None if unknown for all texts."""
    run = source.results.runs[source.runs[0]]
    scorer = str(run.axes.get("scorer.path"))
    if nll is not None and scorer not in ends:
        ends[scorer] = load_token_ends(run)
    finder = ends.get(scorer)
    if nll is None or finder is None:
        return None

    def iterate_letters() -> Iterator[tuple[str, str]]:
        for text, ids, token_values in zip(source.rows.each("text"), source.rows.each("token_ids"), nll, strict=True):
            lengths = finder.lengths(text, ids, len(token_values))
            yield (encode_tokens(lengths, token_values) if lengths is not None else None) or ("", "")

    return iterate_letters() if any(tokens for tokens, _ in iterate_letters()) else None


def fits_inside(page_texts: PageTexts) -> bool:
    """Return whether the texts are few enough to be embedded in the page."""
    if sum(len(s.rows) for s in page_texts.sources) > INLINE_TEXTS:
        return False
    texts = sum(len(t) for s in page_texts.sources for t in s.rows.each("text"))
    return texts + sum(len(p) for side in page_texts.sides for p in side.prompts.values()) <= INLINE_CHARACTERS


def to_script_json(value: Any) -> str:  # noqa: ANN401
    """Return JSON for a script element, escaped so that no text can close the element."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def write_beside(parts: Iterator[tuple[str, Any]], folder: Path) -> list[Path]:
    """Write parts as scripts into the folder next to the page and return their files."""
    written: list[Path] = []
    for name, part in parts:
        written.append(folder / FOLDER / f"{name}.js")
        write_text(written[-1], f"openendedPart({to_script_json(name)},{to_script_json(part)})\n")
    return written
