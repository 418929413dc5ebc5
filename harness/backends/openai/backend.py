"""Backend whose model runs in a server, which is probed before its texts are used.

A server may be started anew with other flags at any time, so nothing is remembered for longer than a process.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from openended.harness import core, models
from openended.harness.backends.openai import replies
from openended.harness.backends.openai.client import (
    Client,
    UnreachableError,
    clean_line,
    compute_pause,
    run_concurrently,
)
from openended.harness.backends.openai.dialects import CompletionRequest, Sampling, ServedModel, make_sampling
from openended.harness.backends.openai.probe import Probe, ProbeReport, are_same_model, describe_answers
from openended.harness.backends.openai.session import ServerInfo, ServerSession, fetch_info
from openended.harness.backends.openai.spec import ServerSpec
from openended.harness.core import Advance, DataError, DeviceMap, Generation
from openended.harness.decoders import Decoder, Emit, GenerationRequest, Prompt
from openended.harness.models import ForwardRequest, TextTokenizer, load_tokenizer

if TYPE_CHECKING:
    import httpx


log = logging.getLogger(__name__)
_SCORES = "scores"  # key of the report of a probe without a decoder


class RemoteDevice:
    """Placeholder for the device of a model that runs in another process or on another machine."""

    type = "server"

    def __str__(self) -> str:
        return self.type


class EndpointTrust:
    """Identity and probe results of the endpoints of one served model."""

    def __init__(self, lm: "ServerBackend") -> None:
        self.lm, self.spec = lm, lm.spec
        self.infos: dict[int, ServerInfo] = {}  # index of an endpoint → the information it gave about itself
        self._reports: dict[str, ProbeReport] = {}  # decoder → what the probe found at the first endpoint
        self._last = ""
        self.answers_as: str | None = None  # the model that its first reply named
        self.change: str | None = None  # how its replies show that it has changed since

    @property
    def context(self) -> int | None:
        """Context length of the model; None if no endpoint reports it."""
        return min((f.context for f in self.infos.values() if f.context is not None), default=None)

    def note_model(self, name: object) -> None:
        """Note the model that a reply names; mark the texts where replies name two."""
        if name is None:
            return
        model_name = clean_line(str(name), None)
        self.answers_as = self.answers_as or model_name
        if model_name != self.answers_as and self.change is None:
            self.change = f"its replies name the model {self.answers_as!r}, then {model_name!r}"
            log.error("%s: the server changed during the run: %s", self.spec.title, self.change)

    async def check_endpoints(self, client: Client, decoder: Decoder | None) -> list[int]:
        """Return the endpoints that answer and pass the probe with this decoder."""
        if not self.infos:
            self.infos = await self._fetch_infos(client)
            titles = sorted({info.title for info in self.infos.values()})
            if len(titles) > 1:  # their texts would be those of two systems
                raise DataError(f"model {self.spec.title}: its endpoints are not one system: {' and '.join(titles)}")
            if self.spec.server is not None and titles != [self.spec.server]:
                raise DataError(f"model {self.spec.title}: expected server {self.spec.server!r}, {titles[0]!r} answers")
        endpoints = sorted(self.infos)
        name = self._last = core.digest(core.canonicalize(decoder)) if decoder is not None else _SCORES
        if not self.spec.probe or name in self._reports:
            return endpoints
        text = "probe      %s: a few prompts with known answers, and samples that must fit its log-probabilities; one "
        text += "request per sample where the server takes no n (model.probe=false leaves it out)"
        log.info(text, self.spec.title)
        probes = [Probe(ServerSession(client, self.lm, [i]), decoder, self.infos[i].context) for i in endpoints]
        reports = await asyncio.gather(*(probe.run() for probe in probes))
        for endpoint, report in zip(endpoints, reports, strict=True):
            if report.faults:
                raise DataError(
                    f"server {client.endpoints[endpoint]} ({self.infos[endpoint].title}) "
                    f"failed the sampling check: {'; '.join(report.faults)} (model.probe=false skips the probe, "
                    "and the signature says so)"
                )
            if not self.infos[endpoint].models:
                report.unseen.append("the model's name (/v1/models lists no models)")
        first, roots = reports[0], [client.endpoints[endpoint] for endpoint in endpoints]
        same = [are_same_model(first.listings, report.listings) for report in reports[1:]]
        if False in same:
            raise DataError(
                f"model {self.spec.title}: servers {roots[0]} and {roots[1 + same.index(False)]} list different "
                "log-probabilities for the same prompts: they serve different models under the name "
                f"{self.spec.path!r}; list endpoints of one model"
            )
        if None in same:
            first.unseen.append("whether the endpoints serve one model (no log-probabilities listed)")
        elif same:
            first.passed.append("one model at all endpoints")
        self._reports[name] = first
        log.info("probed     %-34s %s", self.spec.title, first.line())
        return endpoints

    async def _fetch_infos(self, client: Client) -> dict[int, ServerInfo]:
        """Fetch the information of all endpoints; wait until one of them answers, with the pauses of a retry."""
        attempt = 0
        while True:
            jobs = [fetch_info(client, i, self.spec.dialect, self.spec.path) for i in range(len(client.endpoints))]
            replies = await asyncio.gather(*jobs, return_exceptions=True)
            for reply in replies:
                if isinstance(reply, BaseException) and not isinstance(reply, UnreachableError):
                    raise reply
            gone = [reply for reply in replies if isinstance(reply, UnreachableError)]
            if infos := {i: reply for i, reply in enumerate(replies) if isinstance(reply, ServerInfo)}:
                for reply in gone:
                    log.warning("%s; its texts go to the other endpoints", reply)
                return infos
            if attempt == self.spec.retries or all(reply.left == 0 for reply in gone):
                raise gone[0]
            if not attempt:
                log.warning("%s; waiting for it", gone[0])
            await asyncio.sleep(max(compute_pause(attempt, reply.left) for reply in gone))
            attempt += 1

    def provenance(self, encoded: int) -> dict[str, Any]:
        """Return what the record says of the server; `encoded` texts came without token ids."""
        if not self.infos:
            return {}
        s, facts = self.spec, self.infos[min(self.infos)]
        report = self._reports.get(self._last)
        probed = report.line() if report is not None else "not probed"
        header = f"{s.title}: {facts.title} answered, asked in the dialect {s.dialect}"
        notes = [f"{header}; probe: {probed}; its texts are not reproducible bit for bit"]
        change = f"the server changed during the run: {self.change}; its texts may be of two models: make them again"
        faults = [change] if self.change is not None else []
        if encoded:
            notes.append(f"{s.title}: {encoded} texts came without token ids and were encoded again")
        endpoints = [s.roots[endpoint] for endpoint in sorted(self.infos)]
        server_facts = {name: getattr(facts, name) for name in ("product", "version", "context", "dtype")}
        server_facts |= {"model": s.path, "dialect": s.dialect, "chat": s.chat, "probe": probed}
        server_facts |= {"answers_as": self.answers_as, "endpoints": endpoints, "change": self.change}
        server_facts["texts_encoded_again"] = encoded
        answers = {"known_answers": describe_answers(report.listings)} if report and report.listings else {}
        return {"served": server_facts, "faults": faults, "notes": notes, **answers}


class ServerBackend(models.Backend):
    """A model that runs in a server."""

    def __init__(self, spec: ServerSpec, *, transport: "httpx.AsyncBaseTransport | None" = None) -> None:
        self.spec, self._transport, self._encoded = spec, transport, 0
        self.device = RemoteDevice()
        tokenizer_spec = spec.tokenizer_spec()
        self.tokenizer: TextTokenizer | None = load_tokenizer(tokenizer_spec) if tokenizer_spec is not None else None
        config = tokenizer_spec.config() if tokenizer_spec is not None else {}
        self.vocab_size = int(config.get("vocab_size") or 0)
        if self.tokenizer is not None and not self.vocab_size:
            self.vocab_size = len(self.tokenizer.vocabulary())
        self.eos_ids = self.tokenizer.eos_ids if self.tokenizer is not None else ()
        as_text = spec.prompts_as_text or spec.chat or self.tokenizer is None
        options = {name: getattr(spec, name) for name in ("chat", "instruction", "seeded", "listed")}
        options |= {"sends_ids": spec.server_dialect.takes_ids and not as_text, "end_ids": self.eos_ids}
        arguments = spec.chat_template_kwargs
        self.served = ServedModel(name=spec.path, template_arguments=arguments, vocab_size=self.vocab_size, **options)
        self.trust = EndpointTrust(self)

    @property
    def context_length(self) -> int | None:  # type: ignore[override] # of the engine that answers
        """Maximum length of a scored text: the server appends one token, which needs a position too."""
        self.spec.demand("score")
        if not self.trust.infos:
            self._run_with_server(None)
        positions = self.trust.context
        return positions - 1 if positions is not None else None

    def provenance(self) -> dict[str, Any]:
        return self.trust.provenance(self._encoded)

    def generate(self, request: GenerationRequest, emit: Emit, advance: Advance | None = None) -> None:
        """Request one text per call; its seed depends on run seed, example and sample only."""
        decoder, prompts = request.decoder, request.prompts
        self.spec.demand("generate", decoder)
        sampling = cast("Sampling", make_sampling(decoder))  # `demand` has refused decoders without parameters

        async def generate_text(server: ServerSession, prompt: Prompt) -> None:
            generation = await self._generate_text(server, sampling, prompt, request)
            emit([generation])
            if advance is not None:
                advance(max(len(generation.token_ids), 1))

        async def work(server: ServerSession) -> None:
            models.prepare_request(request, self.tokenizer, self.trust.context)
            await run_concurrently(prompts, partial(generate_text, server), server.workers)

        self._run_with_server(decoder, work)

    async def _generate_text(
        self, server: ServerSession, sampling: Sampling, prompt: Prompt, request: GenerationRequest
    ) -> Generation:
        ids: tuple[int, ...] = ()
        text = prompt.text
        if self.tokenizer is not None:
            ids = self.tokenizer.complete_prompt(prompt.token_ids)
            text = text or self.tokenizer.decode(prompt.token_ids)
        name = f"{prompt.example_id}/{prompt.sample}"
        lengths: dict[str, Any] = {"max_tokens": request.max_new_tokens, "min_tokens": request.min_new_tokens}
        seed = core.derive_seed(request.seed, "server", prompt.example_id, prompt.sample)
        completion_request = CompletionRequest(
            ids=ids, text=text, messages=prompt.messages, sampling=sampling, seed=seed, **lengths
        )

        def read(reply: replies.Reply) -> replies.CompletedText:
            return replies.read_completion(reply, self.served, completion_request, self.tokenizer, text)

        try:
            written = await server.send(completion_request, server.order_endpoints(name), read)
        except DataError as err:
            raise DataError(f"model {self.spec.title}: text {name}: {err}") from err
        self._encoded += written.encoded
        return Generation(
            prompt.example_id, prompt.sample, written.text, written.ids, written.stop, float("nan"), written.reasoning
        )

    def forward(self, request: ForwardRequest, advance: Advance | None = None) -> None:
        """Fill `nll` from the server's log-probabilities of given texts; it batches by itself, and embeds nothing."""
        jobs, nll = request.rows, request.nll

        async def score(server: ServerSession, number: int) -> None:
            job = jobs[number]
            try:
                scored = -(await server.score(tuple(job.ids.tolist()), f"score {number}"))[job.first :]
            except DataError as err:
                raise DataError(f"text {number} of {len(jobs)}: {err}") from err
            cast("core.F64", nll)[job.out : job.out + len(scored)] = scored
            if advance is not None and job.row >= 0:
                advance(1)

        self._run_with_server(
            None, lambda server: run_concurrently(range(len(jobs)), partial(score, server), server.workers)
        )

    def _run_with_server(
        self, decoder: Decoder | None, work: Callable[[ServerSession], Awaitable[None]] | None = None
    ) -> None:
        """Run `work` with the checked endpoints in a separate thread, because the caller may have an event loop."""
        from anyio.from_thread import start_blocking_portal

        async def main() -> None:
            async with self.client() as client:
                endpoints = await self.trust.check_endpoints(client, decoder)
                if work is not None:
                    await work(ServerSession(client, self, endpoints))

        with start_blocking_portal() as portal:
            portal.call(main)

    def client(self) -> Client:
        options = {name: getattr(self.spec, name) for name in ("timeout", "retries", "concurrency", "patience")}
        return Client(self.spec.roots, self.spec.api_key_env, transport=self._transport, **options)


def load_server(spec: ServerSpec, *, device: str = "cpu", device_map: DeviceMap | None = None) -> ServerBackend:
    """Load the tokenizer; the server is contacted when it is needed."""
    del device, device_map
    return ServerBackend(spec)
