"""Plans: what is cached, computed and missing (`plan_only=true`), and whether the jobs of a grid can run at all."""

import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from openended.harness import core, run, storage
from openended.harness.app.hydra.compose import Composer, Job, to_plain
from openended.harness.app.hydra.errors import explain
from openended.harness.app.hydra.grid import find_part
from openended.harness.app.hydra.jobs import check_simulated_raters, refuse_single_run, use_metrics_of_file
from openended.harness.report import OF_THE_SIZE, build_tracker_options, format_power
from openended.harness.results import FIXED, build_layout, format_axis_value, read_results

log = logging.getLogger(__name__)

_SURE = {"measured": "by rates measured in this store", "scaled": "rough: from rates of other models or decoders"}
_UNMEASURED = "unknown: nothing similar was computed in this store; try the command with num_examples=20 first"
_NO_RATES = "minutes to hours: nothing similar was computed in this store yet"
_STATES = {"hit": "cached", "make": "to compute", "waits": "waiting"}
_OF_A_PILOT = (*OF_THE_SIZE, "seed", "task.digest")  # axes in which a pilot may differ
ELSEWHERE = ("submitit", "ray")  # launchers whose jobs may run on machines with other files
Jobs = Sequence[Sequence[str]]
Result = TypeVar("Result")


def plan_jobs(composer: Composer, config: DictConfig, jobs: Jobs, *, single: bool = False) -> None:
    """Print the plan of jobs without loading models or writing files."""
    plans, left_out = _plan_all(composer, config, jobs, single=single)
    total, rates = run.forecast_plans(plans), _read_rates(config)
    total.hosts |= build_tracker_options(to_plain(config.get("tracker"))).list_hosts()
    if address := config.hydra.launcher.get("address"):
        total.hosts[str(address)] = "everything (hydra.launcher.address)"
    total.outside |= dict.fromkeys(composer.loader.list_outside_files())
    if config.plan_only == "json":
        reasons = {member: core.format_error(err) for member, err in left_out.items()}
        plan = plan_to_json(total, rates) | ({"left_out": reasons} if reasons else {})
        sys.stdout.write(json.dumps(plan, indent=2) + "\n")
        return
    if single:
        ((settings, outcome),) = plans
        _show_steps(f"{settings.experiment}: seed {settings.seed}", outcome)
    power = format_pilot([settings for settings, _ in plans], Path(str(config.outputs_dir)))
    for line in [*format_plan(total, rates), *power, *_format_left_out(left_out)]:
        sys.stdout.write(f"{core.escape_controls_in_line(line)}\n")


def format_pilot(planned: Sequence[run.Settings], outputs: Path) -> list[str]:
    """Return what the texts of finished runs of these systems resolve, as `openended power`; empty if there are none.

    The runs are those of one number of examples: with most of the systems, then the largest.
    """

    def identify(axes: Mapping[str, Any]) -> str:
        options = {name: value for name, value in axes.items() if value is not None and name not in _OF_A_PILOT}
        return core.digest(core.make_shareable(options))

    try:
        systems = {identify(run.collect_axes(settings, settings.decoder)) for settings in planned}
    except core.HarnessError:  # a file that the plan lists as missing
        return []
    pilots: dict[int, dict[str, list[Path]]] = {}
    for path in (outputs / "runs").glob(f"*/*/{storage.RECORD}") if len(systems) > 1 else ():
        with suppress(core.DataError):  # a damaged record is no pilot
            axes = storage.read_record(path.parent).axes
            size, system = axes.get("num_examples"), identify(axes)
            if system in systems and isinstance(size, int):
                pilots.setdefault(size, {}).setdefault(system, []).append(path.parent)
    size = max(pilots, key=lambda size: (len(pilots[size]), size), default=0)
    pilot = [folder for folders in pilots.get(size, {}).values() for folder in folders]
    if not pilot:
        return []
    metrics = "|".join({metric.name for settings in planned for metric in settings.metrics})
    try:
        results = read_results(pilot, {"metric": metrics}, stored_only=True)
        lines = list(format_power(results, [], {}))
    except core.DataError:  # one system, or no standard errors
        return []
    weaker = any(space.reason for space in results.spaces.values())
    basis = ", from each system's own values, which need more texts" if weaker else ""
    return [f"pilot of {size:,} examples{basis}", *(f"  {line}" for line in lines)]


