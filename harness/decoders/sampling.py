"""Specs of decoders that sample from a token-level Q; the rules are in `truncation_rules`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from openended.harness.core import register
from openended.harness.decoders import truncation_rules
from openended.harness.decoders.base import QDecoder, SamplingDecoder
from openended.harness.decoders.descending_logits import DescendingLogits, Truncation


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class Greedy(QDecoder):
    """The most probable token; Q is its one-hot. Equal logits: the lowest id."""

    name: ClassVar[str] = "greedy"
    table_rank: ClassVar[int] = 0
    server_options: ClassVar[Mapping[str, str]] = {}
    certifiable: ClassVar[bool] = True
    stochastic: ClassVar[bool] = False
    one_hot: ClassVar[bool] = True


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class Ancestral(SamplingDecoder):
    """Sampling from the model's full distribution; no hidden top-k."""

    name: ClassVar[str] = "ancestral"
    table_rank: ClassVar[int] = 60
    server_options: ClassVar[Mapping[str, str]] = {}
    certifiable: ClassVar[bool] = True

    @property
    def untruncated(self) -> bool:
        """True: nothing is cut."""
        return True

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Keep everything."""
        return truncation_rules.keep_all(ranked)


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class Temperature(SamplingDecoder):
    """Sampling from the full distribution at another temperature (Ackley et al. 1985)."""

    name: ClassVar[str] = "temperature"
    table_rank: ClassVar[int] = 70
    server_options: ClassVar[Mapping[str, str]] = {}
    certifiable: ClassVar[bool] = True
    title_fields: ClassVar[tuple[str, ...]] = ("temperature",)

    temperature: float = 0.9  # Holtzman et al. 2020, Table 1: t = 0.9

    @property
    def untruncated(self) -> bool:
        """True: nothing is cut."""
        return True

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Keep everything."""
        return truncation_rules.keep_all(ranked)


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class TopK(SamplingDecoder):
    """The k most probable tokens (Fan et al. 2018)."""

    name: ClassVar[str] = "top_k"
    table_rank: ClassVar[int] = 80
    server_options: ClassVar[Mapping[str, str]] = {"top_k": "k"}
    certifiable: ClassVar[bool] = True
    title_fields: ClassVar[tuple[str, ...]] = ("k",)

    k: int = 40  # Radford et al. 2019; Holtzman et al. 2020, Table 1

    def check(self) -> None:
        """Refuse k < 1."""
        super().check()
        self.require(self.k >= 1, "k", "an integer of at least 1")

    @property
    def head(self) -> int:
        """Enough for the k best and a few ties."""
        return max(512, self.k + 64)

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Keep the k best, ties with the k-th included."""
        return truncation_rules.top_k(ranked, self.k)


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class Nucleus(SamplingDecoder):
    """The smallest set of best tokens whose mass reaches p (Holtzman et al. 2020)."""

    name: ClassVar[str] = "nucleus"
    table_rank: ClassVar[int] = 90
    server_options: ClassVar[Mapping[str, str]] = {"top_p": "p"}
    certifiable: ClassVar[bool] = True
    title_fields: ClassVar[tuple[str, ...]] = ("p",)

    p: float = 0.95  # Pillutla et al. 2021, Table 3

    def check(self) -> None:
        """Refuse p outside (0, 1]."""
        super().check()
        self.require(0 < self.p <= 1, "p", "a number in (0, 1]")

    @property
    def untruncated(self) -> bool:
        """True at p = 1."""
        return self.p >= 1

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Keep the nucleus."""
        return truncation_rules.nucleus(ranked, self.p)


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class MinP(SamplingDecoder):
    """Tokens with at least p times the best one's probability (Nguyen et al. 2025)."""

    name: ClassVar[str] = "min_p"
    table_rank: ClassVar[int] = 130
    server_options: ClassVar[Mapping[str, str]] = {"min_p": "p"}
    certifiable: ClassVar[bool] = True
    title_fields: ClassVar[tuple[str, ...]] = ("p",)

    p: float = 0.1  # Nguyen et al. 2025, section 4: 0.05 to 0.1

    def check(self) -> None:
        """Refuse p outside [0, 1]."""
        super().check()
        self.require(0 <= self.p <= 1, "p", "a number in [0, 1]")

    @property
    def untruncated(self) -> bool:
        """True at p = 0."""
        return self.p <= 0

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Keep tokens near enough to the best."""
        return truncation_rules.min_p(ranked, self.p)


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class Typical(SamplingDecoder):
    """Tokens whose surprisal is nearest to the entropy, up to the mass (Meister et al. 2023)."""

    name: ClassVar[str] = "typical"
    table_rank: ClassVar[int] = 100
    server_options: ClassVar[Mapping[str, str]] = {"typical_p": "mass"}
    title_fields: ClassVar[tuple[str, ...]] = ("mass",)

    mass: float = 0.95  # Meister et al. 2023, section 6: tau of 0.95 for stories

    def check(self) -> None:
        """Refuse a mass outside (0, 1]."""
        super().check()
        self.require(0 < self.mass <= 1, "mass", "a number in (0, 1]")

    @property
    def untruncated(self) -> bool:
        """True at a mass of 1."""
        return self.mass >= 1

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Keep the locally typical set."""
        return truncation_rules.typical(ranked, self.mass)


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class Epsilon(SamplingDecoder):
    """Tokens with probability at least eps (Hewitt et al. 2022)."""

    name: ClassVar[str] = "epsilon"
    table_rank: ClassVar[int] = 110
    server_options: ClassVar[Mapping[str, str]] = {"epsilon": "eps"}
    certifiable: ClassVar[bool] = True
    title_fields: ClassVar[tuple[str, ...]] = ("eps",)

    eps: float = 3e-4  # Hewitt et al. 2022: 3e-4 to 9e-4 over sizes of GPT-2

    def check(self) -> None:
        """Refuse eps outside (0, 1)."""
        super().check()
        self.require(0 < self.eps < 1, "eps", "a number in (0, 1)")

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Keep tokens above the floor."""
        return truncation_rules.epsilon(ranked, self.eps)


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class Eta(SamplingDecoder):
    """Tokens with probability at least min(eps, sqrt(eps) exp(-entropy)) (Hewitt et al. 2022)."""

    name: ClassVar[str] = "eta"
    table_rank: ClassVar[int] = 120
    server_options: ClassVar[Mapping[str, str]] = {"eta": "eps"}
    title_fields: ClassVar[tuple[str, ...]] = ("eps",)

    eps: float = 2e-3  # Hewitt et al. 2022: 3e-4 to 4e-3 over sizes of GPT-2

    def check(self) -> None:
        """Refuse eps outside (0, 1)."""
        super().check()
        self.require(0 < self.eps < 1, "eps", "a number in (0, 1)")

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Keep tokens above the floor that falls with the entropy."""
        return truncation_rules.eta(ranked, self.eps)


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class TopNSigma(SamplingDecoder):
    """Logits within n standard deviations of the best (Tang et al. 2025)."""

    name: ClassVar[str] = "top_n_sigma"
    server_options: ClassVar[Mapping[str, str]] = {"n_sigma": "n"}
    title_fields: ClassVar[tuple[str, ...]] = ("n",)

    n: float = 1.0  # Tang et al. 2025, section 4

    def check(self) -> None:
        """Refuse n <= 0."""
        super().check()
        self.require(0 < self.n < float("inf"), "n", "a number above 0")

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Keep logits within n standard deviations of the best."""
        return truncation_rules.top_n_sigma(ranked, self.n)


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class TopH(SamplingDecoder):
    """Best tokens while their part of the entropy stays within h (Potraghloo et al. 2025)."""

    name: ClassVar[str] = "top_h"
    title_fields: ClassVar[tuple[str, ...]] = ("h",)

    h: float = 0.4  # Potraghloo et al. 2025: alpha = 0.4
    candidates: int = 100  # transformers looks at the 100 best tokens

    def check(self) -> None:
        """Refuse h outside (0, 1] and fewer than two candidates."""
        super().check()
        self.require(0 < self.h <= 1, "h", "a number in (0, 1]")
        self.require(2 <= self.candidates <= 512, "candidates", "an integer from 2 to 512")

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Keep tokens within the entropy's budget."""
        return truncation_rules.top_h(ranked, self.h, self.candidates)


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class Entmax(SamplingDecoder):
    """Alpha-entmax in place of softmax: sparse without a cut (Peters et al. 2019; Martins et al. 2020).

    Alpha = 2 is sparsemax. Meant for models trained with it; on others it is a truncation that also reweighs.
    """

    name: ClassVar[str] = "entmax"
    title_fields: ClassVar[tuple[str, ...]] = ("alpha",)

    alpha: float = 1.2  # Martins et al. 2020: 1.2 for language modeling on WikiText

    def check(self) -> None:
        """Refuse alpha outside (1, 4] and a temperature after it."""
        super().check()
        self.require(1.01 <= self.alpha <= 4, "alpha", "a number in [1.01, 4]; 1 is `ancestral`")
        self.require(self.temperature_order == "before", "temperature_order", "'before': entmax has no cut to follow")

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Weight tokens by entmax."""
        return truncation_rules.entmax(ranked, self.alpha)
