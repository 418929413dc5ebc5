"""The long campaign: every kind of fault, one process each; prints a table, leaves with 1 if anything was lost."""

import json
import subprocess
import sys

COUNTS = {
    "kills": 200,
    "grids": 200,
    "corruptions": 2000,
    "parts": 200,
    "races": 100,
    "jobs": 2000,
    "fuzz": 2000,
    "entries": 200,
    "archives": 100,
    "configurations": 100,
    "servers": 150,
    "raters": 300,
    "searches": 60,
}


def main() -> int:
    """Run the campaign with a seed and a scale of the counts."""
    seed, scale = sys.argv[1], float(sys.argv[2])
    rows, code = [], 0
    for kind, most in COUNTS.items():
        words = [sys.executable, "-m", "tests.campaign.faults", kind, str(max(1, round(most * scale))), seed]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        try:
            tally = json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            tally = {
                "kind": kind,
                "tried": 0,
                "survived": 0,
                "lost": [f"the campaign itself ended: {done.stderr[-500:]}"],
            }
        rows.append(tally)
        code |= bool(tally["lost"])
        print(f"{tally['kind']:<22} {tally['survived']} of {tally['tried']}", file=sys.stderr, flush=True)
    print("| fault | tried | survived | |\n| --- | ---: | ---: | --- |")
    for tally in rows:
        flat = [f"{n} {v[0]} → {v[1]}" for n, v in tally.items() if n in ("descriptors", "MiB")]
        print(f"| {tally['kind']} | {tally['tried']} | {tally['survived']} | {', '.join(flat)} |")
    for tally in rows:
        for line in tally["lost"]:
            print(f"lost: {line}")
    return code


if __name__ == "__main__":
    sys.exit(main())
