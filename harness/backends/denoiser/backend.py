"""A denoiser: a model in this process that proposes a token for every position from all others."""

import inspect
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from openended.harness import models
from openended.harness.backends.denoiser.denoising import DenoisingDecoder, Llada, Mdlm
from openended.harness.core import Advance, DataError, DeviceMap, Json, SpecError, model, option, ranged
from openended.harness.decoders import Decoder, Emit, GenerationRequest
from openended.harness.generation import generate_texts
from openended.harness.models import Ability, ModelSpec, load_tokenizer, tokenizer_digest

if TYPE_CHECKING:
    from torch import Tensor


_COMMIT = re.compile(r"[0-9a-f]{40}")
_MASK_FIELDS = ("mask_token_id", "mask_index")  # of config.json
_USUAL_MASKS = ("[MASK]", "<mask>", "<|mdm_mask|>", "<|mask|>")
_MOST_NOISE = 6.9  # -log 0.001: their schedules end there (Sahoo et al. 2024: alpha = 1 - 0.999 t)
_CLASSES = ("AutoModelForMaskedLM", "AutoModel", "AutoModelForCausalLM")


@model
class DenoiserSpec(ModelSpec):
    """A masked language model or diffusion model that fills positions in any order (docs/denoisers.md)."""

    name = "denoiser"
    loader = "openended.harness.backends.denoiser.backend:load_denoiser"
    runs_in_process = False  # neither `model=transformers` nor Ray's workers load it
    denoises = True
    abilities: ClassVar[frozenset[Ability]] = frozenset({"generate"})

    tokenizer: str | None = None
    """Hub id or folder of its tokenizer; null: in the model's own files."""
    noise: Literal["mask", "uniform"] = "mask"
    """or uniform: a uniform-state model, for decoder=duo."""
    mask_id: int | None = ranged(None, "[0, inf)", "0 or more, or null")
    """Id of the mask token; null: by config.json or the tokenizer."""
    time_input: Literal["none", "sigma"] = "none"
    """or sigma: the model reads the noise level -log alpha."""
    block_size: int | None = ranged(None, "[1, inf)", "1 or more, or null")
    """Tokens of a block, for models that write block after block; null: the whole text at once."""
    shifted: bool = False
    """true: logits at a position are for the next one (Dream)."""
    infill: str | None = option(None, lambda text: text != "", "a text that marks the position to fill, or null")
    """Text in a prompt in whose place the tokens are written; null: they follow the prompt."""
    trust_remote_code: bool = False
    """true: run the model's own code; the command line alone may set it, with revision=COMMIT; needs a commit as
    `revision`."""

    def check(self) -> None:
        super().check()
        whole = self.infill is None or self.block_size is None
        self.require(whole, "infill", "null with block_size: a block does not see what follows it")
        if self.trust_remote_code:
            self.require(self.folder is None, "path", "a hub id with trust_remote_code=true")
            pinned = self.revision is not None and _COMMIT.fullmatch(self.revision) is not None
            self.require(pinned, "revision", "a commit (40 hexadecimal digits) with trust_remote_code=true")

    def tokenizer_spec(self) -> ModelSpec:
        spec = super().tokenizer_spec()
        return replace(spec, path=self.tokenizer, revision=None) if self.tokenizer else spec

    def identity(self) -> dict[str, Json]:
        options = ("noise", "mask_id", "time_input", "block_size", "shifted", "infill", "trust_remote_code")
        used: dict[str, Json] = {name: getattr(self, name) for name in options}
        used |= {"backend": self.name, "tokenizer": tokenizer_digest(self.tokenizer_spec())}
        return super().identity() | used

    def context_length(self) -> int | None:
        """Number of positions, at most the tokenizer's maximum: RoBERTa's config counts two more."""
        limit = self.tokenizer_config().get("model_max_length")
        lengths = [n for n in (super().context_length(), limit) if isinstance(n, int) and n < 10**9]
        return min(lengths, default=None)

    def remote_class(self) -> str | None:
        """Return the transformers class by which the model's own code is loaded; None: transformers has the code."""
        auto_map: Mapping[str, Any] = self.config().get("auto_map") or {}
        for name in (n for n in _CLASSES if n in auto_map):
            if any("--" in str(value) for value in auto_map.values()):
                raise DataError(f"model {self.path}: its code is in another repository, which no commit pins")
            return name
        return None

    def cannot(self, ability: Ability, decoder: Decoder | None = None) -> str | None:
        if ability != "generate":
            return "a denoiser has no distribution over the next token, and embeds nothing; it only generates"
        if decoder is not None and not isinstance(decoder, DenoisingDecoder):
            return f"{decoder.name} writes from left to right; use decoder=mdlm, remdm, first_hitting, llada or duo"
        if decoder is not None and decoder.noise != self.noise:
            return f"{decoder.name} is for model.noise={decoder.noise}, got model.noise={self.noise}"
        if isinstance(decoder, Llada) and self.block_size is not None:
            return "llada has blocks of its own (decoder.block_length); set model.block_size=null"
        if isinstance(decoder, Mdlm) and decoder.cached and self.time_input != "none":
            return "decoder.cached=true needs model.time_input=none: the output changes with time"
        if not self.trust_remote_code and self.remote_class() is not None:
            return (
                "it has code of its own; to run it, set model.trust_remote_code=true and model.revision=COMMIT "
                "(SECURITY.md)"
            )
        if self.noise != "mask":
            return None
        mask, size = find_mask_id(self), self.config().get("vocab_size")
        if mask is None:
            return "no mask token in its config.json or tokenizer; set model.mask_id, or model.noise=uniform"
        if isinstance(size, int) and mask >= size:
            return f"model.mask_id={mask} is beyond the {size} tokens of its vocabulary"
        return None


