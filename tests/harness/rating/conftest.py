"""A served study and a client of it."""

import pytest

from openended.harness.rating.item_pool import ItemPool
from tests.harness.rating.studies import Clock, study


@pytest.fixture
def pool(tmp_path):
    key = study(tmp_path, items=12, items_a_sheet=12)
    made = ItemPool(tmp_path / "answers.db", key, Clock())
    made.tokens = dict(made.add_raters(3))
    return made


@pytest.fixture
def client(pool):
    from starlette.testclient import TestClient

    from openended.harness.rating.server import make_app

    return TestClient(make_app(pool, "127.0.0.1"), base_url="http://127.0.0.1:8123")
