"""Correlation of human typicality with the frequency of a sentence in a corpus (HUSE, Fig. 2)."""

import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

from openended.harness.core import F64, DataError, escape_csv_cell, make_random_stream, open_for_replacement
from openended.harness.imported import TextSelection, read_texts
from openended.harness.report.analysis.paired import compute_student_quantile
from openended.harness.report.figures.draw import draw_plots
from openended.harness.report.figures.plot import Panel, Plot, Series
from openended.metrics.judgments import read_rows

LEVEL = 0.90
_DRAWS = 2000
_RATING = re.compile(r"rating(_\d+)?")


def read_typicality(ratings: Path, corpus: Path) -> tuple[pd.DataFrame, int]:
    """Count each rated sentence in a corpus of one sentence per record; case and spaces do not matter.

    The columns are text, count, rating (mean) and reach, half the width of its 90 % interval over raters, NaN for a
    single rating. Sentences that the corpus does not contain are left out; their number is returned.
    """
    columns, rows = read_rows(ratings)
    names = [name for name in columns if _RATING.fullmatch(name)]
    if "text" not in columns or not names:
        raise DataError(f"{ratings}: expected the columns text and rating (or rating_1, rating_2, …)")
    numbers = [(_normalize(row.text("text")), row.number(name)) for row in rows for name in names]
    rated = pd.DataFrame(numbers, columns=["text", "rating"]).groupby("text")["rating"].agg(["mean", "sem", "count"])
    sentences_read = (_normalize(text.text or "") for text in read_texts(corpus, TextSelection(side="human")))
    counts = Counter(text for text in sentences_read if text in rated.index)
    rated.insert(0, "occurrences", [counts[text] for text in rated.index])
    in_corpus = rated[(rated["occurrences"] > 0) & (rated["count"] > 0)]
    if len(in_corpus) < 3:
        raise DataError(f"{corpus}: contains {len(in_corpus)} of {len(rated)} rated sentences; expected 3 or more")
    quantiles = [compute_student_quantile(n - 1, LEVEL) if n > 1 else math.nan for n in in_corpus["count"]]
    reach = in_corpus["sem"] * quantiles
    sentences = in_corpus.assign(reach=reach).reset_index()[["text", "occurrences", "mean", "reach"]]
    return sentences.set_axis(["text", "count", "rating", "reach"], axis="columns"), len(rated) - len(in_corpus)


def _normalize(text: str) -> str:
    return " ".join(text.split()).casefold()


def correlate_frequency(sentences: pd.DataFrame) -> tuple[float, float, float]:
    """Return Pearson's r of log-frequency and mean rating, and its 90 % bootstrap interval over sentences."""
    x, y, n = np.log(sentences["count"].to_numpy(float)), sentences["rating"].to_numpy(float), len(sentences)

    def compute_r(x: F64, y: F64) -> float:
        return float(np.corrcoef(x, y)[0, 1]) if x.std() > 0 and y.std() > 0 else math.nan

    draws = (make_random_stream(0, "frequency", i).integers(n, size=n) for i in range(_DRAWS))
    low, high = np.nanquantile([compute_r(x[i], y[i]) for i in draws], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return compute_r(x, y), float(low), float(high)


def write_frequency_files(ratings: Path, corpus: Path, out: Path) -> list[str]:
    """Write the sentences as CSV and draw typicality against frequency; return the lines to print."""
    sentences, absent = read_typicality(ratings, corpus)
    with open_for_replacement(out) as handle:
        escaped = sentences.assign(text=sentences["text"].map(escape_csv_cell))
        escaped.to_csv(handle, index=False, float_format="%.4g", na_rep="nan", lineterminator="\n")
    r, low, high = correlate_frequency(sentences)
    reaches = sentences["reach"].fillna(0.0)
    points = Series(mark="dots", x=sentences["count"], y=sentences["rating"], below=reaches, above=reaches)
    options = {"xscale": "log", "xlabel": "occurrences in the corpus", "ylabel": "typicality (mean rating)"}
    plot = Plot([Panel([points], options=options | {"title": f"r = {r:.2f} [{low:.2f}, {high:.2f}]"})])
    pictures = draw_plots({out.stem: plot}, out.parent, "Typicality", "")
    lines = [f"r = {r:.2f} [{low:.2f}, {high:.2f}] between log-frequency and typicality; {len(sentences)} sentences"]
    lines += ["interval: 90 %, percentile bootstrap over sentences"]
    lines += [f"{absent} rated sentences are not in the corpus and were left out"] if absent else []
    return [*lines, ", ".join(map(str, [out, *(picture.png for picture in pictures)]))]
