"""Names: YAMLs of a group, metrics and sets of them."""

from __future__ import annotations

import pytest

from openended.harness.core.catalogue import read_node, resolve_metric_names
from openended.harness.core.errors import SpecError


def test_a_set_stands_for_its_metrics_each_once_and_sorted():
    assert resolve_metric_names(["text", "zipf", "mauve"]) == [
        "compression_ratio", "distinct_n", "entropy", "length", "mauve", "repetition", "self_bleu", "zipf",
    ]  # fmt: skip
    assert set(resolve_metric_names(["text", "two_sample"])) < set(resolve_metric_names(["all"]))


def test_a_node_is_what_the_yaml_says():
    assert read_node("scorer", "docs-m")["path"] == "bundled:docs-m"
    assert read_node("scorer", "none") == {}


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(SpecError, match="no metric 'tex'; did you mean 'text'"):
        resolve_metric_names(["tex"])
    with pytest.raises(SpecError, match="no scorer 'docs-k'; did you mean"):
        read_node("scorer", "docs-k")
