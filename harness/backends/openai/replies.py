"""What servers answer, and whether it is what was asked for: a reply that disagrees with its request is an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openended.harness.backends.openai.requests import Ask, Speech
from openended.harness.core import F64, DataError, Stop, Tokenizer
from openended.harness.models import continuation_ids, continuation_text

Token = int | str
"""A token by its id or, where the server names none, by its text."""
_ID = "token_id:"


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """The most probable tokens of one position, the best first."""

    tokens: tuple[Token, ...]
    log_probs: F64
    """Natural logs, shape (L,), falling."""

    @property
    def mass(self) -> float:
        """Probability of all that is listed."""
        return float(np.exp(self.log_probs).sum())


@dataclass(frozen=True, slots=True)
class Finished:
    """One text that a server wrote."""

    ids: tuple[int, ...]
    """Its tokens without the end token; empty where nobody can tell them."""
    text: str
    stop: Stop
    encoded: bool
    """The ids are of the text, encoded again: the server gave none."""


def choices(reply: Any) -> list[Mapping[str, Any]]:  # noqa: ANN401 - JSON
    """Return the choices of a reply.

    Raises:
        DataError: If there are none.
    """
    found = reply.get("choices") if isinstance(reply, Mapping) else None
    if not isinstance(found, list) or not found or not all(isinstance(one, Mapping) for one in found):
        raise DataError(f"a server's reply holds no choices: {str(reply)[:80]}")
    return found


def text_of(choice: Mapping[str, Any]) -> str:
    """Return what was written."""
    message = choice.get("message")
    made = message.get("content") if isinstance(message, Mapping) else choice.get("text")
    return made if isinstance(made, str) else ""


def ids_of(reply: Any, choice: Mapping[str, Any]) -> tuple[int, ...] | None:  # noqa: ANN401
    """Return the ids of what was written, the end token included; None where the server tells none."""
    for found in (choice.get("token_ids"), choice.get("tokens"), reply.get("tokens")):
        if isinstance(found, list) and all(isinstance(i, int) for i in found):
            return tuple(found)
    return None


def usage(reply: Any, name: str) -> int | None:  # noqa: ANN401
    """Return a count of tokens by the server's own account; None where it keeps none."""
    told = reply.get("usage") if isinstance(reply, Mapping) else None
    found = told.get(name) if isinstance(told, Mapping) else None
    return found if isinstance(found, int) else None


def prompt_fault(reply: Any, speech: Speech, ask: Ask) -> str | None:  # noqa: ANN401
    """Return what is wrong with the prompt that the server read; None where nothing is, or nobody can tell."""
    if speech.chat or not ask.ids:
        return None
    told = choices(reply)[0].get("prompt_token_ids") or reply.get("prompt_token_ids")
    if speech.sends_ids and isinstance(told, list) and tuple(told) != ask.ids:
        return _other_prompt(told, ask.ids)
    count = usage(reply, "prompt_tokens")
    if count is not None and count != len(ask.ids):
        more = count - len(ask.ids)
        what = "it puts tokens of its own before it (a beginning-of-text token)" if more > 0 else "it cuts prompts"
        return f"it read {count} tokens of a prompt of {len(ask.ids)}: {what}, or has another tokenizer"
    return None


def _other_prompt(told: Sequence[Any], sent: tuple[int, ...]) -> str:
    if tuple(told[-len(sent) :]) == sent:
        return f"it puts {len(told) - len(sent)} tokens of its own before the prompt ({told[0]}, a beginning of text?)"
    if len(told) < len(sent):
        return f"it cuts prompts: it read {len(told)} tokens of {len(sent)}"
    return f"it read another prompt than was sent: {len(told)} tokens, {len(sent)} sent"


