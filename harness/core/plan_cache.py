"""While a plan is made no file changes, so functions that read files are called once for equal arguments."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from openended.harness.core.errors import DataError

P = ParamSpec("P")
T = TypeVar("T")

_results: ContextVar[dict[Any, Any] | None] = ContextVar("results", default=None)


@contextmanager
def use_plan_cache() -> Iterator[None]:
    """Keep what functions with `cache_in_plan` return or raise within the block, for equal arguments."""
    token = _results.set({})
    try:
        yield
    finally:
        _results.reset(token)


def cache_in_plan(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function: within `use_plan_cache` it is called once for equal arguments; a `DataError` is kept."""

    @wraps(function)
    def call_once(*args: P.args, **kwargs: P.kwargs) -> T:
        results = _results.get()
        if results is None:
            return function(*args, **kwargs)
        key = (function, args, tuple(kwargs.items())) if kwargs else (function, args)
        try:
            result = results[key]
        except KeyError:
            try:
                result = function(*args, **kwargs)
            except DataError as err:
                result = err
            results[key] = result
        except TypeError:  # an argument has no hash
            return function(*args, **kwargs)
        if isinstance(result, DataError):
            raise result.with_traceback(None)
        return result  # type: ignore[no-any-return]

    return call_once
