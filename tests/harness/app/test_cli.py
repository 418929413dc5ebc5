"""`openended` before Hydra: commands by their names, help, version."""

import subprocess
import sys
import tomllib

import pytest

from openended import __version__
from openended.harness.app import cli
from tests.helpers import ROOT, exit_code, openended


def test_version_is_ours(capsys):
    assert exit_code(cli.main, "--version") == 0
    assert capsys.readouterr().out == f"openended {__version__}\n"


def test_help_gives_every_choice_with_its_meaning(capsys):
    assert exit_code(cli.main, "--help") == 0
    said = capsys.readouterr().out
    for part in (
        "nucleus               Sampling from the smallest set of tokens with mass p (Holtzman et al. 2020)",
        "  Bundled data and models, end to end",
        "openended export NAME archive.zip",
        "Command `openended report`: build tables",
        "openended rate make|collect|simulate|serve|judge",
        "openended finetune`: one epoch",
        "num_examples: 500",
        "metric=[a,b]",
    ):
        assert part in said, part
    assert max(map(len, said.splitlines())) < 240


def test_help_and_lists_load_nothing_heavy():
    code = (
        "import sys; sys.argv = ['openended', '--help']\n"
        "from openended.harness.app.cli import main; main()\n"
        "sys.argv = ['openended', 'list', 'metrics']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print([m for m in ('torch', 'transformers', 'hydra', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240)
    assert done.stdout.splitlines()[-1] == "[]"


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
