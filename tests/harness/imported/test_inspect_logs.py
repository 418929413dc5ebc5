"""Logs of Inspect: archives and JSON files, in the order of the data set; failed and unfinished runs are refused."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import DataError
from openended.harness.imported.files import read_records
from openended.harness.imported.generations import read_generations, recognize_format

HEADER = {"version": 2, "status": "success", "eval": {"dataset": {"samples": 2, "sample_ids": ["b", "a"]}}}


def sample(name: str, epoch: int = 1, **fields: Any) -> dict[str, Any]:
    choice = {"message": {"role": "assistant", "content": f"text {name}{epoch}"}, "stop_reason": "max_tokens"}
    output = {"model": "mockllm/model", "choices": [choice], "completion": f"text {name}{epoch}"}
    return {"id": name, "epoch": epoch, "input": f"say {name}", "target": f"human {name}", "output": output, **fields}


def write_log(path: Path, samples: list[dict[str, Any]], header: Any = HEADER) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in samples:
            archive.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
        if header is not None:
            archive.writestr("header.json", json.dumps(header))
    return path


def test_samples_come_in_the_order_of_the_data_set(tmp_path: Path) -> None:
    path = write_log(tmp_path / "x.eval", [sample("a", 2), sample("a"), sample("b"), sample("b", 2)])
    assert recognize_format(path) == "Inspect log"
    texts = list(read_generations(path))
    assert [(t.text, t.identity, t.sample) for t in texts] == [
        ("text b1", "b", 0), ("text a1", "a", 0), ("text b2", "b", 1), ("text a2", "a", 1),
    ]  # fmt: skip
    assert (texts[0].prompt, texts[0].stop) == ("say b", "length")
    assert [r.cells["human"] for r in read_records(path)] == ["human b", "human a", "human b", "human a"]


def test_json_logs_and_messages(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "hello"}]
    both = [*chat, {"role": "user", "content": "again"}]
    samples = [sample("a", input=chat, target=["human a"]), sample("b", input=both, target=["x", "y"])]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({**HEADER, "samples": samples}, indent=2))
    assert recognize_format(path) == "Inspect log"
    first, second = (r.cells for r in read_records(path))
    assert (first["prompt"], first["human"], first["text"]) == ("hello", "human a", "text a1")
    assert not {"prompt", "human"} & set(second)


@pytest.mark.parametrize(
    ("samples", "header", "message"),
    [
        ([sample("a", error={"message": "no connection"})], HEADER, "sample 'a' failed .no connection.; finish it"),
        ([sample("a", output={"choices": [], "completion": ""})], HEADER, "sample 'a' has no output"),
        ([sample("a", output=None)], HEADER, "expected a sample with an output"),
        ([sample("a")], {**HEADER, "status": "cancelled"}, "has the status 'cancelled', expected 'success'"),
        ([sample("a")], None, "no header.json in this archive"),
        ([], HEADER, "this log holds no samples"),
    ],
)
def test_failed_and_unfinished_runs_are_refused(tmp_path: Path, samples: Any, header: Any, message: str) -> None:
    path = write_log(tmp_path / "x.eval", samples, header)
    with pytest.raises(DataError, match=message) as caught:
        list(read_generations(path))
    assert "\n" not in str(caught.value)


def test_hostile_archives_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = write_log(tmp_path / "x.eval", [sample("a")])
    for name, content, message in [
        ("cut.eval", whole.read_bytes()[:-30], "not a readable Inspect log"),
        ("text.eval", b"hello", "not a readable Inspect log"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=message):
            list(read_generations(tmp_path / name))
    packed = bytearray(whole.read_bytes())
    for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):  # the method of every member becomes Zstandard
        start = 0
        while (start := packed.find(mark, start)) >= 0:
            packed[start + place] = 93
            start += 4
    (tmp_path / "zstd.eval").write_bytes(packed)
    monkeypatch.setitem(sys.modules, "zipfile_zstd", None)  # type: ignore[arg-type]
    with pytest.raises(
        DataError, match="packed with Zstandard, which Python cannot read alone; pip install zipfile-zstd"
    ):
        list(read_generations(tmp_path / "zstd.eval"))
