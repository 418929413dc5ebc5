"""Protocols: the published wording, and own ones without code."""

import pytest

from openended.harness.core.errors import SpecError
from openended.harness.rating.protocol import list_protocol_names, load_protocol, make_protocol

OWN = """
kind: ratings
title: Fluent?
guidelines: [Read it.]
questions: {fluency: "Is it fluent?"}
answers: [{say: "yes", rating: 1}, {say: "no", rating: 0}]
items: 3
examples: [{prompt: A, text: B, answers: {fluency: "yes"}, why: It is.}]
"""


def test_the_published_wording_is_there():
    """Facts: human_evaluation.md of the MAUVE authors, HUSE's Turk form, the precision/recall paper's appendix."""
    mauve, huse, pr = (load_protocol(name) for name in ("mauve", "huse", "pr_gpt"))
    assert list(mauve.questions.values()) == [
        "Which continuation is more interesting or creative, given the context?",
        "Which continuation makes more sense, given the context?",
        "Which continuation is more likely to be written by a human?",
    ]
    assert [answer.say for answer in mauve.choices] == [
        "Definitely A", "Slightly A", "Tie (Use sparingly!)", "Slightly B", "Definitely B",
    ]  # fmt: skip
    assert (mauve.items, mauve.min_seconds, mauve.most_ties, mauve.longest_tokens) == (90, 25, 0.1, 256)
    assert [(answer.say, answer.rating) for answer in huse.choices] == [
        ("Very Typical", 5), ("Typical", 4), ("Average", 3), ("Specific", 2), ("Rare", 1), ("Invalid", 0),
    ]  # fmt: skip
    assert huse.prompt == 'Given a news article: "{prompt}"'
    assert huse.text == 'How typical is the exact title: "{text}"?'
    assert (huse.items, huse.raters, huse.items_a_sheet) == (100, 20, 25)
    assert '("score_coherence": score, "score_insightful": score, "score_likely": score)' in pr.judging.instruction
    assert list_protocol_names() == ["huse", "mauve", "pr_gpt", "pr_gpt_diversity", "typicality"]


def test_an_own_yaml_needs_no_code(tmp_path):
    path = tmp_path / "fluency.yaml"
    path.write_text(OWN)
    made = load_protocol(str(path), {"items": 5})
    assert (made.label, made.items, [a.rating for a in made.choices]) == ("fluency", 5, [1.0, 0.0])
    assert make_protocol(made.to_json(), "again") == made


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"item": 3}, "no option 'item'; did you mean 'items'"),
        ({"items": 0}, "items: expected 1 or more, got 0"),
        ({"answers": [{"say": "x"}, {"say": "y"}]}, "answers: expected a rating each"),
        ({"answers": [{"say": "x", "rating": 1}]}, "answers: expected 2 to 9"),
        (
            {"answers": [{"say": "x", "rate": 1}, {"say": "y", "rating": 1}]},
            r"answers\[0\]: no option 'rate'; did you mean 'rating'",
        ),
        ({"kind": "pair"}, "kind: expected one of pairs, ratings, got 'pair'"),
        ({"text": "nothing"}, "text: expected a text with {text} in it"),
        ({"examples": [{"prompt": "A"}]}, r"examples\[0\]: expected answers, prompt, text, why"),
        ({"questions": {}}, "questions: expected at least one"),
    ],
)
def test_wrong_options_are_told_in_a_line(tmp_path, change, said):
    path = tmp_path / "own.yaml"
    path.write_text(OWN)
    with pytest.raises(SpecError, match=said):
        load_protocol(str(path), change)
