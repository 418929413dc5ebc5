"""Options of every metric: misspelt choices and values out of range are refused; what `thin` keeps."""

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import yaml

import openended.metrics
from openended.harness.core import SpecError, build, load_members
from tests.helpers import check_error

# Every public function of metrics refuses a misspelt option and names the known ones


def literals(hint: Any) -> list[str]:
    """The words of all `Literal`s in an annotation."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [word for part in get_args(hint) for word in literals(part)]


def choices() -> Iterator[tuple[str, Callable[..., Any], str, list[str]]]:
    for info in pkgutil.walk_packages(openended.metrics.__path__, "openended.metrics."):
        if "._" in info.name:
            continue
        module = importlib.import_module(info.name)
        for name, function in vars(module).items():
            if name.startswith("_") or not inspect.isfunction(function) or function.__module__ != module.__name__:
                continue
            hints = typing.get_type_hints(function)
            for option, hint in hints.items():
                if option != "return" and literals(hint):
                    title = f"{info.name}.{name}.{option}".removeprefix("openended.metrics.")
                    yield title, function, option, literals(hint)


FOUND = list(choices())


def test_there_are_choices_to_check():
    known = {"distinct_n.distinct_n.variant", "mauve.mauve.curve", "jensen_shannon.jensen_shannon.base"}
    assert known <= {name for name, *_ in FOUND}


@pytest.mark.parametrize(("function", "option", "known"), [f[1:] for f in FOUND], ids=[f[0] for f in FOUND])
def test_a_misspelt_choice_is_refused_with_the_known_ones(function, option, known):
    # Options are looked at before the data, or the data are good for nothing.
    sample = {"human": [[0.0], [1.0]], "model": [[0.0], [2.0]], "sequences": [[1, 2, 3]], "token_nll": [[1.0]]}
    parameters = inspect.signature(function).parameters.values()
    given = {p.name: sample.get(p.name) for p in parameters if p.default is p.empty}
    error = check_error(ValueError, option, function, **given | {option: f"{known[0]}x"})
    for word in known:
        assert word in error


# Options out of range are refused in one line that names the option, for every registered part of a run

FILE = Path(__file__).with_name("refused_options.yaml")
ROWS = [
    (group, name, *row)
    for group, names in yaml.safe_load(FILE.read_text(encoding="utf-8")).items()
    for name, rows in names.items()
    for row in rows
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_an_option_out_of_range_is_refused_in_one_line(row: tuple[Any, ...]) -> None:
    group, name, options, *message = row
    cls = load_members(group)[name]
    assert message or set(options) <= set(cls.__dataclass_fields__)  # it is the value that is refused
    assert (message or [next(iter(options))])[0] in check_error(SpecError, "", build, group, {"name": name, **options})


# The marker `thin(n)` leaves every n-th case in the daily run; the others are `long`


@pytest.mark.thin(2)
@pytest.mark.parametrize("number", range(4))
def test_every_second_case_is_left(number, request):
    is_long = request.node.get_closest_marker("long") is not None
    assert is_long == bool(number % 2)
