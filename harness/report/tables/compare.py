"""Differences of measured values: from published ones, and from a baseline system with tests of `analysis.paired`."""

import contextlib
import csv
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from openended.harness import results as measured
from openended.harness.core import DataError, SpecError, parse_yaml, suggest
from openended.harness.report.analysis import paired
from openended.harness.report.analysis.worsening import WORSE, Worsening, decide_together, measure_worsening
from openended.harness.report.tables import frame as frames
from openended.harness.report.tables.agreement import correlate, orient_value, stars
from openended.harness.report.tables.frame import Cell, Frame, build_frame, make_cell, make_quantity
from openended.harness.report.tables.selection import check_signatures, load_analysis, select_pairs, split_results
from openended.harness.results import Results, System, SystemValue, group_by, group_systems, select_values

FOLDER = resources.files("openended.harness") / "reference"
Name = tuple[str, str, str]  # model, decoder, its parameters
Row = tuple[str, Cell | None, Cell | None, Cell | None]  # label, published and measured value, difference
COLUMNS = {"published": "published", "ours": "measured", "delta": "Δ"}
DECODERS = {"topk": "top_k", "beam_search": "beam"}
CORRELATION = "spearman("
SYSTEM_COUNT = "Over {} systems."
NOT_TUNED = "Measured with a linear classifier on frozen features, not with this discriminator."
NO_RUN = "No run has this decoder with these parameters."
NO_ROW = "The runs do not have this embedder, or two sets of these texts."
NO_METRIC = "Not measured in this run."
DELTA = "Δ is measured minus published."
ORIENTED = "Spearman's ρ over systems, oriented so that agreement is positive."
READ_OFF_REMARK = "The published values were read off a figure: compare the order of the systems, not the values."
OTHER_MODEL = "The measured model is a different one: compare the order of the systems, not the values."
UNTESTED = f"Not tested: no replicates or per-example values, and p < 0.05 needs {paired.LEAST_SEEDS} seeds."
LAST_GOOD = "last-good"
UNSURE = "\u00b0"  # the values differ, but maybe not their distances to the human value


@dataclass(frozen=True, slots=True)
class PaperValue:
    """One published value; several seeds of one system are averaged, with their std."""

    name: Name
    metric: str
    value: float
    sd: float
    decimals: int  # in the paper
    read_off: bool = False  # off a figure, so that only the order of systems is comparable


@cache
def load_metrics() -> dict[str, dict[str, Any]]:
    """Return what the names of metrics in published tables and correlations mean (`metrics.yaml`)."""
    nodes: dict[str, dict[str, Any]] = parse_yaml((FOLDER / "metrics.yaml").read_text(encoding="utf-8"))
    return nodes


# Published values -----------------------------------------------------------------------------------------------------


def build_comparison(results: Results, reference: str) -> Frame:
    """Build the table that compares a published one (`paper/table`) with measured values, metric by metric."""
    rows_of_table = _read_rows(reference)
    metric = rows_of_table[0]["metric"]
    layout = load_metrics()["layouts"].get(metric.partition("_")[0].partition("(")[0])
    kind, sections = "metric", list[str]()
    correlated = load_metrics()["correlated"].keys()
    correlations = [row for row in rows_of_table if (names := {*_parse_correlation(row)}) and names <= correlated]
    if correlations:
        rows, remarks = _compare_correlations(results, correlations), [f"{ORIENTED} {DELTA}"]
    elif layout is not None:
        rows, remarks = _compare_cells(results, rows_of_table, layout)
    else:
        kind = "model"
        rows, sections, remarks = _compare_values(results, reference, rows_of_table)
    columns = [
        (make_quantity("", key, title, decimals=3), [row[at] for row in rows])
        for at, (key, title) in enumerate(COLUMNS.items(), 1)
    ]
    stem = f"compare-{reference.replace('/', '-').replace(' ', '_')}"
    title, kinds = f"{reference}: published and measured", [kind if row[1] else "summary" for row in rows]
    return build_frame(stem, title, [row[0] for row in rows], columns, remarks, roles=kinds, sections=sections)


