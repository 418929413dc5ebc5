"""Models of transformers in memory: causal language models, and embedders of three kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from openended.harness.core import DataError, DeviceMap, ExtraNotInstalled, require_package, shorten_error
from openended.harness.models import tokenizer as tokenizers
from openended.harness.models.backend import Backend
from openended.harness.models.embedder import EmbedderSpec
from openended.harness.models.failures import check_cuda
from openended.harness.models.families import choose_attention
from openended.harness.models.files import GGUF_WEIGHTS
from openended.harness.models.forward import run_forward
from openended.harness.models.score import sketch_gradients
from openended.harness.models.spec import ModelSpec
from openended.harness.models.tokenizer import TextTokenizer, check_ids, load_tokenizer

if TYPE_CHECKING:
    import torch


# Buffers that old checkpoints carry and no model reads from them.
_BUFFERS = (".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias", ".inv_freq", "position_ids")
_SHOWN = 3
NameTest = Callable[[str], bool]
Module = Any  # a model, a class of models or an output of transformers


def check_weights(title: str, info: Mapping[str, Any], unused: NameTest | None = None) -> None:
    """Refuse weights that transformers would have initialized at random or skipped, but `unused` names."""
    missing, other = (
        [k for k in info[f"{kind}_keys"] if not (unused and unused(k))] for kind in ("missing", "unexpected")
    )
    other = [name for name in other if not name.endswith(_BUFFERS)]
    wrong = [
        f"{k} ({'x'.join(map(str, has))} for {'x'.join(map(str, wants))})" for k, has, wants in info["mismatched_keys"]
    ]
    parts = [
        f"{len(names)} {what}: {', '.join(sorted(names)[:_SHOWN])}{', …' if len(names) > _SHOWN else ''}"
        for names, what in ((missing, "missing"), (wrong, "of another shape"), (other, "that the model has no use for"))
        if names
    ]
    parts += [str(line).splitlines()[0] for line in info.get("error_msgs", ())]
    if parts:
        raise DataError(f"model {title}: its weights do not fit its config.json ({'; '.join(parts)})")


def read_weights(
    loader: Module, spec: ModelSpec, who: str, *, what: str = "", unused: NameTest | None = None, **options: object
) -> Module:
    """Read the weights of a model, all of them and no others; `who` and `what` begin and end the line of a failure."""
    import torch
    from transformers.utils import logging

    source, revision = spec.source
    check_quantization(spec)
    if spec.is_gguf:
        options["gguf_file"] = GGUF_WEIGHTS
    options = {"trust_remote_code": False, "revision": revision, "dtype": getattr(torch, spec.dtype)} | options
    options |= {"use_safetensors": True, "ignore_mismatched_sizes": True, "output_loading_info": True}
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.CRITICAL)  # hides the report about weights that do not fit, which are refused below
    logging.disable_progress_bar()
    try:
        model, info = loader.from_pretrained(source, **options)
    except Exception as err:
        raise DataError(f"{who} {spec.path}: cannot be loaded{what} ({shorten_error(err)})") from err
    finally:
        logging.set_verbosity(verbosity)
    check_weights(spec.title, info, unused)
    return model


def check_quantization(spec: ModelSpec) -> None:
    """Refuse a quantization that transformers does not know: it would load the weights as if there were none."""
    method = (spec.config().get("quantization_config") or {}).get("quant_method")
    if method is None:
        return
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

    if str(method) not in AUTO_QUANTIZATION_CONFIG_MAPPING:
        raise DataError(
            f"model {spec.path}: its config.json names the quantization {method!r:.40}, which the installed "
            f"transformers does not read; it reads {', '.join(sorted(AUTO_QUANTIZATION_CONFIG_MAPPING))}"
        )


def has_many_devices(model: Module) -> bool:
    """Return whether a model's weights are on several devices, so that only its own `forward` may use them."""
    return len({str(device) for device in (getattr(model, "hf_device_map", None) or {}).values()}) > 1


def gather_outputs(model: Module) -> torch.device:
    """Move the outputs of body and output layer to one device, and return it: the first accelerator, else the CPU.

    accelerate brings each module's inputs to where its weights are, but leaves outputs there; what reads hidden states
    and logits expects them where the token ids are.
    """
    import torch

    devices = (getattr(model, "hf_device_map", None) or {"": "cpu"}).values()
    device = torch.device(next((p for p in devices if str(p) not in ("cpu", "disk")), "cpu"))
    if has_many_devices(model):
        from accelerate.utils import send_to_device

        parts = {id(p): p for p in (model.base_model, model.get_decoder(), model.get_output_embeddings())}
        for part in parts.values():
            part.register_forward_hook(lambda _module, _inputs, out: send_to_device(out, device))
    return device


_HEADS = tuple("cls. lm_head. classifier. pre_classifier. predictions. generator_ head. decoder. score.".split())


def is_output_layer(name: str) -> bool:
    """Return whether a weight belongs to an output layer or to a pooler, which masked models do not train."""
    return name.startswith(_HEADS) or "pooler." in name


@dataclass(frozen=True, eq=False)
class LanguageModel(Backend):
    """A model in memory, ready to score and to generate."""

    model: Any  # A transformers causal LM in eval mode
    tokenizer: TextTokenizer
    device: torch.device
    dtype: torch.dtype
    eos_ids: tuple[int, ...]  # tokens that end a text; empty where there is none
    vocab_size: int  # size of the logits, which may exceed the tokenizer's
    context_length: int | None
    spec: ModelSpec
    added_ids: tuple[Sequence[int], Sequence[int]] = (), ()  # special tokens that an encoder puts around a text

    forward = run_forward
    sketch_gradients = sketch_gradients


