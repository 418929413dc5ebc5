"""A session keeps the sides of human text, not those of systems that were measured."""

from __future__ import annotations

from openended.harness.contract import Side
from openended.harness.run.session import _LASTING, Sides


def test_what_the_last_run_did_not_use_goes() -> None:
    sides = Sides()
    made = [sides.get(name, lambda: Side("x", (), {}), lasting=name == "human") for name in ("human", "model")]
    sides.end_run()
    assert sides.get("model", lambda: Side("y", (), {}), lasting=False) is made[1], "the next run may use it again"
    sides.end_run()
    sides.end_run()
    assert len(sides) == 1
    assert sides.get("human", lambda: Side("y", (), {}), lasting=True) is made[0]


def test_human_sides_are_bounded() -> None:
    sides = Sides()
    for number in range(2 * _LASTING):
        sides.get(str(number), lambda: Side("human", (), {}), lasting=True)
        sides.end_run()
    assert len(sides) <= _LASTING + 1
