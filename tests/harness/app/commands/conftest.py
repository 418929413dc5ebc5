"""One small grid that the tests of the commands share."""

import pytest

from tests.helpers import openended

GRID = ("-m", "name=p-sweep", "decoder=greedy,nucleus", "seed=0,1", "num_examples=8", "max_new_tokens=4",
        "metric=[distinct_n]")  # fmt: skip


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A folder with the outputs of a grid, and what the grid said."""
    where = tmp_path_factory.mktemp("commands")
    done = openended(*GRID, cwd=where, code=0)
    return where, done


@pytest.fixture
def here(made, monkeypatch):
    monkeypatch.chdir(made[0])
    return made[0]
