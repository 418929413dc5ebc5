"""Weights in memory: all that the config names and no others, on one device or spread over several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from openended.harness.core import DataError, ExtraNotInstalled

if TYPE_CHECKING:
    import torch

# Buffers that old checkpoints carry and no model reads from them.
_BUFFERS = (".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias", ".inv_freq", "position_ids")
_SHOWN = 3


def check_weights(title: str, info: Mapping[str, Any], *, unused: Callable[[str], bool] = lambda _: False) -> None:
    """Refuse weights that transformers would have initialized at random or skipped.

    Args:
        title: The model, for the error.
        info: Loading info of `from_pretrained(output_loading_info=True)`.
        unused: Which names make no difference, missing or not.

    Raises:
        DataError: Names the first weights of each kind.
    """
    missing = [k for k in info["missing_keys"] if not unused(k)]
    other = [k for k in info["unexpected_keys"] if not k.endswith(_BUFFERS) and not unused(k)]
    wrong = [f"{k} ({_format_shape(has)} for {_format_shape(wants)})" for k, has, wants in info["mismatched_keys"]]
    parts = [
        f"{len(names)} {what}: {', '.join(sorted(names)[:_SHOWN])}{', …' if len(names) > _SHOWN else ''}"
        for names, what in ((missing, "missing"), (wrong, "of another shape"), (other, "that the model has no use for"))
        if names
    ]
    parts += [str(line).splitlines()[0] for line in info.get("error_msgs", ())]
    if parts:
        raise DataError(f"model {title}: its weights do not fit its config.json ({'; '.join(parts)})")


def _format_shape(size: Any) -> str:  # noqa: ANN401 - a torch.Size
    return "x".join(str(n) for n in size)


@contextmanager
def hide_loading_report() -> Iterator[None]:
    """Hide what transformers prints about weights that do not fit their model: `check_weights` refuses them."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def require_accelerate() -> None:
    """Raise `ExtraNotInstalled` where accelerate is not installed."""
    try:
        import accelerate  # noqa: F401
    except ImportError as err:
        raise ExtraNotInstalled("accelerate", "large") from err


def has_many_devices(model: Any) -> bool:  # noqa: ANN401 - a transformers model
    """Return whether a model's weights are on several devices, so that only its own `forward` may use them."""
    return len({str(device) for device in (getattr(model, "hf_device_map", None) or {}).values()}) > 1


def gather_outputs(model: Any) -> torch.device:  # noqa: ANN401 - a transformers model
    """Move the outputs of body and output layer to one device, and return it: the first accelerator, else the CPU.

    accelerate brings each module's inputs to where its weights are, but leaves outputs there; what reads hidden states
    and logits expects them where the token ids are.
    """
    import torch

    devices = (getattr(model, "hf_device_map", None) or {"": "cpu"}).values()
    device = torch.device(next((p for p in devices if str(p) not in ("cpu", "disk")), "cpu"))
    if has_many_devices(model):
        parts = {id(p): p for p in (model.base_model, model.get_decoder(), model.get_output_embeddings())}
        for part in parts.values():
            part.register_forward_hook(lambda _module, _inputs, out: _move_outputs(out, device))
    return device


def _move_outputs(out: Any, device: torch.device) -> Any:  # noqa: ANN401 - a tensor or a ModelOutput
    if hasattr(out, "to"):
        return out.to(device)
    for name in ("last_hidden_state", "logits"):
        if getattr(out, name, None) is not None:
            out[name] = out[name].to(device)
    if getattr(out, "hidden_states", None) is not None:
        out["hidden_states"] = tuple(states.to(device) for states in out.hidden_states)
    return out
