"""Without an extra, what needs it says in one line what to install; nothing else needs it."""

from __future__ import annotations

import sys

import pytest

from tests.helpers import openended

SMALL = ["num_examples=2", "max_new_tokens=2", "metric=[distinct_n]"]
CASES = {
    "search": ("optuna", ["-m", "hydra/sweeper=optuna", "decoder.p=interval(0.5,1)", "maximize=[distinct_n]"]),
    "slurm": ("submitit", ["-m", "hydra/launcher=submitit", "seed=0,1"]),
    "ray": ("ray", ["runtime.engine=ray", "runtime.workers=2"]),
    "ray for grids": ("ray", ["-m", "hydra/launcher=ray", "seed=0,1"]),
    "large": ("accelerate", ["runtime.device_map=auto"]),
}


@pytest.mark.parametrize("extra", CASES)
def test_without_an_extra_one_line_says_what_to_install(extra, tmp_path, monkeypatch):
    package, words = CASES[extra]
    for name in [n for n in sys.modules if n == package or n.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    done = openended(*words, *SMALL, cwd=tmp_path)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if f"'openended[{extra.split()[0]}]'" in line]
    assert lines, done.stderr
    assert package in lines[0]
