"""Separate what a model reasons from what it answers, by the tags of its chat template.

Sources of the tags: the published chat templates of the models, the response format of gpt-oss (OpenAI, "harmony") and
the reasoning parsers of vLLM 0.33. A template may put the opening tag into the prompt: then the text has only the
closing one, and one that was cut inside the reasoning has none.
"""

import re
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from openended.harness.core import Stop, Thinking


@dataclass(frozen=True, slots=True)
class Family:
    """The tags of a family of templates; `pattern`, `end`, `around` and `inside` are regular expressions."""

    name: str
    opening: str
    closing: str
    around: str = ""  # tags around the answer, which are none of its text
    inside: str = ""  # tags inside the reasoning
    pattern: str = ""  # of the opening tag, where it varies
    end: str = ""  # the same of the closing tag
    in_prompt: bool = True  # some templates put the opening tag into the prompt


_LIST = (
    # Qwen3, DeepSeek-R1, GLM-4.5, Granite 3.3, Phi-4-reasoning, EXAONE 4, SmolLM3, OLMo 3, MiniMax-M2, Nemotron …
    Family("think", "<think>", "</think>", around=r"</?(?:answer|response)>"),
    Family("thought", "<thought>", "</thought>"),  # EXAONE Deep
    Family("seed", "<seed:think>", "</seed:think>"),  # Seed-OSS
    Family("mistral", "[THINK]", "[/THINK]"),  # Magistral, Ministral 3
    Family("cohere", "<|START_THINKING|>", "<|END_THINKING|>", around=r"<\|(?:START|END)_RESPONSE\|>"),  # Command A
    Family("apertus", "<|inner_prefix|>", "<|inner_suffix|>"),
    Family("gemma", "<|channel>thought", "<channel|>"),  # Gemma 4
    Family(
        "granite", "Here is my thought process:", "my response:", in_prompt=False,  # Granite 3.2
        pattern="Here(?: i|')s my thought process:", end="Here(?: i|')s my response:",
    ),
    Family(
        "harmony", "<|channel|>", "<|channel|>final", in_prompt=False,  # gpt-oss
        end=r"(?:<\|channel\|>\s*)?final[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>",
        around=r"<\|(?:end|return|call)\|>.*",
        inside=r"(?:(?:analysis|commentary)[^<]*<\|message\|>|<\|(?:end|channel)\|>|<\|start\|>\s*assistant)+",
    ),
)  # fmt: skip
FAMILIES = {family.name: family for family in _LIST}
_STARTS = {family.name: family.pattern or re.escape(family.opening) for family in _LIST}
MENTION = "|".join([rf"^\s*(?:{'|'.join(_STARTS.values())})", *(re.escape(family.closing) for family in _LIST)])
"""Matches each text with reasoning in tags, and some others; a pattern of RE2 too."""
OPENED = rf"(?:{'|'.join(_STARTS.values())})\s*$"
"""Matches each prompt that ends with an opening tag."""
_NAMED = "|".join(f"(?P<{name}>{start})" for name, start in _STARTS.items())
_LEADING, _LAST = re.compile(rf"\s*(?:{_NAMED})"), re.compile(rf"(?:{_NAMED})\s*\Z")
_CLOSING = {family.name: family.closing for family in _LIST if family.in_prompt}


class SplitText(NamedTuple):
    """A text with its reasoning apart."""

    reasoning: str | None  # None: it has none
    answer: str
    whole: str  # both, as the model wrote them
    closed: bool = True  # the reasoning ended

    def is_lost(self, stop: Stop | None) -> bool:
        """Return whether the text ended before an answer began."""
        return self.reasoning is not None and not self.answer.strip() and not (self.closed and stop == "eos")

    def choose(self, thinking: Thinking, stop: Stop | None) -> str | None:
        """Return what is scored of a text; None where it is left out."""
        if thinking == "keep":
            return self.whole
        if thinking == "only":
            return self.reasoning if (self.reasoning or "").strip() else None
        return None if self.is_lost(stop) else self.answer


