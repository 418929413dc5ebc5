"""The server: nothing without a token, nothing twice, nothing lost that was acknowledged."""

import sqlite3
import stat
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from openended.harness.app.commands.rate import main
from openended.harness.core.errors import DataError
from openended.harness.rating import server
from openended.harness.rating.answers import build_judgment_rows, gather_answers, read_database
from openended.harness.rating.item_pool import LEASE_SECONDS, AnswerRefused, ItemPool
from tests.harness.rating.kills import campaign, losses
from tests.harness.rating.studies import PLAYERS, study, whole
from tests.helpers import cases, check_error

pytest.importorskip("starlette")


def take_item(pool):
    """Return a rater and the first item of the rater."""
    rater = next(iter(pool.tokens))
    return rater, pool.next_item(rater)


@pytest.fixture
def token(pool):
    return next(iter(pool.tokens.values()))


def test_an_item_is_dealt_to_one_rater_and_no_prompt_twice_to_any(pool):
    raters = list(pool.tokens)
    seen = {rater: set() for rater in raters}
    answered = set()
    while any((dealt := {r: pool.next_item(r) for r in raters})[r].task for r in raters):
        held = [d.task for d in dealt.values() if d.task]
        assert len(set(held)) == len(held)
        for rater, item in dealt.items():
            if item.task:
                assert pool.next_item(rater).task == item.task  # a page that is loaded again shows the same
                example = pool.key.by_id[item.task].example
                assert example not in seen[rater]
                seen[rater].add(example)
                assert pool.store(rater, item.task, item.lease, whole(pool), 5_000)
                assert item.task not in answered
                answered.add(item.task)
    assert len(answered) == len(pool.key.tasks) == 36
    assert pool.next_item(raters[0]).total == 12


def test_an_answer_sent_twice_is_stored_once_and_another_one_is_refused(pool):
    rater, item = take_item(pool)
    assert pool.store(rater, item.task, item.lease, whole(pool), 5)
    assert not pool.store(rater, item.task, item.lease, whole(pool), 5)
    check_error(AnswerRefused, "the first answer is kept", pool.store, rater, item.task, item.lease, whole(pool, 2), 5)
    assert pool.counts() == (1, 36)


def test_a_lease_that_ran_out_goes_to_another_and_the_late_answer_is_told(pool):
    one, other, _ = pool.tokens
    item = pool.next_item(one)
    pool.clock.now += LEASE_SECONDS + 1
    # Still nobody else's: a late answer counts.
    late = pool.next_item(other)
    if late.task != item.task:
        assert pool.store(one, item.task, item.lease, whole(pool), 5)
        return
    check_error(AnswerRefused, "went to another rater", pool.store, one, item.task, item.lease, whole(pool), 5)
    assert pool.store(other, late.task, late.lease, whole(pool), 5)
    assert pool.next_item(one).task not in (None, item.task)


@cases(
    "changes, message",
    ({"task": "x"}, "no such item"), ({"lease": 7}, "no such item"), ({"lease": "x"}, "another rater"),
    ({"choices": {}}, "Every question"), ({"choices": None}, "Every question"), ({"ms": -1}, "milliseconds"),
    ({"ms": True}, "milliseconds"), ({"choices": {"sensible": 9}}, "Every question"),
)  # fmt: skip
def test_what_is_no_answer_is_refused(pool, changes, message):
    rater, item = take_item(pool)
    given = {"task": item.task, "lease": item.lease, "choices": whole(pool), "ms": 5, **changes}
    check_error(AnswerRefused, message, pool.store, rater, **given)
    assert pool.counts()[0] == 0


def test_twenty_raters_at_once_share_nothing(tmp_path):
    key = study(tmp_path, items=12, raters=4, items_a_sheet=12)
    pool = ItemPool(tmp_path / "answers.db", key)
    names = [name for name, _ in pool.add_raters(20)]

    def rate(name):
        got = []
        for _ in range(5):
            item = pool.next_item(name)
            if item.task and pool.store(name, item.task, item.lease, whole(pool), 1):
                got.append(item.task)
        return got

    with ThreadPoolExecutor(20) as many:
        got = [task for own in many.map(rate, names) for task in own]
    assert len(got) == len(set(got)) == 100
    gathered = gather_answers([tmp_path / "answers.db"], key, leave_out=False)
    assert sum(len(sheet.items) for sheet in gathered.sheets) == 100
    assert len(build_judgment_rows(gathered)) == 300


