"""A pickle of a few bytes takes no gigabytes."""

from __future__ import annotations

import pickle
import resource

import pytest

from openended.harness.core.errors import DataError
from openended.harness.imported.pickles import load_plain_pickle


def read_plain_pickle(path):
    with path.open("rb") as handle:
        return load_plain_pickle(handle, path)


def test_a_far_place_of_the_memo_is_refused(tmp_path):
    path = tmp_path / "x.p"
    path.write_bytes(b"Nr\xff\xff\xff\x7f.")
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(DataError, match="refused, a pickle of absurd size"):
        read_plain_pickle(path)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_a_long_list_is_read(tmp_path):
    value = [[[1, 2, 50256] * 1000 for _ in range(100)], [0.5]]
    (tmp_path / "x.p").write_bytes(pickle.dumps(value))
    assert read_plain_pickle(tmp_path / "x.p") == value
