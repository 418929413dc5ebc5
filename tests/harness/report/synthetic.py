"""Run folders with made-up but plausible results: what the report reads, without a model.

`stored(folder)` writes the small set that lies in tests/fixtures/report; a test holds the two together.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openended.harness.core import digest, to_json
from openended.harness.report.tables.frame import build_frame, fill_column
from openended.harness.report.tables.pivot import build_tables, head_column, print_cell
from openended.harness.report.tables.table import Table, TableRow
from openended.harness.storage.record import SCHEMA, RunInput
from openended.harness.storage.store import write_manifest

DECODERS: dict[str, dict[str, Any]] = {
    "greedy": {"title": "greedy", "stochastic": False, "quality": 0.05, "entropy": 2.2, "ppl": 4.1},
    "beam": {"title": "beam b=4", "stochastic": False, "quality": 0.08, "entropy": 2.4, "ppl": 3.2, "options": {"num_beams": 4}},
    "ancestral": {"title": "ancestral", "stochastic": True, "quality": 0.84, "entropy": 4.6, "ppl": 61.0},
    "nucleus": {"title": "nucleus p=0.95", "stochastic": True, "quality": 0.90, "entropy": 4.3, "ppl": 39.0, "options": {"p": 0.95}},
    "top_k": {"title": "top-k k=40", "stochastic": True, "quality": 0.85, "entropy": 4.0, "ppl": 24.0, "options": {"k": 40}},
}  # fmt: skip
HUMAN = {"gen_ppl": 36.4, "entropy": 4.42, "loop_rate": 0.012, "distinct_4": 0.961, "zipf": 0.971}
TITLES = {
    "gen_ppl": "Gen. PPL", "entropy": "Entropy", "mauve": "MAUVE", "loop_rate": "Loop", "distinct_4": "Distinct-4",
}  # fmt: skip


def _noise(*parts: Any) -> float:
    """A number in [-1, 1] that depends on its name alone."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4]) / 2**31 - 1


def result(system: str, metric: str, values: Mapping[str, float | None], **more: Any) -> dict[str, Any]:
    """One line of a record's results."""
    n = more.pop("n", 500)
    facts = more.pop("facts", "task:docs@9f31c0")
    return {
        "system": system, "metric": metric, "signature": f"{metric}|v:1{more.pop('options', '')}|n:{n}/{n}|{facts}",
        "primary": next(iter(values), metric), "values": dict(values), "sd": {}, "n_human": n, "n_model": n, "status": "ok",
        "notes": [], "family": "text", "direction": "match_human", "directions": {}, "titles": TITLES, "bounds": {name: [0, None] for name in values},
        "resampling": "bootstrap", "artifact": None, "intervals": {},
    } | more  # fmt: skip


