"""Who rates what: published protocols and own ones, balanced designs, and sheets that tell nothing."""

import stat
from collections import Counter

import pytest

from openended.harness.core import DataError, SpecError, to_json
from openended.harness.rating.answers import gather_answers, tabulate_answers
from openended.harness.rating.design import derive_opaque_id, design_study, read_controls, read_key
from openended.harness.rating.protocol import list_protocol_names, load_protocol, make_protocol
from openended.harness.rating.study import build_form_policy, fill_all_sheets, make_study, write_study
from tests.harness.rating.studies import PLAYERS, material, study
from tests.helpers import cases, check_error, write_file

SIZES = [("mauve", 9, 20, 2, 12), ("mauve", 4, 30, 1, 15), ("typicality", 3, 40, 5, 20), ("huse", 2, 25, 20, 25)]


@pytest.fixture(scope="module", params=SIZES, ids=str)
def planned(request):
    protocol, players, items, raters, a_sheet = request.param
    names = tuple(f"p{i}" for i in range(players))
    spec = load_protocol(protocol, {"items": items, "raters": raters, "items_a_sheet": a_sheet})
    sheets = design_study(material(60, names), spec, controls=(), secret=b"s", seed=3)
    return spec, names, sheets, [task for sheet in sheets for task in sheet]


def test_no_prompt_comes_twice_on_a_sheet_and_every_rating_is_dealt_once(planned):
    spec, names, sheets, tasks = planned
    for sheet in sheets:
        assert max(Counter(task.example for task in sheet).values()) == 1
        assert len(sheet) <= spec.items_a_sheet
    units = len(names) * (len(names) - 1) // 2 if spec.kind == "pairs" else len(names)
    assert len(tasks) == units * spec.items * spec.raters
    assert len({task.id for task in tasks}) == len(tasks)
    raters = Counter((t.example, frozenset(t.sides)) for t in tasks).values()
    assert Counter(raters) == {spec.raters: units * spec.items}


def test_sides_and_players_are_balanced(planned):
    spec, names, sheets, tasks = planned
    if spec.kind == "pairs":
        ways = Counter(task.sides for task in tasks)
        assert all(abs(ways[a, b] - ways[b, a]) <= 1 for a, b in ways)
    seen = Counter(player for task in tasks for player in task.sides)
    assert len(set(seen.values())) == 1
    # On a full sheet a player has its share, give or take two.
    for sheet in (s for s in sheets if len(s) == spec.items_a_sheet):
        own = Counter(player for task in sheet for player in task.sides)
        share = sum(own.values()) / len(names)
        assert all(abs(own[player] - share) <= 2.5 for player in names), own


def test_sheets_are_few_more_than_the_sizes_ask_for(planned):
    spec, _, sheets, tasks = planned
    assert len(sheets) <= 1.05 * len(tasks) / spec.items_a_sheet + 2


def test_sizes_that_do_not_fit_say_what_to_type():
    spec = load_protocol("mauve", {"items": 12, "items_a_sheet": 40})
    with pytest.raises(SpecError, match="nobody sees a prompt twice, and there are 12; set --items-a-sheet 12"):
        design_study(material(12), spec, controls=(), secret=b"s", seed=0)


def test_no_sheet_names_a_system_and_the_key_is_the_makers(tmp_path):
    """Blindness by grep: neither systems, nor ids of examples, nor anything of the key but the study's own id."""
    key = study(tmp_path, items=12, raters=2)
    told = [p for p in PLAYERS if p != "human"] + ["docs/0000", 'human"', key.secret, "system_a", "key.json"]
    sheets = sorted((tmp_path / "sheets").iterdir())
    assert len(sheets) == len(key.sheets)
    for path in sheets:
        page = path.read_text(encoding="utf-8")
        assert not [word for word in told if word in page], path
        assert build_form_policy(connect=False) in page.replace("&#39;", "'")
        assert "unsafe" not in build_form_policy(connect=False)
        assert "http" not in page.replace("http-equiv", "")
    assert stat.S_IMODE((tmp_path / "key.json").stat().st_mode) == 0o600
    # Ids of the same item for two raters, and of two sides, have nothing in common.
    assert derive_opaque_id(b"a", "x") != derive_opaque_id(b"b", "x")
    assert read_key(tmp_path) == key
    check_error(DataError, "choose another folder", key.save, tmp_path)


