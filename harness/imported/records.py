"""Records of a file of texts, and what became of them; by which fields the output of another framework is known."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from openended.harness.core import Thinking

Cells = Mapping[str, Any]
Records = Iterator[tuple[int, Cells]]  # (line number, fields) of each record
# Fields of a first record that another framework may have written; `framework_outputs` decides.
FRAMEWORK_FIELDS = (
    {"arguments", "resps"}, {"question_id", "choices"}, {"uid", "messages"}, {"custom_id", "response"},
    {"instruction", "output"}, {"eval", "samples"},
)  # fmt: skip
OUTPUT_TITLES = frozenset((
    "Inspect log", "AlpacaEval outputs", "lm-evaluation-harness samples", "MT-Bench or Arena-Hard answers",
    "Arena-Hard 2 answers", "batch output (OpenAI, vLLM)",
))  # fmt: skip


def may_be_framework_output(content: object) -> bool:
    """Return whether a first record, or a whole document, has the fields of another framework's output."""
    first = next(iter(content), None) if isinstance(content, list) else content
    return isinstance(first, Mapping) and any(fields <= first.keys() for fields in FRAMEWORK_FIELDS)


@dataclass(frozen=True, slots=True)
class TextSelection:
    """What of a record is scored."""

    field: str | None = None  # with the text; None: detected in the first record
    role: str | None = None  # of the turns of a conversation; None: assistant
    thinking: Thinking = "drop"  # of texts with reasoning


@dataclass(slots=True)
class ReadSummary:
    """What became of the records of a file, other than texts that were read."""

    dropped: Counter[str] = field(default_factory=Counter)  # reason → number of records left out
    truncated: int = 0  # texts that the framework cut at a length limit
    texts: int = 0

    def line(self) -> str:
        """Return one line with all counts; empty where every record is a whole text."""
        parts = [f"left out: {count} ({reason})" for reason, count in sorted(self.dropped.items())]
        parts += [f"cut at the framework's length limit: {self.truncated}"] if self.truncated else []
        return "; ".join([f"texts read: {self.texts}", *parts]) if parts else ""
