"""What a paper says of its evaluation: settings as `methods.tex` with `references.bib`, and `checklist.md`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from openended.harness.core import find_member, parse_signature, render_option, write_text
from openended.harness.report.tables.formats.latex import escape
from openended.harness.results import Results, Run

YOURS = "*to be written by the author*"
CITED = {
    "adversarial": "hashimoto2019unifying", "nucleus": "holtzman2020curious", "top_k": "fan2018hierarchical",
    "typical": "meister2023locally", "eta": "hewitt2022truncation", "epsilon": "hewitt2022truncation",
    "min_p": "nguyen2025minp", "mirostat": "basu2021mirostat", "contrastive_search": "su2022contrastive",
    "contrastive_decoding": "li2023contrastive", "sparsemax": "martins2020sparse", "entmax": "martins2020sparse",
    "mdlm": "sahoo2024simple", "remdm": "wang2025remasking", "first_hitting": "zheng2024masked",
    "duo": "sahoo2025diffusion", "llada": "nie2025large",
    "mauve": "pillutla2021mauve", "gen_ppl": "holtzman2020curious", "ppl": "holtzman2020curious",
    "zipf": "holtzman2020curious", "self_bleu": "zhu2018texygen", "distinct_n": "li2016diversity",
    "repetition": "holtzman2020curious,welleck2020unlikelihood", "rep_l": "welleck2020unlikelihood",
    "sparsemax_score": "martins2020sparse", "jensen_shannon": "martins2020sparse", "eps_ppl": "martins2020sparse",
    "frechet": "heusel2017gans", "knn_precision_recall": "kynkaanniemi2019improved,naeem2020reliable",
    "huse": "hashimoto2019unifying", "kid": "binkowski2018demystifying", "vendi": "friedman2023vendi",
    "precision_recall_curve": "sajjadi2018assessing", "bradley_terry": "bradley1952rank",
    "compression_ratio": "shaib2024standardizing", "ngram_diversity": "shaib2024standardizing",
    "diversity": "su2022contrastive", "rouge_l": "lin2004rouge", "energy_distance": "szekely2013energy",
    "webtext": "radford2019language", "realnews": "zellers2019defending", "writing_prompts": "fan2018hierarchical",
}  # fmt: skip
"""Name of a task, decoder or metric → keys in references.bib."""
_DATA_FIELDS = {"metric", "v", "embedder", "scorer", "tokens", "n", "judgments", "length", "min_new_tokens", "model",
                "task", "texts", "columns", "ids"}  # fmt: skip


def write_methods(results: Results, folder: Path, version: str) -> list[Path]:
    """Write the paragraph and the references that it cites; returns the two paths."""
    signatures: dict[str, str] = {}
    for row in (row for run in results.runs for row in run.results):
        if row.system == "model" and row.status == "ok":
            signatures.setdefault(row.metric, row.signature)
    has_intervals = any(row.intervals for run in results.runs for row in run.results)
    intervals = "Intervals are 95\\,\\% intervals over examples. " if has_intervals else ""
    metrics = [f"{_cite(name, name)}{_list_options(name, signature)}" for name, signature in signatures.items()]
    sentences = [
        _describe_data(results.runs),
        _describe_systems(results.runs),
        _describe_models(results.runs, signatures),
        f"We report {_join(metrics)}." if metrics else "",
        f"{intervals}All values are computed with openended {escape(version)}.",
    ]
    text = "\n".join(filter(None, sentences))
    keys = sorted({key for group in re.findall(r"\\citep\{([^}]*)\}", text) for key in group.split(",")})
    head = "% Settings of these runs as a paragraph; needs natbib and references.bib. Add the citations of your models."
    paths = [folder / name for name in ("methods.tex", "references.bib")]
    write_text(paths[0], f"{head}\n{text}\n")
    write_text(paths[1], "".join(read_entries()[key] + "\n" for key in keys))
    return paths


@cache
def read_entries() -> dict[str, str]:
    """Return key → BibTeX entry, one line."""
    lines = (files("openended.harness") / "reference" / "references.bib").read_text(encoding="utf-8").splitlines()
    return {line.partition("{")[2].partition(",")[0]: line for line in lines if line}


def _cite(name: str, title: str) -> str:
    """Return a title for LaTeX with its citation, where the harness knows one."""
    return escape(title) + (rf"~\citep{{{CITED[name]}}}" if name in CITED else "")


def collect_values(runs: Sequence[Run], axis: str) -> list[str]:
    """Return the distinct values of an axis, as text, in the order of the runs."""
    values = (run.axes.get(axis) for run in runs)
    return list(dict.fromkeys(str(value) for value in values if value is not None))


def _join(words: Iterable[str]) -> str:
    """Join words as a sentence does."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _describe_data(runs: Sequence[Run]) -> str:
    parts = []
    for task in collect_values(runs, "task"):
        task_runs = [run for run in runs if run.axes.get("task") == task]
        counts, cuts = collect_values(task_runs, "num_examples"), collect_values(task_runs, "max_new_tokens")
        prompts, unit = collect_values(task_runs, "task.prompt_length"), collect_values(task_runs, "task.prompt_unit")
        words = f"{_cite(task, task)} ({_join(counts)} examples" if counts else f"{_cite(task, task)} (all examples"
        words += f", prompts of {_join(prompts)} {_join(unit or ['tokens'])}" if prompts else ""
        parts.append(words + (f", texts of at most {_join(cuts)} tokens)" if cuts else ")"))
    return f"We evaluate on {_join(parts)}." if parts else ""