def test_two_studies_of_one_seed_share_no_id(tmp_path):
    one, other = (study(tmp_path / name) for name in "ab")
    assert not set(one.by_id) & set(other.by_id)
    assert one.study != other.study


PAIRED, RATED = "prompt,text_a,text_b,expected", "prompt;text;expected"


@cases(
    "protocol, lines",
    ("mauve", f"{PAIRED}\nOnce,good text,xx xx xx,A\nTwice,no,yes,b\n"),
    ("huse", f"{RATED}\nOnce;a text;4..5\nTwice;b;0\n"),
)
def test_controls_are_mixed_in_look_like_the_others_and_most_simulated_raters_pass_them(tmp_path, protocol, lines):
    controls = read_controls(write_file(tmp_path / "controls.csv", lines), load_protocol(protocol))
    key = study(tmp_path / "s", protocol, controls=controls, raters=3, items_a_sheet=8)
    for ids in key.sheets.values():
        tasks = [key.by_id[name] for name in ids]
        assert sum(task.is_control for task in tasks) == 2
        assert {len(task.id) for task in tasks} == {20}
    fill_all_sheets(key, tmp_path / "filled")
    answers = tabulate_answers(gather_answers([tmp_path / "filled"], key, leave_out=False))
    assert answers["passed"].notna().sum() == 2 * len(key.sheets)
    assert answers["passed"].mean() > 0.8


@cases(
    "protocol, lines, message",
    ("mauve", f"{PAIRED},criterion\nOnce,a,b,a,sensible\nTwice,no,yes,b,\n", "csv:3: column 'criterion' is empty"),
    ("mauve", f"{PAIRED}\nOnce,a,b,4\n", "csv:2: expected: one of a, b, tie, got '4'"),
    ("mauve", f"{RATED}\nOnce;a;4\n", "columns prompt, text_a, text_b, expected; no 'text_a' there"),
    ("huse", f"{RATED}\nOnce;a;4..5\nTwice;b;9\n", "csv:3: expected: no answer is in '9'; ratings go from 0 to 5"),
    ("huse", f"{RATED}\nOnce;a;good\n", "csv:2: expected: a rating, or two as 4..5, got 'good'"),
)
def test_controls_that_no_answer_meets_are_refused(tmp_path, protocol, lines, message):
    path = write_file(tmp_path / "controls.csv", lines)
    check_error(DataError, message, read_controls, path, load_protocol(protocol))


def test_the_forecast_is_told_before_anything_is_written(tmp_path):
    made = make_study(material(40), load_protocol("mauve", {"items": 40}), seed=1)
    description = "\n".join(made.lines())
    assert "120 items to rate on 8 sheets: 3.0 hours of rating" in description
    assert "95 % interval of width" in description
    assert not list(tmp_path.iterdir())
    write_study(made, tmp_path)
    assert len(list((tmp_path / "sheets").iterdir())) == 8


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
    assert '("score_coherence": score, "score_insightful": score, "score_likely": score)' in pr.judge_words.instruction
    assert list_protocol_names() == ["huse", "mauve", "pr_gpt", "pr_gpt_diversity", "typicality"]


def test_an_own_yaml_needs_no_code(tmp_path):
    path = write_file(tmp_path / "fluency.yaml", OWN)
    made = load_protocol(str(path), {"items": 5})
    assert (made.label, made.items, [a.rating for a in made.choices]) == ("fluency", 5, [1.0, 0.0])
    assert make_protocol(to_json(made), "again") == made
