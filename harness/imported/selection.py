"""What of a file of texts is scored; every run has one, so it is apart from the reader."""

from dataclasses import dataclass
from typing import Literal

from openended.harness.core import Thinking

Side = Literal["system", "human"]


@dataclass(frozen=True, slots=True)
class TextSelection:
    """What of a file is scored."""

    field: str | None = None  # with the text; None: it is guessed
    role: str | None = None  # of the turns of a conversation; None: assistant
    thinking: Thinking = "drop"  # of texts with reasoning
    side: Side = "system"
    is_strict: bool = False  # only texts in a field that is called so; nothing is guessed or taken apart


WHOLE = TextSelection()
