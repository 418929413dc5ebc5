"""Models split over several devices by accelerate: bring their outputs to one device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openended.harness.core import ExtraNotInstalled

if TYPE_CHECKING:
    import torch


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