def _compare_values(
    results: Results, reference: str, rows_of_table: Sequence[Mapping[str, str]]
) -> tuple[list[Row], list[str], list[str]]:
    """Compare values of systems; also return the metric of each row, and remarks."""
    scores = [(i, *i.key.partition("/")[::2]) for i in results.values if i.metric == "bradley_terry" and "/" in i.key]
    players = [  # of files of judgments alone, each with its score for every question
        System(name, tuple(replace(i, key=question, title=question.replace("_", " ")) for i, question, _ in of))
        for name, of in group_by(scores, lambda score: score[2]).items()
    ]
    published, items = read_published(reference), [*results.values, *(i for p in players for i in p.items)]
    systems = [*group_systems(results.values), *players]
    names = list(dict.fromkeys(p.name for p in published))
    matches = {name: _match_system(name, names, systems) for name in names}
    rows: list[Row] = []
    sections: list[str] = []
    missing: list[str] = []
    signatures: dict[str, None] = {}
    for metric, values in group_by(published, lambda value: value.metric).items():
        where = load_metrics()["measured"][metric]
        measured_items = _select_measured(items, where)
        if not measured_items:
            missing.append(metric)
            if "title" not in where:
                continue
        signatures |= dict.fromkeys(i.signature for i in measured_items if i.system == "model")
        like = measured_items[0].title if measured_items else where["title"]
        title = f"|Δ {like}|" if "gap" in where else f"{like} (%)" if "scale" in where else like
        cells = [_build_measured_cell(where, matches[p.name][0], items) for p in values]
        digits = max(p.decimals for p in values)
        more = max(digits, min(frames.choose_column_decimals(cells), digits + 1))
        for value, cell in zip(values, cells, strict=True):
            paper = make_cell(value.value, value.sd, own_decimals=digits)
            gap = None if value.read_off else _subtract(cell, paper, more)
            label = _label_published_system(value.name, names, matches[value.name][0])
            rows.append((f"{title}: {label}", paper, replace(cell, own_decimals=more), gap))
        few = "Fewer than three systems in common, or constant values."
        both = ((value.value, cell.value) for value, cell in zip(values, cells, strict=True))
        rows.append((f"{title}: Spearman ρ of the rankings", None, None, correlate(both, SYSTEM_COUNT, few)))
        sections += [metric] * (len(values) + 1)
    remarks = [READ_OFF_REMARK if any(p.read_off for p in published) else DELTA]
    remarks += [f"Published but not measured here: {', '.join(missing)}."] if missing else []
    remarks += sorted({f"({r['domain']}) {r['note']}." for r in rows_of_table if r["domain"] == r["table"]})
    remarks += [OTHER_MODEL] if any(system is not None and other for system, other in matches.values()) else []
    return rows, sections, [*remarks, *(f"signature of the measured value: {s}" for s in signatures)]


def _compare_cells(results: Results, published: Sequence[Mapping[str, str]], name: str) -> tuple[list[Row], list[str]]:
    """Compare published values with the cells of the table that a layout builds of the runs; also return remarks."""
    layout = measured.load_layout(name)
    build, measured_cells, remarks = load_analysis(layout.analysis), list[Cell](), list[str]()
    with contextlib.suppress(DataError):
        for part in split_results(results, layout, name)[-1:]:
            frame = build(part, layout)[-1]
            measured_cells = list(frame.cells)
            remarks = [note.text for note in frame.notes if note.kind == "remark"]
    labeled = ((cell, label) for cell in measured_cells for label in cell.axes.values())
    cells = {(cell.key, label): make_cell(cell.value, cell.sd, cell.n, note=cell.note) for cell, label in labeled}
    rows: list[Row] = []
    for row in published:
        words = row["metric"].replace("(", "_").split("_")  # sd_precision_vary_p_and_q, correlation(precision;…)
        label = f"Varying {' '.join(words[3:]).title().replace('And', 'and')}" if words[0] == "sd" else row["model"]
        key = words[1].partition(";")[0]
        cell = cells.get((key, label), make_cell(note=NO_ROW))
        paper = make_cell(float(row["value"]), float(row["sd"] or math.nan))
        rows.append((f"{key}: {label}", paper, cell, _subtract(cell, paper)))
    return rows, [DELTA, *remarks]


