"""Parse and check server replies: a reply that does not match its request is an error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from openended.harness.backends.openai.bodies import clean_line
from openended.harness.backends.openai.requests import CompletionRequest, RequestBuilder
from openended.harness.core import F64, DataError, Stop, Tokenizer
from openended.harness.models import decode_continuation, tokenize_continuation

Token = int | str
"""A token by its id or, where the server names none, by its text."""
_ID = "token_id:"
MAX_LOG_PROB = 1e-3  # rounding can bring a log-probability above 0
P = ParamSpec("P")
T = TypeVar("T")


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
class CompletedText:
    """One text that a server wrote."""

    ids: tuple[int, ...]
    """Its tokens without the end token; empty where nobody can tell them."""
    text: str
    stop: Stop
    encoded: bool
    """The ids are of the text, encoded again: the server gave none."""


def read_choices(reply: Any) -> list[Mapping[str, Any]]:  # noqa: ANN401 - JSON
    """Return the choices of a reply.

    Raises:
        DataError: If there are none.
    """
    rows = reply.get("choices") if isinstance(reply, Mapping) else None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
        raise DataError(f"a server's reply holds no choices: {str(reply)[:80]}")
    return rows


def check_reply(reply: Any, builder: RequestBuilder, ask: CompletionRequest) -> None:  # noqa: ANN401 - JSON
    """Refuse a reply that cannot be an answer to the request.

    Raises:
        DataError: If it names another model, has a text that is null, or token ids that cannot have been generated;
            names the field.
    """
    if not isinstance(reply, Mapping):
        raise DataError(f"expected a JSON object, got {str(reply)[:80]!r}")
    if ask.echo and builder.dialect.name == "sglang":
        return
    model = reply.get("model")
    if builder.dialect.names_model and model is not None and model != builder.model:
        raise DataError(f"field model: it answers for {str(model)[:80]!r}, {builder.model!r} was requested")
    rows = read_choices(reply)
    if len(rows) > ask.copies:
        raise DataError(f"field choices: {len(rows)} texts, {ask.copies} requested")
    for number, choice in enumerate(rows):
        try:
            _check_choice(reply, choice, builder, ask)
        except DataError as err:
            raise DataError(f"choices[{number}]: {err}") from err


def _check_choice(
    reply: Mapping[str, Any], choice: Mapping[str, Any], builder: RequestBuilder, ask: CompletionRequest
) -> None:
    message = choice.get("message")
    field, holder = ("message.content", message) if isinstance(message, Mapping) else ("text", choice)
    text = holder.get("content" if field != "text" else "text", "")
    if not isinstance(text, str):
        raise DataError(f"field {field}: expected text, got {'null' if text is None else type(text).__name__}")
    for name, values in (("token_ids", choice.get("token_ids")), ("tokens", choice.get("tokens", reply.get("tokens")))):
        if values is not None:
            _check_ids(name, values, builder, ask)


def _check_ids(name: str, ids: Any, builder: RequestBuilder, ask: CompletionRequest) -> None:  # noqa: ANN401
    if not isinstance(ids, list):
        raise DataError(f"field {name}: expected a list of token ids, got {type(ids).__name__}")
    size = builder.vocab_size or 1 << 31
    wrong = next((i for i in ids if type(i) is not int or not 0 <= i < size), None)
    if wrong is not None:
        accepted = f"from 0 to {size - 1}, the last of the vocabulary" if builder.vocab_size else "of 0 or more"
        raise DataError(f"field {name}: expected token ids {accepted}, got {str(wrong)[:40]}")
    if len(ids) > ask.max_tokens:
        raise DataError(
            f"field {name}: it wrote {len(ids)} tokens where {ask.max_tokens} were asked for: it keeps no max_tokens"
        )
    if any(i in builder.end_ids for i in ids[:-1]):
        raise DataError(f"field {name}: the end token comes before the end of the text")


def read_text(choice: Mapping[str, Any]) -> str:
    """Return the generated text."""
    message = choice.get("message")
    text = message.get("content") if isinstance(message, Mapping) else choice.get("text")
    return text if isinstance(text, str) else ""


def read_token_ids(reply: Any, choice: Mapping[str, Any]) -> tuple[int, ...] | None:  # noqa: ANN401
    """Return the generated token ids, the end token included; None if the reply has none."""
    for ids in (choice.get("token_ids"), choice.get("tokens"), reply.get("tokens")):
        if isinstance(ids, list):
            return tuple(ids)
    return None


def read_usage(reply: Any, name: str) -> int | None:  # noqa: ANN401
    """Return a token count of the reply's `usage`; None if it has none."""
    counts = reply.get("usage") if isinstance(reply, Mapping) else None
    count = counts.get(name) if isinstance(counts, Mapping) else None
    return count if type(count) is int and count >= 0 else None


def find_prompt_fault(reply: Any, builder: RequestBuilder, ask: CompletionRequest) -> str | None:  # noqa: ANN401
    """Describe how the prompt that the server read differs from the one sent; None if it is the same or unknown."""
    if builder.chat or not ask.ids:
        return None
    ids = read_choices(reply)[0].get("prompt_token_ids") or reply.get("prompt_token_ids")
    if builder.sends_ids and isinstance(ids, list) and tuple(ids) != ask.ids:
        return _describe_other_prompt(ids, ask.ids)
    count = read_usage(reply, "prompt_tokens")
    if count is not None and count != len(ask.ids):
        more = count - len(ask.ids)
        what = "it puts tokens of its own before it (a beginning-of-text token)" if more > 0 else "it cuts prompts"
        return f"it read {count} tokens of a prompt of {len(ask.ids)}: {what}, or has another tokenizer"
    return None


