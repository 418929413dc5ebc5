"""Compare published values with measured ones: differences and rank correlation."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources

from openended.harness.core import SpecError, suggest
from openended.harness.report.tables.agreement import orient_value
from openended.harness.report.tables.table import BLANK, Cell, Column, Table, TableRow, choose_column_decimals
from openended.harness.results import Pair, Results, System, SystemValue, find_human_value, group_by_data, group_systems

Name = tuple[str, str, str]  # model, decoder, its parameters


@dataclass(frozen=True, slots=True)
class PaperValue:
    """One published value; several seeds of one system are averaged, with their std."""

    name: Name
    metric: str
    value: float
    sd: float
    decimals: int
    """Number of decimals in the paper."""
    read_off: bool = False
    """Whether the value was read off a figure, so that only the order of systems is comparable."""


@dataclass(frozen=True, slots=True)
class MeasuredValue:
    """The measured value that a published metric corresponds to."""

    metric: str
    key: str = ""
    """Empty: the metric's primary value."""
    gap: bool = False
    scale: float = 1.0

    def matches(self, item: SystemValue) -> bool:
        return item.metric == self.metric and (item.key == self.key if self.key else item.primary)


# Metric name in the source → measured value.
METRICS = {
    "gen_ppl_gap": MeasuredValue("gen_ppl", "gen_ppl", gap=True),
    "gen_ppl": MeasuredValue("gen_ppl", "gen_ppl"),
    "gen_entropy": MeasuredValue("gen_ppl", "entropy"),
    "zipf_gap": MeasuredValue("zipf", gap=True),
    "self_bleu_gap": MeasuredValue("self_bleu", gap=True),
    "sp": MeasuredValue("sparsemax_score"),
    "js": MeasuredValue("jensen_shannon"),
    "eps_ppl": MeasuredValue("eps_ppl"),
    "mauve": MeasuredValue("mauve", "mauve"),
    "mauve_pct": MeasuredValue("mauve", "mauve", scale=100.0),
    "human_bt": MeasuredValue("bradley_terry", "bradley_terry"),
    "bt_human_like": MeasuredValue("bradley_terry", "bradley_terry"),
    "huse": MeasuredValue("huse", "huse"),
    "huse_q": MeasuredValue("huse", "huse_q"),
    "huse_d": MeasuredValue("huse", "huse_d"),
    "precision": MeasuredValue("knn_precision_recall", "precision"),
    "recall": MeasuredValue("knn_precision_recall", "recall"),
    "diversity": MeasuredValue("repetition", "diversity"),
    "diversity_pct": MeasuredValue("repetition", "diversity", scale=100.0),
    "rep_2_pct": MeasuredValue("repetition", "rep_2", scale=100.0),
    "rep_3_pct": MeasuredValue("repetition", "rep_3", scale=100.0),
    "rep_4_pct": MeasuredValue("repetition", "rep_4", scale=100.0),
    "gen_length_words": MeasuredValue("length"),
}
CORRELATED = {
    "gen_ppl": ("gen_ppl", "gen_ppl"), "zipf": ("zipf", "zipf"), "rep": ("repetition", "loop_rate"),
    "distinct_4": ("distinct_n", "distinct_4"), "self_bleu": ("self_bleu", "self_bleu_4"), "mauve": ("mauve", "mauve"),
    "bt_human_like": ("bradley_terry", "human_like"), "bt_interesting": ("bradley_terry", "interesting"),
    "bt_sensible": ("bradley_terry", "sensible"), "disc_acc": ("discriminator_accuracy", "accuracy"),
}  # fmt: skip
"""Metric name in a published correlation `spearman(metric;score)` → measured value."""
DECODERS = {"topk": "top_k", "beam_search": "beam"}
CORRELATION = "spearman("
NO_RUN = "No run has this decoder with these parameters."
NO_METRIC = "Not measured in this run."
READ_OFF = "read off a figure"  # prefix of the note in such rows
READ_OFF_REMARK = "The published values were read off a figure: compare the order of the systems, not the values."
OTHER_MODEL = "The measured model is a different one: compare the order of the systems, not the values."


