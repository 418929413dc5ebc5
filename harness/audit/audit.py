"""Audit the texts of a run: was every token drawn from the Q that was asked for?"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from openended.harness import core
from openended.harness.audit import checks, positions
from openended.harness.audit.checks import Finding
from openended.harness.core import DataError, Ragged, UndefinedMetric
from openended.harness.decoders import QDecoder
from openended.harness.models import LanguageModel, ModelSpec, TextRequest
from openended.harness.storage import Entry, RowFile, RunRecord, find_input, read_entry, read_record

log = logging.getLogger(__name__)
LEAST_PAIRS = 20  # pairs of texts of a comparison of strings
TEXT_BINS = 4096  # hashed character n-grams of the comparison of strings
BINS = 40  # of the histogram of the transform


@dataclass(frozen=True)
class Audit:
    """The result of an audit."""

    title: str  # model and decoder
    texts: int
    tokens: int
    findings: Sequence[Finding]
    transform: Sequence[int]  # tokens in `BINS` equal parts of [0, 1]: by the mass of Q above each
    alarm_rate: float  # probability that an honest engine fails any of the checks

    @property
    def failures(self) -> list[Finding]:
        """The checks that failed."""
        return checks.find_failures(self.findings, self.alarm_rate)

    def describe(self) -> str:
        """Return the verdict in one line."""
        failed = self.failures
        head = f"{self.texts:,} texts, {self.tokens:,} tokens: "
        if failed:
            worst = "; ".join(f"{f.name}: {f.observed}" for f in failed[:3])
            return f"{head}NOT drawn from {self.title} ({len(failed)} of {len(self.findings)} checks; {worst})"
        names = ("temperature", "largest mass", "largest rank")
        seen = [f.visible for f in self.findings if f.visible and f.name in names]
        rest = f"; with 90 % would be seen: {', '.join(seen)}" if seen else ""
        return f"{head}consistent with {self.title}{rest}"


@dataclass(frozen=True)
class EngineTexts:
    """The texts of a run, and how they were asked for."""

    title: str  # model and decoder
    decoder: QDecoder
    request: TextRequest
    rows: RowFile
    seed: int | None
    min_new_tokens: int
    dtype: str  # of the engine
    streams: bool  # whether the tokens were drawn with the random streams of the harness

    @classmethod
    def from_entry(cls, entry: Entry, chat: Entry | None, *, model: str, backend: str) -> Self:
        """Read texts that were generated.

        Args:
            entry: The store's entry of the texts.
            chat: The prompts as the model read them, through its chat template; None: as they are.
            model: Its title.
            backend: Its name: `transformers`, `vllm`, `openai`.

        Raises:
            UndefinedMetric: If the decoder has no Q, or nobody knows the tokens that were drawn.
        """
        requested: dict[str, Any] = entry.recipe["spec"]
        file = "replies.arrow"  # whose answers are the texts, where a reply lists several
        file = file if file in entry.files else "data.arrow"
        decoder, rows = rebuild("decoder", requested["decoder"]), RowFile(entry.path / file)
        if not isinstance(decoder, QDecoder):
            raise UndefinedMetric(f"decoder {decoder.name} does not draw each token from a Q")
        if entry.meta.get("served", {}).get("texts_encoded_again"):
            raise UndefinedMetric(
                "the server returned strings, and the tokens that it drew are unknown; compare the strings with those "
                "of another engine: openended audit RUN --against RUN"
            )
        prompts = rows.prompt_ids
        if chat is not None:
            read = RowFile(chat.path / "chat.arrow")
            by_id = dict(zip(read.ids, read.prompt_ids, strict=True))
            prompts = Ragged.from_rows((by_id[i] for i in rows.ids), np.int64)
        request = TextRequest(prompts=prompts, continuations=rows.token_ids)
        seed, least, dtype = (requested[name] for name in ("seed", "min_new_tokens", "dtype"))
        has_streams = backend in ("transformers", "vllm") and decoder.stochastic
        return cls(f"{model} {decoder.title}", decoder, request, rows, seed, least, dtype, has_streams)


def rebuild(group: str, node: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a spec of the group
    """Return the spec of a node as records keep it."""
    cls = core.load_member(group, node["name"])
    return core.construct(cls, {f.name: node[f.name] for f in fields(cls) if f.init and f.name in node}, group)


def find_entry(folder: Path, *stages: str) -> tuple[RunRecord, Entry | None]:
    """Return the record of a run and the store's entry of one of these stages; None without one."""
    record = read_record(folder)
    texts = find_input(record.inputs, "model", *stages)
    return record, read_entry(folder / record.store / texts.artifact) if texts and record.store else None


