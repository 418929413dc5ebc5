"""Generation perplexity: how predictable the generated text is to an outside language model, the scorer.

    gen_ppl = exp( sum of token NLLs / number of scored tokens ),  NLL = -log p(token | prompt and tokens before)

From 1 up, in tokens ("branching factor", exp of nats), compared with the human value. A low value is easily bought by
repeating, so the mean unigram entropy of the texts (nats) is reported with it. An empty text has no scored token: it
adds nothing to the micro average, is left out of the macro average, and counted in the notes. The page of this metric
describes the variants, all options here.

Source: Holtzman et al. 2020, "The curious case of neural text degeneration", section 5.1; Pillutla et al. 2021.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openended.harness import core
from openended.harness.core import F64, Features, MetricResult, Need, Ragged, UndefinedMetric, Weights, check_arguments
from openended.metrics.families import Losses, corpus_of, divide_known, pack_losses
from openended.metrics.families.ngram_statistics import average_without_nan, compute_text_entropies
from openended.metrics.families.ngrams import CHUNK, blocks

Average = Literal["micro", "macro", "geometric"]
EndTokens = Literal["keep", "first", "drop", "cut", "remove"]
Compat = Literal["none", "mauve_experiments"]


@check_arguments
def gen_ppl(token_nll: Losses, *, average: Average = "micro", compat: Compat = "none") -> float:
    """Compute the perplexity of texts from the losses of their tokens (Holtzman et al. 2020, section 5.1).

    Args:
        token_nll: -log p of each scored token, nats, one row per text.
        average: `micro`: all tokens weigh the same; `macro`: mean of the perplexities of texts; `geometric`: their
            geometric mean.
        compat: `mauve_experiments` counts one unscored token more in each text.

    Returns:
        The perplexity in tokens, from 1 up; infinite if a token has probability zero.

    Raises:
        UndefinedMetric: If no token is scored.
        ValueError: If a loss is NaN.
    """
    return _average_nll(*_sum_nll(token_nll, compat), average)


def _average_nll(total: F64, count: F64, average: Average) -> float:
    if not (count > 0).any():
        raise UndefinedMetric("no token is scored")
    if average == "macro":
        return average_without_nan(_exponentiate_ratio(total, count))
    if average == "geometric":
        return float(np.exp(np.mean(total[count > 0] / count[count > 0])))
    return float(_exponentiate_ratio(total.sum(keepdims=True), count.sum(keepdims=True))[0])


@check_arguments
def end_token_mask(token_ids: ArrayLike, *, eos_ids: ArrayLike, end_tokens: EndTokens) -> NDArray[np.bool_]:
    """Return which tokens of a text count, by the end tokens in it.

    Args:
        token_ids: Ids of one text, shape (length,).
        eos_ids: Ids that end a text, one or several.
        end_tokens: `keep`: all tokens count; `first`: all but the end tokens after the first one; `drop` and `remove`:
            all but end tokens; `cut`: those before the first end token.

    Returns:
        True where a token counts, shape (length,).
    """
    is_end = np.isin(token_ids, np.atleast_1d(eos_ids))
    seen = np.cumsum(is_end)
    masks = {"keep": np.ones_like(is_end), "first": ~is_end | (seen == 1), "cut": seen == 0}
    return np.asarray(masks.get(end_tokens, ~is_end))


def _sum_nll(token_nll: Losses, compat: Compat) -> tuple[F64, F64]:
    """Return the summed NLL and the number of tokens it is divided by, for each text."""
    rows = pack_losses(token_nll, "token_nll")
    values = np.asarray(rows.values, dtype=np.float64)
    total: F64 = np.zeros(len(rows))
    for low, high in blocks(rows.offsets, CHUNK):
        text = np.repeat(np.arange(high - low), rows.lengths[low:high])
        part = values[rows.offsets[low] : rows.offsets[high]]
        total[low:high] = np.bincount(text, weights=part, minlength=high - low)
    count: F64 = rows.lengths.astype(np.float64)
    if compat == "mauve_experiments":
        count[count > 0] += 1.0
    return total, count


def _exponentiate_ratio(total: F64, count: F64) -> F64:
    with np.errstate(over="ignore"):  # a perplexity beyond float64 is infinite
        return np.exp(divide_known(total, count))


@core.metric
class GenPPL(core.Metric):
    """Perplexity of the generated text under an outside scorer, with the entropy that unmasks cheap low values."""

    name = "gen_ppl"
    synonyms = ("perplexity", "generative_perplexity", "generation_perplexity", "gen_perplexity")
    family = "scored"
    direction = "match_human"
    bounds = (1.0, np.inf)
    ranges = {"entropy": (0.0, np.inf)}
    resampling = "bootstrap"
    sides = "one"
    titles = {"gen_ppl": "Gen. PPL", "entropy": "Entropy"}

    include_prompt: bool = False
    """true: prompt tokens are scored too, Pillutla et al. 2021."""
    bos: bool = False
    """true: a begin token first, as Hugging Face evaluate."""
    average: Average = "micro"
    """macro: mean of the perplexities of texts, Hugging Face evaluate; geometric: dLMbench; Holtzman et al. 2020,
    Pillutla et al. 2021."""
    compat: Compat = "none"
    """mauve_experiments: prompt scored too, its unscored first token counted."""
    end_tokens: EndTokens = "keep"
    """Inside a text; first: only the first counts; drop: none; cut: nothing from the first on; remove: not read."""
    retokenize: bool = False
    """true: tokenize the text again, also where its ids are the scorer's; MDLM, BD3-LM, SDTT."""
    window: int | None = core.ranged(None, "[2, inf)", "null, or 2 tokens or more")
    """Tokens read at once; null: the scorer's context; BD3-LM: 1024."""
    stride: int | None = None
    """Tokens that each later window scores; null: half a window; BD3-LM."""
    entropy_ids: Literal["scorer", "own"] = "scorer"
    """own: entropy of the ids stored with the texts, whatever tokenizer they are of; ReMDM, Duo, dLMbench."""

    def check(self) -> None:
        if self.compat != "none":  # it scores the prompt, and the signature says so
            object.__setattr__(self, "include_prompt", True)
        self.require(self.compat == "none" or not self.bos, "compat", "none where bos is true")
        whole = self._scope != "continuation"
        self.require(self.end_tokens == "keep" or not whole, "end_tokens", "keep where prompts are scored too")
        self.require(not self.retokenize or not whole, "retokenize", "false where prompts are scored too")
        fits = self.stride is None or (self.window is not None and 1 <= self.stride < self.window)
        self.require(fits, "stride", "null, or with a window 1 to window - 1 tokens")

    @property
    def _scope(self) -> core.Scope:
        return "prompt_and_continuation" if self.include_prompt else "continuation"

    @property
    def _masks_tokens(self) -> bool:
        return self.end_tokens in ("first", "drop", "cut")

    def needs(self) -> tuple[Need, ...]:
        nll = self._build_need("token_nll", bos=self.bos, window=self.window, stride=self.stride)
        ids_of_rows = Need("tokens", by="rows", scope=self._scope)
        needs = [nll, ids_of_rows if self.entropy_ids == "own" else self._build_need("tokens")]
        if self._masks_tokens:
            needs += [self._build_need("tokens"), Need("end_tokens", by="scorer")]
        return tuple(dict.fromkeys(needs))

    def _build_need(self, kind: Literal["token_nll", "tokens"], **options: bool | int | None) -> Need:
        """Return a need of the scorer with `bos` and those options that differ from the defaults of its feature."""
        options |= {"retokenize": self.retokenize, "without_end": self.end_tokens == "remove"}
        set_options = sorted((name, value) for name, value in options.items() if value or name == "bos")
        return Need(kind, by="scorer", scope=self._scope, options=tuple(set_options))

    def _select_counted_nll(self, features: Features) -> Ragged:
        nll: Ragged = features.model[self.needs()[0]]
        if not self._masks_tokens:
            return nll
        tokens = features.model[self._build_need("tokens")]
        ends = features.model[Need("end_tokens", by="scorer")]
        rows = []
        for ids, losses in zip(tokens, nll, strict=True):
            unscored = len(ids) - len(losses)  # the first token, where nothing precedes it
            skipped = unscored if self.end_tokens == "cut" else 0  # it ends no text that starts with it
            mask = end_token_mask(ids[skipped:], eos_ids=ends, end_tokens=self.end_tokens)
            rows.append(losses[mask[unscored - skipped :]])
        return Ragged.from_rows(rows, np.float64)

    def prepare(self, features: Features) -> tuple[F64, F64, F64]:
        """Return the summed NLL, the number of scored tokens and the entropy of each text."""
        total, count = _sum_nll(self._select_counted_nll(features), self.compat)
        return total, count, compute_text_entropies(corpus_of(features.model, self.needs()[1]).index, 1)

    def evaluate(self, features: Features, prepared: tuple[F64, F64, F64]) -> MetricResult:
        total, count, entropy = prepared
        values = {"gen_ppl": _average_nll(total, count, self.average), "entropy": average_without_nan(entropy)}
        unscored = int(np.count_nonzero(count == 0))
        notes = (f"{unscored} of {len(count)} texts have no scored token",) if unscored else ()
        per_example = {"gen_ppl": _exponentiate_ratio(total, count), "entropy": entropy}
        return self.result(features, "gen_ppl", values, notes=notes, per_example=per_example)

    def score(self, prepared: tuple[F64, F64, F64], human: Weights, model: Weights, /) -> dict[str, F64]:
        """Return the exponential of a ratio of sums, and means over texts."""
        total, count, entropy = prepared
        if self.average == "macro":
            value = core.average(_exponentiate_ratio(total, count), model)
        else:
            value = np.exp(core.average(divide_known(total, count), model, count if self.average == "micro" else None))
        return {"gen_ppl": value, "entropy": core.average(entropy, model)}