def load_model(spec: ModelSpec, *, device: str = "cpu", device_map: DeviceMap | None = None) -> LanguageModel:
    """Load weights and tokenizer; eval mode, no gradients, the model's own generation_config is ignored."""
    import torch
    from transformers import GenerationConfig

    from openended.harness.models.onednn import pack_layers

    spec.check_ready()
    reason = spec.cannot("score")
    if reason is not None:
        raise DataError(f"model {spec.title}: {reason}")
    if device_map is not None:
        require_package("accelerate", "large")
    else:
        check_cuda(device)
    model = _read_causal_weights(spec, device_map)
    target = torch.device(device) if device_map is None else gather_outputs(model)
    model = (model.to(target) if device_map is None else model).eval().requires_grad_(requires_grad=False)
    model.generation_config = GenerationConfig()
    model.config.pad_token_id = None  # transformers warns of filling, which is never read here, if it has an id
    if device_map is None:
        pack_layers(model)
    return wrap_model(model, spec, target)


def wrap_model(model: Module, spec: ModelSpec, device: torch.device) -> LanguageModel:
    """Return a model of transformers in eval mode with the tokenizer of its spec."""
    import torch

    tokenizer = load_tokenizer(spec)
    rows = int(model.get_input_embeddings().weight.shape[0])
    check_ids(spec.path, tokenizer.vocabulary(), rows, tokenizer.eos_ids)
    vocab_size = int((model.get_output_embeddings() or model.get_input_embeddings()).weight.shape[0])
    eos_ids, context_length, dtype = find_eos_ids(spec, tokenizer), spec.context_length(), getattr(torch, spec.dtype)
    return LanguageModel(model, tokenizer, device, dtype, eos_ids, vocab_size, context_length, spec)


def _read_causal_weights(spec: ModelSpec, device_map: DeviceMap | None) -> Module:
    """Read the weights with the selected attention."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, AutoModelForCausalLM

    source, revision = spec.source
    try:
        config = AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=False)
    except Exception as err:
        kind = str(spec.config().get("model_type"))
        if spec.config().get("auto_map"):
            reason = "its config.json names code of its own (auto_map), which is not run"
            raise DataError(f"model {spec.path}: {reason}") from err
        if "model type" in str(err) and kind in str(err):
            raise DataError(
                f"model {spec.path}: the installed transformers does not know model_type {kind!r} of its config.json; "
                "check the name, or install a newer transformers"
            ) from err
        raise DataError(f"model {spec.path}: cannot be loaded ({shorten_error(err)})") from err
    model_class = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    if model_class is None:
        raise DataError(
            f"model {spec.path}: the family {config.model_type} has no causal language model, which writes left to "
            "right; name another model"
        )
    kernels = choose_attention(model_class)
    config._attn_implementation = kernels  # overrides config.json
    model = read_weights(
        AutoModelForCausalLM, spec, "model", config=config, attn_implementation=kernels, device_map=device_map
    )
    used = model.config._attn_implementation
    if used != kernels:
        raise DataError(f"model {spec.path}: it was loaded with the attention {used!r} in place of {kernels!r}")
    return model


def find_eos_ids(spec: ModelSpec, tokenizer: TextTokenizer) -> tuple[int, ...]:
    """Return the tokens that end a text; an instruction model ends a turn too, as its template does."""
    eos_ids = tokenizer.eos_ids
    if not spec.chat_template:
        return eos_ids
    from openended.harness.models.chat import load_template

    end = load_template(spec).end()
    return eos_ids if end is None or end in eos_ids else (*eos_ids, end)


def load_embedder(spec: EmbedderSpec, *, device: str = "cpu") -> Module:
    """Load an embedder that is no causal model: a `LanguageModel`, or a sentence encoder for `embed_texts`."""
    if spec.traits.kind == "masked":
        return load_masked(spec.model_spec(), device=device)
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as err:
        raise ExtraNotInstalled("sentence-transformers", "embedders") from err
    try:
        options: dict[str, Any] = {"trust_remote_code": False, "model_kwargs": {"use_safetensors": True}}
        encoder = SentenceTransformer(spec.path, revision=spec.revision, device=device, **options)
    except Exception as err:
        raise DataError(f"embedder {spec.path}: cannot be loaded ({shorten_error(err)})") from err
    if spec.max_length is not None:
        encoder.max_seq_length = spec.max_length
    return encoder


def load_masked(spec: ModelSpec, *, device: str = "cpu") -> LanguageModel:
    """Load the body of a masked language model."""
    import torch
    from transformers import AutoModel

    from openended.harness.models.onednn import pack_layers

    spec.check_ready()
    model = read_weights(AutoModel, spec, "embedder", unused=is_output_layer)
    slow = tokenizers.load_transformers_tokenizer(spec)
    # RoBERTa's config counts two positions that no text can use.
    limits = [n for n in (spec.context_length(), slow.model_max_length) if n is not None and n < 10**9]
    model = model.to(device).eval().requires_grad_(requires_grad=False)
    pack_layers(model)
    lm = wrap_model(model, spec, torch.device(device))
    return replace(lm, context_length=min(limits, default=None), added_ids=tokenizers.find_added_ids(slow))