def audit_run(
    folder: Path, *, reference: str | None = None, device: str = "cpu", batch_size: int = 32,
    suspects: bool = True, progress: bool = False,
) -> Audit:  # fmt: skip
    """Audit the texts of a run.

    Args:
        folder: Of the run.
        reference: Hub id or folder of the reference model, which transformers runs; None: the run's own model.
        device: Of the reference model.
        batch_size: Texts of one forward pass.
        suspects: Whether to compare with the same model with rounded weights (int8, 4 bits) too.
        progress: Whether to show progress.

    Raises:
        DataError: If the run has no texts of a decoder with a Q, or nobody knows the tokens that were drawn.
    """
    record, entry = find_entry(folder, "generate")
    if entry is None:
        raise DataError(f"{folder}: the run generated no texts; name one with a model and a decoder")
    model, title = record.spec["models"]["model"], record.titles["model"]
    try:
        chat = find_entry(folder, "chat")[1]
        texts = EngineTexts.from_entry(entry, chat, model=title, backend=model["name"])
    except UndefinedMetric as err:
        raise DataError(f"{folder}: {err}") from err
    is_hidden = any(str(model.get(name)).startswith("…") for name in ("path", "tokenizer"))  # a private folder
    spec: ModelSpec | None = ModelSpec(path=reference) if reference is not None else None
    if spec is None and not is_hidden:
        spec = rebuild("model", model).tokenizer_spec()
    if spec is None:
        raise DataError(
            f"{folder}: the record leaves out where the model {title} is, because its folder is private; type "
            f"openended audit {folder.name.rpartition('-')[2]} --reference FOLDER, or a hub id"
        )
    if (quantization := model.get("quantization")) and reference is not None:
        log.warning(
            "the texts are of weights in %s: a reference in other weights differs from them even if each token was "
            "drawn from Q; without --reference the run's own model is read",
            quantization,
        )
    lm = spec.load(device=device)
    return audit_texts(texts, lm, batch_size=batch_size, suspects=suspects, progress=progress)


def audit_texts(
    texts: EngineTexts, lm: LanguageModel, *, batch_size: int, suspects: bool = True,
    alarm_rate: float = checks.FALSE_ALARM_RATE,
    progress: bool = False,
) -> Audit:  # fmt: skip
    """Audit texts with a loaded reference model; an honest engine fails with a probability of `alarm_rate`.

    Raises:
        UndefinedMetric: If there is no token.
    """
    request = texts.request
    ended = ~texts.rows.stops
    if ended.any() and len(lm.eos_ids) != 1:
        log.warning("texts do not say which of %d end tokens ended them: their ends are not audited", len(lm.eos_ids))
        ended[:] = False
    tokens = (
        [*row.tolist(), *lm.eos_ids] if end else row.tolist()
        for row, end in zip(request.continuations, ended, strict=True)
    )
    read = Ragged.from_rows(map(lm.tokenizer.complete_prompt, request.prompts), np.int64)
    request = TextRequest(prompts=read, continuations=Ragged.from_rows(tokens, np.int64))
    if not len(request.continuations.values):
        raise UndefinedMetric(f"{texts.title}: its texts have no tokens")
    streams, rounding = None, positions.Rounding.from_dtypes(texts.dtype, lm.spec.dtype)
    if texts.streams and texts.seed is not None and not rounding.relative:  # else two near ties exchange their masses
        keys = zip(texts.rows.ids, texts.rows.samples, request.continuations.lengths.tolist(), strict=True)
        streams = [core.row_uniforms(texts.seed, *key) for key in keys]
    lms = {"reference": lm}
    if suspects:
        lms |= {name: positions.round_weights(lm, name) for name in positions.ROUNDED}
    with core.show_progress("audit", len(request.continuations.values), unit="tokens", enabled=progress) as advance:
        facts, totals = positions.measure_positions(
            lms, texts.decoder, request, streams, rounding,
            min_new_tokens=texts.min_new_tokens, batch_size=batch_size, advance=advance,
        )  # fmt: skip
    findings = checks.run_checks(facts, totals)
    counts = np.histogram(facts.by_rank, BINS, (0, 1))[0].tolist()
    return Audit(texts.title, len(request.continuations), len(facts.token), findings, counts, alarm_rate)


def read_strings(folder: Path) -> RowFile:
    """Return the texts of a run, generated or imported."""
    entry = find_entry(folder, "generate", "import")[1]
    if entry is None:
        raise DataError(f"{folder}: the run has no texts of its own; name one with a model and a decoder")
    return RowFile(entry.path / "data.arrow")


def compare_runs(first: Path, second: Path) -> tuple[str, bool]:
    """Compare the strings of two runs, text by text; return the verdict in one line, and whether they agree."""
    files = [read_strings(folder) for folder in (first, second)]
    left, right = (dict(zip(zip(f.ids, f.samples, strict=True), f.texts, strict=True)) for f in files)
    shared = [key for key in left if key in right]
    if len(shared) < LEAST_PAIRS:
        raise DataError(f"{first} and {second}: expected {LEAST_PAIRS} examples in both, got {len(shared)}")
    p_value = compare_texts([left[key] for key in shared], [right[key] for key in shared])
    is_passed = p_value > checks.FALSE_ALARM_RATE
    verdict = "consistent with one distribution" if is_passed else "NOT of one distribution"
    return f"{len(shared):,} pairs of texts: {verdict} (p = {p_value:.2g})", is_passed


def compare_texts(first: Sequence[str], second: Sequence[str]) -> float:
    """Return the p-value that two engines write the same distribution of strings, text by text for the same prompts.

    The squared difference of mean vectors of hashed character n-grams (n = 1 to 4), that is a kernel MMD, under random
    exchanges of the two texts of each pair.
    """
    if len(first) != len(second):
        raise DataError(f"expected as many texts of both engines, got {len(first)} and {len(second)}")
    differences = np.zeros((len(first), TEXT_BINS))
    for sign, texts in ((1.0, first), (-1.0, second)):
        for row, text in enumerate(texts):
            letters = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32).astype(np.int64)
            for n in range(1, 5):
                code = sum(letters[i : len(letters) - n + 1 + i] * 1_000_003**i for i in range(n)) + n
                bins = (checks.hash_ids(code) * TEXT_BINS).astype(np.int64)
                differences[row] += sign * np.bincount(bins, minlength=TEXT_BINS)[:TEXT_BINS] / max(len(text), 1)
    scale = np.sqrt((differences**2).sum(0)) + 1e-12
    return checks.compute_shift_p_value(differences / np.sqrt(scale))
