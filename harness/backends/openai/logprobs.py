"""Read the log-probabilities of a given text from each dialect's reply."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openended.harness.backends.openai.replies import (
    MAX_LOG_PROB,
    Listing,
    find_prompt_fault,
    make_listing,
    read_choices,
    refuse_malformed,
)
from openended.harness.backends.openai.requests import CompletionRequest, RequestBuilder
from openended.harness.core import F64, DataError

NO_ECHO = (
    "gives no log-probabilities of a given text (echo, prompt_logprobs): it cannot score; vLLM, SGLang and "
    "llama-cpp-python can"
)


@dataclass(frozen=True, slots=True, eq=False)
class PromptLogProbs:
    """Log-probability of each token of a text, given the tokens before it."""

    log_probs: F64
    """Natural logs, shape (T,); NaN for the first, which has nothing before it."""
    tops: tuple[Listing | None, ...]
    """The most probable tokens at each position, if requested."""


@refuse_malformed
def read_echo(reply: Any, builder: RequestBuilder, request: CompletionRequest) -> PromptLogProbs:  # noqa: ANN401 - JSON
    """Read the log-probabilities of a prompt's own tokens."""
    if builder.dialect.name == "sglang":
        return _check_log_probs(*_read_sglang(reply, request), request)
    if fault := find_prompt_fault(reply, builder, request):
        raise DataError(fault)
    choice = read_choices(reply)[0]
    entries = choice.get("prompt_logprobs")
    if entries is None and isinstance(reply, Mapping):
        entries = reply.get("prompt_logprobs")
    if isinstance(entries, list):
        return _check_log_probs(*_read_vllm(entries, request), request)
    legacy = choice.get("logprobs")
    if not isinstance(legacy, Mapping) or not isinstance(legacy.get("token_logprobs"), list):
        raise DataError(f"it {NO_ECHO}")
    values = legacy["token_logprobs"][: len(request.ids)]
    tops = [_read_legacy(row, request.listed) for row in (legacy.get("top_logprobs") or [])[: len(request.ids)]]
    return _check_log_probs(values, tops, request)


def _read_vllm(entries: Sequence[Any], request: CompletionRequest) -> tuple[list[float | None], list[Listing | None]]:
    """Read a list over positions of {token id: {logprob, rank}}; the true token is included at any rank."""
    values: list[float | None] = []
    tops: list[Listing | None] = []
    for token, row in zip(request.ids, entries, strict=False):
        if row is None:
            values.append(None)
            tops.append(None)
            continue
        if str(token) not in row:
            raise DataError(f"its prompt_logprobs lack the token {token} of the text itself: another tokenizer?")
        values.append(row[str(token)]["logprob"])
        pairs = [(int(name), float(entry["logprob"])) for name, entry in row.items()]
        tops.append(make_listing(pairs, request.listed))
    return values + [None] * max(0, len(entries) - len(request.ids)), tops


def _read_sglang(reply: Any, request: CompletionRequest) -> tuple[list[float | None], list[Listing | None]]:  # noqa: ANN401
    """Read lists over positions of (log-probability, token id, text)."""
    meta = reply.get("meta_info") if isinstance(reply, Mapping) else None
    if not isinstance(meta, Mapping) or not isinstance(meta.get("input_token_logprobs"), list):
        raise DataError(f"it {NO_ECHO}")
    entries = meta["input_token_logprobs"]
    if [entry[1] for entry in entries] != list(request.ids):
        raise DataError(f"it read other tokens than were sent: {len(entries)}, {len(request.ids)} sent")
    top = meta.get("input_top_logprobs") or [None] * len(entries)
    tops = [make_listing([(int(e[1]), float(e[0])) for e in row], request.listed) if row else None for row in top]
    return [entry[0] for entry in entries], tops


def _read_legacy(row: Any, most: int) -> Listing | None:  # noqa: ANN401
    return make_listing([(str(k), float(v)) for k, v in row.items()], most) if isinstance(row, Mapping) else None


def _check_log_probs(
    values: Sequence[float | None], tops: Sequence[Listing | None], request: CompletionRequest
) -> PromptLogProbs:
    if len(values) != len(request.ids):
        raise DataError(
            f"it returned log-probabilities of {len(values)} tokens for a text of {len(request.ids)}: another "
            "tokenizer, or a beginning-of-text token that was not sent"
        )
    wrong = [i for i, v in enumerate(values) if i and (v is None or not math.isfinite(v) or v > MAX_LOG_PROB)]
    if wrong:
        raise DataError(
            f"its log-probability of token {wrong[0]} of a text is {values[wrong[0]]}; expected one below 0"
        )
    log_probs = np.array([math.nan if i == 0 or v is None else min(v, 0.0) for i, v in enumerate(values)])
    filled = tuple(tops) if len(tops) == len(values) else (None,) * len(values)
    return PromptLogProbs(log_probs, filled)
