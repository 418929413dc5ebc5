"""Keep the answers of functions that read files while a plan is made, in which no file changes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from openended.harness.core.errors import DataError

P = ParamSpec("P")
T = TypeVar("T")

_answers: ContextVar[dict[Any, Any] | None] = ContextVar("answers", default=None)


@contextmanager
def keep_answers() -> Iterator[None]:
    """Keep what functions with `ask_once` return or raise within the block, for equal arguments."""
    token = _answers.set({})
    try:
        yield
    finally:
        _answers.reset(token)


def ask_once(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function of hashable arguments: within `keep_answers` it is computed once; a `DataError` is kept."""

    @wraps(function)
    def ask(*args: P.args, **kwargs: P.kwargs) -> T:
        answers = _answers.get()
        if answers is None:
            return function(*args, **kwargs)
        key = (function, args, tuple(kwargs.items()))
        if key not in answers:
            try:
                answers[key] = function(*args, **kwargs)
            except DataError as err:
                answers[key] = err
        answer = answers[key]
        if isinstance(answer, DataError):
            raise answer.with_traceback(None)
        return answer  # type: ignore[no-any-return]

    return ask
