"""Which faults of an engine an audit finds, and how often it accuses an honest one.

An engine continues texts of 16 tokens with 64 tokens of the bundled docs-m, which it draws by its own rules; the audit
reads them with the requested Q, as `openended audit` does.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import torch

from openended.harness.audit import checks, positions
from openended.harness.audit.positions import Rounding
from openended.harness.core import F64, I64, Ragged
from openended.harness.decoders import apply_penalties, compute_dense_q, parse_q_decoder
from openended.harness.models import LanguageModel, ModelSpec, TextRequest, load_model
from openended.harness.run.audit import FALSE_ALARM_RATE
from scripts.studies.study import Study

PROMPT, NEW = 16, 64  # tokens
NOISE = 0.1  # standard deviation of the noise on logits
TEMPLATE = "### Question\n", "\n### Answer\n"


def draw_by_cdf(q: F64, rng: np.random.Generator, count: int) -> I64:
    """Draw the token of each row of Q (n, V) by inverse CDF, with one uniform for each row or one for all."""
    below = q.cumsum(1)
    tokens: I64 = (below <= rng.random((count, 1)) * below[:, -1:]).sum(1)
    return tokens


def draw_by_gumbel(q: F64, rng: np.random.Generator) -> I64:
    """Draw the token of each row of Q with the same Gumbel noise."""
    with np.errstate(divide="ignore"):
        tokens: I64 = (np.log(q) + rng.gumbel(size=q.shape[1])).argmax(1)
    return tokens


@dataclass(frozen=True, kw_only=True)
class Engine:
    """How an engine draws its tokens."""

    model: str = "docs-m"
    dtype: str = "float32"
    rounded: str = ""  # its weights are rounded as in this one of `positions.ROUNDED`
    decoder: str = "ancestral"
    draw: Callable[[F64, np.random.Generator], I64] = lambda q, rng: draw_by_cdf(q, rng, len(q))
    constant_noise: float = 0.0  # on the logit of each token id
    new_noise: float = 0.0  # on each logit of each position
    templates: int = 0  # how often the chat template is put around the prompt

    @property
    def lm(self) -> LanguageModel:
        """The engine's model."""
        return load(self.model, self.dtype, self.rounded)

    def continue_texts(self, prompts: I64, new: int, rng: np.random.Generator) -> I64:
        """Return `new` tokens for each prompt, (n, new)."""
        lm, decoder, history = self.lm, parse_q_decoder(self.decoder), wrap_prompts(self.lm, prompts, self.templates)
        start, ids, past = history.shape[1], torch.from_numpy(history), None
        constant = rng.normal(size=lm.vocab_size) * self.constant_noise
        for _ in range(new):
            with torch.inference_mode():
                mask = torch.ones(history.shape, dtype=torch.long)
                out = lm.model(input_ids=ids, attention_mask=mask, past_key_values=past, use_cache=True)
            past, noise = out.past_key_values, constant
            if self.new_noise:
                noise = rng.normal(size=(len(prompts), lm.vocab_size)) * self.new_noise
            logits = out.logits[:, -1].float() + torch.from_numpy(np.asarray(noise, np.float32))
            if decoder.penalizes:
                lengths = torch.full((len(prompts),), history.shape[1])
                logits = apply_penalties(decoder, logits, torch.from_numpy(history), lengths)
            tokens = self.draw(compute_dense_q(decoder, logits).double().numpy(), rng)
            history, ids = np.concatenate([history, tokens[:, None]], axis=1), torch.from_numpy(tokens[:, None])
        return history[:, start:]


@cache
def load(model: str, dtype: str = "float32", rounded: str = "") -> LanguageModel:
    """Load a bundled model, with rounded weights or without."""
    if rounded:
        return positions.round_weights(load(model, dtype), rounded)
    return load_model(ModelSpec(path=f"bundled:{model}", dtype=dtype))


def wrap_prompts(lm: LanguageModel, prompts: I64, times: int) -> I64:
    """Return prompts between the two parts of the chat template, as often as `times` says."""
    before, after = (
        np.tile(np.array(lm.tokenizer.encode(part), dtype=np.int64), (len(prompts), times)) for part in TEMPLATE
    )
    return np.concatenate([before, prompts, after], axis=1)