@lru_cache
def find_mask_id(spec: DenoiserSpec) -> int | None:
    """Return the id of the mask token: by option, config.json, tokenizer_config.json or a usual name; None: none."""
    config = spec.config()
    named = [spec.mask_id, *(config.get(field) for field in _MASK_FIELDS)]
    token_id = next((value for value in named if isinstance(value, int)), None)
    if token_id is not None:
        return token_id
    vocabulary = load_tokenizer(spec.tokenizer_spec()).vocabulary()
    token = spec.tokenizer_spec().tokenizer_config().get("mask_token")
    token = token.get("content") if isinstance(token, dict) else token
    names = [name for name in (token, *_USUAL_MASKS) if name in vocabulary]
    return vocabulary[names[0]] if names else None


class DenoiserBackend(models.Backend):
    """A denoiser in memory."""

    def __init__(self, spec: DenoiserSpec, model: Any, device: str) -> None:  # noqa: ANN401 - a torch module
        import torch

        self.spec, self.model, self.device = spec, model, torch.device(device)
        self.tokenizer = load_tokenizer(spec.tokenizer_spec())
        self.eos_ids = models.find_eos_ids(spec.tokenizer_spec(), self.tokenizer)
        head = model.get_output_embeddings()
        self.vocab_size = int(model.config.vocab_size if head is None else head.weight.shape[0])
        self.block_size = spec.block_size
        self.context_length = spec.context_length()
        mask = find_mask_id(spec) if spec.noise == "mask" else None
        self.mask_id = -1 if mask is None else mask
        self._suffix = tuple(models.find_added_ids(self.tokenizer.inner)[1]) if spec.bos is not False else ()
        parameters = inspect.signature(model.forward).parameters
        self._takes_time = "timesteps" in parameters
        self._options = {"sample_mode": True} if "sample_mode" in parameters else {}
        if spec.time_input == "sigma" and not self._takes_time:
            raise SpecError(f"model {spec.title}: time_input=sigma, but its forward pass takes no `timesteps`")
        models.check_ids(spec.path, self.tokenizer.vocabulary(), self.vocab_size)

    def denoise(self, ids: "Tensor", noise_level: float) -> "Tensor":
        """Return the logits (B, L, V) of token ids (B, L); `noise_level` is -log alpha."""
        import torch

        options: dict[str, Any] = dict(self._options)
        if self._takes_time:
            level = min(noise_level, _MOST_NOISE) if self.spec.time_input == "sigma" else 0.0
            options["timesteps"] = torch.full((len(ids),), level, dtype=torch.float32, device=ids.device)
        out = self.model(input_ids=ids, **options)
        logits: Tensor = (out if isinstance(out, torch.Tensor) else out.logits).float()
        return torch.cat([logits[:, :1], logits[:, :-1]], dim=1) if self.spec.shifted else logits

    def provenance(self) -> dict[str, Any]:
        s = self.spec
        facts: dict[str, Any] = {"mask_id": self.mask_id, "noise": s.noise, "time_input": s.time_input}
        if not s.trust_remote_code:
            return {"denoiser": facts}
        code = f"{s.path}@{s.revision}"
        return {"denoiser": {**facts, "remote_code": code}, "notes": [f"{s.title}: code of the hub was run ({code})"]}

    def generate(self, request: GenerationRequest, emit: Emit, advance: Advance | None = None) -> None:
        self.spec.demand("generate", request.decoder)
        # Behind the text come the tokens after the mark, and those that the model expects.
        prompts = [replace(prompt, suffix_ids=self._suffix) for prompt in request.prompts]
        for number, prompt in enumerate(prompts if self.spec.infill is not None else ()):
            parts = prompt.text.split(self.spec.infill)
            if len(parts) != 2:
                raise DataError(
                    f"example {prompt.example_id}: expected model.infill={self.spec.infill!r} once in its prompt, "
                    f"found it {len(parts) - 1} times"
                )
            before, after = (tuple(self.tokenizer.encode(part)) for part in parts)
            prompts[number] = replace(prompt, token_ids=before, suffix_ids=(*after, *self._suffix))
        generate_texts(self, replace(request, prompts=prompts), emit, advance)

    def fill_texts(self, request: GenerationRequest, emit: Emit, advance: Advance) -> None:
        """Fill the texts of a request, whose prompts and suffixes stay as they are."""
        from openended.harness.backends.denoiser.denoising_loop import denoise_texts

        denoise_texts(self, request, emit, advance)


def load_denoiser(spec: DenoiserSpec, *, device: str = "cpu", device_map: DeviceMap | None = None) -> DenoiserBackend:
    """Load weights and tokenizer; eval mode, no gradients."""
    import transformers

    spec.check_ready()
    spec.demand("generate")
    if device_map is not None:
        raise SpecError(f"runtime.device_map: a denoiser is on one device; set it to null for model {spec.title}")
    models.check_cuda(device)
    remote = spec.remote_class() if spec.trust_remote_code else None
    code = {"code_revision": spec.revision, "trust_remote_code": True} if remote else {}
    loader = getattr(transformers, remote or "AutoModelForMaskedLM")

    def predicts_no_token(name: str) -> bool:  # the weights of some heads
        return "pooler." in name or "seq_relationship" in name

    model = models.read_weights(loader, spec, "model", what=" as a masked model", unused=predicts_no_token, **code)
    return DenoiserBackend(spec, model.to(device).eval().requires_grad_(requires_grad=False), device)
