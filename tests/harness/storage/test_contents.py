"""An entry whose digests agree but whose files cannot be read is computed again."""

import numpy as np
import pytest

from openended.harness.core import DataError, Example, read_json, write_json
from openended.harness.storage import MANIFEST, Recipe, Store, read_entry, write_examples
from openended.harness.storage.store import check_contents, check_stage_facts, write_manifest


def build_examples(folder):
    for name in ("examples", "spare"):
        write_examples(folder / f"{name}.arrow", [Example("a", "prompt", " human")])
    return {"n": 1, "spare": 1, "skipped": {}}


def build_tokens(folder):
    np.save(folder / "values.npy", np.arange(5))
    np.save(folder / "offsets.npy", np.array([0, 2, 5]))
    return {}


STAGES = {"examples": (build_examples, "spare.arrow"), "tokens": (build_tokens, "offsets.npy")}


def seal(entry):
    manifest = read_json(entry.path / MANIFEST)
    write_manifest(entry.path, manifest["recipe"], manifest["key"], manifest["meta"])


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("forgery", ["junk", "empty", "cut", "delete", "rename", "other"])
def test_a_sealed_entry_that_cannot_be_read_is_computed_again(stage, forgery, tmp_path, caplog):
    build, name = STAGES[stage]
    recipe = Recipe(stage, 1, {}, {})
    entry = Store(tmp_path).make(recipe, build)
    content = entry.content
    path = entry.path / name
    data = path.read_bytes()
    if forgery in ("junk", "empty", "cut"):
        path.write_bytes({"junk": b"junk" * 99, "empty": b"", "cut": data[: len(data) // 3]}[forgery])
    elif forgery == "other":
        np.save(path.with_suffix(".npy"), np.array(["text"]))
        path.with_suffix(".npy").rename(path)
    elif forgery == "rename":
        path.rename(path.with_name("other"))
    else:
        path.unlink()
    seal(entry)
    with pytest.raises(DataError):
        read_entry(entry.path)
    again = Store(tmp_path).make(recipe, build)
    assert again.computed
    assert again.content == content
    assert "computed again" in caplog.text
    assert not Store(tmp_path).make(recipe, build).computed


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([], "expected a result whose metric"),
        ({"metric": "m"}, "expected a result whose signature"),
        ({"metric": "m", "signature": "s", "primary": "p", "values": {"p": "x"}, "sd": {}, "n_human": 1, "n_model": 1,
          "status": "ok", "notes": []}, "expected numbers"),
    ],
)  # fmt: skip
def test_a_result_has_its_fields(row, message, tmp_path):
    write_json(tmp_path / "result.json", row)
    with pytest.raises(DataError, match=message):
        check_contents(tmp_path, ["result.json"])


def test_offsets_fit_their_values(tmp_path):
    build_tokens(tmp_path)
    check_contents(tmp_path, ["offsets.npy", "values.npy"])
    np.save(tmp_path / "offsets.npy", np.array([0, 2, 6]))
    with pytest.raises(DataError, match=r"offsets\.npy does not fit values\.npy"):
        check_contents(tmp_path, ["offsets.npy", "values.npy"])


@pytest.mark.parametrize(
    "meta", [{}, {"n": 1, "spare": 1, "skipped": 3}, {"n": -1, "spare": 1, "skipped": {}}, {"n": True, "spare": 1, "skipped": {}},
             {"n": 1, "spare": 1, "skipped": {"short": "x"}}]
)  # fmt: skip
def test_an_entry_without_the_facts_of_its_stage_is_computed_again(meta, tmp_path):
    recipe = Recipe("examples", 1, {}, {})
    entry = Store(tmp_path).make(recipe, build_examples)
    manifest = read_json(entry.path / MANIFEST)
    write_manifest(entry.path, manifest["recipe"], manifest["key"], meta)
    with pytest.raises(DataError, match="an entry of stage examples"):
        read_entry(entry.path)
    assert Store(tmp_path).make(recipe, build_examples).computed


def test_notes_are_texts():
    check_stage_facts("generate", {"notes": ["a"]})
    with pytest.raises(DataError, match="notes"):
        check_stage_facts("generate", {"notes": [3]})


def test_generations_are_not_examples(tmp_path):
    build_examples(tmp_path)
    (tmp_path / "spare.arrow").rename(tmp_path / "data.arrow")
    with pytest.raises(DataError, match=r"data\.arrow: expected columns"):
        check_contents(tmp_path, ["data.arrow"])
