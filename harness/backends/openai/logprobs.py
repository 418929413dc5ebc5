"""Log-probabilities of a given text, as each server tells them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openended.harness.backends.openai.replies import Listing, choices, listed, prompt_fault
from openended.harness.backends.openai.requests import Ask, Speech
from openended.harness.core import F64, DataError

NO_ECHO = (
    "gives no log-probabilities of a given text (echo, prompt_logprobs): it cannot score; vLLM, SGLang and "
    "llama-cpp-python can"
)


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """What a model gave the tokens of a text, each under those before it."""

    log_probs: F64
    """Natural logs, shape (T,); NaN for the first, which has nothing before it."""
    tops: tuple[Listing | None, ...]
    """The most probable tokens of each position, where they were asked for."""


def read_echo(reply: Any, speech: Speech, ask: Ask) -> Read:  # noqa: ANN401 - JSON
    """Read the log-probabilities of a prompt's own tokens.

    Raises:
        DataError: If there are none, not one a token, or one is no log-probability.
    """
    if speech.dialect.name == "sglang":
        return _checked(*_sglang(reply, ask), ask)
    if fault := prompt_fault(reply, speech, ask):
        raise DataError(fault)
    choice = choices(reply)[0]
    told = choice.get("prompt_logprobs")
    if told is None and isinstance(reply, Mapping):
        told = reply.get("prompt_logprobs")
    if isinstance(told, list):
        return _checked(*_vllm(told, ask), ask)
    legacy = choice.get("logprobs")
    if not isinstance(legacy, Mapping) or not isinstance(legacy.get("token_logprobs"), list):
        raise DataError(f"it {NO_ECHO}")
    values = legacy["token_logprobs"][: len(ask.ids)]
    tops = [_legacy(one, ask.listed) for one in (legacy.get("top_logprobs") or [])[: len(ask.ids)]]
    return _checked(values, tops, ask)


def _vllm(told: Sequence[Any], ask: Ask) -> tuple[list[float | None], list[Listing | None]]:
    """A list over positions of {token id: {logprob, rank}}; the true token is in it whatever its rank."""
    values: list[float | None] = []
    tops: list[Listing | None] = []
    for token, one in zip(ask.ids, told, strict=False):
        if one is None:
            values.append(None)
            tops.append(None)
            continue
        if str(token) not in one:
            raise DataError(f"its prompt_logprobs lack the token {token} of the text itself: another tokenizer?")
        values.append(one[str(token)]["logprob"])
        pairs = [(int(name), float(entry["logprob"])) for name, entry in one.items()]
        tops.append(listed(pairs, ask.listed))
    return values + [None] * max(0, len(told) - len(ask.ids)), tops


def _sglang(reply: Any, ask: Ask) -> tuple[list[float | None], list[Listing | None]]:  # noqa: ANN401
    """Lists over positions of (log-probability, token id, text)."""
    meta = reply.get("meta_info") if isinstance(reply, Mapping) else None
    if not isinstance(meta, Mapping) or not isinstance(meta.get("input_token_logprobs"), list):
        raise DataError(f"it {NO_ECHO}")
    told = meta["input_token_logprobs"]
    if [entry[1] for entry in told] != list(ask.ids):
        raise DataError(f"it read other tokens than were sent: {len(told)}, {len(ask.ids)} sent")
    top = meta.get("input_top_logprobs") or [None] * len(told)
    made = [listed([(int(e[1]), float(e[0])) for e in one], ask.listed) if one else None for one in top]
    return [entry[0] for entry in told], made


def _legacy(one: Any, most: int) -> Listing | None:  # noqa: ANN401
    return listed([(str(k), float(v)) for k, v in one.items()], most) if isinstance(one, Mapping) else None


def _checked(values: Sequence[float | None], tops: Sequence[Listing | None], ask: Ask) -> Read:
    if len(values) != len(ask.ids):
        raise DataError(
            f"it told log-probabilities of {len(values)} tokens for a text of {len(ask.ids)}: another tokenizer, or a "
            "beginning-of-text token that was not sent"
        )
    wrong = [i for i, v in enumerate(values) if i and (v is None or not math.isfinite(v) or v > 1e-3)]
    if wrong:
        raise DataError(
            f"its log-probability of token {wrong[0]} of a text is {values[wrong[0]]}; expected one below 0"
        )
    made = np.array([math.nan if i == 0 or v is None else min(v, 0.0) for i, v in enumerate(values)])
    filled = tuple(tops) if len(tops) == len(values) else (None,) * len(values)
    return Read(made, filled)
