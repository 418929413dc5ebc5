"""Requests to models about texts that are given; those for new texts are in `openended.harness.decoders`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import Ragged
from openended.harness.decoders import QDecoder
from openended.harness.models.embedder import EmbedderSpec


class TextVectors(NamedTuple):
    """Vectors of texts, and how many texts were truncated."""

    vectors: NDArray[np.float32]
    """Shape (n, d), rows in the order of the texts. A text without tokens is replaced by the model's start token."""
    truncated: int  # number of texts that were cut on the right


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextRequest:
    """Texts that are given, as token ids under the model's own tokenizer."""

    prompts: Ragged  # one row per text; rows may be empty
    continuations: Ragged  # the tokens that follow, whose losses or statistics count; as many rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoringRequest(TextRequest):
    """Texts whose tokens a model scores by -log p."""

    include_prompt: bool = False  # score the prompt's tokens too
    bos: bool = False  # put the model's start token before a text where the model does not read one anyway
    ranks: bool = False  # give each token's rank too: the scores then have shape (tokens, 2)
    window: int | None = None  # tokens read at once; None: the model's context
    stride: int | None = None  # tokens that each later window scores; None: half a window
    batch_size: int  # batch size; affects only float noise (1e-5) and time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GradientRequest(TextRequest):
    """Texts for which the gradient of the mean token loss is sketched."""

    size: int  # numbers per sketch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QStatisticsRequest(TextRequest):
    """Human texts that are scored under the distribution Q of each decoder."""

    decoders: Sequence[QDecoder]  # decoders whose Q is computed; all from the logits of one pass
    min_new_tokens: int = 0  # as in generation: Q gives the end of text nothing before this many tokens
    entropy: bool = False  # compute the entropy of Q too, from its whole distribution
    batch_size: int  # rows of one forward pass at most


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EmbeddingRequest(ScoringRequest):
    """Texts, prompt and continuation together, that a model turns into vectors, and may score in the same pass."""

    embedder: EmbedderSpec  # layer, pooling, and the maximum length at which texts are truncated on the right
