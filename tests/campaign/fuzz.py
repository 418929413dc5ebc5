"""Fuzzed inputs: words of a command line, and files that the harness reads; an error of one line, never a traceback."""

import gzip
import json
import pickle
import random
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openended.harness.app.hydra.command_line import CommandLine
from openended.harness.app.hydra.compose import Composer
from openended.harness.app.hydra.errors import translate_config_errors
from openended.harness.core import HarnessError, format_error
from openended.harness.imported.generations import read_generations
from openended.harness.models.spec import ModelSpec
from openended.harness.run import Session, plan
from openended.harness.storage import RunRecord, Store, read_record, save_record
from openended.metrics.judgments import read_comparisons, read_judgments
from openended.tasks.jsonl import JsonLines

VALUES = (
    "3", "-1", "0", "null", "true", "nan", "inf", "-inf", "1e308", "1e999", "[]", "{}", "[1,2]", "[[a]]", "{a:1}", "''",
    "foo", "a/b", "../../x", "/", "~", "é", "'\x00'", "'\ud800'", "${seed}", "${nope}", "${oc.env:HOME}", "${", "???", "[",
    "9" * 20, "9" * 5000, "-" + "9" * 20, "2147483648", "1.5", "gpt2-output:../../x", "grover:../..", "bundled:x",
    "[" * 500, "'" + "x" * 5000 + "'", "range(3)", "1,2", "None", "0x10", "1_000", "cuda:99", "{_target_:os.system}",
)  # fmt: skip
OPTIONS = (
    "task", "model", "decoder", "scorer", "embedder", "metric", "report", "runtime", "experiment", "seed", "samples",
    "num_examples", "max_new_tokens", "min_new_tokens", "generations", "judgments", "outputs_dir", "task.path",
    "model.path", "model.label", "model.dtype", "model.bos", "model.revision", "decoder.p", "scorer.path",
    "embedder.layer", "embedder.lengths", "embedder.max_length", "metric.mauve", "metric.mauve.seed",
    "metric.mauve.lambdas", "metric.mauve.num_buckets", "metric.distinct_n.orders", "runtime.device",
    "runtime.batch_size", "runtime.threads", "runtime.flush_seconds", "runtime.on_error", "report.metrics",
    "hydra.callbacks", "hydra.launcher", "hydra.sweeper", "hydra.job_logging", "hydra.job.env_set", "hydra.job.env_copy",
    "hydra.sweep.dir", "decoder._target_", "metric.mauve._target_", "nope", "hydra/launcher", "hydra.job",
)  # fmt: skip
ROWS: tuple[dict[str, Any], ...] = (
    {"id": "a", "prompt": "p", "human": "h", "text": "t", "sample": 0, "ended": True, "length": 3, "stop": "eos"},
    {"example_id": "a", "is_model": 1, "rating": 3, "rater": "x", "log_prob": -3.5},
    {"example_id": "a", "a": "human", "b": "gpt2", "winner": "a", "system_a": "human", "system_b": "m"},
)
NASTY: tuple[Any, ...] = (
    None, [], {}, "", "NaN", -1, 2**31, 10**25, 1e308, -1e308, True, "\ud800", "\x00", [[]], {"a": []}, "x" * 9999, 0.5
)  # fmt: skip


def words(draw: random.Random) -> list[str]:
    """Some words of a command line, most of them wrong."""
    prefix = ("", "", "", "", "+", "++", "~")
    one = [
        f"{draw.choice(prefix)}{draw.choice(OPTIONS)}={draw.choice(VALUES)}"
        for _ in range(draw.choice([1, 1, 1, 2, 3]))
    ]
    if draw.random() < 0.05:
        one.append("~" + draw.choice(OPTIONS))
    if draw.random() < 0.05:
        one.append(draw.choice(VALUES))
    return one


def planned(folder: Path, given: list[str], *, deep: bool) -> None:
    """Compose, make the settings, and with `deep` plan, as the command does."""
    with translate_config_errors():
        words = (f"outputs_dir={folder / 'fuzz'}", *given)
        composer = Composer(CommandLine(words))
        composer.compose_command()
        settings = composer.compose_job(words).settings
    if deep:
        plan(settings, Session(Store(folder / "fuzz" / "store")))


def _generations(path: Path) -> None:
    for _ in read_generations(path):
        pass


def _task(path: Path) -> None:
    task = JsonLines(path=str(path))
    task.fingerprint()
    for _ in task.examples(None, Counter()):
        pass


def _config(path: Path) -> None:
    model = ModelSpec(path=str(path.parent))
    model.context_length(), model.end_ids(), model.cannot("score")


