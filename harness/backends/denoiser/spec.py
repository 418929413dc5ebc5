"""Spec of a denoiser: a model that proposes a token for every position from all others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from openended.harness.core import DataError, Json, register
from openended.harness.generation import DenoisingDecoder, Llada, Mdlm
from openended.harness.models import Ability, ModelSpec, load_tokenizer, tokenizer_digest

if TYPE_CHECKING:
    from openended.harness.decoders import Decoder

_COMMIT = re.compile(r"[0-9a-f]{40}")
_MASK_FIELDS = ("mask_token_id", "mask_index")  # of config.json
_USUAL_MASKS = ("[MASK]", "<mask>", "<|mdm_mask|>", "<|mask|>")
_CLASSES = ("AutoModelForMaskedLM", "AutoModel", "AutoModelForCausalLM")


@register("model")
@dataclass(frozen=True, kw_only=True)
class DenoiserSpec(ModelSpec):
    """A masked language model, or a diffusion model, that fills positions in any order."""

    name: ClassVar[str] = "denoiser"
    loader: ClassVar[str] = "openended.harness.backends.denoiser.backend:load_denoiser"
    runs_in_process: ClassVar[bool] = False  # neither `model=transformers` nor Ray's workers load it
    denoises: ClassVar[bool] = True
    abilities: ClassVar[frozenset[Ability]] = frozenset({"generate"})

    tokenizer: str | None = None
    """Hub id or folder of its tokenizer; null: in the model's own files."""
    noise: Literal["mask", "uniform"] = "mask"
    """What it was trained to remove: masks, or random tokens."""
    mask_id: int | None = None
    """Id of the mask token; null: by config.json or the tokenizer."""
    time_input: Literal["none", "sigma"] = "none"
    """Whether it reads the noise level -log alpha."""
    block_size: int | None = None
    """Tokens of a block, for models that write block after block; null: the whole text at once."""
    shifted: bool = False
    """Its logits at a position are for the next one."""
    infill: str | None = None
    """Text in a prompt in whose place the tokens are written; null: they follow the prompt."""
    trust_remote_code: bool = False
    """Run the model's own code from the hub; needs a commit as `revision`."""

    def check(self) -> None:
        """Refuse options out of range, and remote code that no commit pins."""
        super().check()
        self.require(self.mask_id is None or self.mask_id >= 0, "mask_id", "0 or more, or null")
        self.require(self.block_size is None or self.block_size >= 1, "block_size", "1 or more, or null")
        self.require(self.infill != "", "infill", "a text that marks the place, or null")
        whole = self.infill is None or self.block_size is None
        self.require(whole, "infill", "null with block_size: a block does not see what follows it")
        if self.trust_remote_code:
            self.require(self.folder is None, "path", "a hub id with trust_remote_code=true")
            pinned = self.revision is not None and _COMMIT.fullmatch(self.revision) is not None
            self.require(pinned, "revision", "a commit (40 hexadecimal digits) with trust_remote_code=true")

    def tokenizer_spec(self) -> ModelSpec:
        """Return the model whose tokenizer is used; its weights are not read."""
        return ModelSpec(
            path=self.tokenizer or self.path, label=self.label, revision=None if self.tokenizer else self.revision,
            dtype=self.dtype, chat_template=self.chat_template, bos=self.bos,
        )  # fmt: skip

    def identity(self) -> dict[str, Json]:
        """Return what identifies the model and how it is loaded."""
        options = ("noise", "mask_id", "time_input", "block_size", "shifted", "infill", "trust_remote_code")
        used: dict[str, Json] = {name: getattr(self, name) for name in options}
        return {
            **super().identity(), "backend": self.name, "tokenizer": tokenizer_digest(self.tokenizer_spec()), **used,
        }  # fmt: skip

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
                raise DataError(f"model {self.path}: its code lies in another repository, which no commit pins")
            return name
        return None

    def cannot(self, ability: Ability, decoder: Decoder | None = None) -> str | None:
        """Return why the model cannot do this: it only generates, with a sampler for its kind of noise."""
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
        return self._explain_mask_refusal() if self.noise == "mask" else None

    def _explain_mask_refusal(self) -> str | None:
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


__all__ = ["DenoiserSpec"]
