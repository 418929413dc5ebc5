"""A model spread over several devices by accelerate, made to look like one on the device of its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openended.harness.core import MissingExtra

if TYPE_CHECKING:
    import torch


def require_accelerate() -> None:
    """Raise `MissingExtra` where accelerate is not installed."""
    try:
        import accelerate  # noqa: F401
    except ImportError as err:
        raise MissingExtra("accelerate", "large") from err


def is_spread(model: Any) -> bool:  # noqa: ANN401 - a transformers model
    """Say whether a model's weights lie in more than one place, so that only its own `forward` may touch them."""
    return len({str(place) for place in (getattr(model, "hf_device_map", None) or {}).values()}) > 1


def gather(model: Any) -> torch.device:  # noqa: ANN401 - a transformers model
    """Let body and output layer give their results on one device, and return it: the first accelerator, else the CPU.

    accelerate brings each module's inputs to where its weights are, but leaves outputs there; what reads hidden states
    and logits expects them where the token ids are.
    """
    import torch

    places = (getattr(model, "hf_device_map", None) or {"": "cpu"}).values()
    device = torch.device(next((p for p in places if str(p) not in ("cpu", "disk")), "cpu"))
    if is_spread(model):
        parts = {id(p): p for p in (model.base_model, model.get_decoder(), model.get_output_embeddings())}
        for part in parts.values():
            part.register_forward_hook(lambda _module, _inputs, out: _moved(out, device))
    return device


def _moved(out: Any, device: torch.device) -> Any:  # noqa: ANN401 - a tensor or a ModelOutput
    if hasattr(out, "to"):
        return out.to(device)
    for name in ("last_hidden_state", "logits"):
        if getattr(out, name, None) is not None:
            out[name] = out[name].to(device)
    if getattr(out, "hidden_states", None) is not None:
        out["hidden_states"] = tuple(states.to(device) for states in out.hidden_states)
    return out
