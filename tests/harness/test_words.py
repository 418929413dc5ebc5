"""Signature, rng, io, contract and registry: the words that everyone speaks."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pytest
from hypothesis import given, strategies as st

from openended.harness.core.errors import DataError, SpecError, StoreError
from openended.harness.core.io import open_text, read_json, read_jsonl, to_json, write_json, write_text
from openended.harness.core.metric_spec import Metric
from openended.harness.core.registry import build, construct, load_members, register
from openended.harness.core.rng import derive_seed, row_uniforms
from openended.harness.core.signature import build_signature, canonicalize, compare_signatures, parse_signature
from openended.harness.core.spec import REQUIRED, Spec, option, ranged
from openended.harness.core.types import Ragged
from openended.harness.storage.rows import join_ragged


@dataclass(frozen=True, kw_only=True)
class Toy(Spec):
    group: ClassVar[str] = "toy"
    name: ClassVar[str] = "toy"
    version: ClassVar[int] = 3

    p: float = ranged(0.5, "(0, 1]", "a number in (0, 1]")
    kind: Literal["a", "b"] = "a"
    orders: tuple[int, ...] = ranged((1, 2), "[1, inf)", "numbers of at least 1")
    limit: int | None = ranged(None, "[2, 9)", "2 to 8, or null")
    on: bool = False


@dataclass(frozen=True, kw_only=True)
class Small(Toy):
    """A subclass that changes a default keeps the rule of the option."""

    p: float = 0.1
    path: str = option(REQUIRED, str.strip, "a path")


def test_spec_fits_yaml_values_to_its_annotations():
    made = Toy(p=1, orders=[3], limit=None)
    assert made.p == 1.0
    assert isinstance(made.p, float)
    assert made.orders == (3,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p": "x"}, "toy.p: expected float, got 'x'"),
        ({"p": True}, "toy.p: expected float"),
        ({"p": 1.5}, r"toy.p: expected a number in \(0, 1\], got 1.5"),
        ({"p": 0}, r"toy.p: expected a number in \(0, 1\], got 0.0"),
        ({"p": float("nan")}, r"toy.p: expected a number in \(0, 1\], got nan"),
        ({"orders": [1, 0]}, r"toy.orders: expected numbers of at least 1, got \(1, 0\)"),
        ({"limit": 1}, "toy.limit: expected 2 to 8, or null, got 1"),
        ({"limit": 9}, "toy.limit: expected 2 to 8, or null, got 9"),
        ({"kind": "c"}, "toy.kind: expected one of a, b, got 'c'"),
        ({"orders": ["x"]}, r"toy.orders\[0\]: expected int"),
        ({"limit": 1.5}, "toy.limit: expected int or null"),
        ({"on": 1}, "toy.on: expected bool"),
    ],
)
def test_spec_refuses_by_name_value_and_what_is_accepted(options, message):
    with pytest.raises(SpecError, match=message):
        Toy(**options)


def test_declared_rules_accept_both_closed_ends_and_null():
    assert Toy(p=1, orders=[1], limit=2).limit == 2
    assert Toy(limit=8).limit == 8
    assert Toy(orders=[]).limit is None


@pytest.mark.parametrize("options", [{"p": 2, "path": "a"}, {"path": " "}])
def test_a_subclass_keeps_declared_rules_and_adds_its_own(options):
    assert Small(path="a").p == 0.1
    with pytest.raises(SpecError):
        Small(**options)
    with pytest.raises(TypeError, match="path"):
        Small()


def test_construct_suggests_the_nearest_option():
    with pytest.raises(SpecError, match="no option 'limt'; did you mean 'limit'"):
        construct(Toy, {"limt": 3}, "toy")


def test_build_refuses_targets_that_are_not_registered():
    with pytest.raises(SpecError, match="is not a registered metric"):
        build("metric", {"_target_": "os.system"})
    with pytest.raises(SpecError, match="no module"):
        build("metric", {"_target_": "openended.metrics.nothing.Nothing"})


def test_a_name_is_held_by_one_class():
    held = next(iter(load_members("metric").values()))
    with pytest.raises(SpecError, match="taken by"):
        register("metric")(type("Other", (Metric,), {"name": held.name}))


def test_signature_holds_every_field_and_fact():
    text = build_signature(Toy(limit=4), {"n": "5/5"})
    assert text == "toy|v:3|p:0.5|kind:a|orders:1+2|limit:4|on:no|n:5/5"
    assert parse_signature(text)["orders"] == "1+2"
    assert compare_signatures(text, build_signature(Toy(), {"n": "5/5"})) == ["limit"]


def test_canonical_writes_defaults_out_and_refuses_what_json_cannot_say():
    assert canonicalize(Toy()) == {"group": "toy", "name": "toy", "version": 3, "p": 0.5, "kind": "a", "orders": [1, 2],
                                "limit": None, "on": False}  # fmt: skip
    with pytest.raises(TypeError, match="no canonical form"):
        canonicalize(float("nan"))
    with pytest.raises(TypeError, match="no canonical form"):
        canonicalize(object())


def test_streams_depend_on_names_alone_and_extend():
    a = row_uniforms(0, "x", 0, 5)
    assert np.array_equal(a, row_uniforms(0, "x", 0, 9)[:5])
    assert not np.array_equal(a, row_uniforms(1, "x", 0, 5))
    assert not np.array_equal(a, row_uniforms(0, "y", 0, 5))
    assert not np.array_equal(a, row_uniforms(0, "x", 1, 5))
    assert derive_seed(0, "a", "b") != derive_seed(0, "ab")


def test_uniforms_are_uniform():
    draws = np.concatenate([row_uniforms(7, str(i), 0, 8) for i in range(2000)])
    counts = np.histogram(draws, bins=20, range=(0, 1))[0]
    # 16,000 draws, 20 bins of 800: chi-square with 19 degrees of freedom is below 43.8 with probability 0.999.
    assert ((counts - 800) ** 2 / 800).sum() < 43.8


def test_json_is_strict(tmp_path):
    write_json(tmp_path / "a.json", {"x": float("nan"), "y": np.float64(2), "z": (1,)})
    assert read_json(tmp_path / "a.json") == {"x": None, "y": 2.0, "z": [1]}
    assert to_json(np.arange(2)) == [0, 1]


def test_write_is_atomic(tmp_path, monkeypatch):
    target = tmp_path / "a.txt"
    write_text(target, "old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(StoreError, match="No space left"):
        write_text(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"a": 1}\n{"a": \n', r"x.jsonl:2: not JSON"),
        (b'{"a": 1}\n[1]\n', r"x.jsonl:2: expected a JSON object, got list"),
        (b'{"a": "\xff"}\n', r"x.jsonl:1: not UTF-8"),
    ],
)
def test_jsonl_errors_name_file_and_line(tmp_path, data, message):
    (tmp_path / "x.jsonl").write_bytes(data)
    with pytest.raises(DataError, match=message):
        list(read_jsonl(tmp_path / "x.jsonl"))


def test_jsonl_reads_gzip_bom_crlf_and_blank_lines(tmp_path):
    with gzip.open(tmp_path / "x.jsonl.gz", "wb") as handle:
        handle.write(b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"a": 2}\r\n')
    assert list(read_jsonl(tmp_path / "x.jsonl.gz")) == [(1, {"a": 1}), (3, {"a": 2})]


def test_truncated_gzip_names_the_line(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    with gzip.open(path, "wb") as handle:
        handle.write(b'{"a": 1}\n' * 10000)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="cannot be read to its end"):
        list(read_jsonl(path))


def test_a_gzip_bomb_is_refused_early(tmp_path):
    path = tmp_path / "bomb.jsonl.gz"
    with gzip.open(path, "wb") as handle:
        for _ in range(40):
            handle.write(b'{"id": "%s"}\n' % (b"1" * 990) * 1000)  # 40 MB of 100 kB
    assert path.stat().st_size < 200_000
    count = 0

    def counted():
        nonlocal count
        for _ in read_jsonl(path):
            count += 1

    with pytest.raises(DataError, match="unpacks to more than 50 times its size"):
        counted()
    assert count < 20_000
    with open_text(path) as handle, pytest.raises(DataError, match="unpacks"):
        list(handle)


def test_a_small_file_may_be_as_dull_as_it_likes(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    with gzip.open(path, "wb") as handle:
        handle.write(b'{"id": 1}\n' * 100_000)
    assert sum(1 for _ in read_jsonl(path)) == 100_000


@pytest.mark.parametrize("data", [b'{"a": ' + b"9" * 5000 + b"}", b"[" * 100_000])
def test_json_that_python_cannot_hold_is_one_line(data, tmp_path):
    (tmp_path / "x.jsonl").write_bytes(data)
    with pytest.raises(DataError, match=r"x\.jsonl:1: "):
        list(read_jsonl(tmp_path / "x.jsonl"))
    with pytest.raises(DataError, match=r"x\.jsonl: "):
        read_json(tmp_path / "x.jsonl")


rows_of_ints = st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=6)


@given(rows_of_ints, rows_of_ints)
def test_join_ragged_joins_rows(left, right):
    n = min(len(left), len(right))
    joined = join_ragged(Ragged.from_rows(left[:n], np.int32), Ragged.from_rows(right[:n], np.int32))
    assert [row.tolist() for row in joined] == [a + b for a, b in zip(left[:n], right[:n], strict=True)]


def test_a_key_that_comes_twice_is_refused(tmp_path):
    (tmp_path / "x.json").write_text('{"a": {"b": 1, "b": 2}}')
    with pytest.raises(DataError, match=r"x\.json: not JSON \(the key 'b' appears twice"):
        read_json(tmp_path / "x.json")
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n{"a": 1, "a": 2}\n')
    with pytest.raises(DataError, match=r"x\.jsonl:2: not JSON \(the key 'a' appears twice"):
        list(read_jsonl(tmp_path / "x.jsonl"))
