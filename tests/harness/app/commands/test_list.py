"""Lists of what can be chosen, and what each is."""

import pytest

from openended.harness.app.commands.describe import describe_option, main as describe
from openended.harness.app.commands.list import STATES, main, read_papers
from openended.harness.core.registry import GROUPS, list_choices


@pytest.mark.parametrize("group", GROUPS)
def test_every_choice_has_a_line_of_meaning(group):
    assert list_choices(group)
    assert not [name for name, line in list_choices(group).items() if not line or "\n" in line]


def test_a_list_in_the_plural(capsys):
    assert main(["metrics"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(list_choices("metric"))
    assert any(line.startswith("zipf ") and "log rank" in line for line in lines)
    assert main([]) == 0
    assert "  quickstart " in capsys.readouterr().out


def test_a_metric_has_formula_options_and_sources(capsys):
    assert describe(["mauve"]) == 0
    said = capsys.readouterr().out
    for part in ("metric=[mauve]", "KL(q || r)", "Source: Pillutla et al. 2021", "scaling_factor: 5.0 # the paper's c"):
        assert part in said


@pytest.mark.slow
@pytest.mark.parametrize("group", ["metric", "decoder", "task", "model", "embedder", "experiment"])
def test_everything_can_be_described(group):
    for name in list_choices(group):
        assert describe_option(f"{group}/{name}").startswith(group)


def test_the_papers_list_names_every_experiment_of_a_paper_and_no_other(capsys):
    items = [item for paper in read_papers().values() for item in paper["items"]]
    listed = {item["experiment"] for item in items if "experiment" in item}
    experiments = set(list_choices("experiment"))
    assert listed <= experiments
    assert {name for name in experiments if name.startswith(("mauve_", "pr_", "huse_"))} <= listed
    assert all((item["state"] == "none") == (not {"experiment", "command"} & set(item)) for item in items)
    assert all(item["state"] in STATES and (item["state"] != "files") <= ("needs" not in item) for item in items)
    assert main(["papers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:3] == ["Table", "3", "mauve_table3"] for line in lines)
    assert len(lines) == len(items) + len(read_papers()) + 1
