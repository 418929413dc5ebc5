"""Correlation of human typicality with the frequency of a sentence in a corpus (HUSE, Fig. 2)."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from openended.harness.core import F64, DataError, escape_csv_cell, make_random_stream, open_for_replacement
from openended.harness.imported import HUMAN_TEXTS, choose_text_field, read_records
from openended.metrics.judgments import read_rows

LEVEL = 0.90
_DRAWS = 2000
_RATING = re.compile(r"rating(_\d+)?")


@dataclass(frozen=True, slots=True, eq=False)
class TypicalityByFrequency:
    """Rated sentences that a corpus contains."""

    texts: tuple[str, ...]
    counts: F64
    """Occurrences in the corpus, shape (n,)."""
    means: F64
    """Mean rating, shape (n,)."""
    reach: F64
    """Half the width of its 90 % interval over raters, shape (n,); NaN for a single rating."""
    absent: int
    """Rated sentences that the corpus does not contain; they have no log-frequency and are left out."""

    def correlate(self) -> tuple[float, float, float]:
        """Return Pearson's r of log-frequency and mean rating, and its 90 % bootstrap interval over sentences."""
        x, n = np.log(self.counts), len(self.counts)
        draws = (make_random_stream(0, "frequency", i).integers(n, size=n) for i in range(_DRAWS))
        values = [_compute_r(x[i], self.means[i]) for i in draws]
        low, high = np.nanquantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return _compute_r(x, self.means), float(low), float(high)

    def lines(self) -> Iterator[str]:
        """Return the lines that the command prints."""
        r, low, high = self.correlate()
        yield f"r = {r:.2f} [{low:.2f}, {high:.2f}] between log-frequency and typicality; {len(self.texts)} sentences"
        yield "interval: 90 %, percentile bootstrap over sentences"
        if self.absent:
            yield f"{self.absent} rated sentences are not in the corpus and were left out"


def _compute_r(x: F64, y: F64) -> float:
    return float(np.corrcoef(x, y)[0, 1]) if x.std() > 0 and y.std() > 0 else math.nan


def _normalize(text: str) -> str:
    return " ".join(text.split()).casefold()


def read_typicality(ratings: Path, corpus: Path) -> TypicalityByFrequency:
    """Count each rated sentence in a corpus of one sentence per record; case and spaces do not matter."""
    from scipy.stats import t

    columns, rows = read_rows(ratings)
    names = [name for name in columns if _RATING.fullmatch(name)]
    if "text" not in columns or not names:
        raise DataError(f"{ratings}: expected the columns text and rating (or rating_1, rating_2, …)")
    rated: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        numbers = [row.number(name) for name in names]
        rated[_normalize(row.text("text"))] += [number for number in numbers if not math.isnan(number)]
    field = choose_text_field(corpus, HUMAN_TEXTS, None, "a field named ")
    counts = Counter(key for r in read_records(corpus) if (key := _normalize(str(r.cells.get(field)))) in rated)
    texts = sorted(key for key in rated if counts[key] and rated[key])
    if len(texts) < 3:
        raise DataError(f"{corpus}: contains {len(texts)} of {len(rated)} rated sentences; expected 3 or more")
    reach = [
        t.ppf((1 + LEVEL) / 2, len(v) - 1) * np.std(v, ddof=1) / math.sqrt(len(v)) if len(v) > 1 else math.nan
        for v in (rated[key] for key in texts)
    ]
    means = np.array([float(np.mean(rated[key])) for key in texts])
    occurrences = np.array([counts[key] for key in texts], dtype=np.float64)
    return TypicalityByFrequency(tuple(texts), occurrences, means, np.array(reach), len(rated) - len(texts))


def write_frequency_files(typicality: TypicalityByFrequency, out: Path) -> list[Path]:
    """Write the sentences as CSV and draw typicality against frequency."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with open_for_replacement(out) as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(("text", "count", "rating", "reach"))
        for row in zip(typicality.texts, typicality.counts, typicality.means, typicality.reach, strict=True):
            writer.writerow((escape_csv_cell(row[0]), f"{row[1]:g}", f"{row[2]:.4g}", f"{row[3]:.4g}"))
    figure = Figure(figsize=(3.4, 2.6), layout="constrained", dpi=200)
    panel = figure.subplots()
    reach = np.nan_to_num(typicality.reach)
    panel.errorbar(typicality.counts, typicality.means, yerr=reach, fmt="o", markersize=3, capsize=1.5, linewidth=0.8)
    panel.set(xscale="log", xlabel="occurrences in the corpus", ylabel="typicality (mean rating)")
    r, low, high = typicality.correlate()
    panel.set_title(f"r = {r:.2f} [{low:.2f}, {high:.2f}]", fontsize=8)
    picture = out.with_suffix(".png")
    with open_for_replacement(picture, "wb") as handle:
        cast("Any", FigureCanvasAgg(figure)).print_png(handle, metadata={"Software": None})
    return [out, picture]
