"""Find the scorer's tokens in a text so that the page can color them; needs the scorer's tokenizer on this machine.

Nothing is guessed: the pieces must spell the text and be as many as the stored likelihoods, else a text stays plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from openended.harness.core import Floats
from openended.harness.results import Run

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-"
STEP = 0.25  # nats: one step of the scale of the page's colors
BUNDLED = "bundled:"
UNKNOWN = "\ufffd"  # decoded from an incomplete character


class TokenEnds:
    """Finds the tokens of texts."""

    def __init__(self, tokenizer: Any) -> None:  # noqa: ANN401
        self._tokenizer = tokenizer
        self._pieces: dict[int, tuple[str, int]] = {}

    def lengths(self, text: str, ids: Sequence[int], count: int) -> list[int] | None:
        """Return the length of each token in the text, UTF-16 units; None where tokens and text do not agree."""
        for candidate_ids in (
            ids,
            self._tokenizer.encode(text, add_special_tokens=False).ids if len(ids) != count else (),
        ):
            if len(candidate_ids) != count or not count:
                continue
            decoded = [self._decode_token(i) for i in candidate_ids]
            if "".join(piece for piece, _ in decoded) == text:
                return [length for _, length in decoded]
            if (
                any(UNKNOWN in piece for piece, _ in decoded)
                and "".join(pieces := self._decode_by_prefix(candidate_ids)) == text
            ):
                return [_count_utf16_units(piece) for piece in pieces]
        return None

    def _decode_token(self, token: int) -> tuple[str, int]:
        if token not in self._pieces:
            piece = self._decode([token])
            self._pieces[token] = piece, _count_utf16_units(piece)
        return self._pieces[token]

    def _decode_by_prefix(self, ids: Sequence[int]) -> list[str]:
        """Decode token by token; a character that several tokens share belongs to the last of them."""
        pieces: list[str] = []
        text_so_far = ""
        for end in range(1, len(ids) + 1):
            whole = self._decode(ids[:end])
            so_far = whole if end == len(ids) else whole.rstrip(UNKNOWN)
            pieces.append(so_far[len(text_so_far) :])
            text_so_far = so_far
        return pieces

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode([int(i) for i in ids], skip_special_tokens=False))


def _count_utf16_units(text: str) -> int:
    """Return the length of a text in UTF-16 units, as browsers count."""
    return len(text.encode("utf-16-le")) // 2


def load_token_ends(run: Run) -> TokenEnds | None:
    """Return the token finder of a run's scorer; None if its tokenizer is not on this machine."""
    path = _find_tokenizer_file(
        str(run.axes.get("scorer.path") or ""), str(run.axes.get("scorer.revision") or "") or None
    )
    if path is None or not path.is_file():
        return None
    from tokenizers import Tokenizer

    return TokenEnds(Tokenizer.from_file(str(path)))


def _find_tokenizer_file(where: str, revision: str | None) -> Path | None:
    if where.startswith(BUNDLED):
        assets = Path(str(resources.files("openended.harness"))) / "assets"
        return assets / where.removeprefix(BUNDLED) / "tokenizer.json"
    if not where:
        return None
    folder = Path(where).expanduser()
    if folder.is_dir() or where.count("/") != 1:
        return folder / "tokenizer.json"
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(where, "tokenizer.json", revision=revision)  # searches only the disk
    return Path(path) if isinstance(path, str) else None


def encode_tokens(lengths: Sequence[int], nll: Floats) -> tuple[str, str] | None:
    """Return lengths and surprise as a letter a token: `DIGITS`; None where a token is too long for one."""
    if max(lengths, default=0) >= len(DIGITS):
        return None
    steps = (min(int(max(float(x), 0.0) / STEP), len(DIGITS) - 1) for x in nll)
    return "".join(DIGITS[n] for n in lengths), "".join(DIGITS[s] for s in steps)