def results_of(decoder, seed, *, length=96, n=500, strength=1.0, **extra):
    """All results of one run: model, human side and ceiling."""
    made, noise = DECODERS[decoder], 0.0 if seed is None else 1.0
    drawn = made["quality"] + 0.01 * noise * _noise(decoder, seed, "m")
    quality = np.clip(drawn * strength * (96 / length) ** 0.05, 0, 1)
    pr_options = f"|k:{extra.get('k', 4)}"
    mauve_options = f"|num_buckets:{extra.get('num_buckets', 'auto')}|scaling_factor:{extra.get('c', 5)}"
    embedder = f"embedder:{extra.get('embedder', 'docs-m')}@ab12|task:docs@9f31c0"
    ppl = made["ppl"] + 0.6 * noise * _noise(decoder, seed, "p")
    entropy = made["entropy"] + 0.02 * noise * _noise(decoder, seed, "e") + 0.2 * np.log(length / 96)
    loop = float(np.clip(0.9 - quality, 0.002, 1))
    mauve = float(quality ** (extra.get("c", 5) / 5))
    return [
        result("model", "mauve", {"mauve": mauve, "mauve_star": mauve * 0.99}, n=n, facts=embedder, options=mauve_options,
               family="two_sample", direction="higher", resampling="subsample", sd={"mauve": 0.004}),
        result("ceiling", "mauve", {"mauve": 0.957, "mauve_star": 0.95}, n=n, facts=embedder, options=mauve_options,
               family="two_sample", direction="higher"),
        result("model", "gen_ppl", {"gen_ppl": ppl, "entropy": entropy}, n=n, family="scored", artifact="gen_ppl"),
        result("human", "gen_ppl", {"gen_ppl": HUMAN["gen_ppl"], "entropy": HUMAN["entropy"] + 0.2 * np.log(length / 96)},
               n=n, family="scored", artifact="gen_ppl-human"),
        result("model", "repetition", {"loop_rate": loop, "seq_rep_4": loop / 2}, n=n, artifact="repetition"),
        result("human", "repetition", {"loop_rate": HUMAN["loop_rate"], "seq_rep_4": 0.01}, n=n, artifact="repetition-human"),
        result("model", "distinct_n", {"distinct_4": 0.98 - loop / 2, "distinct_1": 0.2}, n=n),
        result("human", "distinct_n", {"distinct_4": HUMAN["distinct_4"], "distinct_1": 0.21}, n=n),
        result("model", "zipf", {"zipf": 0.95 + 0.3 * loop}, n=n, artifact="zipf"),
        result("human", "zipf", {"zipf": HUMAN["zipf"]}, n=n, artifact="zipf-human"),
        result("model", "knn_precision_recall", {"precision": 0.95 - 0.1 * made["entropy"] / 4 + 0.01 * noise * _noise(decoder, seed, "x"),
               "recall": 0.2 * made["entropy"] - 0.1 + 0.02 * noise * _noise(decoder, seed, "y"), "density": 0.8, "coverage": 0.7},
               n=n, facts=embedder, options=pr_options, family="two_sample", direction="higher"),
        result("human", "sparsemax_score", {"sparsemax_score": None}, n=n, family="teacher_forced", direction="higher",
               status="undefined", notes=["no human Q"]),
        result("model", "sparsemax_score", {"sparsemax_score": 0.5 + quality / 5} if decoder != "beam" else {}, n=n, family="teacher_forced",
               primary="sparsemax_score", direction="higher", **({"status": "undefined", "notes": ["beam search has no token-level Q."]} if decoder == "beam" else {})),
    ]  # fmt: skip


def write_run(folder: Path, decoder: str, seed: int | None, *, model: str = "docs-s", created: str = "2026-01-02T03:04:05+00:00",
              results: Sequence[Mapping[str, Any]] | None = None, options: Mapping[str, Any] | None = None, title: str | None = None,
              axes: Mapping[str, Any] | None = None, arrays: bool = False, texts: bool = False, experiment: str = "synthetic", **made: Any) -> Path:  # fmt: skip
    """Write one run folder under `folder`/runs; its store is `folder`/store."""
    own = dict(options if options is not None else DECODERS.get(decoder, {}).get("options", {}))
    flat = {
        "task": "docs", "model": model, "decoder": decoder, **{f"decoder.{k}": v for k, v in own.items()}, "seed": seed,
        "num_examples": made.get("n", 500), "max_new_tokens": made.get("length", 96), "scorer": "docs-m",
        "embedder": made.get("embedder", "docs-m"),
    } | dict(axes or {})  # fmt: skip
    lines = [dict(r) for r in (results if results is not None else results_of(decoder, seed, **made))]
    key = hashlib.sha256(json.dumps([flat, experiment, made], sort_keys=True, default=str).encode()).hexdigest()[:8]
    inputs: list[RunInput] = list(made.pop("inputs", ()))
    if arrays:
        for line in lines:
            line["artifact"] = write_arrays(folder / "store", key, line)
    elif not inputs:
        for line in lines:
            if not (folder / "store" / str(line["artifact"])).is_dir():
                line["artifact"] = None
    if texts:
        inputs += write_texts(folder / "store", key, decoder)
    stamp = created[:19].replace("-", "").replace(":", "")
    run = folder / "runs" / experiment / f"{stamp}-{key}"
    run.mkdir(parents=True, exist_ok=True)
    record = {
        "schema": SCHEMA, "created": created, "overrides": [], "command": [], "git": {}, "task_digest": "", "notes": [], "packages": {}, "hardware": {}, "timings": {}, "inputs": inputs,
        "store": "../../../store", "axes": flat, "results": lines,
        "spec": {"experiment": experiment, "task": {"name": "docs"}, "decoder": {"name": decoder}},
        "titles": {"model": model, "decoder": title or DECODERS.get(decoder, {}).get("title", decoder) or ""},
    }  # fmt: skip
    seal_record(run, record)
    return run


