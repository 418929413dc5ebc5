"""`openended` before Hydra: commands by their names, help, lists, and completion in a real bash."""

import shutil
import tomllib

import pytest
import yaml

from openended import __version__
from openended.harness.app import cli
from openended.harness.app.commands import completion
from openended.harness.app.commands.describe import describe_choice, main as describe
from openended.harness.app.commands.list import STATES, main as list_choices_of, read_papers
from openended.harness.core import GROUPS, list_choices
from tests.helpers import ROOT, cases, exit_code, openended, run_process


def test_version_is_ours(capsys):
    assert exit_code(cli.main, "--version") == 0
    assert capsys.readouterr().out == f"openended {__version__}\n"


def test_help_gives_every_choice_with_its_meaning(capsys):
    assert exit_code(cli.main, "--help") == 0
    output = capsys.readouterr().out
    for part in (
        "nucleus               Sampling from the smallest set of tokens with mass p (Holtzman et al. 2020)",
        "  Bundled data and models, end to end",
        "openended export NAME archive.zip",
        "Command `openended report`: build tables",
        "openended rate make|",
        "openended finetune`: one epoch",
        "num_examples: 500",
        "metric=[a,b]",
    ):
        assert part in output, part
    assert max(map(len, output.splitlines())) < 240


@pytest.mark.parametrize("name", sorted(cli.list_commands()))
def test_every_command_has_a_line_of_help(name, capsys):
    assert exit_code(cli.main, name, "--help") == 0
    assert f"openended {name}" in capsys.readouterr().out


def test_commands_of_other_folders_are_the_entry_points_of_their_old_names(tmp_path):
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    for name in ("report", "rate", "finetune"):
        assert scripts[f"openended-{name}"] == f"{cli.list_commands()[name]}:main"
    done = openended("report", str(tmp_path / "gone"), cwd=tmp_path, verbose=False, code=2)
    assert done.stderr == f"openended report: no run folder or run name '{tmp_path / 'gone'}'\n"


@pytest.mark.parametrize("group", GROUPS)
def test_every_choice_has_a_line_of_meaning(group):
    assert list_choices(group)
    assert not [name for name, line in list_choices(group).items() if not line or "\n" in line]


def test_a_list_in_the_plural(capsys):
    assert list_choices_of(["metrics"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(list_choices("metric"))
    assert any(line.startswith("zipf ") and "log rank" in line for line in lines)
    assert list_choices_of([]) == 0
    assert "  quickstart " in capsys.readouterr().out


def test_a_metric_has_formula_options_and_sources(capsys):
    assert describe(["mauve"]) == 0
    output = capsys.readouterr().out
    parts = ("metric=[mauve]", "KL(q || r)", "Source: Pillutla et al. 2021", "scaling_factor: 5.0 # The paper's c.")
    assert [part for part in parts if part not in output] == []


def test_the_options_alone_are_yaml(capsys):
    assert describe(["decoder/nucleus", "--yaml"]) == 0
    output = capsys.readouterr().out
    assert yaml.safe_load(output)["p"] == 0.95
    assert "p: 0.95 # Pillutla et al. 2021, Table 3." in output


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_everything_can_be_described(group):
    for name in list_choices(group):
        assert describe_choice(f"{group}/{name}").startswith(group)


@pytest.mark.parametrize(
    ("word", "described"),
    [
        ("num_examples", "num_examples: 500"),
        ("mauve.num_buckets", "metric.mauve.num_buckets=auto: A tenth of the smaller side"),
        ("metric.mauve.kmeans_num_redo", "metric.mauve.restarts=5: "),  # as mauve-text calls it
        ("nucleus.top_p", "decoder.p=0.95: "),
    ],
)
def test_one_option_can_be_described(word, described, capsys):
    assert describe([word]) == 0
    assert capsys.readouterr().out.startswith(described)


def test_the_papers_list_names_every_experiment_of_a_paper_and_no_other(capsys):
    items = [item for paper in read_papers().values() for item in paper["items"]]
    listed = {item["experiment"] for item in items if "experiment" in item}
    experiments = set(list_choices("experiment"))
    assert listed <= experiments
    assert {name for name in experiments if name.startswith(("mauve_", "pr_", "huse_"))} <= listed
    assert all((item["state"] == "none") == (not {"experiment", "command"} & set(item)) for item in items)
    assert all(item["state"] in STATES and (item["state"] in ("files", "part")) == ("needs" in item) for item in items)
    assert sum(item["state"] == "part" for item in items) <= 12
    assert list_choices_of(["papers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:3] == ["Table", "3", "mauve_table3"] for line in lines)
    assert len(lines) == len(items) + len(read_papers()) + 1


@pytest.fixture(scope="module")
def script():
    if shutil.which("bash") is None:
        pytest.skip("no bash")
    return completion.write_script("bash")


def complete(script, *words):
    """Return what a Tab after these words offers."""
    quoted = " ".join(f"'{word}'" for word in words)  # bash splits words at =
    asked = f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}"
    lines = "\n".join([script, asked, '_openended; printf "%s\\n" "${COMPREPLY[@]}"'])
    return run_process("bash", "-c", lines, code=None).stdout.split()


@cases(
    "words, offered",
    ("report --lay", "--layout"), ("rate ma", "make"), ("rate make --proto", "--protocol"), ("finetune epo", "epochs="),
    ("completion ba", "bash"), ("rep", "report"), ("dec", "decoder="), ("seed = 1 decoder = nucl", "nucleus"),
)  # fmt: skip
def test_commands_flags_options_and_choices_are_offered(script, words, offered):
    assert offered in complete(script, "openended", *words.split())


def test_a_crash_has_an_exit_code_of_its_own(capsys, monkeypatch):
    def crash(*_: object) -> None:
        raise KeyError("unforeseen")

    monkeypatch.setattr("openended.harness.app.commands.check._read", crash)
    assert exit_code(cli.main, "check", "a", "b") == 70
    assert "KeyError: 'unforeseen'" in capsys.readouterr().err

    def exhaust(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("openended.harness.app.commands.check._read", exhaust)
    assert exit_code(cli.main, "check", "a", "b") == 70
    assert "memory ran out" in capsys.readouterr().err
