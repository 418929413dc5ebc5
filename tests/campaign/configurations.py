"""Hostile experiment files: composed as the command does, they run nothing, read no keys and end in a short time."""

import os
import random
import time
from pathlib import Path
from typing import Any

import yaml

from openended.harness.app.hydra.command_line import CommandLine
from openended.harness.app.hydra.compose import Composer
from openended.harness.app.hydra.errors import translate_config_errors
from openended.harness.core import HarnessError, format_error
from tests.campaign.fuzz import NASTY, OPTIONS
from tests.campaign.world import Tally, World

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


def compose_experiment(world: World, folder: Path) -> None:
    """Compose the settings of an experiment file of a folder, as the command does."""
    with translate_config_errors():
        words = (f"outputs_dir={world.folder / 'hostile'}", f"hydra.searchpath=[file://{folder}]", "experiment=x")
        composer = Composer(CommandLine(words))
        composer.compose_command()
        composer.compose_job(words)


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
                compose_experiment(world, folder)
            except HarnessError as err:
                line = format_error(err)
                assert "\n" not in line, line
                assert SECRET not in line, line
                assert len(line) < 20_000, f"{len(line)} characters"
            assert time.monotonic() - start < SECONDS, "it took too long"
            assert not (folder / "experiment" / "proof").exists(), "it ran code"
    return tally
