"""Load tokenizers that add no special tokens and do no clean-up; no weights, no torch."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness import core
from openended.harness.core import (
    DataError,
    Ragged,
    Tokenizer,
    digest,
    read_tokenizer_file,
    require_package,
    shorten_error,
)
from openended.harness.models.files import TOKENIZERS, digest_files, list_tokenizer_files
from openended.harness.models.spec import ModelSpec

# A UTF-8 character has at most four bytes, so at most three trailing tokens can hold an incomplete character.
_PARTIAL_TOKENS = 3
_PARTIAL = "\N{REPLACEMENT CHARACTER}"
# Texts handed to a batch tokenizer at once: bounds its memory.
_TOKENIZE = 1024
# A text that every tokenizer can encode, to find the special tokens put around it.
_PROBE = "a"
_CONFIGS = ("tokenizer_config.json", "config.json")
_USUAL_ENDS = ("<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>")


@dataclass(frozen=True)
class TextTokenizer:
    """A tokenizer that adds no special tokens and cleans nothing up."""

    inner: Any  # A `tokenizers.Tokenizer` or a transformers tokenizer
    eos_ids: tuple[int, ...]  # tokens that end a text, as the model's configs name them; empty where there is none
    byte_level: bool
    """True where the text of a sequence is the concatenation of the texts of its parts (up to split characters)."""
    bos_prefix: tuple[int, ...] = ()
    """Read before every text: the beginning-of-text token, if `bos` or the tokenizer asks for it."""
    bos_id: int | None = None
    """The beginning-of-text token that config.json names; it stands for an empty prompt."""

    @property
    def start_id(self) -> int:
        """The token before an empty prompt: the beginning-of-text token, else an end token, else 0."""
        return next(iter(self.eos_ids), 0) if self.bos_id is None else self.bos_id

    def find_prefix(self, ids: Sequence[int] | NDArray[Any]) -> tuple[int, ...]:
        """Return the tokens that precede a text of these ids: `bos_prefix`, unless the text has it."""
        return () if tuple(ids[: len(self.bos_prefix)]) == self.bos_prefix else self.bos_prefix

    def complete_prompt(self, ids: Sequence[int] | NDArray[Any]) -> tuple[int, ...]:
        """Return what a model reads for a prompt: its ids with the beginning-of-text token; never empty."""
        return (*self.find_prefix(ids), *map(int, ids)) or (self.start_id,)

    def vocabulary(self) -> dict[str, int]:
        return dict(self.inner.get_vocab())

    def special_tokens(self) -> dict[int, str]:
        """Return id → text of the special tokens; written out in a text, each is read as that one token."""
        added = getattr(self.inner, "added_tokens_decoder", None)
        tokens = self.inner.get_added_tokens_decoder() if added is None else added
        return {int(i): token.content for i, token in tokens.items() if token.special}

    def encode(self, text: str) -> list[int]:
        try:
            encoding = self.inner.encode(text, add_special_tokens=False)
        except BaseException as err:  # a regular expression of a tokenizer that fails is no `Exception`
            if type(err).__name__ != "PanicException":
                raise
            raise DataError(f"the model's tokenizer cannot split {text!r:.60} ({shorten_error(err)})") from None
        return list(encoding if isinstance(encoding, list) else encoding.ids)

    def decode(self, ids: Sequence[int]) -> str:
        is_fast = type(self.inner).__module__.startswith("tokenizers")
        options = {} if is_fast else {"clean_up_tokenization_spaces": False}
        return str(self.inner.decode([int(i) for i in ids], skip_special_tokens=False, **options))


def load_tokenizer(spec: ModelSpec) -> TextTokenizer:
    """Load only the tokenizer; without torch if there is a tokenizer.json."""
    require_package("tokenizers", "local")
    path = spec.find_file("tokenizer.json")
    try:
        if path is not None and path.is_file():
            inner = read_tokenizer_file(path)
            usual_ends = [i for i in map(inner.token_to_id, _USUAL_ENDS) if i is not None]
            byte_level = type(inner.decoder).__name__ == "ByteLevel"
        else:
            inner = load_transformers_tokenizer(spec)
            usual_ends, byte_level = [i for i in [inner.eos_token_id] if i is not None], False
        end_ids = spec.end_ids() or tuple(usual_ends[:1])  # by the configs, else the first usual name
        return TextTokenizer(inner, end_ids, byte_level, find_bos_prefix(spec, inner), spec.bos_id())
    except DataError:
        raise
    except Exception as err:
        name = "tokenizer" if path is None else path.name
        raise DataError(f"model {spec.path}: cannot load its {name} ({shorten_error(err)})") from err


def load_transformers_tokenizer(spec: ModelSpec) -> Any:  # noqa: ANN401
    """Load the tokenizer of transformers."""
    if spec.folder is None:
        spec.config()  # raises where the model is not on this machine, before transformers is imported
    from transformers import AutoTokenizer

    where, revision = spec.source
    if spec.folder is not None and not any((spec.folder / name).is_file() for name in _CONFIGS):
        raise DataError(
            f"model {spec.path}: its tokenizer has no configuration (expected tokenizer.json, tokenizer_config.json or "
            "config.json); save it with save_pretrained of transformers"
        )
    try:
        return AutoTokenizer.from_pretrained(where, revision=revision, trust_remote_code=False)
    except Exception as err:
        raise DataError(f"model {spec.path}: cannot load its tokenizer ({shorten_error(err)})") from err


@core.cache_in_plan
def digest_encoding(spec: ModelSpec) -> str:
    """Return a digest that is equal for tokenizers that give texts the same token ids.

    Of what the tokenizer.json says, wherever it is; files that decide only special tokens around a text are left out.
    """
    path = spec.find_file(TOKENIZERS[0], optional=True)
    if path is None or not path.is_file():
        return tokenizer_digest(spec)
    return digest(digest_files(path.parent, [path]))


def tokenizer_digest(spec: ModelSpec) -> str:
    """Return the SHA-256 (hex) that identifies the tokenizer: of its files, or of hub id and commit."""
    folder = spec.folder
    if folder is None:
        return digest(["tokenizer", spec.path, spec.commit()])
    if not any((folder / name).is_file() for name in TOKENIZERS):
        raise DataError(f"model {spec.path}: no tokenizer in the folder (expected tokenizer.json)")
    return digest(digest_files(folder, list_tokenizer_files(folder)))


@dataclass(frozen=True, slots=True)
class LengthLimit:
    """How long a text may be: in tokens, and without a tokenizer in words, or characters of a script without spaces."""

    most: int | None
    by_chars: bool = False
    """Whether most human texts are in such a script."""
    tokenizer: Tokenizer | None = None
    """Whose tokens count; None: those of the tokenizer that the texts are kept in."""

    def cut(self, prompt: str, text: str) -> str:
        """Return the first `most` tokens of a text after its prompt, as text that ends with a whole character."""
        if self.tokenizer is None or self.most is None:
            return text
        before = self.tokenizer.encode(prompt)
        ids = tokenize_continuation(self.tokenizer, prompt, before, text)
        if len(ids) <= self.most:
            return text
        for length in range(self.most, max(self.most - _PARTIAL_TOKENS, 0) - 1, -1):
            cut = decode_continuation(self.tokenizer, before, ids[:length])
            if text.startswith(cut) and not cut.endswith(_PARTIAL):
                return cut
        # The tokenizer rewrites texts (case, spaces, Unicode), so that the cut is looked for in the text itself.
        encode = partial(tokenize_continuation, self.tokenizer, prompt, before)
        return text[: bisect_right(range(1, len(text)), self.most, key=lambda end: len(encode(text[:end])))]


def tokenize_texts(tokenizer: Tokenizer, texts: Iterable[str]) -> Ragged:
    """Return token ids of texts, no special tokens added."""
    batch = getattr(getattr(tokenizer, "inner", None), "encode_batch_fast", None)
    if batch is None:
        return Ragged.from_rows((tokenizer.encode(text) for text in texts), np.int64)
    left = iter(texts)
    parts = iter(lambda: list(islice(left, _TOKENIZE)), [])
    rows = (np.asarray(e.ids, np.int64) for part in parts for e in batch(part, add_special_tokens=False))
    return Ragged.from_rows(rows, np.int64)


def tokenize_continuation(tokenizer: Tokenizer, prompt: str, before: Sequence[int], text: str) -> list[int]:
    """Return the token ids of a text that continues a prompt, as a model would write them after the prompt's own.

    A tokenizer that marks the beginning of a text (SentencePiece's "▁") would mark that of the continuation too, which
    no model does: there the ids are those of both together less the prompt's. Where a token spans the border, what
    follows a line break takes the place of the prompt. A byte-level tokenizer gives every part its own ids.
    """
    if getattr(tokenizer, "byte_level", True) or not prompt:
        return tokenizer.encode(text)
    for start, prefix in ((prompt, list(before)), ("\n", tokenizer.encode("\n"))):
        full = tokenizer.encode(start + text)
        if prefix and full[: len(prefix)] == prefix:
            return full[len(prefix) :]
    return tokenizer.encode(text)


def decode_continuation(tokenizer: Tokenizer, before: Sequence[int], ids: Sequence[int]) -> str:
    """Return the text that `ids` add after `before`: keeps the space that some tokenizers drop at a start."""
    if getattr(tokenizer, "byte_level", True) or not len(before):
        return tokenizer.decode(ids)
    start, full = tokenizer.decode(before), tokenizer.decode([*before, *ids])
    return full[len(start) :] if full.startswith(start) else tokenizer.decode(ids)


def cut_continuation(
    tokenizer: Tokenizer | None, prompt: str, before: Sequence[int], text: str, ids: tuple[int, ...], limit: LengthLimit
) -> tuple[str, tuple[int, ...], bool]:
    """Return a text and its ids cut at the limit, and whether it was cut.

    Where another tokenizer counts, the ids are the fewest whose text contains that of the cut.
    """
    most = limit.most
    if limit.tokenizer is not None:
        cut = limit.cut(prompt, text)
        if tokenizer is not None and cut != text:
            decode = partial(decode_continuation, tokenizer, before)
            ids = ids[: bisect_left(range(len(ids)), len(cut), key=lambda end: len(decode(ids[:end])))]
        return cut, ids, cut != text
    if tokenizer is None:
        cut = text if most is None else core.take_first_words(text, most, limit.by_chars)
        return cut, ids, cut != text
    if most is None or len(ids) <= most:
        return text, ids, False
    return decode_continuation(tokenizer, before, ids[:most]), ids[:most], True


def tokenize_pairs(tokenizer: Tokenizer, prompts: Sequence[str], texts: Iterable[str]) -> tuple[Ragged, Ragged]:
    """Return token ids of prompts and of the texts that continue them."""
    before = tokenize_texts(tokenizer, prompts)
    if getattr(tokenizer, "byte_level", True):
        return before, tokenize_texts(tokenizer, texts)
    rows = zip(prompts, before, texts, strict=True)
    return before, Ragged.from_rows((tokenize_continuation(tokenizer, p, b.tolist(), t) for p, b, t in rows), np.int64)


def find_bos_prefix(spec: ModelSpec, inner: Any) -> tuple[int, ...]:  # noqa: ANN401 - of tokenizers or of transformers
    """Return the beginning-of-text token if the model reads it first: by `bos`, else as its tokenizer does."""
    if spec.bos is False:
        return ()
    before, _ = find_added_ids(inner)
    config = spec.tokenizer_config()
    adds = config.get("add_bos_token")
    if spec.bos is None and adds is None and before:
        return tuple(before)
    if not (spec.bos or adds):
        return ()
    name = config.get("bos_token")
    name = name.get("content") if isinstance(name, dict) else name
    token_id = inner.get_vocab().get(name) if isinstance(name, str) else None
    bos_id = int(token_id) if token_id is not None else spec.config().get("bos_token_id")
    if isinstance(bos_id, int):
        return (bos_id,)
    raise DataError(f"model {spec.title}: bos=true, but neither its tokenizer nor its config.json names such a token")


def find_added_ids(inner: Any) -> tuple[list[int], list[int]]:  # noqa: ANN401
    """Return the special tokens that a tokenizer puts before a text, and behind it."""
    encodings = [inner.encode(_PROBE, add_special_tokens=special) for special in (False, True)]
    bare, full = (list(encoding if isinstance(encoding, list) else encoding.ids) for encoding in encodings)
    at = next((i for i in range(len(full)) if full[i : i + len(bare)] == bare), 0)
    return full[:at], full[at + len(bare) :]


def check_ids(name: str, vocabulary: Mapping[str, int], vocab_size: int, end_ids: Sequence[int] = ()) -> None:
    """Refuse a tokenizer with ids that the model has no embedding for, and end tokens that it cannot write."""
    if beyond := [i for i in end_ids if not 0 <= i < vocab_size]:
        raise DataError(
            f"model {name}: eos_token_id of its config.json or generation_config.json is {beyond[0]}, its weights have "
            f"{vocab_size} embeddings; no text would end"
        )
    token, largest = max(vocabulary.items(), key=lambda item: item[1], default=("", -1))
    if largest >= vocab_size:
        raise DataError(
            f"model {name}: its tokenizer has the id {largest} ({token!r:.40}), its weights have {vocab_size} "
            "embeddings; use the tokenizer that the model was trained with"
        )
