"""Study protocols: questions, wording, scale and sizes, each in a YAML file."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Literal

from openended.harness import core
from openended.harness.core import DataError, SpecError, suggest

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
    prompt: str = "{text}"
    """What follows the instruction; `{text}` is the text, or the texts of a batch, `{prompt}` what it continues."""
    batch: int = 1
    """Texts of one system that one question is about."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Question → its key in the JSON of the reply, where the instruction names one."""


def _declare_count(default: Any, least: int, help_line: str) -> Any:  # noqa: ANN401 - a field of any number
    """Declare a number of at least `least`, which is a flag of `openended rate make`."""
    rule = (lambda value: value is None or value >= least, f"{least} or more{', or null' if default is None else ''}")
    return field(default=default, metadata={"rule": rule, "help": help_line})


@dataclass(frozen=True, kw_only=True)
class StudyProtocol(core.Spec):
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
    prompt: str = core.option(
        "{prompt}", lambda text: not text or "{prompt}" in text, "a text with {prompt} in it, or an empty one"
    )
    """How the prompt is shown; empty: it is not, so that the prompts of the systems may differ."""
    prompt_label: str = ""
    text: str = core.option("{text}", lambda text: "{text}" in text, "a text with {text} in it")
    """How a text is shown."""
    text_label: str = ""
    questions: Mapping[str, str] = core.option(core.REQUIRED, bool, "at least one, as criterion: question")
    """Criterion → its question."""
    answers: tuple[Any, ...] = core.option(core.REQUIRED, lambda a: 2 <= len(a) <= _MOST_KEYS, f"2 to {_MOST_KEYS}")
    """In the order of the keys 1, 2, …; see `AnswerChoice`."""
    items: int = _declare_count(
        MISSING, 1, "pairs: prompts for each pair of systems; ratings: prompts, each with the texts of all systems"
    )
    raters: int = _declare_count(1, 1, "raters of each item")
    items_a_sheet: int = _declare_count(20, 1, "items that one rater gets")
    controls_a_sheet: int = _declare_count(2, 0, "how many of --controls go on a sheet")
    cut_words: int | None = _declare_count(None, 1, "cut texts after so many words")
    min_words: int = _declare_count(1, 1, "leave out shorter texts: pairs: their pairs; ratings: their prompts")
    shortest_tokens: int | None = _declare_count(None, 1, "the same by the tokens of the model (MAUVE, appendix E.4)")
    longest_tokens: int | None = _declare_count(None, 1, "refuse longer texts")
    seconds_an_item: float = _declare_count(60.0, 0, "seconds a rater needs per item; for the forecast of hours")
    hourly_pay: float | None = _declare_count(None, 0, "what a rater is paid per hour; for the forecast of costs")
    item_pay: float | None = _declare_count(None, 0, "what a rater is paid per item, where it is not by the hour")
    selection: str = field(default="", metadata={"help": "who may rate, for the datasheet"})
    min_seconds: float = _declare_count(0.0, 0, "faster answers are left out of the scores of pairs")
    exclusions: tuple[str, ...] = ()
    """What the published study left out and no option does: shown before a study is made, and on the datasheet."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Metric → its options, of `openended rate score`; empty: `bradley_terry` of pairs, `mean_rating` of ratings."""
    most_ties: float = field(default=0.1, metadata={"help": "a larger share of ties is reported"})
    judge: Mapping[str, Any] = field(default_factory=dict)
    """See `JudgeWords`."""

    def check(self) -> None:
        wordings = [answer.say for answer in self.choices]
        self.require(len(set(wordings)) == len(wordings), "answers", "different ones")
        if self.kind == "pairs":
            sides = {answer.outcome for answer in self.choices}
            self.require({"a", "b"} <= sides and None not in sides, "answers", "an outcome each (a, b or tie)")
        else:
            self.require(all(answer.rating is not None for answer in self.choices), "answers", "a rating each")
        accepted = ("bradley_terry",) if self.kind == "pairs" else ("huse", "mean_rating")
        self.require({*self.metrics} <= {*accepted}, "metrics", " or ".join(accepted))
        self.require(0 <= self.most_ties <= 1, "most_ties", "a share from 0 to 1")
        fields = {"prompt", "answers", "why", *(("a", "b") if self.kind == "pairs" else ("text",))}
        for number, example in enumerate(self.examples):
            where = f"protocol.examples[{number}]"
            if not isinstance(example, Mapping) or set(example) != fields:
                raise SpecError(f"{where}: expected {', '.join(sorted(fields))}, got {sorted(example)!r:.80}")
            for question, answer in dict(example["answers"]).items():
                if question not in self.questions:
                    raise SpecError(f"{where}: no question {question!r}{suggest(str(question), self.questions)}")
                if answer not in wordings:
                    raise SpecError(f"{where}: no answer {answer!r}{suggest(str(answer), wordings)}")
        _ = self.judge_words  # refuses unknown options

    @cached_property
    def choices(self) -> tuple[AnswerChoice, ...]:
        return tuple(
            core.decode(AnswerChoice, answer, f"protocol.answers[{i}]") for i, answer in enumerate(self.answers)
        )

    @property
    def scale(self) -> list[float]:
        """The ratings that can be given; empty for pairs."""
        return [answer.rating for answer in self.choices if answer.rating is not None]

    @cached_property
    def judge_words(self) -> JudgeWords:
        return core.decode(JudgeWords, self.judge, "protocol.judge")

    def choose_metrics(self, players: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return metric → options of what is measured; HUSE is left out where no text of people was rated."""
        usual = "bradley_terry" if self.kind == "pairs" else "mean_rating"
        metrics: dict[str, dict[str, Any]] = {name: dict(options or {}) for name, options in self.metrics.items()}
        if core.HUMAN not in players:
            metrics.pop("huse", None)
        metrics = metrics or {usual: {}}
        if "bradley_terry" in metrics and self.min_seconds:
            metrics["bradley_terry"] |= {"min_seconds": self.min_seconds}
        return metrics

    @property
    def pay(self) -> float | None:
        """What a rater is paid per item."""
        by_hour = None if self.hourly_pay is None else self.hourly_pay * self.seconds_an_item / 3600
        return by_hour if self.item_pay is None else self.item_pay


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
    options = core.read_options(text, f"protocol={name}", core.format_error)
    return make_protocol({"label": path.stem, **options, **(changes or {})}, name)


def make_protocol(node: Mapping[str, Any], where: str) -> StudyProtocol:
    """Build a protocol from its options."""
    core.check_options(StudyProtocol, node, f"protocol={where}")
    return StudyProtocol(**{str(k): v for k, v in node.items()})
