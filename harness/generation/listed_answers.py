"""The answers that a reply lists: in tags, as JSON, or numbered."""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

_RESPONSE = re.compile(r"<response>(.*?)</response>", re.DOTALL | re.IGNORECASE)
_TAG = {name: re.compile(rf"<{name}>(.*?)</{name}>", re.DOTALL | re.IGNORECASE) for name in ("text", "probability")}
_KEYS = ("text", "response", "answer")  # of the text of an answer in JSON
_JSON = re.compile(r"[\[{]")
_ITEM = re.compile(r"^[ \t]*(\d+)[.)][ \t]+(.*?)(?=^[ \t]*\d+[.)][ \t]|^[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)


class ListedAnswer(NamedTuple):
    """One answer of a reply."""

    text: str
    weight: float | None  # the probability that the model states for it; None where none can be read


def read_answers(reply: str, *, is_cut: bool = False) -> list[ListedAnswer]:
    """Return the answers that a reply lists: in tags, as JSON, or numbered from 1; text around them is ignored.

    What is empty or unfinished is no answer: of a reply that was cut off (`is_cut`), nor is the last numbered item.
    """
    readers = (_read_tags(reply), _read_json(reply), _read_numbered(reply, is_cut))
    lists = ([answer for answer in answers if answer.text] for answers in readers)
    return next(filter(None, lists), [])


def _read_tags(reply: str) -> Iterator[ListedAnswer]:
    for content in _RESPONSE.findall(reply):
        text, weight = (tag.search(content) for tag in _TAG.values())
        without = _TAG["probability"].sub("", content)
        yield ListedAnswer((text[1] if text else without).strip(), read_probability(weight[1]) if weight else None)


def _read_json(reply: str) -> Iterator[ListedAnswer]:
    """Yield objects with a text, wherever they stand, so that those before the end of a cut reply count."""
    decoder, at = json.JSONDecoder(), 0
    while (start := _JSON.search(reply, at)) is not None:
        at = start.end()
        try:
            value, end = decoder.raw_decode(reply, start.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and (text := next((value[k] for k in _KEYS if isinstance(value.get(k), str)), None)):
            yield ListedAnswer(text.strip(), read_probability(value.get("probability")))
            at = end
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            yield from (ListedAnswer(item.strip(), None) for item in value)
            at = end


def _read_numbered(reply: str, is_cut: bool) -> Iterator[ListedAnswer]:
    items = list(_ITEM.finditer(reply))
    for number, item in enumerate(items, start=1):
        if int(item[1]) != number or (is_cut and item.end() >= len(reply.rstrip())):
            return
        yield ListedAnswer(item[2].strip(), None)


def read_probability(value: object) -> float | None:
    """Return a stated probability in [0, 1], as 0.12, "0.12" or "12%"; None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = str(value).strip()
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None
