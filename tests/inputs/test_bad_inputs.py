"""Bad inputs, as a new user types them, and the one line that each must be answered with.

The cases are in `cases/*.txt`: `$ openended …`, then the line on standard error; `…` in it stands for any text. They run in
this process, in the folder that `world.py` builds.
"""

import re
import shlex
from pathlib import Path

import pytest

from tests.helpers import openended
from tests.inputs.world import build_world

COMMAND = "$ openended "
FILES = sorted((Path(__file__).parent / "cases").glob("*.txt"))
SLOW = ("files", "grids", "models", "options")  # their cases compose a configuration or load a model


def read_cases(path: Path) -> list[tuple[str, str]]:
    """Return (words, message) of every case of a file; blank lines and `#` lines are for readers."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    assert all(line.startswith(COMMAND) for line in lines[::2]), f"{path}: a command line, then its message"
    return [(words.removeprefix(COMMAND), message) for words, message in zip(lines[::2], lines[1::2], strict=True)]


CASES = [
    pytest.param(*case, id=case[0], marks=pytest.mark.slow if path.stem in SLOW else ())
    for path in FILES
    for case in read_cases(path)
]


def list_results(folder: Path) -> set[Path]:
    """The runs, the jobs of grids, and the texts that were generated."""
    kinds = ("runs/*/*", "grids/*/*/jobs/*", "grids/*/jobs/*", "store/generate/*/*/manifest.json")
    return {path for kind in kinds for path in folder.glob(f"outputs/{kind}")}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The folder in which the commands are typed; nothing is fetched."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("COLUMNS", "100")
        folder = build_world(tmp_path_factory.mktemp("world"))
        before = list_results(folder)
        yield folder
        assert list_results(folder) == before, "a bad input leaves no text, no job and no run"


@pytest.mark.parametrize(("words", "message"), CASES)
def test_a_bad_input_is_answered_in_one_line(world, words, message):
    done = openended(*shlex.split(words), cwd=world, verbose=False)
    pattern = ".*".join(map(re.escape, message.split("…")))
    assert re.fullmatch(pattern, done.stderr.strip()), done.stderr
    assert done.returncode == 2
    assert len(done.stderr) < 2000
    assert "Traceback" not in done.stdout + done.stderr


def test_there_are_enough_cases():
    assert len({case.id for case in CASES}) == len(CASES) >= 150
