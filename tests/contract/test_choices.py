"""Every public function of metrics refuses a misspelt option and names the known ones."""

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args, get_origin

import pytest

import openended.metrics


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
                    yield (
                        f"{info.name}.{name}.{option}".removeprefix("openended.metrics."),
                        function,
                        option,
                        literals(hint),
                    )


FOUND = list(choices())


def test_there_are_choices_to_check():
    assert {"distinct_n.distinct_n.variant", "mauve.mauve.curve", "jensen_shannon.jensen_shannon.base"} <= {
        name for name, *_ in FOUND
    }


@pytest.mark.parametrize(("function", "option", "known"), [f[1:] for f in FOUND], ids=[f[0] for f in FOUND])
def test_a_misspelt_choice_is_refused_with_the_known_ones(function, option, known):
    # Options are looked at before the data, or the data are good for nothing.
    sample = {"human": [[0.0], [1.0]], "model": [[0.0], [2.0]], "sequences": [[1, 2, 3]], "token_nll": [[1.0]]}
    parameters = inspect.signature(function).parameters.values()
    given = {p.name: sample.get(p.name) for p in parameters if p.default is p.empty}
    with pytest.raises(ValueError, match=option) as caught:
        function(**given | {option: f"{known[0]}x"})
    for word in known:
        assert word in str(caught.value)
