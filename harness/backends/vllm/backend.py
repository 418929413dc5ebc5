"""Backend that runs a model by vLLM in this process: its engines, started when needed and put to sleep after a call."""

import dataclasses
import logging
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from openended.harness import core, models
from openended.harness.backends.vllm.rows import KEY, TextOrder, make_group, make_order
from openended.harness.backends.vllm.spec import VllmSpec, find_version
from openended.harness.core import F64, Advance, DataError, NextToken, SpecError
from openended.harness.decoders import Emit, GenerationRequest, Prompt, QTable
from openended.harness.generation import build_generation, build_next_token, check_rows
from openended.harness.models import ForwardRequest, QStatisticsRequest

log = logging.getLogger(__name__)
_ADAPTER = "openended.harness.backends.vllm._adapter"
# What vLLM reads from the environment; a variable that is set already stays.
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine runs in this process, and ends with it
    "VLLM_USE_V2_MODEL_RUNNER": "0",  # the first runner serves CPUs and GPUs
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_CPU_KVCACHE_SPACE": "2",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # this process has other work for its threads
}
_RESUME = "finished texts are kept; repeat the command to resume"


class EngineRequest(NamedTuple):
    """A sequence for the engine."""

    ids: Sequence[int]  # token ids that it reads; never empty
    max_tokens: int = 1  # tokens to make at most
    end_ids: tuple[int, ...] = ()  # tokens that end it
    order: TextOrder | None = None  # what the logits processor does with it; None: nothing
    score: bool = False  # return the log-probabilities of its own tokens


class EngineResult(NamedTuple):
    """A finished sequence."""

    ids: tuple[int, ...]  # the tokens made, without an end token
    ended: bool  # true: by an end token
    log_probs: list[float]  # of the tokens read, from the second on, where they were asked for
    noted: Any = None  # what the logits processor knows of it


class VllmEngine:
    """A running engine."""

    def __init__(self, spec: VllmSpec, device: str) -> None:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self._spec = spec
        with self._explain_errors("vLLM cannot be imported"), warnings.catch_warnings(action="ignore"):
            from vllm import EngineArgs, LLMEngine
            from vllm.platforms import current_platform

        built_for = str(current_platform.device_type)
        if built_for != device.partition(":")[0]:
            raise DataError(
                f"model {spec.title}: this vLLM is built for {built_for}, runtime.device is {device}; "
                f"set runtime.device={built_for} or install the other build"
            )
        self._sleeps = bool(current_platform.is_sleep_mode_available()) and built_for != "cpu"
        options = build_engine_options(self._spec, {f.name for f in dataclasses.fields(EngineArgs)})
        if self._sleeps:
            options["enable_sleep_mode"] = True
        with self._explain_errors("vLLM does not start"), warnings.catch_warnings(action="ignore"):
            self.inner: Any = LLMEngine.from_engine_args(EngineArgs(**options))
        config = self.inner.model_config
        self.vocab_size = int(config.get_vocab_size())
        self.context_length = int(config.max_model_len)
        self._number = 0
        self._asleep = False

    def describe(self) -> dict[str, str]:
        worker: dict[str, str] = self.inner.collective_rpc("describe_openended_worker")[0]
        return worker

    def run(self, requests: Iterable[EngineRequest], finish: Callable[[int, EngineResult], None]) -> None:
        """Run sequences with vLLM's own scheduling; `finish` gets the number of each as soon as it is done."""
        if self._asleep:
            self.inner.wake_up()
            self._asleep = False
        pending: dict[str, tuple[int, EngineRequest]] = {}
        with self._explain_errors("vLLM stopped"):
            for number, request in enumerate(requests):
                self._number += 1
                name = str(self._number)
                self.inner.add_request(name, {"prompt_token_ids": list(request.ids)}, self._make_params(request))
                pending[name] = number, request
        try:
            while pending:
                with self._explain_errors("vLLM stopped"):
                    outputs = [output for output in self.inner.step() if output.finished]
                    results = self._read_results([(pending[o.request_id][1], o) for o in outputs])
                for output, result in zip(outputs, results, strict=True):
                    finish(pending.pop(output.request_id)[0], result)
        except DataError:  # the caller ends this engine
            raise
        except BaseException:
            self.inner.abort_request(list(pending))
            self.inner.collective_rpc("forget_openended_texts")
            raise

    def release_memory(self) -> None:
        """Give the GPU's memory to others until the engine is needed again; nothing to give back on a CPU."""
        if self._sleeps and not self._asleep:
            self.inner.sleep(1)
            self._asleep = True

    def close(self) -> None:
        """End the engine; one that has failed may fail again."""
        try:
            self.inner.engine_core.shutdown()
        except Exception as err:
            log.warning("%s: vLLM did not end cleanly (%s)", self._spec.title, core.shorten_error(err))

    def _make_params(self, request: EngineRequest) -> Any:  # noqa: ANN401 - vLLM's own class
        """Return vLLM's parameters: its own sampler takes the best of what the logits processor leaves."""
        from vllm import SamplingParams

        options: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True, "detokenize": False}
        options |= {"max_tokens": request.max_tokens, "stop_token_ids": list(request.end_ids)}
        options["extra_args"] = None if request.order is None else {KEY: request.order}
        return SamplingParams(prompt_logprobs=0 if request.score else None, **options)

    def _read_results(self, outputs: list[tuple[EngineRequest, Any]]) -> list[EngineResult]:
        """Read finished sequences, together with the logits processor's results for them."""
        completions = [output.outputs[0] for _, output in outputs]
        orders = [request.order for request, _ in outputs if request.order is not None]
        noted: list[Any] = [None] * len(outputs)
        if orders:  # all texts of a call are of one group, or none is
            sizes = (len(completion.token_ids) for completion in completions)
            texts = [(order["example_id"], order["sample"], size) for order, size in zip(orders, sizes, strict=True)]
            noted = self.inner.collective_rpc("take_openended_results", args=(orders[0]["group"]["id"], texts))[0]
        results = []
        for (request, output), completion, note in zip(outputs, completions, noted, strict=True):
            ended = completion.finish_reason == "stop"
            ids = tuple(int(token) for token in completion.token_ids)
            rows = zip(request.ids[1:], list(output.prompt_logprobs)[1:], strict=True) if request.score else ()
            read = [float(row[token].logprob) for token, row in rows]
            results.append(EngineResult(ids[: len(ids) - ended], ended, read, note))
        return results

    @contextmanager
    def _explain_errors(self, what: str) -> Iterator[None]:
        """Turn an error of vLLM into one line that says what to set."""
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            raise
        except Exception as err:
            first: BaseException = err
            while first.__cause__ is not None:
                first = first.__cause__
            advice = _RESUME
            if models.is_out_of_memory(err) or models.is_out_of_memory(first) or "memory" in str(first).lower():
                advice = "set model.max_num_seqs, model.max_model_len or model.gpu_memory_utilization lower; " + _RESUME
            message = f"{type(first).__name__}: {core.shorten_error(first)}"
            raise DataError(f"model {self._spec.title}: {what} ({message}); {advice}") from err


