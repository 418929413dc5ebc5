"""From finished runs to sheets, and typicality against the frequency of sentences in a corpus."""

import math
from dataclasses import replace

import pytest

from openended.harness.app.commands.rate import COMMANDS, main
from openended.harness.core import DataError, SpecError, write_text
from openended.harness.rating.design import read_key, read_study_texts, select_usable_texts
from openended.harness.rating.protocol import load_protocol
from openended.harness.rating.study import make_study, write_datasheet
from openended.harness.report.frequency import correlate_frequency, read_typicality
from tests.harness.report.synthetic import write_run
from tests.helpers import cases, openended, write_jsonl

EXAMPLE = "docs/000001"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        write_run(folder, "nucleus", seed, texts=True)
    write_run(folder, "greedy", None, texts=True)
    return folder


def test_players_are_named_as_in_the_tables_and_one_seed_stands_for_a_system(outputs):
    made = read_study_texts([str(outputs)], outputs, load_protocol("mauve"), None)
    assert made.players == ("human", "greedy", "nucleus p=0.95")
    assert made.texts["docs/000000"]["human"] == " what people wrote & text 0 </script>"
    assert len(made.texts) == len(made.prompts) > 3
    by_decoder = read_study_texts([str(outputs)], outputs, load_protocol("mauve"), None, ["decoder", "decoder.p"])
    assert by_decoder.players == ("human", "greedy", "nucleus 0.95")
    with pytest.raises(SpecError, match="--by task: two systems are called 'docs'; add an axis in which they differ"):
        read_study_texts([str(outputs)], outputs, load_protocol("mauve"), None, ["task"])


def test_prompts_and_cuts_of_systems_differ_where_no_prompt_is_shown(tmp_path):
    """The paper's judge of biographies sees single texts; the examples in the prompts are an axis."""
    words = ["metric=[length]", "num_examples=8", "model=docs-s", "scorer=none", "name=bio", "task=biographies",
             "task.path=bio.jsonl", "task.min_words=8"]  # fmt: skip
    lives = (f"lived long and wrote the book number {i} in a house" for i in range(20))
    rows = [{"title": f"Person {i}", "content": life} for i, life in enumerate(lives)]
    write_jsonl(tmp_path / "bio.jsonl", rows)
    for changes in (["task.num_in_context=0", "max_new_tokens=8"], ["task.num_in_context=1", "max_new_tokens=6"]):
        openended(*words, *changes, "intervals=0", cwd=tmp_path, code=0)
    axes = ["model.path", "task.num_in_context"]
    runs, outputs = [str(tmp_path / "outputs/runs/bio")], tmp_path / "outputs"
    made = read_study_texts(runs, outputs, load_protocol("pr_gpt"), None, axes)
    assert set(made.players) == {"bundled:docs-s 0", "bundled:docs-s 1"}
    assert set(made.prompts.values()) == {""}
    assert made.remarks[-1] == "human texts left out: the runs cut them at different lengths"
    with pytest.raises(DataError, match="has another prompt than in another run"):
        read_study_texts(runs, outputs, load_protocol("typicality"), None, axes)
    write_jsonl(tmp_path / "bio.jsonl", rows[::-1])  # another task with the same ids
    openended(*words, "task.num_in_context=2", "max_new_tokens=8", "intervals=0", cwd=tmp_path, code=0)
    with pytest.raises(DataError, match="has another human text than in another run: rate runs of one task"):
        read_study_texts(runs, outputs, load_protocol("pr_gpt"), None, axes)


