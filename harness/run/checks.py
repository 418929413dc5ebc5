"""Checks of a request before anything is computed: that it is consistent, and that all that it names is there."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from openended.harness import core, imported, models
from openended.harness.decoders import Decoder, QDecoder
from openended.harness.run.dataset import CHAT, Dataset
from openended.harness.run.facts import reads_q
from openended.harness.run.settings import RunModels, Settings, TextOptions
from openended.harness.run.steps import Executor, File
from openended.harness.storage import RowFile

if TYPE_CHECKING:
    from openended.harness.run.players import JudgmentSource

# Kind of feature → what the model that computes it must be able to do.
_ABILITIES: Mapping[str, tuple[models.Ability, ...]] = {
    "token_nll": ("score",), "token_rank": ("score", "rank"), "gradients": ("gradients",),
}  # fmt: skip
_CHECKED_TEXTS = 20_000  # that a plan reads


def check_request(settings: Settings, executor: Executor) -> None:
    """Check a request, and fetch the files that it names; a plan notes the files and models that are missing."""
    task, metrics, decoder = settings.task, settings.metrics, settings.decoder
    texts, run_models = settings.texts, settings.models
    if settings.audit:
        from openended.harness.run.audit import choose_reference

        choose_reference(run_models.model, settings.audit)  # raises where there is none
    embedder = run_models.find_embedder(metrics)
    check_extras(run_models, embedder, settings.runtime)
    check_metrics(metrics, decoder, texts)
    if task.needs_tokenizer() and run_models.cutting_tokenizer is None:
        raise core.SpecError(
            f"task {task.name} cuts prompts by tokens, and these texts come from a file: say whose tokens with "
            "task.tokens=gpt2-large, or with scorer=gpt2-large (or scoring=gpt2-large: scorer and embedder)"
        )
    checks = list(_list_checks(run_models, decoder, metrics, embedder))
    if texts.generations is not None and not imported.is_built_in_system(texts.generations):
        checks.append(partial(imported.find_generations, texts.generations, planning=executor.plan_only))
    elif texts.generations is None and run_models.model is not None and decoder is not None:
        checks += _list_generation_checks(run_models.model, decoder, texts, prompted=task.prompted)
    if not executor.plan_only:
        task.fetch()
    for check in (task.fingerprint, *checks):
        executor.find(check)


def check_judgments(settings: Settings, executor: Executor) -> "JudgmentSource | None":
    """Read the file of judgments of a run; None if no metric reads one. A plan names metrics without a value."""
    readers = settings.list_judging()
    if settings.judgments.file is None and not readers:
        return None
    from openended.harness.run.players import JudgmentSource

    judgments = JudgmentSource.from_settings(settings)
    remarks = judgments.check(readers)
    if remarks and len(remarks) == len(settings.metrics):  # of a run with other metrics, tables say why
        raise core.SpecError(remarks[0])
    for remark in remarks if executor.plan_only else ():
        executor.session.warn_once(remark)
    return judgments


def check_dataset(dataset: Dataset, judgments: "JudgmentSource | None", settings: Settings, executor: Executor) -> None:
    """Check what depends on the examples, before any text is generated; a plan knows them if they are cached.

    A plan reads the start of the user's own files.
    """
    texts, decoder = settings.texts, settings.decoder
    ids = executor.read_artifact(dataset.human_rows.rows, lambda path: RowFile(path).ids, tuple[str, ...]())
    num_human = len(ids) or texts.num_planned
    num_model = num_human * texts.samples if texts.generations is None else texts.num_planned
    has_counts = num_human and num_model  # else all texts of a file, which is not read yet
    for metric in settings.metrics if has_counts else ():
        if reason := metric.explain_too_few(num_human, num_model):
            raise core.SpecError(f"metric.{metric.name}.{reason}")
    if ids and judgments is not None and judgments.options.path is not None:
        for reader in settings.list_judging():
            with suppress(core.UndefinedMetric):
                judged, player = judgments.read_player(reader)
                judged.check_examples(player, ids)
    model, length = settings.models.model, texts.reply_length
    if texts.generations is None and model is not None and decoder is not None and length is not None:
        read = File(dataset.chat, CHAT) if dataset.chat is not None else dataset.prompts
        longest = executor.read_artifact(read, lambda path: int(RowFile(path).prompt_ids.lengths.max(initial=0)), 0)
        context = None
        with suppress(core.DataError):  # a plan without the model, as was noted
            context = model.context_length()
        decoder.check_context_length(context, length, longest)
    if executor.plan_only:
        _check_user_files(settings.task, texts, dataset, executor)


def _check_user_files(task: core.Task, texts: TextOptions, dataset: Dataset, executor: Executor) -> None:
    """Read the start of the user's own files for a plan: what is wrong in them is said before the run."""
    path = Path(str(texts.generations))
    is_readable = task.reads_own_file and not task.needs_tokenizer()
    is_cached = executor.state(dataset.examples).entry is not None
    if executor.find(task.fingerprint) and not is_cached and is_readable:
        used = texts.num_planned + texts.num_model_texts or _CHECKED_TEXTS
        deque(islice(task.examples(None, Counter()), min(used, _CHECKED_TEXTS)), maxlen=0)
    if texts.generations is None or not task.paired or not path.is_file():
        return
    deque(islice(imported.read_texts(path, texts.selection), _CHECKED_TEXTS), maxlen=0)


