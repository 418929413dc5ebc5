"""A served study and a client of it."""

import shutil

import pytest

from openended.harness.rating.item_pool import ItemPool
from tests.harness.rating.studies import Clock, study


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """The folder of a study and its key."""
    folder = tmp_path_factory.mktemp("study")
    return folder, study(folder, items=12, items_a_sheet=12)


@pytest.fixture
def pool(written, tmp_path):
    folder, key = written
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    made = ItemPool(tmp_path / "answers.db", key, Clock())
    made.tokens = dict(made.add_raters(3))
    return made


@pytest.fixture
def client(pool):
    from starlette.testclient import TestClient

    from openended.harness.rating import server

    return TestClient(server.make_app(pool, "127.0.0.1"), base_url="http://127.0.0.1:8123")
