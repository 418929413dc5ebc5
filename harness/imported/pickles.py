"""Read pickles of plain data safely: anything that could run code is refused.

Lists, tuples, dicts, numbers, booleans, strings and None need no look-up of names, so `find_class` refuses everything.
The types of the result are checked again.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import IO, Any, NoReturn

from openended.harness.core import DataError
from openended.harness.models import limit_memory

# Memory that reading may take: a list of small numbers takes 8 bytes for every 2 or 3 bytes of the file, but a few
# bytes that name the memo's index two billion would take 16 GiB.
FREE, RATIO = 256 << 20, 64


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for {module_name}.{global_name}")

    def persistent_load(self, pid: Any, /) -> NoReturn:  # noqa: ANN401
        raise pickle.UnpicklingError(f"it asks for the persistent object {pid!r}")


def load_plain_pickle(stream: IO[bytes], path: Path) -> Any:  # noqa: ANN401 - nested plain data
    """Return the lists, numbers, booleans and strings of a pickle stream; `path` is for the errors."""
    size = stream.seek(0, 2)
    stream.seek(0)
    try:
        with limit_memory(FREE + RATIO * size):
            value = _PlainUnpickler(stream).load()
    except pickle.UnpicklingError as err:
        raise DataError(f"{path}: refused, no pickle of plain lists ({err})") from err
    except (EOFError, ValueError, TypeError, AttributeError, LookupError, OverflowError) as err:
        raise DataError(f"{path}: not a readable pickle ({type(err).__name__}: {err})") from err
    except (MemoryError, RecursionError) as err:
        raise DataError(f"{path}: refused, a pickle of absurd size") from err
    seen: set[int] = set()  # lists: one that contains itself is visited once
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            if id(item) not in seen:
                seen.add(id(item))
                waiting.extend(part for part in item if type(part) is not int)  # most of a file is lists of integers
        elif not isinstance(item, (bool, int, float, str)):
            raise DataError(f"{path}: refused, it holds a {type(item).__name__}")
    return value
