"""The analyses that a layout can name: functions from the results of a table, and the layout, to frames."""

from collections.abc import Callable
from importlib import import_module

from openended.harness.core import SpecError, suggest
from openended.harness.report.tables.frame import Frame
from openended.harness.report.tables.selection import TablePart
from openended.harness.results import Layout

Analysis = Callable[[TablePart, Layout], list[Frame]]
ANALYSES = {
    "values": "values:build_value_frames",  # systems × metrics
    "leaderboard": "values:build_value_frames",  # the same, as a page to publish
    "pr_curves": "values:build_value_frames",  # the same, with figures of the F-scores of both curves
    "correlation": "agreement:build_correlation_frames",  # metrics × human scores
    "embedders": "agreement:build_embedder_frames",  # scores under several embedders, and the agreement of rankings
    "variants": "agreement:build_variant_frames",  # scores under several options of a metric, and their agreement
    "spread": "agreement:build_seed_std_frames",  # standard deviations over seeds
    "text_sets": "agreement:build_text_set_frames",  # standard deviations over sets of human and generated texts
    "fair": "fair_comparison:build_fair_frames",  # best of N settings, Pareto front, wins and losses
    "frontier": "frontier_gaps:build_frontier_frames",  # all values, and Gen-PPL at equal entropy
    "stress": "detected_damage:build_stress_frames",  # the smallest damage that each metric detects
    "domains": "domains:build_domain_frames",  # where the human texts in each cell of MAUVE come from
    "huse_examples": "judgments:build_huse_example_frames",  # texts that HUSE separates by ratings, by probability, …
    "findings": "openended.harness.report.findings.claims:build_findings_frames",  # the papers' claims on these runs
}
"""Name → module of this folder (or with its package) and function; only the named module is imported."""


def load_analysis(name: str) -> Analysis:
    """Import an analysis by name.

    Raises:
        SpecError: If there is none of this name.
    """
    if name not in ANALYSES:
        raise SpecError(
            f"report.analysis: expected one of {', '.join(ANALYSES)}, got {name!r}{suggest(name, ANALYSES)}"
        )
    module, _, function = ANALYSES[name].partition(":")
    analysis: Analysis = getattr(import_module(module if "." in module else f"{__package__}.{module}"), function)
    return analysis
