"""Requests for several answers, and what is read from the replies: nothing else is scored, and what is lost is counted."""

from collections import Counter

import numpy as np
import pytest

from openended.harness.core import SpecError
from openended.harness.generation.listed_answers import ListedAnswer, read_answers, read_probability
from openended.harness.generation.prompting import PromptForm

TAGGED = "<response><text>{}</text><probability>{}</probability></response>"
REPLIES = [
    ("tags around remarks", f"Sure!\n{TAGGED.format('a', 0.3)}\n{TAGGED.format('b c', '12%')} Done.", [("a", 0.3), ("b c", 0.12)]),
    ("tags without text", "<response>\n a \n</response><Response>b</Response>", [("a", None), ("b", None)]),
    ("an answer of several lines", TAGGED.format("one\n\ntwo", ".5"), [("one\n\ntwo", 0.5)]),
    ("an empty answer", TAGGED.format(" ", 0.5) + TAGGED.format("b", 0.5), [("b", 0.5)]),
    ("a probability in words", TAGGED.format("a", "high"), [("a", None)]),
    ("cut inside a tag", TAGGED.format("a", 0.3) + "<response><text>b</text><prob", [("a", 0.3)]),
    ("JSON in a fence", '```json\n{"responses": [{"text": "a", "probability": 1e-05}, {"text": "b"}]}\n```', [("a", 1e-05), ("b", None)]),
    ("cut JSON", '{"responses": [{"text": "a", "probability": "0.1"}, {"text": "b", "prob', [("a", 0.1)]),
    ("a list of strings", 'Here: ["a", "b {c}"]', [("a", None), ("b {c}", None)]),
    ("numbers", "Here they are:\n 1. a\n2) b\nb\n\nHope it helps", [("a", None), ("b\nb", None)]),
    ("numbers that skip one", "1. a\n3. c", [("a", None)]),
    ("no list", "I cannot do that [sorry {", []),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "expected"), [case[1:] for case in REPLIES], ids=[case[0] for case in REPLIES])
def test_a_reply_is_read(reply, expected):
    assert read_answers(reply) == [ListedAnswer(*pair) for pair in expected]


def test_the_last_numbered_answer_of_a_cut_reply_is_none():
    assert [a.text for a in read_answers("1. a\n2. b", is_cut=True)] == ["a"]
    assert [a.text for a in read_answers("1. a\n2. b\n\nAnd", is_cut=True)] == ["a", "b"]


@pytest.mark.parametrize(("value", "expected"), [
    (0.2, 0.2), (1, 1.0), ("20 %", 0.2), (" .2 ", 0.2), (20, None), ("-0.1", None), ("nan", None), (True, None),
    (None, None), ("0.2 or so", None), ([0.2], None),
])  # fmt: skip
def test_a_probability_is_read(value, expected):
    assert read_probability(value) == expected


def test_failures_are_counted_and_give_no_text():
    prompting, failures = PromptForm(form="verbalized", answers=3), Counter()
    replies = [
        TAGGED.format("a", 0.5) * 4,  # one too many
        TAGGED.format("a", 0.5) + TAGGED.format("b", "?"),  # one is missing, one has no probability
        "no",
    ]
    assert [len(prompting.read_reply(reply, False, failures)) for reply in replies] == [3, 1, 0]
    assert {what: number for what, number in failures.items() if number} == {
        "replies without a readable answer": 1, "answers missing in other replies": 1,
        "answers without a readable probability": 1,
    }  # fmt: skip
    drawing = PromptForm(form="verbalized", weights="draw")
    assert drawing.read_reply(TAGGED.format("a", 0), False, failures) == []
    assert failures["replies whose probabilities are all 0"] == 1


def test_texts_are_drawn_by_the_stated_probabilities_whatever_they_sum_to():
    prompting, stated = PromptForm(form="verbalized", weights="draw"), np.array([0.3, 0.15, 0.09, 0.06, 0.0])
    answers = [ListedAnswer(str(i), weight) for i, weight in enumerate(stated)]
    drawn = [text for reply in range(2000) for text in prompting.choose_texts(answers, 7, "q", reply)]
    counts, expected = np.bincount(np.array(drawn, dtype=int), minlength=5), 10_000 * stated / stated.sum()
    assert np.all(np.abs(counts - expected) <= 4 * np.sqrt(expected))
    assert prompting.choose_texts(answers, 7, "q", 3) == prompting.choose_texts(answers, 7, "q", 3)


def test_the_model_reads_the_request_with_prompts_that_hold_braces():
    prompting = PromptForm(form="list", answers=3, template="{answers} for: {prompt}", start="1.")
    assert prompting.render("a {answers} b {prompt}") == "3 for: a {answers} b {prompt}"
    assert "{" not in PromptForm(form="verbalized").render("x")
    assert (prompting.count_replies(7), prompting.limit_reply(10)) == (3, 3 * 42)
    assert PromptForm().changes_nothing


@pytest.mark.parametrize(("options", "message"), [
    ({"template": "no prompt"}, "null or a text with {prompt}"),
    ({"weights": "draw", "form": "list"}, "ignore, unless prompting=verbalized"),
    ({"start": "1."}, "nothing, unless"),
])  # fmt: skip
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(SpecError, match=message):
        PromptForm(**options)
