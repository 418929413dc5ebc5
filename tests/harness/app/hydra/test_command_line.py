"""A command line as Hydra reads it, and what is said in place of what it could not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from openended.harness.app.hydra.command_line import chosen_sweeper, hydra_words, no_choice
from openended.harness.core.errors import SpecError


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        (["-v", "-m", "seed=0,1"], ["-m", "seed=0,1", "hydra.verbose=[openended]"]),
        (["seed=0"], ["seed=0"]),
        (["decoder=greedy", "-m", "seed=0,1"], ["-m", "decoder=greedy", "seed=0,1"]),
        (["seed=0", "-q"], ["seed=0", "hydra/job_logging=quiet"]),
        (["seed=0", "--json"], ["seed=0", "plan_only=json"]),
        (["seed=0", "--cfg", "job"], ["--cfg", "job", "seed=0"]),
        (["seed=0", "--cfg=job"], ["--cfg=job", "seed=0"]),
        (["task.path=my file (1).jsonl"], ["task.path='my file (1).jsonl'"]),
        (["task.path=it's.jsonl"], [r"task.path='it\'s.jsonl'"]),
        (["task.path=~/a.jsonl"], [f"task.path='{Path.home()}/a.jsonl'"]),
        (["task = docs"], ["task=docs"]),
        (["~decoder"], ["~decoder"]),
        (["metric=[mauve,zipf]"], ["metric=[mauve,zipf]"]),
    ],
)
def test_flags_come_first_and_values_are_quoted_that_need_it(typed, read):
    assert hydra_words(typed) == read


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["greedy"], "expected option=value, got 'greedy'; did you mean decoder=greedy?"),
        (["mauve"], r"did you mean metric=\[mauve\]\?"),
        (["gpt2-large"], "model=gpt2-large or scorer=gpt2-large or embedder=gpt2-large or judge=gpt2-large"),
        (["texts.jsonl"], "generations=texts.jsonl"),
        (["nothing"], "openended --help"),
        (["--decoder", "greedy"], "no flag '--decoder': options are given as decoder=greedy"),
        (["--max-new-tokens=5"], "options are given as max_new_tokens=5"),
        (["--decoder"], "given as decoder=…"),
        (
            ["maximize=[mauve]", "decoder.p=interval(0.5,1)"],
            "maximize= is an option of a search: add -m hydra/sweeper=",
        ),
        (["metric=[mauve,"], r"do its brackets and quotes match\? a list is typed as 'metric=\[a,b\]'"),
    ],
)
def test_what_is_no_option_says_what_to_type(typed, said):
    with pytest.raises(SpecError, match=said):
        hydra_words(typed)


def test_an_unknown_choice_names_the_nearest():
    assert no_choice("metric/mauv").startswith("no metric 'mauv'; did you mean 'mauve'?")
    assert no_choice("colour/red") is None


def test_options_of_a_search_go_to_the_sweeper_that_the_command_chooses():
    typed = ["-m", "hydra/sweeper=optuna", "spaces.nucleus.p=interval(0.5,1)", "maximize=[mauve]", "seed=0,1"]
    assert hydra_words(typed) == [
        "-m", "hydra/sweeper=optuna", "++hydra.sweeper.spaces.nucleus.p='interval(0.5,1)'",
        "hydra.sweeper.maximize=[mauve]", "seed=0,1",
    ]  # fmt: skip


def test_an_experiment_of_the_user_may_choose_the_search_by_way_of_another(tmp_path):
    said = "override /hydra/sweeper: optuna"
    folder = tmp_path / "experiment"
    folder.mkdir()
    (folder / "first.yaml").write_text(f"# @package _global_\ndefaults:\n  - {said}\n")
    (folder / "second.yaml").write_text("# @package _global_\ndefaults:\n  - first\n")
    # A comment that names the sweeper does not choose it.
    (folder / "third.yaml").write_text(f"# @package _global_\n# {said}\nseed: 1\n")
    for name, chosen in (("second", "optuna"), ("third", "union")):
        assert chosen_sweeper("config", [f"experiment={name}"], str(tmp_path)) == chosen
    typed = ["--config-dir", str(tmp_path), "-m", "experiment=second", "trials=3"]
    assert hydra_words(typed)[-2:] == ["experiment=second", "hydra.sweeper.trials=3"]
    assert hydra_words([f"--config-dir={tmp_path}", *typed[2:]])[-1] == "hydra.sweeper.trials=3"
