"""What the README's table says of a task: every fact is there, and its command composes into a run of that task."""

import shlex

import pytest

from openended.harness.core.registry import load_members
from tests.helpers import run_settings

TASKS = load_members("task")


@pytest.mark.parametrize("name", TASKS)
def test_every_fact_is_there(name: str) -> None:
    for fact in ("source", "size", "license", "obtained", "command"):
        assert getattr(TASKS[name], fact).strip(), f"{name}: {fact} is empty"


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", TASKS)
def test_the_command_is_a_run_of_the_task(name: str) -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    program, *words = shlex.split(TASKS[name].command)
    assert program == "openended"
    overrides = OverridesParser.create().parse_overrides([word for word in words if word != "-m"])
    swept = [o for o in overrides if o.is_sweep_override()]
    assert bool(swept) == ("-m" in words)
    # Of a sweep, the first value of each option.
    given = [
        f"{o.key_or_group}={next(iter(o.sweep_string_iterator()))}" if o in swept else str(o.input_line)
        for o in overrides
    ]
    assert run_settings(*given).task.name == name