def test_make_writes_sheets_and_says_what_they_cost(outputs, tmp_path, capsys):
    options = ["--protocol", "mauve", "--items", "3", "--people", "3", "--seed", "1", "--title=My study"]
    words = ["make", str(outputs), *options, "-o", str(tmp_path / "s")]
    assert main([*words, "--dry"]) == 0
    assert not (tmp_path / "s").exists()
    assert main(words) == 0
    output = capsys.readouterr().out
    assert "3 systems (human, greedy, nucleus p=0.95)" in output
    assert "hours of rating" in output
    assert "--controls FILE adds some" in output
    key = read_key(tmp_path / "s")
    assert len(key.sheets) == len(list((tmp_path / "s" / "sheets").iterdir())) == 3
    assert key.protocol.title == "My study"
    assert main(words) == 2
    assert "holds a study" in capsys.readouterr().err


def test_runs_that_differ_in_what_measures_their_texts_are_one_system(tmp_path):
    for axes in ({}, {"judgments": "j.csv@1"}, {"scorer": "gpt2"}, {"num_examples": 200, "task.texts": "other"}):
        write_run(tmp_path, "nucleus", 0, texts=True, axes=axes)
    made = read_study_texts([str(tmp_path)], tmp_path, load_protocol("mauve"), None)
    assert made.players == ("human", "nucleus p=0.95")


@cases(
    "options, expected, flags",
    ("--people 6", "people=6: each of the 3 texts of a prompt needs 20 raters", "--people 6 --items 6 --raters 2"),
    ("--people 2 --raters 1 --items=3", "that takes 3 people", "--items=3 --raters 1 --people 3"),
    ("--items 90", "items=90: there are 6 prompts; items_a_sheet=25: nobody sees", "--items 6 --items-a-sheet 6"),
)
def test_sizes_that_do_not_fit_are_one_message_with_a_command_that_works(outputs, capsys, options, expected, flags):
    words = ["make", str(outputs), "--protocol", "huse", "--dry"]
    assert main([*words, *options.split()]) == 2
    message = capsys.readouterr().err
    assert expected in message
    assert message.endswith(f"; type: openended rate {' '.join(words)} {flags}\n")
    assert main([*words, *flags.split()]) == 0


def test_a_folder_of_runs_may_have_an_equals_sign_in_its_name(outputs, tmp_path, monkeypatch):
    (tmp_path / "p=1").symlink_to(outputs)
    monkeypatch.chdir(tmp_path)
    assert main(["make", "p=1", "--protocol", "mauve", "--items", "3", "--people", "3", "--dry"]) == 0


def test_every_command_has_help():
    for command in COMMANDS:
        with pytest.raises(SystemExit) as left:
            main([command, "--help"])
        assert left.value.code == 0


def test_texts_are_cut_left_out_or_refused_aloud(tmp_path):
    prompts = {"a": "A", "b": "B", "c": "C"}
    found = {"human": {"a": " one two three", "b": "one", "c": "x y"}, "m": {"a": "four five six", "b": "x y z"}}
    spec = load_protocol("typicality", {"cut_words": 2, "min_words": 2, "longest_tokens": 5})
    made = select_usable_texts(("human", "m"), prompts, found, {"human": 3, "m": 9}, spec)
    assert made.texts == {"a": {"human": " one two", "m": "four five"}}
    assert made.remarks == (
        "1 prompts left out: not every system has a text for them",
        "1 texts have fewer than 2 words: their prompts are left out",
    )
    spec = load_protocol("typicality", {"longest_tokens": 5})
    with pytest.raises(DataError, match=r"texts of up to 9 tokens.*max_new_tokens=5, or give --cut-words N"):
        select_usable_texts(("human", "m"), prompts, found, {"human": 3, "m": 9}, spec)
    imported = select_usable_texts(("human", "m"), prompts, found, {"human": 3, "m": 0}, spec)
    remark = "longest_tokens=5 is not checked: the texts of m have no tokens; --cut-words N"
    assert imported.remarks[-1].startswith(remark)


