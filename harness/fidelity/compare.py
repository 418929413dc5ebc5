"""How far one model is from another on the same texts, in the distribution of the next token."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from openended.harness import audit, core, report
from openended.harness.core import F64, I64, DataError, Ragged
from openended.harness.decoders import QDecoder, QTable, read_dense_q
from openended.harness.generation import iterate_logits, penalize_chunk
from openended.harness.imported import read_texts
from openended.harness.models import LanguageModel, TextRequest
from openended.harness.report import make_cell, make_quantity

COLUMNS = {
    "kl": "KL(A‖B)", "kl_reverse": "KL(B‖A)", "tv": "total variation", "agreement": "same best token",
    "difference": "|log A − log B|", "bias": "log A − log B", "outside": "mass of A outside B",
    "outside_reverse": "mass of B outside A", "shared": "tokens in both",
}  # fmt: skip
"""What is measured at each position: nats, shares, and nats at the text's own token, if it is in both."""
EDGES = (0, 4, 16, 64, 256, 1024, 10**9)  # positions are grouped by these


def read_strings(word: str, find_run: Callable[[str], Path]) -> Iterator[str]:
    """Yield the texts of a file, or of a run with their prompts."""
    path = Path(word)
    if path.is_file() and path.name != "record.json":
        yield from (text.text for text in read_texts(path) if text.text)
        return
    rows = audit.read_strings(find_run(word))
    yield from (prompt + text for prompt, text in zip(rows.prompts, rows.texts, strict=True))


def compare_models(
    first: LanguageModel, second: LanguageModel, texts: Sequence[str], decoders: Sequence[QDecoder], *,
    batch_size: int = 16, max_tokens: int = 512, progress: bool = False,
) -> report.Table:  # fmt: skip
    """Compare two models on texts; one row for each Q, and for groups of positions under the first of them."""
    if first.vocab_size != second.vocab_size or first.tokenizer.vocabulary() != second.tokenizer.vocabulary():
        raise DataError(f"{first.spec.title} and {second.spec.title}: expected one vocabulary, theirs differ")
    tokenizer = first.tokenizer
    limits = [lm.context_length - 1 for lm in (first, second) if lm.context_length is not None]
    continuations = Ragged.from_rows((tokenizer.encode(text)[: min([max_tokens, *limits])] for text in texts), np.int64)
    prompts = [tokenizer.find_prefix(row) or (tokenizer.start_id,) for row in continuations]
    request = TextRequest(prompts=Ragged.from_rows(prompts, np.int64), continuations=continuations)
    count = len(continuations.values)
    with core.show_progress("fidelity", count, unit="tokens", enabled=progress) as advance:
        tables = measure_distances(first, second, request, decoders, batch_size, advance)
    row = np.repeat(np.arange(len(continuations)), continuations.lengths)
    step = np.arange(count) - np.repeat(continuations.offsets[:-1], continuations.lengths)
    lines = {f"Q of {d.title}": values for d, values in zip(decoders, tables, strict=True)}
    rows = dict.fromkeys(lines, row)
    for start, end in pairwise(EDGES):
        inside = (step >= start) & (step < end)
        if inside.any():
            name = f"{decoders[0].title}, tokens {start + 1} to {min(end, int(step.max()) + 1)}"
            lines[name], rows[name] = tables[0][:, inside], row[inside]
    estimates = [[estimate_ratio(line, rows[name]) for line in values] for name, values in lines.items()]
    infinite = make_cell(words="∞")
    cells = [
        [infinite if mean == math.inf else make_cell(mean, interval=(mean - half, mean + half)) for mean, half in line]
        for line in estimates
    ]
    quantities = [make_quantity("", key, title) for key, title in COLUMNS.items()]
    columns = list(zip(quantities, zip(*cells, strict=True), strict=True))
    title = f"{first.spec.title} (A) and {second.spec.title} (B): {len(texts):,} texts, {count:,} tokens"
    remarks = [
        "95 % intervals over texts; KL in nats, infinite where a token of one has no probability under the other.",
        "Differences of logs are means over the tokens that both can draw (tokens in both), and leave out the others.",
    ]
    frame = report.build_frame("fidelity", title, list(lines), columns, remarks, head="Distribution")
    return report.build_tables([frame])[0]


def measure_distances(
    first: LanguageModel, second: LanguageModel, request: TextRequest, decoders: Sequence[QDecoder], batch_size: int,
    advance: core.Advance,
) -> list[F64]:  # fmt: skip
    """Return for each decoder the distances of `COLUMNS` at each position, shape (9, tokens); holds a few rows of Q."""
    import torch

    out = [np.zeros((len(COLUMNS), len(request.continuations.values))) for _ in decoders]
    tables = [(QTable.empty(0), QTable.empty(0)) for _ in decoders]
    with torch.inference_mode():
        for at, chunks in iterate_logits((first, second), request, batch_size):
            for decoder, values, states in zip(decoders, out, tables, strict=True):
                a, b = (
                    core.copy_to_host(read_dense_q(decoder, state, penalize_chunk(decoder, chunk)))[0]
                    for state, chunk in zip(states, chunks, strict=True)
                )
                values[:, at] = measure_rows(a, b, core.copy_to_host(chunks[0].gold)[0])
            advance(len(at))
    return out


def measure_rows(a: F64, b: F64, tokens: I64) -> F64:
    """Return the distances of `COLUMNS` between rows of two distributions (m, V), shape (9, m)."""
    index = np.arange(len(tokens))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(a) - np.log(b)
        kl, reverse = np.where(a > 0, a * ratio, 0.0).sum(1), np.where(b > 0, -b * ratio, 0.0).sum(1)
        gap = ratio[index, tokens]
    shared = np.isfinite(gap)
    gap = np.where(shared, gap, np.nan)  # a token outside either Q has no difference
    variation, agreement = np.abs(a - b).sum(1) / 2, a.argmax(1) == b.argmax(1)
    outside, outside_reverse = (a * (b == 0)).sum(1), (b * (a == 0)).sum(1)
    return np.stack([kl, reverse, variation, agreement, np.abs(gap), gap, outside, outside_reverse, shared])


def estimate_ratio(values: F64, rows: I64) -> tuple[float, float]:
    """Return the mean over positions, and half of its 95 % interval over texts (linearized ratio, Student)."""
    used = ~np.isnan(values)
    values, rows = values[used], np.unique(rows[used], return_inverse=True)[1]
    if not len(values) or not np.isfinite(values).all():
        return (math.inf if len(values) else math.nan), math.nan
    error, dof = report.compute_clustered_error(values, rows)
    return float(values.mean()), report.compute_student_quantile(dof) * error if dof else math.nan
