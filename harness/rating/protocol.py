"""Study protocols: questions, wording, scale and sizes, each in a YAML file."""

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
    canonicalize,
    check_options,
    coerce,
    format_error,
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
    """For pairs: the winner."""
    strength: str = ""
    """For pairs: `definitely`, `slightly` or `tie`, for the judgments file."""
    rating: float | None = None
    """Of a single text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeWords:
    """How an LLM judge is asked."""

    instruction: str = ""
    """Empty: the raters' guidelines, questions and answers verbatim, and a line about the format of the reply."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Question → its key in the JSON of the reply, where the instruction names one."""
    whole: bool = False
    """Show the prompt with the continuation, not only the continuation."""


@dataclass(frozen=True, kw_only=True)
class StudyProtocol(Spec):
    """A protocol for human studies: wording, scale, sizes."""

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
    """Worked examples for the first page: `prompt`, `a` and `b` (or `text`), `answers` {question: answer}, `why`."""
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
    """Number of control items per sheet, if there are controls."""
    cut_words: int | None = None
    """Number of words after which texts are cut."""
    min_words: int = 1
    """A prompt is left out where a text is shorter."""
    longest_tokens: int | None = None
    """Longer texts are refused."""
    seconds_an_item: float = 60.0
    """What an item takes a rater; for the hours."""
    min_seconds: float = 25.0
    """Faster answers are counted on the quality sheet."""
    most_ties: float = 0.1
    """The form warns a rater with a larger share of ties."""
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
        wordings = [answer.say for answer in self.choices]
        self.require(len(set(wordings)) == len(wordings), "answers", "different ones")
        self._check_kind()
        self._check_examples()
        _build_options(JudgeWords, self.judge, "protocol.judge")

    def _check_kind(self) -> None:
        if self.kind == "pairs":
            sides = {answer.outcome for answer in self.choices}
            self.require({"a", "b"} <= sides and None not in sides, "answers", "an outcome each (a, b or tie)")
            return
        self.require(all(answer.rating is not None for answer in self.choices), "answers", "a rating each")

    def _check_examples(self) -> None:
        fields = {"prompt", "answers", "why", *(("a", "b") if self.kind == "pairs" else ("text",))}
        wordings = [answer.say for answer in self.choices]
        for number, example in enumerate(self.examples):
            where = f"protocol.examples[{number}]"
            if not isinstance(example, Mapping) or set(example) != fields:
                raise SpecError(f"{where}: expected {', '.join(sorted(fields))}, got {sorted(example)!r:.80}")
            for question, answer in dict(example["answers"]).items():
                if question not in self.questions:
                    raise SpecError(f"{where}: no question {question!r}{suggest(str(question), self.questions)}")
                if answer not in wordings:
                    raise SpecError(f"{where}: no answer {answer!r}{suggest(str(answer), wordings)}")

    @cached_property
    def choices(self) -> tuple[AnswerChoice, ...]:
        """The answers as `AnswerChoice` objects."""
        return tuple(
            _build_options(AnswerChoice, answer, f"protocol.answers[{i}]") for i, answer in enumerate(self.answers)
        )

    @property
    def judging(self) -> JudgeWords:
        """How an LLM judge is asked."""
        judge_words: JudgeWords = _build_options(JudgeWords, self.judge, "protocol.judge")
        return judge_words

    def to_json(self) -> dict[str, Json]:
        """Return all options as plain JSON."""
        options = canonicalize(self)
        return (
            {k: v for k, v in options.items() if k not in ("group", "name", "version")}
            if isinstance(options, dict)
            else {}
        )


def _build_options(cls: type[Any], node: object, where: str) -> Any:  # noqa: ANN401
    """Build a small dataclass from a YAML node."""
    if not isinstance(node, Mapping):
        raise SpecError(f"{where}: expected options, got {node!r:.60}")
    check_options(cls, node, where)
    hints = {
        "outcome": Outcome | None, "rating": float | None, "keys": Mapping[str, str], "whole": bool,
    }  # fmt: skip
    return cls(**{k: coerce(v, hints.get(k, str), f"{where}.{k}") for k, v in node.items()})


def list_protocol_names() -> list[str]:
    """Return the names of the protocols that come with the harness."""
    folder = resources.files("openended.harness.rating") / "protocols"
    return sorted(p.name.removesuffix(".yaml") for p in folder.iterdir() if p.name.endswith(".yaml"))


def load_protocol(name: str, changes: Mapping[str, Any] | None = None) -> StudyProtocol:
    """Read a protocol by its name, or from a YAML file of the user's."""
    path = Path(name)
    if name.endswith((".yaml", ".yml")):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as err:
            raise DataError(f"protocol={name}: cannot be read ({err})") from err
    else:
        names = list_protocol_names()
        if name not in names:
            raise SpecError(f"protocol={name}: no such protocol{suggest(name, names)}, or the path of a .yaml")
        text = (resources.files("openended.harness.rating") / "protocols" / f"{name}.yaml").read_text(encoding="utf-8")
    options = read_options(text, f"protocol={name}", format_error)
    return make_protocol({"label": path.stem, **options, **(changes or {})}, name)


def make_protocol(node: Mapping[str, Any], where: str) -> StudyProtocol:
    """Build a protocol from its options."""
    check_options(StudyProtocol, node, f"protocol={where}")
    return StudyProtocol(**{str(k): v for k, v in node.items()})