def seal_record(run: Path, record: Mapping[str, Any]) -> None:
    """Write a record as a run does, whatever it says."""
    told: Any = to_json(record)
    (run / "record.json").write_text(json.dumps({**told, "digest": digest(told)}, sort_keys=True) + "\n", "utf-8")


def change_record(run: Path, **changes: Any) -> None:
    """Write other values into the record of a run."""
    told = json.loads((run / "record.json").read_text("utf-8"))
    del told["digest"]
    seal_record(run, told | changes)


def store_arrays(store: Path, name: str, arrays: Mapping[str, Any]) -> str:
    """Write arrays as an artifact of the store; returns its path there."""
    from safetensors.numpy import save_file

    (store / name).mkdir(parents=True, exist_ok=True)
    save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, store / name / "arrays.safetensors")
    seal(store / name)
    return name


def write_arrays(store: Path, key: str, line: Mapping[str, Any]) -> str | None:
    """Write the arrays that figures and tests read; returns the artifact's path in the store."""
    rng = np.random.default_rng(int(hashlib.sha256(f"{key}{line['metric']}".encode()).hexdigest()[:8], 16))
    metric, value = line["metric"], next(iter(line["values"].values()), None)
    arrays: dict[str, np.ndarray] = {}
    if metric == "mauve" and line["system"] == "model":
        w = np.linspace(1e-6, 1 - 1e-6, 25)
        spread = -5 * (1 - value) * np.stack([w**2, (1 - w) ** 2]) * 1.6
        curve = np.concatenate([[[1.0, 0.0]], np.exp(spread).T, [[0.0, 1.0]]])
        arrays = {"arrays/divergence_curves": np.stack([curve, curve**1.05])}
    elif metric == "zipf":
        ranks = np.unique(np.round(np.geomspace(1, 3000, 60)))
        arrays = {"arrays/log_rank": np.log(ranks), "arrays/log_frequency": 9 - value * np.log(ranks + 2)}
    elif metric == "repetition" and value is not None:
        each = (np.arange(200) < round(200 * value)).astype(float)
        arrays = {"per_example/loop_rate": rng.permutation(each)}
        line["values"]["loop_rate"] = float(each.mean())  # type: ignore[index]
    if not arrays:
        return None
    return store_arrays(store, f"measure/{key[:2]}/{key}-{metric}-{line['system']}", arrays)


def seal(folder: Path) -> None:
    """Write an entry's manifest again: what is in it now is meant."""
    write_manifest(folder, {"stage": folder.parent.parent.name}, folder.name, {})


def write_texts(store: Path, key: str, decoder: str, count: int = 6) -> list[RunInput]:
    """Write Arrow streams of a few examples, human rows and generations."""
    from openended.harness.core.types import Generation
    from openended.harness.storage.rows import Row, write_rows

    def rows(kind: str, words: str) -> str:
        name = f"{kind}/{key[:2]}/{key}"
        made = [
            Row(f"Prompt {i} <b>says</b>", (1, 2), Generation(f"docs/{i:06d}", 0, f" {words} & text {i} </script>", (3, 4), "eos", -1.0))
            for i in range(count)
        ]  # fmt: skip
        (store / name).mkdir(parents=True, exist_ok=True)
        write_rows(store / name / ("human.arrow" if kind == "human" else "data.arrow"), made)
        seal(store / name)
        return name

    return [
        RunInput(rows("human", "what people wrote"), "human", "docs"),
        RunInput(rows("generate", f"{decoder} wrote"), "model", f"docs-s {decoder}"),
    ]


