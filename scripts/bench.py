"""Run the benchmarks: the harness and a peer in turn, each in a fresh process; medians, ratio and peak memory.

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

from scripts.benchmarks._work import Benchmark  # noqa: E402

AREAS = {
    "batches": "generation", "decoding": "generation", "engines": "generation", "intervals": "metrics",
    "loading": "runs", "people": "metrics", "report": "runs", "servers": "generation", "text": "metrics",
    "two_sample": "metrics", "workers": "generation",
}  # fmt: skip
"""Area → module of `benchmarks/`."""
HEADER = "| work | against | harness | peer | ratio | target | peak memory, harness / peer | results |"
RULE = "| --- | --- | ---: | ---: | ---: | --- | ---: | --- |"
PACKAGES = {
    "numpy": "numpy", "scipy": "scipy", "torch": "torch", "transformers": "transformers", "faiss-cpu": "faiss",
    "scikit-learn": "sklearn", "nltk": "nltk", "mauve-text": "mauve", "prdc": "prdc", "fast-bleu": "fast_bleu",
}  # fmt: skip
TITLE = """# Performance benchmarks

Written by `python scripts/bench.py --write docs/benchmarks.md`. The harness and a reference implementation (the peer)
run in turn, each in a fresh process; times are medians of the repeats. The machine was shared, so ratios are more
reliable than seconds. `CPU` marks single-threaded work, timed by CPU time on both sides. Peak memory is the memory that
the work adds to its input data.
"""
_MIB = 1 << 20


@dataclass(frozen=True)
class Timing:
    """Median time and memory of one side."""

    seconds: float
    peak_mib: float
    result: Any
    versions: dict[str, str]


@dataclass(frozen=True)
class Skipped:
    """The reason why one side was not timed."""

    reason: str


def load_area(area: str) -> list[Benchmark]:
    """Load the works of an area."""
    works: list[Benchmark] = importlib.import_module(f"scripts.benchmarks.{AREAS[area]}").AREAS[area]
    return works


def select_works(works: Mapping[str, Sequence[Benchmark]], only: str) -> dict[str, list[Benchmark]]:
    """Select the area named `only`, or all works whose names contain it."""
    if only in works:
        return {only: list(works[only])}
    selected = {area: [work for work in listed if only in work.name] for area, listed in works.items()}
    return {area: listed for area, listed in selected.items() if listed}


def run_child(area: str, name: str, side: str) -> None:
    """Run one side of one work once and print the figures as one JSON line."""
    work = next(work for work in load_area(area) if work.name == name)
    prepare, run = work.prepare, work.harness
    if side == "peer" and work.peer is not None:
        prepare, run = work.prepare_peer or work.prepare, work.peer
    data = prepare()
    before = _reset_peak()
    clock = time.process_time if work.clock == "cpu" else time.perf_counter
    start = clock()
    result = run(data)
    seconds = clock() - start
    peak = max(0, _read_peak() - before)
    loaded = {name: importlib.metadata.version(name) for name, module in PACKAGES.items() if module in sys.modules}
    print(json.dumps({"seconds": seconds, "peak": peak, "result": result, "versions": loaded}))


def _read_status(field: str) -> int | None:
    """Read a field of this process's memory status in bytes, where the system has one."""
    try:
        match = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    except OSError:
        return None
    return int(match.group(1)) * 1024 if match else None


