"""Contrastive search and contrastive decoding: deterministic, chosen by a score that is no probability."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from openended.harness.decoding.base import Decoder, Job, Prompt
from openended.harness.errors import SpecError
from openended.harness.models.spec import ModelSpec
from openended.harness.models.tokenizer import load_tokenizer
from openended.harness.registry import register

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.decoding.cache import Runner
    from openended.harness.models.transformers import LanguageModel


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class ContrastiveSearch(Decoder):
    """Of the k best tokens, the best by (1 - alpha) p - alpha · similarity to the text so far (Su et al. 2022).

    The similarity is the largest cosine between the token's last hidden state and those of all tokens before, prompt
    included (Su et al. 2022, "A contrastive framework for neural text generation", equation 5).
    """

    name: ClassVar[str] = "contrastive_search"
    stochastic: ClassVar[bool] = False
    has_q: ClassVar[bool] = False
    no_q_reason: ClassVar[str] = "contrastive search chooses by a score that is no probability"
    shown: ClassVar[tuple[str, ...]] = ("k", "alpha")

    k: int = 5  # Su et al. 2022: 5 to 8
    alpha: float = 0.6  # Su et al. 2022

    def check(self) -> None:
        """Refuse options out of range."""
        self.require(self.k >= 1, "k", "an integer of at least 1")
        self.require(0 <= self.alpha <= 1, "alpha", "a number in [0, 1]")

    def run(self, lm: LanguageModel, prompts: Sequence[Prompt], job: Job) -> None:
        """Search a batch."""
        import torch

        from openended.harness.decoding.cache import runner
        from openended.harness.decoding.penalties import forbid_end
        from openended.harness.decoding.sampling import prompt_ids

        ids = prompt_ids(lm, prompts)
        (n, start), k = ids.shape, min(self.k, lm.vocab_size)
        texts = _Texts(lm, prompts, job)
        with torch.inference_mode():
            cache = runner(lm, n * k, start + job.max_new_tokens)
            hidden = cache.feed(ids, every=True)
            cache.reorder(torch.arange(n * k, device=ids.device) // k)
            room = torch.zeros((n, start + job.max_new_tokens, hidden.shape[2]), device=ids.device)
            room[:, :start] = torch.nn.functional.normalize(hidden.float(), dim=-1)
            logits = cache.logits(hidden[:, -1])
            for step in range(job.max_new_tokens):
                if job.may_not_end(step):
                    logits = forbid_end(logits, lm.eos_ids)
                p, tokens = torch.softmax(logits, dim=-1).topk(k, dim=-1)
                made = cache.feed(tokens.reshape(-1, 1)).view(len(tokens), k, -1)
                new = torch.nn.functional.normalize(made.float(), dim=-1)
                close = torch.einsum("nkd,ntd->nkt", new, room[:, : start + step]).amax(-1)
                choice = ((1 - self.alpha) * p - self.alpha * close).argmax(-1)
                rows = torch.arange(len(choice), device=ids.device)
                token, hidden, room[:, start + step] = tokens[rows, choice], made[rows, choice], new[rows, choice]
                kept = texts.add(token)
                if not kept:
                    return
                cache.reorder((rows * k + choice).repeat_interleave(k), since=start + step)
                hidden, room = _leave(cache, texts, kept, k, hidden, room)
                logits = cache.logits(hidden)
        texts.end()


def _leave(cache: Runner, texts: _Texts, kept: list[int], k: int, *rows: Tensor) -> tuple[Tensor, ...]:
    """Take the texts that ended out of the cache and of everything with one row a text."""
    if len(kept) == len(texts.index):
        return rows
    order = cache.keep([i * k + j for i in kept for j in range(k)])
    place = [row // k for row in order[::k]]
    texts.reorder(place)
    return tuple(r[place] for r in rows)


class _Texts:
    """Tokens of the texts still running, one a step."""

    def __init__(self, lm: LanguageModel, prompts: Sequence[Prompt], job: Job) -> None:
        self.lm, self.prompts, self.job = lm, prompts, job
        self.index = list(range(len(prompts)))
        self.tokens: list[list[int]] = [[] for _ in prompts]

    def add(self, token: Tensor) -> list[int]:
        """Note a token a text; emits those that ended and returns the places of the others."""
        from openended.harness.decoding.sampling import finished

        kept, made = [], []
        for place, one in enumerate(token.tolist()):
            if one in self.lm.eos_ids:
                prompt = self.prompts[self.index[place]]
                made.append(finished(self.lm, prompt, self.tokens[place], ended=True))
            else:
                self.tokens[place].append(one)
                kept.append(place)
        self.job.advance(len(self.index))
        if made:
            self.job.emit(made)
        return kept

    def reorder(self, order: Sequence[int]) -> None:
        """Take the texts that stay."""
        self.index, self.tokens = [self.index[i] for i in order], [self.tokens[i] for i in order]

    def end(self) -> None:
        """Emit what the length limit stopped."""
        from openended.harness.decoding.sampling import finished

        pairs = zip(self.index, self.tokens, strict=True)
        self.job.emit([finished(self.lm, self.prompts[i], t, ended=False) for i, t in pairs])


def _bundled_amateur() -> Mapping[str, Any]:
    return {"path": "bundled:docs-s", "dtype": "float32"}


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class ContrastiveDecoding(Decoder):
    """The largest log p_expert - log p_amateur among tokens with p_expert >= alpha max p_expert (Li et al. 2023).

    Li et al. 2023, "Contrastive decoding: open-ended text generation as optimization", section 3, greedily (the paper
    searches with 5 beams).
    """

    name: ClassVar[str] = "contrastive_decoding"
    stochastic: ClassVar[bool] = False
    has_q: ClassVar[bool] = False
    no_q_reason: ClassVar[str] = "contrastive decoding chooses by a difference of two models' scores, no probability"

    amateur: Mapping[str, Any] = field(default_factory=_bundled_amateur)
    """Options of a `ModelSpec`: a smaller model with the same tokenizer; the expert is the run's model."""
    alpha: float = 0.1  # Li et al. 2023
    amateur_temperature: float = 1.0  # Li et al. 2023: 0.5 for GPT-2, 1 for OPT

    def check(self) -> None:
        """Refuse options out of range and an amateur that is no model."""
        self.require(0 < self.alpha <= 1, "alpha", "a number in (0, 1]")
        self.require(0 < self.amateur_temperature < float("inf"), "amateur_temperature", "a number above 0")
        self.amateur_spec()

    @property
    def title(self) -> str:
        """Name and amateur."""
        return f"{self.name} amateur={self.amateur_spec().title} alpha={self.alpha:g}"

    def amateur_spec(self) -> ModelSpec:
        """The amateur as a spec."""
        try:
            return ModelSpec(**{str(k): v for k, v in self.amateur.items() if k != "_target_"})
        except TypeError as err:
            raise SpecError(f"decoder.{self.name}.amateur: expected options of a model ({err})") from err

    def companions(self) -> Mapping[str, ModelSpec]:
        """The amateur."""
        return {"amateur": self.amateur_spec()}

    def check_model(self, model: ModelSpec) -> None:
        """Refuse an expert whose tokens are not the amateur's."""
        amateur = self.amateur_spec()
        theirs, ours = (load_tokenizer(spec).vocabulary() for spec in (model, amateur))
        if theirs != ours:
            raise SpecError(
                f"decoder.{self.name}.amateur: {amateur.title} and the expert {model.title} have different tokenizers "
                f"({len(ours)} and {len(theirs)} tokens); both need the same one"
            )

    def run(self, lm: LanguageModel, prompts: Sequence[Prompt], job: Job) -> None:
        """Decode a batch."""
        import torch

        from openended.harness.decoding.cache import runner
        from openended.harness.decoding.penalties import forbid_end
        from openended.harness.decoding.sampling import prompt_ids

        amateur = self._amateur(lm, job)
        ids = prompt_ids(lm, prompts)
        texts = _Texts(lm, prompts, job)
        with torch.inference_mode():
            pair = [runner(m, len(ids), ids.shape[1] + job.max_new_tokens) for m in (lm, amateur)]
            feed = ids
            for step in range(job.max_new_tokens):
                strong, weak = (run.logits(run.feed(feed)) for run in pair)
                if job.may_not_end(step):
                    strong = forbid_end(strong, lm.eos_ids)
                expert = torch.log_softmax(strong, dim=-1)
                other = torch.log_softmax(weak / self.amateur_temperature, dim=-1)
                low = expert < expert.amax(-1, keepdim=True) + math.log(self.alpha)
                token = (expert - other).masked_fill_(low, float("-inf")).argmax(-1)
                kept = texts.add(token)
                if not kept:
                    return
                if len(kept) < len(token):
                    order = pair[0].keep(kept)
                    pair[1].keep(kept)
                    texts.reorder(order)
                    token = token[order]
                feed = token[:, None]
        texts.end()

    def _amateur(self, lm: LanguageModel, job: Job) -> LanguageModel:
        """The amateur that came with the job."""
        if "amateur" not in job.companions:
            raise SpecError(f"decoder.{self.name} needs its amateur loaded; give generate its companions")
        amateur = job.companions["amateur"]
        if amateur.vocab_size != lm.vocab_size:
            raise SpecError(
                f"decoder.{self.name}.amateur: {amateur.spec.title} has {amateur.vocab_size} logits, the expert "
                f"{lm.vocab_size}; both need as many"
            )
        return amateur
