"""Slow, half-open and closed connections to the rating server."""

import socket
import sqlite3
import threading
import time
from contextlib import suppress

import pytest

pytest.importorskip("starlette")


@pytest.fixture
def served(pool, monkeypatch):
    """A real server on a free port; yields the port."""
    uvicorn = pytest.importorskip("uvicorn")
    from openended.harness.rating.server import TimedProtocol, make_app

    monkeypatch.setattr(TimedProtocol, "request_seconds", 0.5)
    config = uvicorn.Config(make_app(pool, "127.0.0.1"), port=0, http=TimedProtocol, log_level="warning")
    server = uvicorn.Server(config)
    sock = config.bind_socket()
    sock.listen(16)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    yield sock.getsockname()[1]
    server.should_exit = True
    thread.join(20)


@pytest.mark.slow
@pytest.mark.parametrize("sent", ["", "POST /s/TOKEN/an", "POST", "answer", "answer+drip", "next"])
def test_half_open_requests_are_closed_without_a_traceback(pool, served, sent, caplog, capfd):
    token = next(iter(pool.tokens.values()))
    head = "POST /s/{}/{} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-length: 500\r\n\r\n{{"
    path = sent.partition("+")[0]
    text = head.format(token, path, served) if path in ("answer", "next") else sent.replace("TOKEN", token)
    started = time.monotonic()
    with socket.create_connection(("127.0.0.1", served), timeout=10) as connection:
        connection.sendall(text.encode())
        if "drip" in sent:
            with suppress(OSError):
                for _ in range(30):
                    connection.sendall(b" ")
                    time.sleep(0.1)
        with suppress(ConnectionError):
            while connection.recv(4096):
                pass
    assert time.monotonic() - started < 5
    assert "Traceback" not in capfd.readouterr().err + caplog.text


@pytest.mark.slow
def test_a_client_that_disconnects_prints_no_traceback(pool, served, caplog, capfd):
    token = next(iter(pool.tokens.values()))
    for path in ("answer", "next"):
        with socket.create_connection(("127.0.0.1", served), timeout=10) as connection:
            head = f"POST /s/{token}/{path} HTTP/1.1\r\nhost: 127.0.0.1:{served}\r\ncontent-length: 500\r\n\r\n{{"
            connection.sendall(head.encode())
    time.sleep(1)
    assert "Traceback" not in capfd.readouterr().err + caplog.text
    assert pool.counts()[0] == 0


def test_a_database_that_fails_while_serving_is_one_line(pool, client, caplog):
    token = next(iter(pool.tokens.values()))
    with sqlite3.connect(pool.path) as base:
        base.execute("DROP TABLE answers")
    assert client.post(f"/s/{token}/next").status_code == 503
    assert "no such table: answers" in caplog.text
    assert "Traceback" not in caplog.text