def _describe_systems(runs: Sequence[Run]) -> str:
    decoders: dict[str, str] = {}
    for run in runs:
        name, title = run.axes.get("decoder"), run.titles.get("decoder", run.axes.get("decoder"))
        if name:
            decoders.setdefault(str(title), _cite(str(name), str(title)))
    models = collect_values(runs, "model")
    if not (models and decoders):
        files_given = [Path(name).name for name in collect_values(runs, "generations")]
        return f"The texts of {_join(map(escape, files_given))} were given." if files_given else ""
    seeds, samples = collect_values(runs, "seed"), [n for n in collect_values(runs, "samples") if n != "1"]
    repetitions = f", with {'seeds' if len(seeds) > 1 else 'seed'} {_join(seeds)}" if seeds else ""
    repetitions += f" and {_join(samples)} samples per prompt" if samples else ""
    return f"Texts are generated by {_join(map(escape, models))} with {_join(decoders.values())}{repetitions}."


def _describe_models(runs: Sequence[Run], signatures: Mapping[str, str]) -> str:
    read = {name for signature in signatures.values() for name in parse_signature(signature)}
    out = []
    for role, purpose in (("scorer", "Likelihoods and tokens are"), ("embedder", "Embeddings are")):
        names = collect_values(runs, role) if role in read else []
        if names:
            commits = [revision[:12] for revision in collect_values(runs, f"{role}.revision")]
            at = f" (revision {_join(commits)})" if commits else ""
            out.append(f"{purpose} those of {_join(map(escape, names))}{at}.")
    return " ".join(out)


def _list_options(name: str, signature: str) -> str:
    """Return the options of a metric that differ from its defaults, in brackets; empty for none."""
    metric = find_member("metric", name)
    if metric is None:
        return ""
    try:
        spec = metric()
        defaults = {field: render_option(getattr(spec, field)) for field in type(spec).__dataclass_fields__}
    except TypeError:  # a metric without defaults
        defaults = {}
    set_here = [
        f"{field}={value}" for field, value in parse_signature(signature).items()
        if field not in _DATA_FIELDS and defaults.get(field) != value
    ]  # fmt: skip
    return f" ({escape(', '.join(set_here))})" if set_here else ""


def write_checklist(results: Results, folder: Path, version: str) -> Path:
    """Write `checklist.md` with what the records answer; returns its path."""
    runs = results.runs

    def list_values(*axes: str) -> str:
        parts = [f"{axis} {', '.join(values)}" for axis in axes if (values := collect_values(runs, axis))]
        return "; ".join(parts)

    rows = [row for run in runs for row in run.results if row.system == "model"]
    template = (files("openended.harness.report") / "checklist.md").read_text(encoding="utf-8")
    environment = Environment(undefined=StrictUndefined)  # noqa: S701 - Markdown
    text = environment.from_string(template).render(
        yours=YOURS, version=version, runs=len(runs), list_values=list_values,
        commands=list(dict.fromkeys(" ".join(run.command[1:]) for run in runs if run.command)),
        notes=sorted({note for run in runs for note in run.notes}),
        metrics=sorted({row.metric for row in rows}),
        undefined=sorted({row.metric for row in rows if row.status != "ok"}),
        with_intervals=sorted({row.metric for row in rows if row.intervals}),
    )  # fmt: skip
    path = folder / "checklist.md"
    write_text(path, f"{text}\n")
    return path
