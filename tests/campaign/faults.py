"""The faults that the harness must survive: kills, damage, races, forgeries, fuzzed inputs, hostile servers and raters.

`python -m tests.campaign.faults KIND COUNT SEED` tries COUNT faults on a small world and prints what came of them as
JSON: how many were tried, how many were survived, and the first of those that were not. Each fault follows from the
seed alone. `python -m tests.campaign.faults all SEED SCALE` tries every kind and prints a table.
"""

import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from openended.harness.core import HarnessError, temporary_files
from openended.harness.run import Session, run
from openended.harness.storage.store import Store
from tests.campaign.forged import forged_archives
from tests.campaign.fuzz import fuzz, hostile_configurations
from tests.campaign.raters import hostile_raters
from tests.campaign.servers import hostile_servers
from tests.campaign.world import Tally, World


def kills(world: World, count: int, draw: random.Random) -> Tally:
    """Kill a run of several sizes with SIGKILL at any moment; what it leaves in the end must be that of a calm run."""
    sizes = ("num_examples=5", "num_examples=3", "samples=2")
    tally, calm = Tally("kills"), {size: world.run(f"calm-{number}", size) for number, size in enumerate(sizes)}
    seconds = _seconds(lambda: world.run("timed"))
    for number in range(count):
        out = f"kill-{number // 4}"  # each folder is killed four times, then finished
        with tally.one(f"kill {number}"):
            size = draw.choice(sizes)
            child = _fork(lambda out=out, size=size: world.run(out, size))
            time.sleep(draw.random() * seconds)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            if number % 4 == 3 or number == count - 1:
                temporary_files.delete_abandoned_once.cache_clear()
                for size in sizes:
                    assert world.run(out, size) == calm[size], f"another result of {size}"
                temporary_files.delete_abandoned_once.cache_clear()
                world.run(out, "seed=1")
                assert not _litter(world.folder / out), f"litter: {_litter(world.folder / out)}"
                shutil.rmtree(world.folder / out)
    return tally


def corruptions(world: World, count: int, draw: random.Random) -> Tally:
    """Damage one file (or swap two entries); the next run and the report must be those of a sound store."""
    tally, calm = Tally("corruptions"), world.run("sound")
    table = world.report("sound")
    world.run("sound", "seed=1")
    shutil.copytree(world.folder / "sound", world.folder / "master")
    world.report("sound")
    values = world.values("sound")
    for number in range(count):
        shutil.rmtree(world.folder / "sound")
        shutil.copytree(world.folder / "master", world.folder / "sound", symlinks=True)
        record = number % 4 == 3  # of two runs: the other one's report is left
        what = damage(world.folder / "sound" / ("runs" if record else "store"), draw)
        with tally.one(f"{number}: {what}"):
            rows = world.report("sound").splitlines()
            assert len(rows) >= len(table.splitlines()), "a report lost rows"
            assert not world.values("sound") - values, "a report shows another number"
            assert world.run("sound") == calm, "another result"
            assert world.run("sound") == calm, "another result, the second time"
    return tally


def damage(store: Path, draw: random.Random) -> str:
    """Do one damage to a store; returns what was done."""
    files = sorted(p for p in store.rglob("*") if p.is_file() and ".locks" not in p.parts)
    path, other = draw.choice(files), draw.choice(files)
    how = draw.choice(
        ["flip", "flip", "flip", "cut", "empty", "zeros", "append", "delete", "folder", "link", "swap", "swap files"]
    )
    data = bytearray(path.read_bytes())
    at = draw.randrange(max(len(data), 1))
    if how == "flip":
        data[at] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
    elif how in ("cut", "empty", "zeros", "append"):
        zeros = bytes(len(data) - at)
        changed = {"cut": data[:at], "empty": b"", "zeros": data[:at] + zeros, "append": data + b"x" * 9}
        path.write_bytes(changed[how])
    elif how == "swap":
        _swap(path.parent, other.parent)
    elif how == "swap files":
        _swap(path, other)
    else:
        path.unlink()
        if how == "folder":
            path.mkdir()
        if how == "link":
            path.symlink_to("/dev/null")
    return f"{how} {path.relative_to(store).parts[0]}/…/{path.name}"


