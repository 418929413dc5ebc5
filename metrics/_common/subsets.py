"""Random subsets of the texts, from which intervals of n-gram counts and nearest neighbors are computed."""

from __future__ import annotations

from collections.abc import Mapping

from openended.harness.core import Replicates

ReplicatesByName = Mapping[str, Replicates]
"""Name of a value → its replicates."""

SUBSET_SHARE = 0.6
"""Share of the prompts in a subset.

Removing few texts spreads counts of distinct n-grams and balls of nearest neighbors too far; halves miss the part of
the variance that pairs of texts contribute together. `docs/statistics.md` has the measured coverage.
"""
