"""Base class of metrics that read a file of human judgments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from openended.harness.core import HUMAN, DataError, Direction, Family, Features, Metric, Need, Resampling, Side
from openended.metrics.judgments.rows import FileRow

T = TypeVar("T")


class ReadsFile(Metric):
    """A metric that reads the file of `judgments=FILE`, by some of its options or always."""

    def read(self, path: Path, renamed: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401
        """Read and check the file; the result is the feature `Need("judgments", by="file")`.

        `renamed` maps our name of a column to the file's.
        """
        raise TypeError(f"{type(self).__name__} does not say how it reads {path} ({renamed})")


class JudgmentMetric(ReadsFile):
    """A metric that reads a file of human judgments and has its own standard errors."""

    family: ClassVar[Family] = "human"
    direction: ClassVar[Direction] = "higher"
    resampling: ClassVar[Resampling] = "none"
    sides: ClassVar[Literal["one", "two", "human"]] = "two"

    @classmethod
    def accepts_columns(cls, columns: Sequence[str], rows: Sequence[FileRow]) -> bool:
        """Return whether the metric reads files with these columns (the cells are not checked)."""
        raise TypeError(f"{cls.__name__} does not say what it reads of {len(columns)} columns and {len(rows)} rows")

    def scores_without_run(self, columns: Sequence[str]) -> bool:
        """Return whether a file with these columns can be scored without a run."""
        return True

    def from_file(self, path: Path, renamed: Mapping[str, str] | None = None) -> tuple[Metric, Features]:
        """Return the metric and features that score a file without any run."""
        raise TypeError(f"{type(self).__name__} does not score {path} alone ({renamed})")


def build_file_features(need: Need, record: Any, source: str, human: Sequence[str], model: Sequence[str]) -> Features:  # noqa: ANN401
    """Build features from a file of judgments without a run."""
    facts = {"n": f"{len(human)}/{len(model)}", "judgments": source}
    sides = [Side(name, tuple(ids), {need: record}) for name, ids in ((HUMAN, human), ("model", model))]
    return Features(sides[0], sides[1], facts)


def get_judgments(side: Side, need: Need, kind: type[T]) -> T:
    """Return the judgments attached to a side."""
    if need not in side.data:
        raise DataError("no human judgments were given; name their file with judgments=FILE")
    record = side.data[need]
    if not isinstance(record, kind):
        raise TypeError(f"{need}: expected {kind.__name__}, got {type(record).__name__}")
    return record