def parts(world: World, count: int, draw: random.Random) -> Tally:
    """Damage a part of an interrupted generation; the run that goes on must end as a calm one."""
    tally, calm = Tally("damaged parts"), world.run("calm")
    for number in range(count):
        out = f"parts-{number}"
        with tally.one(f"part {number}"):
            child = _fork(lambda out=out: world.run(out))
            until = time.monotonic() + 60
            while len(_list_blocks(world.folder / out)) < 2 and time.monotonic() < until:
                if os.waitpid(child, os.WNOHANG)[0]:
                    child = 0
                    break
            if child:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            if found := _list_blocks(world.folder / out):
                path = draw.choice(found)
                data = bytearray(path.read_bytes())
                for _ in range(draw.choice([1, 1, 20])):
                    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
                path.write_bytes(data[: draw.choice([len(data), len(data), len(data) // 2])])
            # In a process of its own: a trusted part of wrong bytes ended it with SIGSEGV or SIGBUS.
            assert not os.waitpid(_fork(lambda out=out: world.run(out)), 0)[1], "the run that went on did not end well"
            assert world.run(out) == calm, "another result"
        shutil.rmtree(world.folder / out, ignore_errors=True)
    return tally


def races(world: World, count: int, draw: random.Random) -> Tally:
    """Let three processes make the same run at once, one killed on the way, with locks and without."""
    tally, calm = Tally("races"), world.run("calm")
    for number in range(count):
        out, locking = f"race-{number}", f"runtime.locking={'true' if number % 3 else 'false'}"
        with tally.one(f"race {number}"):
            children = [_fork(lambda out=out, lock=locking: world.run(out, lock)) for _ in range(3)]
            time.sleep(draw.random() * 0.3)
            os.kill(children[0], signal.SIGKILL)
            codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
            assert codes[1:] == [0, 0], f"exit codes {codes}"
            assert world.run(out) == calm, "another result"
        shutil.rmtree(world.folder / out, ignore_errors=True)
    return tally


def jobs(world: World, count: int, draw: random.Random) -> Tally:
    """Run many small jobs, each with a human side of its own, in one process: descriptors and memory stay flat."""
    tally, me = Tally("jobs in one process"), psutil.Process()
    session = Session(Store(world.folder / "many" / "store"))
    sizes: list[tuple[int, int]] = []
    # Features that stay mapped into memory: what held a descriptor each.
    scored = ["metric=[distinct_n,repetition,gen_ppl]", "scorer=docs-m", f"scorer.path={world.folder / 'model'}"]
    for number in range(count):
        with tally.one(f"job {number}"):
            more = [f"max_new_tokens={1 + number % 24}", f"num_examples={2 + number // 24 % 29}", f"seed={number}"]
            run(world.settings("many", *more, *scored), session)
        if number % max(count // 20, 1) == 0:
            sizes.append((me.num_fds(), me.memory_info().rss >> 20))
    half = sizes[len(sizes) // 2 :]
    tally.facts = {"descriptors": [half[0][0], half[-1][0]], "MiB": [half[0][1], half[-1][1]]}
    return tally


def _swap(one: Path, other: Path) -> None:
    if one == other or one in other.parents or other in one.parents:
        return
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def _list_blocks(out: Path) -> list[Path]:
    try:
        return sorted(out.glob("store/rows/*/*/block-*.arrow"))
    except FileNotFoundError:  # the run ended while its folder was read
        return []


def _litter(out: Path) -> list[str]:
    return [p.name for p in out.rglob("*") if temporary_files.MARK in p.name]


def _seconds(work: Callable[[], Any]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def _fork(work: Callable[[], Any]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except HarnessError as err:
            sys.stderr.write(f"{err}\n")
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    return child


KINDS: dict[str, tuple[Callable[[World, int, random.Random], Tally], int]] = {
    "kills": (kills, 200), "corruptions": (corruptions, 2000), "parts": (parts, 200),
    "races": (races, 100), "jobs": (jobs, 2000), "fuzz": (fuzz, 2000),
    "archives": (forged_archives, 100), "configurations": (hostile_configurations, 100), "servers": (hostile_servers, 150),
    "raters": (hostile_raters, 300),
}  # fmt: skip
"""Kind of fault → what tries it, and how many the whole campaign tries."""


def try_kind(kind: str, count: int, seed: int) -> None:
    """Try faults of one kind and print what came of them."""
    logging.disable(logging.CRITICAL)
    import torch

    torch.set_num_threads(1)  # before anything computes: a forked process has no threads but its own
    with tempfile.TemporaryDirectory() as name:
        tally = KINDS[kind][0](World(Path(name)), count, random.Random(f"{kind} {seed}"))
    print(json.dumps(tally.json()))


def try_all(seed: int, scale: float) -> int:
    """Try every kind, one process each; print a table, and return 1 if anything was lost."""
    rows = []
    for kind, (_, most) in KINDS.items():
        words = [sys.executable, "-m", "tests.campaign.faults", kind, str(max(1, round(most * scale))), str(seed)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        try:
            tally = json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            lost = [f"the campaign itself ended: {done.stderr[-500:]}"]
            tally = {"kind": kind, "tried": 0, "survived": 0, "lost": lost}
        rows.append(tally)
        print(f"{tally['kind']:<22} {tally['survived']} of {tally['tried']}", file=sys.stderr, flush=True)
    print("| fault | tried | survived | |\n| --- | ---: | ---: | --- |")
    for tally in rows:
        flat = [f"{n} {v[0]} → {v[1]}" for n, v in tally.items() if n in ("descriptors", "MiB")]
        print(f"| {tally['kind']} | {tally['tried']} | {tally['survived']} | {', '.join(flat)} |")
    lost = [line for tally in rows for line in tally["lost"]]
    print(*(f"lost: {line}" for line in lost), sep="\n")
    return int(bool(lost))


if __name__ == "__main__":
    if sys.argv[1] == "all":
        sys.exit(try_all(int(sys.argv[2]), float(sys.argv[3])))
    try_kind(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
