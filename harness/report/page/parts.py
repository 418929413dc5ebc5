"""The texts of a page as data: what is known of each text, and its parts: embedded if small, else in files.

A part is JSON under a name. In a file it is a script that calls `openendedPart(name, …)`: a page that was opened by a
double click may load scripts from its folder, but may not fetch.

    sides            ids-S, prompts-S-J      example ids of side S; its prompts, `PART_SIZE` per part
    sources          source-K, texts-K-J     whose rows they are, stop reasons and numbers; texts, `PART_SIZE` per part
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openended.harness.core import F64, I64, SHORTENED, Floats, Ragged, read_tokenizer_file, write_text
from openended.harness.report.page.sources import HUMAN, PageTexts, TextSource
from openended.harness.results import Run, locate_verified_file
from openended.harness.storage import VECTORS

PART_SIZE = 500  # examples, or texts, per part
INLINE_TEXTS, INLINE_CHARACTERS = 5_000, 1_500_000  # embedded in the page; more go to files
FOLDER = "page"
MOST_PAIRS = 30_000_000  # comparisons of one source with the human side; beyond, similarity is left out
ROWS = 512  # compared at once
PER_EXAMPLE_PREFIX = "per_example/"
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-"
STEP = 0.25  # nats: one step of the scale of the page's colors
BUNDLED = "bundled:"
UNKNOWN = "\ufffd"  # decoded from an incomplete character


def build_parts(page_texts: PageTexts) -> tuple[dict[str, Any], Iterator[tuple[str, Any]]]:
    """Return the table of contents, filled while the parts are read, and name → part, one at a time."""
    sides = [{"name": side.name, "n": len(side.prompts)} for side in page_texts.sides]
    contents: dict[str, Any] = {"part": PART_SIZE, "sides": sides, "systems": list(page_texts.systems)}
    contents |= {"sources": [], "values": {}}

    def iterate_parts() -> Iterator[tuple[str, Any]]:
        for number, side in enumerate(page_texts.sides):
            yield f"ids-{number}", list(side.prompts)
            prompts = list(side.prompts.values())
            for part, start in enumerate(range(0, len(prompts), PART_SIZE)):
                yield f"prompts-{number}-{part}", prompts[start : start + PART_SIZE]
        positions = [{name: position for position, name in enumerate(side.prompts)} for side in page_texts.sides]
        tokenizers: dict[str, Any] = {}  # of scorers
        for number, source in enumerate(page_texts.sources):
            nll = read_token_nll(source)
            values = compute_text_values(source, nll)
            head = _describe_rows(source, page_texts, positions[source.side], values)
            contents["values"] |= {n: [v.title, v.direction] for n, v in values.items()}
            yield f"source-{number}", head
            texts, letters = source.rows.each("text"), _encode_lengths_and_surprise(source, nll, tokenizers)
            for part in range(-(-len(source.rows) // PART_SIZE)):
                content: dict[str, Any] = {"text": list(islice(texts, PART_SIZE))}
                if letters is not None:
                    chunk = list(islice(letters, PART_SIZE))
                    content |= {"tokens": [tokens for tokens, _ in chunk], "surprise": [steps for _, steps in chunk]}
                yield f"texts-{number}-{part}", content
            identity = {"system": source.system, "side": source.side, "seed": source.seed}
            counts = {"n": len(source.rows), "samples": max(source.rows.samples, default=0) + 1}
            contents["sources"].append(identity | counts | {"values": list(values), "tokens": letters is not None})
            if nll is not None and letters is None:
                contents["uncolored"] = source.runs[0].axes.get("scorer") or "the scorer"

    return contents, iterate_parts()


def _describe_rows(
    source: TextSource, page_texts: PageTexts, positions: Mapping[str, int], values: "dict[str, TextValue]"
) -> dict[str, Any]:
    """Return each row's example, sample and stop reason, and its values."""
    examples = [positions[i] for i in source.rows.ids]
    head: dict[str, Any] = {
        "example": examples if examples != list(range(len(positions))) else None,
        "sample": list(source.rows.samples) if any(source.rows.samples) else None,
        "cut": "".join("1" if cut else "0" for cut in source.rows.stops),
    }
    human = page_texts.find_human(source)
    near = find_nearest_human_texts(source, human) if human is not None else None
    if near is not None and human is not None:
        values["nearest"] = TextValue("similarity to the nearest human text", "none", near[0])
        head["nearest"] = [positions[human.rows.ids[at]] for at in near[1]]
    rounded = {
        n: [float(f"{x:.4g}") if math.isfinite(x) else None for x in v.values.tolist()] for n, v in values.items()
    }
    return head | {"values": rounded}


