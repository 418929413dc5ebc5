"""Names: YAMLs of a group, metrics and sets of them."""

from __future__ import annotations

import pytest

from openended.harness.core.errors import SpecError
from openended.harness.core.names import metric_names, names_of, node_of


def test_a_set_stands_for_its_metrics_each_once_and_sorted():
    assert metric_names(["text", "zipf", "mauve"]) == [
        "compression_ratio", "distinct_n", "entropy", "length", "mauve", "repetition", "self_bleu", "zipf",
    ]  # fmt: skip
    assert set(metric_names(["text", "two_sample"])) < set(metric_names(["all"]))


def test_a_node_is_what_the_yaml_says():
    assert node_of("scorer", "docs-m")["path"] == "bundled:docs-m"
    assert node_of("scorer", "none") == {}
    assert "gpt2-large" in names_of("embedder")


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(SpecError, match="no metric 'tex'; did you mean 'text'"):
        metric_names(["tex"])
    with pytest.raises(SpecError, match="no scorer 'docs-k'; did you mean"):
        node_of("scorer", "docs-k")
