"""What a human study needs of runs: scoring its judgments with the rated runs, and asking a model as its judge."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from openended.harness import run, storage
from openended.harness.app.hydra.compose import Composer
from openended.harness.app.hydra.jobs import JobRunner, build_and_show_report
from openended.harness.app.hydra.run_command import run_hydra
from openended.harness.core import DataError, SpecError, write_text
from openended.harness.storage import RowFile

if TYPE_CHECKING:
    from openended.harness.rating import JudgeQuestion, StudyKey

# Of the words of the rated run: what is not about its texts.
_OTHER_OPTIONS = tuple("metric judgment report intervals audit tracker hydra plan_only name outputs_dir".split())


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
    shared += [f"metric.{name}.{option}={value}" for name, of in metrics.items() for option, value in of.items()]
    records = {name: storage.read_record(Path(folder)) for name, folder in runs.items()} if needs_runs else {}
    jobs = [complete_words(name, storage.restore_words(record), options) for name, record in records.items()] or [[]]

    def score(composer: Composer, _: DictConfig) -> None:
        runner = JobRunner()
        folders = []
        for words in jobs:
            folder = Path(next(iter(runs.values()), "."))
            outputs = folder.parents[2] if len(folder.parents) > 2 else Path("outputs")
            settings = composer.compose_job([*words, *shared]).settings
            source, name = run.JudgmentOptions(file=str(judgments)), (folder.parent.name, protocol.label)
            settings = replace(settings, judgments=source, experiment="-".join(filter(None, name)), audit=False)
            settings = replace(settings, outputs_dir=outputs)
            work = run.run if needs_runs else run.run_judgments
            folders.append(work(settings, runner.get_session(settings), [*words, *shared]).folder)
        layout: Mapping[str, Any] = {"uncertainty": "interval", "title": protocol.title}
        build_and_show_report(folders, target, layout, composer.line.log)

    run_hydra("openended rate score", shared, score)


def complete_words(system: str, words: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the words of a run without those that are not about its texts.

    Records hold no folders of a person's machine: `…/name`, where this machine does not remember them, stands for the
    path that an option here ends with.
    """
    complete, hidden = list[str](), list[str]()
    used = set()
    for word in words:
        name, _, value = word.partition("=")
        if name.lstrip("+~").split(".")[0].startswith(_OTHER_OPTIONS):
            continue
        typed = [
            o for o in options if o.partition("=")[0] == name and (not value.startswith("…/") or o.endswith(value[1:]))
        ]
        if value.startswith("…/") and not typed:
            hidden.append(f"{name}=/path{value[1:]}")
        if name == "decoder" and ".py" in value and not typed:
            raise DataError(f"{system}: its decoder is a file of code: if it is yours, type {word}")
        used.update(typed)
        complete.append(typed[-1] if typed else f"{name}={os.path.expanduser(value)}" if value else word)
    if hidden:
        raise DataError(f"{system}: its record has no folders: add the whole path, as {' '.join(hidden)}")
    return [*complete, *(option for option in options if option not in used)]


JUDGE_OPTIONS = {"decoder": "greedy", "max_new_tokens": "512", "min_new_tokens": "0", "num_examples": "all"}


def ask_judge(questions: Sequence["JudgeQuestion"], options: Sequence[str], log: Path) -> tuple[list[str], str]:
    """Let a model answer questions, greedily and from the store, and log prompts and replies; return replies and title.

    Args:
        questions: Of one study or several.
        options: Of a run, as `model=openai` and `model.path=my-judge`.
        log: JSON-lines file.
    """
    from openended.harness.rating import JudgeTask

    typed = {word.lstrip("+").partition("=")[0] for word in options}
    if "model" not in typed:
        raise SpecError("which model is the judge? as model=openai model.path=my-judge model.base_url=http://HOST:8000")
    defaults = {**JUDGE_OPTIONS, **({"model.chat": "true"} if "model=openai" in options else {}), "metric": "[length]"}
    words = [*options, *(f"{name}={value}" for name, value in defaults.items() if name not in typed)]
    replies: dict[str, str] = {}
    titles: list[str] = []

    def ask(composer: Composer, _: DictConfig) -> None:
        settings = composer.compose_job(words).settings
        settings = replace(settings, task=JudgeTask(questions=tuple(questions)), experiment="judge")
        rows = RowFile(JobRunner().make_texts(settings).path)
        replies.update(zip(rows.ids, rows.texts, strict=True))
        title = settings.titles["model"]
        titles.append(title.partition(" (")[0])  # without the kind of its server

    run_hydra("openended rate judge", words, ask)
    in_order = [replies.get(question.id, "") for question in questions]
    lines = ({"id": q.id, "prompt": q.prompt, "reply": reply} for q, reply in zip(questions, in_order, strict=True))
    write_text(log, "".join(f"{json.dumps(line)}\n" for line in lines))
    return in_order, titles[0]
