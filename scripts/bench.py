"""Run the benchmarks: ours and the peer's in turn, each in a fresh process; medians, ratio and peak memory.

python scripts/bench.py [--only SUBSTR] [--repeats 3] [--write docs/benchmarks.md] [--list]
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from scripts.benchmarks._work import Work  # noqa: E402

HEADER = "| work | against | ours | peer | ratio | asked | peak memory, ours / peer | results |"
RULE = "| --- | --- | ---: | ---: | ---: | --- | ---: | --- |"
PACKAGES = (
    "numpy",
    "scipy",
    "torch",
    "transformers",
    "faiss-cpu",
    "scikit-learn",
    "nltk",
    "mauve-text",
    "prdc",
    "fast-bleu",
)
TITLE = """# How fast

Written by `python scripts/bench.py --write docs/benchmarks.md`: ours and the peer's in turn, each in a fresh process,
median of the repeats. The machine was shared: trust the ratios, not the seconds. `CPU` marks works in one thread, timed
on both sides by processor time. Peak memory is what the work adds to the data it is given.
"""
_MIB = 1 << 20


@dataclass(frozen=True)
class Measured:
    """What the processes of one side gave."""

    seconds: float
    peak_mib: float
    result: Any
    versions: dict[str, str]


@dataclass(frozen=True)
class Absent:
    """Why one side has no figure."""

    reason: str


def areas() -> dict[str, list[Work]]:
    """Return area → works of every module in `benchmarks/`."""
    names = sorted(path.stem for path in (HERE / "benchmarks").glob("[a-z]*.py"))
    return {name: list(importlib.import_module(f"scripts.benchmarks.{name}").WORKS) for name in names}


def chosen(works: Mapping[str, Sequence[Work]], only: str) -> dict[str, list[tuple[int, Work]]]:
    """Return area → (number, work) of the area named `only`, or of all works whose names contain it."""
    kept = {
        area: [(i, work) for i, work in enumerate(listed) if area == only or (only not in works and only in work.name)]
        for area, listed in works.items()
    }
    return {area: listed for area, listed in kept.items() if listed}


def child(area: str, number: int, side: str) -> None:
    """Run one side of one work once and print the figures as one JSON line."""
    work: Work = importlib.import_module(f"scripts.benchmarks.{area}").WORKS[number]
    prepare = work.prepare_peer if side == "peer" and work.prepare_peer else work.prepare
    run = work.peer if side == "peer" else work.ours
    if run is None:
        raise SystemExit(f"{work.name} has no {side}")
    data = prepare()
    before = _reset_peak()
    clock = time.process_time if work.clock == "cpu" else time.perf_counter
    start = clock()
    result = run(data)
    seconds = clock() - start
    peak = max(0, _peak() - before)
    loaded = {name: v for name in PACKAGES if (v := _version(name)) and _module(name) in sys.modules}
    print(json.dumps({"seconds": seconds, "peak": peak, "result": result, "versions": loaded}))


def _module(package: str) -> str:
    named = {"faiss-cpu": "faiss", "scikit-learn": "sklearn", "mauve-text": "mauve", "fast-bleu": "fast_bleu"}
    return named.get(package, package)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _status(field: str) -> int | None:
    """Read a field of this process's memory status in bytes, where the system has one."""
    try:
        found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    except OSError:
        return None
    return int(found.group(1)) * 1024 if found else None


def _reset_peak() -> int:
    """Forget the peak so far where the system allows it; return the memory held now, in bytes."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return _peak()
    return _status("VmRSS") or _peak()


def _peak() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def launch(area: str, number: int, side: str, work: Work) -> dict[str, Any] | Absent:
    """Run one side in a fresh process."""
    env = dict(os.environ)
    if work.threads is not None:
        env |= {f"{name}_NUM_THREADS": str(work.threads) for name in ("OMP", "MKL", "OPENBLAS")}
    command = [sys.executable, str(HERE / "bench.py"), "--child", area, str(number), side]
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=work.timeout, check=False)
    except subprocess.TimeoutExpired:
        return Absent(f"not done after {work.timeout:.0f} s")
    if done.returncode:
        return Absent((done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1])
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def measure(area: str, number: int, work: Work, repeats: int) -> dict[str, Measured | Absent]:
    """Run ours and the peer's in turn and take medians."""
    sides: dict[str, int] = {"ours": work.repeats or repeats}
    out: dict[str, Measured | Absent] = {}
    missing = [name for name in work.peer_needs if importlib.util.find_spec(name) is None]
    if work.peer and missing:
        out["peer"] = Absent(f"{', '.join(missing)} is not installed")
    elif work.peer:
        sides["peer"] = work.peer_repeats or work.repeats or repeats
    runs: dict[str, list[dict[str, Any] | Absent]] = {side: [] for side in sides}
    for turn in range(max(sides.values())):
        for side, wanted in sides.items():
            if turn < wanted and not any(isinstance(run, Absent) for run in runs[side]):
                runs[side].append(launch(area, number, side, work))
    for side, made in runs.items():
        out[side] = _median(made, work.peer_share if side == "peer" else 1.0)
    return out


