"""vLLM's engine in this process: started with the harness's logits processor, fed with requests, put to sleep."""

from __future__ import annotations

import dataclasses
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from openended.harness.backends.vllm.rows import KEY, TextOrder
from openended.harness.core import DataError, SpecError, shorten_error, suggest
from openended.harness.models import is_out_of_memory

if TYPE_CHECKING:
    from openended.harness.backends.vllm.spec import VllmSpec
    from openended.harness.models import Pooling

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

    ids: tuple[int, ...]  # token ids that it reads; never empty
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
    vector: Any = None  # its pooled hidden state, a tensor; only a `PoolingEngine` makes one


class Engine:
    """A running engine."""

    def __init__(self, spec: VllmSpec, device: str) -> None:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self._spec = spec
        with self._explain_errors("vLLM cannot be imported"), _ignore_warnings():
            from vllm import EngineArgs, LLMEngine
            from vllm.platforms import current_platform

        built_for = str(current_platform.device_type)
        if built_for != device.partition(":")[0]:
            raise DataError(
                f"model {spec.title}: this vLLM is built for {built_for}, runtime.device is {device}; "
                f"set runtime.device={built_for} or install the other build"
            )
        self._sleeps = bool(current_platform.is_sleep_mode_available()) and built_for != "cpu"
        options = self._build_options({f.name for f in dataclasses.fields(EngineArgs)})
        if self._sleeps:
            options["enable_sleep_mode"] = True
        with self._explain_errors("vLLM does not start"), _ignore_warnings():
            self.inner: Any = LLMEngine.from_engine_args(EngineArgs(**options))
        config = self.inner.model_config
        self.start_id: int | None = config.hf_config.bos_token_id
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

    def rest(self) -> None:
        """Give the GPU's memory to others until the engine is needed again; nothing to give back on a CPU."""
        if self._sleeps and not self._asleep:
            self.inner.sleep(1)
            self._asleep = True

    def close(self) -> None:
        """End the engine; one that has failed may fail again."""
        try:
            self.inner.engine_core.shutdown()
        except Exception as err:
            log.warning("%s: vLLM did not end cleanly (%s)", self._spec.title, shorten_error(err))

    def _build_options(self, names: set[str]) -> dict[str, Any]:
        return build_engine_options(self._spec, names) | {
            "logits_processors": [f"{_ADAPTER}:V1Processor"], "enable_prefix_caching": True,
        }  # fmt: skip

    def _make_params(self, request: EngineRequest) -> Any:  # noqa: ANN401 - vLLM's own class
        """Return vLLM's parameters: its own sampler takes the best of what the logits processor leaves."""
        from vllm import SamplingParams

        return SamplingParams(
            temperature=0.0, max_tokens=request.max_tokens, stop_token_ids=list(request.end_ids), ignore_eos=True,
            detokenize=False, prompt_logprobs=0 if request.score else None,
            extra_args=None if request.order is None else {KEY: request.order},
        )  # fmt: skip

    def _read_results(self, outputs: list[tuple[EngineRequest, Any]]) -> list[EngineResult]:
        """Read finished sequences, together with the logits processor's results for them."""
        completions = [output.outputs[0] for _, output in outputs]
        groups: dict[str, list[int]] = {}
        for i, (request, _) in enumerate(outputs):
            if request.order is not None:
                groups.setdefault(request.order["group"]["id"], []).append(i)
        noted: dict[int, Any] = {}
        for group, members in groups.items():
            orders = [order for order in (outputs[i][0].order for i in members) if order is not None]
            texts = [
                (order["example_id"], order["sample"], len(completions[i].token_ids))
                for i, order in zip(members, orders, strict=True)
            ]
            answers = self.inner.collective_rpc("take_openended_results", args=(group, texts))
            noted |= dict(zip(members, answers[0], strict=True))
        results = []
        for i, (request, output) in enumerate(outputs):
            ended = completions[i].finish_reason == "stop"
            ids = tuple(int(token) for token in completions[i].token_ids)
            rows = zip(request.ids[1:], list(output.prompt_logprobs)[1:], strict=True) if request.score else ()
            read = [float(row[token].logprob) for token, row in rows]
            results.append(EngineResult(ids[: len(ids) - ended], ended, read, noted.get(i)))
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
            if is_out_of_memory(err) or is_out_of_memory(first) or "memory" in str(first).lower():
                advice = "set model.max_num_seqs, model.max_model_len or model.gpu_memory_utilization lower; " + _RESUME
            message = f"{type(first).__name__}: {shorten_error(first)}"
            raise DataError(f"model {self._spec.title}: {what} ({message}); {advice}") from err


_POOLING_TYPES = {"last": "LAST", "first": "CLS", "mean": "MEAN"}


class PoolingEngine(Engine):
    """A running engine that pools the last hidden states of a causal model, after its final normalization."""

    def __init__(self, spec: VllmSpec, device: str, pooling: Pooling) -> None:
        self._pooling = pooling
        super().__init__(spec, device)

    def _build_options(self, names: set[str]) -> dict[str, Any]:
        from vllm.config import PoolerConfig

        pooler = PoolerConfig(seq_pooling_type=_POOLING_TYPES[self._pooling], use_activation=False)
        # A cached prefix would leave its states out of the mean.
        return build_engine_options(self._spec, names) | {
            "runner": "pooling", "convert": "embed", "pooler_config": pooler, "enable_prefix_caching": False,
        }  # fmt: skip

    def _make_params(self, request: EngineRequest) -> Any:  # noqa: ANN401 - vLLM's own class
        from vllm import PoolingParams

        del request
        return PoolingParams(task="embed", use_activation=False)

    def _read_results(self, outputs: list[tuple[EngineRequest, Any]]) -> list[EngineResult]:
        return [EngineResult((), False, [], vector=output.outputs.data.float().cpu()) for _, output in outputs]


@contextmanager
def _ignore_warnings() -> Iterator[None]:
    """Keep vLLM's remarks on other packages off the terminal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def build_engine_options(spec: VllmSpec, names: set[str]) -> dict[str, Any]:
    """Return the options of every engine."""
    for name in spec.engine:
        if name not in names:
            raise SpecError(f"model.engine: vLLM has no option {name!r}{suggest(name, names)}")
    options: dict[str, Any] = {
        "model": str(spec.folder or spec.path), "revision": None if spec.folder else spec.revision,
        "skip_tokenizer_init": True, "dtype": spec.dtype, "quantization": spec.quantization,
        "tensor_parallel_size": spec.tensor_parallel_size, "gpu_memory_utilization": spec.gpu_memory_utilization,
        "enforce_eager": spec.enforce_eager, "generation_config": "vllm", "trust_remote_code": False,
        "load_format": "safetensors",
        "worker_extension_cls": f"{_ADAPTER}.WorkerExtension", "async_scheduling": False,
        "disable_log_stats": True, "use_tqdm_on_load": False,
    }  # fmt: skip
    if (length := spec.context_length()) is not None:
        options["max_model_len"] = length
    if spec.max_num_seqs is not None:
        options["max_num_seqs"] = spec.max_num_seqs
    return options | dict(spec.engine)
