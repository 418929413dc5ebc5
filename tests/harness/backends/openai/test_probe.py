"""Every fault of a server is found, and it is said by which check; an honest one is never suspected."""

import asyncio
from collections.abc import Callable

import numpy as np
import pytest

from openended.harness.backends.openai import probe as probe_module
from openended.harness.backends.openai.backend import ServerBackend
from openended.harness.backends.openai.dialects import CompletionRequest
from openended.harness.backends.openai.probe import BEGINNINGS, UNSEEN_PENALTIES, UNSEEN_SMALL, Probe, ProbeReport
from openended.harness.backends.openai.replies import Token
from openended.harness.backends.openai.session import ServerSession
from openended.harness.backends.openai.spec import ServerSpec
from openended.harness.decoders.sampling import Ancestral, Greedy, MinP, Nucleus, Temperature, TopK
from tests.harness.backends.openai.fake import ID, Fake, Fault, within


class Direct(ServerSession):
    """Draws in one go from what the server draws from."""

    fake: Fake

    async def draw(
        self, request: CompletionRequest, count: int, seed: Callable[[int], int], single: int
    ) -> list[Token]:
        body = self.dialect.body(self.served, request)
        body.pop(self.fake.fault.ignores, None)
        below = self.fake.known(list(request.ids), body, 0)[2]
        if below is None:
            return await super().draw(request, count, seed, single)
        found = np.searchsorted(below, np.random.default_rng(seed(0)).random(count), side="right")
        return [int(i) for i in np.minimum(found, len(below) - 1)]


def probe(fake, decoder, work=None, *, direct=True, **options):
    """Probe a fake server; `work` in place of all checks."""
    given = {"path": ID, "base_url": "http://fake", "tokenizer": f"bundled:{ID}", "retries": 0} | options
    backend = ServerBackend(ServerSpec(**given), transport=within(fake))
    kind = Direct if direct else ServerSession

    async def main() -> ProbeReport:
        async with backend.client() as client:
            server = kind(client, backend, [0])
            server.fake = fake  # type: ignore[attr-defined]
            made = Probe(server, decoder, 512)
            await (made.run() if work is None else work(made))
            return made.report

    return asyncio.run(main())