def describe_time(composer: Composer, config: DictConfig, jobs: Jobs) -> str:
    """Say how many runs a grid is and how long it takes."""
    total = run.forecast_plans(_plan_all(composer, config, jobs)[0])
    work = f"{total.jobs} runs, {total.make + total.waits:,} steps to compute"
    return f"{work}, {_format_time(total, _read_rates(config), _NO_RATES)}"


def _read_rates(config: DictConfig) -> run.Rates:
    return run.read_rates(Path(str(config.outputs_dir)) / "store")


def _plan_all(
    composer: Composer, config: DictConfig, jobs: Jobs, *, single: bool = False
) -> tuple[list[tuple[run.Settings, run.Outcome]], dict[str, core.HarnessError]]:
    """Plan jobs; return the plans, and the experiments that cannot run."""
    session = _open_session(config)

    def plan_experiment(own_jobs: Jobs) -> list[tuple[run.Settings, run.Outcome]]:
        composed = [composer.compose_job(words) for words in own_jobs]
        check_layout(composed)
        if single:
            refuse_single_run(composed[0].settings.judgments)
        check_simulated_raters(job.settings for job in composed)
        run.check_players(job.settings for job in composed)
        return [_plan_job(job, session) for job in composed]

    return _try_experiments(config, jobs, plan_experiment)


def check_series(composer: Composer, config: DictConfig, jobs: Jobs) -> list[Job]:
    """Compose and plan the jobs of a grid or series; of a series, the experiments that cannot run are left out.

    A job with a wrong value, or without its files, refuses its whole grid.
    """
    checked, left_out = _try_experiments(config, jobs, lambda own_jobs: _check_grid(composer, config, own_jobs))
    for line in _format_left_out(left_out):
        log.warning("%s", line)
    if left_out and not checked:
        raise core.DataError(f"none of {len(left_out)} experiments or parts can run")
    return checked


def _try_experiments(
    config: DictConfig, jobs: Jobs, work: Callable[[Jobs], list[Result]]
) -> tuple[list[Result], dict[str, core.HarnessError]]:
    """Do the work for the jobs of each experiment or part; return all results, and those that fail."""
    members: dict[str, list[Sequence[str]]] = {}
    for words in jobs:
        members.setdefault(find_part(config, words), []).append(words)
    results: list[Result] = []
    left_out: dict[str, core.HarnessError] = {}
    for member, own_jobs in members.items():
        try:
            results += work(own_jobs)
        except core.HarnessError as err:
            if not member:
                raise
            left_out[member] = err
    reasons = {core.format_error(err): err for err in left_out.values()}
    if len(reasons) == 1 and not results:  # said once
        raise next(iter(reasons.values()))
    return results, left_out


def _format_left_out(left_out: Mapping[str, core.HarnessError]) -> list[str]:
    return [f"left out   {member}: {core.format_error(err)}" for member, err in left_out.items()]


def _open_session(config: DictConfig) -> run.Session:
    return run.Session(storage.Store(Path(str(config.outputs_dir)) / "store"))


