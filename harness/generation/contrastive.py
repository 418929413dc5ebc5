"""Contrastive search and contrastive decoding: deterministic decoders whose scores are not probabilities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openended.harness import core
from openended.harness.core import I64, Advance, ModelInfo, SpecError, copy_to_device, decoder, ranged
from openended.harness.decoders import Decoder, Emit, GenerationRequest
from openended.harness.generation.slots import BatchSlots
from openended.harness.generation.token_loop import TokenChooser, add_tokens, decode_rows
from openended.harness.models import ModelSpec, load_tokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.models import LanguageModel


@decoder
class ContrastiveSearch(Decoder):
    """The best of the top k tokens by probability minus similarity to the previous text (Su et al. 2022).

    The similarity is the largest cosine between the token's last hidden state and those of all tokens before, prompt
    included (Su et al. 2022, "A contrastive framework for neural text generation", equation 5).
    """

    name = "contrastive_search"
    synonyms = ("simctg", "penalty_alpha")
    option_synonyms = {"penalty_alpha": "alpha", "top_k": "k"}
    table_rank = 30
    stochastic = False
    has_q = False
    no_q_reason = "contrastive search chooses by a score that is no probability"
    title_fields = ("k", "alpha")

    k: int = ranged(5, "[1, inf)", "an integer of at least 1")
    """Su et al. 2022: 5 to 8."""
    alpha: float = ranged(0.6, "[0, 1]", "a number in [0, 1]")
    """Su et al. 2022."""

    def run(self, lm: LanguageModel, request: GenerationRequest, emit: Emit, advance: Advance) -> None:
        """Search texts."""
        import torch

        with torch.inference_mode():
            _Search(lm, self, request, emit, advance).run()


class _Search:
    """Texts of contrastive search, k rows each: one for each candidate."""

    def __init__(
        self, lm: LanguageModel, spec: ContrastiveSearch, request: GenerationRequest, emit: Emit, advance: Advance
    ) -> None:
        self.lm, self.alpha, self.k = lm, spec.alpha, min(spec.k, lm.vocab_size)
        self.request, self.emit, self.advance = request, emit, advance
        self.slots = BatchSlots([lm], request, width=self.k)
        self.states: list[Tensor] = []
        """State from which each text goes on, (count, d), and those of all its tokens at length 1, (count, room, d)."""

    def run(self) -> None:
        """Search until every text is done."""
        import torch

        slots, runner = self.slots, self.slots.runners[0]
        while True:
            self._refill_slots()
            n = len(slots)
            if not n:
                return
            hidden, seen = self.states
            (logits,) = slots.compute_logits([hidden[:n]])
            p, tokens = torch.softmax(slots.forbid_end(logits), dim=-1).topk(self.k, dim=-1)
            states = runner.extend(tokens.reshape(-1), slots.rows(range(n))).view(n, self.k, -1)
            new = torch.nn.functional.normalize(states.float(), dim=-1)
            lengths = slots.lengths
            choice = ((1 - self.alpha) * p - self.alpha * _measure_closeness(new, seen, lengths)).argmax(-1)
            rows = torch.arange(n, device=choice.device)
            hidden[:n] = states[rows, choice]
            seen[rows, copy_to_device(lengths, rows.device)] = new[rows, choice]
            best, chosen = slots.read(tokens[rows, choice], choice)
            targets = slots.rows(range(n))
            add_tokens(slots, best, self.emit)
            self.advance(n)
            source = np.repeat(np.arange(n) * self.k + chosen, self.k)
            runner.copy(source.tolist(), targets, since=int(lengths.min()))

    def _refill_slots(self) -> None:
        """Fill free slots with waiting prompts, and move the states of texts that changed their slots."""
        import torch

        fresh = self.slots.refill(*self.states)
        for slot, states in zip(fresh, self.slots.run_prompts(every=True)[0] if fresh else (), strict=True):
            if not self.states:
                count, room, width = self.slots.count, self.slots.room, states.shape[1]
                all_states = states.new_zeros((count, room, width), dtype=torch.float32)
                self.states = [states.new_zeros((count, width)), all_states]
            hidden, seen = self.states
            hidden[slot] = states[-1]
            seen[slot, : len(states)] = torch.nn.functional.normalize(states.float(), dim=-1)


def _measure_closeness(new: Tensor, seen: Tensor, lengths: I64) -> Tensor:
    """Return each candidate's largest cosine with the text so far, (n, k); texts of equal length go together."""
    import torch

    if new.device.type != "cpu":
        longest = int(lengths.max())
        inside = torch.arange(longest, device=new.device) < copy_to_device(lengths, new.device)[:, None]
        cosines = torch.einsum("nkd,ntd->nkt", new, seen[: len(new), :longest])
        return cosines.masked_fill(~inside[:, None], -1.0).amax(-1)
    close = new.new_empty(new.shape[:2])
    for length in np.unique(lengths).tolist():
        at = np.flatnonzero(lengths == length).tolist()
        close[at] = torch.einsum("nkd,ntd->nkt", new[at], seen[at, :length]).amax(-1)
    return close


