"""A command line as Hydra reads it, and what is said in place of what it could not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from openended.harness.app.hydra.command_line import explain_missing_choice, resolve_sweeper, to_hydra_arguments
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
        (["seed=0", "--cfg=job"], ["--cfg", "job", "seed=0"]),
        (["task.path=my file (1).jsonl"], ["task.path='my file (1).jsonl'"]),
        (["task.path=it's.jsonl"], [r"task.path='it\'s.jsonl'"]),
        (["task.path=~/a.jsonl"], [f"task.path='{Path.home()}/a.jsonl'"]),
        (["task = docs"], ["task=docs"]),
        (["~decoder"], ["~decoder"]),
        (["metric=[mauve,zipf]"], ["metric=[mauve,zipf]"]),
    ],
)
def test_flags_come_first_and_values_are_quoted_that_need_it(typed, read):
    assert to_hydra_arguments(typed) == read


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["greedy"], "expected option=value, got 'greedy'; did you mean decoder=greedy?"),
        (["mauve"], r"did you mean metric=\[mauve\]\?"),
        (["gpt2-large"], "model=gpt2-large or scorer=gpt2-large or embedder=gpt2-large or scoring=gpt2-large"),
        (["texts.jsonl"], "openended score texts.jsonl --human FILE"),
        (["nothing"], "openended --help"),
        (["--decoder", "greedy"], "no flag '--decoder': an option is typed as decoder=greedy"),
        (["--max-new-tokens=5"], "typed as max_new_tokens=5"),
        (["--decoder"], "typed as decoder=…"),
        (
            ["maximize=[mauve]", "decoder.p=interval(0.5,1)"],
            "maximize= is an option of a search: add -m hydra/sweeper=",
        ),
        (["metric=[mauve,"], r"do its brackets and quotes match\? a list is typed as 'metric=\[a,b\]'"),
    ],
)
def test_what_is_no_option_says_what_to_type(typed, said):
    with pytest.raises(SpecError, match=said):
        to_hydra_arguments(typed)


def test_scoring_chooses_scorer_and_embedder_and_its_old_name_prints_the_new_one(capsys):
    assert to_hydra_arguments(["scoring=gpt2-large"]) == ["scoring=gpt2-large"]
    assert capsys.readouterr().err == ""
    assert to_hydra_arguments(["judge=gpt2,none"]) == ["scoring=gpt2,none"]
    assert capsys.readouterr().err == "openended: judge=gpt2,none is now scoring=gpt2,none\n"
    assert explain_missing_choice("scoring/gpt9").startswith("no scoring 'gpt9'")


def test_an_unknown_choice_names_the_nearest():
    assert explain_missing_choice("metric/mauv").startswith("no metric 'mauv'; did you mean 'mauve'?")
    assert explain_missing_choice("colour/red") is None


def test_options_of_a_search_go_to_the_sweeper_that_the_command_chooses():
    typed = ["-m", "hydra/sweeper=optuna", "spaces.nucleus.p=interval(0.5,1)", "maximize=[mauve]", "seed=0,1"]
    assert to_hydra_arguments(typed) == [
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
        assert resolve_sweeper("config", [f"experiment={name}"], str(tmp_path)) == chosen
    typed = ["--config-dir", str(tmp_path), "-m", "experiment=second", "trials=3"]
    assert to_hydra_arguments(typed)[-2:] == ["experiment=second", "hydra.sweeper.trials=3"]
    assert to_hydra_arguments([f"--config-dir={tmp_path}", *typed[2:]])[-1] == "hydra.sweeper.trials=3"


def test_samples_from_a_file_are_generations(capsys):
    assert to_hydra_arguments(["samples=out/a.json"]) == ["generations=out/a.json"]
    assert capsys.readouterr().err == "openended: samples=out/a.json is now generations=out/a.json\n"
    assert to_hydra_arguments(["samples=1,2"]) == ["samples=1,2"]
