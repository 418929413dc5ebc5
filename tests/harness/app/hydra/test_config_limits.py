"""Configuration files that expand to more than a computer holds give one line in a short time."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from openended.harness.app.hydra import config_limits
from openended.harness.core import SpecError
from tests.helpers import openended

ALIASES = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))
TEXTS = "a0: xxxxxxxx\n" + "".join(f"a{i}: ${{a{i - 1}}}${{a{i - 1}}}\n" for i in range(1, 40)) + "name: ${a39}\n"
LONG = f"a0: {'x' * 100_000}\na1: {'${a0}' * 1000}\nname: ${{a1}}\n"
NODES = "a0: {x: 1}\n" + "".join(f"a{i}: {{x: '${{a{i - 1}}}', y: '${{a{i - 1}}}'}}\n" for i in range(1, 40))
BOMBS = {
    "aliases": ALIASES,
    "texts": TEXTS,
    "long texts": LONG,
    "nodes": NODES,
    "size": "a: [" + "1, " * 100_000 + "1]\n",
}


def write_experiment(folder: Path, text: str) -> tuple[str, ...]:
    """Write an experiment; return the words that choose it."""
    path = folder / "theirs" / "experiment" / "x.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("# @package _global_\n" + text)
    return ("--config-dir", str(path.parents[1]), "experiment=x", "plan_only=true", "num_examples=2")


@pytest.mark.filterwarnings("error:Callback")  # Hydra prints an exception of a callback as a warning of several lines
@pytest.mark.parametrize("mode", [(), ("-m",)], ids=["run", "grid"])
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_gives_one_line(name, mode, tmp_path, monkeypatch):
    monkeypatch.setattr(config_limits, "MOST_RESOLVED", 400)  # the test is to be short
    done = openended(*mode, *write_experiment(tmp_path, BOMBS[name]), cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert len(done.stderr) < 600


def test_a_pipe_is_no_configuration(tmp_path):
    words = write_experiment(tmp_path, "seed: 1\n")
    path = tmp_path / "theirs" / "experiment" / "x.yaml"
    path.unlink()
    os.mkfifo(path)
    done = openended(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert re.search("named pipe|no experiment 'x'", done.stderr)  # newer releases of Hydra see no file there


def test_a_few_aliases_and_interpolations_are_read(tmp_path):
    text = "seed: ${num_examples}\ndefaults_of_mine: &d {a: 1}\nmore: [*d, *d]\n"
    path = tmp_path / "x.yaml"
    path.write_text(text)
    config_limits.check_config_file(path)


def test_an_alias_of_itself_is_refused(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("a: &a [*a]\n")
    with pytest.raises(SpecError, match="contains itself"):
        config_limits.check_config_file(path)


def test_methods_are_wrapped_once():
    config_limits.limit_configuration()
    before = config_limits.FileConfigSource.load_config, config_limits.Container.resolve_parse_tree
    config_limits.limit_configuration()
    assert (config_limits.FileConfigSource.load_config, config_limits.Container.resolve_parse_tree) == before
