"""Creative writing after an instruction, without human references (Le Bronnec et al. 2024).

Instructions are drawn at random, with replacement; a text answers one. There is no human side: one system serves as the
other's reference. First generate with one model (`human` is then the missing side, and metrics of one side are made),
then pass its texts as `reference`: JSON lines with `prompt` or `id`, and the text.

The instructions here are our own; the paper's 50, or any others, come by `path`, one a line.
Source: https://github.com/AlexVerine/pr-4-llm. Licence: ours, Apache-2.0.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path
from typing import ClassVar, Literal

from harness.contract import SourceFile, Task, Tokenizer
from harness.errors import DataError
from harness.io import open_text, read_jsonl
from harness.registry import register
from harness.rng import stream
from harness.signature import digest, digest_bytes
from harness.types import Example
from tasks._files import own_digest
from tasks._records import text_field

_TEXTS = ("text", "generation", "human")


@register("task")
@dataclass(frozen=True, kw_only=True)
class Creative(Task):
    """Draws of instructions."""

    name: ClassVar[str] = "creative"
    source: ClassVar[str] = "comes with the harness"
    size: ClassVar[str] = "32 instructions, drawn as often as asked"
    licence: ClassVar[str] = "Apache-2.0"

    path: str | None = None  # instructions, one a line; null: ours
    reference: str | None = None  # another system's texts for the same draws
    num_draws: int = 4000  # Le Bronnec et al., appendix B.4
    min_words: int = 100  # asked for in the prompt, as the paper asks
    max_words: int = 500  # the same
    template: Literal["plain", "chat"] = "plain"  # chat: the instruction is the user's turn
    seed: int = 0  # draws the instructions

    def check(self) -> None:
        """Counts are positive and in order."""
        self.require(self.num_draws >= 1, "num_draws", "1 or more")
        self.require(1 <= self.min_words <= self.max_words, "min_words", f"from 1 to max_words ({self.max_words})")

    def has_human(self) -> bool:
        """Return false where no reference is given."""
        return self.reference is not None

    def files(self) -> list[SourceFile]:
        """Return the user's files."""
        return [SourceFile(Path(p).name, "", Path(p)) for p in (self.path, self.reference) if p is not None]

    def fingerprint(self) -> str:
        """Digest of instructions and reference."""
        parts = [own_digest(Path(self.path), "task creative", "task.path") if self.path else digest_bytes(_builtin())]
        if self.reference is not None:
            parts.append(own_digest(Path(self.reference), "task creative", "task.reference"))
        return digest(parts)

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        """Yield draws in order; the human side is the reference's text for the same draw, or empty without one.

        Raises:
            DataError: If the reference lacks a draw's text.
        """
        del tokenizer, skipped
        instructions = self._instructions()
        draws = stream(self.seed, "creative").integers(0, len(instructions), self.num_draws)
        references = self._references()
        for number, draw in enumerate(draws):
            identity = f"creative/{number:06d}"
            prompt, meta = self._prompt(instructions[int(draw)])
            human = ""
            if references is not None:
                waiting = references.get(identity) or references.get(str(number)) or references.get(prompt)
                if not waiting:
                    raise DataError(f"{self.reference}: no text for {identity}; set num_examples to what it holds")
                human = waiting.pop(0)
            yield Example(identity, prompt, human, {**meta, "instruction": int(draw)})

    def _prompt(self, instruction: str) -> tuple[str, dict[str, str]]:
        request = f"{instruction} Use between {self.min_words} and {self.max_words} words."
        if self.template == "chat":
            return request, {"user": request, "assistant": ""}
        return f"Instruction: {request}\n\nText:\n\n", {}

    def _instructions(self) -> list[str]:
        if self.path is None:
            lines = _builtin().decode().splitlines()
        else:
            try:
                with open_text(Path(self.path)) as handle:
                    lines = handle.read().splitlines()
            except UnicodeDecodeError as err:
                raise DataError(f"{self.path}: not UTF-8 ({err.reason})") from err
        found = [line.strip() for line in lines if line.strip()]
        if not found:
            raise DataError(f"{self.path}: holds no instruction")
        return found

    def _references(self) -> dict[str, list[str]] | None:
        """Return the reference's texts by id, or by prompt where lines have no id."""
        if self.reference is None:
            return None
        path = Path(self.reference)
        found: dict[str, list[str]] = defaultdict(list)
        for number, row in read_jsonl(path):
            where = f"{path}:{number}"
            field = next((name for name in _TEXTS if name in row), _TEXTS[0])
            text = text_field(row, field, where)
            if not text.strip():
                raise DataError(f"{where}: an empty text cannot be a reference")
            key = row.get("id", row.get("example_id"))
            found[str(key) if key is not None else text_field(row, "prompt", where)].append(text)
        return found


def _builtin() -> bytes:
    return package_files("tasks").joinpath("data/creative.txt").read_bytes()
