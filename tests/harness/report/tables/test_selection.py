"""What a table shows, and what must not stand side by side."""

from __future__ import annotations

import pytest

from openended.harness.core.errors import SpecError
from openended.harness.report.tables.selection import check_signatures, make_slug, select_pairs, split_items
from openended.harness.results.frame import read_results
from openended.harness.results.layout import Layout
from openended.harness.results.systems import find_human_value, group_systems
from tests.harness.report.synthetic import result, write_run


@pytest.fixture
def items(tmp_path):
    for decoder, value in (("greedy", 0.1), ("nucleus", 0.9)):
        lines = [result("model", "mauve", {"mauve": value, "js": 0.2}, direction="higher")]
        lines += [result(side, "gen_ppl", {"gen_ppl": 30.0, "entropy": 3.0}) for side in ("model", "human")]
        write_run(tmp_path, decoder, 0, results=lines)
    return read_results([tmp_path]).values


def test_perplexity_never_stands_without_entropy(items):
    assert select_pairs(items, Layout(title="t", metrics=("gen_ppl",))) == [
        ("gen_ppl", "gen_ppl"),
        ("gen_ppl", "entropy"),
    ]
    assert select_pairs(items, Layout(title="t", metrics=("mauve.js", "kid"))) == [("mauve", "js")]


def test_the_human_side_stands_in_every_part(items):
    parts = split_items(items, ["decoder"])
    assert sorted(parts) == [("greedy",), ("nucleus",)]
    assert all(any(i.system == "human" for i in part) for part in parts.values())
    with pytest.raises(SpecError, match="split: no axis 'colour'"):
        split_items(items, ["colour"])


def test_signatures_that_differ_are_refused_by_field(tmp_path):
    for decoder, option in (("greedy", "|k:3"), ("nucleus", "|k:4")):
        line = result("model", "mauve", {"mauve": 0.5}, direction="higher", options=option)
        write_run(tmp_path, decoder, 0, results=[line])
    found = read_results([tmp_path]).values
    with pytest.raises(SpecError, match=r"signatures differ in k \(3 and 4\)|signatures differ in k \(4 and 3\)"):
        check_signatures("mauve", found, "t")
    check_signatures("mauve", found, "t", allow=("k",))


def test_systems_find_their_values_and_the_humans(items):
    systems = group_systems(items)
    assert [s.items[0].axes["decoder"] for s in systems] == ["greedy", "nucleus"]
    value = systems[1].value("gen_ppl", "gen_ppl")
    assert value is not None
    assert find_human_value(items, value).mean == 30.0
    assert systems[0].value("kid", "kid") is None


def test_a_slug_fits_a_file_name():
    assert (make_slug("a/b c"), make_slug("p=0.9"), make_slug("")) == ("a_b_c", "p=0.9", "none")