def _encode_lengths_and_surprise(
    source: TextSource, nll: Ragged | None, tokenizers: dict[str, Any]
) -> Iterator[tuple[str, str]] | None:
    """Encode each text's token lengths and surprise, a letter per token; None if unknown for all texts."""
    run = source.runs[0]
    scorer = str(run.axes.get("scorer.path"))
    if nll is not None and scorer not in tokenizers:
        tokenizers[scorer] = load_tokenizer(run)
    tokenizer = tokenizers.get(scorer)
    if nll is None or tokenizer is None:
        return None

    rows, surprise, offsets = source.rows, encode_letters(np.clip(nll.values / STEP, 0, len(DIGITS) - 1)), nll.offsets

    def iterate_letters() -> Iterator[tuple[str, str]]:
        bounds = pairwise(offsets.tolist())
        for text, ids, (start, end) in zip(rows.each("text"), rows.token_ids, bounds, strict=True):
            lengths = measure_tokens(tokenizer, text, ids.tolist(), end - start)
            if lengths is None or max(lengths) >= len(DIGITS):  # no letter is so long
                yield "", ""
            else:
                yield encode_letters(lengths), surprise[start:end]

    return iterate_letters() if any(tokens for tokens, _ in iterate_letters()) else None


def fits_inside(page_texts: PageTexts) -> bool:
    """Return whether the texts are few enough to be embedded in the page."""
    if sum(len(s.rows) for s in page_texts.sources) > INLINE_TEXTS:
        return False
    texts = sum(len(t) for s in page_texts.sources for t in s.rows.each("text"))
    return texts + sum(len(p) for side in page_texts.sides for p in side.prompts.values()) <= INLINE_CHARACTERS


