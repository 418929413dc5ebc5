"""The probe: what a server does with a few requests whose answers are known, before any of its texts is believed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import numpy as np

from openended.harness.backends.openai.binomial import FALSE_ALARMS, strange, strangest
from openended.harness.backends.openai.logprobs import read_echo
from openended.harness.backends.openai.probe_prompts import AGAIN, BEGINNINGS, DRAWS, ProbePrompts
from openended.harness.backends.openai.replies import Listing, finished
from openended.harness.backends.openai.sampling import NEUTRAL, Sampling, sampling_of
from openended.harness.backends.openai.session import Exchange
from openended.harness.backends.openai.truncated_q import head_of
from openended.harness.core import DataError, Tokenizer
from openended.harness.decoders import Decoder, QDecoder

KNOWN = "The weather was fine in the morning, and the number of people in the streets was large."
FEW_DRAWS = 192
"""Draws where nothing is listed: more than 50 different tokens must be among them."""
TOP = 50
"""A hidden top-k is one of 40 (llama.cpp) or 50 (transformers) as a rule."""
RAW = 0.2
"""Nats by which two readings of one log-probability may differ (half precision, another batch)."""
LENGTH = 8


@dataclass(slots=True)
class ProbeReport:
    """What a probe found."""

    passed: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """What is wrong, and what to set."""
    unseen: list[str] = field(default_factory=list)
    """What could not be checked."""

    def line(self) -> str:
        """Return what was found, in one line."""
        made = f"{len(self.passed)} checks passed ({', '.join(self.passed)}; false alarms below {FALSE_ALARMS:g})"
        return made + (f"; not checked: {', '.join(self.unseen)}" if self.unseen else "")


@dataclass
class Probe:
    """The checks of one endpoint.

    Args:
        server: Asks it.
        tokenizer: The model's; None: texts alone.
        vocab_size: Tokens that there are.
        decoder: The decoder that is to be run; None: the server scores alone.
        context: Positions of the model, where known.
        salt: Names the draws.
    """

    server: Exchange
    tokenizer: Tokenizer | None
    vocab_size: int
    decoder: Decoder | None
    context: int | None = None
    salt: int = 0
    report: ProbeReport = field(default_factory=ProbeReport)
    prompts: ProbePrompts = field(init=False)

    def __post_init__(self) -> None:
        self.prompts = ProbePrompts(self.server, self.salt)

    async def run(self) -> ProbeReport:
        """Make all checks that the dialect allows."""
        made = sampling_of(self.decoder) if self.decoder is not None else None
        drawing = self.decoder is not None and self.decoder.stochastic
        await self._check("prompt", self._prompt)
        if self.report.faults:  # what comes of another prompt says nothing
            return self.report
        if self.server.dialect.listed:
            await self._check("listing", self._list)
        if self.prompts.listings:
            await self._check("raw log-probabilities", self._raw)
        if self.decoder is not None and self.prompts.listings:
            await self._check("hidden sampling parameters", self._hidden)
            if drawing and made is not None and made != NEUTRAL:
                await self._check(f"draws of {self.decoder.title if self.decoder else ''}", self._of_decoder)
        elif drawing:
            self.report.unseen.append("draws against log-probabilities (it lists none)")
            await self._check(f"more than {TOP} different tokens", self._different)
        if self.decoder is not None and not drawing:
            await self._check("the most probable token", self._greedy)
        if drawing and self.server.speech.seeded:
            await self._check("seeds", self._seeds)
        await self._echo()
        return self.report

    async def _check(self, name: str, check: Callable[[], Awaitable[str | None]]) -> None:
        try:
            fault = await check()
        except DataError as err:
            fault = str(err)
        if fault:
            self.report.faults.append(f"{name}: {fault}")
        elif fault is None:
            self.report.passed.append(name)

    async def _prompt(self) -> str | None:
        """A prompt of some length, and a text of the length that was asked for."""
        text = " ".join([KNOWN] * 8)
        if self.tokenizer is not None and self.context is not None:
            most = max(self.context - 2 * LENGTH, 1)
            text = self.tokenizer.decode(self.tokenizer.encode(text)[:most])
        for words in (text, KNOWN):
            ask = self.prompts.ask(words, max_tokens=LENGTH)
            finished(await self.server.send(ask), self.server.speech, ask, self.tokenizer, words)
        return None

    async def _list(self) -> str | None:
        """The best tokens after each prompt."""
        if not await self.prompts.look():
            self.report.unseen.append("log-probabilities (it lists none)")
            return ""
        return None

    async def _raw(self) -> str | None:
        """At another temperature the same log-probabilities are listed."""
        text = self.prompts.flat
        first = self.prompts.listings[text]
        second = await self.server.top(self.prompts.ask(text, sampling=Sampling(temperature=2.0)))
        if second is None or _apart(first, second) > RAW:
            return (
                "its log-probabilities change with the temperature, so they are those after sampling; "
                f"{self.server.dialect.hint}"
            )
        return None

    async def _hidden(self) -> str | None:
        """Draws with neutral parameters are as the server's own log-probabilities say."""
        faults = []
        for text, count in self.prompts.chosen():
            listing = self.prompts.listings[text]
            drawn = await self.server.draw(self.prompts.ask(text), count, self.prompts.seeds("neutral", text))
            odd = strangest(listing.tokens, np.exp(listing.log_probs), drawn)
            if odd is not None:
                best, hits, share = odd
                faults.append((text in AGAIN, hits / len(drawn), share, best, len(drawn)))
        if not faults:
            return None
        only_again = all(again for again, *_ in faults)
        _, had, share, best, count = faults[0]
        guess = "a hidden repetition penalty" if only_again else "a hidden top-k, top-p, min-p or temperature"
        return (
            f"with neutral parameters the {best} most probable tokens came in {had:.1%} of {count} draws, by its own "
            f"log-probabilities {share:.1%}: {guess}; {self.server.dialect.hint}"
        )

    async def _of_decoder(self) -> str | None:
        """Draws with the decoder's parameters are of its Q, as far as the list tells it."""
        decoder = self.decoder
        known = isinstance(decoder, QDecoder) and (decoder.untruncated or (decoder.certifiable and not decoder.one_hot))
        if not isinstance(decoder, QDecoder) or decoder.penalises or not known:
            self.report.unseen.append(f"draws of {decoder.title if decoder else ''} against its Q")
            return ""
        sampling = sampling_of(decoder) or NEUTRAL
        for text, _ in self.prompts.chosen()[:2]:
            head = head_of(decoder, self.prompts.listings[text], self.vocab_size)
            drawn = await self.server.draw(
                self.prompts.ask(text, sampling=sampling), DRAWS, self.prompts.seeds("own", text)
            )
            allowed = {*head.tokens, head.next}
            beyond = [token for token in drawn if token not in allowed]
            if head.decided and beyond:
                return f"{len(beyond)} of {len(drawn)} draws are cut off by it: it is ignored"
            inside = [token for token in drawn if token in set(head.tokens)]
            if strange(len(inside), len(drawn), *head.share) and not head.decided:
                low, high = head.share
                return (
                    f"{len(inside) / len(drawn):.1%} of the draws are of the {len(head.tokens)} most probable tokens, "
                    f"by its Q {low:.1%} to {high:.1%}: the server samples otherwise; {self.server.dialect.hint}"
                )
            odd = strangest(head.tokens, head.q, inside)
            if odd is not None:
                best, hits, share = odd
                return (
                    f"the {best} most probable tokens came in {hits / len(inside):.1%} of the draws, {share:.1%} by "
                    f"its Q: the server samples otherwise; {self.server.dialect.hint}"
                )
        return None

    async def _different(self) -> str | None:
        """More different tokens than a hidden top-k lets through, where no listing says how many there must be."""
        most = 0
        for text in BEGINNINGS[:2]:
            drawn = await self.server.draw(self.prompts.ask(text), FEW_DRAWS, self.prompts.seeds("neutral", text))
            most = max(most, len(set(drawn)))
            if most > TOP:
                return None
        return (
            f"{most} different tokens in {FEW_DRAWS} draws with neutral parameters: a hidden top-k, or no draw "
            f"at all; {self.server.dialect.hint}"
        )

    async def _greedy(self) -> str | None:
        """Without drawing, the most probable token comes, whatever the seed."""
        sampling = (sampling_of(self.decoder) if self.decoder is not None else None) or NEUTRAL
        plain = sampling.repetition_penalty == 1 and not sampling.no_repeat_ngram_size
        for text in (*BEGINNINGS[:4], *AGAIN):
            drawn = set(
                await self.server.draw(self.prompts.ask(text, sampling=sampling), 2, self.prompts.seeds("greedy", text))
            )
            if len(drawn) > 1:
                return f"two seeds gave two tokens: the server draws where it must not; {self.server.dialect.hint}"
            known = self.prompts.listings.get(text)
            if known is None or not plain:
                continue
            close = {t for t, p in zip(known.tokens, known.log_probs, strict=True) if p > known.log_probs[0] - RAW}
            if not drawn <= close:
                return (
                    f"it chose {next(iter(drawn))!r}, not its own most probable token {known.tokens[0]!r}: a hidden "
                    f"penalty; {self.server.dialect.hint}"
                )
        return None

    async def _seeds(self) -> str | None:
        """The same seed gives the same text, another seed another one; one of three pairs may differ by rounding."""
        text = self.prompts.flat
        same = other = 0
        for number in range(3):
            first, again, second = [
                await self.server.write(
                    self.prompts.ask(text, max_tokens=LENGTH), self.prompts.seed("text", number + step)
                )
                for step in (0, 0, 100)
            ]
            same += first == again
            other += first != second
        if not same:
            return (
                "one seed gave two texts: the server ignores it, so that texts cannot be made again; "
                f"{self.server.dialect.hint}; or set seeded=false, which the signature says"
            )
        return None if other else "two seeds gave one text, three times: its seed is fixed, or it does not draw"

    async def _echo(self) -> None:
        """The log-probabilities of a known text: one a token, finite, and those of the listing."""
        scores = self.decoder is None
        if not self.server.dialect.echoes or self.server.speech.chat or self.tokenizer is None:
            if scores:
                self.report.faults.append("echo: the dialect gives no log-probabilities of a given text")
            return
        try:
            fault = await self._compare_echo()
        except DataError as err:
            if scores:
                self.report.faults.append(f"echo: {err}")
            else:  # who only writes texts needs none
                self.report.unseen.append(f"log-probabilities of a given text ({err})")
            return
        if fault:
            self.report.faults.append(f"echo: {fault}")
        else:
            self.report.passed.append("echo")

    async def _compare_echo(self) -> str | None:
        read = {}
        for temperature in (1.0, 0.5):
            ask = self.server.echo(self.prompts.ask(KNOWN, sampling=Sampling(temperature=temperature)))
            read[temperature] = read_echo(await self.server.send(ask), self.server.speech, ask).log_probs[1:]
        if float(np.median(np.abs(read[1.0] - read[0.5]))) > RAW:
            return f"log-probabilities of a given text change with the temperature; {self.server.dialect.hint}"
        if not self.prompts.listings or self.server.dialect.keyed_by_text:
            return None
        text = self.prompts.flat
        best = int(self.prompts.listings[text].tokens[0])
        ask = self.server.echo(self.prompts.ask(text), (best,))
        found = float(read_echo(await self.server.send(ask), self.server.speech, ask).log_probs[-1])
        listed = float(self.prompts.listings[text].log_probs[0])
        if abs(found - listed) > RAW:
            return (
                f"a token has log-probability {found:.2f} in a given text and {listed:.2f} when it is to be "
                f"drawn: the latter is after sampling parameters; {self.server.dialect.hint}"
            )
        return None


def _apart(one: Listing, other: Listing) -> float:
    """Median difference of the log-probabilities that two listings share, in nats."""
    second = dict(zip(other.tokens, other.log_probs, strict=True))
    shared = [abs(p - second[t]) for t, p in zip(one.tokens, one.log_probs, strict=True) if t in second]
    return float(np.median(shared)) if len(shared) * 2 > len(one.tokens) else float("inf")