def check_metrics(metrics: Sequence[core.Metric], decoder: Decoder | None, texts: TextOptions) -> None:
    """Refuse metrics of which none has a value: no distribution of the next token, or too few texts per prompt."""
    reading = [metric.name for metric in metrics if any(map(reads_q, metric.needs()))]
    if len(reading) == len(metrics) and decoder is not None and not isinstance(decoder, QDecoder):
        raise core.SpecError(f"metric=[{','.join(reading)}]: {decoder.no_q_reason}; choose metrics of the texts")
    if reading and texts.prompting is not None:
        raise core.SpecError(
            f"metric=[{','.join(reading)}]: no value under prompting={texts.prompting.form}: Q would be read on human "
            "texts that answer no such request; set prompting=direct, or choose metrics of the texts"
        )
    least = min((metric.least_samples for metric in metrics), default=1)
    is_known = texts.generations is None or imported.is_built_in_system(texts.generations)
    if is_known and texts.samples < least:
        raise core.SpecError(
            f"metric=[{','.join(m.name for m in metrics)}]: needs {least} texts or more of each prompt, as "
            f"openended decoder=nucleus samples={least} generates them; got {texts.samples}"
        )


def check_extras(run_models: RunModels, embedder: models.EmbedderSpec | None, runtime: core.Runtime) -> None:
    """Raise `ExtraNotInstalled` if a package is missing that a model of the run is loaded with."""
    backends = [model for model in (run_models.model, run_models.scorer) if model is not None]
    if any(model.name != "openai" for model in backends) or embedder is not None:
        core.require_package("torch", "local")
    if embedder is not None and embedder.kind == "sentence":
        core.require_package("sentence_transformers", "embedders")
    if runtime.device_map is not None:
        core.require_package("accelerate", "large")


def _list_checks(
    run_models: RunModels, decoder: Decoder | None, metrics: Sequence[core.Metric], embedder: models.EmbedderSpec | None
) -> Iterator[Callable[[], object]]:
    """Yield what must hold of the models: they are there, and can do what decoder and metrics need of them."""
    model, scorer = run_models.model, run_models.scorer
    if model is not None:
        yield model.check_ready
        yield partial(model.demand, "generate", decoder)
    needs = [need for metric in metrics for need in metric.needs() if need.kind != "tokens"]
    for need in needs:
        spec = run_models.find_model(need)
        if spec is not None and not reads_q(need):
            for ability in _ABILITIES.get(need.kind, ()):
                yield partial(spec.demand, ability)
    if scorer is not None and "scorer" in {need.by for need in needs}:
        yield scorer.identity if scorer.runs_in_process else scorer.check_ready  # a server is asked when it is needed
        yield partial(_check_windows, metrics, scorer)
    if embedder is not None:
        yield embedder.identity
        yield embedder.check_options
    for path in run_models.vector_files.values():
        yield partial(_check_vector_file, path)


def _check_vector_file(path: Path) -> None:
    if not path.is_file():
        raise core.DataError(f"features: no such file: {path}")


def _check_windows(metrics: Sequence[core.Metric], scorer: models.BackendSpec) -> None:
    for metric in metrics:
        windows = [dict(need.options).get("window") for need in metric.needs() if need.by == "scorer"]
        longest = max((window for window in windows if isinstance(window, int)), default=0)
        context = scorer.context_length() if longest else None
        if context is not None and longest > context:
            raise core.SpecError(
                f"metric.{metric.name}.window: expected at most {context}, the scorer's context, got {longest}"
            )


def _list_generation_checks(
    model: models.BackendSpec, decoder: Decoder, texts: TextOptions, *, prompted: bool
) -> Iterator[Callable[[], object]]:
    length, least = texts.reply_length, texts.least_length
    if not prompted and not decoder.denoises:
        yield partial(check_start_token, model)
    if length is not None:
        yield partial(model.check_lengths, decoder, max_new_tokens=length, min_new_tokens=least)
    if model.runs_in_process:
        yield partial(decoder.check_model, model)
    goes_on = decoder.denoises or (model.runs_in_process and isinstance(decoder, QDecoder))
    if texts.continue_after_end and not goes_on:
        who = f"decoder {decoder.name}" if model.runs_in_process else f"model {model.title}, which a server runs"
        raise core.SpecError(
            f"continue_after_end=true: not possible with {who}; set continue_after_end=false, or with "
            "task=unconditional task.layout=documents as well"
        )


def check_start_token(model: models.BackendSpec) -> None:
    """Check that the model has a token to start from if a prompt is empty."""
    spec = model.tokenizer_spec()
    if spec is None:
        raise core.SpecError(
            f"model {model.title}: empty prompts are sent as a start token; set model.tokenizer to have one"
        )
    named = isinstance(spec.config().get("bos_token_id"), int) or spec.end_ids()
    if not named and not models.load_tokenizer(spec).bos_prefix:
        raise core.SpecError(
            f"model {model.title}: no start token for an empty prompt; set bos_token_id (or eos_token_id) in "
            "its config.json"
        )
