"""The completion script, in a real bash."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from openended.harness.app.cli import list_commands
from openended.harness.app.commands import completion
from tests.helpers import exit_code

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")


@pytest.fixture(scope="module")
def script():
    return completion.write_script("bash")


def complete(script, *words):
    """Return what a Tab after these words offers."""
    typed = " ".join(words)
    quoted = " ".join(f"'{word}'" for word in words)
    lines = [
        f'openended() {{ "{sys.executable}" -m openended.harness "$@"; }}',
        script,
        f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; COMP_LINE='{typed}'; COMP_POINT={len(typed)}",
        '_openended; printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, timeout=120, check=False)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("report", "--lay"), "--layout"),
        (("score", "a.jsonl", "--hum"), "--human"),
        (("export", "name", "--no"), "--no-store"),
        (("import", "--tr"), "--trust"),
        (("status", "--out"), "--outputs"),
        (("store", "--un"), "--unnamed"),
        (("show", "--te"), "--texts"),
        (("list", "--he"), "--help"),
        (("describe", "--he"), "--help"),
        (("rate", "ma"), "make"),
        (("rate", "make", "--proto"), "--protocol"),
        (("rate", "serve", "--po"), "--port"),
        (("finetune", "epo"), "epochs="),
        (("completion", "ba"), "bash"),
    ],
)
def test_flags_of_every_command_are_offered(script, words, offered):
    assert offered in complete(script, "openended", *words)


def test_every_command_is_in_the_script(script):
    for name in list_commands():
        assert f'"{name} "*)' in script


@pytest.mark.slow
def test_commands_and_options_are_offered(script):
    assert "report" in complete(script, "openended", "rep")
    assert complete(script, "openended", "seed=1", "decoder=nucl") == ["decoder=nucleus"]


def test_zsh_loads_the_completion_of_bash_first():
    assert "bashcompinit" in completion.write_script("zsh")


def test_a_shell_that_is_not_known_is_refused(capsys):
    assert exit_code(lambda: completion.main(["fish"])) == 2
    assert "shell: expected one of bash, zsh, got 'fish'" in capsys.readouterr().err
