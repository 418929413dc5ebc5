"""Check each endpoint's identity and sampling once per process.

A server may be started anew with other flags at any time, so nothing is remembered for longer than a process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from openended.harness.backends.openai.client import FIRST_PAUSE, LONGEST_PAUSE, Client, UnreachableError
from openended.harness.backends.openai.identity import ServerInfo, fetch_info
from openended.harness.backends.openai.probe import Probe, ProbeReport, are_same_model
from openended.harness.backends.openai.requests import ServedModel
from openended.harness.backends.openai.session import ServerSession
from openended.harness.backends.openai.spec import ServerSpec
from openended.harness.core import DataError, Tokenizer, canonicalize, digest
from openended.harness.decoders import Decoder
from openended.harness.models import TextTokenizer

log = logging.getLogger(__name__)

_SCORES = "scores"  # key of the report of a probe without a decoder


class EndpointTrust:
    """Identity and probe results of the endpoints of one served model."""

    def __init__(self, spec: ServerSpec, tokenizer: TextTokenizer | None, vocab_size: int) -> None:
        self.spec, self.vocab_size = spec, vocab_size
        self.tokenizer: Tokenizer | None = tokenizer
        self.bos_prefix = tokenizer.bos_prefix if tokenizer is not None else ()
        """What the model reads before every text."""
        self.infos: dict[int, ServerInfo] = {}
        """Index of an endpoint → the information it gave about itself."""
        self._reports: dict[str, ProbeReport] = {}
        self._last = ""

    @property
    def context(self) -> int | None:
        """Context length of the model; None if no endpoint reports it."""
        return min((f.context for f in self.infos.values() if f.context is not None), default=None)

    async def check_endpoints(self, client: Client, served: ServedModel, decoder: Decoder | None) -> list[int]:
        """Return the endpoints that answer and pass the probe with this decoder."""
        if not self.infos:
            self.infos = await self._fetch_infos(client)
            titles = sorted({info.title for info in self.infos.values()})
            if len(titles) > 1:  # their texts would be those of two systems
                raise DataError(f"model {self.spec.title}: its endpoints are not one system: {' and '.join(titles)}")
            if self.spec.server is not None and titles != [self.spec.server]:
                raise DataError(f"model {self.spec.title}: expected server {self.spec.server!r}, {titles[0]!r} answers")
        client.check_identity = partial(self._check_return, client)
        endpoints = sorted(self.infos)
        name = self._last = digest(canonicalize(decoder)) if decoder is not None else _SCORES
        if self.spec.probe and name not in self._reports:
            reports = await asyncio.gather(*(self._probe(client, served, endpoint, decoder) for endpoint in endpoints))
            for endpoint, report in zip(endpoints, reports, strict=True):
                if report.faults:
                    raise DataError(
                        f"server {client.endpoints[endpoint]} ({self.infos[endpoint].title}) "
                        f"failed the sampling check: {'; '.join(report.faults)} (model.probe=false skips the probe, "
                        "and the signature says so)"
                    )
            self._compare_models(client, endpoints, reports)
            self._reports[name] = reports[0]
            log.info("probed     %-34s %s", self.spec.title, reports[0].line())
        return endpoints

    async def _probe(self, client: Client, served: ServedModel, endpoint: int, decoder: Decoder | None) -> ProbeReport:
        dialect = self.spec.server_dialect
        server = ServerSession(client, dialect, served, [endpoint], self.tokenizer, self.bos_prefix)
        return await Probe(server, decoder, self.infos[endpoint].context).run()

    async def _fetch_infos(self, client: Client) -> dict[int, ServerInfo]:
        """Fetch the information of all endpoints; wait until one of them answers, with the pauses of a retry."""
        for attempt in range(self.spec.retries + 1):
            jobs = [fetch_info(client, i, self.spec.dialect, self.spec.path) for i in range(len(client.endpoints))]
            replies = await asyncio.gather(*jobs, return_exceptions=True)
            infos = {i: reply for i, reply in enumerate(replies) if isinstance(reply, ServerInfo)}
            for reply in replies:
                if isinstance(reply, BaseException) and not isinstance(reply, UnreachableError):
                    raise reply
            gone = [reply for reply in replies if isinstance(reply, UnreachableError)]
            if infos:
                for reply in gone:
                    log.warning("%s; its texts go to the other endpoints", reply)
                return infos
            left = max((LONGEST_PAUSE if reply.wait is None else reply.wait for reply in gone), default=0.0)
            if attempt == self.spec.retries or not left:
                raise gone[0]
            if not attempt:
                log.warning("%s; waiting for it", gone[0])
            await asyncio.sleep(min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE, left))
        raise TypeError("retries is 0 or more")

    async def _check_return(self, client: Client, endpoint: int) -> None:
        """Refuse an endpoint that stopped answering and is another server now."""
        info = await fetch_info(client, endpoint, self.spec.dialect, self.spec.path)
        if endpoint in self.infos and info.plain() != self.infos[endpoint].plain():
            raise DataError(
                f"server {client.endpoints[endpoint]}: {self.infos[endpoint].title} stopped answering, and another "
                f"server answers now ({info.title}, context {info.context}); repeat the command to check it anew"
            )

    def _compare_models(self, client: Client, endpoints: Sequence[int], reports: Sequence[ProbeReport]) -> None:
        """Refuse endpoints that serve different models under one name, by the log-probabilities that they list."""
        first = client.endpoints[endpoints[0]]
        for endpoint, report in zip(endpoints[1:], reports[1:], strict=True):
            same = are_same_model(reports[0].listings, report.listings)
            if same is None:
                reports[0].unseen.append("whether the endpoints serve one model (no log-probabilities listed)")
                return
            if not same:
                raise DataError(
                    f"model {self.spec.title}: servers {first} and {client.endpoints[endpoint]} list different "
                    f"log-probabilities for the same prompts: they serve different models under the name "
                    f"{self.spec.path!r}; list endpoints of one model"
                )
        if len(endpoints) > 1:
            reports[0].passed.append("one model at all endpoints")

    def provenance(self, encoded: int) -> dict[str, Any]:
        if not self.infos:
            return {}
        s, facts = self.spec, self.infos[min(self.infos)]
        addresses = [s.roots[endpoint] for endpoint in sorted(self.infos)]
        report = self._reports.get(self._last)
        probed = report.line() if report is not None else "not probed"
        header = f"{s.title}: {facts.title} answered, asked in the dialect {s.dialect}"
        notes = [f"{header}; probe: {probed}; its texts are not reproducible bit for bit"]
        if encoded:
            notes.append(f"{s.title}: {encoded} texts came without token ids and were encoded again")
        server_facts = {
            **facts.plain(), "model": s.path, "dialect": s.dialect, "endpoints": addresses, "chat": s.chat,
            "probe": probed, "texts_encoded_again": encoded,
        }  # fmt: skip
        return {"served": server_facts, "notes": notes}
