"""Compare published values with measured ones: differences and rank correlation."""

from __future__ import annotations

import csv
import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from openended.harness.core import SpecError, suggest
from openended.harness.report.tables.numbers import choose_decimals
from openended.harness.report.tables.table import Cell, Column, Table, TableRow
from openended.harness.results import Results, System, SystemValue, find_human_value, group_systems


@dataclass(frozen=True, slots=True)
class PaperValue:
    """One published value; several seeds of one system are averaged, with their std."""

    model: str
    decoder: str
    params: str
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


Name = tuple[str, str, str]  # model, decoder, its parameters
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
DECODERS = {"topk": "top_k", "beam_search": "beam"}
NO_RUN = "No run has this decoder with these parameters."
NO_METRIC = "Not measured in this run."
READ_OFF = "read off a figure"  # prefix of the note in such rows
READ_OFF_REMARK = "The published values were read off a figure: compare the order of the systems, not the values."
OTHER_MODEL = "The measured model is a different one: compare the order of the systems, not the values."


def build_comparison(results: Results, reference: str) -> Table:
    """Build the table that compares a published one (`paper/table`) with measured values, metric by metric."""
    published = read_published(reference)
    items = results.values
    systems = group_systems(items)
    names = list(dict.fromkeys((p.model, p.decoder, p.params) for p in published))
    matches = {name: _match_system(name, names, systems) for name in names}
    rows: list[TableRow] = []
    missing: list[str] = []
    signatures: dict[str, None] = {}
    for metric in dict.fromkeys(p.metric for p in published):
        mine = [i for i in items if _is_value(i, METRICS[metric])]
        if not mine:
            missing.append(metric)
            continue
        signatures |= dict.fromkeys(i.signature for i in mine if i.system == "model")
        rows += _build_block(
            [p for p in published if p.metric == metric], names, matches, items, _format_title(METRICS[metric], mine)
        )
    remarks = [READ_OFF_REMARK if any(p.read_off for p in published) else "Δ is measured minus published."]
    if missing:
        remarks.append(f"Published but not measured here: {', '.join(missing)}.")
    if any(system is not None and other for system, other in matches.values()):
        remarks.append(OTHER_MODEL)
    remarks += [f"signature of the measured value: {s}" for s in signatures]
    name = f"compare-{reference.replace('/', '-').replace(' ', '_')}"
    columns = (
        Column("", "published", "published", "none"),
        Column("", "ours", "measured", "none"),
        Column("", "delta", "Δ", "none"),
    )
    return Table(name, f"{reference}: published and measured", columns, tuple(rows), tuple(remarks), show_seeds=False)


def _build_block(
    published: Sequence[PaperValue],
    names: Sequence[Name],
    matches: Mapping[Name, tuple[System | None, bool]],
    items: Sequence[SystemValue],
    title: str,
) -> list[TableRow]:
    """Build the rows of one metric with equal decimals; the last row is the rank correlation."""
    triples = {
        (p.model, p.decoder, p.params): _build_cells(p, matches[p.model, p.decoder, p.params][0], items)
        for p in published
    }
    digits_published = max(p.decimals for p in published)
    digits_measured = choose_decimals([t[1].value for t in triples.values()], [t[1].sd for t in triples.values()])
    digits = (
        digits_published,
        max(digits_published, min(digits_measured, digits_published + 1)),
        max(digits_published, min(digits_measured, digits_published + 1)),
    )
    rows: list[TableRow] = []
    for name, triple in triples.items():
        cells = tuple(dataclasses.replace(c, decimals=d) for c, d in zip(triple, digits, strict=True))
        rows.append(TableRow(f"{title}: {_label(name, names, matches[name][0])}", "model", cells, rule=not rows))
    blank = Cell(blank=True)
    return [
        *rows,
        TableRow(
            f"{title}: Spearman ρ of the rankings",
            "summary",
            (blank, blank, _correlate_rankings(list(triples.values()))),
        ),
    ]


def _is_value(item: SystemValue, where: MeasuredValue) -> bool:
    return item.metric == where.metric and (item.key == where.key if where.key else item.primary)


def _format_title(where: MeasuredValue, mine: Sequence[SystemValue]) -> str:
    title = mine[0].title
    return f"|Δ {title}|" if where.gap else f"{title} (%)" if where.scale != 1 else title


