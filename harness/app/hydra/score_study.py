"""Score the judgments of a study: by the file alone, or with the runs whose texts were rated."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from openended.harness import run, storage
from openended.harness.app.hydra.compose import Composer
from openended.harness.app.hydra.jobs import JobRunner, LogOptions, build_and_show_report
from openended.harness.app.hydra.run_command import run_hydra
from openended.harness.core import DataError, SpecError

if TYPE_CHECKING:
    from openended.harness.rating import StudyKey

# Of the words of the rated run: what is not about its texts.
_OTHER_OPTIONS = (
    "metric",
    "judgment",
    "report",
    "intervals",
    "audit",
    "tracker",
    "hydra",
    "plan_only",
    "name",
    "outputs_dir",
)


def score_study(key: "StudyKey", judgments: Path, target: Path, options: Sequence[str]) -> None:
    """Score judgments by the metrics of the study's protocol, and write and print the report.

    Args:
        key: The study's key.
        judgments: The file of its judgments.
        target: Folder of the report.
        options: Set in the runs that the metrics read: `option=value`.
    """
    protocol, runs = key.protocol, key.material.runs
    metrics = protocol.choose_metrics(key.material.players)
    needs_runs = "huse" in metrics
    if options and not needs_runs:
        raise SpecError(f"{options[0]}: {', '.join(metrics)} reads the judgments alone; leave it out")
    shared = [f"metric=[{','.join(metrics)}]"]
    if "bradley_terry" in metrics:
        shared.append(f"metric.bradley_terry.min_seconds={protocol.min_seconds:g}")
    records = {name: storage.read_record(Path(folder)) for name, folder in runs.items()} if needs_runs else {}
    jobs = [complete_words(name, record.overrides, options) for name, record in records.items()] or [[]]

    def score(composer: Composer, config: DictConfig) -> None:
        detail = LogOptions.read(config)
        detail.apply()
        runner = JobRunner()
        folders = []
        for words in jobs:
            folder = Path(next(iter(runs.values()), "."))
            outputs = folder.parents[2] if len(folder.parents) > 2 else Path("outputs")
            settings = composer.compose_job([*words, *shared]).settings
            settings = replace(
                settings, judgments=str(judgments), judgment_columns={}, judgment_players={}, outputs_dir=outputs,
                experiment=f"{folder.parent.name}-{protocol.label}", audit=False,
            )  # fmt: skip
            work = run.run if needs_runs else run.run_judgments
            folders.append(work(settings, runner.get_session(settings), [*words, *shared]).folder)
        layout: Mapping[str, Any] = {"uncertainty": "interval", "title": protocol.title}
        build_and_show_report(folders, target, layout, detail)

    run_hydra("openended rate score", shared, score)


def complete_words(system: str, words: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the words of a run without those that are not about its texts.

    Records hold no folders of a person's machine: `…/name` stands for the path that an option here ends with.
    """
    complete = []
    used = set()
    for word in words:
        name, _, value = word.partition("=")
        if name.lstrip("+~").split(".")[0].startswith(_OTHER_OPTIONS):
            continue
        typed = [
            o for o in options if o.partition("=")[0] == name and (not value.startswith("…/") or o.endswith(value[1:]))
        ]
        if value.startswith("…/") and not typed:
            raise DataError(
                f"{system}: its record has no folders of {word}: type the whole path, as {name}=/path{value[1:]}"
            )
        used.update(typed)
        complete.append(typed[-1] if typed else f"{name}={os.path.expanduser(value)}" if value else word)
    return [*complete, *(option for option in options if option not in used)]
