"""Beam search and beam sampling: many hypotheses a text, no token-level Q.

The rules are those of transformers 5 (`generate` with num_beams). A finished text frees its slot for the next one, only
the best tokens of each beam are candidates, and only cache rows whose parent changed are moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness import core
from openended.harness.core import F64, I64, ranged
from openended.harness.decoders import TEMPERATURES, Decoder, Emit, GenerationRequest
from openended.harness.generation.slots import BatchSlots
from openended.harness.generation.token_loop import build_generation, find_end_tokens

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.models import LanguageModel

LOW = -1.0e9


@core.decoder
class Beam(Decoder):
    """The most probable sequence found by a search with num_beams hypotheses."""

    name = "beam"
    synonyms = ("beam_search",)
    option_synonyms = dict.fromkeys(("beams", "beam_size", "beam_width"), "num_beams")
    table_rank = 10
    stochastic = False
    has_q = False
    no_q_reason = "beam search chooses whole sequences: it has no distribution over the next token"
    title_fields = ("num_beams",)

    num_beams: int = ranged(4, "[2, inf)", "an integer of at least 2; 1 is `greedy`")
    """Pillutla et al. 2021, Table 11: 4 and more."""
    length_penalty: float = ranged(1.0, "(-inf, inf)", "a finite number")
    """log-probability is divided by length^length_penalty; transformers' default."""
    early_stopping: Literal[False, True, "never"] = False
    """true: stop at num_beams finished hypotheses; never: stop only when none can improve; transformers' default."""
    repetition_penalty: float = ranged(1.0, "(0, inf)", "a number above 0")
    """1: off; logits of tokens seen before, prompt included (Keskar et al. 2019)."""
    no_repeat_ngram_size: int = ranged(0, "[0, inf)", "0 (off) or a positive integer")
    """0: off; no n-gram of this order twice, prompt included (Paulus et al. 2018); Pillutla et al. 2021, Table 11; 4 in
    the variant without repeats."""

    @property
    def penalizes(self) -> bool:
        """True where scores depend on which tokens came before."""
        return self.repetition_penalty != 1 or self.no_repeat_ngram_size > 0

    def scores(self, log_probs: Tensor, least: int) -> Tensor:  # noqa: ARG002
        """Return the log-probabilities that hypotheses sum up, (n, V) after penalties; a cut leaves `least` tokens."""
        return log_probs

    def run(self, lm: LanguageModel, request: GenerationRequest, emit: Emit, advance: core.Advance) -> None:
        import torch

        with torch.inference_mode():
            _Search(lm, self, request, emit, advance).run()


@core.decoder
class BeamSample(Beam):
    """Beam search that extends hypotheses by sampling from the truncated distribution."""

    name = "beam_sample"
    table_rank = 20
    version = 2
    stochastic = True
    no_q_reason = "beam sampling draws among sequences: it has no distribution over the next token"

    temperature: float = ranged(1.0, "[1e-6, 1e6]", TEMPERATURES)
    """Logits are divided by it; 1 leaves them."""
    top_k: int = ranged(0, "[0, inf)", "0 (off) or a positive integer")
    """0: off; no hidden top-k."""
    top_p: float = ranged(1.0, "(0, 1]", "a number in (0, 1]")
    """1: off."""

    def scores(self, log_probs: Tensor, least: int) -> Tensor:
        """Apply temperature, then top-k, then top-p; removed tokens get minus infinity.

        Nothing is renormalized, and `least` tokens of a row stay, one more than there are end tokens, as in
        transformers: where a beam could go on with its end token alone, no hypothesis could grow.
        """
        from openended.harness.decoders import Nucleus, TopK, compute_dense_q

        out = log_probs / self.temperature
        for spec in (TopK(k=max(self.top_k, least)) if self.top_k else None, Nucleus(p=self.top_p)):
            if spec is not None and not spec.untruncated:
                keep = compute_dense_q(spec, out) > 0
                keep.scatter_(1, out.topk(min(least, out.shape[1])).indices, value=True)
                out = out.masked_fill(~keep, float("-inf"))
        return out