FOUND_BY = [
    (Fault(top_k=40), Ancestral(), "hidden sampling parameters"),
    (Fault(top_p=0.95), Ancestral(), "hidden sampling parameters"),
    (Fault(min_p=0.05), Nucleus(), "hidden sampling parameters"),
    (Fault(temperature=0.85), Ancestral(), "hidden sampling parameters"),
    (Fault(top_k=100), Ancestral(), "hidden sampling parameters"),
    (Fault(penalty=1.1), Ancestral(), "hidden sampling parameters"),
    (Fault(penalty=1.1), Greedy(), "hidden sampling parameters"),
    (Fault(processed=True), Ancestral(), "raw log-probabilities"),
    (Fault(temperature=0.8, processed=True), Ancestral(), "raw log-probabilities"),
    (Fault(no_seed=True), Ancestral(), "seeds"), (Fault(bos=True), Ancestral(), "prompt"),
    (Fault(cut_prompt=20), Ancestral(), "prompt"), (Fault(one_more=True), Ancestral(), "prompt"),
    (Fault(no_echo=True), None, "echo"), (Fault(bos=True), None, "prompt"), (Fault(processed=True), None, "echo"),
    (Fault(ignores="top_p"), Nucleus(), "draws of nucleus p=0.95"),
    (Fault(ignores="top_k"), TopK(k=10), "draws of top_k k=10"),
    (Fault(ignores="top_k"), TopK(k=40), "draws of top_k k=40"),
    (Fault(ignores="min_p"), MinP(), "draws of min_p p=0.1"),
    (Fault(ignores="temperature"), Temperature(temperature=0.7), "draws of temperature=0.7"),
    (Fault(ignores="temperature"), Greedy(), "the most probable token"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.thin(2)
@pytest.mark.parametrize(
    ("fault", "decoder", "check"), FOUND_BY, ids=[f"{n}-{by}" for n, (_, _, by) in enumerate(FOUND_BY)]
)
def test_every_fault_is_found_by_a_check(fault, decoder, check):
    fake = Fake(fault)
    faults = probe(fake, decoder, direct=not fault.no_seed).faults
    assert check in [fault.partition(":")[0] for fault in faults], faults


HONEST = [
    Ancestral(), Nucleus(), Nucleus(p=0.3), TopK(), TopK(k=5), MinP(), Temperature(temperature=0.7), Greedy(), None,
]  # fmt: skip


@pytest.mark.parametrize("decoder", HONEST, ids=lambda d: d.title if d else "scores")
def test_an_honest_server_passes_every_check(decoder):
    report = probe(Fake(), decoder, direct=decoder is None or decoder.name != "nucleus")
    assert report.faults == []
    assert report.unseen == ([UNSEEN_PENALTIES] if decoder is not None and decoder.stochastic else [])
    assert "1e-06" in report.line()


@pytest.mark.parametrize(("fault", "check"), [({}, None), ({"temperature": 0.5}, "hidden sampling parameters")])
def test_a_server_with_one_draw_per_request_gets_at_most_300_requests(fault, check):
    fake = Fake(Fault(no_copies=True, **fault))
    report = probe(fake, Nucleus(), direct=False)
    assert 100 < len(fake.bodies) <= 300
    assert UNSEEN_SMALL in report.unseen
    assert [fault.partition(":")[0] for fault in report.faults][:1] == ([check] if check else [])


def test_the_rate_of_false_alarms_is_at_most_what_is_stated(monkeypatch):
    """At a rate that can be counted: twenty tests of one probe, together 5 %."""
    monkeypatch.setattr(probe_module, "FALSE_ALARMS", 0.05)
    monkeypatch.setattr(probe_module, "TESTS", 20)
    monkeypatch.setattr(probe_module, "NOISE", 0.0)
    rng = np.random.default_rng(0)
    q = np.sort(rng.dirichlet(np.full(200, 0.3)))[::-1]

    def draw():
        return np.searchsorted(np.cumsum(q), rng.random(512)).tolist()

    alarms = sum(probe_module.find_worst_mismatch(range(20), q[:20], draw()) is not None for _ in range(400))
    assert alarms <= 0.05 * 400


def test_draws_without_ids_are_told_by_listings():
    for fault in (Fault(no_ids=True), Fault(no_copies=True), Fault(most_copies=4)):
        fake = Fake(fault)
        report = probe(fake, Ancestral(), both, direct=False)
        assert report.faults == []
        assert report.passed == ["hidden"]

    (fault,) = probe(Fake(Fault(most_copies=4, top_k=5)), Ancestral(), both, direct=False).faults
    assert "with neutral parameters" in fault


async def both(made: Probe) -> None:
    await made._check_listing()
    made.select_prompts = lambda: [(BEGINNINGS[1], 40)]  # type: ignore[method-assign]
    await made.run_check("hidden", made._check_hidden_parameters)


def test_a_chat_endpoint_is_probed_by_its_own_lists():
    assert probe(Fake(), Ancestral(), direct=False, chat=True).faults == []
    faults = probe(Fake(Fault(top_k=40)), Ancestral(), direct=False, chat=True).faults
    assert faults[0].startswith("hidden sampling parameters")


def test_a_server_that_lists_nothing_must_give_more_than_fifty_different_tokens():
    """The trap of transformers' server: a top-k of 50 from generation_config, or no draw at all."""
    options = {"dialect": "transformers", "seeded": False}
    assert probe(Fake(), Ancestral(), direct=False, **options).faults == []
    faults = probe(Fake(Fault(top_k=50)), Ancestral(), direct=False, **options).faults
    assert "50 different tokens in 192 draws" in faults[0] or "different tokens in 192 draws" in faults[0]
