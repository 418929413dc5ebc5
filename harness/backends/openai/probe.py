"""Probe: a few requests with known answers that a server must pass before its texts are used."""

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from openended.harness.backends.openai import replies
from openended.harness.backends.openai.dialects import NEUTRAL, CompletionRequest, Sampling, make_sampling
from openended.harness.backends.openai.listed_q import compute_listed_q
from openended.harness.backends.openai.replies import Listing, Token
from openended.harness.backends.openai.session import ServerSession
from openended.harness.core import F64, DataError, derive_seed
from openended.harness.decoders import Decoder, QDecoder

FALSE_ALARMS = 1e-6  # maximum probability that any test of one probe raises an alarm on a correct server
TESTS = 400  # maximum number of tests of one probe; the false alarm rate is divided by it (Bonferroni)
NOISE = 0.02  # tolerated relative error of a server's log-probabilities (half precision, another batch)


def is_implausible(hits: int, draws: int, low: float, high: float | None = None) -> bool:
    """Test whether a number of hits is too low or too high for a probability, at level `FALSE_ALARMS / TESTS`."""
    from scipy.stats import binom

    high = min(1.0, (low if high is None else high) * (1 + NOISE))
    low *= 1 - NOISE
    if hits > draws * high:
        return bool(2 * binom.sf(hits - 1, draws, high) < FALSE_ALARMS / TESTS)
    if hits < draws * low:
        return bool(2 * binom.cdf(hits, draws, low) < FALSE_ALARMS / TESTS)
    return False


def find_worst_mismatch(tokens: Sequence[Hashable], q: F64, draws: Sequence[Hashable]) -> tuple[int, int, float] | None:
    """Find the k for which the share of draws in the k most probable tokens differs most from its probability."""
    counts, total = Counter(draws), len(draws)
    hits = np.cumsum([counts[token] for token in tokens])
    shares = np.minimum(np.cumsum(q), 1.0)
    differences = np.abs(hits / max(total, 1) - shares)
    implausible = [i for i in range(len(tokens)) if is_implausible(int(hits[i]), total, float(shares[i]))]
    if not implausible:
        return None
    worst = max(implausible, key=lambda i: float(differences[i]))
    return worst + 1, int(hits[worst]), float(shares[worst])


# Beginnings after which many words are likely, and repetitive ones, which reveal a penalty.
BEGINNINGS = ("The", "In the", "She said that the", "We use a", "Return the", "This is one of the")
REPETITIVE = (
    "red blue green red blue green red blue green red blue",
    "the name and the name and the name and the",
    "a list of a list of a list of a",
)
DRAWS, MANY_DRAWS = 512, 1024
SINGLE_DRAWS = 40  # after each prompt, of a server that gives one per request: a probe takes at most 300 requests
RAW = 0.2  # nats by which two readings of one log-probability may differ (half precision, another batch)
PATH_LENGTH = 32  # tokens of the texts that are searched for a position where few tokens are likely
FULL = 0.97  # listed mass at which a hidden top-p of 0.9 to 0.95 shows best: what it cuts off is not in the list
KNOWN_TEXT = "The weather was fine in the morning, and the number of people in the streets was large."
FEW_DRAWS = 192  # number of draws without listings; they must have more than 50 distinct tokens
TOP = 50  # a hidden top-k is one of 40 (llama.cpp) or 50 (transformers) as a rule
LENGTH = 8
UNSEEN_SMALL = f"faults that {SINGLE_DRAWS} draws do not show (it gives one per request; audit=true finds them)"
UNSEEN_PENALTIES = "presence and frequency penalties (one-token draws cannot show them)"


@dataclass(slots=True)
class ProbeReport:
    """Result of a probe: checks passed, faults and what to set, and what could not be checked."""

    passed: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    listings: dict[str, Listing] = field(default_factory=dict)
    """Prompt → the most probable next tokens by the server."""

    def line(self) -> str:
        summary = f"{len(self.passed)} checks passed ({', '.join(self.passed)}; false alarms below {FALSE_ALARMS:g})"
        return summary + (f"; not checked: {', '.join(self.unseen)}" if self.unseen else "")


class Skipped(Exception):  # noqa: N818 - no error: what a check cannot show
    """Raised by a check that this server or decoder does not allow; its text says what is left unchecked."""


