"""Read the logs of Inspect: `.eval` archives and `.json` files.

An `.eval` file is a zip archive with `header.json` and `samples/ID_epoch_N.json`. Older versions pack it with deflate,
newer ones with Zstandard, which Python's `zipfile` reads with the package `zipfile-zstd`, a dependency of Inspect.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, check_regular_file, read_json

INSPECT_LOG = "Inspect log"
_HEADER = "header.json"
_MAX_MEMBER = 256 << 20  # bytes; a sample with many events has a megabyte
_STOPS = {"stop": "eos", "max_tokens": "length", "model_length": "length"}


def is_inspect_log(path: Path) -> bool:
    """Return whether a file is an archive of Inspect by its name."""
    return path.suffix == ".eval"


def is_inspect_json(path: Path) -> bool:
    """Return whether a JSON file is a log of Inspect."""
    try:
        content = read_json(path)
    except DataError as err:
        if isinstance(err.__cause__, ValueError):  # JSON lines, say
            return False
        raise
    return isinstance(content, dict) and {"version", "eval", "samples"} <= set(content)


def read_inspect_log(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the samples of a log in the order of its data set, each with its output as `text`."""
    samples = _read_archive(path) if is_inspect_log(path) else _read_json_log(path)
    number = 0
    for number, (where, sample) in enumerate(samples, start=1):
        yield number, _convert_sample(sample, where)
    if not number:
        raise DataError(f"{path}: this log holds no samples; run Inspect with its samples logged (--log-samples)")


def _read_json_log(path: Path) -> Iterator[tuple[str, Any]]:
    content = read_json(path)
    _check_header(content, path)
    samples = content["samples"] if isinstance(content["samples"], list) else []
    return ((f"{path}, sample {number}", sample) for number, sample in enumerate(samples, start=1))


def _read_archive(path: Path) -> Iterator[tuple[str, Any]]:
    with _open_archive(path) as archive:
        names = set(archive.namelist())
        if _HEADER not in names:
            raise DataError(f"{path}: no {_HEADER} in this archive; expected an Inspect log of a run that ended")
        header = _read_member(archive, _HEADER, path)
        _check_header(header, path)
        samples = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
        for name in sorted(samples, key=_make_sort_key(header)):
            yield f"{path}, {name}", _read_member(archive, name, path)


def _open_archive(path: Path) -> zipfile.ZipFile:
    with suppress(ImportError):
        import zipfile_zstd  # noqa: F401 - adds Zstandard to `zipfile`
    check_regular_file(path)
    try:
        return zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as err:
        raise DataError(f"{path}: not a readable Inspect log ({err})") from err


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


def _make_sort_key(header: Mapping[str, Any]) -> Callable[[str], tuple[int, int, str]]:
    """Return a key that sorts the names of samples as the data set of the log, epochs last."""
    evaluation = header.get("eval")
    dataset = evaluation.get("dataset") if isinstance(evaluation, dict) else None
    ids = dataset.get("sample_ids") if isinstance(dataset, dict) else None
    ranks = {str(name): rank for rank, name in enumerate(ids if isinstance(ids, list) else [])}

    def make_key(name: str) -> tuple[int, int, str]:
        identity, _, epoch = name.removeprefix("samples/").removesuffix(".json").rpartition("_epoch_")
        number = int(identity) if identity.isdecimal() else 0
        return int(epoch) if epoch.isdecimal() else 0, ranks.get(identity, len(ranks) + number), identity

    return make_key


def _convert_sample(sample: Any, where: str) -> dict[str, Any]:  # noqa: ANN401
    """Return what the harness reads of a sample: `id`, `sample`, `prompt`, `human`, `text`, `stop`."""
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
    prompt, target = _read_prompt(sample.get("input")), sample.get("target")
    target = target[0] if isinstance(target, list) and len(target) == 1 else target
    fields |= {"prompt": prompt} if prompt is not None else {}
    fields |= {"human": target} if isinstance(target, str) and target else {}
    reason = choices[0].get("stop_reason") if isinstance(choices[0], dict) else None
    return fields | ({"stop": _STOPS[reason]} if reason in _STOPS else {})


def _read_prompt(value: Any) -> str | None:  # noqa: ANN401
    """Return an input that is a text or one message; a conversation has no single prompt."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        value = value[0].get("content")
    return value if isinstance(value, str) else None