def _compare_correlations(results: Results, published: Sequence[Mapping[str, str]]) -> list[Row]:
    """Compare published rank correlations with those of the measured values, over the systems that have both."""
    parts = measured.group_by_data(results.values)
    several = len({row["domain"] for row in published}) > 1
    tasks, classifiers = load_metrics()["domains"], load_metrics()["classifiers"]
    rows: list[Row] = []
    for row in published:
        names = _parse_correlation(row)
        first, second = (tuple(load_metrics()["correlated"][name].split(".")) for name in names)
        tuned = ("finetuned_discriminator", f"accuracy_{classifiers.get(row['model'])}")
        is_tuned = any(i.pair == tuned for i in results.values)
        second = tuned if is_tuned else second
        cells = {}
        for task, part in parts.items():
            if not any(i.pair == second for i in part):
                continue
            both = [(s.value(*first), s.value(*second)) for s in group_systems(part)]
            oriented = [(orient_value(a, part), orient_value(b, part)) for a, b in both if a and b]
            cells[task] = correlate(
                oriented, f"{SYSTEM_COUNT[:-1]} of {task}." if several else SYSTEM_COUNT, signed=True
            )
        having = list(cells.values()) or [correlate([])]
        # The task of the paper's domain; on other tasks, the next one for each domain with this score.
        same = [cell for task, cell in cells.items() if task.partition(",")[0] == tasks.get(row["domain"])]
        others = [r["domain"] for r in published if r["metric"] == row["metric"] and r["model"] == row["model"]]
        cell = same[0] if same else having[min(others.index(row["domain"]), len(having) - 1)]
        if row["model"] and not is_tuned and math.isfinite(cell.value):
            cell.note += f" {NOT_TUNED}"
        paper = make_cell(float(row["value"]), signed=True)
        where = ", ".join(filter(None, (row["model"], row["domain"] if several else "")))
        label = f"{', '.join(names)}{f' ({where})' if where else ''}"
        rows.append((label, paper, cell, _subtract(cell, paper)))
    return rows


def _parse_correlation(row: Mapping[str, str]) -> list[str]:
    """Return the names of the two scores of a published correlation; nothing for another value."""
    name = row["metric"]
    return name.removeprefix(CORRELATION).removesuffix(")").split(";") if name.startswith(CORRELATION) else []


def _subtract(cell: Cell, paper: Cell, decimals: int | None = None) -> Cell | None:
    difference = cell.value - paper.value
    digits = math.nan if decimals is None else decimals
    return make_cell(difference, signed=True, own_decimals=digits) if math.isfinite(difference) else None


def read_published(reference: str) -> list[PaperValue]:
    """Read the values of a published table whose metrics are implemented, in the order of the table.

    Seeds of a system are averaged into one value; domains are kept apart by the model's name.
    """
    table_rows = _read_rows(reference)
    usable = [r for r in table_rows if r["metric"] in load_metrics()["measured"] and r["model"] + r["decoder"]]
    if not usable:
        metrics = ", ".join(dict.fromkeys(r["metric"] for r in table_rows))
        raise SpecError(f"{reference} has no metric that can be measured on a system; its metrics: {metrics}")
    several = len({r["domain"] for r in usable}) > 1

    def make_key(row: Mapping[str, str]) -> tuple[Name, str]:
        params = ";".join(p for p in row["decoder_params"].split(";") if p and not p.startswith("seed="))
        model = f"{row['model']} ({row['domain']})" if several else row["model"]
        return (model, row["decoder"], params), row["metric"]

    published = []
    for (name, metric), group in group_by(usable, make_key).items():
        values = [float(r["value"]) for r in group]
        stated = next((float(r["sd"]) for r in group if r["sd"]), math.nan)
        sd = statistics.stdev(values) if len(values) > 1 else stated
        digits = max(len(r["value"].partition(".")[2]) for r in group)
        read_off = any(r.get("read_from") == "figure" for r in group)
        published.append(PaperValue(name, metric, math.fsum(values) / len(values), sd, min(digits, 3), read_off))
    return published


