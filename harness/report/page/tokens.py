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
        self._texts: dict[int, str] = {}  # of single tokens

    def lengths(self, text: str, ids: Sequence[int], count: int) -> list[int] | None:
        """Return the length of each token in the text, UTF-16 units; None where tokens and text do not agree.

        `ids` may be those of another tokenizer; `count` is how many tokens the scorer saw.
        """
        if len(ids) != count:
            ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        if len(ids) != count or not count:
            return None
        for token in set(ids) - self._texts.keys():
            self._texts[token] = self._decode([token])
        pieces = [self._texts[token] for token in ids]
        if "".join(pieces) != text and any(UNKNOWN in piece for piece in pieces):
            pieces = self._decode_by_prefix(ids)
        # Browsers count in UTF-16 units.
        return [len(piece.encode("utf-16-le")) // 2 for piece in pieces] if "".join(pieces) == text else None

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


def load_token_ends(run: Run) -> TokenEnds | None:
    """Return the token finder of a run's scorer; None if its tokenizer is not on this machine."""
    where, revision = str(run.axes.get("scorer.path") or ""), str(run.axes.get("scorer.revision") or "") or None
    folder = Path(where).expanduser()
    path: Path | None = folder / "tokenizer.json"
    if where.startswith(BUNDLED):
        assets = Path(str(resources.files("openended.harness"))) / "assets"
        path = assets / where.removeprefix(BUNDLED) / "tokenizer.json"
    elif where.count("/") == 1 and not folder.is_dir():
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(where, "tokenizer.json", revision=revision)  # searches only the disk
        path = Path(cached) if isinstance(cached, str) else None
    if not where or path is None or not path.is_file():
        return None
    from tokenizers import Tokenizer

    return TokenEnds(Tokenizer.from_file(str(path)))


def encode_tokens(lengths: Sequence[int], nll: Floats) -> tuple[str, str] | None:
    """Return lengths and surprise as a letter per token: `DIGITS`; None where a token is too long for one."""
    if max(lengths, default=0) >= len(DIGITS):
        return None
    steps = (min(int(max(float(x), 0.0) / STEP), len(DIGITS) - 1) for x in nll)
    return "".join(DIGITS[n] for n in lengths), "".join(DIGITS[s] for s in steps)
