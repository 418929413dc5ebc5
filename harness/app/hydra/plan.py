"""Plans: what is cached, computed and missing (`plan_only=true`), and whether the jobs of a grid can run at all."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from openended.harness.app.hydra.compose import Composer, JobWork
from openended.harness.app.hydra.errors import explain
from openended.harness.app.hydra.experiments import CHOICE
from openended.harness.app.hydra.simulation import refuse_single_run
from openended.harness.core import (
    DataError,
    ExtraNotInstalled,
    HarnessError,
    SpecError,
    canonicalize,
    digest,
    escape_controls_in_line,
    format_duration,
    format_error,
)

if TYPE_CHECKING:
    from openended.harness.run import Forecast, Outcome, Rates, Session, Settings

log = logging.getLogger(__name__)

_SURE = {"measured": "by rates measured in this store", "scaled": "rough: from rates of other models or decoders"}
_UNMEASURED = "unknown: nothing similar was computed in this store; try the command with num_examples=20 first"
_NO_RATES = "minutes to hours: nothing similar was computed in this store yet"
_STATES = {"hit": "cached", "make": "to compute", "waits": "waiting"}
_ELSEWHERE = ("submitit", "ray")  # launchers whose jobs may run on machines with other files


def plan_jobs(composer: Composer, config: DictConfig, jobs: Sequence[Sequence[str]], *, single: bool = False) -> None:
    """Print the plan of jobs without loading models or writing files."""
    plans, total, rates, left_out = _forecast(composer, config, jobs, single=single)
    total.hosts |= composer.compose_tracker(config).list_hosts()
    if address := config.hydra.launcher.get("address"):
        total.hosts[str(address)] = "everything (hydra.launcher.address)"
    total.outside |= dict.fromkeys(composer.loader.list_outside_files())
    if config.plan_only == "json":
        plan = plan_to_json(total, rates) | ({"left_out": left_out} if left_out else {})
        sys.stdout.write(json.dumps(plan, indent=2) + "\n")
        return
    if single:
        (job, outcome) = plans[0]
        _show_steps(f"{job.experiment}: seed {job.seed}", outcome)
    for line in [*format_plan(total, rates), *format_left_out(left_out)]:
        sys.stdout.write(f"{escape_controls_in_line(line)}\n")


def describe_time(composer: Composer, config: DictConfig, jobs: Sequence[Sequence[str]]) -> str:
    """Say how many runs a grid is and how long it takes."""
    _, total, rates, _ = _forecast(composer, config, jobs)
    seconds, sure = total.time(rates)
    work = f"{total.jobs} runs, {total.make + total.waits:,} steps to compute"
    return (
        f"{work}, about {format_duration(seconds)} ({_SURE[sure]})" if seconds is not None else f"{work}, {_NO_RATES}"
    )


def _forecast(
    composer: Composer, config: DictConfig, jobs: Sequence[Sequence[str]], *, single: bool = False
) -> tuple[list[tuple[Settings, Outcome]], Forecast, Rates, dict[str, str]]:
    """Plan jobs; return the plans, their sum, the rates of the store, and the experiments that cannot run."""
    from openended.harness.run import Session, forecast_plans, read_rates
    from openended.harness.storage import Store

    store = Path(str(config.outputs_dir)) / "store"
    session = Session(Store(store))
    plans: dict[str, list[tuple[Settings, Outcome]]] = {}
    left_out: dict[str, str] = {}
    for words in jobs:
        member = find_member(config, words)
        try:
            settings = composer.compose_job(words).settings
            if single:
                refuse_single_run(settings.judgments)
            plans.setdefault(member, []).append(plan_job(settings, words, session))
        except HarnessError as err:
            if not member:
                raise
            left_out.setdefault(member, format_error(err))
    chosen = [plan for member, of_member in plans.items() if member not in left_out for plan in of_member]
    return chosen, forecast_plans(chosen), read_rates(store), left_out


def find_member(config: DictConfig, words: Sequence[str]) -> str:
    """Return the experiment of a job of a series of experiments; empty if there is no series."""
    if not config.hydra.sweeper.get("experiments"):
        return ""
    return next(word.partition("=")[2] for word in words if word.startswith(f"{CHOICE}="))


def format_left_out(left_out: Mapping[str, str]) -> list[str]:
    """Return a line for each experiment of a series that cannot run, and why."""
    return [f"left out   {member}: {reason}" for member, reason in left_out.items()]


def plan_job(settings: Settings, words: Sequence[str], session: Session) -> tuple[Settings, Outcome]:
    """Return a job and its plan."""
    from openended.harness.run import plan, run_judgments, select_metrics_for_file

    settings = select_metrics_for_file(replace(settings, plan_only=True), words)
    planner = run_judgments if settings.is_judgments_only(words) else plan
    return settings, planner(settings, session)


def check_grid(composer: Composer, config: DictConfig, jobs: Sequence[Sequence[str]]) -> list[JobWork]:
    """Compose and plan the jobs of a grid; a job with a wrong value, or without its files, refuses the whole grid."""
    from openended.harness.run import Forecast, Session
    from openended.harness.storage import Store

    composed: list[JobWork] = []
    errors: list[HarnessError] = []
    for words in jobs:
        try:
            composed.append(composer.compose_job(words, unnamed=""))
        except (HydraException, OmegaConfBaseException) as err:
            errors.append(SpecError(explain(err)))
        except HarnessError as err:
            errors.append(err)
    total, session = Forecast(), Session(Store(Path(str(config.outputs_dir)) / "store"))
    if errors:
        _refuse(errors, len(jobs), total)
    if config.hydra.runtime.choices.get("hydra/launcher") in _ELSEWHERE:
        return composed
    checked: dict[str, HarnessError | None] = {}
    fetched: dict[str, DataError | None] = {}
    for job, words in zip(composed, jobs, strict=True):
        key = digest([replace(job.settings, seed=0).spec(), asdict(job.settings.runtime)])
        if key not in checked:
            checked[key] = _find_missing(job.settings, words, session, total, fetched)
        if error := checked[key]:
            errors.append(error)
    blocking = [err for err in errors if isinstance(err, DataError | ExtraNotInstalled)]
    if blocking or (errors and len(errors) == len(jobs)):
        _refuse(blocking or errors, len(jobs), total)
    return composed


def check_series(
    composer: Composer, config: DictConfig, jobs: Sequence[Sequence[str]]
) -> tuple[list[list[str]], list[JobWork]]:
    """Check the jobs of a grid or series; of a series, the experiments that cannot run are left out with a line."""
    members: dict[str, list[list[str]]] = {}
    for words in jobs:
        members.setdefault(find_member(config, words), []).append(list(words))
    composed: dict[str, list[JobWork]] = {}
    left_out: dict[str, str] = {}
    for member, of_member in members.items():
        try:
            composed[member] = check_grid(composer, config, of_member)
        except HarnessError as err:
            if not member or len(members) == 1:
                raise
            left_out[member] = format_error(err)
    for line in format_left_out(left_out):
        log.warning("%s", line)
    if not composed and members:
        raise DataError(f"no experiment of {len(members)} can run")
    chosen = [words for member in composed for words in members[member]]
    return chosen, [work for works in composed.values() for work in works]


def _find_missing(
    settings: Settings, words: Sequence[str], session: Session, total: Forecast, fetched: dict[str, DataError | None]
) -> HarnessError | None:
    """Fetch the files of a job's task, once per task, and plan the job; return why it cannot run."""
    task = digest([settings.task.name, canonicalize(settings.task)])
    if task not in fetched:
        try:
            settings.task.fetch()
            fetched[task] = None
        except DataError as err:
            fetched[task] = err
    try:
        job, outcome = plan_job(settings, words, session)
    except HarnessError as err:
        return err
    error = outcome.missing[0] if outcome.missing else fetched[task]
    if error is not None:
        total.add(job, outcome)
    return error


