"""Read the texts that explain a low score from `explain.jsonl` of the run folders."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from openended.harness.core import DataError, parse_signature, read_jsonl
from openended.harness.report.findings.headline import HEADLINES
from openended.harness.report.page.sources import PageTexts, TextSource
from openended.harness.report.page.why_summary import (
    MAX_TEXTS,
    count_words,
    find_typical_words,
    find_worst_cell,
    quote_beginning,
    summarize_cells,
    summarize_missed,
)
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
    counts: dict[int, Counter[str]] = {}  # of the words of each human side
    positions = [{name: position for position, name in enumerate(side.prompts)} for side in page_texts.sides]
    for source in page_texts.sources:
        if source.role != "model":
            continue
        groups = _read_source_reasons(source, positions[source.side])
        human = next((s for s in page_texts.sources if s.side == source.side and s.role != "model"), None)
        if human is not None and groups:
            if source.side not in counts:
                counts[source.side] = count_words(list(islice(human.rows.each("text"), MAX_TEXTS)))
            _describe_groups(groups, source, human, counts[source.side], positions[source.side])
        reasons += groups
    _name_groups(reasons)
    return sorted(reasons, key=_make_sort_key)


def _make_sort_key(group: Mapping[str, Any]) -> tuple[bool, str, float]:
    """Order the groups: metrics of the headline first, and of one metric the lowest value."""
    value = group["value"]
    return group["metric"] not in HEADLINES, group["metric"], math.inf if value is None else value


def _describe_groups(
    groups: Sequence[dict[str, Any]],
    source: TextSource,
    human: TextSource,
    human_counts: Counter[str],
    positions: Positions,
) -> None:
    """Name the cells by their typical words, and begin each group with a sentence."""
    texts = {"human": _read_texts(human, positions), "model": _read_texts(source, positions)}
    counts = human_counts + count_words(list(texts["model"].values()))
    total = sum(min(len(side), MAX_TEXTS) for side in texts.values())
    for group in groups:
        for cell in group["cells"]:
            central = [texts[side].get((at, n), "") for side in SIDES for at, n in cell[f"{side}_texts"]]
            cell["words"] = find_typical_words(central, counts, total)
        value = group["value"] if group["value"] is not None else math.nan
        if group["cells"]:
            central = find_worst_cell(group["cells"])["model_texts"]
            quote = quote_beginning(texts["model"].get(tuple(central[0]), "")) if central else ""
            group["summary"] = summarize_cells(source.system, value, group["cells"], quote)
        elif group["missed"]:
            quotes = {
                side: quote_beginning(texts[side].get(tuple(missed["texts"][0]), "")) if missed["texts"] else ""
                for side, missed in group["missed"].items()
            }
            group["summary"] = summarize_missed(source.system, group["missed"], quotes)


def _read_texts(source: TextSource, positions: Positions) -> dict[tuple[int, int], str]:
    """Return (example, sample) → text."""
    names = ((positions[name], sample) for name, sample in zip(source.rows.ids, source.rows.samples, strict=True))
    return dict(zip(names, source.rows.each("text"), strict=True))


def _name_groups(groups: Sequence[dict[str, Any]]) -> None:
    """Name each group by its system and by what else differs: seed, metric, options of the metric."""
    options: dict[str, set[tuple[str, str]]] = {}
    for group in groups:
        options.setdefault(group["metric"], set()).update(group["options"].items())
    has_metrics = len(options) > 1
    seeds: dict[str, set[str]] = {}
    for group in groups:
        seeds.setdefault(group["system"], set()).add(group["seed"])
    for group in groups:
        entries = options[group["metric"]]
        differing = [f"{n}={v}" for n, v in group.pop("options").items() if sum(n == name for name, _ in entries) > 1]
        parts = [group["system"], f"seed {group['seed']}" if len(seeds[group["system"]]) > 1 else ""]
        group["name"] = " · ".join(filter(None, [*parts, group["metric"] if has_metrics else "", ", ".join(differing)]))


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
    options = {name: fields[name] for name in names if fields.get(name)}
    rows = (row for at in source.runs for row in source.results.runs[at].results)
    row = next((r for r in rows if (r.system, r.metric, r.signature) == (source.role, metric, signature)), None)
    value = row.values.get(row.primary, math.nan) if row is not None else math.nan
    return {
        "system": source.system, "side": source.side, "seed": source.seed, "metric": metric, "options": options,
        "value": value if math.isfinite(value) else None, "summary": "", "cells": [], "missed": {}, "ratio": {},
    }  # fmt: skip


def _add_line(group: dict[str, Any], line: Mapping[str, Any], positions: Positions) -> None:
    kind = line["kind"]
    if kind == "cell":
        shares = {side: float(line[f"{side}_share"]) for side in SIDES}
        texts = {f"{side}_texts": _find_texts(line[side], positions) for side in SIDES}
        group["cells"].append({"cell": int(line["cell"]), **shares, **texts, "words": []})
    elif kind == "missed":
        group["missed"][line["side"]] = {"count": int(line["count"]), "texts": _find_texts(line["texts"], positions)}
    elif kind == "ratio":
        scores = [float(v) for v in line["log_ratio"]]
        group["ratio"][line["side"]] = {"texts": _find_texts(line["texts"], positions), "log_ratio": scores}


def _find_texts(names: Sequence[str], positions: Positions) -> list[list[int]]:
    parts = (name.rpartition("#") for name in names)
    return [[positions[example], int(sample)] for example, _, sample in parts if example in positions]
