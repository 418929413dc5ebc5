"""How a scorer reads texts: the options of the features that it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openended.harness.core import Need, Scope, SpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringOptions:
    """Options of `token_nll`, `token_rank`, `gradients` and `tokens`; defaults are in no key."""

    scope: Scope
    bos: bool = False
    """The model's start token is read before every text."""
    retokenize: bool = False
    """The text is tokenized again, also where its stored ids are of the scorer's tokenizer."""
    without_end: bool = False
    """End tokens and outer white space are removed from the text before it is tokenized."""
    window: int | None = None
    """Tokens that are read at once; None: as many as the model can."""
    stride: int | None = None
    """Tokens that each later window scores; None: half a window."""

    @classmethod
    def from_need(cls, need: Need) -> ScoringOptions:
        """Return the options of a need."""
        options: dict[str, Any] = dict(need.options)
        unknown = set(options) - {"bos", "retokenize", "without_end", "window", "stride"}
        if unknown:
            raise SpecError(f"{need.kind}: no option {', '.join(sorted(unknown))}")
        return cls(scope=need.scope, **options)

    @property
    def tokenizes_again(self) -> bool:
        """True if stored ids are not used."""
        return self.retokenize or self.without_end

    @property
    def is_plain(self) -> bool:
        """True if an embedder may share the pass."""
        return self == ScoringOptions(scope=self.scope)

    @property
    def title(self) -> str:
        """Name in the plan and the record."""
        return " ".join(
            [self.scope, *(word if value is True else f"{word}={value}" for word, value in self._list_changed())]
        )

    def token_facts(self) -> dict[str, Any]:
        """Return what identifies the tokens."""
        return {"scope": self.scope, **{name: value for name, value in self._list_changed() if name in _TOKENS}}

    def facts(self) -> dict[str, Any]:
        """Return what identifies the scores."""
        return {"scope": self.scope, "bos": self.bos, **{n: v for n, v in self._list_changed() if n != "bos"}}

    def _list_changed(self) -> list[tuple[str, Any]]:
        """Return the options that differ from their defaults."""
        values = [(name, getattr(self, name)) for name in ("bos", "retokenize", "without_end", "window", "stride")]
        return [(name, value) for name, value in values if value]


_TOKENS = ("retokenize", "without_end")
