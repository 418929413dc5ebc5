"""Fuzzed files and hostile experiments: an error of one line, no traceback, no code."""

import gzip
import json
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from openended.harness.app.hydra.command_line import CommandLine
from openended.harness.app.hydra.compose import Composer, translate_config_errors
from openended.harness.core import HarnessError
from openended.harness.imported import read_texts
from openended.harness.models.spec import ModelSpec
from openended.harness.run import Settings
from openended.harness.storage import RunRecord, read_record, save_record
from openended.metrics.judgments import read_comparisons, read_judgments
from openended.tasks.jsonl import JsonLines
from tests.campaign.world import Tally, World, check_line

OPTIONS = (
    "task", "model", "decoder", "scorer", "embedder", "metric", "report", "runtime", "experiment", "seed", "samples",
    "num_examples", "max_new_tokens", "min_new_tokens", "generations", "judgments", "outputs_dir", "task.path",
    "model.path", "model.label", "model.dtype", "model.bos", "model.revision", "decoder.p", "scorer.path",
    "embedder.layer", "embedder.max_length", "metric.mauve", "metric.mauve.seed",
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


def compose(folder: Path, *words: str, config_dir: str | None = None) -> Settings:
    """Compose the settings of a run, as the command does."""
    with translate_config_errors():
        words = (f"outputs_dir={folder / 'fuzz'}", *words)
        composer = Composer(CommandLine(words, config_dir=config_dir))
        composer.compose_command()
        return composer.compose_job(words).settings


def _generations(path: Path) -> None:
    for _ in read_texts(path):
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


def _model(draw: random.Random) -> bytes:
    fields = "n_layer vocab_size n_embd n_positions eos_token_id bos_token_id text_config model_type".split()
    sound = {"model_type": "gpt2", "n_layer": 1, "n_embd": 16, "n_head": 2, "vocab_size": 257, "n_positions": 64}
    wrong = {draw.choice(fields): draw.choice([*NASTY, -1, 100_000, [0, -1], {"n_layer": 10**9}])}
    return json.dumps({**sound, **wrong}).encode()


def _record(draw: random.Random) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        save_record(Path(name), RunRecord(created="2027-01-01T00:00:00+00:00", spec={}, axes={"seed": 1}, results=()))
        return (Path(name) / "record.json").read_bytes()


FILES: tuple[tuple[str, Callable[[random.Random], bytes], Callable[[Path], object]], ...] = (
    ("g.jsonl", _jsonl, _generations), ("t.jsonl", _jsonl, _task), ("j.jsonl", _jsonl, read_judgments),
    ("j.csv", _csv, read_judgments), ("c.csv", _csv, read_comparisons),
    ("config.json", _model, _config), ("record.json", _record, read_record),
)  # fmt: skip


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


def fuzz(world: World, count: int, draw: random.Random) -> Tally:
    """Read files that are wrong: an error of one line each."""
    tally = Tally("fuzzed files")
    for number in range(count):
        path, read = a_file(world.folder, draw)
        with tally.one(f"input {number}: {path.name}: {path.read_bytes()[:60]!r}"):
            try:
                read(path)
            except HarnessError as err:
                check_line(err)
            except OSError as err:  # said in one line too: a name that is too long
                assert err.filename is not None, err  # noqa: PT017 - most inputs are refused, some are not
    return tally


SECRET = "campaign-secret"
SECONDS = 30.0  # of one case, at most
CODE: tuple[Any, ...] = (
    {"_target_": "pathlib.Path.touch", "self": "PROOF"}, {"_target_": "os.system", "command": "touch PROOF"},
    {"()": "pathlib.Path.touch", "self": "PROOF"}, {"class": "logging.FileHandler", "filename": "PROOF"},
    {"class": "logging.StreamHandler", "stream": "ext://os.sep"}, "${report}", {"_target_": "${generations}"},
    {"local_setup": ["touch PROOF"]}, {"slurm_setup": ["touch PROOF"]}, {"address": "evil:6379"},
)  # fmt: skip
PLACES = (
    "hydra.callbacks.x", "hydra.launcher", "hydra.launcher.parameters", "hydra.sweeper", "hydra.sweeper.params.x",
    "hydra.job_logging.handlers.x", "hydra.hydra_logging.formatters.x", "hydra.job.env_set", "decoder", "metric.mauve",
    "model", "task", "scorer", "runtime", "report",
)  # fmt: skip
READ = "${oc.env:CAMPAIGN_SECRET}"
READS = (READ, "${oc.env:CAMPAIGN_SECRET,x}", f"x{READ}", f"${{oc.decode:{READ}}}")


def nest(place: str, value: Any) -> dict[str, Any]:
    """Return nested mappings with a value at a dotted place."""
    node: Any = value
    for part in reversed(place.split(".")):
        node = {part: node}
    mapping: dict[str, Any] = node
    return mapping


def write_bomb(draw: random.Random) -> str:
    """Return a file that expands to billions of nodes or characters."""
    width, depth = draw.randint(2, 20), draw.randint(30, 60)
    kind = draw.choice(("aliases", "texts", "nodes", "long", "deep", "range"))
    if kind == "aliases":
        rows = (f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * width)}]" for i in range(1, depth))
        return "a0: &a0 [x]\n" + "\n".join(rows)
    if kind == "texts":
        rows = (f"a{i}: {f'${{a{i - 1}}}' * width}" for i in range(1, depth))
        return "\n".join(["a0: x", *rows, f"name: ${{a{depth - 1}}}"])
    if kind == "nodes":
        rows = (f"a{i}: [{', '.join([f'${{a{i - 1}}}'] * width)}]" for i in range(1, depth))
        return "a0: [x]\n" + "\n".join(rows)
    if kind == "long":
        return f"a: {'x' * 100_000}\nname: {'${a}' * 2000}"
    if kind == "deep":
        return "seed: " + draw.choice(("[", "{a: ")) * draw.choice((500, 20_000))
    return "hydra:\n  sweeper:\n    params:\n      seed: range(0,1000000000)"