def _describe_other_prompt(ids: Sequence[Any], sent: tuple[int, ...]) -> str:
    if tuple(ids[-len(sent) :]) == sent:
        return f"it puts {len(ids) - len(sent)} tokens of its own before the prompt ({ids[0]}, a beginning of text?)"
    if len(ids) < len(sent):
        return f"it cuts prompts: it read {len(ids)} tokens of {len(sent)}"
    return f"it read another prompt than was sent: {len(ids)} tokens, {len(sent)} sent"


def read_completion(
    reply: Any,  # noqa: ANN401
    builder: RequestBuilder,
    ask: CompletionRequest,
    tokenizer: Tokenizer | None,
    prompt: str,
) -> CompletedText:
    """Read a text, and check that it is what was asked for.

    Args:
        reply: The server's JSON.
        builder: Builds the requests.
        ask: What it was asked for.
        tokenizer: The model's; None: texts alone.
        prompt: The prompt as text.

    Raises:
        DataError: If the server read another prompt, stopped too early or too late, or for a reason of its own.
    """
    if fault := find_prompt_fault(reply, builder, ask):
        raise DataError(fault)
    choice = read_choices(reply)[0]
    reason, ids, text = choice.get("finish_reason"), read_token_ids(reply, choice), read_text(choice)
    if reason not in ("stop", "length"):
        raise DataError(f"a text ended with finish_reason {reason!r}; expected stop or length")
    encoded = ids is None
    if ids is None:
        count = read_usage(reply, "completion_tokens")
        ids = tuple(tokenize_continuation(tokenizer, prompt, ask.ids, text)) if tokenizer is not None else ()
    else:
        count = len(ids)
        if reason == "stop" and ids and ids[-1] in builder.end_ids:
            ids = ids[:-1]
        if tokenizer is None:  # nobody here knows what they stand for
            ids = ()
        else:
            text = decode_continuation(tokenizer, ask.ids, ids)
    _check_length(count, reason, ask)
    if encoded and count is None and len(ids) > 2 * ask.max_tokens + 8:  # encoding again can give a few more
        raise DataError(f"field text: about {len(ids)} tokens where {ask.max_tokens} were asked for")
    return CompletedText(ids, text, "eos" if reason == "stop" else "length", encoded)


def _check_length(count: int | None, reason: str, ask: CompletionRequest) -> None:
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


def refuse_malformed(read: Callable[P, T]) -> Callable[P, T]:
    """Turn the errors of reading a reply of another form than expected into `DataError`."""

    @wraps(read)
    def read_or_refuse(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except DataError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
            what = clean_line(f"{type(err).__name__}: {err}", None)[:80]
            raise DataError(f"field logprobs: its log-probabilities have another form than expected ({what})") from err

    return read_or_refuse


@refuse_malformed
def read_listings(choice: Mapping[str, Any], most: int) -> list[Listing | None]:
    """Return the tokens listed at each position that was written, at most so many; empty where there are none."""
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, Mapping):
        return []
    content, top = logprobs.get("content"), logprobs.get("top_logprobs")
    if isinstance(content, list):
        rows = [
            [(_read_token(entry), float(entry["logprob"])) for entry in at.get("top_logprobs") or ()] for at in content
        ]
        return [make_listing(row, most) for row in rows]
    rows = [[(_parse_token_name(k), float(v)) for k, v in (at or {}).items() if v is not None] for at in top or ()]
    return [make_listing(row, most) for row in rows]


def make_listing(pairs: Sequence[tuple[Token, float]], most: int) -> Listing | None:
    """Return a listing of (token, log-probability), the best `most` of them; None of none.

    Texts that several tokens share (bytes that are no character, empty ones) are left out.
    """
    unambiguous = [pair for pair in pairs if not isinstance(pair[0], str) or (pair[0] and "\ufffd" not in pair[0])]
    wrong = next((value for _, value in unambiguous if math.isnan(value) or value > MAX_LOG_PROB), None)
    if wrong is not None:
        raise DataError(f"field logprobs: expected log-probabilities of 0 or less, got {wrong}")
    unambiguous = sorted(unambiguous, key=lambda pair: -pair[1])[:most]
    if not unambiguous:
        return None
    return Listing(tuple(token for token, _ in unambiguous), np.array([value for _, value in unambiguous]))


@refuse_malformed
def read_first_tokens(reply: Any) -> list[Token]:  # noqa: ANN401
    """Return the first token of every choice of a reply, named as in its listings."""
    tokens: list[Token] = []
    for choice in read_choices(reply):
        logprobs, ids = choice.get("logprobs"), read_token_ids(reply, choice)
        if ids:
            tokens.append(ids[0])
        elif isinstance(logprobs, Mapping) and isinstance(logprobs.get("tokens"), list) and logprobs["tokens"]:
            tokens.append(_parse_token_name(str(logprobs["tokens"][0])))
        elif isinstance(logprobs, Mapping) and isinstance(logprobs.get("content"), list) and logprobs["content"]:
            tokens.append(_read_token(logprobs["content"][0]))
        else:
            tokens.append(read_text(choice))
    return tokens


def _parse_token_name(name: str) -> Token:
    return int(name.removeprefix(_ID)) if name.startswith(_ID) else name


def _read_token(entry: Mapping[str, Any]) -> Token:
    token_id = entry.get("id")
    return token_id if isinstance(token_id, int) else _parse_token_name(str(entry.get("token")))
