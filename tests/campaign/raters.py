"""Hostile raters: every case ends in an answer of the server or in an error of one line."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

from openended.harness.core import HarnessError
from openended.harness.rating.answers import build_judgment_rows, gather_answers, group_files_by_study, tabulate_answers
from openended.harness.rating.design import StudyKey
from openended.harness.rating.item_pool import AnswerRefused, ItemPool
from openended.harness.rating.study import fill_all_sheets
from openended.harness.report.tables.raters import build_rater_frame
from tests.campaign.world import Tally, World, check_line
from tests.harness.rating.studies import study

VALUES: tuple[Any, ...] = (
    None, -5, 0, 1, 2**40, 2**62, 1e308, float("nan"), True, "", "x", "\x1b[31m\n", "\x00", "9" * 5000, b"\xff\x00",
    "[" * 20_000, "{}", "[]", "null", '{"sensible": 9}', '{"sensible": [1]}', '{"sensible": true}', "é" * 300,
)  # fmt: skip


class Raters:
    """A study with answers in files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key: StudyKey = study(folder / "study", items=12, items_a_sheet=12)
        fill_all_sheets(self.key, folder / "sheets")

    def run_case(self, number: int, draw: random.Random) -> None:
        """Try one fault: anything but an error of one line is raised."""
        work = self.folder / f"case-{number}"
        work.mkdir()
        try:
            draw.choice((self.change_file, self.post))(work, draw)
        except (HarnessError, AnswerRefused) as err:
            check_line(err, 2000)
        finally:
            shutil.rmtree(work)

    def change_file(self, work: Path, draw: random.Random) -> None:
        """Replace a value of a rater's file."""
        source = draw.choice(sorted((self.folder / "sheets").glob("*.json")))
        content = json.loads(source.read_text())
        row = draw.choice(content["answers"])
        target = draw.choice((content, row, row["answers"]))
        value = draw.choice([v for v in VALUES if not isinstance(v, bytes)])
        target[draw.choice(list(target))] = value
        (work / source.name).write_text(json.dumps(content))
        self.read(work / source.name)

    def post(self, work: Path, draw: random.Random) -> None:
        """Send an answer as a hostile rater would; no such answer may be stored."""
        pool = ItemPool(work / "answers.db", self.key)
        pool.add_raters(1)
        item = pool.next_item("served-01")
        sent = {
            "task": item.task, "lease": item.lease, "choices": dict.fromkeys(self.key.protocol.questions, 1), "ms": 60_000
        }  # fmt: skip
        for name in draw.sample(list(sent), draw.randint(1, 2)):
            sent[name] = draw.choice([v for v in VALUES if name != "ms" or v not in (0, 1)])
        pool.store("served-01", **sent)
        raise AssertionError(f"stored: {sent!r:.200}")

    def read(self, path: Path) -> None:
        """Collect a file, as `openended rate collect` does."""
        ((key, files),) = group_files_by_study([path], [], [self.folder / "study"])
        gathered = gather_answers(files, key, leave_out=False)
        build_judgment_rows(gathered)
        build_rater_frame(tabulate_answers(gathered), "quality", "Raters", 25.0)


def hostile_raters(world: World, count: int, draw: random.Random) -> Tally:
    """Try answers and files of raters that are wrong: one line each, and none of them is stored."""
    tally, raters = Tally("hostile raters"), Raters(world.folder / "raters")
    for number in range(count):
        with tally.one(f"case {number}"):
            raters.run_case(number, draw)
    return tally
