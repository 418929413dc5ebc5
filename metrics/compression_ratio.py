"""Compression ratio: how much shorter the texts become when packed.

    compression_ratio = bytes of all texts / bytes after compression

Redundancy inside texts and between them; from about 1 up (below 1 only for a few bytes), compared with the human value.
Texts in UTF-8, one after the other with one line feed between, DEFLATE in the gzip format (18 bytes of frame).

Source: Shaib et al. 2024, "Standardizing the measurement of text diversity", who join with a blank and whose released
code compresses the result again, so that its constants differ.
"""

import zlib
from collections.abc import Iterable

import numpy as np

from openended.harness import core
from openended.harness.core import Features, Metric, MetricResult, Need, Plan, Scope, UndefinedMetric, metric, ranged
from openended.metrics.families import ReplicatesByName

_WINDOW = 1 << 15  # bytes that DEFLATE looks back
_BLOCKS = 100  # of texts, for the interval
_LEAST = 5  # prompts per block, if there are ten blocks: smaller blocks add less than DEFLATE's window hides
_GZIP = 16 + zlib.MAX_WBITS  # zlib's way to ask for a gzip frame


@core.check_arguments
def compression_ratio(texts: Iterable[str], *, level: int = 9) -> float:
    """Compute bytes of the texts over bytes of the compressed texts (Shaib et al. 2024, section 3).

    Args:
        texts: The texts, which are joined by line feeds and encoded in UTF-8.
        level: Effort of DEFLATE, 1 (fast) to 9 (small).

    Returns:
        The ratio, above 0, dimensionless; higher means more redundant.

    Raises:
        UndefinedMetric: If all texts are empty.
    """
    packer = zlib.compressobj(level, zlib.DEFLATED, _GZIP)
    before = after = content = 0
    for number, text in enumerate(texts):
        raw = text.encode("utf-8", errors="surrogatepass")
        content += len(raw)
        raw = b"\n" + raw if number else raw
        before += len(raw)
        after += len(packer.compress(raw))
    if not content:
        raise UndefinedMetric("the texts are empty")
    return before / (after + len(packer.flush()))


@metric
class CompressionRatio(Metric):
    """Redundancy of the corpus as DEFLATE sees it; grows with corpus size, so compare equal n and length."""

    name = "compression_ratio"
    synonyms = ("gzip", "compression")
    family = "text"
    direction = "match_human"
    bounds = (0.0, np.inf)
    resampling = "subsample"  # a repeated text compresses to almost nothing
    sides = "one"
    titles = {"compression_ratio": "Compr. ratio"}

    scope: Scope = "continuation"
    """What is compressed: the continuation, or prompt_and_continuation."""
    level: int = ranged(9, "[1, 9]", "an integer from 1 to 9")
    """Effort of DEFLATE; Python's gzip default, as in Shaib et al. 2024."""

    def needs(self) -> tuple[Need, ...]:
        return (Need("texts", scope=self.scope),)

    def prepare(self, features: Features) -> list[str]:
        return features.model[self.needs()[0]]  # type: ignore[no-any-return]

    def evaluate(self, features: Features, prepared: list[str]) -> MetricResult:
        value = compression_ratio(prepared, level=self.level)
        alone = [text.encode("utf-8", "surrogatepass") for text in prepared]
        rows = np.array([len(text) / len(zlib.compress(text, self.level)) for text in alone])
        return self.result(features, self.name, {self.name: value}, per_example={self.name: rows})

    def resample(self, features: Features, result: MetricResult, plan: Plan, prepared: list[str]) -> ReplicatesByName:
        """Draw blocks of prompts: a block's bytes, and how many it adds after the blocks before it.

        The compressor looks back 32 kB and no further, so that the bytes that blocks add are all but independent. The
        last blocks stand before the first one: without a past, it would add more bytes than the others.
        """
        texts, ids = prepared, features.model.ids
        names, prompt = np.unique(np.asarray(ids, dtype=np.str_), return_inverse=True)
        block = prompt * min(_BLOCKS, max(10, len(names) // _LEAST), len(names)) // len(names)
        joined = ("\n".join(texts[i] for i in np.flatnonzero(block == b)) + "\n" for b in range(int(block.max()) + 1))
        parts = [part.encode("utf-8", "surrogatepass") for part in joined]
        sizes = np.array([len(part) for part in parts])
        circle, starts, added = b"".join(parts * 2), sizes.sum() + np.cumsum(sizes) - sizes, []
        for part, start in zip(parts, starts.tolist(), strict=True):
            past = circle[start - min(_WINDOW, len(circle) // 2 - len(part)) : start]
            packer = zlib.compressobj(self.level, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=past)
            added.append(len(packer.compress(part)) + len(packer.flush()))
        after = np.array(added, dtype=np.float64)
        return {"compression_ratio": plan.mean([f"{b:06d}" for b in range(len(parts))], sizes / after, after)}