def _refuse(errors: Sequence[HarnessError], num_jobs: int, total: Forecast) -> NoReturn:
    """Raise one error for all jobs."""
    reasons = list(dict.fromkeys(format_error(err) for err in errors))
    reason = reasons[0] if len(reasons) == 1 else f"{len(reasons)} reasons, the first: {reasons[0]}"
    commands = [command for command in list_commands(total) if command not in reason]
    fetch = f"; fetch what is missing with: {' && '.join(commands)}" if commands else ""
    raise DataError(f"{len(errors)} of {num_jobs} jobs cannot run, so none was started: {reason}{fetch}")


def plan_to_json(plan: Forecast, rates: Rates) -> dict[str, Any]:
    """Return a plan as plain JSON; sizes in bytes, times in seconds."""
    seconds, basis = plan.time(rates)
    models = [
        {"path": spec.path, "revision": spec.revision, "dtype": spec.dtype, "roles": sorted(plan.models[spec]),
         "parameters": size.parameters, "memory": size.memory, "gated": size.gated, "here": size.here,
         "get": size.get or None}
        for spec, size in plan.sizes().items()
    ]  # fmt: skip
    servers = [
        {"path": spec.path, "dialect": service.dialect, "endpoints": list(service.endpoints),
         "roles": sorted(roles), "answers": service.server is not None}
        for spec, roles in plan.models.items() if (service := spec.describe_service()) is not None
    ]  # fmt: skip
    files = [
        {"name": f.name, "path": str(f.path), "url": f.url or None, "present": f.present} for f in plan.files.values()
    ]
    return {
        "jobs": plan.jobs,
        "steps": {"found": plan.num_cached, "make": plan.make, "waits": plan.waits},
        "models": models,
        "servers": servers,
        "files": files,
        "hosts": dict(plan.hosts),
        "files_outside": list(plan.outside),
        "texts_to_generate": plan.texts,
        "tokens_to_generate": plan.tokens,
        "texts_to_embed": plan.read("embed"),
        "texts_to_score": plan.read("score"),
        "texts_to_teacher_force": plan.read("next_token"),
        "values_to_compute": sum(plan.measures.values()),
        "seconds": seconds,
        "seconds_are": basis,
        "disk": plan.disk,
        "missing": list(plan.missing),
    }