def quickstart(folder, *, arrays=True, texts=True, decoders=tuple(DECODERS)):
    """Write a small grid: decoders × seeds; returns the folder of the runs."""
    for decoder in decoders:
        for seed in (0, 1, 2) if DECODERS[decoder]["stochastic"] else (None,):
            write_run(folder, decoder, seed, arrays=arrays, texts=texts)
    return folder / "runs"


def read_cells(table: Any) -> dict[str, dict[str, Any]]:
    """Return label of a row → title of a column → cell."""
    titles = [column.title for column in table.columns]
    return {row.label: dict(zip(titles, row.cells, strict=True)) for row in table.rows}


def print_columns(*columns: Any, **options: Any) -> Table:
    """Print a frame of declared columns by its own axes."""
    (table,) = build_tables([build_frame(*columns, **options)])
    return table


def print_rows(quantities: Sequence[Mapping[str, Any]], rows: Sequence[tuple[Any, ...]], **fields: Any) -> Table:
    """Print rows, each (label, kind, contents, seeds, rule, levels), under quantities, which may have `levels`."""
    columns, heads = [], []
    for at, quantity in enumerate(map(dict, quantities)):
        levels = quantity.pop("levels", ())
        columns.append(fill_column(quantity, [row[2][at] for row in rows], [row[1] for row in rows]))
        heads.append(head_column(columns[-1][0], quantity["title"])._replace(levels=levels))
    printed = (tuple(map(print_cell, cells)) for cells in zip(*columns, strict=True))
    lines = tuple(TableRow(row[0], row[1], cells, *row[3:]) for row, cells in zip(rows, printed, strict=True))
    return Table(**{"name": "t", "title": "T", "columns": tuple(heads), "rows": lines, **fields})


def make_interval(low: float, high: float, **more: Any) -> dict[str, Any]:
    """One interval of a record's results."""
    return {"low": low, "high": high, "std_error": (high - low) / 4, "level": 0.95, "method": "bootstrap", "replicates": 200} | more  # fmt: skip


def stored(folder: Path) -> None:
    """Write the stored set: three decoders with arrays, and nucleus sampling over lengths, sizes, p and a metric's option."""
    for decoder, seed in (("greedy", None), ("ancestral", 0), ("ancestral", 1), ("nucleus", 0), ("nucleus", 1)):
        write_run(folder, decoder, seed, arrays=True, texts=True, experiment="decoders")
    for length in (32, 64, 96):
        for seed in (0, 1):
            write_run(folder, "nucleus", seed, length=length, experiment="lengths")
    for n in (100, 200, 500):
        write_run(folder, "nucleus", 0, n=n, experiment="sizes")
    for p in (0.5, 0.9):
        write_run(folder, "nucleus", 0, options={"p": p}, title=f"nucleus p={p}", strength=0.5 + p / 2, experiment="p")
    for c in (1, 5, 10):
        write_run(folder, "nucleus", 0, c=c, experiment="scaling")


def draw_figure(
    name: str, results: Any, styles: Any = None, *, figure: Mapping[str, Any] | None = None, **layout: Any
) -> dict[str, Any]:
    """Draw one declared figure, with changes of its declaration and a layout; returns stem of the file → figure."""
    from openended.harness.report.figures.draw import build_plots, choose_figures
    from openended.harness.report.figures.drawing import apply_style, draw_plot
    from openended.harness.report.tables.pictures import SystemStyles
    from openended.harness.results import Layout

    chosen = choose_figures(results, [Layout(figures={name: figure or {}}, **layout)])
    if name not in chosen:
        return {}
    declaration, own = chosen[name]
    with apply_style():
        plots = build_plots(name, results, own, declaration)
        used = styles or SystemStyles(results.values)
        drawn = {stem: draw_plot(plot, declaration, used) for stem, plot in plots.items()}
    return {stem: figure for stem, figure in drawn.items() if figure is not None}
