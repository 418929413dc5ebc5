"""Parts of an interrupted generation: a damaged or foreign one is never opened."""

from __future__ import annotations

import random

import numpy as np
import pytest

from openended.harness.core.errors import DataError
from openended.harness.core.types import Generation
from openended.harness.run.artifact_files import load_array, save_array
from openended.harness.run.part_files import PartFiles
from openended.harness.storage.rows import Row, RowFile, write_rows


def rows(*names: str) -> list[Row]:
    return [Row("p", (1, 2), Generation(name, 0, f"text of {name}", (3, 4), "length", -1.5)) for name in names]


def written(folder, *parts):
    folder.mkdir()
    one = PartFiles(folder, seconds=-1)
    for part in parts:
        one.add(rows(*part))
    return sorted(folder.glob("part-*"))


def test_parts_are_read_in_order_and_numbered_on(tmp_path):
    folder = tmp_path / "key.partial"
    written(folder, ["a", "b"], ["c"])
    again = PartFiles(folder, seconds=-1)
    assert list(again.read()) == rows("a", "b", "c")
    again.add(rows("d"))
    assert list(PartFiles(folder, 0).read()) == rows("a", "b", "c", "d")


def test_parts_are_joined_by_name_and_deleted(tmp_path):
    folder = tmp_path / "key.partial"
    written(folder, ["c", "a"], ["d"])
    again = PartFiles(folder, seconds=1000)
    assert len(list(again.read())) == 3
    again.add(rows("b"))
    assert again.count == {"n": 4, "tokens": 8, "ended": 0}
    again.join(folder / "data.arrow")
    assert [path.name for path in folder.iterdir()] == ["data.arrow"]
    write_rows(tmp_path / "want", rows("a", "b", "c", "d"))
    assert (folder / "data.arrow").read_bytes() == (tmp_path / "want").read_bytes()
    none = tmp_path / "other.partial"
    none.mkdir()
    PartFiles(none, 0).join(none / "data.arrow")
    assert len(RowFile(none / "data.arrow")) == 0


@pytest.mark.parametrize("seed", range(24))
def test_a_flipped_byte_sets_the_part_aside_with_a_remark(seed, tmp_path, caplog):
    folder = tmp_path / "key.partial"
    bad = written(folder, ["a"], ["b"], ["c"])[1]
    data, draw = bytearray(bad.read_bytes()), random.Random(seed)
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    bad.write_bytes(data)
    assert list(PartFiles(folder, 0).read()) == rows("a", "c")
    assert "is damaged" in caplog.text
    assert (tmp_path / "key.partial.damaged-parts" / bad.name).exists()


def test_a_cut_an_empty_a_linked_and_a_foreign_part_are_set_aside(tmp_path):
    folder, other = tmp_path / "key.partial", tmp_path / "other.partial"
    cut, empty, linked, _good = written(folder, ["a"], ["b"], ["c"], ["d"])
    (foreign,) = written(other, ["z"])
    cut.write_bytes(cut.read_bytes()[:-9])
    empty.write_bytes(b"")
    linked.unlink()
    linked.symlink_to(foreign)
    foreign.rename(folder / foreign.name)
    assert list(PartFiles(folder, 0).read()) == rows("d")


@pytest.mark.parametrize("shape", [(0,), (), (3,), (4, 2), (0, 5)])
def test_arrays_come_back_and_hold_no_descriptor(shape, tmp_path):
    import psutil

    array = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    save_array(tmp_path / "a.npy", array)
    before = psutil.Process().num_fds()
    kept = [load_array(tmp_path / "a.npy") for _ in range(20)]
    assert psutil.Process().num_fds() == before
    assert all(np.array_equal(one, array) and one.dtype == array.dtype and one.shape == shape for one in kept)


def test_a_file_that_is_no_array_is_one_line(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match="not an array"):
        load_array(tmp_path / "a.npy")
