"""Why a score is low: the cells of MAUVE and the missed texts that a run recorded in `explain.jsonl`."""

import logging
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from openended.harness.core import FREQUENT_WORDS, DataError, parse_signature, read_jsonl
from openended.harness.report.page.sources import PageTexts, TextSource
from openended.harness.report.tables.headline import HEADLINES
from openended.harness.storage import EXPLAIN

log = logging.getLogger(__name__)

SIDES = ("human", "model")
OPTIONS = ("quantizer", "num_buckets", "estimator", "k")  # of a metric, which tell its groups apart
MAX_TEXTS = 500  # of a source, for the frequency of words
TYPICAL_WORDS = 3
MAX_SHARE = 0.15  # share of all texts; a word that occurs in more of them is typical of none
QUOTED_WORDS = 8
_WORD = re.compile(r"[^\W\d_]{3,}")
Positions = Mapping[str, int]


def read_explanations(page_texts: PageTexts) -> list[dict[str, Any]]:
    """Return the clusters and missed texts that the runs recorded, for each system and metric.

    A text is `[example, sample]`, the example as an index among the side's. A file that cannot be read is skipped with
    a warning and counted on the page.
    """
    groups: list[dict[str, Any]] = []
    word_counts: dict[int, Counter[str]] = {}  # of each human side
    positions = [{name: position for position, name in enumerate(side.prompts)} for side in page_texts.sides]
    for source in page_texts.sources:
        if source.role != "model":
            continue
        recorded = _read_groups(source, positions[source.side])
        human = page_texts.find_human(source)
        if human is not None and recorded:
            if source.side not in word_counts:
                word_counts[source.side] = count_words(list(islice(human.rows.each("text"), MAX_TEXTS)))
            _describe_groups(recorded, source, human, word_counts[source.side], positions[source.side])
        groups += recorded
    _name_groups(groups)
    # Metrics of the headline first, and of one metric the lowest value.
    return sorted(
        groups,
        key=lambda g: (g["metric"] not in HEADLINES, g["metric"], math.inf if g["value"] is None else g["value"]),
    )


def _read_groups(source: TextSource, positions: Positions) -> list[dict[str, Any]]:
    """Return a group for each metric and signature in the first file of a source's runs.

    Runs of one system and seed that differ in their metrics name the same texts.
    """
    path = next((p for run in source.runs if (p := run.folder / EXPLAIN).is_file()), None)
    groups: dict[tuple[str, str], dict[str, Any]] = {}

    def find_texts(names: Sequence[str]) -> list[list[int]]:
        parts = (name.rpartition("#") for name in names)
        return [[positions[example], int(sample)] for example, _, sample in parts if example in positions]

    try:
        for _, line in read_jsonl(path) if path is not None else ():
            key = str(line["metric"]), str(line["signature"])
            if key not in groups:
                fields = parse_signature(key[1])
                rows = [row for run in source.runs for row in run.results if row.metric == key[0]]
                row = next((r for r in rows if (r.system, r.signature) == (source.role, key[1])), None)
                value = row.values.get(row.primary, math.nan) if row is not None else math.nan
                ceilings = [r.values.get(r.primary, math.nan) for r in rows if r.system == "ceiling"]
                groups[key] = {"system": source.system, "side": source.side, "seed": source.seed, "metric": key[0]}
                groups[key] |= {"options": {name: fields[name] for name in OPTIONS if fields.get(name)}, "summary": ""}
                groups[key] |= {"value": value if math.isfinite(value) else None, "cells": [], "missed": {}}
                groups[key] |= {"ceiling": next(filter(math.isfinite, ceilings), None), "ratio": {}}
            group, kind = groups[key], line["kind"]
            if kind == "cell":
                shares = {side: float(line[f"{side}_share"]) for side in SIDES}
                texts = {f"{side}_texts": find_texts(line[side]) for side in SIDES}
                group["cells"].append({"cell": int(line["cell"]), **shares, **texts, "words": []})
            elif kind == "missed":
                group["missed"][line["side"]] = {"count": int(line["count"]), "texts": find_texts(line["texts"])}
            elif kind == "ratio":
                scores = [float(v) for v in line["log_ratio"]]
                group["ratio"][line["side"]] = {"texts": find_texts(line["texts"]), "log_ratio": scores}
    except (DataError, KeyError, TypeError, ValueError) as err:
        source.results.damaged.setdefault(str(path), f"{type(err).__name__}: {err}")
        log.warning("%s cannot be read (%s) and is skipped; the run's command writes it again", path, err)
        return []
    return list(groups.values())


