from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given, strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.harness.core.metric_spec import Need
from openended.metrics.compression_ratio import CompressionRatio, compression_ratio
from tests.metrics.text_helpers import run


def test_hand_value():
    # one byte: DEFLATE's fixed code needs 3 + 8 + 7 bits = 3 bytes, gzip's frame 10 + 8 bytes: 1 / 21
    assert compression_ratio(["a"]) == pytest.approx(1 / 21)


@given(st.lists(st.text(max_size=30), min_size=1, max_size=8), st.integers(1, 9))
def test_equals_the_gzip_module(texts, level):
    raw = "\n".join(texts).encode("utf-8", errors="surrogatepass")
    if not any(texts):
        with pytest.raises(UndefinedMetric):
            compression_ratio(texts)
        return
    packed = gzip.compress(raw, compresslevel=level, mtime=0)
    # streaming and one-shot DEFLATE may place block ends differently on long inputs, never on these
    assert compression_ratio(texts, level=level) == pytest.approx(len(raw) / len(packed), rel=1e-15)


def test_repeated_text_compresses_and_random_text_does_not():
    rng = np.random.default_rng(0)
    random = ["".join(map(chr, rng.integers(33, 127, 500))) for _ in range(20)]
    assert compression_ratio(random) < 1.3
    assert compression_ratio([random[0]] * 20) > 8
    words = ["the cat sat on the mat " * 20] * 5
    assert compression_ratio(words) > 30


def test_nothing_is_undefined_and_levels_are_checked():
    for texts in ([], [""], ["", ""]):
        with pytest.raises(UndefinedMetric, match="empty"):
            compression_ratio(texts)
    with pytest.raises(ValueError, match="level"):
        compression_ratio(["a"], level=0)
    with pytest.raises(SpecError, match="level"):
        CompressionRatio(level=10)


def test_metric_reads_texts_of_its_scope():
    metric = CompressionRatio(scope="prompt_and_continuation")
    assert metric.needs() == (Need("texts", scope="prompt_and_continuation"),)
    texts = ["one text", "another text"]
    assert run(metric, [[1], [2]], texts=texts).values == {"compression_ratio": compression_ratio(texts)}