def _read_rows(reference: str) -> list[dict[str, str]]:
    """Return the rows of a published table; `1` is also both of Tables 1a and 1b, `13` a table named with it."""

    def make_slug(table: str) -> str:
        return "".join(c for c in table.lower() if c.isalnum() or c == ".").removeprefix("table")

    paper, _, table = reference.partition("/")
    papers = {p.name.removesuffix(".csv"): p for p in FOLDER.iterdir() if p.name.endswith(".csv")}
    if paper not in papers:
        raise SpecError(f"no published numbers {paper!r}{suggest(paper, papers)}")
    rows = list(csv.DictReader(papers[paper].read_text(encoding="utf-8").splitlines()))
    table_rows = [r for r in rows if make_slug(r["table"]) == make_slug(table)]
    if not table_rows:
        parts = re.compile(rf"(?<![\w.]){re.escape(make_slug(table) or '.')}[a-z]?(?![\w.])", re.IGNORECASE)
        fitting = [r for r in rows if parts.search(r["table"])]
        table_rows = [{**r, "domain": r["table"] if r["table"][-1:].isalpha() else r["domain"]} for r in fitting]
    if not table_rows:
        slugs = dict.fromkeys(make_slug(r["table"]) for r in rows)
        names = [t if t.startswith(("text", "fig")) else f"table{t}" for t in slugs]
        what = f"has no table {table!r}" if table else f"has several tables: name one, as {paper}/{names[0]}"
        raise SpecError(f"{paper} {what}{suggest(table, names)}")
    return table_rows


def _match_system(name: Name, names: Sequence[Name], systems: Iterable[System]) -> tuple[System | None, bool]:
    """Find the measured system for a published one; also return whether its model differs.

    The model must be the same, unless the decoder occurs once in the published table and once among the systems.
    """
    model, decoder, params = name
    player = next((s for s in systems if s.name in (f"{model} {decoder}", "human" if model == "human" else "")), None)
    if player is not None:
        return player, False
    options = [("", DECODERS.get(decoder, decoder)), *(p.split("=", 1) for p in params.split(";") if "=" in p)]

    def normalize(text: str) -> str:
        return text.partition(" (")[0].rpartition("/")[2].lower().replace("_", "-")

    def is_equal(value: str, published: str) -> bool:
        try:
            return float(value) == float(published)
        except ValueError:
            return value == published

    candidates = []
    for system in systems:
        axes = system.items[0].axes
        values = [axes.get(f"decoder.{option.strip()}" if option else "decoder", "") for option, _ in options]
        if all(is_equal(value, text.strip()) for value, (_, text) in zip(values, options, strict=True)):
            candidates.append(system)
    models = [{normalize(m) for m in (s.items[0].titles[0], s.items[0].axes.get("model", ""))} for s in candidates]
    same = [s for s, titles in zip(candidates, models, strict=True) if normalize(model) in titles]
    if len(same) == 1:
        return same[0], False
    is_only = not same and len(candidates) == 1 and [n[1:] for n in names].count(name[1:]) == 1
    return (candidates[0], True) if is_only else (None, False)


def _select_measured(items: Iterable[SystemValue], where: Mapping[str, Any]) -> list[SystemValue]:
    metric, _, key = where["value"].partition(".")
    return [i for i in items if i.metric == metric and (i.key == key if key else i.primary)]


def _build_measured_cell(where: Mapping[str, Any], system: System | None, items: Sequence[SystemValue]) -> Cell:
    if system is None:
        return make_cell(note=NO_RUN)
    value = next(iter(_select_measured(system.items, where)), None)
    if value is None or not math.isfinite(value.mean):
        return make_cell(note=value.reason if value is not None and value.reason else NO_METRIC)
    mean, scale = value.mean, where.get("scale", 1.0)
    if "gap" in where:
        human = measured.find_human_value(items, value)
        if human is None or not math.isfinite(human.mean):
            return make_cell(note="No human value was measured.")
        mean = abs(mean - human.mean)
    return make_cell(scale * mean, scale * value.sd, value.seeds)


def _label_published_system(name: Name, names: Sequence[Name], system: System | None) -> str:
    model, decoder, params = name
    parts = [model if len({n[0] for n in names}) > 1 else "", decoder, params.replace(";", " ")]
    label = " ".join(p for p in dict.fromkeys(parts) if p) or model
    return f"{label} [{system.name}]" if system is not None and system.name != label else label