def to_script_json(value: Any) -> str:  # noqa: ANN401
    """Return JSON for a script element, escaped so that no text can close the element."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def write_beside(parts: Iterator[tuple[str, Any]], folder: Path) -> list[Path]:
    """Write parts as scripts into the folder next to the page and return their files."""
    written: list[Path] = []
    for name, part in parts:
        written.append(folder / FOLDER / f"{name}.js")
        write_text(written[-1], f"openendedPart({to_script_json(name)},{to_script_json(part)})\n")
    return written


class TextValue(NamedTuple):
    """One number for every text of a source."""

    title: str
    direction: str  # `higher`, `lower`, `match_human` or `none`
    values: F64  # shape (texts,); NaN where a text has none


def compute_text_values(source: TextSource, nll: Ragged | None) -> dict[str, TextValue]:
    """Return name → value of each text of a source; `nll` is the result of `read_token_nll`."""
    words = np.fromiter((len(text.split()) for text in source.rows.each("text")), dtype=np.float64)
    values = {"words": TextValue("words", "match_human", words)}
    if nll is not None:
        means = np.array([np.mean(row, dtype=np.float64) if len(row) else np.nan for row in nll])
        values["nll"] = TextValue("surprise (nats per token)", "match_human", means)
    for run in source.runs:
        for row in run.results:
            if row.system != source.role or row.artifact is None:
                continue
            for name, array in source.results.arrays(run, row.artifact).items():
                key = name.removeprefix(PER_EXAMPLE_PREFIX)
                full_name = f"{row.metric}.{key}"
                if name != key and full_name not in values and np.shape(array) == (len(words),):
                    title = row.titles.get(key, key.replace("_", " "))
                    direction = row.directions.get(key, row.direction)
                    values[full_name] = TextValue(title, direction, np.asarray(array, dtype=np.float64))
    return values


def read_token_nll(source: TextSource) -> Ragged | None:
    """Return the negative log-likelihood of every token under the scorer, nats; None where it is not stored."""
    for run in source.runs:
        losses = run.find_losses(source.role)
        flat, ends = (_load_array(source, run, losses, file) for file in ("nll_values.npy", "nll_offsets.npy"))
        if flat is not None and ends is not None and len(ends) == len(source.rows) + 1:
            return Ragged(flat, ends)
    return None


def find_nearest_human_texts(source: TextSource, human: TextSource) -> tuple[F64, I64] | None:
    """Return the greatest cosine similarity with a human text's embedding and that text's row; None where unknown.

    A human text is compared with the others.
    """
    for run in source.runs:
        vectors, human_vectors = (_load_embeddings(source, run, role) for role in (source.role, HUMAN))
        if vectors is None or human_vectors is None:
            continue
        if (len(vectors), len(human_vectors)) != (len(source.rows), len(human.rows)):
            continue
        if len(vectors) * len(human_vectors) > MOST_PAIRS or len(human_vectors) < 2:
            return None
        best, nearest = np.empty(len(vectors)), np.empty(len(vectors), dtype=np.int64)
        for start in range(0, len(vectors), ROWS):
            similarities = vectors[start : start + ROWS] @ human_vectors.T
            rows = np.arange(len(similarities))
            if source.role == HUMAN:
                similarities[rows, start + rows] = -np.inf
            nearest[start : start + ROWS] = similarities.argmax(axis=1)
            best[start : start + ROWS] = similarities.max(axis=1)
        return best, nearest
    return None


def _load_embeddings(source: TextSource, run: Run, role: str) -> F64 | None:
    """Return the embeddings of a side, scaled to unit length."""
    rows: Floats | None = _load_array(source, run, run.find_vectors(role), VECTORS)
    if rows is None:
        return None
    values = np.asarray(rows, dtype=np.float64)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    unit: F64 = np.divide(values, lengths, out=np.zeros_like(values), where=lengths > 0)
    return unit


def _load_array(source: TextSource, run: Run, artifact: str | None, file: str) -> NDArray[Any] | None:
    """Return a file of an artifact of a run; None if it is missing."""
    path = locate_verified_file(run.store, artifact, file, source.results.damaged)
    return np.load(path, mmap_mode="r", allow_pickle=False) if path is not None else None


def measure_tokens(tokenizer: Any, text: str, ids: Sequence[int], count: int) -> list[int] | None:  # noqa: ANN401
    """Return the length of each token in a text, UTF-16 units; None where tokens and text do not agree.

    `ids` may be those of another tokenizer; `count` is how many tokens the scorer saw. A character that several tokens
    share belongs to the last of them.
    """
    from tokenizers.decoders import DecodeStream

    if len(ids) != count:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
    if len(ids) != count or not count:
        return None
    stream = DecodeStream(skip_special_tokens=False)
    try:
        pieces = [stream.step(tokenizer, token) or "" for token in ids]
    except Exception:  # the package has no type of its own for bytes that are no character
        return None
    decoded = "".join(pieces)
    if text.rstrip(UNKNOWN) == decoded:  # the stream waits for the rest of a character that the text lacks
        pieces[-1] += text[len(decoded) :]
    return [len(piece.encode("utf-16-le")) // 2 for piece in pieces] if "".join(pieces) == text else None


def load_tokenizer(run: Run) -> Any:  # noqa: ANN401 - of an optional package
    """Return the tokenizer of a run's scorer; None if it is not on this machine."""
    where, revision = str(run.axes.get("scorer.path") or ""), str(run.axes.get("scorer.revision") or "") or None
    folder = Path(where).expanduser()
    path: Path | None = folder / "tokenizer.json"
    if where.startswith(BUNDLED):
        assets = Path(str(resources.files("openended.harness"))) / "assets"
        path = assets / where.removeprefix(BUNDLED) / "tokenizer.json"
    elif where.count("/") == 1 and not where.startswith(SHORTENED) and not folder.is_dir():
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(where, "tokenizer.json", revision=revision)  # searches only the disk
        path = Path(cached) if isinstance(cached, str) else None
    if not where or path is None or not path.is_file():
        return None
    return read_tokenizer_file(path)


def encode_letters(numbers: ArrayLike) -> str:
    """Return a letter of `DIGITS` for each number, rounded down."""
    return "".join([DIGITS[n] for n in np.asarray(numbers, dtype=np.int64).tolist()])
