"""Presets of metric options: `compat=mdlm` sets Gen-PPL, entropy and MAUVE as a paper's code computes them.

A preset is a file in `conf/compat`. It sets the options of the metrics that a run has; an option that the user set to
another value than its default stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openended.harness.core import read_node

GROUP = "compat"


def read_preset(name: str | None) -> dict[str, Any]:
    """Return the options of a preset; empty for None.

    Raises:
        SpecError: If there is none of this name.
    """
    return dict(read_node(GROUP, name)) if name is not None else {}


def apply_preset(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with the options of its preset in the metrics and the embedder that it has."""
    preset, config = config.get(GROUP) or {}, {key: value for key, value in config.items() if key != GROUP}
    options, metrics = preset.get("metric", {}), config.get("metric")
    if options and isinstance(metrics, Mapping):
        config["metric"] = {
            name: _set_options(node, options.get(name, {}), read_node("metric", name)[name] if name in options else {})
            for name, node in metrics.items()
        }
    if (embedder := config.get("embedder")) and "embedder" in preset:
        config["embedder"] = _set_options(embedder, preset["embedder"], {})
    return config


def _set_options(node: Mapping[str, Any], options: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node with these options set, except where it already differs from the usual value."""
    return {**node, **{name: value for name, value in options.items() if node.get(name) == usual.get(name)}}