def build_comparison(results: Results, reference: str) -> Table:
    """Build the table that compares a published one (`paper/table`) with measured values, metric by metric."""
    rows_of_table = _read_rows(reference)
    if rows_of_table[0]["metric"].startswith(CORRELATION):
        return _compare_correlations(results, reference, rows_of_table)
    published, items = read_published(reference), results.values
    systems = group_systems(items)
    names = list(dict.fromkeys(p.name for p in published))
    matches = {name: _match_system(name, names, systems) for name in names}
    rows: list[TableRow] = []
    missing: list[str] = []
    signatures: dict[str, None] = {}
    for metric in dict.fromkeys(p.metric for p in published):
        where = METRICS[metric]
        measured = [i for i in items if where.matches(i)]
        if not measured:
            missing.append(metric)
            continue
        signatures |= dict.fromkeys(i.signature for i in measured if i.system == "model")
        like = measured[0].title
        title = f"|Δ {like}|" if where.gap else f"{like} (%)" if where.scale != 1 else like
        values = {p.name: p for p in published if p.metric == metric}
        triples = {name: _build_cells(p, matches[name][0], items) for name, p in values.items()}
        digits = max(p.decimals for p in values.values())
        more = max(digits, min(choose_column_decimals(cells[1] for cells in triples.values()), digits + 1))
        for at, (name, triple) in enumerate(triples.items()):
            cells = tuple(replace(c, decimals=d) for c, d in zip(triple, (digits, more, more), strict=True))
            rows.append(TableRow(f"{title}: {_label(name, names, matches[name][0])}", "model", cells, rule=at == 0))
        summary = (BLANK, BLANK, _correlate_rankings(list(triples.values())))
        rows.append(TableRow(f"{title}: Spearman ρ of the rankings", "summary", summary))
    remarks = [READ_OFF_REMARK if any(p.read_off for p in published) else "Δ is measured minus published."]
    remarks += [f"Published but not measured here: {', '.join(missing)}."] if missing else []
    remarks += [OTHER_MODEL] if any(system is not None and other for system, other in matches.values()) else []
    remarks += [f"signature of the measured value: {s}" for s in signatures]
    return _make_table(reference, rows, remarks)


def _compare_correlations(results: Results, reference: str, published: Sequence[Mapping[str, str]]) -> Table:
    """Compare published rank correlations with those of the measured values, over the systems that have both."""
    from openended.metrics.correlation import rank_correlation

    parts = list(group_by_data(results.values).values())

    def correlate(first: Pair, second: Pair) -> Cell:
        for part in parts:
            values = [(s.value(*first), s.value(*second)) for s in group_systems(part)]
            both = [(orient_value(a, part), orient_value(b, part)) for a, b in values if a and b]
            both = [(a, b) for a, b in both if math.isfinite(a + b)]
            value = rank_correlation(*zip(*both, strict=True)) if len(both) > 2 else math.nan
            if math.isfinite(value):
                return Cell(value, signed=True, note=f"Over {len(both)} systems.")
        return Cell(note="Fewer than three systems have both values, or one value is constant.")

    several = len({row["domain"] for row in published}) > 1
    rows = []
    for row in published:
        first, second = row["metric"].removeprefix(CORRELATION).removesuffix(")").split(";")
        measured = correlate(CORRELATED[first], CORRELATED[second])
        paper = Cell(float(row["value"]), signed=True)
        gap = Cell(measured.value - paper.value, signed=True) if math.isfinite(measured.value) else BLANK
        where = ", ".join(filter(None, (row["model"], row["domain"] if several else "")))
        rows.append(TableRow(f"{first}, {second}{f' ({where})' if where else ''}", "metric", (paper, measured, gap)))
    remarks = ("Spearman's ρ over systems, oriented so that agreement is positive. Δ is measured minus published.",)
    return _make_table(reference, rows, remarks)


def _make_table(reference: str, rows: Sequence[TableRow], remarks: Sequence[str]) -> Table:
    stem = f"compare-{reference.replace('/', '-').replace(' ', '_')}"
    columns = (Column("", "published", "published"), Column("", "ours", "measured"), Column("", "delta", "Δ"))
    return Table(stem, f"{reference}: published and measured", columns, tuple(rows), tuple(remarks), show_seeds=False)


def read_published(reference: str) -> list[PaperValue]:
    """Read the values of a published table whose metrics are implemented, in the order of the table.

    Seeds of a system are averaged into one value; domains are kept apart by the model's name.
    """
    table_rows = _read_rows(reference)
    usable = [r for r in table_rows if r["metric"] in METRICS and r["model"] + r["decoder"]]
    if not usable:
        metrics = ", ".join(dict.fromkeys(r["metric"] for r in table_rows))
        raise SpecError(f"{reference} has no metric that can be measured on a system; its metrics: {metrics}")
    several = len({r["domain"] for r in usable}) > 1
    groups: dict[tuple[Name, str], list[dict[str, str]]] = {}
    for row in usable:
        params = ";".join(p for p in row["decoder_params"].split(";") if p and not p.startswith("seed="))
        model = f"{row['model']} ({row['domain']})" if several else row["model"]
        groups.setdefault(((model, row["decoder"], params), row["metric"]), []).append(row)
    published = []
    for (name, metric), group in groups.items():
        values = [float(r["value"]) for r in group]
        stated = next((float(r["sd"]) for r in group if r["sd"]), math.nan)
        sd = statistics.stdev(values) if len(values) > 1 else stated
        digits = max(len(r["value"].partition(".")[2]) for r in group)
        read_off = any(r["note"].startswith(READ_OFF) for r in group)
        mean = math.fsum(values) / len(values)
        published.append(PaperValue(name, metric, mean, sd, min(digits, 3), read_off))
    return published