def check_layout(jobs: Sequence[Job]) -> None:
    """Refuse a layout that shows nothing of these jobs, before they run."""
    settings = [job.settings for job in jobs]
    if not settings or any(s.judgments is not None for s in settings):  # a file of judgments may choose the metrics
        return
    layout = build_layout(settings[0].report, "report")
    layout.check_metrics({metric.name for s in settings for metric in s.metrics})
    axes = [run.collect_axes(s, s.decoder) for s in settings] if layout.where else []
    for axis, accepted in layout.where.items():
        values = {format_axis_value(job_axes.get(axis)) for job_axes in axes}
        if not any(axis in job_axes for job_axes in axes):
            if axis.partition(".")[0] not in {*FIXED, *(metric.name for s in settings for metric in s.metrics)}:
                names = set[str]().union(*axes)
                full = " or ".join(sorted(name for name in names if name.endswith(f".{axis}")))
                hint = f"; did you mean {full}?" if full else core.suggest(axis, names)
                raise core.SpecError(f"report.where: no job has the axis {axis!r}{hint}")
        elif not values & set(str(accepted).split("|")):
            raise core.SpecError(f"report.where: no job has {axis}={accepted}; known: {', '.join(sorted(values))}")


def _plan_job(job: Job, session: run.Session) -> tuple[run.Settings, run.Outcome]:
    settings = use_metrics_of_file(replace(job.settings, plan_only=True), job.overrides)
    if settings.is_judgments_only(job.overrides):
        return settings, run.run_judgments(settings, session, job.overrides)
    return settings, run.plan(settings, session)


def _check_grid(composer: Composer, config: DictConfig, jobs: Jobs) -> list[Job]:
    composed: list[Job] = []
    errors: list[core.HarnessError] = []
    for words in jobs:
        try:
            composed.append(composer.compose_job(words, unnamed=""))
        except (HydraException, OmegaConfBaseException) as err:
            errors.append(core.SpecError(explain(err)))
        except core.HarnessError as err:
            errors.append(err)
    total, session = run.Forecast(), _open_session(config)
    if errors:
        _refuse(errors, len(jobs), total)
    check_layout(composed)
    check_simulated_raters(job.settings for job in composed)
    run.check_players(job.settings for job in composed)
    if config.hydra.runtime.choices.get("hydra/launcher") in ELSEWHERE:
        return composed
    checked: dict[str, core.HarnessError | None] = {}
    fetched: dict[str, core.DataError | None] = {}
    for job in composed:
        key = core.digest([replace(job.settings, seed=0).spec(), asdict(job.settings.runtime)])
        if key not in checked:
            checked[key] = _find_missing(job, session, total, fetched)
        if error := checked[key]:
            errors.append(error)
    blocking = [err for err in errors if isinstance(err, core.DataError | core.ExtraNotInstalled)]
    if blocking or (errors and len(errors) == len(jobs)):
        _refuse(blocking or errors, len(jobs), total)
    return composed


def _find_missing(
    job: Job, session: run.Session, total: run.Forecast, fetched: dict[str, core.DataError | None]
) -> core.HarnessError | None:
    """Fetch the files of a job's task, once per task, and plan the job; return why it cannot run."""
    task = job.settings.task
    if (key := core.digest([task.name, core.canonicalize(task)])) not in fetched:
        try:
            task.fetch()
            fetched[key] = None
        except core.DataError as err:
            fetched[key] = err
    try:
        settings, outcome = _plan_job(job, session)
    except core.HarnessError as err:
        return err
    error = outcome.missing[0] if outcome.missing else fetched[key]
    if error is not None:
        total.add(settings, outcome)
    return error


def _refuse(errors: Sequence[core.HarnessError], num_jobs: int, total: run.Forecast) -> NoReturn:
    """Raise one error for all jobs."""
    reasons = list(dict.fromkeys(core.format_error(err) for err in errors))
    reason = reasons[0] if len(reasons) == 1 else f"{len(reasons)} reasons, the first: {reasons[0]}"
    commands = [command for command in list_commands(total) if command not in reason]
    fetch = f"; fetch what is missing with: {' && '.join(commands)}" if commands else ""
    raise core.DataError(f"{len(errors)} of {num_jobs} jobs cannot run, so none was started: {reason}{fetch}")


def plan_to_json(plan: run.Forecast, rates: run.Rates) -> dict[str, Any]:
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