def test_a_pair_needs_two_texts_that_are_long_enough():
    prompts = {name: name for name in "abc"}
    found = {player: {name: f"{player} {name}" for name in "abc"} for player in ("human", "m", "n")}
    spec = load_protocol("mauve", {"shortest_tokens": 9, "items": 2, "hourly_pay": 18, "seconds_an_item": 100})
    short = {("m", "a"), ("m", "b"), ("n", "b")}
    made = select_usable_texts(tuple(found), prompts, found, {}, spec, frozenset(), short)
    assert {example: set(texts) for example, texts in made.texts.items()} == {"a": {"human", "n"}, "c": set(found)}
    assert "3 texts have fewer than 1 words or 9 tokens: their pairs are left out" in made.remarks
    with pytest.raises(SpecError, match=r"items=2: there are 1 prompts for each pair of systems; .*set --items 1"):
        make_study(made, spec)
    made = make_study(made, replace(spec, items=1, items_a_sheet=1), seed=0)
    assert all(set(task.sides) <= set(made.key.material.texts[task.example]) for task in made.key.tasks)
    assert "pay at 18 per hour: 0.50 per item, 1.50 in all" in list(made.lines())
    sheet = "\n".join(write_datasheet(made))
    for line in ("- 3 items, each a pair", "- human: in 2 items", "- pay: 0.50 per item (18 per hour)", "- 2 worked examples",
                 "- shortest_tokens: 9", "- human_like: Which continuation is more likely"):  # fmt: skip
        assert line in sheet


def test_excluded_prompts_are_left_out(outputs, tmp_path):
    write_text(tmp_path / "ids.txt", f"{EXAMPLE}\n\n")
    made = read_study_texts([str(outputs)], outputs, load_protocol("mauve"), tmp_path / "ids.txt")
    assert EXAMPLE not in made.texts
    assert "1 prompts left out: named in exclude" in made.remarks


COUNTS = {"it rains": 27, "the cat sat": 9, "we left": 3, "an owl sang": 1}


@pytest.fixture
def files(tmp_path):
    rated = {text: 1 + math.log(count, 3) for text, count in COUNTS.items()} | {"nobody wrote this": 1.0}
    lines = [f"{text},{rating - 0.5:.4f},{rating + 0.5:.4f}" for text, rating in rated.items()]
    (tmp_path / "r.csv").write_text("\n".join(["text,rating_1,rating_2", *lines]) + "\n")
    corpus = [text.upper() for text, count in COUNTS.items() for _ in range(count)] + ["something else"]
    (tmp_path / "c.txt").write_text("\n".join(corpus) + "\n")
    return tmp_path


def test_ratings_linear_in_log_frequency_correlate_perfectly(files):
    found, absent = read_typicality(files / "r.csv", files / "c.txt")
    assert dict(zip(found["text"], found["count"], strict=True)) == COUNTS
    assert found["rating"].tolist() == pytest.approx([1 + math.log(count, 3) for count in found["count"]], abs=1e-3)
    # Two ratings 1 apart: sd 0.7071, standard error 0.5, and t of one degree of freedom at 95 % is 6.3138.
    assert found["reach"].tolist() == pytest.approx([3.1569] * 4, abs=1e-3)
    assert correlate_frequency(found) == pytest.approx((1.0, 1.0, 1.0), abs=1e-6)
    assert absent == 1


def test_the_command_writes_sentences_and_a_picture(files, capsys):
    words = ["frequency", str(files / "r.csv"), "--corpus", str(files / "c.txt"), "-o", str(files / "out.csv")]
    assert main(words) == 0
    output = capsys.readouterr().out
    assert "r = 1.00 [1.00, 1.00] between log-frequency and typicality; 4 sentences" in output
    assert "1 rated sentences are not in the corpus" in output
    assert (files / "out.csv").read_text().splitlines()[1].startswith("an owl sang,1,")
    assert (files / "out.png").read_bytes().startswith(b"\x89PNG")
    (files / "r.csv").write_text("id,rating\na,1\n")
    assert main(words) == 2
    assert "expected the columns text and rating" in capsys.readouterr().err