def audit(engines: tuple[Engine, ...], requested: Engine, texts: int, number: int) -> tuple[list[str], bool]:
    """Audit texts, each part of them by another engine; return the failed checks, and whether a run would fail."""
    rng, reference = np.random.default_rng([1, number]), requested.lm
    prompts = Engine().continue_texts(np.full((texts, 1), reference.tokenizer.start_id), PROMPT, rng)
    parts = np.array_split(prompts, len(engines))
    tokens = [engine.continue_texts(part, NEW, rng) for engine, part in zip(engines, parts, strict=True)]
    request = TextRequest(
        prompts=Ragged.from_rows(wrap_prompts(reference, prompts, requested.templates), np.int64),
        continuations=Ragged.from_rows(np.concatenate(tokens), np.int64),
    )
    lms: Mapping[str, LanguageModel] = {"reference": reference}
    if requested.dtype == engines[0].dtype == "float32":
        lms = {**lms, **{name: load(requested.model, rounded=name) for name in positions.ROUNDED}}
    facts, totals = positions.measure_positions(
        lms, parse_q_decoder(requested.decoder), request, None, Rounding.from_dtypes(engines[0].dtype, requested.dtype),
        min_new_tokens=0, batch_size=32, advance=lambda _: None,
    )  # fmt: skip
    findings = checks.run_checks(facts, totals)
    failed = [finding.name for finding in checks.find_failures(findings)]
    return failed, bool(checks.find_failures(findings, FALSE_ALARM_RATE))


_TRUNCATED = "top_k,k=1", "top_k,k=50", "min_p,p=0.1", "nucleus,p=0.95", "typical"
HONEST_DECODERS = ("ancestral", "greedy", *_TRUNCATED, "ancestral,repetition_penalty=1.1")
HALF_DECODERS = "nucleus,p=0.95", "top_k,k=50", "min_p,p=0.1"
Audited = tuple[tuple[Engine, ...], Engine]
"""Engines that each write an equal part of the texts, and the engine that was requested."""
FAULTY: Mapping[str, Audited] = {
    **{
        f"hidden {words.partition(',')[2]}": ((Engine(decoder=words),), Engine())
        for words in ("temperature,temperature=0.95", "temperature,temperature=0.98", "nucleus,p=0.98", "top_k,k=200")
    },
    **{
        f"ignored {words.replace(',', ' ')}": ((Engine(),), Engine(decoder=words))
        for words in ("ancestral,repetition_penalty=1.1", "min_p,p=0.1")
    },
    "one seed for all texts (inverse CDF)": ((Engine(draw=partial(draw_by_cdf, count=1)),), Engine()),
    "one seed for all texts (Gumbel)": ((Engine(draw=draw_by_gumbel),), Engine()),
    **{name: ((Engine(rounded=name),), Engine()) for name in positions.ROUNDED},
    "another model (docs-s)": ((Engine(model="docs-s"),), Engine()),
    "another model for the second half of the texts": ((Engine(), Engine(model="docs-s")), Engine()),
    "logits with noise of 0.1, constant per token id": ((Engine(constant_noise=NOISE),), Engine()),
    "logits with new noise of 0.1 for every token": ((Engine(new_noise=NOISE),), Engine()),
    "chat template applied twice": ((Engine(templates=2),), Engine(templates=1)),
}
"""Name of a fault → its engines, at temperature 1 without truncation unless the fault needs another decoder."""
HONEST_ENGINES = {words: ((Engine(decoder=words),), Engine(decoder=words)) for words in HONEST_DECODERS}
HALF_ENGINES: Mapping[str, Audited] = {
    f"{dtype}, {reference} reference, {words}": (
        (Engine(dtype=dtype, decoder=words),), Engine(dtype=reference, decoder=words)
    )
    for dtype in ("bfloat16", "float16")
    for reference in ("float32", dtype)
    for words in HALF_DECODERS
}  # fmt: skip
"""Honest engines in half precision, against references in float32 and in their precision."""


def count_failures(title: str, texts: int = 320, audits: int = 20) -> Iterator[list[str]]:
    """Yield the row of an engine: the share of audits that fail, as a command and in a run, and the checks that do."""
    engines, requested = {**FAULTY, **HONEST_ENGINES, **HALF_ENGINES}[title]
    failures = [audit(engines, requested, texts, number) for number in range(audits)]
    counts = Counter(check for failed, _ in failures for check in failed)
    shares = [np.mean([bool(failed) for failed, _ in failures]), np.mean([fails for _, fails in failures])]
    most = ", ".join(f"{check} {number}" for check, number in counts.most_common(3))
    yield [title, *(f"{share:.1%}" for share in shares), str(audits), most]


FAULTS, HONEST, HALF = (
    Study(titles=lambda engines=engines: engines, compute=count_failures, page="docs/engines.md", heading=heading)
    for engines, heading in zip(
        (FAULTY, HONEST_ENGINES, HALF_ENGINES), ("audits: faults", "audits: honest", "audits: half"), strict=True
    )
)