class Probe:
    """The checks of one endpoint; each is a method that returns the fault it finds, or None."""

    def __init__(self, server: ServerSession, decoder: Decoder | None, context: int | None = None) -> None:
        self.server, self.served, self.decoder, self.context = server, server.served, decoder, context
        self.sampling = make_sampling(decoder) if decoder is not None else None
        self.stochastic = decoder is not None and decoder.stochastic
        self.report = ProbeReport()
        self.listings = self.report.listings

    def _list_checks(self) -> Iterator[tuple[str, Callable[[], Awaitable[str | None]]]]:
        """Yield name and method of the checks that the dialect allows, each once those before it have ended."""
        yield "prompt", self._check_prompt
        if self.report.faults:  # results for a wrong prompt are meaningless
            return
        if self.served.listed:
            yield "listing", self._check_listing
        if self.listings:
            yield "raw log-probabilities", self._check_raw
        if self.decoder is not None and self.listings:
            yield "hidden sampling parameters", self._check_hidden_parameters
            if self.stochastic and self.sampling not in (None, NEUTRAL):  # it draws, and not from the model's own law
                yield f"draws of {self.decoder.title}", self._check_decoder
        elif self.stochastic:
            self.report.unseen.append("draws against log-probabilities (it lists none)")
            yield f"more than {TOP} different tokens", self._check_diversity
        if self.decoder is not None and not self.stochastic:
            yield "the most probable token", self._check_greedy
        if self.stochastic:
            self.report.unseen.append(UNSEEN_PENALTIES)
        if self.stochastic and self.served.seeded:
            yield "seeds", self._check_seeds
        if self.decoder is None or (self.server.dialect.echo and not self.served.chat and self.server.tokenizer):
            yield "echo", self._check_echo

    async def run(self) -> ProbeReport:
        """Run all checks that the dialect allows."""
        for name, check in self._list_checks():
            await self.run_check(name, check)
        return self.report

    async def run_check(self, name: str, check: Callable[[], Awaitable[str | None]]) -> None:
        """Run a check, and note what came of it."""
        try:
            fault = await check()
        except Skipped as reason:
            self.report.unseen.append(str(reason))
            return
        except DataError as err:
            fault = str(err)
        if fault:
            self.report.faults.append(f"{name}: {fault}")
        else:
            self.report.passed.append(name)

    # Requests: prompts, seeds and listings.

    def make_request(self, text: str, *, max_tokens: int = 1, sampling: Sampling = NEUTRAL) -> CompletionRequest:
        tokenizer = self.server.tokenizer
        ids = tokenizer.complete_prompt(tokenizer.encode(text)) if tokenizer is not None else ()
        return CompletionRequest(ids=ids, text=text, max_tokens=max_tokens, sampling=sampling, seed=self._seed(text))

    def _seed(self, *names: str | int) -> int:
        return derive_seed(0, "probe", *names)

    async def _draw_tokens(
        self, text: str, count: int, kind: str, sampling: Sampling = NEUTRAL, single: int = SINGLE_DRAWS
    ) -> list[Token]:
        """Draw next tokens of a prompt; each kind of draws has seeds of its own."""
        request = self.make_request(text, sampling=sampling)
        draws = await self.server.draw(request, count, lambda number: self._seed(kind, text, number), single)
        if len(draws) < count and UNSEEN_SMALL not in self.report.unseen:
            self.report.unseen.append(UNSEEN_SMALL)
        return draws

    async def _check_listing(self) -> None:
        """Ask for the most probable tokens after each prompt, if the server lists any."""
        listings = {}
        for text in (*BEGINNINGS, *REPETITIVE):
            listing = await self.server.top(self.make_request(text))
            if listing is None:
                raise Skipped("log-probabilities (it lists none)")
            listings[text] = listing
        self.listings.update(listings)
        if self.served.chat:
            return
        candidates: list[tuple[str, Listing]] = []
        for start in REPETITIVE:  # the most probable text has positions where few tokens are likely
            request = self.make_request(start, max_tokens=PATH_LENGTH, sampling=Sampling(temperature=0.0))
            along = await self.server.list_tokens_along_text(request)
            candidates += [(start + more, listing) for more, listing in along]
        for text, _ in sorted(candidates, key=lambda candidate: abs(candidate[1].mass - FULL))[:1]:
            listing = await self.server.top(self.make_request(text))
            self.listings.update({text: listing} if listing is not None else {})

    @property
    def flattest_prompt(self) -> str:
        """The prompt whose listed next tokens have the smallest total probability."""
        return min(BEGINNINGS, key=lambda text: self.listings[text].mass if self.listings else 0.0)

    def select_prompts(self) -> list[tuple[str, int]]:
        """Return prompts with many, with few and with repetitive likely tokens, each with its number of draws."""
        near = min(self.listings, key=lambda text: abs(self.listings[text].mass - FULL))
        again = sorted(REPETITIVE, key=lambda text: abs(float(np.exp(self.listings[text].log_probs[0])) - 0.6))[:2]
        return list(
            dict([(self.flattest_prompt, DRAWS), (near, MANY_DRAWS), *((text, DRAWS) for text in again)]).items()
        )

    # The checks.

    async def _check_prompt(self) -> str | None:
        """Check that the server reads the whole prompt and returns a text of the requested length."""
        tokenizer, text = self.server.tokenizer, " ".join([KNOWN_TEXT] * 8)
        if tokenizer is not None and self.context is not None:
            text = tokenizer.decode(tokenizer.encode(text)[: max(self.context - 2 * LENGTH, 1)])
        for words in (text, KNOWN_TEXT):
            request = self.make_request(words, max_tokens=LENGTH)
            replies.read_completion(await self.server.send(request), self.served, request, tokenizer, words)
        return None

    async def _check_raw(self) -> str | None:
        """Check that the listed log-probabilities do not depend on the temperature."""
        text = self.flattest_prompt
        second = await self.server.top(self.make_request(text, sampling=Sampling(temperature=2.0)))
        if second is not None and median_difference(self.listings[text], second) <= RAW:
            return None
        return (
            "its log-probabilities change with the temperature, so they are those after sampling; "
            f"{self.server.dialect.hint}"
        )

    async def _check_hidden_parameters(self) -> str | None:
        """Check that draws with neutral parameters match the server's log-probabilities."""
        faults = []
        for text, count in self.select_prompts():
            listing = self.listings[text]
            draws = await self._draw_tokens(text, count, "neutral")
            odd = find_worst_mismatch(listing.tokens, np.exp(listing.log_probs), draws)
            if odd is not None:
                best, hits, share = odd
                faults.append((text in REPETITIVE, hits / len(draws), share, best, len(draws)))
        if not faults:
            return None
        only_again = all(again for again, *_ in faults)
        _, had, share, best, count = faults[0]
        causes = "temperature, top-k, top-p or min-p"
        causes = f"repetition penalty, {causes}" if only_again else f"{causes}, or repetition penalty"
        return (
            f"with neutral parameters the {best} most probable tokens came in {had:.1%} of {count} draws, by its own "
            f"log-probabilities {share:.1%}; possible causes: a hidden {causes}; {self.server.dialect.hint}"
        )

    async def _check_decoder(self) -> str | None:
        """Check that draws with the decoder's parameters match its Q, as far as the listing determines it."""
        decoder, hint = self.decoder, self.server.dialect.hint
        comparable = isinstance(decoder, QDecoder) and (
            decoder.untruncated or (decoder.certifiable and not decoder.one_hot)
        )
        if not isinstance(decoder, QDecoder) or decoder.penalizes or not comparable:
            raise Skipped(f"draws of {decoder.title if decoder else ''} against its Q")
        for text, _ in self.select_prompts()[:2]:
            head = compute_listed_q(decoder, self.listings[text], self.served.vocab_size)
            draws = await self._draw_tokens(text, DRAWS, "own", self.sampling or NEUTRAL)
            allowed = {*head.tokens, head.next}
            beyond = [token for token in draws if token not in allowed]
            if head.decided and beyond:
                return f"{len(beyond)} of {len(draws)} draws are cut off by it: it is ignored"
            inside = [token for token in draws if token in set(head.tokens)]
            if is_implausible(len(inside), len(draws), *head.share) and not head.decided:
                low, high = head.share
                return (
                    f"{len(inside) / len(draws):.1%} of the draws are of the {len(head.tokens)} most probable tokens, "
                    f"by its Q {low:.1%} to {high:.1%}: the server samples otherwise; {hint}"
                )
            odd = find_worst_mismatch(head.tokens, head.q, inside)
            if odd is not None:
                best, hits, share = odd
                return (
                    f"the {best} most probable tokens came in {hits / len(inside):.1%} of the draws, {share:.1%} by "
                    f"its Q: the server samples otherwise; {hint}"
                )
        return None

    async def _check_diversity(self) -> str | None:
        """Check for a hidden top-k without listings: draws must have more distinct tokens than it allows."""
        most = 0
        for text in BEGINNINGS[:2]:
            most = max(most, len(set(await self._draw_tokens(text, FEW_DRAWS, "neutral", single=FEW_DRAWS))))
            if most > TOP:
                return None
        return (
            f"{most} different tokens in {FEW_DRAWS} draws with neutral parameters: a hidden top-k, or no draw "
            f"at all; {self.server.dialect.hint}"
        )

    async def _check_greedy(self) -> str | None:
        """Check that greedy decoding returns the most probable token for every seed."""
        sampling = self.sampling or NEUTRAL
        plain = sampling.repetition_penalty == 1 and not sampling.no_repeat_ngram_size
        for text in (*BEGINNINGS[:4], *REPETITIVE):
            draws = set(await self._draw_tokens(text, 2, "greedy", sampling))
            if len(draws) > 1:
                return f"two seeds gave two tokens: the server draws where it must not; {self.server.dialect.hint}"
            listing = self.listings.get(text)
            if listing is None or not plain:
                continue
            near = {t for t, p in zip(listing.tokens, listing.log_probs, strict=True) if p > listing.log_probs[0] - RAW}
            if not draws <= near:
                return (
                    f"it chose {next(iter(draws))!r}, not its own most probable token {listing.tokens[0]!r}: a hidden "
                    f"penalty; {self.server.dialect.hint}"
                )
        return None

    async def _check_seeds(self) -> str | None:
        """Check that one seed gives one text, and another seed another; rounding may change one of three pairs."""
        request = self.make_request(self.flattest_prompt, max_tokens=LENGTH)
        same = other = 0
        for number in range(3):
            seeds = [self._seed("text", number + step) for step in (0, 0, 100)]
            first, again, second = [await self.server.write(request, seed) for seed in seeds]
            same += first == again
            other += first != second
        if not same:
            return (
                "one seed gave two texts: the server ignores it, so that texts cannot be made again; "
                f"{self.server.dialect.hint}; or set seeded=false, which the signature says"
            )
        return None if other else "two seeds gave one text, three times: its seed is fixed, or it does not draw"

    async def _check_echo(self) -> str | None:
        """Check the log-probabilities of a known text: one per token, finite, and equal to those of the listing."""
        if not self.server.dialect.echo or self.served.chat or self.server.tokenizer is None:
            return "the dialect gives no log-probabilities of a given text"
        try:
            return await self._compare_echo()
        except DataError as err:
            if self.decoder is None:
                raise
            raise Skipped(f"log-probabilities of a given text ({err})") from err  # generation alone needs none

    async def _compare_echo(self) -> str | None:
        halves = [
            (await self._read_echo(KNOWN_TEXT, sampling=Sampling(temperature=temperature)))[1:]
            for temperature in (1.0, 0.5)
        ]
        if float(np.median(np.abs(halves[0] - halves[1]))) > RAW:
            return f"log-probabilities of a given text change with the temperature; {self.server.dialect.hint}"
        if not self.listings or self.server.dialect.keyed_by_text:
            return None
        text = self.flattest_prompt
        echoed = float((await self._read_echo(text, int(self.listings[text].tokens[0])))[-1])
        listed = float(self.listings[text].log_probs[0])
        if abs(echoed - listed) > RAW:
            return (
                f"a token has log-probability {echoed:.2f} in a given text and {listed:.2f} when it is to be "
                f"drawn: the latter is after sampling parameters; {self.server.dialect.hint}"
            )
        return None

    async def _read_echo(self, text: str, *more: int, sampling: Sampling = NEUTRAL) -> F64:
        """Return the log-probabilities of a prompt followed by `more` tokens."""
        request = self.make_request(text, sampling=sampling)
        words = self.server.tokenizer.decode(more) if self.server.tokenizer is not None and more else ""
        request = replace(request, ids=(*request.ids, *more), text=text + words, echo=True)
        return replies.read_prompt_log_probs(self.server.dialect, self.served, request, await self.server.send(request))


