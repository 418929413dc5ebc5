"""Check that weights match their config: none missing, none unused, all of the right shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from openended.harness.core import DataError

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
