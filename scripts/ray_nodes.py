"""Check a run on a Ray cluster that loses one of its two nodes, as described in docs/scale.md.

    python scripts/ray_nodes.py --folder /tmp/ray_nodes

Both nodes are on this machine (`ray.cluster_utils.Cluster`) and have one worker each. Texts, scores and vectors are
compared byte by byte with those of the same run in one process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

RUN = [
    "decoder=ancestral", "num_examples=64", "max_new_tokens=96", "metric=[gen_ppl,frechet,sparsemax_score]",
    "runtime.threads=1", "runtime.device=cpu", "runtime.batch_size=4", "runtime.flush_seconds=0",
]  # fmt: skip


def start_run(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start a run."""
    command = [sys.executable, "-m", "openended", "-v", *RUN, f"outputs_dir={folder}", *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def read_store(folder: Path) -> dict[str, bytes]:
    """Read every file of the store except the manifests, which contain times and hardware."""
    files = (p for p in (folder / "store").glob("*/*/*/*") if p.is_file() and p.name != "manifest.json")
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


def main() -> None:
    """Run on two nodes, remove one, and compare with a run in one process."""
    from ray.cluster_utils import Cluster

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("ray_nodes"))
    folder = parser.parse_args().folder
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False},
    )
    second = cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
    cluster.wait_for_nodes()
    print(f"cluster of 2 nodes at {cluster.address}")
    run = start_run(folder / "two", "runtime.engine=ray", f"runtime.ray_address={cluster.address}", "runtime.workers=2")
    while not list((folder / "two").glob("store/generate/*/*/part-*")):
        if run.poll() is not None:
            raise SystemExit(run.stderr.read() if run.stderr else "the run ended before it wrote texts")
        time.sleep(0.1)
    print("first texts are written; removing the second node")
    cluster.remove_node(second, allow_graceful=False)
    log = run.communicate()[1]
    cluster.shutdown()
    print("\n".join(line for line in log.splitlines() if "worker" in line or "run  " in line))
    if run.returncode:
        raise SystemExit(log)
    start_run(folder / "one").communicate()
    two, single = read_store(folder / "two"), read_store(folder / "one")
    wrong = sorted(name for name in two.keys() | single.keys() if two.get(name) != single.get(name))
    print(f"{len(single)} files; different: {wrong or 'none'}")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
