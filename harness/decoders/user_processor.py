"""A decoder of the user's own file: a LogitsProcessor of transformers, or a function of logits."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from openended.harness import core
from openended.harness.core import DataError, ModelInfo, SpecError, option
from openended.harness.decoders.base import SamplingDecoder
from openended.harness.decoders.truncation_rules import keep_all

if TYPE_CHECKING:
    from torch import Tensor

Process = Callable[["Tensor", "Tensor"], "Tensor"]
"""(token ids so far, scores) → scores, as a LogitsProcessor; -inf forbids a token."""
USE = "type decoder=FILE.py:NAME, a LogitsProcessor of transformers or a function of logits"


@core.decoder
class UserProcessor(SamplingDecoder):
    """Sampling from the softmax of what your own file makes of the logits: `decoder=file.py:NAME`.

    NAME is a LogitsProcessor of transformers, a class of one that needs no arguments, or a function of (token ids,
    scores) or of scores alone. It is called with one text at a time, and must return the same for the same arguments,
    so that a text depends neither on its batch nor on what was generated before.
    """

    name = "user_processor"
    synonyms = ("own", "custom", "logits_processor", "processor")
    rule = staticmethod(keep_all)
    unkeyed: ClassVar[frozenset[str]] = frozenset({"path"})

    path: str = ""
    """The Python file, which runs with your rights."""
    member: str = option("", lambda name: not name or name.isidentifier(), "the name of a class or a function")
    """The class, function or processor."""
    code: str = ""
    """Digest of the file, in every key and signature; filled in."""

    def check(self) -> None:
        if not self.path:  # a record names no path, so nothing runs the code of somebody else's record
            self.require(not self.code, "path", f"the file whose digest is {self.code}: {USE}")
            return
        is_source = Path(self.path).suffix == ".py" and Path(self.path).is_file()
        digest = core.digest_file(Path(self.path))[:16] if is_source else ""
        self.require(bool(digest), "path", "a Python file that exists")
        self.require(self.code in ("", digest), "code", f"the digest of {self.path}, {digest}")
        object.__setattr__(self, "code", digest)

    @property
    def title(self) -> str:
        """The name of the class or function, and the options that differ from their defaults."""
        hidden = tuple(f"{name}=" for name in ("path", "member", "code"))
        options = (word for word in super().title.split()[1:] if not word.startswith(hidden))
        return " ".join([self.member or self.name, *options])

    @property
    def penalizes(self) -> bool:
        """True: Q depends on the file."""
        return True

    def check_model(self, model: ModelInfo) -> None:
        """Load the file before any model; refuse a decoder without one."""
        self.require(bool(self.path and self.member), "path", f"a file: {USE}")
        self._load()

    def _load(self) -> Process:
        return load_process(self.path, self.code, self.member)

    def apply_extra_penalty(self, logits: Tensor, history: Tensor, lengths: Tensor | None) -> Tensor:
        """Return what the file makes of the logits of each text."""
        if not self.path:
            return logits
        process, out = self._load(), logits.clone()
        for row in range(len(logits)):
            size = history.shape[1] if lengths is None else int(lengths[row])
            part = logits[row : row + 1].clone()
            scores = process(history[row : row + 1, :size], part)
            is_valid = scores.shape == part.shape and bool(scores.isfinite().any()) and not bool(scores.isnan().any())
            if not is_valid:
                raise DataError(
                    f"decoder {self.path}:{self.member}: expected scores of shape {tuple(part.shape)} without NaN and "
                    f"one of them finite, got shape {tuple(scores.shape)}, {int(scores.isfinite().sum())} finite"
                )
            out[row] = scores[0]
        return out


@lru_cache
def load_process(path: str, code: str, member: str) -> Process:
    """Import a file and return what it has under a name, as a function of token ids and scores."""
    spec = importlib.util.spec_from_file_location(f"openended_processor_{code}", path)
    if spec is None or spec.loader is None:
        raise SpecError(f"decoder {path}: expected a Python file; {USE}")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        processor: Any = getattr(module, member, None)
        if not callable(processor):
            names = [name for name, value in vars(module).items() if callable(value)]
            raise SpecError(f"decoder {path}: no class or function {member!r}{core.suggest(member, names)}")
        processor = processor() if inspect.isclass(processor) else processor
        takes_ids = len(inspect.signature(processor).parameters) > 1
    except SpecError:
        raise
    except Exception as err:
        reason = f"{type(err).__name__}: {core.shorten_error(err)}{core.format_last_frame(err)}"
        raise SpecError(f"decoder {path}:{member}: {reason}") from err
    process: Process = processor if takes_ids else lambda _, scores: processor(scores)
    return process