def test_another_study_and_lost_links(tmp_path, pool):
    other = study(tmp_path / "other")
    check_error(DataError, "the answers of another study", ItemPool, pool.path, other)
    check_error(DataError, "of another study", gather_answers, [pool.path], other, leave_out=False)
    assert read_database(pool.path, pool.key) == []
    broken = tmp_path / "broken.db"
    broken.write_bytes(pool.path.read_bytes()[:200])
    for read in (read_database, ItemPool):
        check_error(DataError, "not a database of answers", read, broken, pool.key)
    rater, item = take_item(pool)
    pool.store(rater, item.task, item.lease, whole(pool), 5)
    with sqlite3.connect(pool.path) as base:
        (valid,) = base.execute("SELECT choices FROM answers").fetchone()
        base.execute("UPDATE answers SET rater = CAST(rater AS BLOB)")
    answers = ((valid, "impossible answer"), ("[1]", r"impossible answer \[1\] after 5 ms"), ("{", "not a database"))
    for choices, message in answers:
        with sqlite3.connect(pool.path) as base:
            base.execute("UPDATE answers SET choices = ?", (choices,))
        check_error(DataError, message, read_database, pool.path, pool.key)
    assert stat.S_IMODE(pool.path.stat().st_mode) == 0o600
    path = server.write_links(tmp_path, pool, 4, "http://127.0.0.1:1")
    links = dict(line.split(" ") for line in path.read_text().splitlines())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(links) == 4
    tokens = {name: link.rstrip("/").rpartition("/")[2] for name, link in links.items()}
    assert {name: pool.find_rater(token) for name, token in tokens.items()} == {name: name for name in links}
    assert tokens.items() >= pool.tokens.items()  # a link stays valid when the server starts again


def test_no_item_without_a_token_and_none_on_the_page(pool, client, token):
    for method, path in [("GET", "/s/x/"), ("POST", "/s/x/next"), ("POST", "/s//next"), ("GET", "/key.json"), ("GET", "/s/../answers.db")]:  # fmt: skip
        reply = client.request(method, path)
        assert reply.status_code == 404
        assert "Beginning" not in reply.text
    page = client.get(f"/s/{token}/")
    assert page.status_code == 200
    assert "Beginning" not in page.text
    assert not [p for p in PLAYERS[1:] if p in page.text]
    assert client.get(f"/s/{token}", follow_redirects=False).headers["location"].endswith(f"/s/{token}/")
    told = client.post(f"/s/{token}/next").json()
    assert set(told["item"]) == {"id", "prompt", "texts", "lease"}
    front = client.get("/")
    assert front.status_code == 200
    assert "personal link" in front.text
    for reply in (page, client.get("/")):
        assert "connect-src 'self'" in reply.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in reply.headers


@cases(
    "headers, status",
    ({"origin": "http://evil.example"}, 403), ({"origin": "null"}, 403), ({"origin": "http://["}, 403),
    ({"sec-fetch-site": "cross-site"}, 403),
    ({"sec-fetch-site": "same-site"}, 403), ({"host": "evil.example"}, 400), ({"content-length": "99999999"}, 413),
    ({"content-length": b"\xb2"}, 413),
    ({"origin": "http://127.0.0.1:8123", "sec-fetch-site": "same-origin"}, 200), ({"host": "localhost:8123"}, 200),
)  # fmt: skip
def test_no_other_origin_and_no_other_host(pool, client, headers, status, token):
    assert client.post(f"/s/{token}/next", headers=headers).status_code == status


def test_answers_by_the_web_are_stored_and_nonsense_is_told(pool, client, token):
    item = client.post(f"/s/{token}/next").json()["item"]
    body = {"id": item["id"], "lease": item["lease"], "answers": whole(pool), "ms": 3_000}
    assert client.post(f"/s/{token}/answer", json=body).json() == {"stored": True, "new": True}
    assert client.post(f"/s/{token}/answer", json=body).json() == {"stored": True, "new": False}
    for text in ("{", "[]", "null", "[" * 20_000):
        assert client.post(f"/s/{token}/answer", content=text).status_code == 400
    assert client.post(f"/s/{token}/answer", json={**body, "answers": whole(pool, 3)}).status_code == 409
    assert client.get(f"/s/{token}/answer").status_code == 404
    assert pool.counts()[0] == 1


def test_a_server_that_is_not_installed_names_its_extra(tmp_path, monkeypatch, capsys):
    study(tmp_path)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", str(tmp_path)]) == 2
    assert "pip install 'openended[rate]'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_killed_server_loses_nothing_that_it_acknowledged(tmp_path):
    """Two kills here; `python -m tests.harness.rating.kills 50` is the campaign."""
    tally, rows = campaign(tmp_path, kills=2, raters=8, prompts=60)
    assert len(tally) > 20
    assert not any(losses(tally, rows, tmp_path).values()), (losses(tally, rows, tmp_path), tally.faults)
    assert not tally.refused


def test_a_database_that_fails_while_serving_is_one_line(pool, client, caplog, token):
    with sqlite3.connect(pool.path) as base:
        base.execute("DROP TABLE answers")
    assert client.post(f"/s/{token}/next").status_code == 503
    assert "no such table: answers" in caplog.text
    assert "Traceback" not in caplog.text
