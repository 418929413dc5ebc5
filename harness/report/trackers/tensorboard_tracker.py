"""Finished runs in TensorBoard: one folder of events per job."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from openended.harness.report.trackers.base import TrackedJob, flatten_config

if TYPE_CHECKING:
    import pandas as pd

_RGBA = 4  # TensorBoard's number for it


@dataclass
class TensorboardTracker:
    """Writes events without TensorFlow or PyTorch."""

    package: ClassVar[str] = "tensorboard"
    extra: ClassVar[str] = "tensorboard"

    folder: Path
    _writer: Any = None

    def start(self, job: TrackedJob) -> None:
        """Open an empty folder for the job and write its config as a table."""
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        folder = self.folder / job.id
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._writer = EventFileWriter(str(folder))
        self._write_text("config", _format_markdown(("option", "value"), flatten_config(job.config).items()))

    def log_values(self, values: Mapping[str, float]) -> None:
        """Write the values as scalars of step 0."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._write([Summary.Value(tag=name, simple_value=value) for name, value in values.items()])

    def log_table(self, name: str, table: pd.DataFrame) -> None:
        """Write a table as Markdown."""
        rows = table.astype(object).where(table.notna(), "").itertuples(index=False)
        self._write_text(f"tables/{name}", _format_markdown(table.columns, rows))

    def log_figure(self, name: str, path: Path) -> None:
        """Write a PNG as it is; it has width and height in bytes 16 to 24."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        data = path.read_bytes()
        width, height = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
        image = Summary.Image(width=width, height=height, colorspace=_RGBA, encoded_image_string=data)
        self._write([Summary.Value(tag=f"figures/{name}", image=image)])

    def finish(self, *, failed: bool) -> None:  # noqa: ARG002 - TensorBoard has no state of a run
        """Flush and close the file."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _write_text(self, name: str, text: str) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
        from tensorboard.compat.proto.types_pb2 import DT_STRING

        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        tensor = TensorProto(dtype=DT_STRING, string_val=[text.encode()], tensor_shape=shape)
        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        self._write([Summary.Value(tag=f"{name}/text_summary", metadata=metadata, tensor=tensor)])

    def _write(self, values: list[Any]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._writer.add_event(Event(wall_time=time.time(), step=0, summary=Summary(value=values)))


def _format_markdown(head: Any, rows: Any) -> str:  # noqa: ANN401 - of any columns and rows
    """Return a Markdown table."""

    def format_row(cells: Any) -> str:  # noqa: ANN401
        return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    head = list(head)
    return "\n".join([format_row(head), format_row(["---"] * len(head)), *map(format_row, rows)])
