"""Protocols: what raters are asked, in which words, on which scale, and how many of them; a YAML each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Literal

from openended.harness.core import (
    DataError,
    Json,
    Spec,
    SpecError,
    canonical,
    check_options,
    fitted,
    one_line,
    read_options,
    suggest,
)

Outcome = Literal["a", "b", "tie"]
_MOST_KEYS = 9  # answers are given by the keys 1 to 9


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerChoice:
    """One answer that a rater can choose."""

    say: str
    more: str = ""
    """What it means, in smaller letters."""
    outcome: Outcome | None = None
    """Of a pair: who won."""
    strength: str = ""
    """Of a pair: `definitely`, `slightly`, `tie`; goes into the file of judgments."""
    rating: float | None = None
    """Of a single text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeWords:
    """How a model is asked in place of people."""

    instruction: str = ""
    """Empty: the guidelines, the questions and the answers, word for word, and a line that says how to reply."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Question → its key in the JSON of the reply, where the instruction names one."""
    whole: bool = False
    """The text with its beginning, not the continuation alone."""


@dataclass(frozen=True, kw_only=True)
class StudyProtocol(Spec):
    """One way of asking people: wording, scale, sizes."""

    group: ClassVar[str] = "protocol"
    name: ClassVar[str] = "protocol"

    label: str = ""
    """The name of the YAML."""
    kind: Literal["pairs", "ratings"]
    """`pairs`: two continuations of one prompt; `ratings`: one."""
    title: str
    source: str = ""
    """Where the wording is from."""
    guidelines: tuple[str, ...]
    """Paragraphs of the first page."""
    examples: tuple[Any, ...] = ()
    """The maker's own worked examples: `prompt`, `a` and `b` (or `text`), `answers` {question: answer}, `why`."""
    prompt: str = "{prompt}"
    """How the prompt is shown."""
    prompt_label: str = ""
    text: str = "{text}"
    """How a text is shown."""
    text_label: str = ""
    questions: Mapping[str, str]
    """Criterion → its question."""
    answers: tuple[Any, ...]
    """In the order of the keys 1, 2, …; see `AnswerChoice`."""
    items: int
    """`pairs`: prompts for each pair of players; `ratings`: prompts, each with the texts of all players."""
    raters: int = 1
    """Raters of each item."""
    items_a_sheet: int = 20
    controls_a_sheet: int = 2
    """Of the maker's own controls, where there are any."""
    cut_words: int | None = None
    """Texts are cut after so many words."""
    min_words: int = 1
    """A prompt is left out where a text is shorter."""
    longest_tokens: int | None = None
    """Longer texts are refused."""
    seconds_an_item: float = 60.0
    """What an item takes a rater; for the hours."""
    min_seconds: float = 25.0
    """Faster answers are counted on the quality sheet."""
    most_ties: float = 0.1
    """A rater with a larger share of ties is told."""
    judge: Mapping[str, Any] = field(default_factory=dict)
    """See `JudgeWords`."""

    def check(self) -> None:
        """Check that answers fit the kind, and that counts are positive."""
        self.require(bool(self.questions), "questions", "at least one, as criterion: question")
        self.require(2 <= len(self.answers) <= _MOST_KEYS, "answers", f"2 to {_MOST_KEYS}")
        for name in ("items", "raters", "items_a_sheet", "min_words"):
            self.require(getattr(self, name) >= 1, name, "1 or more")
        for name in ("controls_a_sheet", "seconds_an_item", "min_seconds"):
            self.require(getattr(self, name) >= 0, name, "0 or more")
        for name in ("cut_words", "longest_tokens"):
            value = getattr(self, name)
            self.require(value is None or value >= 1, name, "1 or more, or null")
        self.require("{prompt}" in self.prompt, "prompt", "a text with {prompt} in it")
        self.require("{text}" in self.text, "text", "a text with {text} in it")
        said = [answer.say for answer in self.choices]
        self.require(len(set(said)) == len(said), "answers", "different ones")
        self._check_kind()
        self._check_examples()
        _made(JudgeWords, self.judge, "protocol.judge")

    def _check_kind(self) -> None:
        if self.kind == "pairs":
            sides = {answer.outcome for answer in self.choices}
            self.require({"a", "b"} <= sides and None not in sides, "answers", "an outcome each (a, b or tie)")
            return
        self.require(all(answer.rating is not None for answer in self.choices), "answers", "a rating each")

    def _check_examples(self) -> None:
        wanted = {"prompt", "answers", "why", *(("a", "b") if self.kind == "pairs" else ("text",))}
        said = [answer.say for answer in self.choices]
        for number, one in enumerate(self.examples):
            where = f"protocol.examples[{number}]"
            if not isinstance(one, Mapping) or set(one) != wanted:
                raise SpecError(f"{where}: expected {', '.join(sorted(wanted))}, got {sorted(one)!r:.80}")
            for question, answer in dict(one["answers"]).items():
                if question not in self.questions:
                    raise SpecError(f"{where}: no question {question!r}{suggest(str(question), self.questions)}")
                if answer not in said:
                    raise SpecError(f"{where}: no answer {answer!r}{suggest(str(answer), said)}")

    @cached_property
    def choices(self) -> tuple[AnswerChoice, ...]:
        """The answers, typed."""
        return tuple(_made(AnswerChoice, one, f"protocol.answers[{i}]") for i, one in enumerate(self.answers))

    @property
    def judging(self) -> JudgeWords:
        """How a model is asked."""
        made: JudgeWords = _made(JudgeWords, self.judge, "protocol.judge")
        return made

    def to_json(self) -> dict[str, Json]:
        """Return all options as plain JSON."""
        made = canonical(self)
        return (
            {k: v for k, v in made.items() if k not in ("group", "name", "version")} if isinstance(made, dict) else {}
        )