# A baseline -----------------------------------------------------------------------------------------------------------


def build_significance_frames(results: Results, baseline: str) -> list[Frame]:
    """Build two tables: differences from the baseline with significance stars, and corrected p-values.

    The baseline is a label, the title of a model, whose systems are compared by decoder, or `last-good`.
    """
    items = results.values
    pairs = {pair: select_values(items, *pair) for pair in select_pairs(items)}
    for values in pairs.values():
        check_signatures(values, "significance")
    systems = group_systems(items)
    lines: list[str] = []
    if baseline == LAST_GOOD:
        baselines, lines = _find_last_good(results)
    else:
        baselines = _match_baseline(systems, baseline)
    names = list(baselines)
    by_name = {system.name: system for system in systems}
    tests = {
        (n, p): paired.compare_values(results, items, by_name[n].value(*p), baselines[n].value(*p))
        for n in names
        for p in pairs
    }
    corrected = paired.correct_by_holm({k: t.p_value for k, t in tests.items() if t is not None})
    differences, p_values = [], []
    for pair, (first, *_) in pairs.items():
        gap = first.direction == "match_human"
        cells = [_build_difference_cell(tests[n, pair], corrected.get((n, pair), math.nan), gap) for n in names]
        title = f"Δ|Δ {first.title}|" if gap else f"Δ {first.title}"
        direction = "lower" if gap else "none" if first.target is not None else first.direction
        marked = [frames.count_decimals(abs(cell.value)) for cell in cells if cell.mark]
        decimals = max([frames.choose_column_decimals(cells), *marked])
        differences.append((make_quantity(*pair, title, direction, decimals, first.signature, gap=gap), cells))
        p_cells = [corrected.get((name, pair), make_cell(note=UNTESTED)) for name in names]
        p_values.append((make_quantity(*pair, f"p {first.title}", "none", 4, is_p=True), p_cells))
    estimates, signatures = paired.describe_estimates(results, (value for values in pairs.values() for value in values))
    labels = ", ".join(dict.fromkeys(system.name for system in baselines.values()))
    label = f"{labels} (last good)" if baseline == LAST_GOOD else labels
    remarks = [
        *lines,
        f"Difference from {label}; Δ|Δ| is the difference of the distances to the human value.",
        "* p < 0.05, ** p < 0.01, *** p < 0.001, two-sided, after Holm's correction over the table.",
        "Tests over examples for means (sign flips), over paired replicates for other metrics, otherwise over seeds.",
        *estimates,
    ]
    if any(c.mark.endswith(UNSURE) for _, cells in differences for c in cells):
        remarks.append(f"{UNSURE} The two values differ; it is open which of them is nearer to the human value.")
    seeds = sorted({t.n for t in tests.values() if t is not None and t.over == "seeds" and math.isfinite(t.p_value)})
    if seeds:
        floor = ", ".join(f"{2 / 2**n:.2g} for {n} seeds" for n in seeds)
        remarks.append(f"Smallest p-value that a test over seeds can reach, before the correction: {floor}.")
    title, rules = f"Difference from {label}", tuple(signatures)
    holm = ["p-values after Holm's correction over all cells."]
    return [
        build_frame("significance", title, names, differences, remarks, rules=rules),
        build_frame("significance-p", f"p-values against {label}", names, p_values, holm),
    ]


def _match_baseline(systems: Sequence[System], name: str) -> dict[str, System]:
    """Return label → baseline of every system but the baselines: a label, or all systems of a model."""
    labels = {system.name: [system] for system in systems}
    models = group_by(systems, lambda system: system.items[0].titles[0])
    matches = labels.get(name) or models.get(name)
    if matches is None:
        raise SpecError(f"no system {name!r}{suggest(name, [*labels, *models])}")
    others = {system.name: measured.find_counterpart(system, matches) for system in systems if system not in matches}
    baselines = {label: match for label, match in others.items() if match is not None}
    if not baselines:
        several = f": it has {', '.join(system.name for system in matches)}; name one" if len(matches) > 1 else ""
        raise SpecError(f"no other system to compare {name!r} with{several}")
    return baselines


