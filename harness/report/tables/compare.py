"""Published values beside ours: the difference, and whether the systems rank alike."""

from __future__ import annotations

import csv
import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from openended.harness.core import SpecError, suggest
from openended.harness.report.tables.numbers import decimals
from openended.harness.report.tables.table import Cell, Column, Table, TableRow
from openended.harness.results import Folded, Results, System, fold_seeds, human_value, systems_of


@dataclass(frozen=True, slots=True)
class PaperValue:
    """One published number; several seeds of one system are one number with a spread."""

    model: str
    decoder: str
    params: str
    metric: str
    value: float
    sd: float
    places: int
    """Decimals that were printed."""
    read_off: bool = False
    """Read off a figure: its order counts, a difference from it says nothing."""


@dataclass(frozen=True, slots=True)
class Ours:
    """Where a published metric stands among our values."""

    metric: str
    key: str = ""
    """Empty: the metric's primary value."""
    gap: bool = False
    scale: float = 1.0


Name = tuple[str, str, str]  # model, decoder, its parameters
# The sources' names of metrics → ours.
METRICS = {
    "gen_ppl_gap": Ours("gen_ppl", "gen_ppl", gap=True),
    "zipf_gap": Ours("zipf", gap=True),
    "self_bleu_gap": Ours("self_bleu", gap=True),
    "sp": Ours("sparsemax_score"),
    "js": Ours("jensen_shannon"),
    "eps_ppl": Ours("eps_ppl"),
    "mauve": Ours("mauve", "mauve"),
    "mauve_pct": Ours("mauve", "mauve", scale=100.0),
    "human_bt": Ours("bradley_terry", "bradley_terry"),
    "bt_human_like": Ours("bradley_terry", "bradley_terry"),
    "huse": Ours("huse", "huse"),
    "huse_q": Ours("huse", "huse_q"),
    "huse_d": Ours("huse", "huse_d"),
    "precision": Ours("knn_precision_recall", "precision"),
    "recall": Ours("knn_precision_recall", "recall"),
    "diversity": Ours("repetition", "diversity"),
    "diversity_pct": Ours("repetition", "diversity", scale=100.0),
    "rep_2_pct": Ours("repetition", "rep_2", scale=100.0),
    "rep_3_pct": Ours("repetition", "rep_3", scale=100.0),
    "rep_4_pct": Ours("repetition", "rep_4", scale=100.0),
    "gen_length_words": Ours("length"),
}
DECODERS = {"topk": "top_k", "beam_search": "beam"}
NO_RUN = "None of our runs has this decoder with these parameters."
NO_METRIC = "Our run did not measure this."
READ_OFF = "read off a figure"  # begins the note of such a row
READ_OFF_REMARK = "The published values were read off a figure: compare the order of the systems, not the values."
OTHER_MODEL = "Ours is another model: compare the order of the systems, not the values."


def comparison(results: Results, reference: str) -> Table:
    """Build the table that sets a published one (`paper/table`) beside ours, metric by metric.

    Raises:
        SpecError: If there is no such paper or table, or it holds no metric of ours.
    """
    published = read_published(reference)
    items = fold_seeds(results)
    systems = systems_of(items)
    names = list(dict.fromkeys((p.model, p.decoder, p.params) for p in published))
    found = {name: _match(name, names, systems) for name in names}
    rows: list[TableRow] = []
    missing: list[str] = []
    signatures: dict[str, None] = {}
    for metric in dict.fromkeys(p.metric for p in published):
        mine = [i for i in items if _is(i, METRICS[metric])]
        if not mine:
            missing.append(metric)
            continue
        signatures |= dict.fromkeys(i.signature for i in mine if i.system == "model")
        rows += _block([p for p in published if p.metric == metric], names, found, items, _title(METRICS[metric], mine))
    remarks = [READ_OFF_REMARK if any(p.read_off for p in published) else "Δ is ours minus published."]
    if missing:
        remarks.append(f"Published too, but not measured here: {', '.join(missing)}.")
    if any(system is not None and other for system, other in found.values()):
        remarks.append(OTHER_MODEL)
    remarks += [f"signature of ours: {s}" for s in signatures]
    name = f"compare-{reference.replace('/', '-').replace(' ', '_')}"
    columns = (
        Column("", "published", "published", "none"),
        Column("", "ours", "ours", "none"),
        Column("", "delta", "Δ", "none"),
    )
    return Table(name, f"{reference} beside ours", columns, tuple(rows), tuple(remarks), show_seeds=False)


