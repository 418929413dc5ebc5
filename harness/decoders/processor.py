"""Decoders as logits processors: logits in, log Q out, for engines that draw by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from openended.harness.core import SpecError, construct, load_member
from openended.harness.decoders.base import QDecoder
from openended.harness.decoders.q import apply_penalties, apply_temperature, compute_dense_q

if TYPE_CHECKING:
    from torch import Tensor


def build_q_decoder(name: str, options: Mapping[str, Any]) -> QDecoder:
    """Build a decoder that draws each token from a Q."""
    decoder: object = construct(load_member("decoder", name), options, f"decoder {name}")
    if not isinstance(decoder, QDecoder):
        raise SpecError(f"decoder {name}: it does not draw each token from a Q; nucleus, min_p or typical do")
    return decoder


def parse_q_decoder(words: str) -> QDecoder:
    """Build a decoder from its name and options, as `nucleus,p=0.9`."""
    import yaml

    name, *options = words.split(",")
    pairs = [option.partition("=") for option in options]
    return build_q_decoder(name.strip(), {key.strip(): yaml.safe_load(value) for key, _, value in pairs})


def compute_log_q(
    decoder: QDecoder, logits: Tensor, history: Tensor, lengths: Tensor | None, state: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Return log Q (n, V), float32, and what the next state needs: the surprisal of every token (n, V), else None."""
    penalized = apply_penalties(decoder, logits.float(), history, lengths) if decoder.penalizes else logits.float()
    log_q = compute_dense_q(decoder, penalized, state).log().float()
    return log_q, None if state is None else -apply_temperature(decoder, penalized).double().log_softmax(-1)


class QProcessor:
    """A decoder as a logits processor of transformers; one for each call of `generate` at a time."""

    def __init__(self, decoder: QDecoder, pad_id: int | None = None) -> None:
        self.decoder, self._pad_id, self._length = decoder, pad_id, -1
        self._state: Tensor | None = None
        self._surprisal: Tensor | None = None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return log Q (n, V) of the next tokens after `input_ids` (n, t)."""
        import torch

        history, lengths = input_ids, None
        if self._pad_id is not None:  # move the padding to the right end
            pads = (input_ids == self._pad_id).long().cumprod(1).sum(1).clamp(max=input_ids.shape[1] - 1)
            at = torch.arange(input_ids.shape[1], device=input_ids.device) + pads[:, None]
            history = input_ids.gather(1, at % input_ids.shape[1])
            lengths = input_ids.shape[1] - pads
        if first := self.decoder.first_state():
            follows = self._surprisal is not None and input_ids.shape[1] == self._length + 1
            if follows and self._surprisal is not None and len(self._surprisal) == len(scores):
                surprise = self._surprisal.gather(1, input_ids[:, -1:]).squeeze(1)
                self._state = self.decoder.next_state(self._state, surprise)
            else:  # the first token of a new batch
                self._state = torch.tensor([first], dtype=torch.float64, device=scores.device).repeat(len(scores), 1)
        self._length = input_ids.shape[1]
        log_q, self._surprisal = compute_log_q(self.decoder, scores, history, lengths, self._state)
        return log_q
