"""What a task has when it says nothing of itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import pytest

from openended.harness.core.task_spec import Task


@dataclass(frozen=True, kw_only=True)
class Silent(Task):
    name: ClassVar[str] = "silent"


def test_a_task_reads_no_file_and_has_a_human_side() -> None:
    task = Silent()
    task.fetch()
    assert (task.files(), list(task.remarks()), task.has_human(), task.needs_tokenizer()) == ([], [], True, False)
    assert task.open_bundled_system("any") is None


def test_what_a_task_must_define_is_named() -> None:
    with pytest.raises(TypeError, match="Silent does not define fingerprint"):
        Silent().fingerprint()
    with pytest.raises(TypeError, match="Silent does not define examples"):
        Silent().examples(None, Counter())