def format_plan(plan: Forecast, rates: Rates) -> list[str]:
    """Return a plan as lines for people."""
    seconds, sure = plan.time(rates)
    time = f"about {format_duration(seconds)} ({_SURE[sure]})" if seconds is not None else _UNMEASURED
    fetch = sum(size.memory or 0 for size in plan.sizes().values() if not size.here)
    forced = plan.read("next_token")
    reads = [f"{plan.read('embed'):,} texts to embed", f"{plan.read('score'):,} to score"]
    reads += [f"{forced:,} to teacher-force"] if forced else []
    disk = f"about {_format_bytes(plan.disk)} in the store" + (
        f", {_format_bytes(fetch)} of models to fetch" if fetch else ""
    )
    return [
        f"jobs       {plan.jobs:,}",
        f"steps      {plan.num_cached:,} cached, {plan.make:,} to compute now, {plan.waits:,} after others",
        f"generate   {plan.texts:,} texts, at most {plan.tokens:,} tokens",
        f"read       {', '.join(reads)}",
        f"measure    {sum(plan.measures.values()):,} values of {len(plan.measures)} metrics",
        f"time       {time}",
        f"disk       {disk}",
        *_list_models(plan),
        *_list_files(plan),
        *(["sends"] if plan.hosts else []),
        *(f"  {host}: {what}" for host, what in plan.hosts.items()),
        *(["reads outside the working directory"] if plan.outside else []),
        *(f"  {path}" for path in plan.outside),
        *_list_missing(plan),
    ]


def _list_models(plan: Forecast) -> list[str]:
    out = ["models"] if plan.models else []
    for spec, size in sorted(plan.sizes().items(), key=lambda pair: pair[1].parameters or 0):
        what = f"{size.parameters / 1e6:,.0f} M parameters" if size.parameters else "size not known"
        memory = f", {_format_bytes(size.memory)} of memory in {spec.dtype}" if size.memory else ""
        gate = {True: ", gated", False: ", not gated", None: ""}[size.gated]
        where = "here" if size.here else "missing"
        out.append(f"  {spec.path}: {' and '.join(sorted(plan.models[spec]))}; {what}{memory}{gate}; {where}")
    for spec, roles in plan.models.items():
        if (service := spec.describe_service()) is not None:
            answer = f"{service.server} answers" if service.server is not None else "no answer now"
            at = ", ".join(service.endpoints)
            out.append(f"  {spec.title}: {' and '.join(sorted(roles))}; at {at}; {answer}")
    return out


def _list_files(plan: Forecast) -> list[str]:
    out = ["files"] if plan.files else []
    for file in plan.files.values():
        path = file.path
        size = f", {_format_bytes(path.stat().st_size)}" if file.present else ", size not known"
        state = "present" if file.present else "missing"
        out.append(f"  file {file.name}: {state} at {file.path}{size}")
    return out


def list_commands(plan: Forecast) -> list[str]:
    """List the commands that fetch the missing models and files, each once."""
    files = [file for file in plan.files.values() if file.url and not file.present]
    models = [size.get for size in plan.sizes().values() if size.get]
    return [*models, *(f"curl -fL --create-dirs -o {file.path} {file.url}" for file in files)]


def _list_missing(plan: Forecast) -> list[str]:
    """List each missing file or model once, with the command that fetches it."""
    out = [f"  {command}" for command in list_commands(plan)]
    by_hand = [file for file in plan.files.values() if not file.url and not file.present]
    out += [f"  put {file.name} at {file.path}" for file in by_hand]
    out += [f"  missing: {reason}" for reason in plan.missing]
    return ["missing; with network access, these commands fetch it", *out] if out else []


def _show_steps(title: str, outcome: Outcome) -> None:
    """Print the artifacts of one run: stage, description, state and key."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(escape_controls_in_line(title)), title_justify="left", box=None)
    for name in ("stage", "what", "state", "key"):
        table.add_column(name)
    for step in outcome.plan:
        table.add_row(
            step.stage,
            Text(escape_controls_in_line(step.what)),
            _STATES[step.state],
            step.key[:16] if step.key else "after the above",
        )
    Console(width=110, soft_wrap=True, highlight=False).print(table)


def _format_bytes(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
