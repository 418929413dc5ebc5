"""Read the logs of Inspect: `.eval` archives and `.json` files.

An `.eval` file is a zip archive with `header.json` and `samples/ID_epoch_N.json`. Older versions pack it with deflate,
newer ones with Zstandard, which Python's `zipfile` reads with the package `zipfile-zstd`, a dependency of Inspect.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, check_regular_file

INSPECT_LOG = "Inspect log"
_HEADER = "header.json"
_MAX_MEMBER = 256 << 20  # bytes; a sample with many events has a megabyte
_STOPS = {"stop": "eos", "max_tokens": "length", "model_length": "length"}


def is_inspect_json(content: object) -> bool:
    """Return whether the content of a JSON file is a log of Inspect."""
    return isinstance(content, dict) and {"version", "eval", "samples"} <= set(content)


def read_inspect_json(content: Mapping[str, Any], path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the samples of a JSON log, each with its output as `text`."""
    _check_header(content, path)
    samples = content["samples"] if isinstance(content["samples"], list) else []
    yield from _convert_samples(((f"{path}, sample {i}", sample) for i, sample in enumerate(samples, start=1)), path)


def read_inspect_archive(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the samples of an archive in the order of its data set, epoch by epoch, each with its output as `text`."""
    with suppress(ImportError):
        import zipfile_zstd  # noqa: F401 - adds Zstandard to `zipfile`
    check_regular_file(path)
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as err:
        raise DataError(f"{path}: not a readable Inspect log ({err})") from err
    with archive:
        names = set(archive.namelist())
        if _HEADER not in names:
            raise DataError(f"{path}: no {_HEADER} in this archive; expected an Inspect log of a run that ended")
        header = _read_member(archive, _HEADER, path)
        _check_header(header, path)
        ranks: dict[str, int] = {}
        match header:
            case {"eval": {"dataset": {"sample_ids": list() as ids}}}:
                ranks = {str(name): rank for rank, name in enumerate(ids)}

        def make_sort_key(name: str) -> tuple[int, int, str]:
            identity, _, epoch = name.removeprefix("samples/").removesuffix(".json").rpartition("_epoch_")
            number = int(identity) if identity.isdecimal() else 0
            return int(epoch) if epoch.isdecimal() else 0, ranks.get(identity, len(ranks) + number), identity

        samples = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
        samples.sort(key=make_sort_key)
        yield from _convert_samples(((f"{path}, {name}", _read_member(archive, name, path)) for name in samples), path)


def _read_member(archive: zipfile.ZipFile, name: str, path: Path) -> Any:  # noqa: ANN401
    if archive.getinfo(name).file_size > _MAX_MEMBER:
        raise DataError(f"{path}, {name}: expected at most {_MAX_MEMBER >> 20} MiB, got a larger sample")
    try:
        return json.loads(archive.read(name).decode("utf-8"))
    except NotImplementedError as err:
        raise DataError(
            f"{path}: packed with Zstandard, which Python cannot read alone; pip install zipfile-zstd (the extra "
            "`inspect` has it), or convert the log: inspect log convert --to json"
        ) from err
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, RecursionError, ValueError) as err:
        raise DataError(f"{path}, {name}: cannot be read ({err})") from err


def _check_header(header: Any, path: Path) -> None:  # noqa: ANN401
    """Refuse the log of a run that was cut off."""
    status = header.get("status") if isinstance(header, dict) else None
    if status != "success":
        raise DataError(f"{path}: its run has the status {status!r}, expected 'success'; finish it: inspect eval-retry")


def _convert_samples(samples: Iterable[tuple[str, Any]], path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield what the harness reads of each sample: `id`, `sample`, `prompt`, `human`, `text`, `stop`."""
    number = 0
    for number, (where, sample) in enumerate(samples, start=1):
        if not isinstance(sample, dict) or not isinstance(sample.get("output"), dict):
            raise DataError(f"{where}: expected a sample with an output")
        name, error = sample.get("id"), sample.get("error")
        if error:
            message = error.get("message") if isinstance(error, dict) else error
            raise DataError(f"{where}: sample {name!r} failed ({message!s:.120}); finish it: inspect eval-retry")
        choices, text = sample["output"].get("choices"), sample["output"].get("completion")
        if not choices or not isinstance(text, str):
            raise DataError(f"{where}: sample {name!r} has no output")
        fields: dict[str, Any] = {"id": str(name), "sample": int(sample.get("epoch") or 1) - 1, "text": text}
        match sample.get("input"):  # a text or one message; a conversation has no single prompt
            case (str() as prompt) | [{"content": str() as prompt}]:
                fields["prompt"] = prompt
        match sample.get("target"):
            case (str() as target) | [str() as target] if target:
                fields["human"] = target
        reason = choices[0].get("stop_reason") if isinstance(choices[0], dict) else None
        if reason in _STOPS:
            fields["stop"] = _STOPS[reason]
        yield number, fields
    if not number:
        raise DataError(f"{path}: this log holds no samples; run Inspect with its samples logged (--log-samples)")
