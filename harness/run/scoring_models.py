"""Scoring models of a run: which tokens are counted, and warnings about models outside their domain.

The bundled models were trained on the prose of the `docs` task. They score only that task, unless selected by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from openended.harness.core import DataError, Metric, Need, Task, describe_out_of_domain, digest_file
from openended.harness.models import BackendSpec, EmbedderSpec, ModelSpec, tokenizer_digest
from openended.harness.run.resolve import ResolvedRun

HINT = (
    "set {role}=gpt2-large (or scoring=gpt2-large: scorer and embedder); the bundled docs-m is for the task docs only"
)
# A human side with this many times the scorer's validation perplexity is of another domain.
FAR = 2.0
_CARD = re.compile(r"validation perplexity[\s|:]*(\d+(?:\.\d+)?)")


def format_hint(role: str) -> str:
    """Format what to type if a metric needs a scorer or an embedder and has none."""
    return f"no {role}: {HINT.format(role=role)}"


def is_out_of_domain(spec: BackendSpec | EmbedderSpec, task: Task) -> bool:
    """Say whether a scoring model is a bundled one and the task is not the one that it was trained for."""
    return spec.is_bundled and not task.has_docs_prose()


def counts_tokens(metric: Metric) -> bool:
    """Return whether a metric needs only the scorer's tokenizer, so that another tokenizer can replace it."""
    kinds = {need.kind for need in metric.needs() if need.by == "scorer"}
    return kinds == {"tokens"}


def describe_tokens(spec: ModelSpec | None) -> str:
    """Name the tokens that text statistics count without a scorer: two models of one tokenizer have one name."""
    if spec is None:
        return "words"
    folder = spec.folder
    path = folder / "tokenizer.json" if folder is not None else spec.hub_file("tokenizer.json", optional=True)
    content = digest_file(path) if path is not None and path.is_file() else tokenizer_digest(spec)
    return f"model@{content[:6]}"


def list_remarks(run: ResolvedRun) -> list[str]:
    """Return what the reader of a table must know of the scoring models."""
    s, metrics, out = run.scoring, run.metrics.specs, list[str]()
    roles: tuple[tuple[str, BackendSpec | EmbedderSpec | None], ...] = (("scorer", s.scorer), ("embedder", s.embedder))
    read = {need.by for metric in metrics for need in metric.needs()}
    used = [(role, spec) for role, spec in roles if spec and role in read]
    out += [describe_out_of_domain(role, spec.title) for role, spec in used if is_out_of_domain(spec, run.data.task)]
    if s.scorer is None and any(map(counts_tokens, metrics)):
        whose = f"tokens of {s.counter.title}, the model under test" if s.counter is not None else "whitespace words"
        out.append(f"text statistics count {whose}: no scorer is set")
    if s.cut_by_words:
        length = run.data.max_new_tokens
        out.append(f"both sides are cut at {length} whitespace words: no scorer is set whose tokens to count")
    return out


def find_scorer_need(metrics: Iterable[Metric]) -> Need | None:
    """Return the token likelihoods of the scorer that metrics need; None if no metric needs them."""
    needs = (need for metric in metrics for need in metric.needs())
    return next((need for need in needs if (need.kind, need.by) == ("token_nll", "scorer")), None)


def read_card_perplexity(spec: BackendSpec) -> float:
    """Return the validation perplexity from the model's card; NaN if it is missing."""
    card = spec.folder / "README.md" if spec.folder is not None else None
    if card is None or not card.is_file():
        return math.nan
    try:
        match = _CARD.search(card.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as err:
        raise DataError(f"model {spec.title}: cannot read its card {card} ({err})") from err
    return float(match[1]) if match else math.nan


def compare_with_card(spec: BackendSpec, human: float) -> str | None:
    """Compare the scorer's perplexity on the human side with its card's; return a warning if they differ much."""
    expected = read_card_perplexity(spec)
    if not human > FAR * expected:
        return None
    return (
        f"scorer {spec.title}: perplexity {human:.0f} on the human side, {expected:.0f} on its own validation text: "
        "these texts are outside its domain"
    )
