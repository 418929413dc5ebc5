"""Generation perplexity: how predictable the generated text is to an outside language model, the scorer.

    gen_ppl = exp( sum of token NLLs / number of scored tokens ),  NLL = -log p(token | prompt and tokens before)

Measures the likelihood of the text under the scorer; from 1 up, in tokens ("branching factor", exp of nats), compared
with the human value: far below it is repetitive text, far above incoherent text. A low value is easily bought by
repeating, so the mean unigram entropy of the texts (nats) stands beside it.

Source: Holtzman et al. 2020, "The curious case of neural text degeneration", section 5.1; Pillutla et al. 2021.
Variants in the literature, all options here:

- default: conditioned on the prompt, continuation tokens scored and counted, micro average, end token not scored;
- `include_prompt`: prompt tokens are scored and counted too (the first token of all is not, unless `bos`);
- `bos`: a begin token precedes the text, so that its first token is scored (Hugging Face evaluate);
- `average: macro`: mean of the perplexities of texts (Hugging Face evaluate; larger than micro);
- `compat: mauve_experiments`: as the released code of Pillutla et al.: the prompt is scored too, and the sum is divided
  by the number of all tokens although the first one is not scored, which lowers the value a little (0.5 % on WebText
  documents). It takes the place of `include_prompt`.

An empty text has no scored token: it adds nothing to the micro average, is left out of the macro average, and counted
in the notes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import (
    F64,
    Direction,
    Features,
    Metric,
    MetricResult,
    Need,
    Plan,
    Ragged,
    Replicates,
    Resampling,
    UndefinedMetric,
    register,
)
from openended.metrics._common.choices import check_choice
from openended.metrics._ngrams.sequences import CHUNK, blocks
from openended.metrics._ngrams.statistics import entropy_by_text, mean_without_nan
from openended.metrics.families import corpus_of

Average = Literal["micro", "macro"]
Compat = Literal["none", "mauve_experiments"]


def gen_ppl(
    token_nll: Ragged | Sequence[NDArray[Any]] | Sequence[Sequence[float]],
    *,
    average: Average = "micro",
    compat: Compat = "none",
) -> float:
    """Perplexity of texts from the negative log-likelihoods of their tokens.

    Args:
        token_nll: One row a text: -log p of each scored token, nats.
        average: `micro`: all tokens weigh the same; `macro`: mean of the perplexities of texts.
        compat: `mauve_experiments` counts one unscored token more in each text.

    Returns:
        The perplexity, from 1 up; infinite if a token has probability zero.

    Raises:
        UndefinedMetric: If no token is scored.
        ValueError: If a value is NaN or an option unknown.

    Source: Holtzman et al. 2020, section 5.1.

    >>> round(gen_ppl([[0.0, 2.0], [1.0]]), 6)
    2.718282
    """
    check_choice("average", average, Average)
    total, count = _sums(token_nll, compat)
    if not (count > 0).any():
        raise UndefinedMetric("no token is scored")
    if average == "macro":
        return mean_without_nan(_exp_ratio(total, count))
    return float(_exp_ratio(total.sum(keepdims=True), count.sum(keepdims=True))[0])


def ppl_by_text(token_nll: Ragged, *, compat: Compat = "none") -> F64:
    """Perplexity of each text, shape (n,); NaN for texts without a scored token."""
    return _exp_ratio(*_sums(token_nll, compat))


def _sums(token_nll: Ragged | Sequence[Any], compat: Compat) -> tuple[F64, F64]:
    """Return the summed NLL and the number of tokens it is divided by, for each text."""
    check_choice("compat", compat, Compat)
    rows = token_nll if isinstance(token_nll, Ragged) else Ragged.from_rows(token_nll, np.float64)
    values = np.asarray(rows.values, dtype=np.float64)
    if np.isnan(values).any():
        row = int(np.searchsorted(rows.offsets, np.flatnonzero(np.isnan(values))[0], side="right")) - 1
        raise ValueError(f"token_nll: text {row} has a NaN")
    total: F64 = np.zeros(len(rows))
    for low, high in blocks(rows.offsets, CHUNK):
        text = np.repeat(np.arange(high - low), rows.lengths[low:high])
        part = values[rows.offsets[low] : rows.offsets[high]]
        total[low:high] = np.bincount(text, weights=part, minlength=high - low)
    count: F64 = rows.lengths.astype(np.float64)
    if compat == "mauve_experiments":
        count[count > 0] += 1.0
    return total, count


def _exp_ratio(total: F64, count: F64) -> F64:
    with np.errstate(over="ignore"):  # a perplexity beyond float64 is infinite
        mean: F64 = np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)
        return np.exp(mean)


@register("metric")
@dataclass(frozen=True, kw_only=True)
class GenPPL(Metric):
    """Perplexity of the texts under the scorer, and their mean unigram entropy in nats."""

    name: ClassVar[str] = "gen_ppl"
    version: ClassVar[int] = 1
    family: ClassVar[Literal["scored"]] = "scored"
    direction: ClassVar[Direction] = "match_human"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))  # gen_ppl from 1, entropy from 0
    resampling: ClassVar[Resampling] = "bootstrap"
    sides: ClassVar[Literal["one"]] = "one"
    titles: ClassVar[dict[str, str]] = {"gen_ppl": "Gen. PPL", "entropy": "Entropy"}

    include_prompt: bool = False  # conditioned on the prompt; true: Pillutla et al. 2021, released code
    bos: bool = False  # no begin token: Pillutla et al. 2021; true: Hugging Face evaluate
    average: Average = "micro"  # Holtzman et al. 2020, Pillutla et al. 2021
    compat: Compat = "none"  # mauve_experiments: prompt included, unscored first token counted

    def check(self) -> None:
        """Check that `compat` meets texts whose first token is not scored."""
        self.require(self.compat == "none" or not self.bos, "compat", "none where bos is true")

    def needs(self) -> tuple[Need, ...]:
        """Return the scorer's token NLLs and, for the entropy, its tokens."""
        scope: Literal["continuation", "prompt_and_continuation"] = (
            "prompt_and_continuation" if self.include_prompt or self.compat != "none" else "continuation"
        )
        nll = Need("token_nll", by="scorer", scope=scope, options=(("bos", self.bos),))
        return nll, Need("tokens", by="scorer", scope=scope)

    def compute(self, features: Features) -> MetricResult:
        """Compute perplexity and entropy."""
        nll_need, token_need = self.needs()
        nll = features.model.token_nll(nll_need)
        by_text = ppl_by_text(nll, compat=self.compat)
        entropy = entropy_by_text(corpus_of(features.model, token_need).index, 1)
        values = {
            "gen_ppl": gen_ppl(nll, average=self.average, compat=self.compat),
            "entropy": mean_without_nan(entropy),
        }
        unscored = int(np.count_nonzero(nll.lengths == 0))
        notes = (f"{unscored} of {len(nll)} texts have no scored token",) if unscored else ()
        return self.result(
            features, "gen_ppl", values, notes=notes, per_example={"gen_ppl": by_text, "entropy": entropy}
        )

    def replicates(self, features: Features, result: MetricResult, plan: Plan) -> Mapping[str, Replicates]:
        """Draw texts: the exponential of a ratio of sums, and means over texts."""
        out = dict(super().replicates(features, result, plan))
        if self.average == "micro":
            total, count = _sums(features.model.token_nll(self.needs()[0]), self.compat)
            mean = np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)
            out["gen_ppl"] = plan.mean(features.model.ids, mean, count).map(np.exp)
        return out