def _jsonl(draw: random.Random) -> bytes:
    rows = []
    for row in draw.choices(ROWS, k=4):
        changed = dict(row)
        changed[draw.choice([*row, "text", "ratings", "rating_1", "finish_reason", "ended"])] = draw.choice(NASTY)
        rows.append(json.dumps(changed))
    if draw.random() < 0.2:
        rows.append(
            draw.choice(["[]", "3", "{", '{"a":1,"a":2}', "[" * 3000, '{"id":' + "9" * 5000 + "}", '{"text":NaN}'])
        )
    return "\n".join(rows).encode()


def _csv(draw: random.Random) -> bytes:
    names = draw.choice(
        [list(ROWS[1]), list(ROWS[2]), ["example_id", "is_model", "rating_1", "rating_2", "logp_model"]]
    )
    cells = (*"1 0 3 x 1e308 -1e308 nan inf -inf human a".split(), "", "9" * 5000, '"', '"a\nb"', "\x00")
    return "\n".join([",".join(names), *(",".join(draw.choices(cells, k=len(names))) for _ in range(5))]).encode()


def _pickle(draw: random.Random) -> bytes:
    value = [[draw.choice([[1, 2, 50256], [], ["a"], None, [10**30], [True]]) for _ in range(3)]]
    return draw.choice([pickle.dumps(value), b"\x80\x04Nr\xff\xff\xff\x7f.", b"\x80\x04\x8e" + b"\xff" * 8])


def _model(draw: random.Random) -> bytes:
    fields = "n_layer vocab_size n_embd n_positions eos_token_id bos_token_id text_config model_type".split()
    sound = {"model_type": "gpt2", "n_layer": 1, "n_embd": 16, "n_head": 2, "vocab_size": 257, "n_positions": 64}
    wrong = {draw.choice(fields): draw.choice([*NASTY, -1, 100_000, [0, -1], {"n_layer": 10**9}])}
    return json.dumps({**sound, **wrong}).encode()


def _record(draw: random.Random) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        save_record(Path(name), RunRecord(created="now", spec={}, axes={"seed": 1}, results=()))
        return (Path(name) / "record.json").read_bytes()


FILES: tuple[tuple[str, Callable[[random.Random], bytes], Callable[[Path], object]], ...] = (
    ("g.jsonl", _jsonl, _generations),
    ("t.jsonl", _jsonl, _task),
    ("j.jsonl", _jsonl, read_judgments),
    ("j.csv", _csv, read_judgments),
    ("c.csv", _csv, read_comparisons),
    ("g.p", _pickle, _generations),
    ("config.json", _model, _config),
    ("record.json", _record, read_record),
)


def a_file(folder: Path, draw: random.Random) -> tuple[Path, Callable[[Path], object]]:
    """Write a file that is wrong somewhere; returns it and who reads it."""
    name, make, read = draw.choice(FILES)
    data = make(draw)
    zipped = name.endswith(("l", "v")) and draw.random() < 0.3
    if zipped:
        data = gzip.compress(data, mtime=0)
    how = draw.choice(["as it is", "as it is", "flip", "cut"])
    if how == "flip":
        changed = bytearray(data)
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        data = bytes(changed)
    if how == "cut":
        data = data[: draw.randrange(len(data))]
    path = folder / (name + ".gz" if zipped else name)
    path.write_bytes(data)
    return path, read


def one_input(folder: Path, number: int, draw: random.Random) -> str:
    """Give the harness one fuzzed input; returns what it was.

    Raises:
        AssertionError: If anything but an error of ours, of one line, came of it.
    """
    if number % 3:
        path, read = a_file(folder, draw)
        what, work = f"{path.name}: {path.read_bytes()[:60]!r}", lambda: read(path)
    else:
        given = words(draw)
        what, work = f"{[word[:60] for word in given]}", lambda: planned(folder, given, deep=number % 15 == 0)
    try:
        work()
    except HarnessError as err:
        assert "\n" not in format_error(err)  # noqa: PT017 - most inputs are refused, some are not
        assert len(format_error(err)) < 20_000, f"{what}: an error of {len(format_error(err))} letters"  # noqa: PT017
    except OSError as err:  # said in one line too: a name that is too long
        assert err.filename is not None, f"{what}: {err}"  # noqa: PT017
    except Exception as err:
        last = traceback.extract_tb(err.__traceback__)[-1]
        raise AssertionError(f"{what}: {type(err).__name__}: {err} ({Path(last.filename).name}:{last.lineno})") from err
    return what
