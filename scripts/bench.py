"""Run the benchmarks: the harness and a peer in turn, each in a fresh process; medians, ratio and peak memory.

python scripts/bench.py [--only SUBSTR] [--repeats 3] [--write docs/benchmarks.md] [--list] [--simulate]
    [--model FOLDER]

A module of `benchmarks/` has a dictionary `AREAS`: name → list of `Benchmark`. Imports and `prepare`, which makes the
data, are not timed; `harness(data)` and `peer(data)` are timed. Both return small JSON values (numbers, lists,
dictionaries with string keys).
"""

import argparse
import contextlib
import importlib
import importlib.metadata
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.pages import ROOT, find_block, read_table, replace_block, split_row

AREAS = {
    "accelerator": "accelerator", "decoding": "generation", "engines": "models", "intervals": "metrics",
    "loading": "runs", "models": "models", "precision": "accelerator", "report": "runs", "scale": "scale",
    "servers": "generation", "text": "metrics", "two_sample": "metrics", "workers": "generation",
}  # fmt: skip
"""Area → module of `benchmarks/`."""
SIMULATE = "OPENENDED_BENCH_SIMULATE"
SIMULATED = SIMULATE in os.environ
MODEL = "OPENENDED_BENCH_MODEL"  # the folder of `--model`
HEADER = "| work | against | harness | peer | ratio | target | peak memory, harness / peer | results |"
RULE = "| --- | --- | ---: | ---: | ---: | --- | ---: | --- |"
PACKAGES = {name: name for name in ("numpy", "scipy", "torch", "transformers", "nltk", "prdc")}
PACKAGES |= {"faiss-cpu": "faiss", "scikit-learn": "sklearn", "mauve-text": "mauve", "fast-bleu": "fast_bleu"}
TITLE = """# Performance benchmarks

Written by `python scripts/bench.py --write docs/benchmarks.md`. The harness and a reference implementation (the peer)
run in turn, each in a fresh process; times are medians of the repeats. The machine was shared, so ratios are more
reliable than seconds. `CPU` marks single-threaded work, timed by CPU time on both sides. Peak memory is the memory that
the work adds to its input data.
"""
TIMEOUT = 3600  # seconds after which a process is stopped
Figures = dict[str, Any]
"""Of one side: `seconds`, `peak` bytes, `result`, `versions` of packages; or why it was `skipped`."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One line of the table."""

    name: str  # the task and its size, for example `self_bleu, 5,000 texts × 500 tokens, order 4`; unique in its area
    harness: Callable[[Any], Any]
    prepare: Callable[[], Any] = lambda: None  # makes the input of `harness`, the same in every process (seeded)
    imports: tuple[str, ...] = ()  # modules that `harness` imports
    against: str = "–"  # the peer and the function that is called
    peer: Callable[[Any], Any] | None = None
    prepare_peer: Callable[[], Any] | None = None  # makes the input of `peer`, if it differs from that of `harness`
    peer_imports: tuple[str, ...] = ()  # modules that the peer imports; without one of them it is skipped
    peer_share: float = 1.0
    """The share of the work that `peer` does. Its time is divided by it and marked `extrapolated`."""
    target: str = "–"  # least ratio of times (peer over harness), most seconds, most memory beyond the input data
    agree: Callable[[Any, Any], str] | None = None
    """Describes the difference of the two results; receives (harness, peer)."""
    say: Callable[[Any], str] | None = None  # describes the result of the harness
    repeats: int | None = None  # overrides `--repeats` for long works
    peer_repeats: int | None = None
    clock: Literal["wall", "cpu"] = "wall"
    """`cpu` is the CPU time of the process, for single-threaded work on a shared machine; it applies to both sides."""
    threads: int | None = None  # threads of BLAS and OpenMP in both processes; None keeps the default of the machine


def choose_size(real: int, tiny: int) -> int:
    """Return a size of the works, or its tiny value with `--simulate`."""
    return tiny if SIMULATED else real


