"""Reasoning is separated from answers, by the tags of templates and by fields of messages, and wherever a text was cut.

The oracle needs no tags: the reasoning is written in letters that no answer has.
"""

import pytest

from openended.harness.core import DataError
from openended.harness.models.chat import ChatTemplate, Turns
from openended.harness.models.messages import read_message
from openended.harness.models.reasoning import FAMILIES, Markup, MarkupSearch, split_reasoning
from tests.helpers import cases, check_error
from tests.reasoning_families import ANSWER, CASES, LETTER, THOUGHT, load_case


def recognize_markup(rows):
    search = MarkupSearch()
    for prompt, text, ended in rows:
        search.add(prompt, text, ended=ended)
    return search.find()


@pytest.mark.parametrize("name", CASES)
def test_no_letter_of_the_reasoning_is_answered_wherever_a_text_is_cut(name):
    """Every prefix of a text: what is scored is a prefix of the answer, and what is cut before it is lost."""
    template, text, family = load_case(name)
    start = template.start
    markup = recognize_markup([(start, text, True)])
    assert markup == Markup(family)
    for length in range(1, len(text) + 1):
        parts = markup.split(text[:length], start)
        assert LETTER not in parts.answer
        # A tag around the answer may be cut.
        assert any(whole.startswith(parts.answer) for whole in (f"{ANSWER}</response>", "<response>"))
        assert parts.is_lost("length") == (not parts.answer.strip())
    assert (parts.reasoning, parts.answer, parts.whole) == (THOUGHT, ANSWER, text)
    assert not parts.is_lost("eos")


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].opened])
def test_texts_that_only_close_their_reasoning_were_opened_by_the_prompt(name):
    """The prompt is unknown, as with a server: most ended texts close, so those that were cut are inside."""
    _, text, family = load_case(name)
    rows = [("", text, True)] * 3 + [("", THOUGHT, False)] * 5
    markup = recognize_markup(rows)
    assert markup == Markup(family, opened=True)
    assert markup.split(THOUGHT).is_lost("length")
    quoting = [("", f"The tag {FAMILIES[family].closing} ends it.", True), *[("", ANSWER, True)] * 3]
    assert recognize_markup(quoting) is None
    assert recognize_markup([("", ANSWER, True)]) is None


def test_arguments_of_the_template_are_passed_on():
    template, _, _ = load_case("qwen3")
    off = ChatTemplate("qwen3", template.inner, {"enable_thinking": False})
    assert template.start.endswith("assistant\n")
    assert off.start.endswith("<think>\n\n</think>\n\n")
    assert off.digest != template.digest
    assert ChatTemplate("qwen3", template.inner, None).digest == template.digest
    assert off.render(Turns("Hi", "")).startswith("<|im_start|>user\nHi<|im_end|>")
    assert Markup("think").split(ANSWER, off.start) == (None, ANSWER, ANSWER, True)


@cases(
    "family, text, reasoning, answer",
    ("think", "<think>\nζ\n</think>\nA.\n\n<think>ζζ</think>\nB.", "ζ\nζζ", "A.\nB."),
    ("think", "<think>ζ</think>A.\n<think>ζ", "ζ\nζ", "A."),
    ("think", "Say <think> aloud.", None, "Say <think> aloud."),
    ("granite", "Here's my thought process:\nζ\nHere is my response:\nA.", "ζ", "A."),
    ("harmony", "<|channel|>final<|message|>A.<|return|>", "", "A."),
    ("harmony", ("<|channel|>analysis<|message|>ζ<|end|><|start|>assistant<|channel|>commentary<|message|>ζζ<|end|>"
     "<|start|>assistant<|channel|>final <|constrain|>json<|message|>{}<|end|>"), "ζ\nζζ", "{}"),
    ("gemma", "<|channel>thought\nζ\n<channel|>A.", "ζ", "A."),
    ("cohere", "<|START_THINKING|>ζ<|END_THINKING|><|START_RESPONSE|>A.<|END_RESPONSE|>", "ζ", "A."),
    ("seed", "<seed:think>ζ</seed:think>A.", "ζ", "A."),
    ("apertus", "<|inner_prefix|>ζ<|inner_suffix|>A.", "ζ", "A."),
)  # fmt: skip
def test_forms_of_families(family, text, reasoning, answer):
    markup = recognize_markup([("", text, True)])
    assert markup == (None if reasoning is None else Markup(family))
    assert Markup(family).split(text)[:2] == (reasoning, answer)


@cases(
    "message, expected",
    ({"content": "A."}, (None, "A.")),
    ({"content": "A.", "reasoning": "ζ"}, ("ζ", "A.")),
    ({"content": "A.", "reasoning": None, "reasoning_content": "ζ"}, ("ζ", "A.")),
    ({"content": "A.", "reasoning_content": ""}, (None, "A.")),
    ({"content": None, "reasoning": "ζ"}, ("ζ", "")),
    ({"content": None}, ("", "")),
    ({"content": [{"type": "reasoning", "reasoning": "ζ"}, {"type": "text", "text": "A."}]}, ("ζ", "A.")),
    ({"content": [{"type": "thinking", "thinking": "ζ"}]}, ("ζ", "")),
    ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "ζ"}]}, {"text": "A."}]}, ("ζ", "A.")),
    ({"content": [{"type": "thinking", "thinking": t} for t in "ζξ"] + ["A."]}, ("ζ\n\nξ", "A.")),
    ({"content": None, "refusal": "I will not."}, (None, "I will not.")),
    ({"content": 3}, "content: expected text, got int"),
    ({"content": "", "reasoning": ["ζ"]}, "reasoning: expected text, got list"),
)
def test_fields_of_messages(message, expected):
    if isinstance(expected, str):
        check_error(DataError, expected, read_message, message, "")
        return
    assert read_message(message, "") == expected
    reasoning, text = expected
    assert split_reasoning(text, reasoning, None).is_lost("eos") == (text == "")


def test_what_is_scored():
    whole, cut, plain = (Markup("think").split(t) for t in ("<think>ζ</think>A.", "<think>ζ", "A."))
    assert [p.choose("drop", "length") for p in (whole, cut, plain)] == ["A.", None, "A."]
    assert [p.choose("keep", "length") for p in (whole, cut, plain)] == ["<think>ζ</think>A.", "<think>ζ", "A."]
    assert [p.choose("only", "length") for p in (whole, cut, plain)] == ["ζ", "ζ", None]
    apart = split_reasoning("A.", "ζ", None)
    assert [apart.choose(t, "eos") for t in ("drop", "keep", "only")] == ["A.", "ζ\n\nA.", "ζ"]
    empty = Markup("think").split("<think>ζ</think>")  # an empty answer that the model ended itself
    assert (empty.choose("drop", "eos"), empty.choose("drop", "length")) == ("", None)
