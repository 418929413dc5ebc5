"""Backend that fills texts by a denoiser in this process."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from openended.harness.backends.denoiser.spec import DenoiserSpec, find_mask_id
from openended.harness.core import Advance, DataError, DeviceMap, SpecError, shorten_error
from openended.harness.decoders import Emit, GenerationRequest, Prompt
from openended.harness.generation import generate_texts
from openended.harness.models import (
    check_ids,
    check_weights,
    decode_continuation,
    describe_broken_weights,
    find_added_ids,
    find_eos_ids,
    get_bos_prefix,
    hide_loading_report,
    load_tokenizer,
)

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.core import CausalModel


_MOST_NOISE = 6.9  # -log 0.001: their schedules end there (Sahoo et al. 2024: alpha = 1 - 0.999 t)


class DenoiserBackend:
    """A denoiser in memory."""

    def __init__(self, spec: DenoiserSpec, model: Any, device: str) -> None:  # noqa: ANN401 - a torch module
        import torch

        self.spec, self.model, self.device = spec, model, torch.device(device)
        self.tokenizer = load_tokenizer(spec.tokenizer_spec())
        self.eos_ids = find_eos_ids(spec.tokenizer_spec(), self.tokenizer)
        self.vocab_size = self._count_logits()
        self.block_size = spec.block_size
        self.context_length = spec.context_length()
        mask = find_mask_id(spec) if spec.noise == "mask" else None
        self.mask_id = -1 if mask is None else mask
        self._suffix = tuple(find_added_ids(self.tokenizer.inner)[1]) if spec.bos is not False else ()
        parameters = inspect.signature(model.forward).parameters
        self._takes_time = "timesteps" in parameters
        self._options = {"sample_mode": True} if "sample_mode" in parameters else {}
        if spec.time_input == "sigma" and not self._takes_time:
            raise SpecError(f"model {spec.title}: time_input=sigma, but its forward pass takes no `timesteps`")
        check_ids(spec.path, self.tokenizer.vocabulary(), self.vocab_size)

    def _count_logits(self) -> int:
        head = self.model.get_output_embeddings()
        return int(self.model.config.vocab_size if head is None else head.weight.shape[0])

    def bos_prefix(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Return the tokens that precede a text of these ids."""
        return get_bos_prefix(self.tokenizer.bos_prefix, ids)

    def continuation(self, prompt: Sequence[int], ids: Sequence[int]) -> str:
        """Return the text that `ids` add after `prompt`."""
        return decode_continuation(self.tokenizer, prompt, ids)

    def denoise(self, ids: Tensor, noise_level: float) -> Tensor:
        """Return the logits (B, L, V) of token ids (B, L); `noise_level` is -log alpha."""
        import torch

        options: dict[str, Any] = dict(self._options)
        if self._takes_time:
            level = min(noise_level, _MOST_NOISE) if self.spec.time_input == "sigma" else 0.0
            options["timesteps"] = torch.full((len(ids),), level, device=ids.device)
        out = self.model(input_ids=ids, **options)
        logits: Tensor = (out if isinstance(out, torch.Tensor) else out.logits).float()
        if not bool(logits.logsumexp(dim=-1).isfinite().all()):
            raise DataError(describe_broken_weights(cast("CausalModel", self), "its logits are not finite"))
        return torch.cat([logits[:, :1], logits[:, :-1]], dim=1) if self.spec.shifted else logits

    def provenance(self) -> dict[str, Any]:
        """Return how the model was loaded and whether its own code ran."""
        s = self.spec
        facts: dict[str, Any] = {"mask_id": self.mask_id, "noise": s.noise, "time_input": s.time_input}
        if not s.trust_remote_code:
            return {"denoiser": facts}
        code = f"{s.path}@{s.revision}"
        return {"denoiser": {**facts, "remote_code": code}, "notes": [f"{s.title}: code of the hub was run ({code})"]}

    def generate(self, request: GenerationRequest, emit: Emit, advance: Advance | None = None) -> None:
        """Fill every text; see `generation.denoise.denoise_texts`."""
        self.spec.demand("generate", request.decoder)
        prompts = [self._add_suffix(prompt) for prompt in request.prompts]
        generate_texts(cast("CausalModel", self), replace(request, prompts=prompts), emit, advance)

    def _add_suffix(self, prompt: Prompt) -> Prompt:
        """Return a prompt with the tokens behind the text: those after the mark, and those that the model expects."""
        if self.spec.infill is None:
            return replace(prompt, suffix_ids=self._suffix)
        parts = prompt.text.split(self.spec.infill)
        if len(parts) != 2:
            raise DataError(
                f"example {prompt.example_id}: expected model.infill={self.spec.infill!r} once in its prompt, found it "
                f"{len(parts) - 1} times"
            )
        before, after = (tuple(self.tokenizer.encode(part)) for part in parts)
        return replace(prompt, token_ids=before, suffix_ids=(*after, *self._suffix))


def load_denoiser(spec: DenoiserSpec, *, device: str = "cpu", device_map: DeviceMap | None = None) -> DenoiserBackend:
    """Load weights and tokenizer; eval mode, no gradients."""
    import torch
    import transformers

    spec.check_ready()
    spec.demand("generate")
    if device_map is not None:
        raise SpecError(f"runtime.device_map: a denoiser is on one device; set it to null for model {spec.title}")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise DataError(f"device {device}: no CUDA device is visible; use runtime.device=cpu")
    remote = spec.remote_class() if spec.trust_remote_code else None
    code = {"code_revision": spec.revision} if remote else {}
    loader = getattr(transformers, remote or "AutoModelForMaskedLM")
    try:
        with hide_loading_report():
            model, info = loader.from_pretrained(
                str(spec.folder or spec.path), revision=None if spec.folder else spec.revision,
                dtype=getattr(torch, spec.dtype), trust_remote_code=remote is not None, use_safetensors=True,
                ignore_mismatched_sizes=True, output_loading_info=True, **code,
            )  # fmt: skip
    except Exception as err:
        raise DataError(f"model {spec.path}: cannot be loaded as a masked model ({shorten_error(err)})") from err
    check_weights(spec.title, info, unused=_is_other_head)
    return DenoiserBackend(spec, model.to(device).eval().requires_grad_(requires_grad=False), device)


def _is_other_head(name: str) -> bool:
    """Return whether weights belong to a head that predicts no tokens."""
    return "pooler." in name or "seq_relationship" in name
