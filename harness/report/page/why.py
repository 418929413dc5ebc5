"""Read the texts that explain a low score from `explain.jsonl` of the run folders."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from openended.harness.core import DataError, parse_signature, read_jsonl
from openended.harness.report.page.sources import PageTexts, TextSource
from openended.harness.storage import EXPLAIN

log = logging.getLogger(__name__)

SIDES = ("human", "model")
Positions = Mapping[str, int]


def read_reasons(page_texts: PageTexts) -> list[dict[str, Any]]:
    """Return the clusters and missed texts that the runs recorded, for each system and metric.

    A text is `[example, sample]`, the example as an index among the side's. A file that cannot be read is skipped with
    a warning and counted on the page.
    """
    reasons: list[dict[str, Any]] = []
    positions = [{name: position for position, name in enumerate(side.prompts)} for side in page_texts.sides]
    for source in page_texts.sources:
        if source.role == "model":
            reasons += _read_source_reasons(source, positions[source.side])
    return reasons


def _read_source_reasons(source: TextSource, positions: Positions) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for at in source.runs:
        path = source.results.runs[at].folder / EXPLAIN
        if not path.is_file():
            continue
        try:
            for _, line in read_jsonl(path):
                key = str(line["metric"]), str(line["signature"])
                _add_line(groups.setdefault(key, _make_group(source, *key)), line, positions)
        except (DataError, KeyError, TypeError, ValueError) as err:
            source.results.damaged.setdefault(str(path), f"{type(err).__name__}: {err}")
            log.warning("%s cannot be read (%s) and is skipped; the run's command writes it again", path, err)
            return []
        break  # runs of one system and seed that differ in their metrics name the same texts
    return list(groups.values())


def _make_group(source: TextSource, metric: str, signature: str) -> dict[str, Any]:
    fields = parse_signature(signature)
    names = ("quantizer", "num_buckets", "estimator", "k")
    options = ", ".join(f"{n}={fields[n]}" for n in names if fields.get(n))
    return {
        "system": source.system, "side": source.side, "seed": source.seed, "metric": metric, "options": options,
        "cells": [], "missed": {}, "ratio": {},
    }  # fmt: skip


def _add_line(group: dict[str, Any], line: Mapping[str, Any], positions: Positions) -> None:
    kind = line["kind"]
    if kind == "cell":
        shares = {side: float(line[f"{side}_share"]) for side in SIDES}
        texts = {f"{side}_texts": _find_texts(line[side], positions) for side in SIDES}
        group["cells"].append({"cell": int(line["cell"]), **shares, **texts})
    elif kind == "missed":
        group["missed"][line["side"]] = {"count": int(line["count"]), "texts": _find_texts(line["texts"], positions)}
    elif kind == "ratio":
        scores = [float(v) for v in line["log_ratio"]]
        group["ratio"][line["side"]] = {"texts": _find_texts(line["texts"], positions), "log_ratio": scores}


def _find_texts(names: Sequence[str], positions: Positions) -> list[list[int]]:
    parts = (name.rpartition("#") for name in names)
    return [[positions[example], int(sample)] for example, _, sample in parts if example in positions]
