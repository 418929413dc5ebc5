"""Kill a server again and again under many raters: no acknowledged answer is lost, and none is there twice.

python -m tests.harness.rating.kills 50
"""

import json
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx

from tests.harness.rating.studies import study
from tests.helpers import ROOT


class Tally:
    """What raters were told."""

    def __init__(self) -> None:
        self.acknowledged: list[tuple[str, str, str]] = []  # rater, item, answers as JSON
        self.refused: list[str] = []
        self.faults: list[str] = []  # why a rater's thread died
        self.stop = threading.Event()

    def __len__(self) -> int:
        return len(self.acknowledged)


def start(folder: Path, raters: int, port: int) -> tuple[subprocess.Popen[str], int]:
    """Start a server; returns it and its port when it listens."""
    words = ["serve", str(folder), "--raters", str(raters), "--port", str(port)]
    command = [sys.executable, "-m", "openended.harness.app.commands.rate", *words]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    for line in server.stdout:
        if line.startswith("serving on"):
            return server, int(line.split()[2].rpartition(":")[2])
    raise RuntimeError(f"the server did not start: {server.wait(timeout=240)}")


def rate(link: str, seed: int, tally: Tally) -> None:
    """Rate as a browser does: what was not acknowledged is sent again until it is, or is refused."""
    rng = random.Random(seed)
    with httpx.Client(timeout=10) as client:

        def ask(what: str, body: dict) -> httpx.Response | None:
            while not tally.stop.is_set():
                try:
                    reply = client.post(link + what, json=body)
                except httpx.TransportError:
                    time.sleep(0.05)
                    continue
                return reply
            return None

        while (told := ask("next", {})) is not None:
            item = told.json()["item"]
            if item is None:
                return
            answers = {q: rng.randint(1, 5) for q in ("interesting", "sensible", "human_like")}
            body = {"id": item["id"], "lease": item["lease"], "answers": answers, "ms": rng.randint(1, 4_000)}
            reply = ask("answer", body)
            if reply is None:
                return
            if reply.status_code == 200:
                tally.acknowledged.append((link, item["id"], json.dumps(answers, sort_keys=True)))
            else:
                tally.refused.append(reply.text)


def watched(link: str, seed: int, tally: Tally) -> None:
    try:
        rate(link, seed, tally)
    except Exception as err:
        tally.faults.append(f"{type(err).__name__}: {err}")


def campaign(folder, *, kills, raters=20, prompts=200, seed=0):
    """Kill a server `kills` times; returns what was acknowledged, and the rows of the database."""
    study(folder, "mauve", prompts=prompts, items=prompts, raters=4, items_a_sheet=prompts)
    rng = random.Random(seed)
    server, port = start(folder, raters, 0)
    tally = Tally()
    links = [line.split()[1] for line in (folder / "links.txt").read_text().splitlines()]
    threads = [threading.Thread(target=watched, args=(link, seed + i, tally)) for i, link in enumerate(links)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(kills):
            goal = len(tally) + rng.randint(1, 40)
            while len(tally) < goal and any(thread.is_alive() for thread in threads):
                time.sleep(0.002)
            server.send_signal(signal.SIGKILL)
            server.wait(timeout=240)
            server.stdout.close()
            server, _ = start(folder, raters, port)
        goal = len(tally) + 20
        while len(tally) < goal and any(thread.is_alive() for thread in threads):
            time.sleep(0.002)
    finally:
        tally.stop.set()
        for thread in threads:
            thread.join(timeout=30)
        server.kill()
        server.wait(timeout=240)
        server.stdout.close()
    with sqlite3.connect(folder / "answers.db") as base:
        return tally, base.execute("SELECT rater, task, choices FROM answers").fetchall()


def losses(tally: Tally, rows: Sequence, folder: Path) -> dict[str, int]:
    """Count what must not be."""
    names = {line.split()[1]: line.split()[0] for line in (folder / "links.txt").read_text().splitlines()}
    stored = {task: (rater, choices) for rater, task, choices in rows}
    told = [(names[link], task, choices) for link, task, choices in tally.acknowledged]
    return {
        "lost": sum(stored.get(task) != (rater, choices) for rater, task, choices in told),
        "twice": len(rows) - len(stored) + len(told) - len({task for _, task, _ in told}),
        "unanswered threads": len(tally.faults),
        # What was stored but not yet said to be: at most one a rater when all ended.
        "unsaid": max(0, len(stored) - len({task for _, task, _ in told}) - len(names)),
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        began = time.monotonic()
        done, found = campaign(Path(where), kills=int(sys.argv[1]))
        print(f"{sys.argv[1]} kills, {len(done)} acknowledged, {len(found)} stored, refused {Counter(done.refused)}")
        print(losses(done, found, Path(where)), done.faults, f"{time.monotonic() - began:.0f} s")
