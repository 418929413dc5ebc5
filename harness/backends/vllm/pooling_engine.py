"""vLLM's engine as an embedder: a vector of each sequence in place of new tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openended.harness.backends.vllm.engine import Engine, EngineRequest, EngineResult, build_engine_options

if TYPE_CHECKING:
    from openended.harness.backends.vllm.spec import VllmSpec
    from openended.harness.models import Pooling

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