def read_published(reference: str) -> list[PaperValue]:
    """Read the values of a published table whose metrics are implemented, in the order of the table."""
    paper, _, table = reference.partition("/")
    folder = resources.files("openended.harness") / "reference"
    papers = {p.name.removesuffix(".csv"): p for p in folder.iterdir() if p.name.endswith(".csv")}
    if paper not in papers:
        raise SpecError(f"no published numbers {paper!r}{suggest(paper, papers)}")
    rows = list(csv.DictReader(papers[paper].read_text(encoding="utf-8").splitlines()))
    tables = dict.fromkeys(_make_slug(r["table"]) for r in rows)
    table_rows = [r for r in rows if _make_slug(r["table"]) == _make_slug(table)]
    if not table_rows:
        names = [t if t.startswith(("text", "fig")) else f"table{t}" for t in tables]
        raise SpecError(f"{paper} has no table {table!r}{suggest(table, names)}")
    usable = [r for r in table_rows if r["metric"] in METRICS and r["model"] + r["decoder"]]
    if not usable:
        named = ", ".join(dict.fromkeys(r["metric"] for r in table_rows))
        raise SpecError(f"{reference} has no metric that can be measured on a system; its metrics: {named}")
    return _average_seeds(usable)


def _make_slug(table: str) -> str:
    text = "".join(c for c in table.lower() if c.isalnum() or c == ".")
    return text.removeprefix("table")


def _average_seeds(rows: Iterable[dict[str, str]]) -> list[PaperValue]:
    """Average the seeds of a system into one value; domains are kept apart by the model's name."""
    rows = list(rows)
    several = len({r["domain"] for r in rows}) > 1
    groups: dict[tuple[str, str, str, str], list[dict[str, str]]] = {}
    for row in rows:
        params = ";".join(p for p in row["decoder_params"].split(";") if p and not p.startswith("seed="))
        model = f"{row['model']} ({row['domain']})" if several else row["model"]
        groups.setdefault((model, row["decoder"], params, row["metric"]), []).append(row)
    values_published = []
    for (model, decoder, params, metric), group in groups.items():
        values = [float(r["value"]) for r in group]
        printed = [float(r["sd"]) for r in group if r["sd"]]
        sd = statistics.stdev(values) if len(values) > 1 else (printed[0] if printed else math.nan)
        digits = max(len(r["value"].partition(".")[2]) for r in group)
        read_off = any(r["note"].startswith(READ_OFF) for r in group)
        mean = math.fsum(values) / len(values)
        values_published.append(PaperValue(model, decoder, params, metric, mean, sd, min(digits, 3), read_off))
    return values_published


def _match_system(name: Name, names: Sequence[Name], systems: Sequence[System]) -> tuple[System | None, bool]:
    """Find the measured system for a published one; also return whether its model differs.

    The model must be the same, unless the decoder occurs once in the published table and once among the systems.
    """
    model, decoder, params = name
    fitting = [s for s in systems if _is_same_decoder(s, DECODERS.get(decoder, decoder), params)]
    same = [
        s
        for s in fitting
        if _normalize_model_name(model)
        in {_normalize_model_name(s.items[0].titles[0]), _normalize_model_name(s.items[0].axes.get("model", ""))}
    ]
    if len(same) == 1:
        return same[0], False
    once = [n for n in names if n[1:] == name[1:]]
    if not same and len(once) == 1 and len(fitting) == 1:
        return fitting[0], True
    return None, False


def _normalize_model_name(model: str) -> str:
    return model.rpartition("/")[2].lower().replace("_", "-")


def _is_same_decoder(system: System, decoder: str, params: str) -> bool:
    axes = system.items[0].axes
    if axes.get("decoder") != decoder:
        return False
    pairs = [p.partition("=") for p in params.split(";") if "=" in p]
    return all(_is_equal(axes.get(f"decoder.{k.strip()}", ""), v.strip()) for k, _, v in pairs)


def _is_equal(value: str, published: str) -> bool:
    try:
        return float(value) == float(published)
    except ValueError:
        return value == published


def _build_cells(published: PaperValue, system: System | None, items: Sequence[SystemValue]) -> tuple[Cell, Cell, Cell]:
    published_cell = Cell(published.value, published.sd)
    if system is None:
        return published_cell, Cell(note=NO_RUN), Cell(blank=True)
    measured_cell = _build_measured_cell(METRICS[published.metric], system, items)
    if not math.isfinite(measured_cell.value):
        return published_cell, measured_cell, Cell(blank=True)
    if published.read_off:
        return published_cell, measured_cell, Cell(blank=True)
    return published_cell, measured_cell, Cell(measured_cell.value - published.value, signed=True)


def _build_measured_cell(where: MeasuredValue, system: System, items: Sequence[SystemValue]) -> Cell:
    value = next((i for i in system.items if _is_value(i, where)), None)
    if value is None or not math.isfinite(value.mean):
        return Cell(note=value.reason if value is not None and value.reason else NO_METRIC)
    mean = value.mean
    if where.gap:
        human = find_human_value(items, value)
        if human is None or not math.isfinite(human.mean):
            return Cell(note="No human value was measured.")
        mean = abs(mean - human.mean)
    return Cell(where.scale * mean, where.scale * value.sd, value.seeds)


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