def _find_last_good(results: Results) -> tuple[dict[str, System], list[str]]:
    """Return label → last good checkpoint of its training, and a line per training that says where it got worse."""
    baselines: dict[str, System] = {}
    lines = []
    for series in (series for series in measured.group_checkpoints(results.values) if len(series) > 1):
        worsenings = _test_checkpoints(results, series)
        worse = {name: [w for w in tested if w.outcome == WORSE] for name, tested in worsenings.items()}
        untested = [system.name for system in series[1:] if not worsenings[system.name]]
        good = next(system for system in reversed(series) if system.name not in untested and not worse[system.name])
        baselines |= {system.name: good for system in series if system is not good}
        steps = {system.name: system.items[0].axes[measured.STEP] for system in series}
        history = []
        for name in filter(worse.__getitem__, worse):
            parts = []
            for worsening in worse[name]:
                before, after, amount, p_value = format_worsening(worsening)
                best = worsening.baseline.axes[measured.STEP]
                parts.append(f"{worsening.value.title} {before} (step {best}) → {after}, by {amount}, p {p_value}")
            history.append(f"worse at step {steps[name]}: {', '.join(parts)}")
        is_tested = any(worsenings.values())
        if is_tested and untested:
            history.append(f"not tested, for lack of values: step {', '.join(str(steps[name]) for name in untested)}")
        clear = "no step is significantly worse than the best before it" if is_tested else "no value has an interval"
        title = f"{series[0].items[0].axes[measured.TRAINING]} {series[0].items[0].titles[1]}".strip()
        lines.append(f"{title}: {'; '.join(history) or clear}. Last good: step {steps[good.name]}.")
    if not lines:
        raise SpecError(
            f"--baseline {LAST_GOOD}: expected a training with 2 checkpoints or more, as of "
            "-m model.path='runs/*/checkpoint-*'; these runs have none"
        )
    return baselines, lines


def _test_checkpoints(results: Results, series: Sequence[System]) -> dict[str, list[Worsening]]:
    """Return label → each value of a checkpoint against the best one before it; a value needs an interval.

    All values and steps of a training and decoder are corrected together. The best is known only from the data, so all
    pairs of checkpoints count, as for bold cells.
    """
    tested: list[Worsening] = []
    tests = 0
    for pair in select_pairs([item for system in series for item in system.items], companions=False):
        best: SystemValue | None = None
        earlier = 0  # checkpoints that the best one before was chosen from
        for system in series:
            value = system.value(*pair)
            if value is None or not math.isfinite(value.mean) or value.direction == "none":
                continue
            worsening = measure_worsening(results, results.values, system.name, value, best or value)
            if best is not None and math.isfinite(worsening.high):
                tested.append(worsening)
                tests += earlier
            earlier += 1
            best = value if best is None or worsening.amount < 0 else best
    decided = decide_together(tested, tests=tests)
    return {system.name: [w for w in decided if w.system == system.name] for system in series}


def format_worsening(worsening: Worsening) -> tuple[str, str, str, str]:
    """Format the baseline's value, the system's, the worsening with its interval, and the p-value as `= 0.0123`."""
    means = worsening.baseline.mean, worsening.value.mean, worsening.amount
    numbers = [*means, worsening.low, worsening.high]
    decimals = frames.count_decimals((worsening.high - worsening.low) / 4, frames.choose_decimals(means))
    before, after, amount, low, high = (
        frames.format_fixed(number, decimals) if math.isfinite(number) else frames.DASH for number in numbers
    )
    p_value = frames.format_p_equation(worsening.p_value) if math.isfinite(worsening.p_value) else f"= {frames.DASH}"
    interval = f" [{low}, {high}]" if math.isfinite(worsening.high) else ""
    return before, after, f"{amount}{interval}", p_value


def _build_difference_cell(test: paired.SystemComparison | None, p_value: float, gap: bool) -> Cell:
    if test is None:
        return make_cell(note="One of the two systems has no value, or there is no human value to compare with.")
    if not math.isfinite(p_value):
        return make_cell(test.difference, signed=True, note=UNTESTED)
    sign = stars(p_value)
    unsure = UNSURE if sign and gap and not test.nearer < paired.LEVEL else ""
    return make_cell(test.difference, n=test.n, signed=True, mark=sign + unsure)