def format_max_gap(harness: Mapping[str, float], peer: Mapping[str, float]) -> str:
    """Format the largest absolute difference over the shared keys."""
    gap = max(abs(harness[key] - peer[key]) for key in harness.keys() & peer.keys())
    return "equal" if gap == 0 else f"≤ {gap:.0e}"


def format_relative_gap(harness: Mapping[str, float], peer: Mapping[str, float]) -> str:
    """Format the largest relative difference over the keys of the peer."""
    return f"≤ {max(abs(harness[key] / peer[key] - 1) for key in peer):.0e} relative"


def format_equality(harness: object, peer: object) -> str:
    """Report whether both results are equal."""
    return "equal" if harness == peer else f"differ: {harness} {peer}"


def load_area(area: str) -> list[Benchmark]:
    """Load the works of an area."""
    return importlib.import_module(f"scripts.benchmarks.{AREAS[area]}").AREAS[area]


def run_child(area: str, name: str, side: str) -> None:
    """Run one side of one work once and print the figures as one JSON line."""
    work = next(work for work in load_area(area) if work.name == name)
    prepare, run, imports = work.prepare, work.harness, work.imports
    if side == "peer" and work.peer is not None:
        prepare, run, imports = work.prepare_peer or work.prepare, work.peer, work.peer_imports
    for module in imports:
        importlib.import_module(module)
    data = prepare()
    before = _read_memory("VmHWM")
    with contextlib.suppress(OSError):  # resets the peak where the system allows it
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        before = _read_memory("VmRSS")
    clock = time.process_time if work.clock == "cpu" else time.perf_counter
    start = clock()
    result = run(data)
    seconds = clock() - start
    peak = max(0, _read_memory("VmHWM") - before)
    loaded = {name: importlib.metadata.version(name) for name, module in PACKAGES.items() if module in sys.modules}
    print(json.dumps({"seconds": seconds, "peak": peak, "result": result, "versions": loaded}))