def _reset_peak() -> int:
    """Reset the peak where the system allows it; return the current memory in bytes."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return _read_peak()
    return _read_status("VmRSS") or _read_peak()


def _read_peak() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return _read_status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def launch(area: str, work: Benchmark, side: str) -> dict[str, Any] | Skipped:
    """Run one side in a fresh process."""
    env = dict(os.environ)
    if work.threads is not None:
        env |= {f"{name}_NUM_THREADS": str(work.threads) for name in ("OMP", "MKL", "OPENBLAS")}
    command = [sys.executable, str(HERE / "bench.py"), "--child", area, work.name, side]
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=work.timeout, check=False)
    except subprocess.TimeoutExpired:
        return Skipped(f"timed out after {work.timeout:.0f} s")
    if done.returncode:
        return Skipped((done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1])
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def measure(area: str, work: Benchmark, repeats: int) -> dict[str, Timing | Skipped]:
    """Run the harness and the peer in turn and take medians."""
    counts = {"harness": work.repeats or repeats}
    out: dict[str, Timing | Skipped] = {}
    missing = [name for name in work.peer_needs if importlib.util.find_spec(name) is None]
    if work.peer and missing:
        out["peer"] = Skipped(f"{', '.join(missing)} is not installed")
    elif work.peer:
        counts["peer"] = work.peer_repeats or work.repeats or repeats
    figures: dict[str, list[dict[str, Any]]] = {side: [] for side in counts}
    for turn in range(max(counts.values())):
        for side in [side for side, count in counts.items() if turn < count and side not in out]:
            run = launch(area, work, side)
            if isinstance(run, Skipped):
                out[side] = run
            else:
                figures[side].append(run)
    for side in [side for side in counts if side not in out]:
        out[side] = Timing(
            seconds=statistics.median(run["seconds"] for run in figures[side])
            / (work.peer_share if side == "peer" else 1.0),
            peak_mib=statistics.median(run["peak"] for run in figures[side]) / _MIB,
            result=figures[side][0]["result"],
            versions=figures[side][0]["versions"],
        )
    return out


def format_row(work: Benchmark, sides: Mapping[str, Timing | Skipped]) -> str:
    """Format one line of the table."""
    harness, peer = sides["harness"], sides.get("peer")
    ratio, results = "–", []
    if isinstance(harness, Timing) and isinstance(peer, Timing):
        ratio = f"{peer.seconds / harness.seconds:,.1f}×"
        results += [work.agree(harness.result, peer.result)] if work.agree else []
    if isinstance(harness, Timing) and work.say:
        results.append(work.say(harness.result))
    targets = [f"{work.at_least:,.4g}×"] if work.at_least else []
    targets += [f"≤ {work.at_most_seconds:g} s"] if work.at_most_seconds else []
    targets += [f"≤ {work.at_most_mib:,.0f} MiB"] if work.at_most_mib else []
    cells = [
        work.name,
        work.against,
        _format_time(harness) + (" CPU" if work.clock == "cpu" else ""),
        _format_time(peer) + (" (extrapolated)" if work.peer_share < 1 and isinstance(peer, Timing) else ""),
        ratio,
        ", ".join(targets) or "–",
        " / ".join(f"{side.peak_mib:,.0f} MiB" if isinstance(side, Timing) else "–" for side in (harness, peer)),
        "; ".join(results) or "–",
    ]
    return "| " + " | ".join(cells) + " |"


def _format_time(side: Timing | Skipped | None) -> str:
    if side is None:
        return "–"
    if isinstance(side, Skipped):
        return f"skipped: {side.reason}".replace("|", "/")
    if side.seconds >= 600:
        return f"{side.seconds / 3600:,.2f} h"
    return f"{side.seconds:,.1f} s" if side.seconds >= 10 else f"{side.seconds * 1000:,.0f} ms"


def describe_machine() -> str:
    """Describe the processor without naming the host."""
    cpu, info = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    if info.exists():
        match = re.search(r"model name\s*:\s*(.+)", info.read_text(encoding="utf-8"))
        cpu = match.group(1) if match else cpu
    return f"{cpu}, {os.cpu_count()} cores, Python {platform.python_version()}"


def write_section(
    path: Path, area: str, works: Sequence[Benchmark], rows: Mapping[str, str], versions: Mapping[str, str]
) -> None:
    """Write an area's table into the page. Other areas, and works that were not run, keep their lines."""
    page = path.read_text(encoding="utf-8") if path.exists() else TITLE
    match = re.search(rf"<!-- {area} -->.*?<!-- end {area} -->", page, flags=re.DOTALL)
    old = [line for line in match.group(0).splitlines() if line.startswith("| ")] if match else []
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in old} | dict(rows)
    lines = [rows[work.name] for work in works if work.name in rows]
    about = [f"`python scripts/bench.py --only {area}` on {describe_machine()}"]
    about += [f"{name} {version}" for name, version in sorted(versions.items())]
    head = [f"<!-- {area} -->", f"## {area}", "", f"{', '.join(about)}.", "", HEADER, RULE]
    section = "\n".join([*head, *lines, f"<!-- end {area} -->"])
    page = page.replace(match.group(0), section) if match else f"{page.rstrip()}\n\n{section}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def main() -> int:
    """Run the selected benchmarks; return 1 if the harness failed in one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run the area of this name, or the works whose names contain this")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    parser.add_argument("--list", action="store_true", help="list the works and stop")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_child(*options.child)
        return 0
    areas, failed = {area: load_area(area) for area in AREAS}, 0
    for area, works in select_works(areas, options.only).items():
        if options.list:
            print("\n".join(f"{area}: {work.name}" for work in works))
            continue
        print(f"\n{area}\n{HEADER}\n{RULE}", flush=True)
        rows, versions = {}, {}
        for work in works:
            sides = measure(area, work, options.repeats)
            rows[work.name] = format_row(work, sides)
            print(rows[work.name], flush=True)
            failed += isinstance(sides["harness"], Skipped)
            for side in sides.values():
                versions |= side.versions if isinstance(side, Timing) else {}
        if options.write:
            write_section(options.write, area, areas[area], rows, versions)
    if failed:
        print(f"{failed} benchmarks of the harness failed; see the lines above", file=sys.stderr)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
