"""Beam search and beam sampling: many hypotheses a text, no token-level Q.

The rules are those of transformers 5 (`generate` with num_beams): each step keeps the 2 · num_beams best continuations
of a text, (1 + m) · num_beams with m > 1 end tokens; those among the first num_beams that end are finished hypotheses,
scored by log-probability over length^length_penalty; the best num_beams that do not end go on. Here a text leaves the
batch when it is done, only the best tokens of each beam are candidates, and only cache rows whose parent changed are
moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from openended.harness.decoding.base import Decoder, Job, Prompt, check_temperature
from openended.harness.registry import register
from openended.harness.rng import stream

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.decoding.cache import Runner
    from openended.harness.models.transformers import LanguageModel

LOW = -1.0e9


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class Beam(Decoder):
    """The best sequence that a search with num_beams hypotheses finds (Lowerre 1976; Sutskever et al. 2014)."""

    name: ClassVar[str] = "beam"
    stochastic: ClassVar[bool] = False
    has_q: ClassVar[bool] = False
    no_q_reason: ClassVar[str] = "beam search chooses whole sequences: it has no distribution over the next token"
    shown: ClassVar[tuple[str, ...]] = ("num_beams",)

    num_beams: int = 4  # Pillutla et al. 2021, Table 11
    length_penalty: float = 1.0  # transformers' default
    early_stopping: Literal[False, True, "never"] = False  # transformers' default
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0  # Pillutla et al. 2021, Table 11: 4 in the variant without repeats

    def check(self) -> None:
        """Refuse options out of range."""
        self.require(self.num_beams >= 2, "num_beams", "an integer of at least 2; 1 is `greedy`")
        self.require(abs(self.length_penalty) < float("inf"), "length_penalty", "a finite number")
        self.require(0 < self.repetition_penalty < float("inf"), "repetition_penalty", "a number above 0")
        self.require(self.no_repeat_ngram_size >= 0, "no_repeat_ngram_size", "0 (off) or a positive integer")

    def scores(self, log_probs: Tensor, least: int) -> Tensor:  # noqa: ARG002
        """Log-probabilities that hypotheses add up, of (n, V) after penalties; a cut leaves `least` tokens."""
        return log_probs

    def run(self, lm: LanguageModel, prompts: Sequence[Prompt], job: Job) -> None:
        """Search a batch."""
        _Search(lm, self, prompts, job).run()


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class BeamSample(Beam):
    """Beam search whose candidates are drawn without replacement in place of the best ones (transformers' rule)."""

    name: ClassVar[str] = "beam_sample"
    version: ClassVar[int] = 2
    stochastic: ClassVar[bool] = True
    no_q_reason: ClassVar[str] = "beam sampling draws among sequences: it has no distribution over the next token"

    temperature: float = 1.0
    top_k: int = 0  # 0: off; no hidden top-k
    top_p: float = 1.0  # 1: off

    def check(self) -> None:
        """Refuse options out of range."""
        super().check()
        check_temperature(self)
        self.require(self.top_k >= 0, "top_k", "0 (off) or a positive integer")
        self.require(0 < self.top_p <= 1, "top_p", "a number in (0, 1]")

    def scores(self, log_probs: Tensor, least: int) -> Tensor:
        """Temperature, then top-k, then the nucleus of what is left; what is cut is minus infinity.

        Nothing is renormalised, and `least` tokens of a row stay, one more than there are end tokens, as in
        transformers: where a beam could go on with its end token alone, no hypothesis could grow.
        """
        from openended.harness.decoding.distribution import dense
        from openended.harness.decoding.truncation import Nucleus, TopK

        out = log_probs / self.temperature
        for spec in (TopK(k=max(self.top_k, least)) if self.top_k else None, Nucleus(p=self.top_p)):
            if spec is not None and not spec.untruncated:
                kept = dense(spec, out) > 0
                kept.scatter_(1, out.topk(min(least, out.shape[1])).indices, value=True)
                out = out.masked_fill(~kept, float("-inf"))
        return out


@dataclass(slots=True)
class _Text:
    """One text in the search."""

    index: int
    """Which prompt of the batch."""
    noise: np.random.Generator | None
    finished: list[tuple[float, list[int]]] = field(default_factory=list)
    """Score and tokens of finished hypotheses, best first, at most num_beams."""


class _Search:
    """A batch of texts, num_beams rows each."""

    def __init__(self, lm: LanguageModel, spec: Beam, prompts: Sequence[Prompt], job: Job) -> None:
        self.lm, self.spec, self.prompts, self.job = lm, spec, prompts, job
        noise = [stream(job.seed, "beam", p.example_id, p.sample) if spec.stochastic else None for p in prompts]
        self.texts = [_Text(i, g) for i, g in enumerate(noise)]

    def run(self) -> None:
        """Search until every text is done."""
        import torch

        from openended.harness.decoding.cache import runner
        from openended.harness.decoding.sampling import prompt_ids

        beams, limit = self.spec.num_beams, self.job.max_new_tokens
        ids = prompt_ids(self.lm, self.prompts)
        n, self.start = ids.shape
        with torch.inference_mode():
            cache = runner(self.lm, n * beams, self.start + limit)
            hidden = cache.feed(ids)
            cache.reorder(torch.arange(n * beams, device=ids.device) // beams)
            logits = cache.logits(hidden).repeat_interleave(beams, 0)
            self.history = torch.zeros((n, beams, self.start + limit), dtype=torch.int64, device=ids.device)
            self.history[:, :, : self.start] = ids[:, None]
            self.running = torch.full((n, beams), LOW, device=ids.device)
            self.running[:, 0] = 0.0
            for step in range(limit):
                parents, tokens = self._step(logits, step)
                done = [self._is_done(i, step + 1) for i in range(len(self.texts))]
                self.job.advance(len(self.texts))
                last = step + 1 == limit
                cache.reorder(parents) if not last else None
                kept = [] if last else [i for i, d in enumerate(done) if not d]
                tokens = self._leave(cache, kept, tokens)
                if not kept:
                    return
                logits = cache.logits(cache.feed(tokens.reshape(-1, 1)))

    def _step(self, logits: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Score continuations, collect the finished, choose those that go on; returns parent rows and tokens."""
        import torch

        from openended.harness.decoding.penalties import ends, forbid_end, penalise

        spec, n, beams = self.spec, len(self.texts), self.spec.num_beams
        at = self.start + step
        log_probs = torch.log_softmax(logits, dim=-1)
        past = self.history[:, :, :at].reshape(n * beams, at)
        log_probs = penalise(spec, log_probs, past)
        if self.job.may_not_end(step):
            log_probs = forbid_end(log_probs, self.lm.eos_ids)
        scores, beam, token = self._candidates(spec.scores(log_probs, 1 + max(1, len(self.lm.eos_ids))))
        ended = ends(token, self.lm.eos_ids)
        if step + 1 == self.job.max_new_tokens:
            stops = torch.ones_like(ended)
        else:
            stops = ended
        if bool(stops[:, :beams].any()):
            self._collect(scores, beam, token, stops, step)
        order = (scores + stops * LOW).topk(beams, dim=1).indices
        self.running = (scores + stops * LOW).gather(1, order)
        beam, token = beam.gather(1, order), token.gather(1, order)
        rows = torch.arange(n, device=beam.device)[:, None]
        self.history = self.history[rows, beam]
        self.history[:, :, at] = token
        return (rows * beams + beam).reshape(-1), token

    def _candidates(self, log_probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The best continuations of each text, enough that num_beams go on: scores, beams, tokens, (n, count) each."""
        import torch

        n, beams, size = len(self.texts), self.spec.num_beams, log_probs.shape[-1]
        count = min(max(2, 1 + len(self.lm.eos_ids)) * beams, beams * size)
        if not self.spec.stochastic:
            best = log_probs.topk(min(count, size), dim=-1)
            total = best.values.view(n, beams, -1) + self.running[:, :, None]
            top = total.view(n, -1).topk(count, dim=1)
            token = best.indices.view(n, -1).gather(1, top.indices)
            return top.values, top.indices // total.shape[2], token
        total = (log_probs.view(n, beams, size) + self.running[:, :, None]).view(n, -1)
        drawn = [t.noise.gumbel(size=beams * size) for t in self.texts if t.noise is not None]
        keys = total.double() + torch.from_numpy(np.stack(drawn)).to(total.device)
        order = keys.topk(count, dim=1).indices  # Gumbel top-k: draws without replacement, in the order of drawing
        return total.gather(1, order), order // size, order % size

    def _collect(self, scores: Tensor, beam: Tensor, token: Tensor, stops: Tensor, step: int) -> None:
        """Add the hypotheses that end here; keep the best num_beams of each text."""
        spec = self.spec
        value = (scores / (step + 1) ** spec.length_penalty).tolist()
        hits, beams, tokens = stops.tolist(), beam.tolist(), token.tolist()
        for i, text in enumerate(self.texts):
            for j in range(spec.num_beams):
                if hits[i][j] and scores[i, j] > LOW / 2:
                    ids = self.history[i, beams[i][j], self.start : self.start + step].tolist()
                    ids.append(tokens[i][j])
                    text.finished.append((value[i][j], ids))
            text.finished.sort(key=lambda f: -f[0])
            del text.finished[spec.num_beams :]

    def _is_done(self, i: int, length: int) -> bool:
        """True where no running hypothesis can become better than the finished ones, by transformers' estimate."""
        spec, text = self.spec, self.texts[i]
        if len(text.finished) < spec.num_beams:
            return False
        if spec.early_stopping is True:
            return True
        longest = self.job.max_new_tokens if spec.early_stopping == "never" and spec.length_penalty > 0 else length
        return bool(float(self.running[i, 0]) / longest**spec.length_penalty <= text.finished[-1][0])

    def _leave(self, cache: Runner, kept: Sequence[int], tokens: Tensor) -> Tensor:
        """Emit the texts that are not kept and take their rows out; returns the tokens of those that stay."""
        from openended.harness.decoding.sampling import finished

        if len(kept) == len(self.texts):
            return tokens
        stay, made = set(kept), []
        for i, text in enumerate(self.texts):
            if i not in stay:
                ids = text.finished[0][1]
                ended = ids[-1] in self.lm.eos_ids
                made.append(finished(self.lm, self.prompts[text.index], ids[:-1] if ended else ids, ended=ended))
        self.job.emit(made)
        beams = self.spec.num_beams
        order = cache.keep([i * beams + j for i in kept for j in range(beams)])
        place = [row // beams for row in order[::beams]]
        self.texts = [self.texts[i] for i in place]
        self.history, self.running = self.history[place], self.running[place]
        return tokens[place]
