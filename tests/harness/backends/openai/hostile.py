"""Small raw servers on loopback that misbehave: they never end a reply, send bombs, or answer with given bytes."""

import contextlib
import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator

Behavior = Callable[[socket.socket, threading.Event], None]
BOMB = gzip.compress(bytes(64 << 20))


def reply_bytes(body: bytes, status: str = "200 OK", content_type: str = "application/json", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n{more}"
    return f"{head}Connection: close\r\n\r\n".encode() + body


def send(data: bytes) -> Behavior:
    """Answer with these bytes."""
    return lambda connection, _: connection.sendall(data)


def repeat(head: bytes, piece: bytes, pause: float = 0.0) -> Behavior:
    """Answer with a head, then with the same piece until the client leaves."""

    def behave(connection: socket.socket, stop: threading.Event) -> None:
        connection.sendall(head)
        while not stop.is_set():
            connection.sendall(piece)
            time.sleep(pause)

    return behave


ENDLESS = {
    "drip-fed body": repeat(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b" ", 0.02),
    "drip-fed headers": repeat(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", 0.02),
    "endless 100 Continue": repeat(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.0005),
    "silence": repeat(b"", b"", 0.02),
    "drip-fed chunks": repeat(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", 0.02),
}
TOO_LARGE = {
    "endless body": repeat(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", bytes(1 << 16)),
    "gzip bomb": send(reply_bytes(BOMB, more="Content-Encoding: gzip\r\n")),
}


@contextlib.contextmanager
def listening(behave: Behavior) -> Iterator[str]:
    """Serve one behavior over loopback; yields the address."""
    listener, stop = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(5)
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(1 << 16)
            head, _, rest = data.partition(b"\r\n\r\n")
            sizes = [int(x.split(b":")[1]) for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")]
            while len(rest) < sum(sizes):
                rest += connection.recv(1 << 16)
            behave(connection, stop)

    def accept() -> None:
        while not stop.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stop.set()
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
