"""A decoder of the user's own file: its Q, its identity, and what is said of a file that cannot be used."""

import re

import pytest

from openended.harness.core import DataError, SpecError, canonicalize, digest
from openended.harness.decoders.q import apply_penalties, compute_dense_q
from openended.harness.decoders.sampling import Ancestral, TopK
from openended.harness.decoders.user_processor import UserProcessor
from tests.helpers import check_error, openended, write_jsonl
from tests.lazy import torch

CODE = """
class TopTwo:
    def __call__(self, input_ids, scores):
        assert len(input_ids) == len(scores) == 1
        return scores.masked_fill(scores < scores.topk(2).values[..., -1:], -float("inf"))

def ban_last(input_ids, scores):
    return scores.index_fill(1, input_ids[0, -1:], -float("inf"))

def flatten(scores):
    return scores / 2

def fail(scores):
    return scores * float("nan")

def stretch(scores):
    return scores[:, :-1]
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "mine.py").write_text(CODE)
    return tmp_path / "mine.py"


def compute_q(decoder, logits, history, lengths=None):
    return compute_dense_q(decoder, apply_penalties(decoder, logits, history, lengths))


def test_a_file_makes_the_q_that_a_decoder_of_ours_has(path):
    logits = torch.randn(4, 9, generator=torch.Generator().manual_seed(3))
    history = torch.tensor([[1, 2, 3], [4, 5, 0], [6, 7, 8], [2, 0, 0]])
    lengths = torch.tensor([3, 2, 3, 1])
    for member, ours in (("TopTwo", TopK(k=2)), ("flatten", Ancestral(temperature=2.0))):
        own = compute_q(UserProcessor(path=str(path), member=member), logits, history, lengths)
        assert torch.allclose(own, compute_q(ours, logits, history, lengths))
    banned = compute_q(UserProcessor(path=str(path), member="ban_last"), logits, history, lengths)
    assert (banned == 0).nonzero().tolist() == [[0, 3], [1, 5], [2, 8], [3, 2]], "the last token of each text"


def test_its_identity_is_what_the_file_holds_not_where_it_is(path, tmp_path):
    own = UserProcessor(path=str(path), member="TopTwo")
    copied = path.rename(tmp_path / "other.py")
    assert digest(UserProcessor(path=str(copied), member="TopTwo")) == digest(own)
    assert "path" not in canonicalize(own)
    assert own.title == "TopTwo"
    copied.write_text(CODE + "x = 1")
    assert digest(UserProcessor(path=str(copied), member="TopTwo")) != digest(own)
    for path, code in ((str(copied), own.code), ("", own.code), ("nothing.py", "")):
        with pytest.raises(SpecError, match=r"expected the digest|whose digest is|a Python file"):
            UserProcessor(path=path, member="TopTwo", code=code)


@pytest.mark.parametrize("member", ["fail", "stretch"])
def test_scores_that_are_no_distribution_are_refused(member, path):
    with pytest.raises(DataError, match=f"{member}: expected scores of shape"):
        compute_q(UserProcessor(path=str(path), member=member), torch.zeros(1, 5), torch.tensor([[1]]))


def test_what_a_file_lacks_is_said(path):
    for member, message in (("TopTow", "did you mean 'TopTwo'"), ("", "type decoder=FILE.py:NAME")):
        check_error(SpecError, message, UserProcessor(path=str(path), member=member).check_model, None)
    path.write_text("import nothing_of_this_name")
    with pytest.raises(SpecError, match=r"ModuleNotFoundError: .*nothing_of_this_name"):
        UserProcessor(path=str(path), member="TopTwo").check_model(None)


@pytest.mark.slow
def test_own_texts_and_an_own_decoder_are_one_table(path, tmp_path):
    rows = [{"id": f"{i}", "prompt": f"{i}: once", "human": "upon a time"} for i in range(8)]
    write_jsonl(tmp_path / "human.jsonl", rows)
    write_jsonl(tmp_path / "mine.jsonl", [{"id": f"{i}", "text": f"there were {i}"} for i in range(8)])
    words = ["task=jsonl", "task.path=human.jsonl", "num_examples=8", "max_new_tokens=4", "metric=[distinct_n]"]
    both = ["generations=mine.jsonl,null", "decoder=mine.py:TopTwo", "scoring=docs-m"]
    done = openended("-m", *both, *words, cwd=tmp_path, code=0)
    assert re.search(r"human .*docs-s TopTwo .* mine ", done.stdout, re.DOTALL), done.stdout