def are_same_model(first: Mapping[str, Listing], second: Mapping[str, Listing]) -> bool | None:
    """Compare the log-probabilities that two endpoints list for the same prompts; None if one lists none."""
    shared = first.keys() & second.keys()
    differences = [median_difference(first[text], second[text]) for text in shared]
    return float(np.median(differences)) <= RAW if differences else None


def describe_answers(listings: Mapping[str, Listing]) -> dict[str, list[list[str | float]]]:
    """Return the best tokens after each prompt with their log-probabilities, for the record."""
    return {
        text: [[str(t), round(float(p), 4)] for t, p in zip(each.tokens[:TOP], each.log_probs[:TOP], strict=True)]
        for text, each in listings.items()
    }


def parse_answers(answers: Mapping[str, Sequence[Sequence[str | float]]]) -> dict[str, Listing]:
    """Return the listings of a record."""
    return {
        text: Listing(tuple(str(token) for token, _ in rows), np.array([p for _, p in rows], dtype=np.float64))
        for text, rows in answers.items()
    }


def median_difference(first: Listing, other: Listing) -> float:
    """Return the median difference of the log-probabilities that two listings share, in nats."""
    second = dict(zip(other.tokens, other.log_probs, strict=True))
    shared = [abs(p - second[t]) for t, p in zip(first.tokens, first.log_probs, strict=True) if t in second]
    return float(np.median(shared)) if len(shared) * 2 > len(first.tokens) else float("inf")