class _Search:
    """Texts, num_beams rows each."""

    def __init__(
        self, lm: LanguageModel, spec: Beam, request: GenerationRequest, emit: Emit, advance: core.Advance
    ) -> None:
        import torch

        self.lm, self.spec = lm, spec
        self.request, self.emit, self.advance = request, emit, advance
        self.slots = BatchSlots([lm], request, width=spec.num_beams)
        shape = (self.slots.count, spec.num_beams)
        self.finished = np.empty(self.slots.count, dtype=object)
        """Score and tokens of each text's finished hypotheses, best first, at most num_beams."""
        self.noise = np.empty(self.slots.count, dtype=object)
        """Random generator of each text."""
        self.running = torch.zeros(shape, dtype=torch.float32, device=lm.device)
        """Scores of the hypotheses that go on."""
        self.last = torch.zeros(shape, dtype=torch.int64, device=lm.device)

    def run(self) -> None:
        """Search until every text is done."""
        slots, runner = self.slots, self.slots.runners[0]
        while True:
            self._refill_slots()
            n = len(slots)
            if not n:
                return
            (logits,) = slots.compute_logits(slots.run_step(self.last[:n].reshape(-1)))
            parents, best = self._advance_texts(logits)
            slots.new_tokens[:n] += 1
            self.advance(n)
            done = [i for i in range(n) if self._is_done(i, best[i])]
            gone = {i * self.spec.num_beams + j for i in done for j in range(self.spec.num_beams)}
            rows = [row for row in range(len(parents)) if row not in gone]
            runner.copy(parents[rows].tolist(), rows)
            generations = []
            for i in done:
                ids = self.finished[i][0][1]
                ended = ids[-1] in self.lm.eos_ids
                ids = ids[:-1] if ended else ids
                generations.append(build_generation(self.lm, slots.prompt(i), ids, ended=ended))
            if generations:
                self.emit(generations)
            slots.free(done)

    def _refill_slots(self) -> None:
        """Fill free slots with waiting prompts, and move the state of texts that changed their slots."""
        for slot in self.slots.refill(self.running, self.last, self.finished, self.noise):
            prompt = self.slots.prompt(slot)
            self.finished[slot] = []
            if self.spec.stochastic:
                self.noise[slot] = core.make_random_stream(self.request.seed, "beam", prompt.example_id, prompt.sample)
            self.running[slot] = LOW
            self.running[slot, 0] = 0.0

    def _advance_texts(self, logits: Tensor) -> tuple[I64, F64]:
        """Score continuations, collect finished hypotheses and keep the best others.

        Returns the parent rows, and the best score among the hypotheses of each text that go on.
        """
        import torch

        n, beams, eos_ids, history = len(self.slots), self.spec.num_beams, self.lm.eos_ids, self.slots.history
        log_probs = self.slots.penalize(self.spec, torch.log_softmax(logits, dim=-1))
        scores, beam, token = self._select_candidates(self.spec.scores(log_probs, 1 + max(1, len(eos_ids))))
        is_last = core.copy_to_device(self.slots.steps + 1 == self.request.max_new_tokens, logits.device)
        stops = find_end_tokens(eos_ids, token) | is_last[:, None]
        order = (scores + stops * LOW).topk(beams, dim=1).indices
        self.running[:n] = (scores + stops * LOW).gather(1, order)
        self.last[:n] = token.gather(1, order)
        *candidates, ranks, best = self.slots.read(scores, beam, token, stops, order, self.running[:n, 0])
        _, origins, tokens, hits = candidates
        if hits[:, :beams].any():
            self._collect(*candidates)
        rows = np.arange(n)[:, None]
        origins = np.take_along_axis(origins, ranks, 1)
        history[:n] = history[rows, origins]
        history[rows, np.arange(beams), self.slots.lengths[:, None]] = np.take_along_axis(tokens, ranks, 1)
        return (rows * beams + origins).reshape(-1), best

    def _select_candidates(self, log_probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return each text's best continuations: scores, beams and tokens, (n, 2 · num_beams) for one end token."""
        n, beams, size = len(self.slots), self.spec.num_beams, log_probs.shape[-1]
        count = min(max(2, 1 + len(self.lm.eos_ids)) * beams, beams * size)
        if not self.spec.stochastic:
            best = log_probs.topk(min(count, size), dim=-1)
            total = best.values.view(n, beams, -1) + self.running[:n, :, None]
            top = total.view(n, -1).topk(count, dim=1)
            token = best.indices.view(n, -1).gather(1, top.indices)
            return top.values, top.indices // total.shape[2], token
        total = (log_probs.view(n, beams, size) + self.running[:n, :, None]).view(n, -1)
        noise = [self.noise[slot].gumbel(size=beams * size) for slot in range(n)]
        keys = total.double() + core.copy_to_device(np.stack(noise), total.device)
        order = keys.topk(count, dim=1).indices  # Gumbel top-k: draws without replacement, in the order of drawing
        return total.gather(1, order), order // size, order % size

    def _collect(self, scores: core.Floats, beam: I64, token: I64, stops: NDArray[np.bool_]) -> None:
        """Add the hypotheses that end here; keep the best num_beams of each text."""
        spec, steps = self.spec, self.slots.steps.tolist()
        divide = np.array([(step + 1) ** spec.length_penalty for step in steps], dtype=scores.dtype)
        value = (scores / divide[:, None]).tolist()
        hits, beams, tokens, score = stops.tolist(), beam.tolist(), token.tolist(), scores.tolist()
        for i, step in enumerate(steps):
            finished, start = self.finished[i], int(self.slots.starts[i])
            for j in range(spec.num_beams):
                if hits[i][j] and score[i][j] > LOW / 2:
                    ids = self.slots.history[i, beams[i][j], start : start + step].tolist()
                    ids.append(tokens[i][j])
                    finished.append((value[i][j], ids))
            finished.sort(key=lambda hypothesis: -hypothesis[0])
            del finished[spec.num_beams :]

    def _is_done(self, i: int, best: float) -> bool:
        """Return true where no running hypothesis can surpass the finished ones, by transformers' estimate."""
        spec, finished, length = self.spec, self.finished[i], int(self.slots.new_tokens[i])
        if length == self.request.max_new_tokens:
            return True
        if len(finished) < spec.num_beams:
            return False
        if spec.early_stopping is True:
            return True
        longest = self.request.max_new_tokens if spec.early_stopping == "never" and spec.length_penalty > 0 else length
        return bool(float(best) / longest**spec.length_penalty <= finished[-1][0])
