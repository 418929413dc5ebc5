"""One run: task × model × decoder × seed, from examples to a run record."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from openended.harness import core
from openended.harness.decoders import Decoder, QDecoder
from openended.harness.models import Ability, BackendSpec, EmbedderSpec
from openended.harness.run import measure
from openended.harness.run.artifacts import ArtifactBuilder, PlannedArtifact, TextRows, load_result, save_result
from openended.harness.run.dataset import Dataset, fetch_task, load_dataset
from openended.harness.run.facts import (
    compute_perplexity,
    describe_columns,
    list_notes,
    reads_q,
    remark_on_batches,
    resolve_units,
)
from openended.harness.run.features import FOR_DECODER, Featurizer, find_model
from openended.harness.run.generate import generate
from openended.harness.run.import_texts import check_user_files, import_generations
from openended.harness.run.measure import MetricRunner, System, SystemResult, list_text_needs
from openended.harness.run.players import find_player
from openended.harness.run.run_record import Outcome, write_explanations, write_record
from openended.harness.run.session import Session
from openended.harness.run.settings import NO_JUDGMENTS, Settings
from openended.harness.storage import RowFile
from openended.metrics.families import TwoSample

# Kind of feature → what the model that computes it must be able to do.
_ABILITIES: Mapping[str, tuple[Ability, ...]] = {
    "token_nll": ("score",), "token_rank": ("score", "rank"), "gradients": ("gradients",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunTexts:
    """The texts of a run; entries are None while they are only planned."""

    settings: Settings
    dataset: Dataset
    model_rows: TextRows
    decoder: Decoder | None  # resolved: nothing left to be measured
    featurizer: Featurizer  # has what the decoder needed of the human side; makes the rest

    @property
    def human_rows(self) -> TextRows:
        return self.dataset.human_rows

    def explain_no_ceiling(self) -> str:
        """Say why there is no human ceiling; empty where there is one.

        A metric of two sides depends on their sizes, so that the ceiling has as many texts as the system.
        """
        entry, human = self.model_rows.entry, self.dataset.human
        needed = int(entry.meta["n"]) if entry is not None else self.settings.num_model_texts
        have = human.meta["more"] if human is not None else needed
        if have == needed:
            return ""
        return f"no human ceiling: it needs {needed} further human texts, as many as a system has; {have} were left"


def plan(settings: Settings, session: Session) -> Outcome:
    """Plan a run: what is cached and what would be computed; loads no model and writes nothing."""
    builder = ArtifactBuilder(session, plan_only=True)
    measure_all(make_texts(settings, builder))
    for remark in (*check_judgments(settings), *remark_on_batches(settings), *remark_on_device(settings)):
        session.warn_once(remark)
    return Outcome(settings.outputs_dir, 0, tuple(builder.plan), tuple(builder.missing))


def run(
    settings: Settings, session: Session, overrides: Sequence[str] = (), others: Sequence[TextRows] = ()
) -> Outcome:
    """Compute everything that is missing, write the run record and return its folder.

    A run whose spec and results are those of an earlier record writes nothing: the earlier folder is returned.

    Raises:
        HarnessError: For everything that is about the user's input.
    """
    builder = ArtifactBuilder(session, plan_only=False)
    texts = make_texts(settings, builder)
    settings = texts.settings
    results = measure_all(texts, others)
    session.side_cache.end_run()
    folder = write_record(
        settings, builder, results, decoder=texts.decoder, human=texts.dataset.human,
        task=str(texts.dataset.fingerprint), overrides=overrides,
        notes=list_notes(settings, texts.dataset, texts.model_rows, texts.featurizer),
    )  # fmt: skip
    write_explanations(folder, session.store.root, results, texts.human_rows, texts.model_rows)
    broken = [m.result for m in results if m.result.status == "failed"]
    failed = dict.fromkeys(f"metric {result.metric} {'; '.join(result.notes)}" for result in broken)
    return Outcome(folder, builder.num_computed, tuple(builder.plan), failed=tuple(failed))


def remark_on_device(settings: Settings) -> list[str]:
    """Say that this machine lacks the device of a plan; the run may have it elsewhere."""
    device = settings.runtime.device
    loads = any(spec is not None for spec in (settings.model, settings.scorer, settings.embedder))
    if settings.runtime.spread or not device.startswith("cuda") or not loads:
        return []
    import torch

    return [] if torch.cuda.is_available() else [f"runtime.device={device}: this machine has no CUDA device"]


def compute_texts(settings: Settings, session: Session) -> RunTexts:
    """Compute the texts of a run and nothing else."""
    return make_texts(settings, ArtifactBuilder(session, plan_only=False))


def make_texts(settings: Settings, builder: ArtifactBuilder) -> RunTexts:
    """Make or plan the rows of both sides."""
    check_judgments(settings)
    check_extras(settings)
    check_q(settings)
    check_samples(settings)
    fingerprint = fetch_task(settings.task, builder)
    for check in _list_checks(settings):
        builder.try_or_note(check)
    dataset = load_dataset(settings, fingerprint, builder)
    settings = resolve_units(settings, dataset.human_rows)
    check_sizes(settings, dataset)
    check_rated_examples(settings, dataset)
    featurizer = Featurizer(settings, builder)
    if builder.plan_only:
        check_user_files(settings, builder, dataset)
    if settings.generations is not None:
        rows = import_generations(settings, builder, dataset)
        return RunTexts(settings, dataset, rows, None, featurizer)
    decoder = settings.decoder
    if decoder is not None and decoder.needs_human_ppl:
        # What the metrics read of the human side is computed with it, so that no model passes over it twice.
        scored = [n for m in settings.metrics for n in list_text_needs(m) if n.kind in ("token_nll", "embeddings")]
        alike = [need for need in scored if need.by != "model"] if settings.task.has_human() else []  # not under its Q
        featurizer.compute([(dataset.human_rows, (FOR_DECODER, *alike))], None)
        nll = featurizer.value(dataset.human_rows, FOR_DECODER)
        decoder = decoder.resolve(compute_perplexity(nll)) if nll is not None else decoder
    rows = generate(settings, builder, dataset, decoder)
    return RunTexts(settings, dataset, rows, decoder, featurizer)


def measure_all(texts: RunTexts, others: Sequence[TextRows] = ()) -> list[SystemResult]:
    """Compute the features, then every metric: of the system under test, the human row and the ceiling."""
    settings, task = texts.settings, texts.settings.task
    human, model = texts.human_rows, texts.model_rows
    metrics = [metric for metric in settings.metrics if task.prompted or not metric.needs_prompts]
    others = [replace(source, label=f"system {number} of the grid") for number, source in enumerate(others)]
    no_ceiling = texts.explain_no_ceiling()
    with_ceiling = [m for m in metrics if m.sides == "two" and m.ceiling]  # in place of a human value
    jobs: list[tuple[core.Metric, System, TextRows]] = []  # in the order of the record
    for metric in metrics:
        if metric.sides == "one" and task.has_human():
            jobs.append((metric, "human", human))
        if metric in with_ceiling and task.has_human() and not no_ceiling:
            jobs.append((metric, "ceiling", texts.dataset.spare_rows))
        if metric.sides == "one" or task.has_human():
            jobs.append((metric, "model", model))
    requests: list[tuple[TextRows, Sequence[core.Need]]] = []
    for metric, _, rows in jobs:
        if metric.sides != "one":
            requests.append((human, list_text_needs(metric)))
        if metric.sides != "human":
            requests.append((rows, list_text_needs(metric)))
    requests += [(source, list_text_needs(m)) for m in metrics if m.reads_grid for source in others]
    for rows in texts.dataset.list_further_human():  # what a report compares the systems with
        shared = [metric for metric in metrics if isinstance(metric, TwoSample) and metric.shares_space]
        requests += [(rows, list_text_needs(metric)) for metric in shared]
    texts.featurizer.compute(requests, texts.decoder)
    runner = MetricRunner(settings, texts.featurizer, others)
    out = [runner.measure(metric, system, human, rows) for metric, system, rows in jobs]
    if not task.has_human():
        reason = f"task {task.name} has no human side{task.no_human}"
        out += [runner.build_undefined(m, "model", human, model, reason) for m in metrics if m.sides != "one"]
    elif no_ceiling:
        out += [runner.build_undefined(m, "ceiling", human, model, no_ceiling) for m in with_ceiling]
    for metric in settings.metrics:
        if metric not in metrics:
            out.append(runner.build_undefined(metric, "model", human, model, "not defined without prompts"))
    return [m for m in out if m is not None]


def check_judgments(settings: Settings) -> list[str]:
    """Read the file of judgments for every metric that needs it; return which of them have no value, and why."""
    readers = settings.list_judging()
    if settings.judgments not in (None, NO_JUDGMENTS) and not readers:
        is_file = not str(settings.judgments).startswith(core.SIMULATED)
        able = [m.name for m in list_metrics_for_file(settings)] if is_file else ["huse"]
        raise core.SpecError(
            f"judgments={settings.judgments}: no metric of this run reads judgments; "
            f"add {' or '.join(able)} to metric=[…], or leave it out"
        )
    remarks: list[str] = []
    for metric in readers:
        if settings.judgments is None:
            raise core.SpecError(
                f"metric.{metric.name}: needs human judgments; add judgments=FILE, or leave it out of metric=[…]"
            )
        if settings.judgments == NO_JUDGMENTS or settings.judgments.startswith(core.SIMULATED):
            continue
        from openended.metrics.judgments import check_judgments_file

        check_judgments_file(path := Path(settings.judgments))
        try:
            find_player(settings, metric, settings.read_judgments(metric, path))
        except core.UndefinedMetric as err:
            remarks.append(f"metric {metric.name} has no value of this run: {err}")
    return remarks


def check_rated_examples(settings: Settings, dataset: Dataset) -> None:
    """Refuse judgments of other examples before any text is generated."""
    path = Path(str(settings.judgments))
    for metric in settings.list_judging() if dataset.human is not None and path.is_file() else ():
        judged = settings.read_judgments(metric, path)
        with suppress(core.UndefinedMetric):
            player = find_player(settings, metric, judged)
            metric.check_examples(judged, player, RowFile(dataset.human_rows.path).ids)


def check_q(settings: Settings) -> None:
    """Refuse metrics of which none has a value, because the decoder has no distribution of the next token."""
    reading = [m.name for m in settings.metrics if any(map(reads_q, m.needs()))]
    decoder = settings.decoder
    if len(reading) == len(settings.metrics) and decoder is not None and not isinstance(decoder, QDecoder):
        raise core.SpecError(f"metric=[{','.join(reading)}]: {decoder.no_q_reason}; choose metrics of the texts")


def check_samples(settings: Settings) -> None:
    """Refuse metrics of which none has a value, because each compares several texts of one prompt."""
    least = min((metric.least_samples for metric in settings.metrics), default=1)
    is_known = settings.generations is None or not settings.task.paired
    if is_known and settings.samples < least:
        raise core.SpecError(
            f"metric=[{','.join(m.name for m in settings.metrics)}]: needs {least} texts or more of each prompt, as "
            f"openended decoder=nucleus samples={least} generates them; got {settings.samples}"
        )


def check_extras(settings: Settings) -> None:
    """Raise `ExtraNotInstalled` if a package is missing that a model of the run is loaded with."""
    embedder = _find_embedder(settings)
    models = [model for model in (settings.model, settings.scorer) if model is not None]
    if any(model.name != "openai" for model in models) or embedder is not None:
        core.require_package("torch", "local")
    if embedder is not None and embedder.kind == "sentence":
        core.require_package("sentence_transformers", "embedders")
    if settings.runtime.device_map is not None:
        core.require_package("accelerate", "large")


def _list_checks(settings: Settings) -> Iterator[Callable[[], object]]:
    """Yield what must hold of the models: they are there, and can do what decoder and metrics need of them."""
    model, scorer, embedder = settings.model, settings.scorer, _find_embedder(settings)
    if model is not None:
        yield model.check_ready
        yield partial(model.demand, "generate", settings.decoder)
    needs = [need for metric in settings.metrics for need in metric.needs() if need.kind != "tokens"]
    for need in needs:
        spec = find_model(need, settings)
        if spec is not None and not reads_q(need):
            for ability in _ABILITIES.get(need.kind, ()):
                yield partial(spec.demand, ability)
    if scorer is not None and "scorer" in {need.by for need in needs}:
        yield scorer.identity if scorer.runs_in_process else scorer.check_ready  # a server is asked when it is needed
        yield partial(_check_windows, settings.metrics, scorer)
    if embedder is not None:
        yield embedder.identity
        yield embedder.check_options


def _find_embedder(settings: Settings) -> EmbedderSpec | None:
    """Return the embedder if a metric of the run needs it; None too where the user gives the vectors."""
    kinds = {need.kind for metric in settings.metrics for need in metric.needs()}
    return settings.embedder if "embeddings" in kinds and not settings.vector_files else None


def _check_windows(metrics: Sequence[core.Metric], scorer: BackendSpec) -> None:
    """Raise `SpecError` if a metric's window is longer than the scorer's context."""
    for metric in metrics:
        windows = [dict(need.options).get("window") for need in metric.needs() if need.by == "scorer"]
        longest = max((window for window in windows if isinstance(window, int)), default=0)
        context = scorer.context_length() if longest else None
        if context is not None and longest > context:
            raise core.SpecError(
                f"metric.{metric.name}.window: expected at most {context}, the scorer's context, got {longest}"
            )


def check_sizes(settings: Settings, dataset: Dataset) -> None:
    """Refuse options of metrics that ask for more texts than the run has."""
    num_human = int(dataset.human.meta["n"]) if dataset.human is not None else settings.num_planned
    num_model = num_human * settings.samples if settings.generations is None else settings.num_planned
    if not num_human or not num_model:
        return  # all texts of a file; their number is unknown until it is read
    for metric in settings.metrics:
        if reason := metric.explain_too_few(num_human, num_model):
            raise core.SpecError(f"metric.{metric.name}.{reason}")


def select_metrics_for_file(settings: Settings, overrides: Sequence[str]) -> Settings:
    """Return settings with the metrics that a file of judgments supports, if the user names nothing else.

    Raises:
        DataError: If no metric reads such a file; the message lists what each expects.
    """
    chosen = {word.lstrip("+~").partition("=")[0].partition(".")[0] for word in overrides}
    alone = not chosen & {"metric", "experiment", "task", "model", "decoder", "generations"}
    if settings.judgments is None or not alone:
        return settings
    able = list_metrics_for_file(settings)
    from openended.metrics.judgments import read_rows

    columns, _ = read_rows(Path(settings.judgments), settings.judgment_columns)
    return replace(settings, metrics=tuple(m for m in able if m.scores_without_run(columns)) or able)


def list_metrics_for_file(settings: Settings) -> tuple[core.JudgmentMetric, ...]:
    """Return the metrics that can read the file of judgments."""
    from openended.metrics.judgments import check_judgments_file, read_rows

    path = Path(str(settings.judgments))
    check_judgments_file(path)
    columns, rows = read_rows(path, settings.judgment_columns)
    kinds = [cls for cls in core.load_members("metric").values() if issubclass(cls, core.JudgmentMetric)]
    fed = tuple(cls() for cls in kinds if cls.accepts_columns(columns, rows))
    if not fed:
        raise core.DataError(
            f"judgments: {path} has the columns {', '.join(columns)}: neither ratings (example_id, system, rating) nor "
            "comparisons (item, system_a, system_b, outcome); judgment_columns={ours: theirs} names them"
        )
    return fed


def run_judgments(settings: Settings, session: Session, overrides: Sequence[str] = ()) -> Outcome:
    """Score a file of judgments and write the run record.

    Raises:
        DataError: If the file is missing or a row is wrong.
        UndefinedMetric: If a metric has no value on these judgments.
        SpecError: If the user typed a system, which nothing reads.
    """
    typed = dict.fromkeys(word.lstrip("+~").partition("=")[0] for word in overrides)
    if unused := [option for option in typed if option.partition(".")[0] in ("task", "model", "decoder")]:
        names = ",".join(metric.name for metric in settings.metrics)
        raise core.SpecError(
            f"{', '.join(unused)}: no effect, because metric=[{names}] scores the file of judgments alone; leave "
            f"{'it' if len(unused) == 1 else 'them'} out, or add a metric of the texts, as metric=[{names},distinct_n]"
        )
    path, columns = Path(str(settings.judgments)), settings.judgment_columns
    from openended.metrics.judgments import check_judgments_file

    check_judgments_file(path)
    builder = ArtifactBuilder(session, plan_only=settings.plan_only)
    sha = measure.digest_judgments(settings)
    results = []
    for metric in settings.metrics:
        if not isinstance(metric, core.JudgmentMetric):
            raise core.UndefinedMetric(f"{metric.name} needs texts, not judgments")

        def write(folder: Path, metric: core.JudgmentMetric = metric) -> Mapping[str, Any]:
            scored, features = metric.from_file(path, columns, settings.human_players)
            with_columns = replace(features, facts={**features.facts, **describe_columns(columns)})
            return save_result(folder, measure.compute_metric(scored, with_columns, core.Plan(settings.intervals)))

        spec = {"metric": core.canonicalize(metric), "system": "judgments", "file": path.name}
        if settings.intervals:
            spec["intervals"] = [settings.intervals, measure.RESAMPLING_VERSION]
        what = f"{metric.name} {path.name}"
        artifact = PlannedArtifact("measure", what, spec, {"judgments": sha}, "model", metric=metric.name)
        entry = builder.build(artifact, write)
        if entry is not None:
            results.append(SystemResult("model", metric, load_result(entry.path), entry.name))
    if settings.plan_only:
        return Outcome(settings.outputs_dir, 0, tuple(builder.plan))
    alone = replace(settings, model=None, decoder=None, scorer=None, embedder=None)
    folder = write_record(alone, builder, results, decoder=None, human=None, task=sha, notes=(), overrides=overrides)
    return Outcome(folder, builder.num_computed, tuple(builder.plan))
