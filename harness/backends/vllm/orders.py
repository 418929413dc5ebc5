"""What a request to vLLM carries for the logits processor, as plain JSON: it may cross to another process."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, cast

from openended.harness.core import build, canonicalize, digest
from openended.harness.decoders import GenerationRequest, Prompt, QDecoder
from openended.harness.models import QStatisticsRequest

KEY = "openended"
"""Name of the order in a request's extra arguments."""


class TextGroup(TypedDict):
    """What the texts of one call share."""

    id: str
    """Digest of everything below: texts of equal groups are processed in one call."""
    decoders: list[dict[str, Any]]
    """One that draws, or those whose statistics are read."""
    forced: bool
    """True: the tokens are given, and the statistics of Q are read."""
    seed: int
    longest: int
    """Most tokens of a text."""
    min_new_tokens: int
    eos_ids: list[int]


class TextOrder(TypedDict):
    """One text."""

    group: TextGroup
    example_id: str
    sample: int
    prompt: list[int]
    """Token ids that the model reads first; never empty."""
    gold: list[int]
    """The tokens of a forced text; empty for a text that is drawn."""


def describe_decoder(decoder: QDecoder) -> dict[str, Any]:
    """Return the YAML node from which `build` rebuilds the decoder."""
    cls = type(decoder)
    options = cast("dict[str, Any]", canonicalize(decoder))
    fields = {f.name: options[f.name] for f in dataclasses.fields(cls)}
    return {"_target_": f"{cls.__module__}.{cls.__qualname__}", **fields}


def build_decoders(group: TextGroup) -> list[QDecoder]:
    """Return the decoders of a group."""
    return [cast("QDecoder", build("decoder", node)) for node in group["decoders"]]


def make_sampling_group(request: GenerationRequest, eos_ids: Sequence[int]) -> TextGroup:
    """Return the group of a generation request, whose decoder has a Q."""
    decoder = cast("QDecoder", request.decoder)
    return _identify(
        {
            "decoders": [describe_decoder(decoder)], "forced": False, "seed": request.seed,
            "longest": request.max_new_tokens, "min_new_tokens": request.min_new_tokens, "eos_ids": list(eos_ids),
        }
    )  # fmt: skip


def make_forcing_group(request: QStatisticsRequest, eos_ids: Sequence[int]) -> TextGroup:
    """Return the group of a request for statistics of Q."""
    return _identify(
        {
            "decoders": [describe_decoder(decoder) for decoder in request.decoders], "forced": True, "seed": 0,
            "longest": int(request.continuations.lengths.max(initial=0)), "min_new_tokens": request.min_new_tokens,
            "eos_ids": list(eos_ids),
        }
    )  # fmt: skip


def make_order(group: TextGroup, prompt: Prompt, gold: Sequence[int] = ()) -> TextOrder:
    """Return the order of one text."""
    return {
        "group": group, "example_id": prompt.example_id, "sample": prompt.sample, "prompt": list(prompt.token_ids),
        "gold": list(gold),
    }  # fmt: skip


def _identify(facts: Mapping[str, Any]) -> TextGroup:
    return cast("TextGroup", {"id": digest(facts), **facts})
