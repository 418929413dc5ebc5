"""Rates as the store's manifests tell them."""

from __future__ import annotations

import pytest

from openended.harness.core.io import write_json
from openended.harness.core.signature import digest
from openended.harness.models.spec import ModelSpec
from openended.harness.run.forecast import read_rates

SMALL, LARGE = ModelSpec(path="bundled:docs-s"), ModelSpec(path="bundled:docs-m")


def write(store, number, stage, seconds, *, inputs=None, spec=None, **meta):
    manifest = {"seconds": seconds, "meta": meta, "recipe": {"inputs": inputs or {}, "spec": spec or {}}}
    write_json(store / stage / "aa" / f"{number}" / "manifest.json", manifest)


@pytest.fixture
def store(tmp_path):
    made = {"inputs": {"model": digest(SMALL.identity())}, "spec": {"decoder": {"name": "nucleus"}}}
    write(tmp_path, 1, "generate", 10.0, tokens=100, **made)  # loading the model took most of it
    write(tmp_path, 2, "generate", 10.0, tokens=5000, **made)
    write(tmp_path, 3, "score", 2.0, tokens=800, inputs={"scorer": digest(LARGE.identity())})
    for number, seconds in enumerate((1.0, 3.0, 9.0), 4):
        write(tmp_path, number, "measure", seconds, metric="mauve")
    (tmp_path / "generate/aa/7").mkdir()
    (tmp_path / "generate/aa/7/manifest.json").write_text("damaged")
    return tmp_path


def test_the_largest_entry_counts(store):
    rates = read_rates(store)
    assert rates.find_generation_rate(SMALL, "nucleus") == (500.0, "measured")
    assert rates.find_pass_rate(LARGE) == (400.0, "measured")
    assert rates.measures == {"mauve": 3.0}


def test_what_was_not_measured_is_scaled_and_says_so(store):
    rates = read_rates(store)
    assert rates.find_generation_rate(SMALL, "beam") == (500.0, "scaled")
    ratio = SMALL.describe_size().parameters / LARGE.describe_size().parameters
    assert rates.find_generation_rate(LARGE, "nucleus") == (pytest.approx(500.0 * ratio), "scaled")


def test_an_empty_store_knows_nothing(tmp_path):
    assert read_rates(tmp_path).find_pass_rate(SMALL) == (None, "unknown")
