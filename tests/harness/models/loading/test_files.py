"""Which files of a model's folder are its identity: all that is loaded, and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from openended.harness.core.errors import DataError
from openended.harness.models.loading.files import (
    INDEX,
    digest_files,
    list_model_files,
    list_sentence_files,
    list_tokenizer_files,
)

TOKENIZER = {"tokenizer.json", "merges.txt", "tokenizer_config.json"}
CONFIGS = {"config.json", "generation_config.json"}
UNREAD = {"README.md", "pytorch_model.bin", "training_args.json"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (*TOKENIZER, *CONFIGS, *UNREAD, "chat_template.jinja", "a.part", "b.part", "c.part"):
        (tmp_path / name).write_text(name)
    return tmp_path


def index(folder: Path, **shards: str) -> None:
    (folder / INDEX).write_text(json.dumps({"weight_map": shards}))


def names(files: list[Path]) -> set[str]:
    assert files == sorted(files), "the order must not depend on the file system"
    return {path.name for path in files}


def test_the_template_counts_where_it_is_read(folder: Path) -> None:
    (folder / "model.safetensors").write_text("w")
    plain = TOKENIZER | CONFIGS | {"model.safetensors"}
    assert names(list_model_files(folder, chat=False)) == plain
    assert names(list_model_files(folder, chat=True)) == plain | {"chat_template.jinja"}
    assert names(list_tokenizer_files(folder)) == TOKENIZER


def test_the_shards_are_those_of_the_index_and_the_one_file_comes_first(folder: Path) -> None:
    index(folder, x="b.part", y="a.part", z="b.part")
    assert names(list_model_files(folder, chat=False)) == TOKENIZER | CONFIGS | {INDEX, "a.part", "b.part"}
    (folder / "model.safetensors").write_text("w")
    assert names(list_model_files(folder, chat=False)) == TOKENIZER | CONFIGS | {"model.safetensors"}


@pytest.mark.parametrize("text", ["[]", "{}", '{"weight_map": ["a.part"]}'])
def test_an_index_of_another_form_is_refused(folder: Path, text: str) -> None:
    (folder / INDEX).write_text(text)
    with pytest.raises(DataError, match=r"model\.safetensors\.index\.json: expected an object with a weight_map"):
        list_model_files(folder, chat=False)


def test_a_shard_that_is_not_there_is_named(folder: Path) -> None:
    index(folder, x="a.part", y="lost.part")
    with pytest.raises(DataError, match=r"names the shard lost\.part, which is not in the folder"):
        list_model_files(folder, chat=False)


def test_a_sentence_model_is_all_of_its_folder_but_what_nobody_loads(tmp_path: Path) -> None:
    for name in ("modules.json", "1_Pooling/config.json", "README.md", ".cache/x.json", "1_Pooling/.git/x", "a.lock"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    found = [path.relative_to(tmp_path).as_posix() for path in list_sentence_files(tmp_path)]
    assert found == ["1_Pooling/config.json", "modules.json"]


def test_a_digest_is_of_the_bytes_and_follows_a_change_of_equal_size(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "x.json"
    path.parent.mkdir()
    for second, text in enumerate(("one", "two")):
        path.write_text(text)
        os.utime(path, (second, second))  # so that the clock's grain does not decide
        assert digest_files(tmp_path, [path]) == {"sub/x.json": hashlib.sha256(text.encode()).hexdigest()}