def _block(
    published: Sequence[PaperValue],
    names: Sequence[Name],
    found: Mapping[Name, tuple[System | None, bool]],
    items: Sequence[Folded],
    title: str,
) -> list[TableRow]:
    """Build the rows of one metric, the rank correlation last; all with the same decimals."""
    triples = {
        (p.model, p.decoder, p.params): _triple(p, found[p.model, p.decoder, p.params][0], items) for p in published
    }
    places = max(p.places for p in published)
    own = decimals([t[1].value for t in triples.values()], [t[1].sd for t in triples.values()])
    digits = (places, max(places, min(own, places + 1)), max(places, min(own, places + 1)))
    rows: list[TableRow] = []
    for name, triple in triples.items():
        cells = tuple(dataclasses.replace(c, decimals=d) for c, d in zip(triple, digits, strict=True))
        rows.append(TableRow(f"{title}: {_label(name, names, found[name][0])}", "model", cells, rule=not rows))
    blank = Cell(blank=True)
    return [
        *rows,
        TableRow(f"{title}: Spearman ρ of the rankings", "summary", (blank, blank, _ranking(list(triples.values())))),
    ]


def _is(item: Folded, where: Ours) -> bool:
    return item.metric == where.metric and (item.key == where.key if where.key else item.primary)


def _title(where: Ours, mine: Sequence[Folded]) -> str:
    title = mine[0].title
    return f"|Δ {title}|" if where.gap else f"{title} (%)" if where.scale != 1 else title


def read_published(reference: str) -> list[PaperValue]:
    """Read the numbers of a published table whose metrics we have, in its order."""
    paper, _, table = reference.partition("/")
    folder = resources.files("openended.harness") / "reference"
    papers = {p.name.removesuffix(".csv"): p for p in folder.iterdir() if p.name.endswith(".csv")}
    if paper not in papers:
        raise SpecError(f"no published numbers {paper!r}{suggest(paper, papers)}")
    rows = list(csv.DictReader(papers[paper].read_text(encoding="utf-8").splitlines()))
    tables = dict.fromkeys(_slug(r["table"]) for r in rows)
    wanted = [r for r in rows if _slug(r["table"]) == _slug(table)]
    if not wanted:
        names = [t if t.startswith(("text", "fig")) else f"table{t}" for t in tables]
        raise SpecError(f"{paper} has no table {table!r}{suggest(table, names)}")
    known = [r for r in wanted if r["metric"] in METRICS and r["model"] + r["decoder"]]
    if not known:
        named = ", ".join(dict.fromkeys(r["metric"] for r in wanted))
        raise SpecError(f"{reference} holds no metric that the harness measures on a system; it has {named}")
    return _folded(known)


def _slug(table: str) -> str:
    text = "".join(c for c in table.lower() if c.isalnum() or c == ".")
    return text.removeprefix("table")