@dataclass(slots=True)
class ReasoningCounts:
    """What became of texts with reasoning."""

    texts: int = 0
    reasoned: int = 0
    characters: int = 0  # of the reasoning
    lost: int = 0  # texts that ended inside it
    left_out: int = 0

    def choose(self, parts: SplitText, thinking: Thinking, stop: Stop | None) -> str | None:
        """Return what is scored of a text, None where it is left out, and count it."""
        scored = parts.choose(thinking, stop)
        self.texts += 1
        self.reasoned += bool(parts.reasoning)
        self.characters += len(parts.reasoning or "")
        self.lost += parts.is_lost(stop)
        self.left_out += scored is None
        return scored

    def list_notes(self, thinking: Thinking, title: str, advice: str) -> list[str]:
        """Return notes for the reader of a table; none for texts without reasoning."""
        if not self.reasoned and not self.lost:
            return []
        scored = {"drop": "is not scored", "keep": "is scored with the answers", "only": "alone is scored"}[thinking]
        share = f"the reasoning of {self.reasoned} of {self.texts} texts, {self.characters:,} characters in all"
        notes = [f"{title}: {share}, {scored} (thinking={thinking})"]
        if self.lost:
            fate = f"and are left out; {advice}" if thinking == "drop" else "and have no answer"
            notes.append(f"{title}: {self.lost} of {self.texts} texts ended inside the reasoning {fate}")
        if thinking == "only" and self.left_out:
            notes.append(f"{title}: {self.left_out} of {self.texts} texts have no reasoning and are left out")
        return notes


@dataclass(frozen=True, slots=True)
class Markup:
    """The tags of some texts of one model."""

    family: str
    opened: bool = False  # the prompt of each text opened the reasoning

    def split(self, text: str, prompt: str = "") -> SplitText:
        """Separate the reasoning of a text from its answer; a text without any stays as it is."""
        family, leading, last = FAMILIES[self.family], _LEADING.match(text), _LAST.search(prompt[-64:])
        inside = self.opened or (last is not None and last.lastgroup == self.family)
        inside = inside and (leading is None or leading.lastgroup != self.family)
        if not inside and text.strip() and family.opening.startswith(text.strip()):
            return SplitText("", "", text, closed=False)  # cut inside the opening tag
        opening = rf"(?:\A|\n)\s*(?:{_STARTS[self.family]})"
        reasoning, answer, at = list[str](), list[str](), 0
        while True:
            match = re.compile((family.end or re.escape(family.closing)) if inside else opening).search(text, at)
            (reasoning if inside else answer).append(text[at : match.start() if match else len(text)])
            if match is None:
                break
            at, inside = match.end(), not inside
        if not reasoning:
            return SplitText(None, text, text)
        reply, thought = "".join(answer).lstrip(), "\n".join(part.strip() for part in reasoning)
        if family.around:
            reply = re.sub(rf"\A(?:{family.around})\s*|\s*(?:{family.around})\s*\Z", "", reply, flags=re.DOTALL)
        if family.inside:
            thought = re.sub(family.inside, "\n", thought).strip()
        return SplitText(thought, reply, text, closed=not inside)


def split_reasoning(text: str, reasoning: str | None, markup: Markup | None, prompt: str = "") -> SplitText:
    """Separate reasoning and answer of a text whose reasoning is apart already, or in tags."""
    if reasoning is None:
        return markup.split(text, prompt) if markup is not None else SplitText(None, text, text)
    return SplitText(reasoning, text, "\n\n".join(filter(None, (reasoning, text))), closed=bool(text.strip()))


class MarkupSearch:
    """Finds the tags of texts: each is added, and then the family is chosen.

    Texts that only close their reasoning were opened by the prompt, if half of those that ended by themselves do so: a
    single one may quote the tag. Then the others, which were cut inside the reasoning, were opened too.
    """

    def __init__(self) -> None:
        self._started, self._closed = Counter[str](), Counter[str]()
        self._ended = 0

    def add(self, prompt: str, text: str, *, ended: bool) -> None:
        """Take a text, the prompt before it, and whether it ended by itself."""
        self._ended += ended
        if match := _LEADING.match(text) or _LAST.search(prompt[-64:]):
            self._started[str(match.lastgroup)] += 1
        elif ended:
            self._closed.update(name for name, closing in _CLOSING.items() if closing in text)

    def find(self) -> Markup | None:
        """Return the tags; None where the texts have none."""
        name, count = max(self._closed.items(), key=lambda item: item[1], default=("", 0))
        if count and 2 * count >= self._ended:
            return Markup(name, opened=True)
        return Markup(self._started.most_common(1)[0][0]) if self._started else None
