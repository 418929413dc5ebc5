"""Why a score is low: the texts behind it, from `explain.jsonl` of the run folders."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from openended.harness.core import DataError, parse_signature, read_jsonl
from openended.harness.report.page.sources import Shelf, TextSource
from openended.harness.storage import EXPLAIN

log = logging.getLogger(__name__)

SIDES = ("human", "model")
Places = Mapping[str, int]


def reasons_of(shelf: Shelf) -> list[dict[str, Any]]:
    """Return for each system and metric the cells, and the texts that were missed, that its run named.

    A text is `[example, sample]`, the example by its place among the side's. A file that cannot be read is passed over,
    with a warning and a mark in the page's counts.
    """
    made: list[dict[str, Any]] = []
    places = [{name: place for place, name in enumerate(side.prompts)} for side in shelf.sides]
    for source in shelf.sources:
        if source.role == "model":
            made += _of_source(source, places[source.side])
    return made


def _of_source(source: TextSource, places: Places) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for at in source.runs:
        path = source.results.runs[at].folder / EXPLAIN
        if not path.is_file():
            continue
        try:
            for _, line in read_jsonl(path):
                key = str(line["metric"]), str(line["signature"])
                _add(groups.setdefault(key, _group(source, *key)), line, places)
        except (DataError, KeyError, TypeError, ValueError) as err:
            source.results.damaged.setdefault(str(path), f"{type(err).__name__}: {err}")
            log.warning("%s cannot be read (%s): passed over; the run's command writes it again", path, err)
            return []
        break  # runs of one system and seed that differ in their metrics name the same texts
    return list(groups.values())


def _group(source: TextSource, metric: str, signature: str) -> dict[str, Any]:
    told = parse_signature(signature)
    names = ("quantizer", "num_buckets", "estimator", "k")
    options = ", ".join(f"{n}={told[n]}" for n in names if told.get(n))
    return {
        "system": source.system, "side": source.side, "seed": source.seed, "metric": metric, "options": options,
        "cells": [], "missed": {}, "ratio": {},
    }  # fmt: skip


def _add(group: dict[str, Any], line: Mapping[str, Any], places: Places) -> None:
    kind = line["kind"]
    if kind == "cell":
        shares = {side: float(line[f"{side}_share"]) for side in SIDES}
        texts = {f"{side}_texts": _texts(line[side], places) for side in SIDES}
        group["cells"].append({"cell": int(line["cell"]), **shares, **texts})
    elif kind == "missed":
        group["missed"][line["side"]] = {"count": int(line["count"]), "texts": _texts(line["texts"], places)}
    elif kind == "ratio":
        scores = [float(v) for v in line["log_ratio"]]
        group["ratio"][line["side"]] = {"texts": _texts(line["texts"], places), "log_ratio": scores}


def _texts(names: Sequence[str], places: Places) -> list[list[int]]:
    found = (name.rpartition("#") for name in names)
    return [[places[example], int(sample)] for example, _, sample in found if example in places]
