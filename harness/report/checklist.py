"""The REFORMS checklist (Kapoor et al. 2024, Science Advances) of a report, filled in from its records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from openended.harness.core import write_text
from openended.harness.report.methods import collect_values

if TYPE_CHECKING:
    from openended.harness.results import Results

FILE = "checklist.md"
YOURS = "*to be written by the author*"


def write_checklist(results: Results, folder: Path, version: str) -> Path:
    """Write `checklist.md`; returns its path."""
    lines = ["# REFORMS checklist", "", "Filled in from the records of the runs; the rest is the author's.", ""]
    for module, answers in _answer_questions(results, version).items():
        lines += [f"## {module}", "", *(f"- {question}: {answer or YOURS}" for question, answer in answers.items()), ""]
    path = folder / FILE
    write_text(path, "\n".join(lines))
    return path


def _answer_questions(results: Results, version: str) -> dict[str, dict[str, str]]:
    """Return module → question → answer, empty if the records do not answer it."""
    runs = results.runs

    def list_values(*axes: str) -> str:
        parts = [f"{axis} {', '.join(values)}" for axis in axes if (values := collect_values(runs, axis))]
        return "; ".join(parts)

    rows = [row for run in runs for row in run.results if row.system == "model"]
    undefined = sorted({row.metric for row in rows if row.status != "ok"})
    commands = list(dict.fromkeys(" ".join(run.command[1:]) for run in runs if run.command))
    with_intervals = sorted({row.metric for row in rows if row.intervals})
    notes = sorted({note for run in runs for note in run.notes})
    return {
        "1. Study goals": {"Population and scope of the claim": "", "Why these systems are compared": ""},
        "2. Computational reproducibility": {
            "Code": f"openended {version}",
            "Commands": "; ".join(f"`openended {command}`" for command in commands),
            "Runs": f"{len(runs)}, each with a record of versions, hardware and digests",
            "Where code, records and generations are published": "",
        },
        "3. Data quality": {
            "Data": list_values("task", "task.split", "task.digest"),
            "Number of examples": list_values("num_examples"),
            "Why this data fits the claim": "",
        },
        "4. Data preprocessing": {
            "Prompts and lengths": list_values(
                "task.prompt_length", "task.prompt_unit", "max_new_tokens", "min_new_tokens"
            ),
            "Texts that were left out or cut": "; ".join(notes),
        },
        "5. Modeling": {
            "Models": list_values("model", "model.path", "model.revision", "model.digest", "model.dtype"),
            "Decoders": list_values("decoder"),
            "Scorer and embedder": list_values("scorer", "scorer.digest", "embedder", "embedder.digest"),
            "How settings were chosen, and on which data": "",
        },
        "6. Data leakage": {"Whether models or scorers were trained on the test texts": ""},
        "7. Metrics and uncertainty": {
            "Metrics": ", ".join(sorted({row.metric for row in rows})),
            "Intervals": f"95 %, over examples, of {', '.join(with_intervals)}" if with_intervals else "none computed",
            "Repetitions": list_values("seed", "samples"),
            "Without a value": ", ".join(undefined) or "none",
        },
        "8. Generalizability and limitations": {"Other languages, domains, lengths and models": "", "Known limits": ""},
    }  # fmt: skip