def _describe_groups(
    groups: Sequence[dict[str, Any]], source: TextSource, human: TextSource, words: Counter[str], positions: Positions
) -> None:
    """Name the cells by their typical words, and begin each group with a sentence; `words` are those of human text."""
    texts: dict[str, dict[tuple[int, int], str]] = {}
    for side, of_side in (("human", human), ("model", source)):
        names = ((positions[i], sample) for i, sample in zip(of_side.rows.ids, of_side.rows.samples, strict=True))
        texts[side] = dict(zip(names, of_side.rows.each("text"), strict=True))
    counts = words + count_words(list(texts["model"].values()))
    total = sum(min(len(side), MAX_TEXTS) for side in texts.values())

    def quote_first(side: str, names: Sequence[Sequence[int]]) -> str:
        return quote_beginning(texts[side].get((names[0][0], names[0][1]), "")) if names else ""

    for group in groups:
        for cell in group["cells"]:
            central = [texts[side].get((at, n), "") for side in SIDES for at, n in cell[f"{side}_texts"]]
            cell["words"] = find_typical_words(central, counts, total)
        if group["cells"]:
            quote = quote_first("model", find_worst_cell(group["cells"])["model_texts"])
            group["summary"] = summarize_cells(source.system, group["value"], group["ceiling"], group["cells"], quote)
        elif group["missed"]:
            quotes = {side: quote_first(side, missed["texts"]) for side, missed in group["missed"].items()}
            group["summary"] = summarize_missed(source.system, group["missed"], quotes)


def _name_groups(groups: Sequence[dict[str, Any]]) -> None:
    """Name each group by its system and by what else differs: seed, metric, options of the metric."""
    options: dict[str, set[tuple[str, str]]] = {}
    seeds: dict[str, set[str]] = {}
    for group in groups:
        options.setdefault(group["metric"], set()).update(group["options"].items())
        seeds.setdefault(group["system"], set()).add(group["seed"])
    for group in groups:
        entries = options[group["metric"]]
        differing = [f"{n}={v}" for n, v in group.pop("options").items() if sum(n == name for name, _ in entries) > 1]
        seed = f"seed {group['seed']}" if len(seeds[group["system"]]) > 1 else ""
        parts = [group["system"], seed, group["metric"] if len(options) > 1 else "", ", ".join(differing)]
        group["name"] = " · ".join(filter(None, parts))


def find_words(text: str) -> set[str]:
    """Return the distinct words of a text in lower case, without numbers, short words and English function words."""
    return set(_WORD.findall(text.lower())) - FREQUENT_WORDS


def count_words(texts: Sequence[str]) -> Counter[str]:
    """Count in how many of the first texts each word occurs."""
    return Counter(word for text in islice(texts, MAX_TEXTS) for word in find_words(text))


def find_typical_words(texts: Sequence[str], counts: Mapping[str, int], total: int) -> list[str]:
    """Return the words that occur in several of these texts and in few of all.

    A word's weight is the number of these texts that have it times log(total / number of all texts that have it).
    """
    shared = {word: n for word, n in Counter(w for text in texts for w in find_words(text)).items() if n > 1}
    weights = {word: n * math.log(total / min(max(counts.get(word, 1), 1), total)) for word, n in shared.items()}
    least = math.log(1 / MAX_SHARE)
    rare = [word for word, n in shared.items() if weights[word] >= n * least]
    return sorted(rare, key=lambda word: (-weights[word], word))[:TYPICAL_WORDS]


def quote_beginning(text: str) -> str:
    """Return the first words of a text in quotation marks."""
    words = text.split()
    return f"“{' '.join(words[:QUOTED_WORDS])}{'…' if len(words) > QUOTED_WORDS else ''}”"


def find_worst_cell(cells: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the cell that the model fills most beyond the human text; without one, that which it misses most."""
    return max(cells, key=lambda cell: (cell["model"] > cell["human"], abs(cell["model"] - cell["human"])))


def summarize_cells(
    system: str, value: float | None, ceiling: float | None, cells: Sequence[Mapping[str, Any]], quote: str
) -> str:
    """Say how far MAUVE is below human text, and which cell shows most of it; `quote` begins a text of that cell."""
    cell = find_worst_cell(cells)
    start = system if value is None else f"{system} has MAUVE {value:.2f}"
    if value is not None and ceiling is not None:
        gap = ceiling - value
        below = f", {gap:.2f} below the human–human reference" if gap > 0 else ", at the human–human reference"
        start += f"{below} of {ceiling:.2f}"
    human, model = (f"{100 * cell[side]:.0f} %" for side in SIDES)
    if cell["model"] > cell["human"]:
        example = f", for example {quote}" if quote else ""
        return f"{start}: {model} of its texts fall into a cell with {human} of the human text{example}."
    return f"{start}: only {model} of its texts fall into a cell with {human} of the human text."


def summarize_missed(system: str, missed: Mapping[str, Mapping[str, Any]], quotes: Mapping[str, str]) -> str:
    """Say how many texts precision and recall miss, by side, and quote one of each."""
    words = {
        "model": ("of its texts have no human text nearby", "precision"),
        "human": ("human texts have no text of it nearby", "recall"),
    }
    parts = []
    for side, (text, metric) in words.items():
        if side in missed:
            example = f", such as {quotes[side]}" if quotes.get(side) else ""
            parts.append(f"{missed[side]['count']} {text} ({metric}){example}")
    return f"{system}: {'; '.join(parts)}."