def _made(cls: type[Any], node: object, where: str) -> Any:  # noqa: ANN401
    """Make a small dataclass of a YAML node."""
    if not isinstance(node, Mapping):
        raise SpecError(f"{where}: expected options, got {node!r:.60}")
    check_options(cls, node, where)
    hints = {
        "outcome": Outcome | None, "rating": float | None, "keys": Mapping[str, str], "whole": bool,
    }  # fmt: skip
    return cls(**{k: fitted(v, hints.get(k, str), f"{where}.{k}") for k, v in node.items()})


def protocol_names() -> list[str]:
    """Return the names of the protocols that come with the harness."""
    folder = resources.files("openended.harness.rating") / "protocols"
    return sorted(p.name.removesuffix(".yaml") for p in folder.iterdir() if p.name.endswith(".yaml"))


def load_protocol(name: str, changes: Mapping[str, Any] | None = None) -> StudyProtocol:
    """Read a protocol by its name, or from a YAML file of the user's.

    Args:
        name: One that comes with the harness, or the path of a .yaml.
        changes: Options in place of its own.

    Raises:
        SpecError: If there is no such protocol, or an option is unknown, missing or not accepted.
    """
    path = Path(name)
    if name.endswith((".yaml", ".yml")):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as err:
            raise DataError(f"protocol={name}: cannot be read ({err})") from err
    else:
        known = protocol_names()
        if name not in known:
            raise SpecError(f"protocol={name}: no such protocol{suggest(name, known)}, or the path of a .yaml")
        text = (resources.files("openended.harness.rating") / "protocols" / f"{name}.yaml").read_text(encoding="utf-8")
    own = read_options(text, f"protocol={name}", one_line)
    return protocol_of({"label": path.stem, **own, **(changes or {})}, name)


def protocol_of(node: Mapping[str, Any], where: str) -> StudyProtocol:
    """Make a protocol of its options.

    Raises:
        SpecError: If an option is unknown, missing or not accepted.
    """
    check_options(StudyProtocol, node, f"protocol={where}")
    return StudyProtocol(**{str(k): v for k, v in node.items()})