def _folded(rows: Iterable[dict[str, str]]) -> list[PaperValue]:
    """Fold the seeds of a system (and its domains, named in the model) into one number."""
    rows = list(rows)
    several = len({r["domain"] for r in rows}) > 1
    groups: dict[tuple[str, str, str, str], list[dict[str, str]]] = {}
    for row in rows:
        params = ";".join(p for p in row["decoder_params"].split(";") if p and not p.startswith("seed="))
        model = f"{row['model']} ({row['domain']})" if several else row["model"]
        groups.setdefault((model, row["decoder"], params, row["metric"]), []).append(row)
    made = []
    for (model, decoder, params, metric), group in groups.items():
        values = [float(r["value"]) for r in group]
        printed = [float(r["sd"]) for r in group if r["sd"]]
        sd = statistics.stdev(values) if len(values) > 1 else (printed[0] if printed else math.nan)
        places = max(len(r["value"].partition(".")[2]) for r in group)
        read_off = any(r["note"].startswith(READ_OFF) for r in group)
        mean = math.fsum(values) / len(values)
        made.append(PaperValue(model, decoder, params, metric, mean, sd, min(places, 3), read_off))
    return made


def _match(name: Name, names: Sequence[Name], systems: Sequence[System]) -> tuple[System | None, bool]:
    """Find our system for a published one; returns it and whether its model is another.

    The model must be the same, unless the published table has the decoder once and we have it once.
    """
    model, decoder, params = name
    fitting = [s for s in systems if _same_decoder(s, DECODERS.get(decoder, decoder), params)]
    same = [
        s for s in fitting if _plain(model) in {_plain(s.items[0].titles[0]), _plain(s.items[0].axes.get("model", ""))}
    ]
    if len(same) == 1:
        return same[0], False
    once = [n for n in names if n[1:] == name[1:]]
    if not same and len(once) == 1 and len(fitting) == 1:
        return fitting[0], True
    return None, False


def _plain(model: str) -> str:
    return model.rpartition("/")[2].lower().replace("_", "-")


def _same_decoder(system: System, decoder: str, params: str) -> bool:
    axes = system.items[0].axes
    if axes.get("decoder") != decoder:
        return False
    pairs = [p.partition("=") for p in params.split(";") if "=" in p]
    return all(_equal(axes.get(f"decoder.{k.strip()}", ""), v.strip()) for k, _, v in pairs)


def _equal(ours: str, published: str) -> bool:
    try:
        return float(ours) == float(published)
    except ValueError:
        return ours == published


def _triple(published: PaperValue, system: System | None, items: Sequence[Folded]) -> tuple[Cell, Cell, Cell]:
    theirs = Cell(published.value, published.sd)
    if system is None:
        return theirs, Cell(note=NO_RUN), Cell(blank=True)
    ours = _ours(METRICS[published.metric], system, items)
    if not math.isfinite(ours.value):
        return theirs, ours, Cell(blank=True)
    if published.read_off:
        return theirs, ours, Cell(blank=True)
    return theirs, ours, Cell(ours.value - published.value, signed=True)


def _ours(where: Ours, system: System, items: Sequence[Folded]) -> Cell:
    value = next((i for i in system.items if _is(i, where)), None)
    if value is None or not math.isfinite(value.mean):
        return Cell(note=value.reason if value is not None and value.reason else NO_METRIC)
    mean = value.mean
    if where.gap:
        human = human_value(items, value)
        if human is None or not math.isfinite(human.mean):
            return Cell(note="No human value was measured.")
        mean = abs(mean - human.mean)
    return Cell(where.scale * mean, where.scale * value.sd, value.seeds)


def _ranking(triples: Sequence[tuple[Cell, Cell, Cell]]) -> Cell:
    """Return the rank correlation of published and our values."""
    from openended.metrics.correlation import rank_correlation

    both = [(a.value, b.value) for a, b, _ in triples if math.isfinite(a.value) and math.isfinite(b.value)]
    value = rank_correlation(*zip(*both, strict=True)) if len(both) > 2 else math.nan
    if not math.isfinite(value):
        return Cell(note="Fewer than three systems in common, or all values the same.")
    return Cell(value, note=f"Over {len(both)} systems.", decimals=3)


def _label(name: Name, names: Sequence[Name], system: System | None) -> str:
    model, decoder, params = name
    parts = [model if len({n[0] for n in names}) > 1 else "", decoder, params.replace(";", " ")]
    label = " ".join(p for p in parts if p) or model
    return f"{label} [{system.label}]" if system is not None and system.label != label else label