def _median(runs: list[dict[str, Any] | Absent], share: float) -> Measured | Absent:
    figures = []
    for run in runs:
        if isinstance(run, Absent):
            return run
        figures.append(run)
    return Measured(
        seconds=statistics.median(run["seconds"] for run in figures) / share,
        peak_mib=statistics.median(run["peak"] for run in figures) / _MIB,
        result=figures[0]["result"],
        versions=figures[0]["versions"],
    )


def row(work: Work, sides: dict[str, Measured | Absent]) -> str:
    """Write one line of the table."""
    ours, peer = sides["ours"], sides.get("peer")
    ratio = results = "–"
    if isinstance(ours, Measured) and isinstance(peer, Measured):
        ratio = f"{peer.seconds / ours.seconds:,.1f}×"
        results = work.agree(ours.result, peer.result) if work.agree else "–"
    if isinstance(ours, Measured) and work.say:
        results = work.say(ours.result) if results == "–" else f"{results}; {work.say(ours.result)}"
    asked = [f"{work.at_least:,.4g}×"] if work.at_least else []
    asked += [f"≤ {work.at_most_seconds:g} s"] if work.at_most_seconds else []
    asked += [f"≤ {work.at_most_mib:,.0f} MiB"] if work.at_most_mib else []
    memory = " / ".join(f"{side.peak_mib:,.0f} MiB" if isinstance(side, Measured) else "–" for side in (ours, peer))
    cells = [
        work.name,
        work.against,
        _time(ours) + (" CPU" if work.clock == "cpu" else ""),
        _time(peer) + (" (extrapolated)" if work.peer_share < 1 and isinstance(peer, Measured) else ""),
        ratio,
        ", ".join(asked) or "–",
        memory,
        results,
    ]
    return "| " + " | ".join(cells) + " |"


def _time(side: Measured | Absent | None) -> str:
    if side is None:
        return "–"
    if isinstance(side, Absent):
        return f"skipped: {side.reason}".replace("|", "/")
    if side.seconds >= 600:
        return f"{side.seconds / 3600:,.2f} h"
    return f"{side.seconds:,.1f} s" if side.seconds >= 10 else f"{side.seconds * 1000:,.0f} ms"


def machine() -> str:
    """Name the processor, never the host."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"model name\s*:\s*(.+)", info.read_text(encoding="utf-8"))
        cpu = found.group(1) if found else cpu
    return f"{cpu}, {os.cpu_count()} cores, Python {platform.python_version()}"


def section(area: str, works: Sequence[Work], rows: dict[str, str], versions: dict[str, str]) -> str:
    """Write an area's part of the page, its works in the order of their list."""
    packages = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    lines = [rows[work.name] for work in works if work.name in rows]
    about = f"`python scripts/bench.py --only {area}` on {machine()}" + (f", {packages}" if packages else "") + "."
    return "\n".join([f"<!-- {area} -->", f"## {area}", "", about, "", HEADER, RULE, *lines, f"<!-- end {area} -->"])


def write(path: Path, area: str, works: Sequence[Work], rows: dict[str, str], versions: dict[str, str]) -> None:
    """Put an area's table into the page; other areas, and works of this area not run now, keep theirs."""
    page = path.read_text(encoding="utf-8") if path.exists() else TITLE
    found = re.search(rf"<!-- {area} -->.*?<!-- end {area} -->", page, flags=re.DOTALL)
    if found:
        old = [line for line in found.group(0).splitlines() if line.startswith("| ") and line not in (HEADER, RULE)]
        rows = {line.split(" | ")[0].removeprefix("| "): line for line in old} | rows
    new = section(area, works, rows, versions)
    page = page.replace(found.group(0), new) if found else f"{page.rstrip()}\n\n{new}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def main() -> int:
    """Run what the command line asks for; leave with 1 if a work of ours failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run the area of this name, or the works whose names contain this")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    parser.add_argument("--list", action="store_true", help="list the works and stop")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], int(options.child[1]), options.child[2])
        return 0
    all_areas, failed = areas(), 0
    for area, numbered in chosen(all_areas, options.only).items():
        if options.list:
            print("\n".join(f"{area}: {work.name}" for _, work in numbered))
            continue
        print(f"\n{area}\n{HEADER}\n{RULE}", flush=True)
        rows, versions = {}, {}
        for number, work in numbered:
            sides = measure(area, number, work, options.repeats)
            rows[work.name] = row(work, sides)
            print(rows[work.name], flush=True)
            failed += isinstance(sides["ours"], Absent)
            for side in sides.values():
                versions |= side.versions if isinstance(side, Measured) else {}
        if options.write:
            write(options.write, area, all_areas[area], rows, versions)
    if failed:
        print(f"{failed} of ours did not run: see the lines above", file=sys.stderr)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
