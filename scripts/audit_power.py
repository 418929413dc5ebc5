"""Measure which faults of an engine `openended audit` finds, and how often it accuses an honest one.

    python scripts/audit_power.py faults|honest|half [--texts 320] [--audits 100] [--only WORD] [--write PAGE]

The contexts are texts of 64 tokens that the bundled docs-m wrote. At each position an engine draws four tokens from its
own Q, and the audit compares them with the Q that was asked for, given the same context. An audit draws all tokens anew
(20,480 of 320 texts, four to a context), so that thousands of audits need a few forward passes.

faults: sixteen faults, at temperature 1 without truncation unless they need another decoder. honest: engines without
a fault, for several decoders. half: honest engines in half precision that read one text at a time, against references
in float32 and in the same precision that read 32.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch

from openended.harness.audit import checks, positions
from openended.harness.audit.positions import Rounding
from openended.harness.backends import make_backend
from openended.harness.core import F64, I64, Ragged
from openended.harness.decoders import (
    GenerationRequest,
    Prompt,
    QDecoder,
    apply_penalties,
    compute_dense_q,
    parse_q_decoder,
)
from openended.harness.generation import iterate_batches, iterate_logits
from openended.harness.models import LanguageModel, ModelSpec, TextRequest, load_model
from openended.harness.run.audit import SIZE as RUN_SIZE

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.coverage import replace_rows

PROMPT, NEW = 16, 64  # tokens
COPIES = 4  # texts of an audit for each context
CHUNK = 512  # rows of Q in double precision at a time
COARSE = 64  # tokens that a draw skips at once
NOISE = 0.1  # standard deviation of the noise on logits
TEMPLATE = "### Question\n", "\n### Answer\n"
EXACT = Rounding.from_dtypes("float32")
HONEST = (
    "ancestral", "greedy", "top_k,k=1", "top_k,k=50", "min_p,p=0.1", "nucleus,p=0.95", "typical",
    "ancestral,repetition_penalty=1.1",
)  # fmt: skip
HALF = ("nucleus,p=0.95", "top_k,k=50", "min_p,p=0.1")
Draw = Callable[[np.random.Generator], I64]
Failures = list[tuple[list[str], bool]]  # of each audit: names of the failed checks, and whether a run would fail
Study = tuple[str, Callable[[], Failures]]  # a row of the table, and what computes it


class Contexts:
    """Texts at whose n positions tokens are drawn, and the `COPIES` · n tokens of an audit."""

    def __init__(self, lm: LanguageModel, texts: int) -> None:
        request = GenerationRequest(
            prompts=[Prompt(str(i), 0, ()) for i in range(texts)], decoder=parse_q_decoder("ancestral"), seed=0,
            max_new_tokens=PROMPT + NEW, min_new_tokens=PROMPT + NEW, batch_size=64,
        )  # fmt: skip
        rows: dict[str, tuple[int, ...]] = {}
        make_backend(lm).generate(request, lambda done: rows.update((g.example_id, g.token_ids) for g in done))
        self.lm, self.ids = lm, np.array([rows[str(i)] for i in range(texts)])
        text, step = np.repeat(np.arange(texts), NEW), np.tile(np.arange(NEW), texts)
        self.history, self.lengths = torch.from_numpy(self.ids[text]), torch.from_numpy(PROMPT + step)
        read = np.arange(PROMPT + NEW) < self.lengths.numpy()[:, None]
        self.seen = np.zeros((len(text), lm.vocab_size), bool)
        self.seen[np.nonzero(read)[0], self.ids[text][read]] = True
        self.at, self.step = np.tile(np.arange(len(text)), COPIES), np.tile(step, COPIES)
        self.row = np.concatenate([text + texts * copy for copy in range(COPIES)])

    @cached_property
    def logits(self) -> torch.Tensor:
        """The model's logits."""
        return self.read_logits(self.lm)

    @cached_property
    def rounded(self) -> dict[str, torch.Tensor]:
        """The logits with rounded weights."""
        return {name: self.read_logits(positions.round_weights(self.lm, name)) for name in positions.ROUNDED}

    def read_logits(
        self, lm: LanguageModel, batch_size: int = 32, before: tuple[int, ...] = (), after: tuple[int, ...] = ()
    ) -> torch.Tensor:
        """Return the logits that each token is drawn from, (n, V); the prompts stand between other tokens."""
        request = TextRequest(
            prompts=Ragged.from_rows(([*before, *row[:PROMPT], *after] for row in self.ids), np.int64),
            continuations=Ragged.from_rows(self.ids[:, PROMPT:], np.int64),
        )
        out = torch.empty((len(self.lengths), lm.vocab_size))
        with torch.inference_mode():
            for rows in iterate_batches(request.prompts.lengths, request.continuations.lengths, batch_size):
                for at, chunk in iterate_logits(lm, request, rows):
                    out[torch.from_numpy(at)] = chunk.logits.float()
        return out

    def compute_q(self, decoder: QDecoder, logits: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Return a decoder's Q and the logits after its penalties, (n, V), float32."""
        if decoder.penalizes:
            logits = apply_penalties(decoder, logits, self.history, self.lengths)
        q = np.empty(logits.shape, np.float32)
        for start in range(0, len(q), CHUNK):
            q[start : start + CHUNK] = compute_dense_q(decoder, logits[start : start + CHUNK]).numpy()
        return q, logits.numpy()


class RequestedQ:
    """The Q that was asked for, with what the checks read of each token at each position."""

    def __init__(
        self, contexts: Contexts, decoder: QDecoder, logits: torch.Tensor, rounded: dict[str, torch.Tensor]
    ) -> None:
        self.contexts, (self.q, self.logits) = contexts, contexts.compute_q(decoder, logits)
        self.others = {name: contexts.compute_q(decoder, other)[0] for name, other in rounded.items()}
        n, size = self.q.shape
        self.above, self.before, self.rank = np.empty_like(self.q), np.empty_like(self.q), np.empty((n, size), np.int32)
        self.moments = {name: np.empty((2, n)) for name in self.others}
        columns = {name: np.zeros(n) for name in ("log_q_mean", "log_q_var", "repeats_mean")}
        columns["phase_mean"] = np.zeros(n, complex)
        groups = contexts.row * checks.MOST_GROUPS // (contexts.row[-1] + 1)
        totals = checks.Totals(np.zeros((checks.MOST_GROUPS, size)), np.zeros(size), np.zeros(len(checks.GRID)))
        phases = np.exp(2j * np.pi * checks.hash_ids(np.arange(size)))
        for start in range(0, n, CHUNK):
            at = slice(start, start + CHUNK)
            q = self.q[at].astype(np.float64)
            order = torch.sort(torch.from_numpy(self.logits[at]), dim=1, descending=True, stable=True).indices.numpy()
            ranked = np.take_along_axis(q, order, 1)
            np.put_along_axis(self.above[at], order, (ranked.cumsum(1) - ranked).astype(np.float32), 1)
            np.put_along_axis(self.rank[at], order, np.arange(size, dtype=np.int32)[None], 1)
            self.before[at] = q.cumsum(1) - q
            first = positions.locate_tokens(
                q, self.logits[at], order[:, 0], np.zeros((2, len(q))), np.full(len(q), np.nan), EXACT
            )
            columns["log_q_mean"][at], columns["log_q_var"][at] = first["log_q_mean"], first["log_q_var"]
            columns["repeats_mean"][at], columns["phase_mean"][at] = (q * contexts.seen[at]).sum(1), q @ phases
            for name, other in self.others.items():
                self.moments[name][:, at] = positions.compare_rows(q, other[at].astype(np.float64), order[:, 0])[1:]
            for copy in range(COPIES):
                np.add.at(totals.expected, groups[copy * n :][at], q)
            totals.variance += COPIES * (q * (1 - q)).sum(0)
            totals.log_within += COPIES * positions.sum_log_within(q)
        self.columns = {name: values[contexts.at] for name, values in columns.items()}
        self.totals = totals

    def audit(self, tokens: I64, rng: np.random.Generator, rounding: Rounding) -> list[checks.Finding]:
        """Audit the tokens of an engine."""
        at, tokens = self.contexts.at, tokens.copy()
        outside, unknown = np.zeros(len(tokens)), np.full(len(tokens), np.nan)
        if len(missed := np.flatnonzero(self.q[at, tokens] == 0)):
            located = positions.locate_tokens(
                self.q[at[missed]].astype(np.float64), self.logits[at[missed]].astype(np.float64), tokens[missed],
                np.zeros((2, len(missed))), unknown[missed], rounding,
            )  # fmt: skip
            tokens[missed], outside[missed] = located["token"], located["outside"]
        uniforms, above = rng.random((2, len(tokens))), self.above[at, tokens]
        mass = self.q[at, tokens].astype(np.float64)
        suspects = {}
        for name, other in self.others.items():
            with np.errstate(divide="ignore"):
                ratio = np.clip(np.log(other[at, tokens]) - np.log(mass), -positions.BIG, positions.BIG)
            suspects[name] = ratio, *self.moments[name][:, at]
        facts = checks.TokenFacts(
            row=self.contexts.row, step=self.contexts.step, token=tokens, log_q=np.log(mass),
            by_rank=above + uniforms[0] * mass, by_id=self.before[at, tokens] + uniforms[1] * mass,
            phase=checks.hash_ids(tokens), rank=self.rank[at, tokens].astype(np.int64),
            repeats=self.contexts.seen[at, tokens].astype(float), outside=outside,
            stream=unknown, suspects=suspects, **self.columns,
        )  # fmt: skip
        return checks.run_checks(facts, self.totals)


class Engine:
    """Draws tokens from its own Q at the same positions."""

    def __init__(self, contexts: Contexts, q: np.ndarray) -> None:
        self.at, self.below = contexts.at, q.cumsum(1, dtype=np.float64)
        self.coarse = self.below[:, COARSE - 1 :: COARSE]

    def draw(self, u: F64) -> I64:
        """Return the token at each uniform."""
        u = u * self.below[self.at, -1]
        first = (self.coarse[self.at] <= u[:, None]).sum(1) * COARSE
        fine = np.minimum(first[:, None] + np.arange(COARSE), self.below.shape[1] - 1)
        return np.minimum(first + (self.below[self.at[:, None], fine] <= u[:, None]).sum(1), self.below.shape[1] - 1)

    def draw_all(self, rng: np.random.Generator) -> I64:
        """Draw with a uniform number for each token."""
        return self.draw(rng.random(len(self.at)))


def count_failures(audited: RequestedQ, draw: Draw, audits: int, rounding: Rounding = EXACT) -> Failures:
    """Audit many draws."""
    failures = []
    for number in range(audits):
        rng = np.random.default_rng([1, number])
        findings = audited.audit(draw(rng), rng, rounding)
        failed = [finding.name for finding in checks.find_failures(findings)]
        failures.append((failed, bool(checks.find_failures(findings, RUN_SIZE))))
    return failures


def study_faults(contexts: Contexts, audits: int) -> Iterator[Study]:
    """Yield each fault with what counts the audits that find it."""
    lm, logits, plain, at = contexts.lm, contexts.logits, parse_q_decoder("ancestral"), contexts.at
    requested = RequestedQ(contexts, plain, logits, contexts.rounded)
    honest = Engine(contexts, requested.q)

    def find(draw: Draw, audited: RequestedQ = requested) -> Failures:
        return count_failures(audited, draw, audits)

    def find_logits(words: str, z: torch.Tensor, asked_for: str = "") -> Failures:
        audited = RequestedQ(contexts, parse_q_decoder(asked_for), logits, contexts.rounded) if asked_for else requested
        return find(Engine(contexts, contexts.compute_q(parse_q_decoder(words), z)[0]).draw_all, audited)

    def draw_gumbel(rng: np.random.Generator) -> I64:
        return (requested.logits[at] + rng.gumbel(size=(NEW, lm.vocab_size)).astype(np.float32)[contexts.step]).argmax(
            1
        )

    def draw_noisy(rng: np.random.Generator) -> I64:
        noise = torch.from_numpy(rng.normal(size=lm.vocab_size).astype(np.float32) * NOISE)
        return Engine(contexts, contexts.compute_q(plain, logits + noise)[0]).draw_all(rng)

    def draw_noisier(rng: np.random.Generator) -> I64:
        noise = rng.normal(size=(len(at), lm.vocab_size)).astype(np.float32) * NOISE
        return (requested.logits[at] + noise + rng.gumbel(size=noise.shape).astype(np.float32)).argmax(1)

    def draw_exchanged(rng: np.random.Generator) -> I64:
        tokens = honest.draw_all(rng)
        return np.where(contexts.row > contexts.row[-1] // 2, Engine(contexts, other).draw_all(rng), tokens)

    for words in ("temperature,temperature=0.95", "temperature,temperature=0.98", "nucleus,p=0.98", "top_k,k=200"):
        yield f"hidden {words.partition(',')[2]}", partial(find_logits, words, logits)
    for words in ("ancestral,repetition_penalty=1.1", "min_p,p=0.1"):
        yield f"ignored {words.replace(',', ' ')}", partial(find_logits, "ancestral", logits, words)
    yield "one seed for all texts (inverse CDF)", partial(find, lambda rng: honest.draw(rng.random(NEW)[contexts.step]))
    yield "one seed for all texts (Gumbel)", partial(find, draw_gumbel)
    for name, z in contexts.rounded.items():
        yield name, partial(find_logits, "ancestral", z)
    docs_s = contexts.read_logits(load_model(ModelSpec(path="bundled:docs-s")))
    other = contexts.compute_q(plain, docs_s)[0]
    yield "another model (docs-s)", partial(find_logits, "ancestral", docs_s)
    yield "another model for the second half of the texts", partial(find, draw_exchanged)
    yield "logits with noise of 0.1, constant per token id", partial(find, draw_noisy)
    yield "logits with new noise of 0.1 for every token", partial(find, draw_noisier)
    before, after = (tuple(lm.encode(part)) for part in TEMPLATE)
    once = RequestedQ(contexts, plain, contexts.read_logits(lm, before=before, after=after), {})
    twice = contexts.compute_q(plain, contexts.read_logits(lm, before=before * 2, after=after * 2))[0]
    yield "chat template applied twice", partial(find, Engine(contexts, twice).draw_all, once)


def study_honest(contexts: Contexts, audits: int) -> Iterator[Study]:
    """Yield decoders with what counts the audits that accuse an honest engine."""

    def count(words: str) -> Failures:
        audited = RequestedQ(contexts, parse_q_decoder(words), contexts.logits, contexts.rounded)
        return count_failures(audited, Engine(contexts, audited.q).draw_all, audits)

    for words in HONEST:
        yield words, partial(count, words)


def study_half(contexts: Contexts, audits: int) -> Iterator[Study]:
    """Yield pairs of precisions with what counts the audits that accuse an honest engine in half precision."""

    def count(words: str, logits: torch.Tensor, alone: torch.Tensor, dtype: str) -> Failures:
        audited = RequestedQ(contexts, parse_q_decoder(words), logits, {})
        engine = Engine(contexts, contexts.compute_q(parse_q_decoder(words), alone)[0])
        return count_failures(audited, engine.draw_all, audits, Rounding.from_dtypes(dtype))

    for dtype in ("bfloat16", "float16"):
        model = load_model(ModelSpec(path="bundled:docs-m", dtype=dtype))
        alone = contexts.read_logits(model, batch_size=1)
        for reference, logits in (("float32", contexts.logits), (dtype, contexts.read_logits(model))):
            for words in HALF:
                yield f"{dtype}, {reference} reference, {words}", partial(count, words, logits, alone, dtype)


STUDIES = {"faults": study_faults, "honest": study_honest, "half": study_half}


def main() -> None:
    """Print a row for each fault or engine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--texts", type=int, default=320, help="of 64 tokens")
    parser.add_argument("--audits", type=int, default=100)
    parser.add_argument("--only", default="", help="rows that contain this")
    parser.add_argument("--write", type=Path, help="a page that holds the table")
    args = parser.parse_args()
    lm = load_model(ModelSpec(path="bundled:docs-m"))
    rows = []
    for name, count in STUDIES[args.study](Contexts(lm, args.texts // COPIES), args.audits):
        if args.only not in name:
            continue
        failures = count()
        counts = Counter(check for failed, _ in failures for check in failed)
        shares = [np.mean([bool(failed) for failed, _ in failures]), np.mean([fails for _, fails in failures])]
        most = ", ".join(f"{check} {number}" for check, number in counts.most_common(3))
        rows.append(f"| {name} | {' | '.join(f'{share:.1%}' for share in shares)} | {len(failures)} | {most} |")
        print(rows[-1], flush=True)
    if args.write is not None:
        replace_rows(args.write, f"audits: {args.study}", rows, (1,))


if __name__ == "__main__":
    main()
