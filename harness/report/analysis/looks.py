"""Earlier looks at systems: adding seeds or texts until a verdict appears makes false verdicts frequent.

One file per outputs folder remembers, by systems and metric, what reports showed, wherever they were written, and what
`decide=` has left of alpha.
"""

import contextlib
import json
import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from openended.harness.core import StoreError, digest, write_text
from openended.harness.results import OF_THE_SIZE, RUNS, SIZE, Results, read_grid_file
from openended.harness.storage import Store

log = logging.getLogger(__name__)

FILE = "looks.json"
MOST = 1000  # looks at a metric that are remembered
_SIZES = (*OF_THE_SIZE, "samples")

Look = Mapping[str, Mapping[str, str]]
"""Metric → digest of a system → digest of its seeds and numbers of texts; the alpha of `decide=`; and its origin."""
_COMMAND, _EXPERIMENTS = _ORIGIN = ("command", "experiments")


@dataclass(frozen=True, slots=True)
class EarlierLooks:
    """The looks at a comparison so far, and their plan."""

    alpha: float  # of the comparison
    boundaries: Mapping[int, float]  # number of examples → the statistic that decides, also at looks to come
    n: int  # number of examples of the last look
    statistic: float  # its absolute value there


def digest_system(axes: Mapping[str, Any]) -> str:
    """Return a digest of the axes of a system, without those that say how many texts it has."""
    return digest(sorted((axis, value) for axis, value in axes.items() if value and axis not in _SIZES))[:16]


def describe_look(results: Results, **facts: str) -> Look:
    """Return the data of each system that a report of these results shows, and further facts, by metric."""
    data: dict[str, dict[str, set[tuple[str, ...]]]] = {}
    for item in results.values:
        if item.system == "model":
            sizes = data.setdefault(item.metric, {}).setdefault(digest_system(item.axes), set())
            sizes.update((seed, *(item.axes.get(axis, "") for axis in (SIZE, "samples"))) for seed in item.values)
    commands = sorted({run.command for run in results.runs})
    facts[_COMMAND] = digest(commands)[:16] if all(commands) else ""
    facts[_EXPERIMENTS] = digest(sorted({run.experiment for run in results.runs}))[:16]
    return {
        metric: {system: digest(sorted(sizes))[:16] for system, sizes in systems.items()} | facts
        for metric, systems in data.items()
    }


def find_outputs(results: Results, default: Path) -> set[Path]:
    """Return the outputs folders that runs are in; for runs elsewhere, the default."""
    parents = {run.folder.resolve().parent.parent for run in results.runs}
    return {parent.parent if parent.name == RUNS else default for parent in parents}


def read_looks(outputs: Path) -> dict[str, Any]:
    """Read `reports`, metric → looks, and `decisions`, systems and value → seeds → `EarlierLooks`."""

    def parse_looks(alpha: float, boundaries: Mapping[str, float], n: int, statistic: float) -> EarlierLooks:
        return EarlierLooks(float(alpha), {int(n): float(b) for n, b in boundaries.items()}, int(n), float(statistic))

    def parse(node: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        reports = {metric: [dict(look) for look in looks] for metric, looks in node["reports"].items()}
        decisions = {
            name: {seeds: parse_looks(**e) for seeds, e in of.items()} for name, of in node["decisions"].items()
        }
        return {"reports": reports, "decisions": decisions}

    return read_grid_file(outputs / FILE, "file of looks", parse) or {"reports": {}, "decisions": {}}


@contextlib.contextmanager
def change_looks(outputs: Path) -> Iterator[dict[str, Any]]:
    """Yield what the file of an outputs folder says, and write it back as the block leaves it; others wait."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(StoreError):  # a file system without locks
            stack.enter_context(Store(outputs / "store").hold_lock("looks", FILE))
        looks = read_looks(outputs)
        yield looks
        write_text(outputs / FILE, json.dumps(looks, default=asdict, sort_keys=True) + "\n")


def remember_look(outputs: Collection[Path], now: Look) -> None:
    """Add the look of a report to the files of some outputs folders, as the last one."""
    for folder in outputs:
        try:
            with change_looks(folder) as looks:
                for metric, data in now.items():
                    others = [look for look in looks["reports"].get(metric, []) if look != data]
                    looks["reports"][metric] = [*others, data][-MOST:]
        except StoreError as err:
            log.warning("this look at the systems is not remembered: %s", err)


def warn_of_looks(outputs: Collection[Path], now: Look) -> list[str]:
    """Return a warning if some of these systems were reported before with other data.

    Other experiments of the same command have the data that was planned for them: they are no looks at this one.
    """
    earlier, count = [read_looks(folder)["reports"] for folder in outputs], 0
    for metric, look in now.items():
        data = {name: value for name, value in look.items() if name not in _ORIGIN}
        looks = [
            other for reports in earlier for other in reports.get(metric, [])
            if not look[_COMMAND] or other[_COMMAND] != look[_COMMAND] or other[_EXPERIMENTS] == look[_EXPERIMENTS]
        ]  # fmt: skip
        others = [other for other in looks if any(other.get(name, value) != value for name, value in data.items())]
        count = max(count, len({tuple(other.get(name) for name in data) for other in others}))
    if not count:
        return []
    who = "an earlier report" if count == 1 else f"{count} earlier reports"
    warning = (
        f"look {count + 1} at these systems: {who} had other numbers of seeds or texts, or another alpha. Bold, "
        "p-values and verdicts hold for one look; if data was added until one appeared, equal systems are called "
        "different in more than 5 % of cases (about 8 % with 2 looks, 25 % with 20)"
    )
    return [warning]
