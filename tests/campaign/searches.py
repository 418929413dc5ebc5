"""Tampered files of Optuna's studies: values that the runs' records give again, or an error of one line."""

import random
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from openended.harness.app.hydra.search_space import Objective, parse_space
from openended.harness.app.hydra.study import SearchPlan, StudyRunner, describe_study_errors, reject_false_trials
from openended.harness.core import HarnessError
from openended.harness.storage.record import ResultRow, RunRecord, save_record
from tests.campaign.world import Tally, World, check_line

PLAN = SearchPlan("s", parse_space({}, {}, ["decoder.p=interval(0.5,1)"]), (Objective("maximize", "mauve"),))
FRESH_SEEDS = ("5",)
TABLES = ("trial_values", "trials", "trial_user_attributes", "study_user_attributes")
VALUES: tuple[Any, ...] = (
    None, 99.0, -1, 0, 2**62, 1e308, float("nan"), "", "x", "COMPLETE", "\x1b[31m\n", "[" * 20_000, "{}", "[]", "null", b"\xff\x00",
    '{"": "/etc"}', '{"decoder.p": "0.5"}', '{"name": "CategoricalDistribution"}', "0.5",
)  # fmt: skip


def write_run(folder: Path, words: tuple[str, ...], value: float, seed: int | None = 1) -> Path:
    """Write the record of a run with one value."""
    row = ResultRow(system="model", metric="mauve", signature="s", primary="mauve", values={"mauve": value}, n_human=5,
                    n_model=5, status="ok")  # fmt: skip
    folder.mkdir(parents=True)
    save_record(
        folder,
        RunRecord(created="2027-01-01T00:00:00+00:00", spec={}, axes={"seed": seed}, overrides=words, results=(row,)),
    )
    return folder


def write_study(folder: Path, trials: int = 5) -> Path:
    """Write a finished search and its runs; return the file of the study."""
    path = folder / "search.db"
    searching = StudyRunner(PLAN, path)
    searching.start()
    for number in range(trials):
        ((trial, chosen),) = searching.ask(1)
        words = tuple(f"{key}={value}" for key, value in chosen.items())
        run = write_run(folder / f"run-{number}", words, number / 10)
        searching.record_runs(trial, {"": str(run)})
        searching.study.tell(trial, [number / 10])
    for seed in FRESH_SEEDS:
        run = write_run(folder / f"fresh-{seed}", (*words, f"seed={seed}"), 0.35)
        searching.record_confirmation(trial.number, seed, str(run))
    return path


def tamper(path: Path, draw: random.Random, tables: Sequence[str], values: Sequence[Any]) -> str:
    """Change bytes, the schema or cells of a database, mostly of these tables; return what was done."""
    if draw.random() < 0.2:
        data = bytearray(path.read_bytes())
        for _ in range(draw.choice((1, 20, 500))):
            data[draw.randrange(len(data))] = draw.randrange(256)
        path.write_bytes(data[: draw.choice((len(data), draw.randrange(len(data))))])
        return "bytes"
    with closing(sqlite3.connect(path)) as base:
        names = [name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        table = draw.choice((*tables, *names))
        column = draw.choice([row[1] for row in base.execute(f"PRAGMA table_info({table})")])
        if draw.random() < 0.15:
            base.execute(draw.choice((f"DROP TABLE {table}", f"ALTER TABLE {table} RENAME COLUMN {column} TO other")))
            return f"schema of {table}.{column}"
        value = draw.choice(values)
        with suppress(sqlite3.IntegrityError):
            base.execute(f"UPDATE {table} SET {column} = ?{draw.choice(('', ' WHERE rowid = 1'))}", (value,))
            base.commit()
        return f"{table}.{column} = {value!r:.40}"


def forged_searches(world: World, count: int, draw: random.Random) -> Tally:
    """Tamper with the file of a search: no value that the records do not give reaches its summary."""
    tally, original = Tally("tampered searches"), write_study(world.folder / "search")
    path = world.folder / "search" / "tampered.db"
    for number in range(count):
        shutil.copyfile(original, path)
        what = tamper(path, draw, TABLES, VALUES)
        with tally.one(f"{number}: {what}"):
            try:
                reject_false_trials(PLAN, path)
                with describe_study_errors(path):
                    searching = StudyRunner(PLAN, path)
                    searching.start()
                    summary = searching.summarize()
            except HarnessError as err:
                check_line(err, 2000)
                continue
            for trial in summary.trials:
                if trial.state == "complete":
                    assert trial.values[0] in [n / 10 for n in range(5)], f"trial {trial.number} has {trial.values}"
                    assert set(trial.fresh.values()) <= {(0.35,)}, f"fresh values {trial.fresh}"
    return tally