def _read_memory(field: str) -> int:
    """Return a field of the process's status in bytes; where the system has none, the peak."""
    status = Path("/proc/self/status")
    match = re.search(rf"{field}:\s+(\d+) kB", status.read_text(encoding="ascii")) if status.exists() else None
    unit = 1 if sys.platform == "darwin" else 1024
    return int(match.group(1)) * 1024 if match else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def launch(area: str, work: Benchmark, side: str) -> Figures:
    """Run one side in a fresh process."""
    env = dict(os.environ)
    if work.threads is not None:
        env |= {f"{name}_NUM_THREADS": str(work.threads) for name in ("OMP", "MKL", "OPENBLAS")}
    command = [sys.executable, str(ROOT / "scripts/bench.py"), "--child", area, work.name, side]
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return {"skipped": f"timed out after {TIMEOUT} s"}
    if done.returncode:
        return {"skipped": (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(area: str, work: Benchmark, repeats: int) -> dict[str, Figures]:
    """Run the harness and the peer in turn and take medians; a side that fails is not run again."""
    counts, skipped = {"harness": work.repeats or repeats}, dict[str, Figures]()
    if work.peer:
        counts["peer"] = work.peer_repeats or work.repeats or repeats
    runs: dict[str, list[Figures]] = {side: [] for side in counts}
    for turn in range(max(counts.values())):
        for side in [side for side, count in counts.items() if turn < count and side not in skipped]:
            runs[side].append(launch(area, work, side))
            if "skipped" in runs[side][-1]:
                skipped[side] = runs.pop(side)[-1]
    shares = {"harness": 1.0, "peer": work.peer_share}
    return skipped | {
        side: {
            **figures[0],
            "seconds": statistics.median(run["seconds"] for run in figures) / shares[side],
            "peak": statistics.median(run["peak"] for run in figures),
        }
        for side, figures in runs.items()
    }


def format_row(work: Benchmark, sides: Mapping[str, Figures]) -> str:
    """Format one line of the table."""
    harness, peer = sides["harness"], sides.get("peer", {})
    ratio, results = "–", []
    if "seconds" in harness and "seconds" in peer:
        times = peer["seconds"] / harness["seconds"]
        ratio = f"{times:,.{2 if times < 2 else 1}f}×"
        results += [work.agree(harness["result"], peer["result"])] if work.agree else []
    if "seconds" in harness and work.say:
        results.append(work.say(harness["result"]))
    clocks = _format_time(harness) + (" CPU" if work.clock == "cpu" else ""), _format_time(peer)
    extrapolated = " (extrapolated)" if work.peer_share < 1 and "seconds" in peer else ""
    peaks = [f"{side['peak'] / 2**20:,.0f} MiB" if "peak" in side else "–" for side in (harness, peer)]
    times = clocks[0], clocks[1] + extrapolated
    cells = [work.name, work.against, *times, ratio, work.target, " / ".join(peaks), "; ".join(results) or "–"]
    return "| " + " | ".join(cells) + " |"


def _format_time(side: Figures) -> str:
    if "seconds" not in side:
        return f"skipped: {side['skipped']}".replace("|", "/") if side else "–"
    seconds = side["seconds"]
    if seconds >= 600:
        return f"{seconds / 3600:,.2f} h"
    return f"{seconds:,.1f} s" if seconds >= 10 else f"{seconds * 1000:,.0f} ms"


def write_section(
    path: Path, area: str, works: Sequence[Benchmark], rows: Mapping[str, str], versions: Mapping[str, str]
) -> None:
    """Write an area's table into the page. Other areas, and works that were not run, keep their lines."""
    page = path.read_text(encoding="utf-8") if path.exists() else TITLE
    rows = {split_row(line)[0]: line for line in read_table(page, area)[2:]} | dict(rows)
    names = rows if MODEL in os.environ else [work.name for work in works if work.name in rows]  # of other models too
    info = Path("/proc/cpuinfo")  # the processor; the host is not named
    model = re.search(r"model name\s*:\s*(.+)", info.read_text(encoding="utf-8")) if info.exists() else None
    cpu = model.group(1) if model else platform.processor() or platform.machine()
    machine = f"{cpu}, {os.cpu_count()} cores, Python {platform.python_version()}"
    about = [f"`python scripts/bench.py --only {area}` on {machine}"]
    about += [f"{name} {version}" for name, version in sorted(versions.items())]
    section = "\n".join([f"## {area}", "", f"{', '.join(about)}.", "", HEADER, RULE, *(rows[name] for name in names)])
    if find_block(page, area) is None:
        page = f"{page.rstrip()}\n\n<!-- {area} -->\n<!-- /{area} -->\n"
    page = replace_block(str(path), page, area, section)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def main() -> int:
    """Run the selected benchmarks; return 1 if the harness failed in one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", default="", help="run the area of this name, or works with this in their line of --list"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    parser.add_argument("--list", action="store_true", help="list the works and stop")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--simulate", action="store_true", help="tiny sizes; the device of the tests as accelerator")
    parser.add_argument("--model", help="of the areas models and engines: a folder or hub id; the bundled docs-m")
    options = parser.parse_args()
    if options.model:
        os.environ[MODEL] = options.model
    if options.simulate:
        os.environ[SIMULATE] = "1"  # read by the child processes too
    if options.child:
        run_child(*options.child)
        return 0
    failed = selected = 0
    for area in [options.only] if options.only in AREAS else AREAS:
        listed = load_area(area)
        works = [work for work in listed if options.only in f"{area}: {work.name}"]
        if not works:
            continue
        selected += len(works)
        if options.list:
            print("\n".join(f"{area}: {work.name}" for work in works))
            continue
        print(f"\n{area}\n{HEADER}\n{RULE}", flush=True)
        rows, versions = {}, {}
        for work in works:
            sides = measure(area, work, options.repeats)
            rows[work.name] = format_row(work, sides)
            print(rows[work.name], flush=True)
            failed += "skipped" in sides["harness"]
            for side in sides.values():
                versions |= side.get("versions", {})
        if options.write:
            write_section(options.write, area, listed, rows, versions)
    if not selected:
        parser.error(f"--only {options.only}: no area or work has this in its name; --list prints them")
    if failed:
        print(f"{failed} benchmarks of the harness failed; see the lines above", file=sys.stderr)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
