"""Biographies after examples in the prompt."""

import pytest

from openended.harness.core.errors import DataError
from openended.tasks.biographies import Biographies
from tests.helpers import write_jsonl
from tests.tasks.reading import read, read_counted


def write(tmp_path, count=12, words=100):
    rows = [{"title": f"Person {i}", "content": f"Person {i} was " + "born " * (words - 3)} for i in range(count)]
    return str(write_jsonl(tmp_path / "bio.jsonl", rows))


@pytest.mark.parametrize("n", [0, 1, 5, 11])
def test_prompts_hold_n_others_and_the_beginning_of_the_next(tmp_path, n):
    path = write(tmp_path)
    examples = read(Biographies(path=path, num_in_context=n))
    assert len(examples) == 12
    for example in examples:
        assert example.prompt.startswith("Write biographies of various people.\n- Biography of")
        assert example.prompt.count("Biography of Person") == n
        assert example.prompt.endswith("\n- Biography of")
        title = f" Person {int(example.id.split('/')[1])}: "
        assert example.human.startswith(title)
        assert f"Biography of{title}" not in example.prompt
        shown = [line for line in example.prompt.splitlines() if line.startswith("- Biography of Person")]
        assert len(set(shown)) == n
        # The last line opens the assistant's turn.
        assert example.meta["assistant"] == "- Biography of"
        asked = example.meta["user"].replace("Here are a few examples:\n", "")
        assert (asked != example.meta["user"]) == (n > 0)
        assert example.prompt == f"{asked}\n{example.meta['assistant']}"
    assert examples == read(Biographies(path=path, num_in_context=n))
    others = read(Biographies(path=path, num_in_context=n, seed=1))
    assert n == 0 or [e.prompt for e in examples] != [e.prompt for e in others]


def test_titles_are_shortened_and_the_header_is_an_option(tmp_path):
    (example, *_) = read(Biographies(path=write(tmp_path), num_in_context=1, header=" ", max_title_words=1))
    assert example.prompt.startswith("- Biography of Person: Person")


def test_lengths_are_kept_and_the_rest_counted(tmp_path):
    for words, examples in ((79, 0), (80, 12), (350, 12), (351, 0)):
        task = Biographies(path=write(tmp_path, words=words), num_in_context=0)
        if examples:
            assert len(read_counted(task)[0]) == examples
            continue
        with pytest.raises(DataError, match="holds 0 biographies of the asked length, expected 1"):
            read(task)
    with pytest.raises(DataError, match="holds 5 biographies of the asked length, expected 6"):
        read(Biographies(path=write(tmp_path, count=5)))
    path = write_jsonl(
        tmp_path / "bio.jsonl", [{"title": "x", "content": "too short"}, {"title": "a", "content": "b " * 90}]
    )
    assert read_counted(Biographies(path=str(path), num_in_context=0))[1] == {"not of 80 to 350 words": 1}


def test_missing_file(tmp_path):
    task = Biographies(path=str(tmp_path / "none.jsonl"))
    with pytest.raises(DataError, match=r"task biographies: no such file.*task\.path"):
        task.fingerprint()
    assert not task.files()[0].present
    with pytest.raises(DataError, match=r"not distributed .*set task\.path"):
        Biographies().fingerprint()
    assert Biographies().files()[0].url.startswith("https://")
