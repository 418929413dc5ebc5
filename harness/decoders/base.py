"""Base classes of decoders. These are specs: torch is imported where tensors are used."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from openended.harness.core import Advance, Generation, ModelInfo, Spec, SpecError, digest, ranged
from openended.harness.decoders.descending_logits import DescendingLogits, Truncation
from openended.harness.decoders.truncation_rules import keep_all

if TYPE_CHECKING:
    from torch import Tensor


TEMPERATURES = "a number from 1e-6 to 1e6 (for 0, decoder=greedy)"
"""Outside, scaled logits are equal or infinite in float32."""
Emit = Callable[[list[Generation]], None]  # takes rows as soon as they are finished; each row once


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt to continue."""

    example_id: str
    sample: int  # index among the draws for this example
    token_ids: tuple[int, ...]  # may be empty; the model's beginning-of-text token is used then
    text: str = ""  # the prompt as text, for models that read text only; empty: decode the ids
    suffix_ids: tuple[int, ...] = ()  # token ids behind the text, which a denoiser sees; other models have none
    messages: tuple[Mapping[str, str], ...] = ()  # the turns of a conversation, for models behind a chat endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """Prompts to continue, with everything that decides the texts beside the model."""

    prompts: Sequence[Prompt]  # in any order
    decoder: Decoder  # chooses the tokens; resolved (`Decoder.resolve`)
    seed: int
    max_new_tokens: int  # length limit of each text, in tokens
    min_new_tokens: int = 0  # the end of text is forbidden before this many tokens; 0: always allowed
    continue_after_end: bool = False  # an end token does not end a text: each gets `max_new_tokens` tokens
    batch_size: int  # texts at once; changes no text (exact on a CPU in float32)
    companions: Mapping[str, Any] = field(default_factory=dict)
    """Loaded models that the decoder needs besides the one under test (`Decoder.companions`), by name."""


class Decoder(Spec):
    """Base of all decoders; subclasses are registered frozen dataclasses."""

    group: ClassVar[str] = "decoder"
    stochastic: ClassVar[bool]  # false: two runs with different seeds give the same texts
    has_q: ClassVar[bool]  # true: there is a token-level distribution Q to score human text with
    no_q_reason: ClassVar[str] = ""  # shown instead of teacher-forced metrics where `has_q` is false
    denoises: ClassVar[bool] = False  # true: it fills positions in any order, and needs a denoiser
    title_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that the title always shows; others only where they differ from the default."""
    table_rank: ClassVar[int] = 1000
    """Rank in tables, smallest first: from search to sampling, as in the papers; equal ranks are sorted by name."""
    server_options: ClassVar[Mapping[str, str] | None] = None
    """Parameter of a server's sampler → the option that it carries, beside temperature and penalties; None: servers
    cannot sample like this. Not inherited: a subclass may change the rule."""

    @property
    def title(self) -> str:
        """Short display name, for example `nucleus p=0.95`."""
        parts = []
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            if f.name in self.title_fields or (f.name != "human_ppl" and value != f.default):
                parts.append(f"{f.name}={value:g}" if isinstance(value, float) else f"{f.name}={value}")
        is_named = any(part.startswith(f"{self.name}=") for part in parts)  # `temperature=0.6` names the decoder too
        return " ".join(parts if is_named else [self.name, *parts])

    @property
    def needs_human_ppl(self) -> bool:
        """True if `set_human_ppl` needs the perplexity of the human side under the model."""
        return False

    def set_human_ppl(self, human_ppl: float) -> Decoder:
        """Return the decoder with the values that it takes from the human side filled in."""
        raise SpecError(f"decoder.{self.name} takes nothing from the human side, got perplexity {human_ppl}")

    def companions(self) -> Mapping[str, ModelInfo]:
        """Return the models beside the one under test, by name: `GenerationRequest.companions`; they enter the key."""
        return {}

    def inputs(self) -> Mapping[str, str]:
        """Return digests of what else decides the texts: the companions."""
        return {name: digest(spec.identity()) for name, spec in self.companions().items()}

    def apply_extra_penalty(self, logits: Tensor, history: Tensor, lengths: Tensor | None) -> Tensor:
        """Return logits (n, V) after the decoder's own penalty for earlier tokens; see `q.apply_penalties`."""
        return logits

    def check_model(self, model: ModelInfo) -> None:
        """Refuse a model that the decoder cannot work with; no weights are loaded."""

    def check_context_length(self, context_length: int | None, max_new_tokens: int, longest_prompt: int) -> None:
        """Refuse, before a model loads, lengths that the model cannot hold (None: it has no limit).

        `longest_prompt` is a number of tokens, 0 where it is not known yet.
        """
        if max_new_tokens < 1:
            raise SpecError(f"max_new_tokens: expected at least 1, got {max_new_tokens}")
        if context_length is None:
            return
        before = longest_prompt if self.denoises else max(longest_prompt, 1)  # a denoiser needs no start token
        if longest_prompt >= context_length:
            raise SpecError(
                f"the longest prompt has {longest_prompt} tokens, the model {context_length} positions; cut the prompts"
            )
        if before + max_new_tokens > context_length:
            raise SpecError(
                f"max_new_tokens={max_new_tokens} after a prompt of {longest_prompt} tokens goes beyond the model's "
                f"{context_length} positions; at most {context_length - before}"
            )

    def run(self, lm: Any, request: GenerationRequest, emit: Emit, advance: Advance) -> None:  # noqa: ANN401 - a `models.LanguageModel`
        """Continue the prompts of a request that names this decoder; see `generation.generate_texts`."""
        raise TypeError(f"{type(self).__name__} does not run {len(request.prompts)} prompts on {lm.spec.title}")


