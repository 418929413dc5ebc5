"""How the model under test is asked for its answers: for one, for a list, or for answers with probabilities.

One reply to a list holds several answers, and each is one text of the prompt. Asking for answers with probabilities,
"verbalized sampling", is of Zhang et al. 2025 (arXiv 2510.01171). There all answers of a reply count alike in creative
writing, and one is drawn by the stated probabilities in simulated dialogue; `weights` chooses between the two.
The wording of the requests is ours; `template` takes another one.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from openended.harness.core import Spec, make_random_stream, option, ranged

_FRAME = 32  # tokens that an answer's number, tags and probability may take
_TEMPLATES = {
    "direct": "{prompt}",
    "list": (
        "Give {answers} different answers to the request below. Write each one as <response>ANSWER</response> and "
        "nothing else.\n\nRequest: {prompt}"
    ),
    "verbalized": (
        "Give {answers} answers to the request below, drawn at random from all answers that you could give. Write each "
        "one as <response><text>ANSWER</text><probability>P</probability></response> and nothing else, where P is the "
        "probability that you would give this answer, a number from 0 to 1.\n\nRequest: {prompt}"
    ),
}
_RESPONSE = re.compile(r"<response>(.*?)</response>", re.DOTALL | re.IGNORECASE)
_TAG = {name: re.compile(rf"<{name}>(.*?)</{name}>", re.DOTALL | re.IGNORECASE) for name in ("text", "probability")}
_KEYS = ("text", "response", "answer")  # of the text of an answer in JSON
_JSON = re.compile(r"[\[{]")
_ITEM = re.compile(r"^[ \t]*(\d+)[.)][ \t]+(.*?)(?=^[ \t]*\d+[.)][ \t]|^[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)


class ListedAnswer(NamedTuple):
    """One answer of a reply."""

    text: str
    weight: float | None  # the probability that the model states for it; None where none can be read


@dataclass(frozen=True, kw_only=True)
class PromptForm(Spec):
    """How the model under test is asked for its answers."""

    group: ClassVar[str] = "prompting"
    name: ClassVar[str] = "prompting"

    form: Literal["direct", "list", "verbalized"] = "direct"
    """One answer per reply, a list of them, or a list in which each has a stated probability."""
    answers: int = ranged(5, "[1, inf)", "1 or more")
    """Per reply of list and verbalized (Zhang et al. 2025); samples=10 then are two replies per prompt."""
    template: str | None = option(None, lambda text: text is None or "{prompt}" in text, "null or a text with {prompt}")
    """What the model reads, with `{prompt}` and `{answers}`; null: the form's own."""
    start: str = ""
    """The reply's beginning, given to the model, as "1. " for base models.
    """
    spare_replies: int = ranged(0, "[0, inf)", "0 or more")
    """Further replies to each prompt, which fill in for unreadable answers."""
    weights: Literal["ignore", "draw"] = "ignore"
    """`verbalized`: every answer is one text, or each text is drawn by the stated probabilities, with replacement."""
    reply_tokens: int | None = ranged(None, "[1, inf)", "1 or more, or null")
    """Longest reply; null: room for the answers, each of `max_new_tokens`, and their frames."""

    def check(self) -> None:
        self.require(
            self.weights == "ignore" or self.form == "verbalized", "weights", "ignore, unless prompting=verbalized"
        )
        self.require(not self.start or self.lists, "start", "nothing, unless prompting=list or verbalized")

    @property
    def lists(self) -> bool:
        """Whether a reply lists answers; otherwise it is the text."""
        return self.form != "direct"

    @property
    def changes_nothing(self) -> bool:
        """Whether the model reads the prompts themselves."""
        return not self.lists and self.template in (None, "{prompt}")

    def count_replies(self, samples: int) -> int:
        """Return how many replies to one prompt hold so many texts."""
        return math.ceil(samples / self.answers) + self.spare_replies if self.lists else samples

    def limit_reply(self, max_new_tokens: int) -> int:
        """Return the longest reply in tokens."""
        return (self.reply_tokens or self.answers * (max_new_tokens + _FRAME)) if self.lists else max_new_tokens

    def render(self, prompt: str) -> str:
        """Return what the model reads for a prompt, without the reply's beginning."""
        template = self.template or _TEMPLATES[self.form]
        return template.replace("{answers}", str(self.answers)).replace("{prompt}", prompt)

    def read_reply(self, reply: str, is_cut: bool, failures: Counter[str]) -> list[ListedAnswer]:
        """Return the answers of a reply, at most as many as were asked for; count in `failures` what cannot be read."""
        listed = read_answers(self.start + reply, is_cut=is_cut)[: self.answers]
        failures["replies without a readable answer"] += not listed
        failures["answers missing in other replies"] += self.answers - len(listed) if listed else 0
        if self.form == "list":
            return listed
        weighted = [answer for answer in listed if answer.weight is not None]
        failures["answers without a readable probability"] += len(listed) - len(weighted)
        if self.weights == "draw" and weighted and not any(answer.weight for answer in weighted):
            failures["replies whose probabilities are all 0"] += 1
            return []
        return weighted

    def choose_texts(self, answers: Sequence[ListedAnswer], seed: int, example_id: str, reply: int) -> list[str]:
        """Return the texts that a reply gives: its answers, or as many draws from them by their probabilities."""
        texts, weights = [answer.text for answer in answers], [answer.weight or 0.0 for answer in answers]
        if self.weights == "ignore" or not answers:
            return texts
        stream = make_random_stream(seed, "verbalized", example_id, reply)
        rows = stream.choice(len(texts), self.answers, p=[weight / sum(weights) for weight in weights])
        return [texts[row] for row in rows]


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
