"""Which endpoints are believed, and why: who they say they are, and what the probe found, asked once a process.

A server may be started anew with other flags at any time, so nothing is remembered for longer than a process.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from openended.harness.backends.openai.client import FIRST_PAUSE, LONGEST_PAUSE, Client, UnreachableError
from openended.harness.backends.openai.identity import Facts, ask_facts
from openended.harness.backends.openai.probe import Probe, ProbeReport
from openended.harness.backends.openai.requests import Speech
from openended.harness.backends.openai.session import Exchange
from openended.harness.backends.openai.spec import ServerSpec
from openended.harness.core import DataError, Tokenizer, canonical, digest
from openended.harness.decoders import Decoder
from openended.harness.models import TextTokenizer

log = logging.getLogger(__name__)

_SCORES = "scores"  # in place of a decoder


class Belief:
    """What is known of the endpoints of one served model.

    Args:
        spec: Which model.
        tokenizer: Its own; None: texts alone.
        vocab_size: Tokens that there are.
    """

    def __init__(self, spec: ServerSpec, tokenizer: TextTokenizer | None, vocab_size: int) -> None:
        self.spec, self.vocab_size = spec, vocab_size
        self.tokenizer: Tokenizer | None = tokenizer
        self.lead = tokenizer.lead if tokenizer is not None else ()
        """What the model reads before every text."""
        self.facts: dict[int, Facts] = {}
        """Number of an endpoint → what it told of itself."""
        self._reports: dict[str, ProbeReport] = {}
        self._last = ""

    @property
    def context(self) -> int | None:
        """Positions of the model; None where no endpoint tells."""
        return min((f.context for f in self.facts.values() if f.context is not None), default=None)

    async def of(self, client: Client, speech: Speech, decoder: Decoder | None) -> list[int]:
        """Return the endpoints that answer and do what they are asked with this decoder.

        Args:
            client: Open.
            speech: How to talk to them.
            decoder: What is to be run; None: they score.

        Raises:
            DataError: If none answers, two are not the same, or one does otherwise than asked: what, and what to set.
        """
        if not self.facts:
            self.facts = await self._asked(client)
            self._compare()
        places = sorted(self.facts)
        name = self._last = digest(canonical(decoder)) if decoder is not None else _SCORES
        if self.spec.probe and name not in self._reports:
            reports = await asyncio.gather(*(self._probe(client, speech, place, decoder) for place in places))
            for place, report in zip(places, reports, strict=True):
                if report.faults:
                    raise DataError(
                        f"server {client.endpoints[place]} ({self.facts[place].title}) is not believed: "
                        f"{'; '.join(report.faults)} (model.probe=false skips the probe, and the signature says so)"
                    )
            self._reports[name] = reports[0]
            log.info("probed     %-34s %s", self.spec.title, reports[0].line())
        return places

    async def _probe(self, client: Client, speech: Speech, place: int, decoder: Decoder | None) -> ProbeReport:
        server = Exchange(client, speech, [place], self.tokenizer, self.lead)
        probe = Probe(server, self.tokenizer, self.vocab_size, decoder, self.facts[place].context)
        return await probe.run()

    async def _asked(self, client: Client) -> dict[int, Facts]:
        """Ask all endpoints who they are; waits for the first of them, as long as for any reply."""
        for attempt in range(self.spec.retries + 1):
            jobs = [ask_facts(client, i, self.spec.dialect, self.spec.path) for i in range(len(client.endpoints))]
            made = await asyncio.gather(*jobs, return_exceptions=True)
            found = {i: one for i, one in enumerate(made) if isinstance(one, Facts)}
            for one in made:
                if isinstance(one, BaseException) and not isinstance(one, UnreachableError):
                    raise one
            gone = [one for one in made if isinstance(one, UnreachableError)]
            if found:
                for one in gone:
                    log.warning("%s; the other endpoints take its texts", one)
                return found
            if attempt == self.spec.retries:
                raise gone[0]
            if not attempt:
                log.warning("%s; waiting for it", gone[0])
            await asyncio.sleep(min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE))
        raise TypeError("retries is 0 or more")

    def _compare(self) -> None:
        """Refuse endpoints of two products or versions: their texts would be those of two systems."""
        titles = sorted({facts.title for facts in self.facts.values()})
        if len(titles) > 1:
            raise DataError(f"model {self.spec.title}: its endpoints are not one system: {' and '.join(titles)}")
        if self.spec.server is not None and titles != [self.spec.server]:
            raise DataError(f"model {self.spec.title}: expected server {self.spec.server!r}, {titles[0]!r} answers")

    def provenance(self, encoded: int) -> dict[str, Any]:
        """Return what a manifest keeps.

        Args:
            encoded: How many texts came without token ids.
        """
        if not self.facts:
            return {}
        s, facts = self.spec, self.facts[min(self.facts)]
        addresses = [s.roots[place] for place in sorted(self.facts)]
        report = self._reports.get(self._last)
        probed = report.line() if report is not None else "not probed"
        asked = f"{s.title}: {facts.title} answered, asked in the dialect {s.dialect}"
        notes = [f"{asked}; probe: {probed}; its texts are not reproducible bit for bit"]
        if encoded:
            notes.append(f"{s.title}: {encoded} texts came without token ids and were encoded again")
        served = {
            **facts.plain(), "model": s.path, "dialect": s.dialect, "endpoints": addresses, "chat": s.chat,
            "probe": probed, "texts_encoded_again": encoded,
        }  # fmt: skip
        return {"served": served, "notes": notes}