def finished(reply: Any, speech: Speech, ask: Ask, tokenizer: Tokenizer | None, prompt: str) -> Finished:  # noqa: ANN401
    """Read a text, and check that it is what was asked for.

    Args:
        reply: The server's JSON.
        speech: How the server is talked to.
        ask: What it was asked for.
        tokenizer: The model's; None: texts alone.
        prompt: The prompt as text.

    Raises:
        DataError: If the server read another prompt, stopped too early or too late, or for a reason of its own.
    """
    if fault := prompt_fault(reply, speech, ask):
        raise DataError(fault)
    choice = choices(reply)[0]
    reason, ids, text = choice.get("finish_reason"), ids_of(reply, choice), text_of(choice)
    if reason not in ("stop", "length"):
        raise DataError(f"a text ended with finish_reason {reason!r}; expected stop or length")
    encoded = ids is None
    if ids is None:
        count = usage(reply, "completion_tokens")
        ids = tuple(continuation_ids(tokenizer, prompt, ask.ids, text)) if tokenizer is not None else ()
    else:
        count = len(ids)
        if reason == "stop" and ids and ids[-1] in speech.end_ids:
            ids = ids[:-1]
        if tokenizer is None:  # nobody here knows what they stand for
            ids = ()
        else:
            text = continuation_text(tokenizer, ask.ids, ids)
    _check_length(count, reason, ask)
    return Finished(ids, text, "eos" if reason == "stop" else "length", encoded)


def _check_length(count: int | None, reason: str, ask: Ask) -> None:
    """Refuse a text of more tokens than asked for, or of fewer that says it was cut or must not have ended."""
    if count is None:
        return
    if count > ask.max_tokens:
        raise DataError(f"it wrote {count} tokens where {ask.max_tokens} were asked for: it keeps no max_tokens")
    if reason == "length" and count < ask.max_tokens:
        raise DataError(
            f"it cut a text after {count} tokens where {ask.max_tokens} were asked for: its own limit is lower, or "
            "prompt and text do not fit its context"
        )
    if reason == "stop" and count < ask.min_tokens:
        raise DataError(f"a text ended after {count} tokens in spite of min_new_tokens={ask.min_tokens}")


def listings(choice: Mapping[str, Any], most: int) -> list[Listing | None]:
    """Return the tokens listed at each position that was written, at most so many; empty where there are none."""
    told = choice.get("logprobs")
    if not isinstance(told, Mapping):
        return []
    content, top = told.get("content"), told.get("top_logprobs")
    if isinstance(content, list):
        rows = [[(_token(one), float(one["logprob"])) for one in at.get("top_logprobs") or ()] for at in content]
        return [listed(row, most) for row in rows]
    rows = [[(_keyed(k), float(v)) for k, v in (at or {}).items() if v is not None] for at in top or ()]
    return [listed(row, most) for row in rows]


def listed(pairs: Sequence[tuple[Token, float]], most: int) -> Listing | None:
    """Return a listing of (token, log-probability), the best `most` of them; None of none.

    Texts that several tokens share (bytes that are no character, empty ones) are left out.
    """
    kept = [pair for pair in pairs if not isinstance(pair[0], str) or (pair[0] and "\ufffd" not in pair[0])]
    kept = sorted(kept, key=lambda pair: -pair[1])[:most]
    if not kept:
        return None
    return Listing(tuple(token for token, _ in kept), np.array([value for _, value in kept]))


def drawn(reply: Any) -> list[Token]:  # noqa: ANN401
    """Return the first token of every choice of a reply, named as in its listings."""
    made: list[Token] = []
    for choice in choices(reply):
        told, ids = choice.get("logprobs"), ids_of(reply, choice)
        if ids:
            made.append(ids[0])
        elif isinstance(told, Mapping) and isinstance(told.get("tokens"), list) and told["tokens"]:
            made.append(_keyed(str(told["tokens"][0])))
        elif isinstance(told, Mapping) and isinstance(told.get("content"), list) and told["content"]:
            made.append(_token(told["content"][0]))
        else:
            made.append(text_of(choice))
    return made


def _keyed(name: str) -> Token:
    return int(name.removeprefix(_ID)) if name.startswith(_ID) else name


def _token(one: Mapping[str, Any]) -> Token:
    found = one.get("id")
    return found if isinstance(found, int) else _keyed(str(one.get("token")))