def build_engine_options(spec: VllmSpec, names: set[str]) -> dict[str, Any]:
    """Return the options of every engine."""
    for name in spec.engine:
        if name not in names:
            raise SpecError(f"model.engine: vLLM has no option {name!r}{core.suggest(name, names)}")
    fields = ("dtype", "quantization", "tensor_parallel_size", "gpu_memory_utilization", "enforce_eager")
    options: dict[str, Any] = {name: getattr(spec, name) for name in fields}
    options |= {"model": spec.source[0], "revision": spec.source[1], "load_format": "safetensors"}
    options |= {"skip_tokenizer_init": True, "generation_config": "vllm", "trust_remote_code": False}
    options |= {"worker_extension_cls": f"{_ADAPTER}.WorkerExtension", "logits_processors": [f"{_ADAPTER}:V1Processor"]}
    options |= {"async_scheduling": False, "enable_prefix_caching": True}
    options |= {"disable_log_stats": True, "use_tqdm_on_load": False}
    if (length := spec.context_length()) is not None:
        options["max_model_len"] = length
    if spec.max_num_seqs is not None:
        options["max_num_seqs"] = spec.max_num_seqs
    return options | dict(spec.engine)


class VllmBackend(models.Backend):
    """A model that vLLM runs; an engine starts when it is first needed, and is kept."""

    def __init__(self, spec: VllmSpec, device: str) -> None:
        import torch

        self.spec = spec
        self.device = torch.device(device)
        self.tokenizer = models.load_tokenizer(spec.tokenizer_spec())
        self.eos_ids = models.find_eos_ids(spec.tokenizer_spec(), self.tokenizer)
        self._engines: list[VllmEngine] = []  # the running engine, if there is one
        weakref.finalize(self, _close_engines, self._engines)
        self._wrote = False  # the last call generated texts

    @property
    def engine(self) -> VllmEngine:
        """The engine, started if it is not running."""
        if not self._engines:
            self._engines.append(VllmEngine(self.spec, self.device.type))
        return self._engines[0]

    @property
    def context_length(self) -> int | None:  # type: ignore[override] # of the engine that answers
        """Maximum length of a scored text: vLLM makes one token after it, which needs a position too."""
        return self.engine.context_length - 1

    def provenance(self) -> dict[str, Any]:
        if not self._engines:
            return {}
        s = self.spec
        facts = {"vllm": find_version(), "dtype": s.dtype, "quantization": s.quantization, **self.engine.describe()}
        return {"engine": facts} | ({"notes": [f"{s.title}: vLLM {find_version()}"]} if self._wrote else {})

    def generate(self, request: GenerationRequest, emit: Emit, advance: Advance | None = None) -> None:
        """Continue every prompt; a text depends on (seed, example id, sample), prompt, decoder and the logits."""
        self.spec.demand("generate", request.decoder)
        prompts = models.prepare_request(request, self.tokenizer, self.engine.context_length).prompts
        group = make_group(request, self.eos_ids)

        def finish(number: int, result: EngineResult) -> None:
            prompt = prompts[number]
            generation = build_generation(self, prompt, result.ids, ended=result.ended, log_prob=result.noted[0])
            emit([generation])
            if advance is not None:
                advance(len(result.ids) + result.ended)

        texts = (make_order(group, replace(p, token_ids=self.tokenizer.complete_prompt(p.token_ids))) for p in prompts)
        orders = (EngineRequest(order["prompt"], request.max_new_tokens, self.eos_ids, order) for order in texts)
        self._run(orders, finish)
        self._wrote = True

    def forward(self, request: ForwardRequest, advance: Advance | None = None) -> None:
        """Fill `nll` from vLLM's log-probabilities of given texts; it batches by itself, and embeds nothing."""
        jobs, nll = request.rows, request.nll
        self._wrote = False

        def finish(number: int, result: EngineResult) -> None:
            job = jobs[number]
            values = result.log_probs[job.first - 1 :]
            cast("F64", nll)[job.out : job.out + len(values)] = [-value for value in values]
            if advance is not None and job.row >= 0:
                advance(1)

        self._run((EngineRequest(job.ids.tolist(), score=True) for job in jobs), finish)

    def q_statistics(self, request: QStatisticsRequest, advance: Advance | None = None) -> list[NextToken]:
        """Compute the statistics of each decoder's Q: the human tokens are forced, and whole rows of logits read."""
        self._wrote = False
        continuations = request.continuations
        heads = [self.tokenizer.complete_prompt(row) for row in request.prompts]
        # Every forced token needs a position, the last one too.
        lengths = np.array([len(head) for head in heads], dtype=np.int64)
        check_rows(self.context_length, lengths, continuations)
        tables = [QTable.empty(len(continuations.values)) for _ in request.decoders]
        group = make_group(request, self.eos_ids)
        rows = [row for row, size in enumerate(continuations.lengths.tolist()) if size]

        def finish(number: int, result: EngineResult) -> None:
            start = continuations.offsets[rows[number]]
            part = slice(start, start + len(result.ids))
            for table, columns in zip(tables, result.noted, strict=True):
                table.gold_prob[part], table.sum_sq[part], table.support[part], table.argmax[part] = columns
            if advance is not None:
                advance(len(result.ids))

        def order(row: int) -> EngineRequest:
            gold = continuations[row].tolist()
            return EngineRequest(heads[row], len(gold), (), make_order(group, Prompt(str(row), 0, heads[row]), gold))

        self._run(map(order, rows), finish)
        vocab_size = self.engine.vocab_size
        return [build_next_token(table, request, vocab_size) for table in tables]

    def _run(self, requests: Any, finish: Any) -> None:  # noqa: ANN401 - as `VllmEngine.run`
        """Run sequences, then release the GPU's memory; an engine that failed is dropped."""
        engine = self.engine
        try:
            engine.run(requests, finish)
        except DataError:
            self._engines.pop().close()
            models.free_memory()
            raise
        engine.release_memory()


def _close_engines(engines: list[VllmEngine]) -> None:
    for engine in engines:
        engine.close()


def load_vllm(spec: VllmSpec, *, device: str = "cpu", device_map: core.DeviceMap | None = None) -> VllmBackend:
    """Check that the model can be run and load its tokenizer; the engine starts when it is needed."""
    if device_map is not None:
        raise SpecError("runtime.device_map: expected null for model=vllm; use model.tensor_parallel_size")
    spec.check_ready()
    return VllmBackend(spec, device)