def _format_time(plan: run.Forecast, rates: run.Rates, unknown: str) -> str:
    seconds, sure = plan.time(rates)
    return f"about {core.format_duration(seconds)} ({_SURE[sure]})" if seconds is not None else unknown


def format_plan(plan: run.Forecast, rates: run.Rates) -> list[str]:
    """Return a plan as lines for people."""
    fetch = sum(size.memory or 0 for size in plan.sizes().values() if not size.here)
    forced = plan.read("next_token")
    reads = [f"{plan.read('embed'):,} texts to embed", f"{plan.read('score'):,} to score"]
    reads += [f"{forced:,} to teacher-force"] if forced else []
    models = f", {_format_bytes(fetch)} of models to fetch" if fetch else ""
    lines = [
        f"jobs       {plan.jobs:,}",
        f"steps      {plan.num_cached:,} cached, {plan.make:,} to compute now, {plan.waits:,} after others",
        f"generate   {plan.texts:,} texts, at most {plan.tokens:,} tokens",
        f"read       {', '.join(reads)}",
        f"measure    {sum(plan.measures.values()):,} values of {len(plan.measures)} metrics",
        f"time       {_format_time(plan, rates, _UNMEASURED)}",
        f"disk       about {_format_bytes(plan.disk)} in the store{models}",
    ]
    by_hand = [f"put {file.name} at {file.path}" for file in plan.files.values() if not file.url and not file.present]
    sections = {
        "models": _list_models(plan),
        "files": [
            f"file {file.name}: {'present' if file.present else 'missing'} at {file.path}, "
            + (_format_bytes(file.path.stat().st_size) if file.present else "size not known")
            for file in plan.files.values()
        ],
        "sends": [f"{host}: {what}" for host, what in plan.hosts.items()],
        "reads outside the working directory": list(plan.outside),
        "missing; with network access, these commands fetch it": [
            *list_commands(plan), *by_hand, *(f"missing: {reason}" for reason in plan.missing),
        ],
    }  # fmt: skip
    for title, items in sections.items():
        lines += [title, *(f"  {item}" for item in items)] if items else []
    return lines


def _list_models(plan: run.Forecast) -> list[str]:
    out = []
    for spec, size in sorted(plan.sizes().items(), key=lambda pair: pair[1].parameters or 0):
        what = f"{size.parameters / 1e6:,.0f} M parameters" if size.parameters else "size not known"
        memory = f", {_format_bytes(size.memory)} of memory in {spec.dtype}" if size.memory else ""
        gate = {True: ", gated", False: ", not gated", None: ""}[size.gated]
        where = "here" if size.here else "missing"
        out.append(f"{spec.path}: {' and '.join(sorted(plan.models[spec]))}; {what}{memory}{gate}; {where}")
    for spec, roles in plan.models.items():
        if (service := spec.describe_service()) is not None:
            answer = f"{service.server} answers" if service.server is not None else "no answer now"
            at = ", ".join(service.endpoints)
            out.append(f"{spec.title}: {' and '.join(sorted(roles))}; at {at}; {answer}")
    return out


def list_commands(plan: run.Forecast) -> list[str]:
    """List the commands that fetch the missing models and files, each once."""
    files = [file for file in plan.files.values() if file.url and not file.present]
    models = [size.get for size in plan.sizes().values() if size.get]
    return [*models, *(f"curl -fL --create-dirs -o {file.path} {file.url}" for file in files)]


def _show_steps(title: str, outcome: run.Outcome) -> None:
    """Print the artifacts of one run: stage, description, state and key."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(core.escape_controls_in_line(title)), title_justify="left", box=None)
    for name in ("stage", "what", "state", "key"):
        table.add_column(name)
    for step in outcome.plan:
        key = step.key[:16] if step.key else "after the above"
        table.add_row(step.stage, Text(core.escape_controls_in_line(step.what)), _STATES[step.state], key)
    Console(width=110, soft_wrap=True, highlight=False).print(table)


def _format_bytes(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