def write_configuration(path: Path, draw: random.Random) -> str:
    """Write an experiment that is hostile in one way; return which."""
    kind = draw.choice(("code", "code", "environment", "bomb", "value", "value", "bytes", "typed", "pipe"))
    node: dict[str, Any] = {}
    if kind == "code":
        node = nest(draw.choice(PLACES), draw.choice(CODE))
    elif kind == "environment":
        node = nest(draw.choice((*OPTIONS[:30], "name", "hydra.sweep.dir")), draw.choice(READS))
    elif kind == "value":
        node = nest(draw.choice(OPTIONS), draw.choice([v for v in NASTY if v != "\ud800"]))
    elif kind == "typed":
        node = nest(draw.choice(("runtime.ray_address", "model.api_key_env", "scorer.api_key_env", "hydra.launcher.address",
                                 "hydra.launcher.parameters.local_setup")), draw.choice(("evil:6379", "HOME", ["x"])))  # fmt: skip
    text = "# @package _global_\n" + yaml.safe_dump(node).replace("PROOF", str(path.with_name("proof")))
    if kind == "bomb":
        text = "# @package _global_\n" + write_bomb(draw) + "\n"
    data = bytearray(text.encode())
    if kind == "bytes":
        data = bytearray(draw.choice((b"\xff\xfe", b"a: \x00", b"\xef\xbb\xbfseed: 1", b"- x", b"a: 1\na: 2", b"!!python/name:os.x",
                                      b"%YAML 9", b"a: !!python/object/apply:os.system [x]", b"\t", b"x" * 300_000)))  # fmt: skip
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(data)
    return f"{kind} {bytes(data[20:80])!r}"


def hostile_configurations(world: World, count: int, draw: random.Random) -> Tally:
    """Compose experiment files of somebody else: one line or settings, no code, no key, in time."""
    tally, folder = Tally("hostile configurations"), world.folder / "theirs"
    (folder / "experiment").mkdir(parents=True)
    os.environ["CAMPAIGN_SECRET"] = SECRET
    for number in range(count):
        what = write_configuration(folder / "experiment" / "x.yaml", draw)
        start = time.monotonic()
        with tally.one(f"{number}: {what}"):
            try:
                compose(world.folder, "experiment=x", config_dir=str(folder))
            except HarnessError as err:
                line = check_line(err)
                assert SECRET not in line, line
            assert time.monotonic() - start < SECONDS, "it took too long"
            assert not (folder / "experiment" / "proof").exists(), "it ran code"
    return tally
