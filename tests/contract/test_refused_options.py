"""Options out of range are refused in one line that names the option, for every registered part of a run."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from openended.harness.core import SpecError, build, load_members

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
    with pytest.raises(SpecError) as caught:
        build(group, {"_target_": f"{cls.__module__}.{cls.__qualname__}", **options})
    assert (message or [next(iter(options))])[0] in str(caught.value)
    assert "\n" not in str(caught.value)
