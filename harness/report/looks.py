"""Earlier looks at the same systems: adding seeds or texts until a verdict appears makes false verdicts frequent."""

import json
from collections.abc import Mapping
from pathlib import Path

from openended.harness.core import HarnessError, digest_bytes, parse_json, write_text
from openended.harness.report.analysis.group_sequential import OF_THE_SIZE, SIZE
from openended.harness.results import Results

FILE = "looks.json"
MOST = 100  # looks that are remembered

Look = Mapping[str, str]  # system, as a digest of its axes → its seeds and numbers of texts; and the alpha of `decide=`


def describe_look(results: Results) -> dict[str, str]:
    """Return the data of each system that a report of these results shows."""
    data: dict[str, set[tuple[str, str]]] = {}
    for item in results.values:
        if item.system == "model":
            axes = {axis: value for axis, value in item.axes.items() if axis not in OF_THE_SIZE}
            size = item.axes.get(SIZE, "")
            data.setdefault(repr(sorted(axes.items())), set()).update((seed, size) for seed in item.values)
    return {digest_bytes(system.encode())[:16]: repr(sorted(sizes)) for system, sizes in data.items()}


def read_looks(folder: Path) -> list[Look]:
    """Return the looks of the reports that were written into a folder; none if its file is missing or damaged."""
    try:
        looks = parse_json((folder / FILE).read_bytes(), FILE)
    except (OSError, HarnessError):
        return []
    return [look for look in looks if isinstance(look, dict)] if isinstance(looks, list) else []


def write_looks(folder: Path, earlier: list[Look], now: Look) -> None:
    """Write the looks, the one of now last."""
    looks = [*(look for look in earlier if look != now), now]
    write_text(folder / FILE, json.dumps(looks[-MOST:], indent=1, sort_keys=True) + "\n")


def warn_of_looks(earlier: list[Look], now: Look) -> list[str]:
    """Return a warning if some of these systems were reported before with other data."""
    others = [look for look in earlier if any(look.get(system, data) != data for system, data in now.items())]
    count = len({tuple(look.get(system) for system in now) for look in others})
    if not count:
        return []
    who = "an earlier report" if count == 1 else f"{count} earlier reports"
    warning = (
        f"look {count + 1} at these systems: {who} had other numbers of seeds or texts, or another alpha. Bold, "
        "p-values and verdicts hold for one look; if data was added until one appeared, equal systems are called "
        "different in more than 5 % of cases (about 8 % with 2 looks, 25 % with 20)"
    )
    return [warning]