@decoder
class ContrastiveDecoding(Decoder):
    """The token that an expert prefers most over an amateur (Li et al. 2023).

    Li et al. 2023, "Contrastive decoding: open-ended text generation as optimization", section 3, greedily (the paper
    searches with 5 beams).
    """

    name = "contrastive_decoding"
    table_rank = 40
    stochastic = False
    has_q = False
    no_q_reason = "contrastive decoding chooses by a difference of two models' scores, no probability"

    amateur: Mapping[str, Any] = field(default_factory=lambda: {"path": "bundled:docs-s", "dtype": "float32"})
    """Options of a `ModelSpec`: a smaller model with the same tokenizer; the expert is the run's model."""
    alpha: float = ranged(0.1, "(0, 1]", "a number in (0, 1]")
    """Li et al. 2023: excludes tokens below alpha times the expert's maximum."""
    amateur_temperature: float = ranged(1.0, "(0, inf)", "a number above 0")
    """Li et al. 2023: 0.5 for GPT-2."""

    def check(self) -> None:
        """Refuse an amateur that is no model."""
        self.amateur_spec()

    @property
    def title(self) -> str:
        """Name and amateur."""
        return f"{self.name} amateur={self.amateur_spec().title} alpha={self.alpha:g}"

    def amateur_spec(self) -> ModelSpec:
        """The amateur as a spec."""
        return core.construct(ModelSpec, self.amateur, "decoder.amateur")

    def companions(self) -> Mapping[str, ModelSpec]:
        """The amateur."""
        return {"amateur": self.amateur_spec()}

    def check_model(self, model: ModelInfo) -> None:
        """Refuse an expert whose tokens are not the amateur's."""
        amateur = self.amateur_spec()
        specs = (cast("ModelSpec", model), amateur)
        expert_vocabulary, amateur_vocabulary = (load_tokenizer(spec).vocabulary() for spec in specs)
        if expert_vocabulary != amateur_vocabulary:
            raise SpecError(
                f"decoder.{self.name}.amateur: {amateur.title} and the expert {model.title} have different tokenizers "
                f"({len(amateur_vocabulary)} and {len(expert_vocabulary)} tokens); both need the same one"
            )

    def run(self, lm: LanguageModel, request: GenerationRequest, emit: Emit, advance: Advance) -> None:
        """Decode texts."""
        if "amateur" not in request.companions:
            raise SpecError(f"decoder.{self.name} needs its amateur loaded; give generate its companions")
        amateur = request.companions["amateur"]
        if amateur.vocab_size != lm.vocab_size:
            raise SpecError(
                f"decoder.{self.name}.amateur: {amateur.spec.title} has {amateur.vocab_size} logits, the expert "
                f"{lm.vocab_size}; both need as many"
            )
        decode_rows([lm, amateur], request, emit, advance, _DifferenceChooser(self.alpha, self.amateur_temperature))


class _DifferenceChooser(TokenChooser):
    def __init__(self, alpha: float, temperature: float) -> None:
        self._alpha, self._temperature = alpha, temperature

    def choose(self, logits: list[Tensor], slots: BatchSlots) -> tuple[Tensor, I64]:
        import torch

        expert = torch.log_softmax(slots.forbid_end(logits[0]), dim=-1)
        other = torch.log_softmax(logits[1].to(expert.device) / self._temperature, dim=-1)
        low = expert < expert.amax(-1, keepdim=True) + math.log(self._alpha)
        token = (expert - other).masked_fill_(low, float("-inf")).argmax(-1)
        return token, slots.read(token)[0]