@dataclass(frozen=True, kw_only=True)
class QDecoder(Decoder):
    """A decoder that chooses each token by Q: penalties, temperature, truncation, renormalization.

    The options of this class combine with every truncation rule.
    """

    has_q: ClassVar[bool] = True
    one_hot: ClassVar[bool] = False  # Q puts everything on the best token
    rule: ClassVar[Callable[..., Truncation] | None] = None
    """One of `truncation_rules`; its parameters after the rows are options of the decoder."""
    keeps_all_at: ClassVar[Mapping[str, float]] = {}  # option → the value at which the rule keeps every token
    certifiable: ClassVar[bool] = False  # a list of the most probable tokens, as servers return it, can determine Q
    repetition_penalty: float = ranged(1.0, "(0, inf)", "a number above 0")
    """Logits of tokens already seen, prompt included, are divided by it if positive, else multiplied (Keskar 2019)."""
    no_repeat_ngram_size: int = ranged(0, "[0, inf)", "0 (off) or a positive integer")
    """No n-gram of this order, prompt included, comes twice; 0 is off (Paulus et al. 2018)."""

    @property
    def head(self) -> int:
        """Number of most probable tokens that are examined before a whole row is sorted."""
        return 512

    @property
    def untruncated(self) -> bool:
        """True where Q is the whole softmax: no order is needed, and no temperature can come after a cut."""
        return type(self).rule is keep_all or any(getattr(self, name) == end for name, end in self.keeps_all_at.items())

    @property
    def penalizes(self) -> bool:
        """True where Q depends on which tokens came before."""
        return self.repetition_penalty != 1 or self.no_repeat_ngram_size > 0

    def temperature_and_order(self) -> tuple[float, bool]:
        """Return the temperature, and whether it comes before truncation."""
        return 1.0, True

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Return which part of each row's descending order Q keeps."""
        rule = type(self).rule
        if rule is None:
            raise SpecError(f"decoder {self.name}: its class has no `rule` and no `truncate` for {len(ranked.z)} rows")
        return rule(ranked, **{name: getattr(self, name) for name in _list_parameters(rule)})

    def first_state(self) -> tuple[float, ...]:
        """State before the first token, where Q depends on what was drawn; empty for most decoders."""
        return ()

    def next_state(self, state: Tensor | None, surprise: Tensor | None) -> Tensor | None:
        """Return the state after drawing tokens with this surprisal (n,), in nats, before truncation."""
        return state


@cache
def _list_parameters(rule: Callable[..., Truncation]) -> list[str]:
    return list(inspect.signature(rule).parameters)[1:]


@dataclass(frozen=True, kw_only=True)
class SamplingDecoder(QDecoder):
    """A decoder that draws from Q."""

    stochastic: ClassVar[bool] = True
    option_synonyms = {"temp": "temperature"}

    temperature: float = ranged(1.0, "[1e-6, 1e6]", TEMPERATURES)
    """Logits are divided by it; 1 leaves them."""
    temperature_order: Literal["before", "after"] = "before"
    """Before truncation (Holtzman et al. 2020, transformers) or after it (as min-p is often run).

    Where the order makes no difference (temperature 1, no truncation) it is stored as the default: one system has one
    identity.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.temperature == 1 or self.untruncated:
            object.__setattr__(self, "temperature_order", type(self).temperature_order)

    def temperature_and_order(self) -> tuple[float, bool]:
        """Return the temperature, and whether it comes before truncation."""
        return self.temperature, self.temperature_order == "before"