def _read_rows(reference: str) -> list[dict[str, str]]:
    """Return the rows of a published table."""
    paper, _, table = reference.partition("/")
    folder = resources.files("openended.harness") / "reference"
    papers = {p.name.removesuffix(".csv"): p for p in folder.iterdir() if p.name.endswith(".csv")}
    if paper not in papers:
        raise SpecError(f"no published numbers {paper!r}{suggest(paper, papers)}")
    rows = list(csv.DictReader(papers[paper].read_text(encoding="utf-8").splitlines()))
    table_rows = [r for r in rows if _make_slug(r["table"]) == _make_slug(table)]
    if not table_rows:
        tables = dict.fromkeys(_make_slug(r["table"]) for r in rows)
        names = [t if t.startswith(("text", "fig")) else f"table{t}" for t in tables]
        raise SpecError(f"{paper} has no table {table!r}{suggest(table, names)}")
    return table_rows


def _make_slug(table: str) -> str:
    return "".join(c for c in table.lower() if c.isalnum() or c == ".").removeprefix("table")


def _match_system(name: Name, names: Sequence[Name], systems: Iterable[System]) -> tuple[System | None, bool]:
    """Find the measured system for a published one; also return whether its model differs.

    The model must be the same, unless the decoder occurs once in the published table and once among the systems.
    """
    model, decoder, params = name
    candidates = [s for s in systems if _is_same_decoder(s, DECODERS.get(decoder, decoder), params)]
    firsts = [s.items[0] for s in candidates]
    models = [{_normalize_model_name(m) for m in (i.titles[0], i.axes.get("model", ""))} for i in firsts]
    same = [s for s, titles in zip(candidates, models, strict=True) if _normalize_model_name(model) in titles]
    if len(same) == 1:
        return same[0], False
    is_only = not same and len(candidates) == 1 and len([n for n in names if n[1:] == name[1:]]) == 1
    return (candidates[0], True) if is_only else (None, False)


def _normalize_model_name(model: str) -> str:
    return model.rpartition("/")[2].lower().replace("_", "-")


def _is_same_decoder(system: System, decoder: str, params: str) -> bool:
    axes = system.items[0].axes
    pairs = [p.partition("=") for p in params.split(";") if "=" in p]
    equal = (_is_equal(axes.get(f"decoder.{k.strip()}", ""), v.strip()) for k, _, v in pairs)
    return axes.get("decoder") == decoder and all(equal)


def _is_equal(value: str, published: str) -> bool:
    try:
        return float(value) == float(published)
    except ValueError:
        return value == published


def _build_cells(published: PaperValue, system: System | None, items: Sequence[SystemValue]) -> tuple[Cell, Cell, Cell]:
    """Return the cells of the published value, the measured value and their difference."""
    first = Cell(published.value, published.sd)
    if system is None:
        return first, Cell(note=NO_RUN), BLANK
    where = METRICS[published.metric]
    value = next((i for i in system.items if where.matches(i)), None)
    if value is None or not math.isfinite(value.mean):
        return first, Cell(note=value.reason if value is not None and value.reason else NO_METRIC), BLANK
    mean = value.mean
    if where.gap:
        human = find_human_value(items, value)
        if human is None or not math.isfinite(human.mean):
            return first, Cell(note="No human value was measured."), BLANK
        mean = abs(mean - human.mean)
    measured = Cell(where.scale * mean, where.scale * value.sd, value.seeds)
    return first, measured, BLANK if published.read_off else Cell(measured.value - published.value, signed=True)


def _correlate_rankings(triples: Sequence[tuple[Cell, Cell, Cell]]) -> Cell:
    """Return the rank correlation of published and measured values."""
    from openended.metrics.correlation import rank_correlation

    both = [(a.value, b.value) for a, b, _ in triples if math.isfinite(a.value) and math.isfinite(b.value)]
    value = rank_correlation(*zip(*both, strict=True)) if len(both) > 2 else math.nan
    if not math.isfinite(value):
        return Cell(note="Fewer than three systems in common, or constant values.")
    return Cell(value, note=f"Over {len(both)} systems.", decimals=3)


def _label(name: Name, names: Sequence[Name], system: System | None) -> str:
    model, decoder, params = name
    parts = [model if len({n[0] for n in names}) > 1 else "", decoder, params.replace(";", " ")]
    label = " ".join(p for p in parts if p) or model
    return f"{label} [{system.name}]" if system is not None and system.name != label else label
